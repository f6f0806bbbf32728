//! What a session does before it begins, within the time that it may take as a whole.

use std::time::Duration;

use anyhow::Context;

use crate::error::usage_sentence;
use crate::runner::activity::{self, Limit};
use crate::session::Options;

/// The option that limits a session's time.
const BUDGET: &str = "--budget";

/// Does a step that blocks, such as a call of a project's program, in another thread. A step that outlasts the whole session
/// with its grace period ends it with one sentence that names both. It is left behind, and ends with this process.
pub async fn within<T: Send + 'static>(
    step: &str,
    options: &Options,
    what: impl FnOnce() -> T + Send + 'static,
) -> anyhow::Result<T> {
    let most = options.budget.wall.saturating_add(options.grace);
    let _running = activity::begin(step, Limit::new(BUDGET, most));
    let blocking = tokio::task::spawn_blocking(what);
    match tokio::time::timeout(most, blocking).await {
        Ok(done) => done.with_context(|| format!("Failed at {step} in the background")),
        Err(_) => Err(usage_sentence(too_long(step, options.budget.wall, most))),
    }
}

fn too_long(step: &str, budget: Duration, most: Duration) -> String {
    let [budget, most] = [budget, most].map(humantime::format_duration);
    format!(
        "{step} took over {most}, which is all that a session of {budget} (--budget) has with its grace period: make it \
         faster, or give the session more time"
    )
}
