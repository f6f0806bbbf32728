//! The worker's side: reads requests from standard input and writes replies to the former standard output.

use std::io;

use super::watched::{Teller, Watched};
use crate::domain::evaluation::{Evaluation, Outcome};
use crate::runner::device::{self, DeviceChoice, self_check};
use crate::runner::evaluate::{Arena, Ended, Stock, accept, evaluate, time};
use crate::runner::messages::{Reply, Request};
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
    requests: impl IntoIterator<Item = Request>,
    replies: impl FnMut(&Reply) -> io::Result<()> + 'static,
) -> anyhow::Result<()> {
    let (mut requests, teller) = (requests.into_iter(), Teller::new(Box::new(replies)));
    let found = device::describe(choice);
    teller.say(&Reply::Hello(found.clone()))?;
    // A supervisor that may not use the device ends this process instead.
    let (Ok(_), Some(Request::Open)) = (found, requests.next()) else { return Ok(()) };
    let device = match device::open(choice) {
        Ok(device) => device,
        Err(reason) => return Ok(teller.say(&Reply::Opened(Err(reason)))?),
    };
    teller.say(&Reply::Opened(Ok(())))?;
    let mut device = Watched::new(device, teller.clone());
    let (mut arena, stock) = (Arena::default(), Stock::default());
    for request in requests {
        let reply = answer(&mut device, &mut arena, &stock, request, &teller);
        teller.say(&reply)?;
        if is_last(&reply) {
            // The context is lost, and destroying it may hang, so that is left to the kernel.
            child::end();
        }
    }
    Ok(())
}

fn is_last(reply: &Reply) -> bool {
    match reply {
        Reply::Evaluated(Evaluation { outcome, .. }) | Reply::Failed(outcome) => {
            matches!(outcome, Outcome::Crashed { .. })
        }
        Reply::Broken(_) => true,
        _ => false,
    }
}

fn answer(device: &mut Watched, arena: &mut Arena, stock: &Stock, request: Request, teller: &Teller) -> Reply {
    let mut step = |case: &str, doing: &str| teller.tell(&Reply::Step { case: case.into(), doing: doing.to_owned() });
    let answered = match request {
        Request::Open => Err(Ended::Machine("the device is open already".to_owned())),
        Request::SelfCheck(artifact) => {
            // The self-check has a single deadline, so its launch is not reported.
            self_check::run(device.device.as_mut(), &artifact).map(|()| Reply::Well).map_err(Ended::Machine)
        }
        Request::Evaluate(request) => {
            evaluate(device, &request, stock, &mut step).map(Reply::Evaluated).map_err(Ended::Machine)
        }
        Request::Accept(request) => accept(device, &request, &mut step).map(Reply::Accepted),
        Request::Enter(request) => arena.enter(device, *request, &mut step).map(Reply::Entered),
        Request::Sample { participant, samples } => {
            arena.sample(device, participant, samples, &mut step).map(Reply::Sampled)
        }
        Request::Check { participant } => arena.check(device, participant, &mut step).map(Reply::Checked),
        Request::Time(request) => time(device, &request, &mut step).map(Reply::Timed),
    };
    answered.unwrap_or_else(|ended| match ended {
        Ended::Outcome(outcome) => Reply::Failed(outcome),
        Ended::Machine(message) => Reply::Broken(message),
    })
}
