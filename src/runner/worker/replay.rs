//! The worker's side for a recorded search space: it answers evaluations, and no other request.

use std::path::Path;

use super::watched::Reporter;
use crate::error::Error;
use crate::runner::messages::{WorkerReply, WorkerRequest};
use crate::runner::recording::Recording;

/// Serves the results of a file until the requests end.
pub(super) fn serve(
    path: &Path,
    requests: &mut dyn Iterator<Item = WorkerRequest>,
    reporter: &Reporter,
) -> anyhow::Result<()> {
    let opened = Recording::open(path);
    let info = opened.as_ref().map(|recording| recording.info.clone()).map_err(ToString::to_string);
    reporter.say(&WorkerReply::Hello(info))?;
    let (Ok(recording), Some(WorkerRequest::Open)) = (opened, requests.next()) else { return Ok(()) };
    reporter.say(&WorkerReply::Opened(Ok(())))?;
    for request in requests {
        let evaluated = match request {
            WorkerRequest::Evaluate(request) => recording.evaluate(&request).map(WorkerReply::Evaluated),
            _ => Err(Error::new("a recording executes nothing")),
        };
        reporter.say(&evaluated.unwrap_or_else(|problem| WorkerReply::Broken(problem.into())))?;
    }
    Ok(())
}
