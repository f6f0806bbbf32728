//! What a session does next: a pure function of what it knows and the clock.

mod ablations;
pub(super) mod counters;
mod finals;
pub(super) mod paths;
pub(super) mod questions;
pub(super) mod scaling;
mod stopping;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use self::counters::OnCase;
use self::finals::{CONFIRMATIONS_SHARE, Need};
use self::paths::PathStepDue;
use self::questions::{QuestionDue, is_turn, question_due};
use self::scaling::ExperimentDue;
use super::meter::{Reserve, Time};
use super::state::SessionState;
use super::state::case_state::{BestCandidate, CaseState};
use crate::domain::budget::stop::EarlyEnd;
use crate::domain::ids::{CaseName, IterationId};
use crate::domain::record::{BaselineKind, Status};
use crate::domain::variant::VariantHash;

/// Iterations without a faster variant before the fastest is confirmed, over the number compiled ahead. The first half
/// was proposed before it was found. The second half follows from it.
const SETTLED: u64 = 2;

/// The most suggestions without prospects for one evaluation, where the order of evaluations is that of the proposals, or
/// where they are not drawn meanwhile.
pub(super) const MOST_LEFT_OUT: usize = 16;

/// What is under way outside the state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct UnderWay {
    /// Proposals that are compiled or being compiled.
    pub proposals: usize,
    /// Those that belong to the initial design.
    pub initial: usize,
    /// Whether the proposer has nothing to suggest before another iteration ends.
    pub is_dry: bool,
    /// Suggestions without prospects since the last evaluation began.
    pub left_out: usize,
    /// Whether a proposal is compiled, so that the device need not wait.
    pub is_ready: bool,
}

/// The phase of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Phase {
    /// The session searches for faster variants.
    Search,
    /// The search is over. The cases in the queue get a final comparison.
    Finals {
        /// The cases, in order.
        queue: VecDeque<(Need, CaseName)>,
        /// Whether a final was held.
        held: bool,
        /// Why the search is over.
        reason: Reason,
    },
}

/// What a session says of a search that has nothing to try.
const NOTHING_LEFT: &str = "there is nothing new left to try";

/// Why a search or a session ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reason {
    /// For people.
    pub text: Cow<'static, str>,
    /// Whether the search ended before the budget was spent, and why.
    pub early: Option<EarlyEnd>,
}

impl From<&'static str> for Reason {
    fn from(text: &'static str) -> Self {
        Self { text: text.into(), early: None }
    }
}

impl Phase {
    /// Removes the next case from the queue of finals, whose final is held or skipped.
    pub fn take_up(&mut self, is_held: bool) {
        if let Self::Finals { queue, held, .. } = self {
            queue.pop_front();
            *held |= is_held;
        }
    }
}

/// How far the baselines of a session are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Baselines {
    /// They are timed, or there are none.
    #[default]
    Known,
    /// Their program starts. The search begins meanwhile.
    Starting,
    /// Their program waits to be asked.
    Started,
}

/// The clients of a session, for the decision what comes next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Clients {
    /// The session has none, and searches by itself.
    #[default]
    None,
    /// They may ask for more.
    Present {
        /// Whether an iteration waits to be confirmed.
        has_submitted: bool,
    },
    /// They have ended the session, or have left.
    Gone,
}

/// What may be done to confirm a variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Confirming {
    /// Nothing.
    No,
    /// Its acceptance checks alone, because the baselines are not known.
    Accept,
    /// Its acceptance checks and its comparison.
    Compare,
}

/// The state of the clock, the user, the compilers and the baselines.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LoopInputs {
    /// The clock.
    pub time: Time,
    /// How often the user has asked the session to stop.
    pub interrupts: u32,
    /// What is under way.
    pub under_way: UnderWay,
    /// Whether a language model can be asked, as far as the endpoint and the money go.
    pub may_ask: bool,
    /// How far the baselines are.
    pub baselines: Baselines,
    /// The clients, if they propose.
    pub clients: Clients,
}

