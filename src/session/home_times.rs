//! Converts the times of a lane to those of home. Two cards of one model differ by percents, so their times are never compared as
//! they are. A lane times each case's incumbent, too. What it measures is multiplied by the ratio of the incumbent's two times.

use std::collections::HashMap;
use std::sync::Arc;

use super::setup::SessionSetup;
use crate::domain::evaluation::{Evaluation, Outcome};
use crate::domain::ids::CaseName;
use crate::domain::variant::VariantHash;
use crate::domain::workload::Case;
use crate::runner::lane::{Lane, Screened};
use crate::runner::messages::EvaluateRequest;
use crate::runner::trial;
use crate::runner::worker::WorkerError;

/// Variants on a case before a lane times the incumbent again: clocks change with a card's temperature.
const USES: u32 = 64;

/// Variants on a case before a lane times a new incumbent. Early in a session, there is a new one every few variants.
const USES_OF_OLD: u32 = 8;

/// How often a lane may try to time an incumbent. Its process may be killed once by accident.
const TRIES: u32 = 2;

/// An incumbent that home has timed on a case.
#[derive(Debug, Clone)]
pub(super) struct Reference {
    pub hash: VariantHash,
    pub case: CaseName,
    /// Its time on home, in nanoseconds.
    pub home_ns: f64,
    /// What the lane is asked.
    pub request: EvaluateRequest,
}

/// What a lane is to screen.
pub(super) struct Job {
    pub setup: Arc<SessionSetup>,
    /// The request, with home's times to beat.
    pub request: EvaluateRequest,
    /// The incumbents that the lane has to time before.
    pub references: Vec<Reference>,
}

/// Home's times divided by those of a lane, by case.
#[derive(Debug, Default)]
pub(super) struct Ratios(HashMap<CaseName, Ratio>);

#[derive(Debug)]
struct Ratio {
    /// The incumbent from which it was taken.
    of: VariantHash,
    home_over_lane: f64,
    uses: u32,
}

impl Ratios {
    /// Tells whether the incumbent of a case has to be timed before the next variant.
    pub fn is_due(&self, case: &str, incumbent: &VariantHash) -> bool {
        let most = |known: &Ratio| if known.of == *incumbent { USES } else { USES_OF_OLD };
        self.0.get(case).is_none_or(|known| known.uses >= most(known))
    }

    fn note(&mut self, reference: Reference, lane_ns: f64) {
        let home_over_lane = reference.home_ns / lane_ns;
        self.0.insert(reference.case, Ratio { of: reference.hash, home_over_lane, uses: 0 });
    }

    /// Returns the ratio of a case: 1 where nothing was timed, because times are modelled.
    fn of(&self, case: &str) -> f64 {
        self.0.get(case).map_or(1.0, |known| known.home_over_lane)
    }

    /// Turns home's times to beat into the lane's.
    fn to_lane(&mut self, request: &mut EvaluateRequest) {
        for case in &mut request.cases {
            case.incumbent_ns = case.incumbent_ns.map(|ns| ns / self.of(&case.case.name));
            if let Some(known) = self.0.get_mut(&case.case.name) {
                known.uses += 1;
            }
        }
    }

    /// Turns the lane's times into home's.
    fn to_home(&self, evaluation: &mut Evaluation) {
        for found in &mut evaluation.measurements {
            let ratio = self.of(&found.case);
            for timing in found.screening.iter_mut().chain(&mut found.confirmation) {
                timing.scale(ratio);
            }
        }
    }
}

/// Has a lane screen a variant. Its times are those that home would have measured. An error means that the lane cannot be used any
/// more.
pub(super) async fn screen(lane: &mut impl Lane, ratios: &mut Ratios, job: Job) -> Result<Screened, WorkerError> {
    let Job { setup, mut request, references } = job;
    for reference in references {
        let lane_ns = time(lane, &reference).await?;
        ratios.note(reference, lane_ns);
    }
    ratios.to_lane(&mut request);
    let cases: Vec<Case> = request.cases.iter().map(|request| request.case.clone()).collect();
    let mut screened = lane.screen(request).await?;
    if let Screened::Reported(evaluation) = &mut screened {
        trial::refute(&setup.workload, &cases, lane.info(), evaluation);
        ratios.to_home(evaluation);
    }
    Ok(screened)
}

/// Returns the time of an incumbent on a lane, in nanoseconds. It was right on home, so a lane that disagrees cannot be trusted.
async fn time(lane: &mut impl Lane, reference: &Reference) -> Result<f64, WorkerError> {
    let mut last = String::new();
    for _ in 0..TRIES {
        let screened = lane.screen(reference.request.clone()).await?;
        let is_lost = matches!(screened, Screened::Lost(_));
        let Evaluation { outcome, measurements, .. } = screened.evaluation();
        let timing = measurements.first().and_then(|found| found.screening.as_ref());
        match timing.filter(|_| outcome == Outcome::Measured) {
            Some(timing) => return Ok(timing.median_ns),
            None => last = outcome.message().unwrap_or("it was not timed").to_owned(),
        }
        if !is_lost {
            break;
        }
    }
    let Reference { case, .. } = reference;
    Err(WorkerError::Broken(format!("the best kernel of {case}, which the first device has found right, fails there: {last}")))
}
