//! Replays: executions of plans captured as CUDA graphs, timed between two events.

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;

use super::super::{Capture, Replay};
use super::{CudaDevice, Fault, Work, fault};

/// The most replays in a row that wait for the device at a time.
pub(super) const MAX_IN_FLIGHT: usize = 32;

/// Captured executions.
#[derive(Clone, Copy)]
pub(super) struct Captured {
    executions: sys::CUgraphExec,
    /// Copies the initial values into the tensors that the executions update in place. `None` if there are no such tensors.
    restores: Option<sys::CUgraphExec>,
}

impl Captured {
    /// Returns all graphs.
    pub(super) fn graphs(&self) -> impl Iterator<Item = sys::CUgraphExec> {
        [self.executions].into_iter().chain(self.restores)
    }
}

impl Replay for CudaDevice {
    fn capture(&mut self, works: &[Work<'_>], executions: u32) -> Result<Capture, Fault> {
        self.settle()?;
        let mut executed = works.iter().cycle().take(executions as usize);
        let executions = self.graph_of(|device| executed.try_for_each(|work| device.enqueue(work)))?;
        let handle = self.handle();
        self.captures.insert(handle, Captured { executions, restores: None });
        let mut copies = works.iter().flat_map(|work| work.restores).peekable();
        if copies.peek().is_some() {
            let restores =
                self.graph_of(|device| copies.try_for_each(|copy| device.copy_within(copy.from, copy.to)))?;
            self.captures.insert(handle, Captured { executions, restores: Some(restores) });
        }
        Ok(Capture(handle))
    }

    /// One graph restores, another executes. While the first runs, the host launches the second, so that the device
    /// does not wait for the host in between.
    fn replay(&mut self, capture: Capture) -> Result<f64, Fault> {
        let Captured { executions, restores } = *self.captured(capture)?;
        self.settle()?;
        // SAFETY: graphs, stream and events are alive, and the events are recorded before they are compared.
        let elapsed_ms = unsafe {
            restores
                .map_or(Ok(()), |restores| result::graph::launch(restores, self.stream))
                .and_then(|()| result::event::record(self.before, self.stream))
                .and_then(|()| result::graph::launch(executions, self.stream))
                .and_then(|()| result::event::record(self.after, self.stream))
                .and_then(|()| result::event::synchronize(self.after))
                .and_then(|()| result::event::elapsed(self.before, self.after))
        };
        elapsed_ms.map(|ms| f64::from(ms) * 1e6).map_err(|error| fault(&error))
    }

    fn begin_timing(&mut self) -> Result<Option<f64>, Fault> {
        self.join_other_graphs().map(Some)
    }

    /// Each replay is launched while the one before runs. A replay that is launched on an idle device seems to take
    /// longer by what the host needs to launch it, and a PyTorch program needs longer than this one.
    ///
    /// A replay that restores tensors first never begins on an idle device, and each is timed by itself.
    fn replay_in_a_row(&mut self, capture: Capture, count: usize) -> Result<Vec<f64>, Fault> {
        let Captured { executions, restores } = *self.captured(capture)?;
        if restores.is_some() {
            return (0..count).map(|_| self.replay(capture)).collect();
        }
        self.settle()?;
        let replays_ms = self.in_a_row(executions, count).map_err(|error| fault(&error))?;
        Ok(replays_ms.into_iter().map(|ms| f64::from(ms) * 1e6).collect())
    }

    fn release(&mut self, capture: Capture) -> Result<(), Fault> {
        let graphs = self.captures.remove(&capture.0);
        graphs.iter().flat_map(Captured::graphs).try_for_each(|graph| {
            // SAFETY: the graph was just removed from the table. It is not running: `replay` waits for its last graph.
            unsafe { result::graph::exec_destroy(graph) }.map_err(|error| fault(&error))
        })
    }
}

impl CudaDevice {
    fn captured(&self, capture: Capture) -> Result<&Captured, Fault> {
        self.captures.get(&capture.0).ok_or_else(|| Fault::Broken("no such capture".to_owned()))
    }

    /// Returns a graph of what `enqueue` puts on the stream, ready to be launched.
    fn graph_of(&mut self, enqueue: impl FnOnce(&mut Self) -> Result<(), Fault>) -> Result<sys::CUgraphExec, Fault> {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is idle, and the capture is always ended below.
        unsafe { result::stream::begin_capture(self.stream, mode) }.map_err(|error| fault(&error))?;
        let enqueued = enqueue(self);
        // SAFETY: capture was begun on this stream.
        let captured = unsafe { result::stream::end_capture(self.stream) };
        enqueued?;
        let captured = captured.map_err(|error| fault(&error))?;
        // SAFETY: the graph came from the capture. It may be destroyed once it is instantiated.
        let graph = unsafe {
            let graph = result::graph::instantiate(captured, sys::CUgraphInstantiate_flags(0));
            let _ = result::graph::destroy(captured);
            graph.map_err(|error| fault(&error))?
        };
        // SAFETY: graph and stream are alive. Uploading now keeps the upload out of the first sample.
        unsafe { result::graph::upload(graph, self.stream) }.map_err(|error| fault(&error))?;
        self.synchronize()?;
        Ok(graph)
    }

    /// Returns the times of replays in a row, in milliseconds.
    fn in_a_row(&self, replay: sys::CUgraphExec, count: usize) -> Result<Vec<f32>, DriverError> {
        let mark = |number: usize| self.marks[number % self.marks.len()];
        let mut replays_ms = Vec::with_capacity(count);
        // SAFETY: graph, stream and events are alive. Two events are compared after both are recorded, and before
        // either is recorded again.
        unsafe {
            let elapsed_ms = |first: usize| {
                result::event::synchronize(mark(first + 1))?;
                result::event::elapsed(mark(first), mark(first + 1))
            };
            result::event::record(mark(0), self.stream)?;
            for number in 1..=count {
                if number > MAX_IN_FLIGHT {
                    replays_ms.push(elapsed_ms(number - MAX_IN_FLIGHT - 1)?);
                }
                result::graph::launch(replay, self.stream)?;
                result::event::record(mark(number), self.stream)?;
            }
            for first in replays_ms.len()..count {
                replays_ms.push(elapsed_ms(first)?);
            }
        }
        Ok(replays_ms)
    }
}
