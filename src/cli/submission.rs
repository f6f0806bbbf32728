//! What a service asks of `optloop start` and `optloop resume`: a check before a submission is queued, and an exit code
//! that tells it to try later.

use std::io::Write;

use crate::cli::signals::Stopped;
use crate::locks::InUse;
use crate::runner::worker::WorkerError;
use crate::service::check::Stage;

/// The session could not begin now: another process uses what it needs, or a signal came first.
#[derive(Debug, thiserror::Error)]
#[error("{0:#}")]
pub struct Later(anyhow::Error);

/// Marks the error of a session that a service has started, if the session may start later.
pub fn later(is_of_a_service: bool, result: anyhow::Result<()>) -> anyhow::Result<()> {
    result.map_err(|error| {
        let is_in_use = error.is::<InUse>() || matches!(error.downcast_ref(), Some(WorkerError::Taken(_)));
        // A signal before the session has begun, such as that of a shutdown.
        let may_later = is_in_use || error.is::<Stopped>();
        if is_of_a_service && may_later { Later(error).into() } else { error }
    })
}

/// Tells the service that a stage of the check was passed.
pub fn say_passed(stage: Stage, out: &mut impl Write) -> anyhow::Result<()> {
    Ok(writeln!(out, "{}", serde_json::to_string(&stage)?)?)
}
