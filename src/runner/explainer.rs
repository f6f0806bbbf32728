//! Explains the time of a variant on a virtual GPU: what it would take without each cause of lost time.
//!
//! A real GPU cannot run a kernel without its bank conflicts. The virtual GPU of the same architecture can model the
//! time without them. An explainer has a worker process of its own, so it can run beside a real GPU while a session
//! goes on. Dropping a request that is under way is safe: the next one gets a new worker.

use std::path::PathBuf;

use super::messages::EvaluateRequest;
use super::sanitizer::{Subject, virtual_worker};
use super::trial::{Seeds, Trial};
use super::worker::{StepTimeouts, Worker, WorkerError};
use crate::domain::code::profile::Profile;
use crate::domain::device::DeviceInfo;
use crate::domain::measurement::evaluation::Outcome;
use crate::domain::measurement::settings::Measuring;
use crate::error::Result;

/// Explains times on a virtual GPU; see the module.
pub struct Explainer {
    worker: Worker,
}

/// A virtual GPU's explanation of the time of a variant.
#[derive(Debug, Clone, PartialEq)]
pub enum Explained {
    /// The modelled times of the case itself, with those without each cause. If the case is too much work for a CPU,
    /// they come from a sample of its blocks, and `checked_on` names the scaled case on which the output was checked.
    Profile(Profile),
    /// The variant cannot be executed there, for this reason.
    Skipped(String),
}

impl Explainer {
    /// Starts a virtual GPU of the same architecture. The error says in one sentence why there is none.
    pub async fn start(exe: PathBuf, device: &DeviceInfo, timeouts: StepTimeouts) -> Result<Self> {
        Ok(Self { worker: virtual_worker(exe, device, timeouts).await? })
    }

    /// Returns the virtual GPU.
    pub fn device(&self) -> &DeviceInfo {
        self.worker.info()
    }

    /// Models a variant on its case, as it is and without each cause of lost time. A case of more than
    /// `measuring.model_flop` is modelled from a sample of about as much work. An error means that the machine is at
    /// fault.
    pub async fn explain(
        &mut self,
        subject: Subject<'_>,
        measuring: Measuring,
        seed: u64,
    ) -> Result<Explained, WorkerError> {
        let request = match self.request(subject, measuring, seed) {
            Ok(request) => request,
            Err(reason) => return Ok(Explained::Skipped(reason.into())),
        };
        let evaluation = self.worker.evaluate(request).await?;
        let profile = evaluation.measurements.into_iter().find_map(|measurement| measurement.profile);
        Ok(match (evaluation.outcome, profile) {
            (Outcome::Measured, Some(profile)) => Explained::Profile(profile),
            (outcome, _) => Explained::Skipped(outcome.message().unwrap_or(outcome.kind()).to_owned()),
        })
    }

    fn request(&self, subject: Subject<'_>, measuring: Measuring, seed: u64) -> Result<EvaluateRequest> {
        let Subject { artifact, workload, .. } = subject;
        let cases = vec![subject.planned(self.worker.info(), measuring)?];
        let seeds = Seeds::alone(seed);
        Ok(Trial { workload, artifact, cases, measuring, seeds, within: None, drops_slow: false, explain: true }
            .request())
    }
}
