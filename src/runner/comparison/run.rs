//! Runs a comparison: sample groups in turns, while the machine's state is watched.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::{BaselineEntry, ComparisonError, Entry, Terms};
use crate::domain::device::gpu_state::{self, Load};
use crate::domain::device::machine::{MachineState, MachineSummary, Throttle, energy_per_launch_j};
use crate::domain::ids::IterationId;
use crate::domain::measurement::comparison::{self, MIN_ROUNDS, Participant, Progress, Role};
use crate::domain::measurement::correctness::Correctness;
use crate::domain::measurement::verdict::Policy;
use crate::domain::statistics::median;
use crate::domain::statistics::timing::Timing;
use crate::runner::baseline::PendingInputs;
use crate::runner::benchmark;
use crate::runner::messages::{EnterRequest, Entered, SampleGroup};
use crate::runner::monitor::Monitor;
use crate::runner::worker::{AskError, Worker, WorkerError};

/// How long a participant is replayed to measure its energy. NVML's counter changes every 20 to 100 ms.
const ENERGY_NS: f64 = 600e6;

/// Discarded rounds for each permitted round, beyond which the machine is unfit for measurements.
const MAX_DISCARDED_FACTOR: usize = 3;

/// Rounds discarded because of the state of the graphs, beyond which it is not a coincidence: another process that
/// briefly uses the GPU changes the state of one turn.
const MAX_MIXED_ROUNDS: usize = 6;

/// Under sustained load: how long a participant is replayed before each of its groups, in nanoseconds, so that its own
/// clocks and power are those of its samples. The GPU has rested before that, while the last output was checked.
const RUN_UP_NS: f64 = 200e6;

/// Under sustained load: how long each participant is replayed in a turn before the first round, in nanoseconds.
const SETTLING_NS: f64 = 1e9;

/// Under sustained load: the fewest and the most turns before the first round.
const SETTLING_TURNS: [usize; 2] = [3, 8];

/// The change of the challenger's time from one turn to the next, as a share, at which clocks and power have settled.
const SETTLED: f64 = 0.005;

/// The source of a side's samples.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SideSource {
    /// The worker's participant with this number.
    Variant(usize),
    /// The process of the baseline or rival with this number.
    Program(usize),
}

/// The progress of one side.
struct Side {
    source: SideSource,
    role: Role,
    launches: u32,
    /// Nanoseconds of one sample; `None` until known.
    sample_ns: Option<f64>,
    /// Samples in one group.
    group_size: usize,
    /// The most rounds in which the side takes part.
    rounds: usize,
    correctness: Option<Correctness>,
    wrong: Option<String>,
    /// The inputs that each call of a rival gets anew.
    takes: Vec<String>,
    samples_ns: Vec<f64>,
    groups_ns: Vec<f64>,
    states: Vec<MachineState>,
    /// The control of each group that has one.
    graph_nodes_ns: Vec<f64>,
    energy_j: Option<f64>,
}

/// One group of a side: its samples and the machine's state, if it was read.
struct GroupResult {
    group: SampleGroup,
    state: Option<MachineState>,
}

/// The rounds of a comparison.
pub(super) struct Rounds {
    /// Samples in one group.
    pub(super) group_size: usize,
    /// Discarded rounds.
    pub(super) discarded: usize,
}

/// A comparison in progress.
pub(super) struct ComparisonRun<'a> {
    worker: &'a mut Worker,
    monitor: Option<&'a Monitor>,
    case: &'a str,
    load: Load,
    /// None of one that has failed.
    programs: Vec<Option<BaselineEntry<'a>>>,
    sides: Vec<Side>,
    /// The lowest and the highest clock so far, in MHz.
    clocks_mhz: Option<(u32, u32)>,
}

impl<'a> ComparisonRun<'a> {
    pub(super) fn new(worker: &'a mut Worker, monitor: Option<&'a Monitor>, case: &'a str, load: Load) -> Self {
        Self { worker, monitor, case, load, programs: Vec::new(), sides: Vec::new(), clocks_mhz: None }
    }

