//! The lanes of a session beside its home device. Each screens one variant at a time, in the background. The session concludes
//! the results one after another.

mod feeding;
mod home_times;
mod rounds;
mod spot_checks;

use std::collections::{BTreeMap, VecDeque};

use anyhow::Context;
use tokio::task::JoinSet;

use self::home_times::{Job, Ratios};
use self::spot_checks::SpotChecks;
use super::pipeline::Assessed;
use crate::domain::ids::IterationId;
use crate::domain::measurement::evaluation::Evaluation;
use crate::domain::record::journal::Begun;
use crate::domain::variant::VariantHash;
use crate::runner::activity;
use crate::runner::worker::{Arrivals, RemoteLane, Screened, Worker, WorkerError};

/// A lane with what is known about its times.
struct Station {
    lane: AnyLane,
    ratios: Ratios,
}

/// A device of this machine or of another one.
enum AnyLane {
    Local(Box<Worker>),
    Remote(RemoteLane),
}

impl Station {
    fn new(lane: AnyLane) -> Self {
        Self { lane, ratios: Ratios::default() }
    }

    /// Returns how its device was selected, with its machine if that is another one.
    fn device(&self) -> String {
        match &self.lane {
            AnyLane::Local(lane) => lane.info().id.clone(),
            AnyLane::Remote(lane) => lane.name().to_owned(),
        }
    }

    /// Returns the name of its card, for the record.
    fn card(&self) -> String {
        match &self.lane {
            AnyLane::Local(lane) => lane.info().uuid.as_ref().unwrap_or(&lane.info().id).clone(),
            AnyLane::Remote(lane) => lane.name().to_owned(),
        }
    }

    async fn screen(&mut self, job: Job) -> Result<Screened, WorkerError> {
        match &mut self.lane {
            AnyLane::Local(lane) => home_times::screen(lane.as_mut(), &mut self.ratios, job).await,
            AnyLane::Remote(lane) => home_times::screen(lane, &mut self.ratios, job).await,
        }
    }
}

/// An iteration that has begun on a lane.
pub(super) struct Underway {
    pub begun: Begun,
    pub assessed: Assessed,
}

/// What became of an iteration on a lane.
pub(super) enum Back {
    /// It was screened on a device, in home's times. None if no device had to be asked.
    Screened(Box<Underway>, Evaluation, Option<String>),
    /// Another machine has screened it, and home has to do so, too. With the name of that card.
    Doubted(Box<Underway>, Evaluation, String),
    /// The lane was lost. Another device has to screen the variant.
    Lost(Box<Underway>),
}

impl Back {
    /// Returns the iteration's number.
    pub fn iteration(&self) -> IterationId {
        match self {
            Self::Screened(underway, ..) | Self::Doubted(underway, ..) | Self::Lost(underway) => {
                underway.begun.iteration
            }
        }
    }
}

/// A lane that is not used any more.
pub(super) struct LostLane {
    /// How it was selected, such as `cuda:1`.
    pub device: String,
    pub reason: String,
}

/// What a job has led to: the lane's number, the lane and the result.
type Ended = (usize, Station, IterationId, Result<Screened, WorkerError>);

/// See the module's documentation.
pub(super) struct Lanes {
    /// Those without a job, by number. The lowest one gets the next job, so that sessions are reproducible.
    idle: BTreeMap<usize, Station>,
    jobs: JoinSet<Ended>,
    underway: BTreeMap<IterationId, Underway>,
    known: VecDeque<Back>,
    /// Results of which home has to do the rest.
    waiting: VecDeque<Back>,
    lost: Vec<LostLane>,
    /// What has to be screened again: lanes that cannot be trusted have screened it.
    reopened: Vec<IterationId>,
    /// Where lanes on other machines come from.
    arrivals: Arrivals,
    /// The number of the next lane that comes.
    next: usize,
    spot_checks: SpotChecks,
}

impl Lanes {
    /// Makes the lanes of devices that are free.
    pub fn new(workers: Vec<Worker>, arrivals: Arrivals, seed: u64) -> Self {
        let idle: BTreeMap<_, _> =
            workers.into_iter().map(|lane| Station::new(AnyLane::Local(Box::new(lane)))).enumerate().collect();
        let mut lanes = Self {
            next: idle.len(),
            idle,
            jobs: JoinSet::new(),
            underway: BTreeMap::new(),
            known: VecDeque::new(),
            waiting: VecDeque::new(),
            lost: Vec::new(),
            reopened: Vec::new(),
            arrivals,
            spot_checks: SpotChecks::new(seed),
        };
        lanes.take_arrivals();
        lanes
    }

    /// Takes the lanes on other machines that have come.
    pub fn take_arrivals(&mut self) {
        for lane in self.arrivals.take() {
            self.idle.insert(self.next, Station::new(AnyLane::Remote(lane)));
            self.next += 1;
        }
    }

