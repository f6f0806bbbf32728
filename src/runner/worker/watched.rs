//! A device whose launches and replays are told of: they have deadlines of their own.
//!
//! A step such as a check has work for the CPU, too, which may take long and is known to end. A launch that takes long is a
//! kernel that hangs, and so is a replay that takes far longer than its launches did by themselves.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How long replays go on before they are told of once more: so rarely that telling is in no time that is taken.
pub(super) const RETELL: Duration = Duration::from_secs(1);

use crate::domain::artifact::Artifact;
use crate::domain::device::DeviceInfo;
use crate::runner::device::{Buffer, Capture, Clock, Device, Fault, Module, Replay, Trouble, Work};
use crate::runner::frames;
use crate::runner::messages::Reply;

/// Where a worker says what it is doing.
#[derive(Clone)]
pub(super) struct Teller {
    out: Rc<RefCell<File>>,
    /// The case and the step that were told of last.
    now: Rc<RefCell<(String, String)>>,
    trouble: Option<Trouble>,
}

impl Teller {
    pub fn new(out: File, trouble: Option<Trouble>) -> Self {
        Self { out: Rc::new(RefCell::new(out)), now: Rc::default(), trouble }
    }

    pub fn say(&self, reply: &Reply) -> std::io::Result<()> {
        frames::write(&mut *self.out.borrow_mut(), reply)
    }

    /// Tells of a step.
    pub fn step(&self, case: &str, doing: &str) {
        *self.now.borrow_mut() = (case.to_owned(), doing.to_owned());
        self.tell(case, doing);
        self.meet(doing);
    }

    /// Lets happen what a test wants to happen at a stage.
    pub fn meet(&self, stage: &str) {
        if let Some(strike) = self.trouble.as_ref().and_then(|trouble| trouble.at(stage)) {
            strike.happen(&mut *self.out.borrow_mut());
        }
    }

    fn tell(&self, case: &str, doing: &str) {
        // A supervisor that is gone ends this process through its input.
        let _ = self.say(&Reply::Step { case: case.to_owned(), doing: doing.to_owned() });
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
            let (case, doing) = self.teller.now.borrow().clone();
            self.teller.tell(&case, &doing);
        }
        self.device.as_mut()
    }

    fn replays(&mut self) -> Result<&mut dyn Replay, Fault> {
        match self.device.clock() {
            Clock::Replay(device) => Ok(device),
            Clock::Model(_) => Err(Fault::Broken("the device models its times: it replays nothing".to_owned())),
        }
    }
}

/// Everything is passed on, what the trait has defaults for, too.
impl Device for Watched {
    fn launch(&mut self, work: &Work<'_>) -> Result<(), Fault> {
        let (case, doing) = self.teller.now.borrow().clone();
        self.replays_told = None;
        self.teller.tell(&case, "launch");
        let started = Instant::now();
        let launched = self.device.launch(work);
        self.launch_s = started.elapsed().as_secs_f64();
        self.teller.tell(&case, &doing);
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

    fn clock(&mut self) -> Clock<'_> {
        match self.device.clock() {
            Clock::Replay(_) => Clock::Replay(self),
            Clock::Model(_) => self.device.clock(),
        }
    }

    fn trouble(&self) -> Option<Trouble> {
        self.device.trouble()
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
            let case = self.teller.now.borrow().0.clone();
            let expected_s = self.expected_s.get(&capture).copied().unwrap_or(0.0);
            // As with a step: a supervisor that is gone ends this process.
            let _ = self.teller.say(&Reply::Replay { case, expected_s });
            self.teller.meet("replay");
            self.replays_told = Some(Instant::now());
        }
        self.replays()?.replay(capture)
    }

    fn release(&mut self, capture: Capture) -> Result<(), Fault> {
        self.expected_s.remove(&capture);
        self.replays()?.release(capture)
    }
}
