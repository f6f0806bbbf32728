//! The program of the baselines while it starts. PyTorch takes seconds for that, and the session searches meanwhile.

use tokio::task::JoinHandle;

use crate::runner::baseline::{BaselineProcess, BaselineProgram};

/// A program that starts in the background. Dropping it ends the program.
pub(super) struct BaselineStart(JoinHandle<Result<BaselineProcess, String>>);

impl BaselineStart {
    /// Starts a program.
    pub fn of(program: BaselineProgram) -> Self {
        Self(tokio::spawn(async move { program.start().await }))
    }

    /// Tells whether the program waits for requests, or has failed.
    pub fn is_over(&self) -> bool {
        self.0.is_finished()
    }

    /// Waits for the program. The error says in one sentence why there is no baseline.
    pub async fn process(mut self) -> Result<BaselineProcess, String> {
        (&mut self.0).await.map_err(|error| format!("the baseline could not be started: {error}"))?
    }
}

impl Drop for BaselineStart {
    fn drop(&mut self) {
        self.0.abort();
    }
}
