//! A device whose launches and replays are told of: they have deadlines of their own.
//!
//! A step such as a check has work for the CPU, too, which may take long and is known to end. A launch that takes long is a
//! kernel that hangs, and so is a replay that takes far longer than its launches did by themselves.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How long replays go on before they are told of once more: so rarely that telling is in no time that is taken.
pub(super) const RETELL: Duration = Duration::from_secs(1);

use crate::domain::artifact::Artifact;
use crate::domain::device::DeviceInfo;
use crate::runner::device::{Buffer, Capture, Device, Fault, Model, Module, Replay, Work};
use crate::runner::messages::Reply;

/// Where a worker's replies go.
pub(super) type Outlet = Box<dyn FnMut(&Reply) -> io::Result<()>>;

/// Where a worker says what it is doing.
#[derive(Clone)]
pub(super) struct Teller(Rc<RefCell<Outlet>>);

impl Teller {
    pub fn new(outlet: Outlet) -> Self {
        Self(Rc::new(RefCell::new(outlet)))
    }

    pub fn say(&self, reply: &Reply) -> io::Result<()> {
        (*self.0.borrow_mut())(reply)
    }

    /// Tells of progress.
    pub fn tell(&self, progress: &Reply) {
        // A supervisor that is gone ends this process through its input.
        let _ = self.say(progress);
    }
}

/// See the module.
pub(super) struct Watched {
    pub device: Box<dyn Device>,
    pub teller: Teller,
    /// How long the last launch took.
    launch_s: f64,
    /// How long a replay of each capture may be expected to take at most.
    expected_s: HashMap<Capture, f64>,
    /// When replays were told of, if nothing was since.
    replays_told: Option<Instant>,
}

impl Watched {
    pub fn new(device: Box<dyn Device>, teller: Teller) -> Self {
        Self { device, teller, launch_s: 0.0, expected_s: HashMap::new(), replays_told: None }
    }

    /// Returns the device for anything but replays, after which the step goes on.
    fn at_work(&mut self) -> &mut dyn Device {
        if self.replays_told.take().is_some() {
            self.teller.tell(&Reply::StepGoesOn);
        }
        self.device.as_mut()
    }

    fn replays(&mut self) -> Result<&mut dyn Replay, Fault> {
        let models = || Fault::Broken("the device models its times: it replays nothing".to_owned());
        self.device.as_replay().ok_or_else(models)
    }
}

/// Everything is passed on, what the trait has defaults for, too.
impl Device for Watched {
    fn launch(&mut self, work: &Work<'_>) -> Result<(), Fault> {
        self.replays_told = None;
        self.teller.tell(&Reply::Launch);
        let started = Instant::now();
        let launched = self.device.launch(work);
        self.launch_s = started.elapsed().as_secs_f64();
        self.teller.tell(&Reply::StepGoesOn);
        launched
    }

    fn info(&self) -> &DeviceInfo {
        self.device.info()
    }

    fn load(&mut self, artifact: &Artifact) -> Result<Module, Fault> {
        self.at_work().load(artifact)
    }

    fn unload(&mut self, module: Module) -> Result<(), Fault> {
        self.at_work().unload(module)
    }

    fn alloc(&mut self, bytes: usize) -> Result<Buffer, Fault> {
        self.at_work().alloc(bytes)
    }

    fn free(&mut self, buffer: Buffer) -> Result<(), Fault> {
        self.at_work().free(buffer)
    }

    fn write(&mut self, buffer: Buffer, bytes: &[u8]) -> Result<(), Fault> {
        self.at_work().write(buffer, bytes)
    }

    fn copy(&mut self, from: Buffer, to: Buffer) -> Result<(), Fault> {
        self.at_work().copy(from, to)
    }

    fn fill(&mut self, buffer: Buffer, byte: u8) -> Result<(), Fault> {
        self.at_work().fill(buffer, byte)
    }

    fn poison(&mut self, buffer: Buffer, byte: u8) -> Result<(), Fault> {
        self.at_work().poison(buffer, byte)
    }

    fn read(&mut self, buffer: Buffer) -> Result<Vec<u8>, Fault> {
        self.at_work().read(buffer)
    }

    fn holds(&mut self, buffer: Buffer, bytes: &[u8]) -> Result<bool, Fault> {
        self.at_work().holds(buffer, bytes)
    }

    fn was_intact(&mut self, buffer: Buffer) -> Result<bool, Fault> {
        self.at_work().was_intact(buffer)
    }

    fn reset_caches(&mut self) -> Result<(), Fault> {
        self.at_work().reset_caches()
    }

    fn as_replay(&mut self) -> Option<&mut dyn Replay> {
        if self.device.as_replay().is_some() { Some(self) } else { None }
    }

    fn as_model(&mut self) -> Option<&mut dyn Model> {
        self.device.as_model()
    }
}

impl Replay for Watched {
    fn capture(&mut self, works: &[Work<'_>], executions: u32) -> Result<Capture, Fault> {
        self.at_work();
        let capture = self.replays()?.capture(works, executions)?;
        self.expected_s.insert(capture, f64::from(executions) * self.launch_s);
        Ok(capture)
    }

    fn replay(&mut self, capture: Capture) -> Result<f64, Fault> {
        if self.replays_told.is_none_or(|told| told.elapsed() > RETELL) {
            let expected_s = self.expected_s.get(&capture).copied().unwrap_or(0.0);
            self.teller.tell(&Reply::Replay { expected_s });
            self.replays_told = Some(Instant::now());
        }
        self.replays()?.replay(capture)
    }

    fn release(&mut self, capture: Capture) -> Result<(), Fault> {
        self.expected_s.remove(&capture);
        self.replays()?.release(capture)
    }
}
