//! The worker's side: reads requests from standard input, writes replies to what was standard output.

use std::io::Write;

use super::protocol::{Reply, Request};
use crate::domain::evaluation::{Evaluation, Outcome};
use crate::runner::device::{self, Device, DeviceChoice, Trouble};
use crate::runner::evaluate::{Arena, Ended, evaluate, examine, time};
use crate::runner::{child, frames, self_check};

/// Serves evaluations on a device until standard input ends, or until a variant has crashed the device.
pub fn serve(choice: &DeviceChoice) -> anyhow::Result<()> {
    let requests = child::requests::<Request>();
    let mut out = child::replies()?;
    let mut device = match device::open(choice) {
        Ok(device) => device,
        Err(reason) => return Ok(frames::write(&mut out, &Reply::Hello(Err(reason)))?),
    };
    let trouble = device.trouble();
    meet(trouble.as_ref(), "hello", &mut out);
    frames::write(&mut out, &Reply::Hello(Ok(device.info().clone())))?;
    let mut arena = Arena::default();
    for request in requests {
        let reply = answer(device.as_mut(), &mut arena, request, trouble.as_ref(), &mut out);
        frames::write(&mut out, &reply)?;
        if is_last(&reply) {
            // The context is gone for good, and tearing it down may hang: leave that to the kernel.
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

fn answer(
    device: &mut dyn Device,
    arena: &mut Arena,
    request: Request,
    trouble: Option<&Trouble>,
    out: &mut impl Write,
) -> Reply {
    match request {
        Request::Examine(_) => meet(trouble, "examine", out),
        Request::Enter(_) => meet(trouble, "enter", out),
        _ => {}
    }
    let mut step = |case: &str, doing: &str| {
        // A supervisor that is gone ends this process through its input.
        let _ = frames::write(out, &Reply::Step { case: case.to_owned(), doing: doing.to_owned() });
        meet(trouble, doing, out);
    };
    let answered = match request {
        Request::SelfCheck(artifact) => {
            self_check::run(device, &artifact).map(|()| Reply::Well).map_err(Ended::Machine)
        }
        Request::Evaluate(request) => {
            evaluate(device, &request, &mut step).map(Reply::Evaluated).map_err(Ended::Machine)
        }
        Request::Examine(request) => examine(device, &request, &mut step).map(Reply::Examined),
        Request::Enter(request) => arena
            .enter(device, *request, &mut step)
            .map(|(correctness, launches_per_sample)| Reply::Entered { correctness, launches_per_sample }),
        Request::Sample { entrant, samples } => arena.sample(device, entrant, samples, &mut step).map(Reply::Sampled),
        Request::Check { entrant } => arena.check(entrant).map(Reply::Checked),
        Request::Time(request) => time(device, &request, &mut step).map(Reply::Timed),
    };
    answered.unwrap_or_else(|ended| match ended {
        Ended::Outcome(outcome) => Reply::Failed(outcome),
        Ended::Machine(message) => Reply::Broken(message),
    })
}

/// Lets happen what a test wants to happen at a stage.
fn meet(trouble: Option<&Trouble>, stage: &str, out: &mut impl Write) {
    if let Some(strike) = trouble.and_then(|trouble| trouble.at(stage)) {
        strike.happen(out);
    }
}