    /// Adds a variant.
    pub(super) async fn enter(&mut self, role: Role, request: EnterRequest) -> Result<(), ComparisonError> {
        let place = self.sides.len();
        let entered = self.worker.enter(request).await;
        let Entered { correctness, launches_per_sample, replay_ns } = entered.map_err(|error| failed(place, error))?;
        let side = Side::new(SideSource::Variant(place), role, launches_per_sample, Some(correctness));
        self.sides.push(Side { sample_ns: Some(replay_ns), ..side });
        Ok(())
    }

    /// Adds a baseline or rival after the variants. One that fails to prepare is left out.
    pub(super) async fn admit(
        &mut self,
        mut entry: BaselineEntry<'a>,
        terms: &Terms<'_>,
        l2_bytes: u64,
        drawing: PendingInputs,
    ) {
        let BaselineEntry { process, backend, role, .. } = &mut entry;
        let workload = terms.workload;
        let prepared = process.prepare_one(backend, workload.op, workload.dtype, terms.case, l2_bytes, drawing).await;
        match prepared {
            Ok(ready) => {
                let source = SideSource::Program(self.programs.len());
                let side = Side::new(source, *role, ready.launches_per_sample, ready.correctness);
                self.sides.push(Side { wrong: ready.wrong, takes: ready.takes, ..side });
                self.programs.push(Some(entry));
            }
            Err(reason) => {
                tracing::warn!("a comparison on {} runs without the {}: {reason}", self.case, role.name());
            }
        }
    }

    /// Runs rounds until there are enough samples, and returns their number and size. Drift cancels in an even number
    /// of rounds.
    pub(super) async fn play(
        &mut self,
        policy: &Policy,
        rounds_within: Option<Duration>,
    ) -> Result<Rounds, ComparisonError> {
        let (mut counted, mut throttled, mut mixed, mut discarded): (usize, usize, usize, usize) = (0, 0, 0, 0);
        self.size_groups(policy).await?;
        if self.load == Load::Sustained {
            self.settle().await?;
        }
        let begun = Instant::now();
        let is_late = |counted| counted >= MIN_ROUNDS && rounds_within.is_some_and(|most| begun.elapsed() >= most);
        while !counted.is_multiple_of(2) || !(is_late(counted) || self.is_over(policy)) {
            let Some(turns) = self.round(counted).await? else { continue };
            if turns.iter().flatten().any(GroupResult::is_spoilt) {
                (throttled, discarded) = (throttled + 1, discarded + 1);
                if throttled > MAX_DISCARDED_FACTOR * policy.comparison.max_samples.div_ceil(self.sides[0].group_size) {
                    return Err(throttled_always());
                }
                continue;
            }
            let controls_ns = turns.iter().flatten().filter_map(|turn| turn.group.graph_node_ns);
            if !gpu_state::alike(controls_ns, self.clock_spread()) {
                (mixed, discarded) = (mixed + 1, discarded + 1);
                if mixed > MAX_MIXED_ROUNDS {
                    self.separate(&turns)?;
                    mixed = 0;
                }
                continue;
            }
            for (side, turn) in self.sides.iter_mut().zip(turns) {
                turn.into_iter().for_each(|turn| side.take(turn));
            }
            counted += 1;
        }
        Ok(Rounds { group_size: self.sides[0].group_size, discarded })
    }

    /// Leaves the baseline out of a comparison in which its graphs are in another state than the worker's. Fails if the
    /// worker's own state changes.
    fn separate(&mut self, turns: &[Option<GroupResult>]) -> Result<(), ComparisonError> {
        let (mut ours_ns, mut theirs_ns) = (Vec::new(), Vec::new());
        for (side, turn) in self.sides.iter().zip(turns) {
            let control_ns = turn.as_ref().and_then(|turn| turn.group.graph_node_ns);
            match side.source {
                SideSource::Variant(_) => ours_ns.extend(control_ns),
                SideSource::Program(program) => theirs_ns.extend(control_ns.map(|ns| (program, ns))),
            }
        }
        let spread = self.clock_spread();
        let is_other = |its_ns: f64| !gpu_state::alike(ours_ns.iter().copied().chain([its_ns]), spread);
        theirs_ns.retain(|(_, its_ns)| is_other(*its_ns));
        let (Some(ns), false, true) =
            (median(&ours_ns), theirs_ns.is_empty(), gpu_state::alike(ours_ns.iter().copied(), spread))
        else {
            return Err(two_speeds(&ours_ns));
        };
        for (program, its_ns) in theirs_ns {
            let Some(role) = self.programs[program].as_ref().map(|entry| entry.role.name()) else { continue };
            tracing::warn!(
                "a comparison on {} continues without the {role}: its graphs are in another state, in which an empty \
                 kernel takes {:.2} us as a node of a graph, and {:.2} us beside the variants",
                self.case,
                its_ns / 1e3,
                ns / 1e3
            );
            self.drop_program(program);
        }
        Ok(())
    }

