//! The worker of the test suites: one on the fake device, to which happens what a test wants at a stage.
//!
//! It stands between an ordinary worker and its supervisor, and goes by what the two say to each other. So neither of them, nor
//! the trait [`Device`](super::device::Device), knows of faults that are injected.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::rc::Rc;

use super::device::{DeviceChoice, Script};
use super::messages::{Reply, Request};
use super::worker::{serve, serve_over};
use super::{child, frames};

/// Serves evaluations on the fake device until standard input ends, or until something has happened.
pub fn serve_fake() -> anyhow::Result<()> {
    let Some(script) = Script::asked() else { return serve(&DeviceChoice::Fake) };
    let requests = child::requests::<Request>().into_iter();
    let pipe = Rc::new(Pipe { script, out: RefCell::new(child::replies()?) });
    let heard = Rc::clone(&pipe);
    let requests = requests.inspect(move |request| heard.hear(request));
    serve_over(&DeviceChoice::Fake, requests, move |reply| pipe.say(reply))
}

/// What the worker speaks through, with what is to happen to it.
struct Pipe {
    script: Script,
    out: RefCell<File>,
}

impl Pipe {
    fn hear(&self, request: &Request) {
        match request {
            Request::Accept(_) => self.meet("accept"),
            Request::Enter(_) => self.meet("enter"),
            _ => {}
        }
    }

    fn say(&self, reply: &Reply) -> io::Result<()> {
        if let Reply::Opened(Ok(())) = reply {
            self.meet("hello");
        }
        frames::write(&mut *self.out.borrow_mut(), reply)?;
        match reply {
            Reply::Step { doing, .. } => self.meet(doing),
            Reply::Replay { .. } => self.meet("replay"),
            _ => {}
        }
        Ok(())
    }

    /// Lets happen what is to happen at a stage.
    fn meet(&self, stage: &str) {
        if let Some(fault) = self.script.at(stage) {
            fault.happen(&mut *self.out.borrow_mut());
        }
    }
}
