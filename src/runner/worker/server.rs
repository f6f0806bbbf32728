//! The worker's side: reads requests from standard input, writes replies to standard output.

use std::io::{self, Write};
use std::sync::mpsc;

use super::protocol::{Reply, Request, VERSION, read_frame, write_frame};
use crate::domain::evaluation::Outcome;
use crate::runner::device::{self, Device, DeviceChoice};
use crate::runner::evaluate::evaluate;

/// Serves evaluations on a device until standard input ends, or until a variant has crashed the device.
///
/// Requests are read on a thread of their own that ends the process with the input: a worker never outlives its
/// supervisor, not even one that was killed while a kernel hangs.
pub fn serve(choice: &DeviceChoice) -> anyhow::Result<()> {
    let requests = read_requests();
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
    let Request::Evaluate(request) = request;
    let mut step = |case: &str, doing: &str| {
        // A supervisor that is gone ends this process through its input.
        let _ = write_frame(out, &Reply::Step { case: case.to_owned(), doing: doing.to_owned() });
    };
    match evaluate(device, &request, &mut step) {
        Ok(evaluation) => Reply::Evaluated(evaluation),
        Err(message) => Reply::Broken(message),
    }
}

fn read_requests() -> mpsc::Receiver<Request> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut input = io::stdin().lock();
        while let Ok(Some(request)) = read_frame(&mut input) {
            if sender.send(request).is_err() {
                break;
            }
        }
        std::process::exit(0);
    });
    receiver
}