    /// Keeps the GPU busy with all participants in turns until the challenger's time no longer changes.
    async fn settle(&mut self) -> Result<(), ComparisonError> {
        let [least, most] = SETTLING_TURNS;
        let mut last_ns = f64::INFINITY;
        for turn in 1..=most {
            let mut challenger_ns = None;
            for place in 0..self.sides.len() {
                // A baseline may have failed in this turn.
                let Some(samples) = self.sides.get(place).map(|side| side.samples_in(SETTLING_NS)) else { break };
                let sampled = self.sample(place, samples.max(1)).await?;
                challenger_ns = challenger_ns.or(sampled.and_then(|group| median(&group.samples_ns)));
            }
            let ns = challenger_ns.unwrap_or(f64::NAN);
            if turn >= least && (ns / last_ns - 1.0).abs() <= SETTLED {
                break;
            }
            last_ns = ns;
        }
        Ok(())
    }

    /// Sets every side's group size and number of rounds.
    async fn size_groups(&mut self, policy: &Policy) -> Result<(), ComparisonError> {
        // Baselines come last and were not replayed yet. One that fails is removed from the sides.
        for place in (0..self.sides.len()).rev() {
            if self.sides[place].sample_ns.is_none()
                && let Some(sampled) = self.sample(place, 1).await?
            {
                let side = &mut self.sides[place];
                side.sample_ns = Some(sampled.samples_ns.iter().sum::<f64>() * f64::from(side.launches));
            }
        }
        let sample_ns: Vec<f64> = self.sides.iter().map(|side| side.sample_ns.unwrap_or(f64::INFINITY)).collect();
        let groups = comparison::group_sizes(policy.group_size, &policy.comparison, &sample_ns);
        for (side, (size, rounds)) in self.sides.iter_mut().zip(groups.into_iter().zip(comparison::rounds(&sample_ns)))
        {
            (side.group_size, side.rounds) = (size, rounds);
        }
        Ok(())
    }

    /// Returns whether the sides have enough samples.
    fn is_over(&self, policy: &Policy) -> bool {
        let sides: Vec<Progress<'_>> = self.sides.iter().map(Side::progress).collect();
        comparison::is_over(&sides, &policy.comparison)
    }

    /// Samples a group of every side that takes part in a round, in the round's order. Returns `None` if a baseline
    /// failed; the round then starts again without it.
    async fn round(&mut self, number: usize) -> Result<Option<Vec<Option<GroupResult>>>, ComparisonError> {
        let mut turns: Vec<Option<GroupResult>> = self.sides.iter().map(|_| None).collect();
        for place in comparison::order(self.sides.len(), number) {
            if number >= self.sides[place].rounds {
                continue;
            }
            let side = &self.sides[place];
            let run_up = if self.load == Load::Sustained { side.samples_in(RUN_UP_NS) } else { 0 };
            let Some(mut group) = self.sample(place, run_up + side.group_size).await? else { return Ok(None) };
            // Read at once, because an idle GPU changes its clocks within milliseconds. It takes half as long as a group,
            // so it is read after one group of each round, each time of another side.
            let is_turn = place == number % self.sides.len();
            let state = self.monitor.filter(|_| is_turn).map(Monitor::state);
            if let Some(mhz) = state.as_ref().and_then(|state| state.sm_clock_mhz) {
                let (least, most) = self.clocks_mhz.unwrap_or((mhz, mhz));
                self.clocks_mhz = Some((least.min(mhz), most.max(mhz)));
            }
            group.samples_ns.drain(..run_up);
            turns[place] = Some(GroupResult { group, state });
        }
        Ok(Some(turns))
    }

