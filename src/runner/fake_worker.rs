//! The worker of the test suites: the fake device, with faults that a test injects at a stage.
//!
//! It sits between an ordinary worker and its supervisor and acts on their messages. So neither of them, nor the trait
//! [`Device`](super::device::Device), knows about injected faults.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::rc::Rc;

use super::device::{DeviceChoice, Script};
use super::messages::{WorkerReply, WorkerRequest};
use super::worker::{serve, serve_over};
use super::{child, frames};

/// Serves evaluations on the fake device until standard input ends or a fault was injected.
pub fn serve_fake(number: u32) -> anyhow::Result<()> {
    let choice = DeviceChoice::Fake(number);
    let Some(script) = Script::from_env() else { return serve(&choice) };
    let requests = child::requests::<WorkerRequest>().into_iter();
    let injector = Rc::new(FaultInjector { script, out: RefCell::new(child::replies()?) });
    let on_requests = Rc::clone(&injector);
    let requests = requests.inspect(move |request| on_requests.on_request(request));
    serve_over(&choice, requests, move |reply| injector.say(reply))
}

/// The worker's output, with the faults to inject.
struct FaultInjector {
    script: Script,
    out: RefCell<File>,
}

impl FaultInjector {
    fn on_request(&self, request: &WorkerRequest) {
        match request {
            WorkerRequest::Accept(_) => self.inject("accept"),
            WorkerRequest::Enter(_) => self.inject("enter"),
            _ => {}
        }
    }

    fn say(&self, reply: &WorkerReply) -> io::Result<()> {
        if let WorkerReply::Opened(Ok(())) = reply {
            self.inject("hello");
        }
        frames::write(&mut *self.out.borrow_mut(), reply)?;
        match reply {
            WorkerReply::Step { doing, .. } => self.inject(doing),
            WorkerReply::Replay { .. } => self.inject("replay"),
            _ => {}
        }
        Ok(())
    }

    /// Injects the faults of a stage.
    fn inject(&self, stage: &str) {
        if let Some(fault) = self.script.at(stage) {
            fault.happen(&mut *self.out.borrow_mut());
        }
    }
}
