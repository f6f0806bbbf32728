//! The program of the baselines while it starts and compiles. PyTorch takes seconds for each, and the session searches
//! meanwhile.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::setup::SessionSetup;
use crate::domain::workload::Workload;
use crate::error::{Error, error};
use crate::runner::baseline::{BaselineProcess, BaselineProgram};

/// The largest share of the budget for what the program compiles before the baselines are timed. What is left is compiled when a
/// case is prepared, and the device waits: with half of this share, for most of 53 s of 118 (FlexAttention on seven cases, H200,
/// 2026-11-29, `optloop start --workload attention-masks-bf16 --budget 110s`).
const COMPILATION_SHARE: f64 = 0.3;

/// A program that starts in the background. Dropping it ends the program.
pub(super) struct BaselineStart(JoinHandle<Result<BaselineProcess, Error>>);

impl BaselineStart {
    /// Starts a program, and has it compile for the cases of a session.
    pub fn of(program: BaselineProgram, setup: Arc<SessionSetup>) -> Self {
        Self(tokio::spawn(async move {
            let mut process = program.start().await?.computing(setup.workload.compute);
            let Workload { op, dtype, cases, .. } = &setup.workload;
            process.compile_for(*op, *dtype, cases, setup.device.l2_bytes, compilation_time(&setup)).await;
            Ok(process)
        }))
    }

    /// Tells whether the program waits for requests, or has failed.
    pub fn is_over(&self) -> bool {
        self.0.is_finished()
    }

    /// Waits for the program. The error says in one sentence why there is no baseline.
    pub async fn process(mut self) -> Result<BaselineProcess, Error> {
        (&mut self.0).await.map_err(|error| error!("the baseline could not be started: {error}"))?
    }
}

fn compilation_time(setup: &SessionSetup) -> Duration {
    setup.options.budget.wall.mul_f64(COMPILATION_SHARE)
}

impl Drop for BaselineStart {
    fn drop(&mut self) {
        self.0.abort();
    }
}
