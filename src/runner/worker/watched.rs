//! A device wrapper that reports launches and replays, because these have their own deadlines.
//!
//! A step such as a check also has CPU work, which may take long but is known to end. A launch that takes long is a
//! hanging kernel. So is a replay that takes far longer than its separate launches did.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Time between reports of replays, so long that no measured time contains a report.
pub(super) const REPORT_INTERVAL: Duration = Duration::from_secs(1);

use crate::domain::code::artifact::Artifact;
use crate::domain::device::DeviceInfo;
use crate::domain::op::Dtype;
use crate::runner::device::{Buffer, Capture, Device, Digest, Fault, Model, Module, Replay, Work};
use crate::runner::messages::WorkerReply;

/// The destination of a worker's replies.
pub(super) type ReplySink = Box<dyn FnMut(&WorkerReply) -> io::Result<()>>;

/// Sends a worker's reports of its progress.
#[derive(Clone)]
pub(super) struct Reporter(Rc<RefCell<ReplySink>>);

impl Reporter {
    pub fn new(sink: ReplySink) -> Self {
        Self(Rc::new(RefCell::new(sink)))
    }

    pub fn say(&self, reply: &WorkerReply) -> io::Result<()> {
        (*self.0.borrow_mut())(reply)
    }

    /// Reports progress.
    pub fn tell(&self, progress: &WorkerReply) {
        // If the supervisor has exited, the end of this process's input ends the process.
        let _ = self.say(progress);
    }
}

/// A device that reports its launches and replays.
pub(super) struct WatchedDevice {
    pub device: Box<dyn Device>,
    pub reporter: Reporter,
    /// Seconds of the last launch.
    launch_s: f64,
    /// The longest expected time of a replay of each capture, in seconds.
    expected_s: HashMap<Capture, f64>,
    /// When replays were last reported; `None` if something else was reported since.
    replays_reported_at: Option<Instant>,
}

impl WatchedDevice {
    pub fn new(device: Box<dyn Device>, reporter: Reporter) -> Self {
        Self { device, reporter, launch_s: 0.0, expected_s: HashMap::new(), replays_reported_at: None }
    }

    /// Returns the device for anything but replays, and continues the step after replays.
    fn resume_step(&mut self) -> &mut dyn Device {
        if self.replays_reported_at.take().is_some() {
            self.reporter.tell(&WorkerReply::StepResumed);
        }
        self.device.as_mut()
    }

    fn replays(&mut self) -> Result<&mut dyn Replay, Fault> {
        let models = || Fault::Broken("the device models its times and cannot replay".to_owned());
        self.device.as_replay().ok_or_else(models)
    }
}

/// Forwards every method, also those with defaults in the trait.
impl Device for WatchedDevice {
    fn launch(&mut self, work: &Work<'_>) -> Result<(), Fault> {
        self.replays_reported_at = None;
        self.reporter.tell(&WorkerReply::Launch);
        let started = Instant::now();
        let launched = self.device.launch(work);
        self.launch_s = started.elapsed().as_secs_f64();
        self.reporter.tell(&WorkerReply::StepResumed);
        launched
    }

    fn info(&self) -> &DeviceInfo {
        self.device.info()
    }

    fn load(&mut self, artifact: &Artifact) -> Result<Module, Fault> {
        self.resume_step().load(artifact)
    }

    fn unload(&mut self, module: Module) -> Result<(), Fault> {
        self.resume_step().unload(module)
    }

    fn noticed(&self) -> Option<String> {
        self.device.noticed()
    }

    fn alloc_at(&mut self, bytes: usize, offset: usize) -> Result<Buffer, Fault> {
        self.resume_step().alloc_at(bytes, offset)
    }

    fn alloc(&mut self, bytes: usize) -> Result<Buffer, Fault> {
        self.resume_step().alloc(bytes)
    }

    fn free(&mut self, buffer: Buffer) -> Result<(), Fault> {
        self.resume_step().free(buffer)
    }

    fn write(&mut self, buffer: Buffer, bytes: &[u8]) -> Result<(), Fault> {
        self.resume_step().write(buffer, bytes)
    }

    fn copy(&mut self, from: Buffer, to: Buffer) -> Result<(), Fault> {
        self.resume_step().copy(from, to)
    }

    fn copy_turned(&mut self, from: Buffer, to: Buffer, turn: usize) -> Result<(), Fault> {
        self.resume_step().copy_turned(from, to, turn)
    }

    fn fill(&mut self, buffer: Buffer, byte: u8) -> Result<(), Fault> {
        self.resume_step().fill(buffer, byte)
    }

    fn poison(&mut self, buffer: Buffer, byte: u8) -> Result<(), Fault> {
        self.resume_step().poison(buffer, byte)
    }

    fn read(&mut self, buffer: Buffer) -> Result<Vec<u8>, Fault> {
        self.resume_step().read(buffer)
    }

    fn read_parts(&mut self, buffer: Buffer, parts: &[Range<usize>]) -> Result<Vec<u8>, Fault> {
        self.resume_step().read_parts(buffer, parts)
    }

    fn are_finite(&mut self, buffer: Buffer, dtype: Dtype) -> Result<bool, Fault> {
        self.resume_step().are_finite(buffer, dtype)
    }

    fn digests(&mut self, buffers: &[Buffer]) -> Result<Vec<Digest>, Fault> {
        self.resume_step().digests(buffers)
    }

    fn were_intact(&mut self, buffers: &[Buffer]) -> Result<Vec<bool>, Fault> {
        self.resume_step().were_intact(buffers)
    }

    fn reset_caches(&mut self) -> Result<(), Fault> {
        self.resume_step().reset_caches()
    }

    fn as_replay(&mut self) -> Option<&mut dyn Replay> {
        if self.device.as_replay().is_some() { Some(self) } else { None }
    }

    fn as_model(&mut self) -> Option<&mut dyn Model> {
        self.device.as_model()
    }
}

impl Replay for WatchedDevice {
    fn capture(&mut self, works: &[Work<'_>], executions: u32) -> Result<Capture, Fault> {
        self.resume_step();
        let capture = self.replays()?.capture(works, executions)?;
        self.expected_s.insert(capture, f64::from(executions) * self.launch_s);
        Ok(capture)
    }

    fn begin_timing(&mut self) -> Result<Option<f64>, Fault> {
        self.resume_step();
        self.replays()?.begin_timing()
    }

    fn replay(&mut self, capture: Capture) -> Result<f64, Fault> {
        if self.replays_reported_at.is_none_or(|told| told.elapsed() > REPORT_INTERVAL) {
            let expected_s = self.expected_s.get(&capture).copied().unwrap_or(0.0);
            self.reporter.tell(&WorkerReply::Replay { expected_s });
            self.replays_reported_at = Some(Instant::now());
        }
        self.replays()?.replay(capture)
    }

    fn replay_in_a_row(&mut self, capture: Capture, count: usize) -> Result<Vec<f64>, Fault> {
        let each_s = self.expected_s.get(&capture).copied().unwrap_or(0.0);
        self.reporter.tell(&WorkerReply::Replay { expected_s: each_s * count as f64 });
        self.replays_reported_at = Some(Instant::now());
        self.replays()?.replay_in_a_row(capture, count)
    }

    fn release(&mut self, capture: Capture) -> Result<(), Fault> {
        self.expected_s.remove(&capture);
        self.replays()?.release(capture)
    }
}
