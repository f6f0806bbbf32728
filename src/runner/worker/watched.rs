//! A device whose launches are told of: they have a deadline of their own.
//!
//! A step such as a check has work for the CPU, too, which may take long and is known to end. A launch that takes long is a
//! kernel that hangs.

use std::cell::RefCell;
use std::fs::File;
use std::rc::Rc;

use super::protocol::Reply;
use crate::domain::artifact::Artifact;
use crate::domain::device::DeviceInfo;
use crate::runner::device::{Buffer, Clock, Device, Fault, Module, Trouble, Work};
use crate::runner::frames;

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
}

/// Everything is passed on, what the trait has defaults for, too.
impl Device for Watched {
    fn launch(&mut self, work: &Work<'_>) -> Result<(), Fault> {
        let (case, doing) = self.teller.now.borrow().clone();
        self.teller.tell(&case, "launch");
        let launched = self.device.launch(work);
        self.teller.tell(&case, &doing);
        launched
    }

    fn info(&self) -> &DeviceInfo {
        self.device.info()
    }

    fn load(&mut self, artifact: &Artifact) -> Result<Module, Fault> {
        self.device.load(artifact)
    }

    fn unload(&mut self, module: Module) -> Result<(), Fault> {
        self.device.unload(module)
    }

    fn alloc(&mut self, bytes: usize) -> Result<Buffer, Fault> {
        self.device.alloc(bytes)
    }

    fn free(&mut self, buffer: Buffer) -> Result<(), Fault> {
        self.device.free(buffer)
    }

    fn write(&mut self, buffer: Buffer, bytes: &[u8]) -> Result<(), Fault> {
        self.device.write(buffer, bytes)
    }

    fn copy(&mut self, from: Buffer, to: Buffer) -> Result<(), Fault> {
        self.device.copy(from, to)
    }

    fn fill(&mut self, buffer: Buffer, byte: u8) -> Result<(), Fault> {
        self.device.fill(buffer, byte)
    }

    fn poison(&mut self, buffer: Buffer, byte: u8) -> Result<(), Fault> {
        self.device.poison(buffer, byte)
    }

    fn read(&mut self, buffer: Buffer) -> Result<Vec<u8>, Fault> {
        self.device.read(buffer)
    }

    fn holds(&mut self, buffer: Buffer, bytes: &[u8]) -> Result<bool, Fault> {
        self.device.holds(buffer, bytes)
    }

    fn was_intact(&mut self, buffer: Buffer) -> Result<bool, Fault> {
        self.device.was_intact(buffer)
    }

    fn reset_caches(&mut self) -> Result<(), Fault> {
        self.device.reset_caches()
    }

    fn clock(&mut self) -> Clock<'_> {
        self.device.clock()
    }

    fn trouble(&self) -> Option<Trouble> {
        self.device.trouble()
    }
}
