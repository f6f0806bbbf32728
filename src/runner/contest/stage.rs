//! The mechanics of a contest: blocks in turns, with an eye on the machine.

use std::collections::BTreeSet;

use super::{BaselineEntry, ContestError, Entry, Terms};
use crate::domain::contest::{self, Entrant, Role};
use crate::domain::correctness::Correctness;
use crate::domain::ids::IterationId;
use crate::domain::machine::{MachineState, MachineSummary, Throttle, energy_per_launch_j};
use crate::domain::statistics::median;
use crate::domain::timing::Timing;
use crate::domain::verdict::Policy;
use crate::runner::baseline::Drawing;
use crate::runner::benchmark;
use crate::runner::messages::{EnterRequest, Entered};
use crate::runner::monitor::Monitor;
use crate::runner::worker::{AskError, Worker, WorkerError};

/// How long an entrant is replayed for its energy. NVML's counter moves every 20 to 100 ms.
const ENERGY_NS: f64 = 600e6;

/// Discarded rounds, for every round that may count, beyond which the machine is not fit to measure on.
const MOST_DISCARDED: usize = 3;

/// Where a side's samples come from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    /// The worker's entrant of this number.
    Variant(usize),
    /// The baseline process.
    Baseline,
}

/// One side, as far as it has got.
struct Side {
    source: Source,
    launches: u32,
    /// How long one of its samples takes, once that is known.
    sample_ns: Option<f64>,
    /// Samples of one of its blocks.
    block: usize,
    /// Rounds in which it takes part at most.
    rounds: usize,
    correctness: Option<Correctness>,
    samples_ns: Vec<f64>,
    blocks_ns: Vec<f64>,
    states: Vec<MachineState>,
    energy_j: Option<f64>,
}

/// One block of a side: its samples, and what the machine was doing.
struct Block {
    samples_ns: Vec<f64>,
    state: Option<MachineState>,
}

/// How the rounds were played.
pub(super) struct Played {
    /// Samples of one block.
    pub(super) block: usize,
    /// Rounds thrown away.
    pub(super) discarded: usize,
}

/// Everything that takes part.
pub(super) struct Stage<'a> {
    worker: &'a mut Worker,
    monitor: Option<&'a Monitor>,
    case: &'a str,
    baseline: Option<BaselineEntry<'a>>,
    sides: Vec<Side>,
}

impl<'a> Stage<'a> {
    pub(super) fn new(worker: &'a mut Worker, monitor: Option<&'a Monitor>, case: &'a str) -> Self {
        Self { worker, monitor, case, baseline: None, sides: Vec::new() }
    }

    /// Takes a variant in.
    pub(super) async fn enter(&mut self, request: EnterRequest) -> Result<(), ContestError> {
        let place = self.sides.len();
        let entered = self.worker.enter(request).await;
        let Entered { correctness, launches_per_sample, replay_ns } = entered.map_err(|error| failed(place, error))?;
        let side = Side::new(Source::Variant(place), launches_per_sample, Some(correctness));
        self.sides.push(Side { sample_ns: Some(replay_ns), ..side });
        Ok(())
    }

    /// Takes a baseline in, after the variants. One that does not get ready stays out.
    pub(super) async fn admit(
        &mut self,
        mut entry: BaselineEntry<'a>,
        terms: &Terms<'_>,
        l2_bytes: u64,
        drawing: Drawing,
    ) {
        let BaselineEntry { process, backend } = &mut entry;
        let workload = terms.workload;
        let prepared = process.prepare_one(backend, workload.op, workload.dtype, terms.case, l2_bytes, drawing).await;
        match prepared {
            Ok(ready) => {
                self.sides.push(Side::new(Source::Baseline, ready.launches_per_sample, None));
                self.baseline = Some(entry);
            }
            Err(reason) => tracing::warn!("the baseline is out of a contest on {}: {reason}", self.case),
        }
    }

