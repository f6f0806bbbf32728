//! The first look at a kernel that optloop does not ship: is it right on shapes that no workload names, and on probes?
//!
//! Other variants meet these checks before they win. The kernel that a user brings is what all of them are compared with, so
//! it meets them at once.

mod rule;

use std::time::{Duration, Instant};

use self::rule::{Known, Rule};
use super::inputs::mix;
use super::messages::{AcceptancePart, AcceptanceRequest, Accepted, PlannedCase, Skipped};
use super::planning;
use super::worker::{AskError, Worker, WorkerError, may_be_slow};
use crate::domain::code::artifact::Artifact;
use crate::domain::device::DeviceInfo;
use crate::domain::family::Family;
use crate::domain::measurement::evaluation::Outcome;
use crate::domain::measurement::settings::Measuring;
use crate::domain::op::Dims;
use crate::domain::variant::Params;
use crate::domain::workload::Workload;

/// The longest execution after which probes are affordable. Hidden shapes are smaller than most cases.
const MOST_PROBED_NS: f64 = 10e6;

/// How many sizes that a rule allows must be right before it is proposed. Two of a rule's neighbours in a row have no other
/// odd factor in common.
const SUPPORTING: usize = 2;

/// Tensors of fewer bytes do not tell how long large ones take: an oracle takes some time for any.
const TELLING_BYTES: f64 = 1e6;

/// How long a constraint is looked for, after a kernel has failed. Each size that is tried takes seconds on a large shape.
const ADVICE_TIME: Duration = Duration::from_secs(15);

/// A compiled kernel that was right on a case.
pub struct FirstLook<'a> {
    /// The kernel's family.
    pub family: &'a Family,
    /// The kernel's parameters.
    pub params: &'a Params,
    /// The workload.
    pub workload: &'a Workload,
    /// The compiled kernel.
    pub artifact: &'a Artifact,
    /// The case on which it was right, or the scaled one.
    pub case: &'a PlannedCase,
    /// How long an execution took, in nanoseconds.
    pub screened_ns: f64,
    /// How to measure.
    pub measuring: Measuring,
    /// Seed of the shapes and inputs.
    pub seed: u64,
}

/// Which sizes a kernel can be restricted to.
#[derive(Debug, PartialEq, Eq)]
struct Restriction {
    /// A constraint of its family.
    constraint: String,
    /// A shape on which it is right.
    right: String,
}

/// What a kernel has failed in its first look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FailedLook {
    /// A hidden shape, with the seed of its inputs.
    Shape(Dims, u64),
    /// A probe of the case itself.
    Probes,
}

/// Why a kernel does not pass its first look.
#[derive(Debug)]
pub enum LookError {
    /// It failed.
    Variant {
        /// The outcome.
        outcome: Outcome,
        /// What it failed, if that can be repeated.
        on: Option<FailedLook>,
    },
    /// The machine is at fault.
    Machine(WorkerError),
}

impl From<WorkerError> for LookError {
    fn from(error: WorkerError) -> Self {
        Self::Machine(error)
    }
}

/// The shapes that are checked before the many small ones.
const BEFORE_SMALL: usize = 2;