    /// Returns how many times its lowest clock the GPU's highest has been. 1 if it is not known.
    fn clock_spread(&self) -> f64 {
        self.clocks_mhz.map_or(1.0, |(least, most)| f64::from(most) / f64::from(least.max(1)))
    }

    /// Samples a side. Returns `None` if the side was a baseline and has failed.
    async fn sample(&mut self, place: usize, samples: usize) -> Result<Option<SampleGroup>, ComparisonError> {
        let program = match self.sides[place].source {
            SideSource::Variant(participant) => {
                let sampled = self.worker.sample(participant, samples, self.case).await;
                return sampled.map(Some).map_err(|error| failed(participant, error));
            }
            SideSource::Program(program) => program,
        };
        if let Some(entry) = &mut self.programs[program] {
            match entry.process.sample(&entry.backend, samples).await {
                Ok(group) => return Ok(Some(group)),
                Err(reason) => {
                    let role = entry.role.name();
                    tracing::warn!("a comparison on {} continues without the {role}: {reason}", self.case);
                }
            }
        }
        self.drop_program(program);
        Ok(None)
    }

    fn drop_program(&mut self, program: usize) {
        self.programs[program] = None;
        self.sides.retain(|side| side.source != SideSource::Program(program));
    }

    /// Checks what no variant may change, and whether rivals compute what they are given, after all measurements. It takes longer
    /// than a group, so no group may come after it.
    pub(super) async fn check(&mut self, terms: &Terms<'_>) -> Result<(), ComparisonError> {
        for side in &mut self.sides {
            match side.source {
                SideSource::Variant(participant) => {
                    let checked = self.worker.check(participant, self.case).await;
                    side.correctness = Some(checked.map_err(|error| failed(participant, error))?);
                }
                SideSource::Program(program) => {
                    if let Some(entry) = &mut self.programs[program] {
                        side.check_rival(entry, terms).await;
                    }
                }
            }
        }
        Ok(())
    }

    /// Measures the energy of the challenger and of the baseline, if the machine reports energy.
    pub(super) async fn measure_energy(&mut self) -> Result<(), ComparisonError> {
        let Some(monitor) = self.monitor else { return Ok(()) };
        for role in [Role::Challenger, Role::Baseline] {
            let Some(place) = self.sides.iter().position(|side| side.role == role) else { continue };
            let side = &self.sides[place];
            let is_baseline = matches!(side.source, SideSource::Program(_));
            let sample_ns = median(&side.samples_ns).map(|ns| ns * f64::from(side.launches));
            let (Some(sample_ns), true) = (sample_ns, place == 0 || is_baseline) else { continue };
            let (launches, samples) = (side.launches, (ENERGY_NS / sample_ns).ceil().max(1.0) as usize);
            let before_mj = monitor.energy_mj();
            let Some(sampled) = self.sample(place, samples).await? else { continue };
            let after_mj = monitor.energy_mj();
            // There is one more replay than samples where the first of a group is not counted.
            let uncounted = u64::from(is_baseline || !benchmark::is_long(sample_ns));
            let executions = (sampled.samples_ns.len() as u64 + uncounted) * u64::from(launches);
            self.sides[place].energy_j =
                before_mj.zip(after_mj).and_then(|(before, after)| energy_per_launch_j(before, after, executions));
        }
        Ok(())
    }

    /// Names the GPU's processes that are not part of this comparison.
    pub(super) fn others(&self, own_pids: &[u32]) -> Vec<String> {
        let programs = self.programs.iter().flatten().filter_map(|entry| entry.process.pid());
        let own: BTreeSet<u32> = own_pids.iter().copied().chain(self.worker.pid()).chain(programs).collect();
        let own: Vec<u32> = own.into_iter().collect();
        self.monitor.map(|monitor| monitor.others(&own)).unwrap_or_default()
    }

