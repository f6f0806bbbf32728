//! Converts the times of a lane to those of home. Two cards of one model differ by percents, so their times are never compared as
//! they are. A lane times each case's incumbent, too. What it measures is multiplied by the ratio of the incumbent's two times.

use std::collections::HashMap;
use std::sync::Arc;

use crate::domain::ids::CaseName;
use crate::domain::measurement::evaluation::{Evaluation, Outcome};
use crate::domain::variant::VariantHash;
use crate::domain::workload::Case;
use crate::runner::messages::{CaseRequest, EvaluateRequest};
use crate::runner::trial;
use crate::runner::worker::{Lane, Screened, WorkerError};
use crate::session::setup::SessionSetup;

/// Variants on a case before a lane times the incumbent again: clocks change with a card's temperature.
const USES: u32 = 64;

/// Variants on a case before a lane times a new incumbent. Early in a session, there is a new one every few variants.
const USES_OF_OLD: u32 = 8;

/// How often a lane may try to time an incumbent. Its process may be killed once by accident.
const TRIES: u32 = 2;

/// An incumbent that home has timed on a case.
#[derive(Debug, Clone)]
pub(in crate::session) struct Reference {
    pub hash: VariantHash,
    pub case: CaseName,
    /// Its time on home, in nanoseconds.
    pub home_ns: f64,
    /// What the lane is asked.
    pub request: EvaluateRequest,
}

/// What a lane is to screen.
pub(in crate::session) struct Job {
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
    fn turn_to_beat(&mut self, request: &mut EvaluateRequest) {
        for case in &mut request.cases {
            case.incumbent_ns = case.incumbent_ns.map(|ns| ns / self.of(&case.case.name));
            if let Some(known) = self.0.get_mut(&case.case.name) {
                known.uses += 1;
            }
        }
    }