/// The next thing to do.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Action {
    /// Ask the proposer for another variant, and have it compiled.
    Propose,
    /// Ask a language model.
    Ask(QuestionDue),
    /// Wait for the answer of a language model, for want of anything else to do.
    AwaitAnswer {
        /// The rest of the budget.
        within: Duration,
    },
    /// Wait for a request of a client, for want of anything else to do.
    AwaitRequest {
        /// The rest of the budget.
        within: Duration,
    },
    /// Confirm the oldest iteration that a client has submitted.
    ConfirmSubmitted,
    /// Evaluate the oldest proposal as soon as it is compiled, if that is within the rest of the budget.
    Evaluate {
        /// The rest of the budget.
        within: Duration,
    },
    /// Confirm a candidate.
    Confirm(ConfirmationDue),
    /// Time a variant on more or less work than a case has.
    Experiment(ExperimentDue),
    /// Time a step on the path between two configurations.
    WalkPath(PathStepDue),
    /// Read the hardware counters of a variant.
    Profile(OnCase),
    /// Read the hardware counters of the fastest baselines of cases.
    ProfileBaselines(Vec<CaseName>),
    /// Time a variant without each kind of instruction.
    Ablate(OnCase),
    /// Time the baselines, which takes the device for itself.
    TimeBaselines,
    /// End the search.
    EndSearch(Reason),
    /// Hold the final comparison of a case.
    Final(CaseName),
    /// Skip the final comparison of a case, for want of time or money, with the reason.
    SkipFinal(CaseName, &'static str),
    /// End the session.
    Stop(Status, Reason),
}

impl Action {
    /// Tells whether lanes may begin to screen variants while it is carried out. What ends the search waits for them, and so does the
    /// timing of baselines, which other work on the CPU would disturb.
    pub fn leaves_lanes_at_work(&self) -> bool {
        !matches!(self, Self::EndSearch(_) | Self::Stop(..) | Self::TimeBaselines)
    }
}

/// A confirmation that is due: of one variant, on every case where it is the candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConfirmationDue {
    /// The iteration that screened it and the case, in the workload's order.
    pub candidates: Vec<(IterationId, CaseName)>,
}

/// Decides what to do next.
pub(super) fn next_action(state: &SessionState, phase: &Phase, inputs: &LoopInputs) -> Action {
    match (phase, inputs.interrupts) {
        (_, 2..) => Action::Stop(Status::Interrupted, "it was interrupted twice".into()),
        (_, 1) => Action::Stop(Status::Interrupted, "it was interrupted".into()),
        (Phase::Search, 0) => until_baselines(search(state, inputs), inputs),
        (Phase::Finals { queue, held, reason }, 0) => {
            let time = &inputs.time;
            let profile = || state.incumbent_profile(time).map(Action::Profile);
            let baselines =
                || Some(state.baselines_profile(time)).filter(|due| !due.is_empty()).map(Action::ProfileBaselines);
            let beaten = || state.beaten_profile(time).map(Action::Profile);
            let ablation = || state.ablation(time, queue.is_empty()).map(Action::Ablate);
            // A final may take the rest of the time, so ablations come before it. But it may choose another winner: those
            // are ablated after it, and so is what they have beaten. Counters are read after it, too.
            let due = match (*held, queue.is_empty()) {
                (_, true) => profile().or_else(baselines).or_else(ablation).or_else(beaten),
                (false, false) => ablation(),
                (true, false) => None,
            };
            due.unwrap_or_else(|| closing_action(state, queue.front(), *held, reason, time))
        }
    }
}

/// Returns how many variants may be proposed while the device evaluates the one that has just left the queue. What follows
/// from that evaluation is known one proposal later, and the device need not wait for the proposer.
pub(super) fn room_meanwhile(state: &SessionState, inputs: &LoopInputs) -> usize {
    let is_possible = draws_meanwhile(state, inputs) && !inputs.under_way.is_dry;
    // The one that has just left the queue has begun.
    let begun = state.meter().finished() + state.in_flight().max(1);
    let depth = if is_possible { depth(state, begun) } else { 0 };
    depth.saturating_sub(inputs.under_way.proposals)
}

/// Returns whether the proposer is asked while the device evaluates. Modelled times take so long that this would gain
/// nothing.
fn draws_meanwhile(state: &SessionState, inputs: &LoopInputs) -> bool {
    let has_models = inputs.may_ask || state.calls().open().len() > 0 || is_turn(state, inputs.under_way.proposals);
    state.setup().samples_times() && !has_models
}

/// Returns how many proposals may be under way after so many iterations have begun.
fn depth(state: &SessionState, begun: u64) -> usize {
    let options = &state.setup().options;
    let iterations = options.budget.max_iterations.map_or(u64::MAX, |most| most.saturating_sub(begun));
    usize::try_from(iterations).unwrap_or(usize::MAX).min(options.compile_ahead)
}

