//! The worker's side: reads requests from standard input and writes replies to the former standard output.

use std::io;

use super::replay;
use super::watched::{Reporter, WatchedDevice};
use crate::domain::measurement::evaluation::{Evaluation, Outcome};
use crate::error::Error;
use crate::runner::device::{self, DeviceChoice, self_check};
use crate::runner::evaluate::{Arena, Ended, Stock, accept, evaluate, time};
use crate::runner::messages::{WorkerReply, WorkerRequest};
use crate::runner::{child, frames};

/// Serves evaluations on a device until standard input ends, or until a variant has crashed the device.
pub fn serve(choice: &DeviceChoice) -> anyhow::Result<()> {
    let requests = child::requests();
    let mut out = child::replies()?;
    serve_over(choice, requests, move |reply| frames::write(&mut out, reply))
}

/// Serves the given requests and sends replies to `replies`.
pub(in crate::runner) fn serve_over(
    choice: &DeviceChoice,
    requests: impl IntoIterator<Item = WorkerRequest>,
    replies: impl FnMut(&WorkerReply) -> io::Result<()> + 'static,
) -> anyhow::Result<()> {
    let (mut requests, reporter) = (requests.into_iter(), Reporter::new(Box::new(replies)));
    if let DeviceChoice::Replay(path) = choice {
        return replay::serve(path, &mut requests, &reporter);
    }
    let found = device::describe(choice);
    reporter.say(&WorkerReply::Hello(found.clone().map_err(String::from)))?;
    // A supervisor that may not use the device ends this process instead.
    let (Ok(_), Some(WorkerRequest::Open)) = (found, requests.next()) else { return Ok(()) };
    let device = match device::open(choice) {
        Ok(device) => device,
        Err(reason) => return Ok(reporter.say(&WorkerReply::Opened(Err(reason.into())))?),
    };
    reporter.say(&WorkerReply::Opened(Ok(())))?;
    let mut device = WatchedDevice::new(device, reporter.clone());
    let (mut arena, stock) = (Arena::default(), Stock::default());
    for request in requests {
        let reply = answer(&mut device, &mut arena, &stock, request, &reporter);
        reporter.say(&reply)?;
        if is_last(&reply) {
            // The context is lost, and destroying it may hang, so the operating system has to do that.
            child::end();
        }
    }
    Ok(())
}

fn is_last(reply: &WorkerReply) -> bool {
    match reply {
        WorkerReply::Evaluated(Evaluation { outcome, .. }) | WorkerReply::Failed(outcome) => {
            matches!(outcome, Outcome::Crashed { .. })
        }
        WorkerReply::Broken(_) => true,
        _ => false,
    }
}

fn answer(
    device: &mut WatchedDevice,
    arena: &mut Arena,
    stock: &Stock,
    request: WorkerRequest,
    reporter: &Reporter,
) -> WorkerReply {
    let mut step =
        |case: &str, doing: &str| reporter.tell(&WorkerReply::Step { case: case.into(), doing: doing.to_owned() });
    let answered = match request {
        WorkerRequest::Open => Err(Ended::Machine(Error::new("the device is open already"))),
        WorkerRequest::SelfCheck(artifact) => {
            // The self-check has a single deadline, so its launch is not reported.
            self_check::run(device.device.as_mut(), &artifact)
                .map(|()| WorkerReply::SelfCheckPassed)
                .map_err(Ended::Machine)
        }
        WorkerRequest::Evaluate(request) => evaluate(device, &request, stock, &mut step).map(WorkerReply::Evaluated),
        WorkerRequest::Accept(request) => accept(device, &request, &mut step).map(WorkerReply::Accepted),
        WorkerRequest::Enter(request) => arena.enter(device, *request, &mut step).map(WorkerReply::Entered),
        WorkerRequest::Sample { participant, samples } => {
            arena.sample(device, participant, samples, &mut step).map(WorkerReply::Sampled)
        }
        WorkerRequest::Check { participant } => arena.check(device, participant, &mut step).map(WorkerReply::Checked),
        WorkerRequest::Time(request) => time(device, &request, &mut step).map(WorkerReply::Timed),
    };
    answered.unwrap_or_else(|ended| match ended {
        Ended::Outcome(outcome) | Ended::TooLong(outcome) => WorkerReply::Failed(outcome),
        Ended::Oracle(problem) => WorkerReply::OracleFailed(problem.into()),
        Ended::Machine(problem) => WorkerReply::Broken(problem.into()),
    })
}