    /// Turns the lane's times into home's.
    fn turn_times(&self, evaluation: &mut Evaluation) {
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
pub(in crate::session) async fn screen(
    lane: &mut impl Lane,
    ratios: &mut Ratios,
    job: Job,
) -> Result<Screened, WorkerError> {
    let Job { setup, mut request, references } = job;
    if let Some(reference) = references.first() {
        expect_wrong(lane, &setup, reference).await?;
    }
    for reference in references {
        let lane_ns = time(lane, &reference).await?;
        ratios.note(reference, lane_ns);
    }
    ratios.turn_to_beat(&mut request);
    let cases: Vec<Case> = request.cases.iter().map(|request| request.case.clone()).collect();
    let mut screened = lane.screen(request).await?;
    if let Screened::Reported(evaluation) = &mut screened {
        trial::refute(&setup.workload, &cases, lane.info(), evaluation);
        ratios.turn_times(evaluation);
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
    Err(WorkerError::Distrusted(format!(
        "the best kernel of {case}, which the first device has found right, fails there: {last}"
    )))
}

/// Has a lane screen an incumbent whose output goes elsewhere. A lane that finds it right cannot be trusted.
async fn expect_wrong(
    lane: &mut impl Lane,
    setup: &SessionSetup,
    Reference { case, request, .. }: &Reference,
) -> Result<(), WorkerError> {
    let (op, mut planted) = (setup.workload.op, request.clone());
    for CaseRequest { case, plan, .. } in &mut planted.cases {
        // What is updated in place is read, too, and there is no telling what a kernel does with other values.
        if op.is_in_place(&case.dims, request.dtype) {
            return Ok(());
        }
        *plan = plan.writing_elsewhere(&op.outputs(&case.dims, request.dtype));
    }
    match lane.screen(planted).await?.evaluation().outcome {
        Outcome::Measured => {
            Err(WorkerError::Distrusted(format!("a kernel that does not write the output of {case} is right there")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::device::DeviceInfo;
    use crate::domain::measurement::check::Check;
    use crate::runner::trial::{Seeds, Trial};
    use crate::session::synthetic::{CASES, Scenario, compiled, evaluation, measurement, setup};

    /// A card on which everything takes so many times as long as on home. It loses its process before some answers.
    struct Card {
        info: DeviceInfo,
        slowness: u32,
        losses: u32,
        outcome: Outcome,
        /// Whether it finds out that a kernel does not write its output.
        checks: bool,
        /// The times to beat that it was given, in nanoseconds.
        to_beat_ns: Vec<Option<f64>>,
    }

    impl Card {
        fn new(slowness: u32) -> Self {
            let (info, outcome) = (setup().device, Outcome::Measured);
            Self { info, slowness, losses: 0, outcome, checks: true, to_beat_ns: Vec::new() }
        }
    }

    /// The time of every variant on home.
    const HOME_US: u32 = 100;

    impl Lane for Card {
        fn info(&self) -> &DeviceInfo {
            &self.info
        }

        async fn screen(&mut self, request: EvaluateRequest) -> Result<Screened, WorkerError> {
            let output = |case: &CaseRequest| case.plan.workspaces.iter().any(|it| it.name.ends_with("_elsewhere"));
            if self.checks && request.cases.iter().any(output) {
                let (case, message) = (CASES[0].into(), "the output is not written".to_owned());
                let wrong = Outcome::Wrong { case, check: Check::Written, message };
                return Ok(Screened::Reported(evaluation(wrong, Vec::new())));
            }
            self.to_beat_ns.extend(request.cases.iter().map(|case| case.incumbent_ns));
            if self.losses > 0 {
                self.losses -= 1;
                let message = "the worker died".to_owned();
                let crashed = Outcome::Crashed { case: CASES[0].into(), message, line: None };
                return Ok(Screened::Lost(evaluation(crashed, Vec::new())));
            }
            let time = |case: &CaseName| measurement(case, HOME_US * self.slowness, None);
            let found = request.cases.iter().map(|request| time(&request.case.name)).collect();
            Ok(Screened::Reported(evaluation(self.outcome.clone(), found)))
        }
    }

    fn job(references: &[&str]) -> Job {
        let told = Scenario::new(setup());
        let compiled = compiled(&told, 1);
        let (setup, mut cases) = (told.state.shared_setup(), compiled.cases.unwrap());
        cases.iter_mut().for_each(|case| case.incumbent_ns = Some(1000.0));
        let trial = Trial {
            workload: &setup.workload,
            artifact: &compiled.artifact.unwrap(),
            cases,
            measuring: setup.options.measuring,
            seeds: Seeds::alone(1),
            within: None,
            drops_slow: false,
            explain: false,
        };
        let request = trial.request();
        let reference = |case: &&str| {
            let cases = request.cases.iter().filter(|request| request.case.name == **case);
            let cases = cases.map(|of| CaseRequest { incumbent_ns: None, ..of.clone() }).collect();
            let (hash, home_ns) = (VariantHash::of("incumbent"), f64::from(HOME_US) * 1024.0);
            let request = EvaluateRequest { cases, ..request.clone() };
            Reference { hash, case: (*case).into(), home_ns, request }
        };
        let references = references.iter().map(reference).collect();
        Job { setup: Arc::clone(&setup), request, references }
    }

    fn times_ns(screened: Screened) -> Vec<f64> {
        let timings = screened.evaluation().measurements.into_iter().filter_map(|found| found.screening);
        timings.map(|timing| timing.median_ns).collect()
    }

    #[tokio::test]
    async fn a_card_that_is_slower_than_home_gives_homes_times() {
        let (mut card, mut ratios) = (Card::new(2), Ratios::default());
        let screened = screen(&mut card, &mut ratios, job(&CASES)).await.unwrap();
        assert_eq!(times_ns(screened), [f64::from(HOME_US) * 1024.0; 2]);
        assert_eq!(card.to_beat_ns, [None, None, Some(2000.0), Some(2000.0)], "its own time to beat is longer");
        let of = |name: &str| VariantHash::of(name);
        assert!(!ratios.is_due(CASES[0], &of("incumbent")));
        assert!(!ratios.is_due(CASES[0], &of("another")), "one that is used once is still good");
        for _ in 1..USES_OF_OLD {
            screen(&mut card, &mut ratios, job(&[])).await.unwrap();
        }
        assert!(!ratios.is_due(CASES[0], &of("incumbent")) && ratios.is_due(CASES[0], &of("another")));
    }

    #[tokio::test]
    async fn a_card_that_loses_its_process_once_tries_again() {
        let mut card = Card { losses: 1, ..Card::new(2) };
        let screened = screen(&mut card, &mut Ratios::default(), job(&CASES)).await.unwrap();
        assert_eq!(times_ns(screened), [f64::from(HOME_US) * 1024.0; 2]);
        // Then it is not known who is at fault.
        let mut card = Card { losses: 1, ..Card::new(1) };
        let screened = screen(&mut card, &mut Ratios::default(), job(&[])).await.unwrap();
        assert!(matches!(screened, Screened::Lost(_)));
    }

    #[tokio::test]
    async fn a_card_that_finds_a_kernel_right_that_writes_nothing_is_not_used() {
        let mut card = Card { checks: false, ..Card::new(1) };
        let refused = screen(&mut card, &mut Ratios::default(), job(&CASES)).await.unwrap_err();
        insta::assert_snapshot!(refused, @"a kernel that does not write the output of a is right there");
        // It is found out where an incumbent is due.
        screen(&mut card, &mut Ratios::default(), job(&[])).await.unwrap();
    }

    #[tokio::test]
    async fn a_card_on_which_the_incumbent_fails_is_not_used() {
        let outcome = Outcome::TimedOut { case: CASES[0].into(), message: "it hangs".to_owned() };
        let mut card = Card { outcome, ..Card::new(1) };
        let refused = screen(&mut card, &mut Ratios::default(), job(&CASES)).await.unwrap_err();
        insta::assert_snapshot!(refused, @"the best kernel of a, which the first device has found right, fails there: it hangs");
    }
}
