//! The worker's side: reads requests from standard input, writes replies to standard output.

use std::io::{self, Write};

use super::protocol::{Reply, Request, VERSION};
use crate::domain::evaluation::Outcome;
use crate::runner::device::{self, Device, DeviceChoice};
use crate::runner::evaluate::evaluate;
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
    for request in requests {
        let reply = answer(device.as_mut(), request, &mut out);
        write_frame(&mut out, &reply)?;
        let lost =
            matches!(&reply, Reply::Evaluated(evaluation) if matches!(evaluation.outcome, Outcome::Crashed { .. }));
        if lost || matches!(reply, Reply::Broken(_)) {
            // The context is gone for good, and tearing it down may hang: leave that to the kernel.
            std::process::exit(0);
        }
    }
    Ok(())
}

fn answer(device: &mut dyn Device, request: Request, out: &mut impl Write) -> Reply {
    let Request::Evaluate(request) = request else { return Reply::Broken("not yet".to_owned()) };
    let mut step = |case: &str, doing: &str| {
        // A supervisor that is gone ends this process through its input.
        let _ = write_frame(out, &Reply::Step { case: case.to_owned(), doing: doing.to_owned() });
    };
    match evaluate(device, &request, &mut step) {
        Ok(evaluation) => Reply::Evaluated(evaluation),
        Err(message) => Reply::Broken(message),
    }
}