impl FirstLook<'_> {
    /// Checks the kernel on hidden shapes and then on probes, as far as `within` allows, but on one shape at least: on
    /// `known`, if another kernel of the family has failed it. Returns the shapes on which it could not be checked.
    ///
    /// The outcome of a kernel that fails names the shape. If none was known, it proposes a constraint that excludes it.
    pub async fn take(
        &self,
        worker: &mut Worker,
        within: Duration,
        known: Option<&FailedLook>,
    ) -> Result<Vec<Skipped>, LookError> {
        let begun = Instant::now();
        let left = || within.checked_sub(begun.elapsed()).filter(|left| !left.is_zero());
        let probes = self.screened_ns <= MOST_PROBED_NS;
        let Self { family, params, workload, case, seed, .. } = *self;
        let info = worker.info().clone();
        let again = match known {
            Some(FailedLook::Shape(dims, seed)) => self.planned(dims.clone(), &info).map(|shape| (shape, *seed)),
            _ => None,
        };
        if known == Some(&FailedLook::Probes) && probes {
            self.pass_probes(worker, None).await?;
        }
        let drawn = planning::hidden(family, params, &case.case, workload, &info, mix(seed, &["shapes"]));
        let bytes = |shape: &PlannedCase| workload.op.bytes(&shape.case.dims, workload.dtype);
        let (mut passed, mut skipped) = (Vec::new(), Vec::new());
        // The longest that any shape took for a byte: most of it is the oracle's.
        let mut slowest_s = 0.0_f64;
        // The many small ones, which differ in their last tiles only, take little time and are not probed. The larger ones may take all
        // of it.
        let (telling, small) = drawn.split_at(planning::MAX_HIDDEN.min(drawn.len()));
        let (first, rest) = telling.split_at(BEFORE_SMALL.min(telling.len()));
        let is_small = [(first, false), (small, true), (rest, false)];
        let shapes =
            is_small.into_iter().flat_map(|(shapes, is_small)| shapes.iter().map(move |shape| (shape, is_small)));
        let shapes = (0_usize..).zip(shapes);
        let shapes =
            shapes.map(|(place, (shape, is_small))| (shape, mix(seed, &["hidden", &place.to_string()]), is_small));
        let again = again.iter().map(|(shape, seed)| (shape, *seed, false));
        for (place, (shape, input_seed, is_small)) in again.chain(shapes).enumerate() {
            if place > 0 && left().is_none() {
                return Ok(skipped);
            }
            let shape_begun = Instant::now();
            let probes = probes && !is_small;
            let hidden = AcceptanceRequest {
                hidden: vec![shape.clone()],
                input_seed,
                ..self.request(AcceptancePart::Hidden, probes)
            };
            match worker.accept(hidden).await {
                Ok(accepted) if !accepted.skipped.is_empty() => skipped.extend(accepted.skipped),
                Ok(_) => {
                    passed.push(&shape.case.dims);
                    if bytes(shape) > TELLING_BYTES {
                        slowest_s = slowest_s.max(shape_begun.elapsed().as_secs_f64() / bytes(shape));
                    }
                }
                Err(AskError::Variant(Outcome::TimedOut { message, .. }))
                    if self.is_slow(&shape.case.dims, &message, &info) =>
                {
                    skipped.push(Skipped::on(shape.case.dims.clone(), &message));
                }
                Err(AskError::Variant(mut outcome)) => {
                    let dims = &shape.case.dims;
                    // A probe may be to blame, and not the shape.
                    let is_of_shape = !probes || self.is_right(worker, dims.clone()).await? == Some(false);
                    if known.is_none() && is_of_shape {
                        let until = Instant::now() + ADVICE_TIME;
                        let restriction = self.restriction(worker, dims, &passed, until).await?;
                        if let Some(message) = outcome.message_mut() {
                            message.push_str(&advice(restriction));
                        }
                    }
                    let on = Some(FailedLook::Shape(dims.clone(), input_seed));
                    return Err(LookError::Variant { outcome, on });
                }
                Err(AskError::Machine(error)) => return Err(error.into()),
            }
        }
        let far = planning::far(family, params, &case.case, workload, &info);
        if !far.is_empty() && left().is_some() {
            let far = AcceptanceRequest { far, ..self.request(AcceptancePart::Hidden, false) };
            Self::pass(worker, far).await?;
        }
        if let Some(left) = left().filter(|_| probes) {
            self.pass_probes(worker, Some(left)).await?;
        }
        let has_time = |huge: &PlannedCase| left().is_some_and(|left| left.as_secs_f64() > slowest_s * bytes(huge));
        let huge = planning::huge(family, params, &case.case, workload, &info, mix(seed, &["huge shape"]));
        if let Some(huge) = huge.filter(has_time) {
            let dims = huge.case.dims.clone();
            let request = AcceptanceRequest { hidden: vec![huge], ..self.request(AcceptancePart::Hidden, false) };
            match Self::pass(worker, request).await {
                Ok(accepted) => skipped.extend(accepted.skipped),
                Err(LookError::Variant { outcome: Outcome::TimedOut { message, .. }, .. }) => {
                    skipped.push(Skipped::on(dims, &message));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(skipped)
    }

    /// Returns whether a kernel that does not end in time on a shape may only be slow.
    fn is_slow(&self, dims: &Dims, message: &str, device: &DeviceInfo) -> bool {
        may_be_slow(message, device) && planning::is_longer(self.workload.op, dims, &self.case.case.dims)
    }

    async fn pass(worker: &mut Worker, request: AcceptanceRequest) -> Result<Accepted, LookError> {
        match worker.accept(request).await {
            Ok(accepted) => Ok(accepted),
            Err(AskError::Variant(outcome)) => Err(LookError::Variant { outcome, on: None }),
            Err(AskError::Machine(error)) => Err(error.into()),
        }
    }

    /// Checks the kernel on the probes of its case, as far as there is time.
    async fn pass_probes(&self, worker: &mut Worker, left: Option<Duration>) -> Result<(), LookError> {
        let within_s = left.map(|left| left.as_secs_f64());
        let request = AcceptanceRequest { within_s, ..self.request(AcceptancePart::Probes, true) };
        match Self::pass(worker, request).await {
            Ok(_) => Ok(()),
            Err(LookError::Variant { outcome, .. }) => {
                Err(LookError::Variant { outcome, on: Some(FailedLook::Probes) })
            }
            Err(error) => Err(error),
        }
    }

    fn request(&self, part: AcceptancePart, probes: bool) -> AcceptanceRequest {
        let Self { workload, artifact, case, measuring, seed, .. } = *self;
        AcceptanceRequest {
            artifact: artifact.clone(),
            op: workload.op.source(),
            dtype: workload.dtype,
            compute: workload.compute,
            tolerance: workload.tolerance,
            accuracy: workload.tolerance,
            case: case.clone(),
            hidden: Vec::new(),
            far: Vec::new(),
            probes,
            only: Some(part),
            within_s: None,
            measuring,
            input_seed: mix(seed, &["first look"]),
        }
    }

    /// Looks for the size that the kernel does not bear, and for a constraint that excludes it. None if several sizes at
    /// once are to blame, if no constraint fits all shapes that are known by then, or if the time is over. `passed` are those on
    /// which the kernel was right.
    async fn restriction(
        &self,
        worker: &mut Worker,
        failing: &Dims,
        passed: &[&Dims],
        until: Instant,
    ) -> Result<Option<Restriction>, WorkerError> {
        let own = &self.case.case.dims;
        let is_changed = |(name, size): &(&String, &i64)| own.get(*name) != Some(*size);
        let changed: Vec<(&String, i64)> =
            failing.iter().filter(is_changed).map(|(name, size)| (name, *size)).collect();
        for &(name, size) in &changed {
            if changed.len() > 1 && self.is_right_with(worker, name, size).await? != Some(false) {
                continue;
            }
            let right = passed.iter().map(|dims| dims[name]).chain([own[name]]).collect();
            let mut known = Known { right, wrong: vec![size] };
            for rule in Rule::excluding(size, self.workload, (name, own[name])) {
                if let Some(right) = self.supported(worker, (name, rule), &mut known, until).await? {
                    let (constraint, right) = (rule.constraint(name), format!("{name}={right}"));
                    return Ok(Some(Restriction { constraint, right }));
                }
            }
            return Ok(None);
        }
        Ok(None)
    }

    /// Tries a rule for a dimension on other sizes, as far as it fits those that are known. Returns a size that it allows and
    /// that is right, if no size speaks against it.
    async fn supported(
        &self,
        worker: &mut Worker,
        (name, rule): (&str, Rule),
        known: &mut Known,
        until: Instant,
    ) -> Result<Option<i64>, WorkerError> {
        let (own, wrong) = (self.case.case.dims[name], known.wrong[0]);
        let allowed = rule.allowed_near(wrong);
        let wanted = SUPPORTING.min(allowed.len());
        let mut right = Vec::new();
        for size in allowed.into_iter().filter(|size| *size != own).chain([rule.excluded_near(wrong)]) {
            if !known.supports(rule) || Instant::now() > until {
                return Ok(None);
            }
            if rule.allows(size) && right.len() == wanted {
                continue;
            }
            match self.is_right_with(worker, name, size).await? {
                Some(true) => {
                    known.right.push(size);
                    right.extend(rule.allows(size).then_some(size));
                }
                Some(false) => known.wrong.push(size),
                None => {}
            }
        }
        let is_supported = known.supports(rule) && right.len() == wanted;
        Ok(is_supported.then(|| right.first().copied().unwrap_or(own)))
    }

    /// Returns whether the kernel is right if one size of its case is another one. None if it cannot run.
    async fn is_right_with(&self, worker: &mut Worker, name: &str, size: i64) -> Result<Option<bool>, WorkerError> {
        let mut dims = self.case.case.dims.clone();
        dims.insert(name.to_owned(), size);
        self.is_right(worker, dims).await
    }

    /// Returns whether the kernel is right on ordinary inputs of a shape. None if it cannot run.
    async fn is_right(&self, worker: &mut Worker, dims: Dims) -> Result<Option<bool>, WorkerError> {
        let Some(shape) = self.planned(dims, worker.info()) else { return Ok(None) };
        let request = AcceptanceRequest { hidden: vec![shape], ..self.request(AcceptancePart::Hidden, false) };
        match worker.accept(request).await {
            Ok(accepted) => Ok(accepted.skipped.is_empty().then_some(true)),
            Err(AskError::Variant(_)) => Ok(Some(false)),
            Err(AskError::Machine(WorkerError::Oracle(_))) => Ok(None),
            Err(AskError::Machine(error)) => Err(error),
        }
    }

    fn planned(&self, dims: Dims, device: &DeviceInfo) -> Option<PlannedCase> {
        let Self { family, params, workload, case, .. } = *self;
        planning::on_shape(family, params, dims, &case.case, workload, device).ok().flatten()
    }
}

/// Says what to do about a kernel that fails on a shape.
fn advice(restriction: Option<Restriction>) -> String {
    match restriction {
        Some(Restriction { constraint, right }) => format!(
            "; with {right} it is right: mend it, or add --constraint '{constraint}' (a [[constraint]] of its family.toml)"
        ),
        None => "; mend it, or exclude such shapes with --constraint (a [[constraint]] of its family.toml)".to_owned(),
    }
}
