//! Keeps this process in the state of its graphs in which replays are timed.
//!
//! A node of a replayed graph takes 0.18 us longer from when a graph of ten kernels or more is uploaded, until that
//! graph is launched or another process uses the GPU (H200, driver 580.159.04, 2026-11-22,
//! `docs/measuring/graph_state.py`). A program with several graphs is in that state. This process enters it at the
//! start of each turn, by uploading a graph that is never launched. Another graph of the same kernels is timed as a
//! control, which tells the two states apart.

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;

use super::{CudaDevice, Fault, describe, fault};
use crate::domain::statistics::median;

/// An empty kernel, which the driver compiles for its device.
const EMPTY: &[u8] = b".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry empty()\n{\n ret;\n}\n\0";

/// Kernels of the waiting graph. Ten are enough, and three are not.
const WAITING_KERNELS: u32 = 32;

/// Kernels of the control graph.
const CONTROL_KERNELS: u32 = 90;

/// Replays of the control. The first is not counted. At 0.7 us a node, they take 0.4 ms.
const CONTROL_REPLAYS: usize = 6;

/// The control graph and the waiting graph.
pub(super) struct GraphState {
    module: sys::CUmodule,
    kernel: sys::CUfunction,
    control: sys::CUgraphExec,
    marks: Vec<sys::CUevent>,
    waiting: Option<sys::CUgraphExec>,
}

impl GraphState {
    /// Loads the empty kernel and launches the control once, so that it does not wait.
    fn new(stream: sys::CUstream) -> Result<Self, DriverError> {
        // SAFETY: the text ends with a NUL byte, and the module lives until `free`.
        let (module, kernel) = unsafe {
            let module = result::module::load_data(EMPTY.as_ptr().cast())?;
            (module, result::module::get_function(module, c"empty".to_owned())?)
        };
        let flags = sys::CUevent_flags::CU_EVENT_DEFAULT;
        let marks = (0..=CONTROL_REPLAYS).map(|_| result::event::create(flags)).collect::<Result<_, _>>()?;
        let control = uploaded(stream, kernel, CONTROL_KERNELS)?;
        // SAFETY: graph and stream are alive.
        unsafe { result::graph::launch(control, stream).and_then(|()| result::stream::synchronize(stream))? };
        Ok(Self { module, kernel, control, marks, waiting: None })
    }

    /// Uploads a new graph that is never launched, in place of the last one.
    fn wait(&mut self, stream: sys::CUstream) -> Result<(), DriverError> {
        let waiting = uploaded(stream, self.kernel, WAITING_KERNELS)?;
        match self.waiting.replace(waiting) {
            // SAFETY: it was never launched, and its upload has ended.
            Some(last) => unsafe { result::graph::exec_destroy(last) },
            None => Ok(()),
        }
    }

    /// Returns the time of a node of the control, in nanoseconds.
    fn control_ns(&self, stream: sys::CUstream) -> Result<f64, DriverError> {
        // SAFETY: graph, stream and events are alive, and the events are recorded before they are compared.
        unsafe {
            result::event::record(self.marks[0], stream)?;
            for mark in &self.marks[1..] {
                result::graph::launch(self.control, stream)?;
                result::event::record(*mark, stream)?;
            }
            result::stream::synchronize(stream)?;
            let elapsed_ms = |pair: &[sys::CUevent]| result::event::elapsed(pair[0], pair[1]).map(f64::from);
            let replays_ms = self.marks[1..].windows(2).map(elapsed_ms).collect::<Result<Vec<_>, _>>()?;
            Ok(median(&replays_ms).unwrap_or_default() * 1e6 / f64::from(CONTROL_KERNELS))
        }
    }

    /// Frees everything. Errors at the end of the process change nothing.
    pub(super) fn free(&mut self) {
        // SAFETY: each handle is released once: the device drops this right after.
        unsafe {
            for graph in self.waiting.take().into_iter().chain([self.control]) {
                let _ = result::graph::exec_destroy(graph);
            }
            for mark in self.marks.drain(..) {
                let _ = result::event::destroy(mark);
            }
            let _ = result::module::unload(self.module);
        }
    }
}

impl CudaDevice {
    /// Brings the process into the state of the graphs. Returns the time of a node of the control, in nanoseconds.
    pub(super) fn join_other_graphs(&mut self) -> Result<f64, Fault> {
        self.settle()?;
        if self.graphs.is_none() {
            let graphs = GraphState::new(self.stream).map_err(|error| {
                let reason = describe(&error);
                Fault::Broken(format!("the driver does not run an empty kernel, by which graphs are timed: {reason}"))
            })?;
            self.graphs = Some(graphs);
        }
        let stream = self.stream;
        let Some(graphs) = &mut self.graphs else { return Ok(0.0) };
        graphs.wait(stream).and_then(|()| graphs.control_ns(stream)).map_err(|error| fault(&error))
    }
}

/// Returns a graph of empty kernels that is uploaded and not launched.
fn uploaded(stream: sys::CUstream, kernel: sys::CUfunction, kernels: u32) -> Result<sys::CUgraphExec, DriverError> {
    let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    // SAFETY: the stream is idle, its capture is always ended, and the kernel takes no arguments. The graph may be
    // destroyed once it is instantiated.
    unsafe {
        result::stream::begin_capture(stream, mode)?;
        let launched =
            (0..kernels).try_for_each(|_| result::launch_kernel(kernel, (1, 1, 1), (32, 1, 1), 0, stream, &mut []));
        let graph = result::stream::end_capture(stream);
        launched?;
        let graph = graph?;
        let uploaded = result::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0));
        let _ = result::graph::destroy(graph);
        let uploaded = uploaded?;
        result::graph::upload(uploaded, stream)?;
        result::stream::synchronize(stream)?;
        Ok(uploaded)
    }
}