    /// Tells whether there are no lanes, or none any more.
    pub fn are_none(&self) -> bool {
        self.idle.is_empty() && self.busy() == 0 && self.waiting.is_empty()
    }

    /// Ends all jobs, and the lanes with them.
    pub fn abandon(&mut self) {
        *self = Self::new(Vec::new(), Arrivals::default(), 0);
    }

    /// Keeps a result until home is free.
    pub fn wait(&mut self, back: Back) {
        self.waiting.push_back(back);
    }

    /// Returns the next result that waits for home.
    pub fn take_waiting(&mut self) -> Option<Back> {
        self.waiting.pop_front()
    }

    /// Returns the number of lanes without a job.
    pub fn idle(&self) -> usize {
        self.idle.len()
    }

    /// Returns the number of iterations on lanes.
    pub fn busy(&self) -> usize {
        self.jobs.len() + self.known.len()
    }

    /// Tells whether the next lane has to time an incumbent before it screens a variant on a case.
    pub fn is_reference_due(&self, case: &str, incumbent: &VariantHash) -> bool {
        self.idle.values().next().is_some_and(|next| next.ratios.is_due(case, incumbent))
    }

    /// Has the next lane screen a variant.
    pub fn begin(&mut self, underway: Underway, job: Job) -> anyhow::Result<()> {
        let (number, mut station) = self.idle.pop_first().context("Failed to find a free lane")?;
        let iteration = underway.begun.iteration;
        self.underway.insert(iteration, underway);
        self.jobs.spawn(activity::in_background(async move {
            let screened = station.screen(job).await;
            (number, station, iteration, screened)
        }));
        Ok(())
    }

    /// Takes an iteration whose result was known without a device.
    pub fn put_known(&mut self, underway: Underway, evaluation: Evaluation) {
        self.known.push_back(Back::Screened(Box::new(underway), evaluation, None));
    }

    /// Waits for the next result; None if no lane has a job. If this future is dropped, nothing is lost.
    pub async fn next(&mut self) -> anyhow::Result<Option<Back>> {
        if let Some(known) = self.known.pop_front() {
            return Ok(Some(known));
        }
        let Some(ended) = self.jobs.join_next().await else { return Ok(None) };
        let (number, station, iteration, screened) = ended.context("Failed to screen on another device")?;
        let underway = self.underway.remove(&iteration).context("Failed to find an iteration on a lane")?;
        let underway = Box::new(underway);
        Ok(Some(match screened {
            Ok(screened) => self.returned(underway, (number, station), screened),
            Err(error @ WorkerError::Oracle(_)) => return Err(error).context("Failed to evaluate a variant"),
            Err(error) => {
                if matches!(error, WorkerError::Distrusted(_)) {
                    self.reopened.extend(self.spot_checks.leave_out(&station.card()));
                }
                self.lost.push(LostLane { device: station.device(), reason: error.to_string() });
                Back::Lost(underway)
            }
        }))
    }

    /// Takes a lane back, with its result.
    fn returned(&mut self, underway: Box<Underway>, (number, station): (usize, Station), screened: Screened) -> Back {
        let (card, is_remote) = (station.card(), matches!(station.lane, AnyLane::Remote(_)));
        if self.spot_checks.is_out(&card) {
            self.leave_out(&station);
            return Back::Lost(underway);
        }
        self.idle.insert(number, station);
        match screened {
            Screened::Reported(evaluation) if is_remote && self.spot_checks.note(&card, underway.begun.iteration) => {
                Back::Doubted(underway, evaluation, card)
            }
            Screened::Reported(evaluation) => Back::Screened(underway, evaluation, Some(card)),
            Screened::Lost(_) => Back::Lost(underway),
        }
    }

    fn leave_out(&mut self, station: &Station) {
        let reason = "the first device has twice found something else".to_owned();
        self.lost.push(LostLane { device: station.device(), reason });
    }

    /// Compares what another machine has found with what home has. After too many differences, that machine is not used any more.
    pub fn compare(&mut self, card: &str, theirs: &Evaluation, homes: &Evaluation) {
        let Some(again) = self.spot_checks.compare(card, theirs, homes) else { return };
        self.reopened.extend(again);
        let out: Vec<usize> =
            self.idle.iter().filter(|(_, station)| station.card() == card).map(|(number, _)| *number).collect();
        for number in out {
            if let Some(station) = self.idle.remove(&number) {
                self.leave_out(&station);
            }
        }
    }

    /// Returns the iterations whose variants have to be screened again, since this was last asked.
    pub fn take_reopened(&mut self) -> Vec<IterationId> {
        std::mem::take(&mut self.reopened)
    }

    /// Returns the lanes that were left out since this was last asked.
    pub fn take_lost(&mut self) -> Vec<LostLane> {
        std::mem::take(&mut self.lost)
    }
}