    /// Plays rounds until enough is sampled, an even number so that drift cancels. Tells how.
    pub(super) async fn play(&mut self, policy: &Policy) -> Result<Played, ContestError> {
        let (mut counted, mut discarded): (usize, usize) = (0, 0);
        self.size_blocks(policy).await?;
        while !counted.is_multiple_of(2) || !self.is_over(policy) {
            let Some(blocks) = self.round(counted).await? else { continue };
            if blocks.iter().flatten().any(Block::is_spoilt) {
                discarded += 1;
                if discarded > MOST_DISCARDED * policy.contest.most.div_ceil(self.sides[0].block) {
                    return Err(throttled());
                }
                continue;
            }
            for (side, block) in self.sides.iter_mut().zip(blocks) {
                block.into_iter().for_each(|block| side.take(block));
            }
            counted += 1;
        }
        Ok(Played { block: self.sides[0].block, discarded })
    }

    /// Sees how large the blocks of every side may be, and in how many rounds it takes part.
    async fn size_blocks(&mut self, policy: &Policy) -> Result<(), ContestError> {
        // A baseline, the last, has not been replayed yet. It is gone from the sides if it leaves.
        let last = self.sides.len() - 1;
        if self.sides[last].sample_ns.is_none()
            && let Some(sampled) = self.sample(last, 1).await?
        {
            let side = &mut self.sides[last];
            side.sample_ns = Some(sampled.iter().sum::<f64>() * f64::from(side.launches));
        }
        let sample_ns: Vec<f64> = self.sides.iter().map(|side| side.sample_ns.unwrap_or(f64::INFINITY)).collect();
        let blocks = contest::blocks(policy.block, &policy.contest, &sample_ns);
        for (side, (block, rounds)) in self.sides.iter_mut().zip(blocks.into_iter().zip(contest::rounds(&sample_ns))) {
            (side.block, side.rounds) = (block, rounds);
        }
        Ok(())
    }

    /// Tells whether enough is sampled of all that take part to the end.
    fn is_over(&self, policy: &Policy) -> bool {
        let sides = || self.sides.iter().filter(|side| side.rounds == usize::MAX);
        let samples: Vec<&[f64]> = sides().map(|side| side.samples_ns.as_slice()).collect();
        let launches: Vec<u32> = sides().map(|side| side.launches).collect();
        let blocks: Vec<usize> = sides().map(|side| side.block).collect();
        contest::is_over(&samples, &launches, &blocks, &policy.contest)
    }

    /// Samples a block of every side that takes part in a round, in its order. `None` if the baseline left: the round begins
    /// anew without it.
    async fn round(&mut self, number: usize) -> Result<Option<Vec<Option<Block>>>, ContestError> {
        let mut blocks: Vec<Option<Block>> = self.sides.iter().map(|_| None).collect();
        for place in contest::order(self.sides.len(), number) {
            if number >= self.sides[place].rounds {
                continue;
            }
            let Some(samples_ns) = self.sample(place, self.sides[place].block).await? else { return Ok(None) };
            // Read at once: an idle GPU has other clocks within milliseconds.
            let state = self.monitor.map(Monitor::state);
            blocks[place] = Some(Block { samples_ns, state });
        }
        Ok(Some(blocks))
    }

    /// Samples a side. `None` if it was the baseline and is gone now.
    async fn sample(&mut self, place: usize, samples: usize) -> Result<Option<Vec<f64>>, ContestError> {
        match (self.sides[place].source, &mut self.baseline) {
            (Source::Variant(entrant), _) => {
                let sampled = self.worker.sample(entrant, samples, self.case).await;
                sampled.map(Some).map_err(|error| failed(entrant, error))
            }
            (Source::Baseline, Some(entry)) => match entry.process.sample(&entry.backend, samples).await {
                Ok(samples_ns) => Ok(Some(samples_ns)),
                Err(reason) => {
                    tracing::warn!("the baseline left a contest on {}: {reason}", self.case);
                    self.drop_baseline();
                    Ok(None)
                }
            },
            (Source::Baseline, None) => {
                self.drop_baseline();
                Ok(None)
            }
        }
    }

    fn drop_baseline(&mut self) {
        self.baseline = None;
        self.sides.retain(|side| side.source != Source::Baseline);
    }

    /// Looks at what no variant may change, when all that is measured is measured: it takes longer than a block, and no block comes
    /// after it.
    pub(super) async fn check(&mut self) -> Result<(), ContestError> {
        for side in &mut self.sides {
            if let Source::Variant(entrant) = side.source {
                let checked = self.worker.check(entrant, self.case).await;
                side.correctness = Some(checked.map_err(|error| failed(entrant, error))?);
            }
        }
        Ok(())
    }

