//! What an evaluation has found, in one form for every reader: `show`, `bench` and `check` print it as JSON. It is read from the
//! record, so a session's iterations and those measured by hand have the same form.

mod parts;

use std::collections::HashMap;

use serde::Serialize;

use crate::domain::claims::hypothesis::Score;
use crate::domain::code::artifact::KernelResources;
use crate::domain::code::counters::Counters;
use crate::domain::code::occupancy::occupancy;
use crate::domain::code::profile::Profile;
use crate::domain::device::regime::Regime;
use crate::domain::device::{DeviceInfo, TimeSource};
use crate::domain::family::plan::{Launch, LaunchPlan, Preparation};
use crate::domain::ids::{CaseName, IterationId, SessionId};
use crate::domain::measurement::comparison::Role;
use crate::domain::measurement::evaluation::Outcome;
use crate::domain::measurement::verdict::Verdict;
use crate::domain::op::Dims;
use crate::domain::record::{CaseRecord, IterationRecord, SessionKind};
use crate::domain::variant::{Params, VariantHash};
use crate::store::{IterationDetail, Like, Store, StoreError};

pub use parts::{Part, Sources, parts};

/// An evaluation.
#[derive(Debug, Clone, Serialize)]
pub struct Evaluated {
    /// Its iteration.
    pub iteration: IterationId,
    /// The session of the iteration.
    pub session: SessionId,
    /// What that session is for.
    pub kind: SessionKind,
    /// Who proposed the variant.
    pub proposer: String,
    /// The workload.
    pub workload: String,
    /// Product name of the device.
    pub device: String,
    /// Where its times come from.
    pub time_source: TimeSource,
    /// The variant's family.
    pub family: String,
    /// The variant's parameters.
    pub params: Params,
    /// The variant's name.
    pub variant: VariantHash,
    /// What was claimed before it was tried.
    pub claim: Claimed,
    /// The stages that it has passed, in order.
    pub passed: Vec<Stage>,
    /// Why it went no further. None if it was measured, or has not ended.
    pub failure: Option<Failure>,
    /// What each of its kernels uses. Empty if it did not compile.
    pub kernels: Vec<KernelResources>,
    /// What was found on each case that it reached.
    pub cases: Vec<OnCase>,
    /// What it cost, in US dollars.
    pub cost_usd: f64,
}

/// A claim and its score.
#[derive(Debug, Clone, Serialize)]
pub struct Claimed {
    /// The claim.
    pub text: String,
    /// The predicted range of the speed-up, low and high. None if nothing was predicted.
    pub predicted: Option<[f64; 2]>,
    /// The same once the search has tuned the parameters of a new family.
    pub tuned: Option<[f64; 2]>,
    /// What the speed-up is relative to, in words.
    pub over: String,
    /// The speed-up that was found.
    pub actual: Option<f64>,
    /// Where it lies. None until the evaluation ends.
    pub score: Option<Score>,
}

/// A stage of an evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// The source compiles.
    Compile,
    /// The output is right on every case.
    Check,
    /// It has a time on every case.
    Time,
    /// It was compared with others in one run.
    Compare,
}

/// Why an evaluation went no further.
#[derive(Debug, Clone, Serialize)]
pub struct Failure {
    /// The kind of outcome, such as `wrong`.
    pub outcome: &'static str,
    /// The check that caught it, if one did.
    pub check: Option<&'static str>,
    /// The case on which it failed.
    pub case: Option<CaseName>,
    /// The shape of that case.
    pub dims: Option<Dims>,
    /// What is wrong, with the first wrong element, or with the file and the line of a compiler's message.
    pub message: String,
}

/// What was found on a case.
#[derive(Debug, Clone, Serialize)]
pub struct OnCase {
    /// The case.
    pub case: CaseName,
    /// Its shape.
    pub dims: Option<Dims>,
    /// State of the caches.
    pub regime: Regime,
    /// Median time in microseconds. None if it was not timed.
    pub us: Option<f64>,
    /// Its 95% interval. None for fewer than three samples.
    pub ci_us: Option<[f64; 2]>,
    /// Its samples.
    pub samples: usize,
    /// Whether the time is that of a confirmation or a comparison.
    pub confirmed: bool,
    /// The decision on the case. None where nothing is decided.
    pub verdict: Option<Verdict>,
    /// Its speed-up over its base: the variant that its claim refers to, or else its parent.
    pub over_base: Option<Over>,
    /// Its speed-up over the fastest confirmed time of the case on record, under the same conditions.
    pub over_record: Option<Over>,
    /// What was prepared once for the weights, which is in no time. Absent if nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preparation: Option<Preparation>,
    /// How each launch fills a multiprocessor.
    pub launches: Vec<Launched>,
    /// What its time consists of, the largest part first.
    pub parts: Vec<Part>,
    /// The hardware counters, where a GPU was asked for them.
    pub counters: Option<Counters>,
    /// What a virtual GPU counted.
    pub counts: Option<Profile>,
}

