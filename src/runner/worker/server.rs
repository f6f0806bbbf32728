//! The worker's side: reads requests from standard input, writes replies to standard output.

use std::io::{self, Write};

use super::protocol::{Reply, Request, VERSION};
use crate::domain::evaluation::{Evaluation, Outcome};
use crate::runner::device::{self, Device, DeviceChoice};
use crate::runner::evaluate::{Arena, Ended, evaluate, examine, time};
use crate::runner::frames::{requests_from_stdin, write_frame};

/// Serves evaluations on a device until standard input ends, or until a variant has crashed the device.
pub fn serve(choice: &DeviceChoice) -> anyhow::Result<()> {
    let requests = requests_from_stdin::<Request>();
    let mut out = io::stdout().lock();
    let mut device = match device::open(choice) {
        Ok(device) => device,
        Err(reason) => {
            write_frame(&mut out, &Reply::Hello { version: VERSION, device: Err(reason) })?;
            return Ok(());
        }
    };
    write_frame(&mut out, &Reply::Hello { version: VERSION, device: Ok(device.info().clone()) })?;
    let mut arena = Arena::default();
    for request in requests {
        let reply = answer(device.as_mut(), &mut arena, request, &mut out);
        write_frame(&mut out, &reply)?;
        if is_last(&reply) {
            // The context is gone for good, and tearing it down may hang: leave that to the kernel.
            std::process::exit(0);
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

fn answer(device: &mut dyn Device, arena: &mut Arena, request: Request, out: &mut impl Write) -> Reply {
    let mut step = |case: &str, doing: &str| {
        // A supervisor that is gone ends this process through its input.
        let _ = write_frame(out, &Reply::Step { case: case.to_owned(), doing: doing.to_owned() });
    };
    let answered = match request {
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
