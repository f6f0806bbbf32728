//! Replays: executions of plans captured as CUDA graphs, timed between two events.

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;

use super::super::{Capture, Replay};
use super::{CudaDevice, Fault, Work, fault};

/// The most replays in a row that wait for the device at a time.
pub(super) const MAX_IN_FLIGHT: usize = 32;

impl Replay for CudaDevice {
    fn capture(&mut self, works: &[Work<'_>], executions: u32) -> Result<Capture, Fault> {
        self.settle()?;
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is idle, and the capture is always ended below.
        unsafe { result::stream::begin_capture(self.stream, mode) }.map_err(|error| fault(&error))?;
        let enqueued = works.iter().cycle().take(executions as usize).try_for_each(|work| self.enqueue(work));
        // SAFETY: capture was begun on this stream.
        let graph = unsafe { result::stream::end_capture(self.stream) };
        enqueued?;
        let graph = graph.map_err(|error| fault(&error))?;
        // SAFETY: the graph came from the capture. It may be destroyed once it is instantiated.
        let replay = unsafe {
            let replay = result::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0));
            let _ = result::graph::destroy(graph);
            replay.map_err(|error| fault(&error))?
        };
        let handle = self.handle();
        self.captures.insert(handle, replay);
        // SAFETY: graph and stream are alive. Uploading now keeps the upload out of the first sample.
        unsafe { result::graph::upload(replay, self.stream) }.map_err(|error| fault(&error))?;
        self.synchronize()?;
        Ok(Capture(handle))
    }

    fn replay(&mut self, capture: Capture) -> Result<f64, Fault> {
        let replay = *self.captures.get(&capture.0).ok_or_else(|| Fault::Broken("no such capture".to_owned()))?;
        self.settle()?;
        // SAFETY: graph, stream and events are alive, and the events are recorded before they are compared.
        let elapsed_ms = unsafe {
            result::event::record(self.before, self.stream)
                .and_then(|()| result::graph::launch(replay, self.stream))
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
    fn replay_in_a_row(&mut self, capture: Capture, count: usize) -> Result<Vec<f64>, Fault> {
        let replay = *self.captures.get(&capture.0).ok_or_else(|| Fault::Broken("no such capture".to_owned()))?;
        self.settle()?;
        let replays_ms = self.in_a_row(replay, count).map_err(|error| fault(&error))?;
        Ok(replays_ms.into_iter().map(|ms| f64::from(ms) * 1e6).collect())
    }

    fn release(&mut self, capture: Capture) -> Result<(), Fault> {
        match self.captures.remove(&capture.0) {
            // SAFETY: the graph was just removed from the table. None of its replays is running: `replay` waits for
            // each.
            Some(replay) => unsafe { result::graph::exec_destroy(replay) }.map_err(|error| fault(&error)),
            None => Ok(()),
        }
    }
}

impl CudaDevice {
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