/// A ratio of two times.
#[derive(Debug, Clone, Serialize)]
pub struct Over {
    /// The other iteration. None for a kernel that none has measured.
    pub iteration: Option<IterationId>,
    /// The other time, in microseconds.
    pub us: f64,
    /// The other time divided by the evaluation's: above 1, the evaluation's is shorter.
    pub ratio: f64,
    /// Its 95% interval, if one run timed both in turns.
    pub ci: Option<[f64; 2]>,
}

/// How a launch fills a multiprocessor.
#[derive(Debug, Clone, Serialize)]
pub struct Launched {
    /// The kernel.
    pub kernel: String,
    /// Its blocks.
    pub blocks: u64,
    /// Threads of a block.
    pub threads: u64,
    /// Dynamic shared memory of a block, in bytes.
    pub shared_bytes: u32,
    /// Blocks that fit on a multiprocessor together.
    pub blocks_per_sm: u32,
    /// Their warps.
    pub warps_per_sm: u32,
    /// The most warps that a multiprocessor takes.
    pub most_warps: u32,
    /// What allows no further block.
    pub limited_by: &'static str,
}

impl Evaluated {
    /// Reads an evaluation from the record.
    pub async fn read(store: &Store, iteration: IterationId) -> Result<Self, StoreError> {
        Self::of(store, &store.iteration(iteration).await?).await
    }

    /// Completes an iteration that was read before with its base, the record and the launches.
    pub async fn of(store: &Store, detail: &IterationDetail) -> Result<Self, StoreError> {
        let IterationDetail { iteration, session, artifact, .. } = detail;
        let base = match iteration.rationale.hypothesis.reference.iteration().or(iteration.rationale.parent) {
            Some(base) if base != iteration.id => Some(store.iteration(base).await?.iteration),
            _ => None,
        };
        let (_, plans) = store.launched(iteration.id).await?;
        let device = store.environment_of(iteration.session).await?.device;
        let mut cases = Vec::with_capacity(iteration.measurements.len());
        for found in &iteration.measurements {
            let dims = iteration.cases.iter().find(|case| case.name == found.case).map(|case| case.dims.clone());
            let (workload, case) = (session.workload.as_str(), found.case.as_str());
            let (device, time_source, graphs) = (session.device.as_str(), session.time_source, session.graphs);
            let like = Like { workload, case, dims: dims.as_ref(), device, time_source, graphs, regime: found.regime };
            let record = store.fastest_like(&like, iteration.id).await?;
            cases.push((found, dims, record));
        }
        let kernels = &iteration.kernels;
        let on_case = |(found, dims, record): (&CaseRecord, Option<Dims>, Option<(IterationId, f64)>)| {
            let launches = plans.get(&found.case).map_or_else(Vec::new, |plan| launches(plan, kernels, &device));
            OnCase { dims, launches, over_record: over_record(found, record), ..OnCase::of(found, base.as_ref()) }
        };
        let cases = cases.into_iter().map(on_case).collect();
        Ok(Self {
            iteration: iteration.id,
            session: session.id,
            kind: session.kind,
            proposer: iteration.proposer.clone(),
            workload: session.workload.clone(),
            device: session.device.clone(),
            time_source: session.time_source,
            family: iteration.family.clone(),
            params: iteration.params.clone(),
            variant: iteration.hash.clone(),
            claim: Claimed::of(iteration),
            passed: passed(iteration, artifact.is_some()),
            failure: failure(iteration),
            kernels: kernels.clone(),
            cases,
            cost_usd: iteration.cost.total_usd(),
        })
    }
}

impl Claimed {
    fn of(iteration: &IterationRecord) -> Self {
        let hypothesis = &iteration.rationale.hypothesis;
        Self {
            text: hypothesis.claim.clone(),
            predicted: hypothesis.prediction.map(|range| [range.lo, range.hi]),
            tuned: hypothesis.tuned,
            over: hypothesis.reference.describe(),
            actual: iteration.actual,
            score: iteration.score,
        }
    }
}

