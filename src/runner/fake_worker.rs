//! The worker of the test suites: the fake device, with faults that a test injects at a stage, with longer screening runs, and with
//! times that are not true.
//!
//! It sits between an ordinary worker and its supervisor and acts on their messages. So neither of them, nor the trait
//! [`Device`](super::device::Device), knows about injected faults.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use super::device::{DeviceChoice, Script};
use super::messages::{WorkerReply, WorkerRequest};
use super::worker::{serve, serve_over};
use super::{child, frames};
use crate::domain::measurement::evaluation::Outcome;

/// The environment variable with the time that each screening run takes in addition, in milliseconds.
const SCREENING_MS: &str = "OPTLOOP_FAKE_SCREENING_MS";

/// The environment variable of a worker that lies. `slow`: each variant takes three times as long as it does, but for one that nothing
/// is to beat, such as an incumbent. `right`: each wrong output is right.
const LIES: &str = "OPTLOOP_FAKE_LIES";

/// Serves evaluations on the fake device with a number until standard input ends or a fault was injected.
pub fn serve_fake(number: u32) -> anyhow::Result<()> {
    let choice = DeviceChoice::Fake(number);
    let milliseconds = std::env::var(SCREENING_MS).ok().and_then(|ms| ms.parse().ok());
    let screening = milliseconds.map(Duration::from_millis);
    let script = Script::from_env(number);
    let lie = std::env::var(LIES).ok();
    if script.is_none() && screening.is_none() && lie.is_none() {
        return serve(&choice);
    }
    let requests = child::requests::<WorkerRequest>().into_iter();
    let injector = Rc::new(FaultInjector {
        script,
        screening,
        lie,
        is_rival: Cell::new(false),
        out: RefCell::new(child::replies()?),
    });
    let on_requests = Rc::clone(&injector);
    let requests = requests.inspect(move |request| on_requests.on_request(request));
    serve_over(&choice, requests, move |reply| injector.say(reply))
}

/// The worker's output, with the faults to inject.
struct FaultInjector {
    script: Option<Script>,
    screening: Option<Duration>,
    lie: Option<String>,
    /// Whether the variant has a time to beat.
    is_rival: Cell<bool>,
    out: RefCell<File>,
}

impl FaultInjector {
    fn on_request(&self, request: &WorkerRequest) {
        match request {
            WorkerRequest::Evaluate(request) => {
                self.is_rival.set(request.cases.iter().any(|case| case.incumbent_ns.is_some()));
                std::thread::sleep(self.screening.unwrap_or_default());
            }
            WorkerRequest::Accept(_) => self.inject("accept"),
            WorkerRequest::Enter(_) => self.inject("enter"),
            _ => {}
        }
    }

    fn say(&self, reply: &WorkerReply) -> io::Result<()> {
        if let WorkerReply::Opened(Ok(())) = reply {
            self.inject("hello");
        }
        match reply {
            WorkerReply::Evaluated(evaluation) => {
                let mut evaluation = evaluation.clone();
                match self.lie.as_deref() {
                    Some("slow") if self.is_rival.get() => {
                        let timings = evaluation.measurements.iter_mut().filter_map(|found| found.screening.as_mut());
                        timings.for_each(|timing| timing.scale(3.0));
                    }
                    Some("right") if evaluation.outcome.is_wrong_result() => evaluation.outcome = Outcome::Measured,
                    _ => {}
                }
                frames::write(&mut *self.out.borrow_mut(), &WorkerReply::Evaluated(evaluation))?;
            }
            reply => frames::write(&mut *self.out.borrow_mut(), reply)?,
        }
        match reply {
            WorkerReply::Step { doing, .. } => self.inject(doing),
            WorkerReply::Replay { .. } => self.inject("replay"),
            _ => {}
        }
        Ok(())
    }

    /// Injects the faults of a stage.
    fn inject(&self, stage: &str) {
        if let Some(fault) = self.script.as_ref().and_then(|script| script.at(stage)) {
            fault.happen(&mut *self.out.borrow_mut());
        }
    }
}
