//! Puts on record what is measured by hand, with `optloop bench` or `optloop check`: an iteration for each evaluation, in a
//! session of kind `single` for each workload. A session that searches has a journal and a state. This one has neither: it
//! judges nothing, wins nothing and cannot be resumed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::Value;

use crate::config::Config;
use crate::domain::budget::Budget;
use crate::domain::budget::cost::{Rate, Spent};
use crate::domain::budget::phase::StepTimes;
use crate::domain::claims::hypothesis::{Hypothesis, Reference};
use crate::domain::claims::mechanism::Mechanism;
use crate::domain::claims::prediction::{Crps, Prediction, Strength};
use crate::domain::code::artifact::Artifact;
use crate::domain::device::TimeSource;
use crate::domain::family::plan::LaunchPlan;
use crate::domain::ids::{IterationId, SessionId};
use crate::domain::measurement::evaluation::{Evaluation, Outcome};
use crate::domain::proposal::origin::{Origin, Purpose};
use crate::domain::proposal::{Proposal, Rationale};
use crate::domain::record::{Environment, SessionKind, SessionScope, Status};
use crate::domain::variant::Variant;
use crate::domain::workload::{Case, Workload};
use crate::store::{Finish, NewSession, Store, StoreError};

/// The proposer of what a person measures.
pub const USER: &str = "user";

/// What a person or a program expects of a kernel, over the first kernel that it is compared with.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// What is tried, and what is expected of it.
    pub text: String,
    /// The predicted range of the speed-up. None if nothing is predicted.
    pub speedup: Option<(f64, f64)>,
}

/// The sessions that hold what one process measures by hand, one for each workload.
pub struct Singles {
    store: Store,
    environment: Environment,
    config: Value,
    rate: Option<Rate>,
    open: BTreeMap<String, Single>,
    /// The evaluations that have ended, in order.
    concluded: Vec<IterationId>,
    /// When the last record was written, or this value was made.
    recorded: Instant,
}

/// A session that has begun.
struct Single {
    id: SessionId,
    begun: Instant,
    spent: Spent,
}

/// What became of an evaluation.
#[derive(Clone, Copy)]
pub struct Ended<'a> {
    /// The compiled variant, or the compiler's log.
    pub compiled: Result<&'a Artifact, &'a str>,
    /// How it was launched on its case. None if it was not.
    pub plan: Option<&'a LaunchPlan>,
    /// What the device found.
    pub evaluation: &'a Evaluation,
    /// The speed-up over the claim's reference, where both have a time.
    pub actual: Option<f64>,
}

impl Singles {
    /// Prepares to record in a store what is measured on a machine under some settings. A session is begun when it is asked for,
    /// or at the first evaluation of its workload.
    pub fn new(store: Store, environment: Environment, config: &Config) -> anyhow::Result<Self> {
        let rate = Rate { gpu_usd_per_hour: config.cost.gpu_usd_per_hour };
        let rate = (environment.device.time_source() == TimeSource::Measured).then_some(rate);
        let config = serde_json::to_value(config).context("Failed to write the settings")?;
        Ok(Self {
            store,
            environment,
            config,
            rate,
            open: BTreeMap::new(),
            concluded: Vec::new(),
            recorded: Instant::now(),
        })
    }

    /// Returns the store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the evaluations that have ended, in order.
    pub fn concluded(&self) -> &[IterationId] {
        &self.concluded
    }

    /// Begins the session of a workload, unless it has begun. Returns its number.
    pub async fn session(&mut self, workload: &Workload) -> Result<SessionId, StoreError> {
        if let Some(single) = self.open.get(&workload.name) {
            return Ok(single.id);
        }
        let id = self.store.begin_session(&self.new_session(workload)).await?;
        self.open.insert(workload.name.clone(), Single { id, begun: Instant::now(), spent: Spent::default() });
        Ok(id)
    }