    /// Measures the energy of the challenger and of the baseline, if the machine tells any.
    pub(super) async fn measure_energy(&mut self) -> Result<(), ContestError> {
        let Some(monitor) = self.monitor else { return Ok(()) };
        for place in [0, self.sides.len() - 1] {
            let side = &self.sides[place];
            let is_baseline = side.source == Source::Baseline;
            let is_asked = place == 0 || is_baseline;
            let sample_ns = median(&side.samples_ns).map(|ns| ns * f64::from(side.launches));
            let (Some(sample_ns), true) = (sample_ns, is_asked) else { continue };
            let (launches, samples) = (side.launches, (ENERGY_NS / sample_ns).ceil().max(1.0) as usize);
            let before_mj = monitor.energy_mj();
            let Some(sampled) = self.sample(place, samples).await? else { continue };
            let after_mj = monitor.energy_mj();
            // One more replay than samples, where the first of a block is not counted.
            let uncounted = u64::from(is_baseline || !benchmark::is_long(sample_ns));
            let executions = (sampled.len() as u64 + uncounted) * u64::from(launches);
            self.sides[place].energy_j =
                before_mj.zip(after_mj).and_then(|(before, after)| energy_per_launch_j(before, after, executions));
        }
        Ok(())
    }

    /// Names the processes on the GPU that have no part in this.
    pub(super) fn others(&self, own_pids: &[u32]) -> Vec<String> {
        let baseline = self.baseline.as_ref().and_then(|entry| entry.process.pid());
        let own: BTreeSet<u32> = own_pids.iter().copied().chain(self.worker.pid()).chain(baseline).collect();
        let own: Vec<u32> = own.into_iter().collect();
        self.monitor.map(|monitor| monitor.others(&own)).unwrap_or_default()
    }

    /// Lets the baseline go and returns what was found of everyone.
    pub(super) async fn leave(self, entries: &[Entry<'_>]) -> Vec<Entrant> {
        let Self { baseline, sides, case, .. } = self;
        let backend = baseline.as_ref().map(|entry| entry.backend.clone()).unwrap_or_default();
        if let Some(entry) = baseline
            && let Err(reason) = entry.process.release().await
        {
            tracing::warn!("the baseline did not end its part in a contest on {case}: {reason}");
        }
        let entrant = |side: Side| match side.source {
            Source::Variant(place) => {
                let Entry { role, name, iteration, .. } = &entries[place];
                side.finish(*role, name.clone(), *iteration)
            }
            Source::Baseline => side.finish(Role::Baseline, backend.clone(), None),
        };
        sides.into_iter().filter_map(entrant).collect()
    }
}

impl Side {
    fn new(source: Source, launches: u32, correctness: Option<Correctness>) -> Self {
        Self {
            source,
            launches,
            sample_ns: None,
            block: 1,
            rounds: usize::MAX,
            correctness,
            samples_ns: Vec::new(),
            blocks_ns: Vec::new(),
            states: Vec::new(),
            energy_j: None,
        }
    }

    fn take(&mut self, block: Block) {
        self.blocks_ns.extend(median(&block.samples_ns));
        self.samples_ns.extend(block.samples_ns);
        self.states.extend(block.state);
    }

    fn finish(self, role: Role, name: String, iteration: Option<IterationId>) -> Option<Entrant> {
        Some(Entrant {
            role,
            name,
            iteration,
            timing: Timing::of(self.samples_ns, self.launches)?,
            blocks_ns: self.blocks_ns,
            correctness: self.correctness,
            machine: MachineSummary::of(&self.states),
            energy_j: self.energy_j,
        })
    }
}

impl Block {
    fn is_spoilt(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.throttle.iter().any(|reason| Throttle::spoils_samples(*reason)))
    }
}

fn failed(entrant: usize, error: AskError) -> ContestError {
    match error {
        AskError::Variant(outcome) => ContestError::Failed { entrant, outcome },
        AskError::Machine(error) => ContestError::Machine(error),
    }
}

fn throttled() -> ContestError {
    ContestError::Machine(WorkerError::Broken(
        "the GPU is held back by heat or a power brake nearly all the time, so nothing can be measured: cool it and start \
         again"
            .to_owned(),
    ))
}