/// Returns how many iterations may yet begin.
pub(super) fn iterations_left(state: &SessionState) -> u64 {
    let begun = state.meter().finished() + state.in_flight();
    state.setup().options.budget.max_iterations.map_or(u64::MAX, |most| most.saturating_sub(begun))
}

/// Returns whether the proposer is asked now. After suggestions without prospects, what is compiled is evaluated first. While
/// compilers work, others are drawn, unless the order of proposals must not depend on how long a compilation takes.
fn may_draw(state: &SessionState, inputs: &LoopInputs) -> bool {
    let most = if draws_meanwhile(state, inputs) { 1 } else { MOST_LEFT_OUT };
    let UnderWay { proposals, is_dry, left_out, is_ready, .. } = inputs.under_way;
    let waits = !is_ready && state.setup().takes_any_order();
    !is_dry && (proposals == 0 || left_out < most || waits)
}

/// What is done for the lanes beside home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ForLanes {
    /// Ask the proposer for another variant, and have it compiled.
    Propose,
    /// Have a lane screen the next compiled variant, within the time that is left.
    Screen {
        /// The time that is left.
        within: Duration,
    },
    /// Wait until something has changed.
    Wait,
}

/// Returns what is done for the lanes of which some are `idle`, whatever home does.
pub(super) fn for_lanes(state: &SessionState, inputs: &LoopInputs, idle: usize) -> ForLanes {
    let budget = &state.setup().options.budget;
    let (time, under_way, closing_time) = (&inputs.time, inputs.under_way, state.closing_time());
    let kept = Reserve { time: closing_time, device_time: state.finals_device_time(), iterations: state.in_flight() };
    if inputs.interrupts > 0 || state.meter().exhausted(budget, time, &kept).is_some() {
        return ForLanes::Wait;
    }
    if idle > 0 && under_way.is_ready {
        return ForLanes::Screen { within: state.meter().left(budget, time, closing_time) };
    }
    let has_room = under_way.proposals < depth(state, state.meter().finished() + state.in_flight());
    if has_room && may_draw(state, inputs) { ForLanes::Propose } else { ForLanes::Wait }
}

/// Returns what is done while the baselines are unknown, given what the search does next. They are timed once their program
/// waits for requests, and before the search would end or wait.
fn until_baselines(action: Action, inputs: &LoopInputs) -> Action {
    match (inputs.baselines, &action) {
        (Baselines::Started, _)
        | (
            Baselines::Starting,
            Action::EndSearch(_) | Action::AwaitAnswer { .. } | Action::AwaitRequest { .. } | Action::ConfirmSubmitted,
        ) => Action::TimeBaselines,
        _ => action,
    }
}

fn search(state: &SessionState, inputs: &LoopInputs) -> Action {
    let options = &state.setup().options;
    let (time, under_way) = (&inputs.time, inputs.under_way);
    let closing_time = state.closing_time();
    let kept = Reserve { time: closing_time, device_time: state.finals_device_time(), iterations: 0 };
    if let Some(stop) = state.meter().exhausted(&options.budget, time, &kept) {
        return Action::EndSearch(stop.reason().into());
    }
    match inputs.clients {
        Clients::Gone => return Action::EndSearch("its clients have ended it".into()),
        Clients::Present { has_submitted: true } => return Action::ConfirmSubmitted,
        Clients::Present { has_submitted: false } | Clients::None => {}
    }
    if let Some(due) = question_due(state, time, under_way.initial, inputs.may_ask) {
        return Action::Ask(due);
    }
    if under_way.proposals < depth(state, state.meter().finished() + state.in_flight())
        && (may_draw(state, inputs) || is_turn(state, under_way.proposals))
    {
        return Action::Propose;
    }
    if inputs.baselines == Baselines::Known
        && let Some(action) = beside_the_search(state, inputs, closing_time)
    {
        return action;
    }
    let within = state.meter().left(&options.budget, time, closing_time);
    if under_way.proposals == 0 && state.calls().open().len() > 0 {
        return Action::AwaitAnswer { within };
    }
    if under_way.proposals == 0 && inputs.clients != Clients::None {
        return Action::AwaitRequest { within };
    }
    if let Some(reason) = not_worth_it(state, inputs, within) {
        return Action::EndSearch(Reason { text: reason.into(), early: Some(EarlyEnd::TooLittleLeft) });
    }
    if under_way.proposals == 0 {
        return Action::EndSearch(Reason { text: NOTHING_LEFT.into(), early: Some(EarlyEnd::NothingLeft) });
    }
    Action::Evaluate { within }
}