impl OnCase {
    /// Returns what the record of a case says, without what needs other records.
    fn of(found: &CaseRecord, base: Option<&IterationRecord>) -> Self {
        let timing = found.best_timing();
        let of_base = base.and_then(|base| base.measurements.iter().find(|other| other.case == found.case));
        Self {
            case: found.case.clone(),
            dims: None,
            regime: found.regime,
            us: timing.map(|timing| timing.median_ns / 1e3),
            ci_us: timing.and_then(|timing| timing.shown_ci_us()),
            samples: timing.map_or(0, |timing| timing.samples_ns.len()),
            confirmed: found.confirmation.is_some(),
            verdict: found.verdict,
            over_base: over_base(found, base.map(|base| base.id).zip(of_base)),
            over_record: None,
            preparation: found.preparation,
            launches: Vec::new(),
            parts: parts(Sources::of(found), of_base.map(Sources::of)),
            counters: found.counters.clone(),
            counts: found.profile.clone().or_else(|| found.explanation.clone()),
        }
    }
}

/// Returns the ratio to the first kernel that one run timed in turns with the evaluation's, or else to the base's own time.
fn over_base(found: &CaseRecord, base: Option<(IterationId, &CaseRecord)>) -> Option<Over> {
    let beside = found.comparison.as_ref().and_then(|comparison| {
        let wanted = base.map(|(id, _)| id);
        let others = || comparison.participants.iter().skip(1).filter(|one| one.role != Role::Control);
        let other = others().find(|one| wanted.is_some() && one.iteration == wanted).or_else(|| others().next())?;
        let ratio = comparison.over_challenger(other)?;
        let ci = Some([ratio.interval.lo, ratio.interval.hi]);
        Some(Over { iteration: other.iteration, us: other.timing.median_ns / 1e3, ratio: ratio.estimate, ci })
    });
    beside.or_else(|| {
        let ((id, other), own) = (base?, found.best_timing()?);
        let ns = other.best_timing()?.median_ns;
        Some(Over { iteration: Some(id), us: ns / 1e3, ratio: ns / own.median_ns, ci: None })
    })
}

fn over_record(found: &CaseRecord, record: Option<(IterationId, f64)>) -> Option<Over> {
    // A time under sustained load is compared with no other.
    if found.comparison.as_ref().is_some_and(|comparison| !comparison.conditions.load.is_bursts()) {
        return None;
    }
    let ((id, ns), own) = (record?, found.best_timing()?);
    Some(Over { iteration: Some(id), us: ns / 1e3, ratio: ns / own.median_ns, ci: None })
}

fn launches(plan: &LaunchPlan, kernels: &[KernelResources], device: &DeviceInfo) -> Vec<Launched> {
    let known: HashMap<&str, &KernelResources> = kernels.iter().map(|one| (one.name.as_str(), one)).collect();
    let launched = |launch: &Launch| {
        let held = occupancy(launch, known.get(launch.kernel.as_str())?, device);
        Some(Launched {
            kernel: launch.kernel.clone(),
            blocks: launch.ctas(),
            threads: launch.block_threads(),
            shared_bytes: launch.shared_bytes,
            blocks_per_sm: held.blocks,
            warps_per_sm: held.warps,
            most_warps: held.most_warps,
            limited_by: held.limiter.name(),
        })
    };
    plan.launches.iter().filter_map(launched).collect()
}

/// Returns the stages that an iteration has passed.
fn passed(iteration: &IterationRecord, is_compiled: bool) -> Vec<Stage> {
    let is_measured = iteration.outcome == Some(Outcome::Measured);
    let is_compared = iteration.measurements.iter().any(|found| found.comparison.is_some());
    let all = [
        (Stage::Compile, is_compiled),
        (Stage::Check, is_measured),
        (Stage::Time, is_measured),
        (Stage::Compare, is_measured && is_compared),
    ];
    all.into_iter().filter(|(_, has_passed)| *has_passed).map(|(stage, _)| stage).collect()
}

fn failure(iteration: &IterationRecord) -> Option<Failure> {
    let outcome = iteration.outcome.as_ref()?;
    let case = outcome.case().map(CaseName::from);
    let shape = iteration.cases.iter().find(|one| Some(&one.name) == case.as_ref());
    Some(Failure {
        outcome: outcome.kind(),
        check: outcome.check().map(|check| check.name()),
        dims: shape.map(|shape| shape.dims.clone()),
        message: outcome.message()?.to_owned(),
        case,
    })
}