    /// Releases the baselines and returns the results of all participants.
    pub(super) async fn leave(self, entries: &[Entry<'_>]) -> Vec<Participant> {
        let Self { programs, sides, case, .. } = self;
        let mut names = Vec::with_capacity(programs.len());
        for entry in programs {
            names.push(entry.as_ref().map(|entry| entry.name.clone()).unwrap_or_default());
            let Some(BaselineEntry { process, role, .. }) = entry else { continue };
            if let Err(reason) = process.release().await {
                tracing::warn!("the {} did not release its memory after a comparison on {case}: {reason}", role.name());
            }
        }
        let participant = |side: Side| match side.source {
            SideSource::Variant(place) => {
                let Entry { name, iteration, .. } = &entries[place];
                side.finish(name.clone(), *iteration)
            }
            SideSource::Program(program) => side.finish(names[program].clone(), None),
        };
        sides.into_iter().filter_map(participant).collect()
    }
}

impl Side {
    fn new(source: SideSource, role: Role, launches: u32, correctness: Option<Correctness>) -> Self {
        Self {
            source,
            role,
            launches,
            sample_ns: None,
            group_size: 1,
            rounds: usize::MAX,
            correctness,
            wrong: None,
            takes: Vec::new(),
            samples_ns: Vec::new(),
            groups_ns: Vec::new(),
            states: Vec::new(),
            graph_nodes_ns: Vec::new(),
            energy_j: None,
        }
    }

    /// Checks whether a rival that was right computes what it is given.
    async fn check_rival(&mut self, entry: &mut BaselineEntry<'_>, terms: &Terms<'_>) {
        if self.takes.is_empty() || self.wrong.is_some() {
            return;
        }
        let workload = terms.workload;
        let rival = (&*entry.backend, std::mem::take(&mut self.takes));
        let of = (workload.op, workload.dtype, workload.tolerance);
        let wrong = entry.process.again(rival, of, terms.case, terms.input_seed).await;
        self.wrong = wrong.unwrap_or_else(|problem| Some(problem.into()));
        if self.wrong.is_some() {
            self.correctness = None;
        }
    }

    fn take(&mut self, GroupResult { group, state }: GroupResult) {
        self.groups_ns.extend(median(&group.samples_ns));
        self.samples_ns.extend(group.samples_ns);
        self.graph_nodes_ns.extend(group.graph_node_ns);
        self.states.extend(state);
    }

    /// Returns how many samples last this long.
    fn samples_in(&self, ns: f64) -> usize {
        self.sample_ns.map_or(0, |sample_ns| (ns / sample_ns).ceil() as usize)
    }

    fn progress(&self) -> Progress<'_> {
        let Self { role, samples_ns, groups_ns, launches, group_size, rounds, .. } = self;
        let (role, launches, group_size) = (*role, *launches, *group_size);
        Progress { role, samples_ns, groups_ns, launches, group_size, is_in_every_round: *rounds == usize::MAX }
    }

    fn finish(self, name: String, iteration: Option<IterationId>) -> Option<Participant> {
        Some(Participant {
            role: self.role,
            name,
            iteration,
            timing: Timing::of(self.samples_ns, self.launches)?,
            groups_ns: self.groups_ns,
            correctness: self.correctness,
            machine: MachineSummary::of(&self.states),
            energy_j: self.energy_j,
            graph_node_ns: median(&self.graph_nodes_ns),
            wrong: self.wrong,
        })
    }
}

impl GroupResult {
    fn is_spoilt(&self) -> bool {
        self.state
            .as_ref()
            .is_some_and(|state| state.throttle.iter().any(|reason| Throttle::invalidates_samples(*reason)))
    }
}

fn failed(participant: usize, error: AskError) -> ComparisonError {
    match error {
        AskError::Variant(outcome) => ComparisonError::Failed { participant, outcome },
        AskError::Machine(error) => ComparisonError::Machine(error),
    }
}

fn throttled_always() -> ComparisonError {
    ComparisonError::Machine(WorkerError::Broken(
        "the GPU is throttled by temperature or a power brake almost all the time, so nothing can be measured: cool \
         the machine and start again"
            .to_owned(),
    ))
}

fn two_speeds(nodes_ns: &[f64]) -> ComparisonError {
    let (least, most) = nodes_ns.iter().fold((f64::INFINITY, 0.0), |(least, most), ns| (ns.min(least), ns.max(most)));
    ComparisonError::Machine(WorkerError::Broken(format!(
        "graphs are replayed at two speeds, so nothing can be compared: an empty kernel takes {:.2} us as a node of a \
         graph, or {:.2} us; end other programs that use the GPU and start again",
        least / 1e3,
        most / 1e3
    )))
}
