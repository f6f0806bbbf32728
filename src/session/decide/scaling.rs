//! Which experiments are due: a variant on more or less work than a case of the workload has. It is pure.
//!
//! They tell a diagnosis what a time depends on. They win nothing, and no case of the workload sees their times.

use std::time::Duration;

use crate::agent::diagnosis;
use crate::domain::history::Finished;
use crate::domain::ids::{CaseName, IterationId};
use crate::domain::measurement::floor::floor_ns;
use crate::domain::op::Axis;
use crate::domain::proposal::experiment::Scaling;
use crate::domain::workload::Case;
use crate::runner::planning;
use crate::session::meter::Time;
use crate::session::state::SessionState;

/// What is tried with the initial kernel: whether it fills the device, and whether its time is that of its steps.
const OF_INITIAL: [(Axis, f64); 3] = [(Axis::Independent, 2.0), (Axis::Sequential, 2.0), (Axis::Independent, 0.5)];

/// What is tried with an incumbent.
const OF_INCUMBENT: [(Axis, f64); 5] = [
    (Axis::Independent, 2.0),
    (Axis::Sequential, 2.0),
    (Axis::Independent, 0.5),
    (Axis::Sequential, 0.5),
    (Axis::Independent, 4.0),
];

/// What is tried with each incumbent whose grid leaves SMs idle, whichever fits: whether its time follows the work of a block,
/// which more blocks could divide.
const OF_IDLE: [(Axis, f64); 2] = [(Axis::Sequential, 0.5), (Axis::Sequential, 2.0)];

/// Iterations of a session for each experiment, so that a short session spends its time on the search.
pub(in crate::session) const ITERATIONS_PER_EXPERIMENT: u64 = 10;

/// The share of the budget after which the incumbent counts as the one to explain.
const INCUMBENT_FROM: f64 = 0.6;

/// The share of the budget that must be left.
const MIN_LEFT: f64 = 0.1;

/// The longest expected time of a launch. A screening run takes some ten of them.
const MAX_LAUNCH_NS: f64 = 100e6;

/// The largest share of the device's memory for the tensors of an experiment.
const MEMORY_SHARE: f64 = 0.1;

/// An experiment that is due.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::session) struct ExperimentDue {
    /// What to change.
    pub scaling: Scaling,
    /// The changed case.
    pub case: Case,
}

impl SessionState {
    /// Returns the next experiment that is due. `is_over`: nothing else is left to try.
    pub fn experiment(&self, time: &Time, is_over: bool) -> Option<ExperimentDue> {
        let begun = self.experiments();
        if self.room_for_experiments(time) == 0 {
            return None;
        }
        let (case, initial) = self.furthest(|state, case| {
            let initial = state.initial_kernel(case)?;
            state.history().iteration(initial)
        })?;
        let of_initial = OF_INITIAL.iter().find_map(|(axis, factor)| self.open(initial, case, *axis, *factor));
        let of_one = of_initial.or_else(|| {
            // Once one is explained, it stays the one to explain.
            let is_of_one = |scaling: &&Scaling| scaling.of != initial.iteration && scaling.axis == Axis::Independent;
            let explained = begun.iter().find(is_of_one);
            let (case, incumbent) = match explained {
                Some(scaling) => (&scaling.case, self.history().iteration(scaling.of)?),
                None if is_over || self.is_late(time) => self.furthest(|state, case| {
                    state.history().iteration(state.history().incumbents.get(case)?.iteration)
                })?,
                None => return None,
            };
            let open = |(axis, factor): &(Axis, f64)| self.open(incumbent, case, *axis, *factor);
            if incumbent.iteration == initial.iteration { None } else { OF_INCUMBENT.iter().find_map(open) }
        });
        let is_late = is_over || self.is_late(time);
        of_one.or_else(|| if is_late { self.of_idle(initial.iteration) } else { None })
    }

    /// Returns the next experiment with an incumbent whose grid leaves SMs idle.
    fn of_idle(&self, initial: IterationId) -> Option<ExperimentDue> {
        self.setup().workload.cases.iter().find_map(|case| {
            let incumbent = self.history().iteration(self.history().incumbents.get(&case.name)?.iteration)?;
            let time = incumbent.times.iter().find(|time| time.case == case.name)?;
            let leaves_idle = diagnosis::leaves_idle(time.ctas, self.setup().device.sms);
            let is_known = self.experiments().iter().any(|scaling| {
                scaling.of == incumbent.iteration && scaling.case == case.name && scaling.axis == Axis::Sequential
            });
            if incumbent.iteration == initial || !leaves_idle || is_known {
                return None;
            }
            OF_IDLE.iter().find_map(|(axis, factor)| self.open(incumbent, &case.name, *axis, *factor))
        })
    }

