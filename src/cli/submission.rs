//! What a service asks of `optloop start`: a check before a submission is queued.

use std::io::Write;

use crate::service::check::Stage;

/// Tells the service that a stage of the check was passed.
pub fn say_passed(stage: Stage, out: &mut impl Write) -> anyhow::Result<()> {
    Ok(writeln!(out, "{}", serde_json::to_string(&stage)?)?)
}