/// Returns what is due beside the screening of variants: a confirmation, a profile or an experiment.
fn beside_the_search(state: &SessionState, inputs: &LoopInputs, closing_time: Duration) -> Option<Action> {
    let (time, under_way) = (&inputs.time, inputs.under_way);
    if let Some(due) = due_confirmation(state, inputs, closing_time) {
        return Some(Action::Confirm(due));
    }
    if under_way.initial > 0 {
        return None;
    }
    // Once the initial design is measured, the proposer may use the initial kernel's.
    let profile = state.initial_profile(time).map(Action::Profile);
    let is_over = under_way.proposals == 0;
    let experiment = || state.experiment(time, is_over).map(Action::Experiment);
    profile.or_else(experiment).or_else(|| state.path_step(time, is_over).map(Action::WalkPath))
}

/// Returns why the rest of the budget is not worth spending, if it is not. A number of iterations is what the user wants
/// tried, so it is. Language models may have ideas that no earlier try tells of.
fn not_worth_it(state: &SessionState, inputs: &LoopInputs, left: Duration) -> Option<String> {
    let options = &state.setup().options;
    let has_clients = inputs.clients != Clients::None;
    let has_ideas = has_clients || inputs.under_way.initial > 0 || inputs.may_ask || state.calls().open().len() > 0;
    let is_settled = state.cases().all(|(_, case)| case.best_candidate.is_none());
    if options.min_gain == 0.0 || options.budget.max_iterations.is_some() || has_ideas || !is_settled {
        return None;
    }
    let forecast = state.forecast(&inputs.time, left)?;
    (forecast.gain < options.min_gain).then(|| forecast.reason(options.min_gain))
}

/// A final that settles a case may end after the budget, but not after the hard end. One that begins after the budget
/// has to be the first.
fn closing_action(
    state: &SessionState,
    next: Option<&(Need, CaseName)>,
    held: bool,
    reason: &Reason,
    time: &Time,
) -> Action {
    let Some((need, case)) = next else { return Action::Stop(Status::Finished, reason.clone()) };
    match skipped(state, *need, held, state.final_time(case), time) {
        Some(reason) => Action::SkipFinal(case.clone(), reason),
        None => Action::Final(case.clone()),
    }
}

/// Returns why a final that takes so long is skipped. None if it is held.
fn skipped(state: &SessionState, need: Need, held: bool, takes: Duration, time: &Time) -> Option<&'static str> {
    let (meter, budget) = (state.meter(), &state.setup().options.budget);
    let elapsed = meter.elapsed(time);
    // One final that settles a case may begin after the budget.
    let may_be_late = need == Need::Settle && (elapsed < budget.wall || !held);
    let end = if may_be_late { state.hard_end() } else { budget.wall };
    match (need, meter.affords(budget, time, takes)) {
        (Need::Settle, false) => Some("--max-cost leaves no money for it, so its fastest variant stays unconfirmed"),
        (_, false) => Some("--max-cost leaves no money for it, so the figures of its confirmation are used"),
        (_, true) if elapsed + takes > end => {
            Some("there is no time left for it (--budget), so the figures that it has are used")
        }
        _ => None,
    }
}

/// Returns what may be done to confirm a variant. A comparison may begin if there is time left beside the finals, and if a
/// confirmation as long as those before ends before the session has to.
pub(super) fn confirming(state: &SessionState, inputs: &LoopInputs) -> Confirming {
    let left = state.meter().left(&state.setup().options.budget, &inputs.time, state.closing_time());
    let until = state.meter().elapsed(&inputs.time) + state.meter().confirmation_time();
    match inputs.baselines {
        _ if inputs.interrupts > 0 || left.is_zero() || until > state.hard_end() => Confirming::No,
        Baselines::Known => Confirming::Compare,
        Baselines::Starting | Baselines::Started => Confirming::Accept,
    }
}

/// Returns whether to time the baselines of another case, which takes as long as the longest case so far.
pub(super) fn may_time_baselines(left: Duration, longest: Duration) -> bool {
    !left.is_zero() && longest <= left
}