    /// Returns the next experiment with an iteration that is open, on the case where it is furthest from the floor.
    pub fn experiment_with(&self, iteration: IterationId) -> Option<ExperimentDue> {
        let variant = self.history().iteration(iteration)?;
        let (case, _) = self.furthest(|_, case| variant.time_ns(case).map(|_| variant))?;
        OF_INCUMBENT.iter().find_map(|(axis, factor)| self.open(variant, case, *axis, *factor))
    }

    /// Returns an experiment, unless it has begun before, is too large, or the variant is not valid there.
    fn open(&self, variant: &Finished, case: &CaseName, axis: Axis, factor: f64) -> Option<ExperimentDue> {
        let scaling = Scaling { of: variant.iteration, case: case.clone(), axis, factor };
        if self.experiments().contains(&scaling) {
            return None;
        }
        let setup = self.setup();
        let (workload, device) = (&setup.workload, &setup.device);
        let original = workload.case(case).ok()?;
        let dims = workload.op.resized(&original.dims, axis, factor)?;
        let in_range = workload.op.dims().iter().all(|dim| (dim.range.0..=dim.range.1).contains(&dims[dim.name]));
        if !in_range || workload.op.check(&dims).is_err() {
            return None;
        }
        let work = workload.op.flop(&dims) / workload.op.flop(&original.dims);
        let bytes = workload.op.bytes(&dims, workload.dtype);
        if variant.time_ns(case)? * work > MAX_LAUNCH_NS || bytes > MEMORY_SHARE * device.memory_bytes as f64 {
            return None;
        }
        let resized = Case { name: scaling.case_name(), dims, regime: original.regime };
        let family = setup.family(&variant.family).ok()?;
        let model_flop = setup.options.measuring.model_flop;
        let planned = planning::of_case(family, &variant.params, &resized, workload, device, model_flop).ok()?;
        let too_much = !setup.samples_times() && workload.op.flop(&resized.dims) > model_flop;
        (!too_much || planned.scaled.is_some()).then_some(ExperimentDue { scaling, case: resized })
    }

    /// Returns the case on which a variant is furthest from the floor, with the variant.
    pub fn furthest<'s>(
        &'s self,
        variant: impl Fn(&'s Self, &CaseName) -> Option<&'s Finished>,
    ) -> Option<(&'s CaseName, &'s Finished)> {
        let setup = self.setup();
        let found = setup.workload.cases.iter().filter_map(|case| {
            let variant = variant(self, &case.name)?;
            let headroom = variant.time_ns(&case.name)? / floor_ns(&setup.workload, case, &setup.device);
            Some((&case.name, variant, headroom))
        });
        let (case, variant, _) = found.max_by(|(_, _, a), (_, _, b)| a.total_cmp(b))?;
        Some((case, variant))
    }

    /// Returns how many more experiments may begin now, of either kind.
    pub fn room_for_experiments(&self, time: &Time) -> u64 {
        let begun = self.experiments().len() + self.history().path_steps.len();
        let most = if self.has_time_left(time) { self.meter().finished() / ITERATIONS_PER_EXPERIMENT } else { 0 };
        most.saturating_sub(begun as u64)
    }

    fn has_time_left(&self, time: &Time) -> bool {
        let budget = &self.setup().options.budget;
        let left = self.meter().left(budget, time, self.closing_time());
        left >= budget.wall.mul_f64(MIN_LEFT) && left > Duration::ZERO
    }

    /// Returns whether most of the search is over.
    pub fn is_late(&self, time: &Time) -> bool {
        let budget = &self.setup().options.budget;
        let iterations = budget.max_iterations.map_or(0.0, |most| self.meter().finished() as f64 / most as f64);
        let elapsed = self.meter().elapsed(time).as_secs_f64() / budget.wall.as_secs_f64();
        elapsed.max(iterations) >= INCUMBENT_FROM
    }
}