    fn new_session(&self, workload: &Workload) -> NewSession {
        NewSession {
            kind: SessionKind::Single,
            workload: workload.name.clone(),
            proposer: USER.to_owned(),
            seed: 0,
            budget: Budget { wall: Duration::ZERO, max_cost_usd: None, max_iterations: None },
            asked: SessionScope {
                families: Vec::new(),
                dtype: workload.dtype,
                compute: workload.compute,
                cases: workload.cases.clone(),
                meaning: None,
                left_out: Vec::new(),
                lessons: None,
            },
            config: self.config.clone(),
            environment: self.environment.clone(),
            lanes: Vec::new(),
            oracle_on: None,
            submission: None,
        }
    }

    /// Records an evaluation before the device is touched. Returns its number.
    pub async fn begin(&mut self, workload: &Workload, proposal: &Proposal) -> Result<IterationId, StoreError> {
        let session = self.session(workload).await?;
        self.store.begin(session, proposal).await
    }

    /// Records what became of an evaluation, with the cost of the device since the record before.
    pub async fn conclude(
        &mut self,
        iteration: IterationId,
        (workload, proposal): (&Workload, &Proposal),
        ended: Ended<'_>,
    ) -> Result<(), StoreError> {
        let wall_s = self.recorded.elapsed().as_secs_f64();
        let spent = self.rate.map(|rate| Spent::holding(wall_s, rate)).unwrap_or_default();
        let Ended { compiled, plan, evaluation, actual } = ended;
        let hypothesis = &proposal.rationale.hypothesis;
        let plans: Vec<_> = plan.into_iter().map(|plan| (hypothesis.case.as_str(), plan)).collect();
        let finish = Finish {
            artifact: compiled.ok(),
            compile_log: compiled.err(),
            plans: &plans,
            evaluation,
            decisions: &[],
            actual_speedup: actual,
            score: hypothesis.score(actual),
            crps: Crps::of(hypothesis.prediction, actual),
            spent,
            wall_s,
            steps: StepTimes::default(),
            left_out: 0,
            lane: None,
            disqualified: &[],
        };
        self.store.finish(iteration, &finish).await?;
        self.recorded = Instant::now();
        self.concluded.push(iteration);
        if let Some(single) = self.open.get_mut(&workload.name) {
            single.spent += spent;
        }
        Ok(())
    }

    /// Ends the sessions, with the error that ended the work, if any.
    pub async fn end(&self, error: Option<&anyhow::Error>) -> Result<(), StoreError> {
        let (status, reason) = match error {
            None => (Status::Finished, "everything was measured".to_owned()),
            Some(error) => (Status::Failed, format!("{error:#}")),
        };
        for single in self.open.values() {
            let wall = single.begun.elapsed();
            self.store.end_session(single.id, status, (&reason, None), wall, single.spent).await?;
        }
        Ok(())
    }
}

/// Returns the evaluation of a variant that was not tried because something beside it failed.
pub fn given_up(message: String) -> Evaluation {
    Evaluation::without_device(Outcome::Pruned { message })
}

/// Returns the proposal of a configuration that a person named, on a case.
pub fn proposal(variant: &Variant, case: &Case, claim: Option<&Claim>, reference: Reference) -> Proposal {
    let range = claim.and_then(|claim| claim.speedup);
    Proposal {
        proposer: USER.to_owned(),
        variant: variant.clone(),
        cases: vec![case.clone()],
        rationale: Rationale {
            hypothesis: Hypothesis {
                claim: claim.map_or("measured by hand", |claim| &claim.text).to_owned(),
                evidence: String::new(),
                mechanism: Mechanism::default(),
                case: case.name.clone(),
                prediction: range.map(|(lo, hi)| Prediction {
                    median: Some((lo * hi).sqrt()),
                    lo,
                    hi,
                    strength: Strength::Prior,
                    model: None,
                }),
                tuned: None,
                reference,
            },
            parent: None,
            purpose: Purpose::Screening,
            origin: Origin::Named,
        },
    }
}