/// Returns the next confirmation that is due, of one variant on all cases where it is the candidate.
///
/// A comparison takes as long as many screening runs, and a search finds many variants that are the fastest for a
/// inputs. So the fastest is confirmed once nothing faster has come for a while. It is confirmed earlier when it is the
/// case's committed winner, or its first to be ahead of the baseline, when it needs the rest of the budget, or when
/// nothing else is left to do. Confirmations have a share of the time.
fn due_confirmation(state: &SessionState, inputs: &LoopInputs, closing_time: Duration) -> Option<ConfirmationDue> {
    if confirming(state, inputs) == Confirming::No {
        return None;
    }
    // While clients think, nothing is under way, and more may come.
    let is_idle = inputs.under_way.proposals == 0 && inputs.clients == Clients::None;
    let pressed = is_idle || is_pressed(state, &inputs.time, closing_time);
    // There may be a faster family.
    let waits = inputs.under_way.initial > 0 && !pressed;
    if !pressed && is_share_used(state, &inputs.time) {
        return None;
    }
    let settled = SETTLED * state.setup().options.compile_ahead as u64;
    let cases = || state.setup().workload.cases.iter().map(|case| &case.name);
    let is_due = |name: &&CaseName| {
        let case = state.case(name);
        // A committed winner comes first, because other variants must beat it. It could not be compared when it was screened.
        if state.best_candidate(name).is_some_and(|best| state.is_committed_winner(name, best)) {
            return true;
        }
        let is_early = inputs.under_way.initial > 0 && case.is_some_and(CaseState::awaits_remeasurement);
        let best_candidate = case.and_then(|case| case.best_candidate.as_ref()).filter(|_| !waits && !is_early);
        let is_settled = |best_candidate: &BestCandidate| state.meter().finished() >= best_candidate.since + settled;
        best_candidate.is_some_and(|best_candidate| {
            pressed || is_settled(best_candidate) || takes_the_lead(state, name).unwrap_or(false)
        })
    };
    let hash = cases()
        .filter(is_due)
        .find_map(|case| state.best_candidate(case))
        .map(|best_candidate| &best_candidate.hash)?;
    let candidates = cases()
        .filter_map(|case| Some((state.best_candidate(case)?, case)))
        .filter(|(best_candidate, _)| best_candidate.hash == *hash);
    Some(ConfirmationDue {
        candidates: candidates.map(|(best_candidate, case)| (best_candidate.iteration, case.clone())).collect(),
    })
}

/// Tells whether confirmations that are dear have had their share of the time so far.
fn is_share_used(state: &SessionState, time: &Time) -> bool {
    let meter = state.meter();
    state.confirmations_are_dear() && meter.confirmed() > meter.elapsed(time).mul_f64(CONFIRMATIONS_SHARE)
}

/// Tells whether the candidate of a case is ahead of the fastest backend of the baseline program, and the incumbent is not.
/// None without one of the three. Once it is confirmed, the session has something to show for the case.
fn takes_the_lead(state: &SessionState, case: &CaseName) -> Option<bool> {
    let baselines = &state.case(case)?.baselines;
    let program = baselines.iter().find(|baseline| baseline.kind == BaselineKind::Program)?;
    let least_ns = program.timing.median_ns / state.setup().policy().min_speedup;
    let (candidate_ns, incumbent_ns) = (state.best_candidate(case)?.screened_ns()?, state.incumbent_screened_ns(case)?);
    Some(candidate_ns < least_ns && incumbent_ns >= program.timing.median_ns)
}

/// Returns whether the rest of the budget is needed to confirm the candidates. Where confirmations are dear, only the finals
/// confirm them: they take the same checks, and a comparison that counts.
fn is_pressed(state: &SessionState, time: &Time, closing_time: Duration) -> bool {
    let candidates: Vec<&VariantHash> =
        state.cases().filter_map(|(_, case)| Some(&case.best_candidate.as_ref()?.hash)).collect();
    let budget = &state.setup().options.budget;
    let all = state.meter().confirmation_time().saturating_mul(candidates.len() as u32);
    let needed = if state.confirmations_are_dear() { Duration::ZERO } else { all };
    let variants = candidates.iter().collect::<HashSet<_>>().len() as u64;
    let device_time = needed.saturating_add(state.finals_device_time());
    let reserve = Reserve { time: closing_time + needed, device_time, iterations: variants };
    variants > 0 && state.meter().exhausted(budget, time, &reserve).is_some()
}
