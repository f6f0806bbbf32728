//! Checks that a live session and one that is rebuilt from the store know the same.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::domain::budget::cost::Spent;
use crate::domain::budget::phase::StepTimes;
use crate::domain::claims::hypothesis::Score;
use crate::domain::compute::Compute;
use crate::domain::device::regime::Regime;
use crate::domain::ids::SessionId;
use crate::domain::measurement::check::Check;
use crate::domain::measurement::evaluation::Measurement;
use crate::domain::measurement::verdict::judge;
use crate::domain::op::Dtype;
use crate::domain::record::{Baseline, BaselineKind, Environment, SessionScope};
use crate::domain::statistics::synthetic::repeats;
use crate::session::synthetic::{CASES, Scenario, comparison, evaluation, measurement, params, proposal, setup};
use crate::store::testing::{Scene, timing};
use crate::store::{Finish, NewSession};

/// A session that is written to a store and learns from each record, as a live one does.
struct Live {
    scene: Scene,
    session: SessionId,
    state: SessionState,
    rng: SmallRng,
}

impl Live {
    async fn new(seed: u64) -> Self {
        let (scene, setup) = (Scene::new().await, setup());
        let new = NewSession {
            kind: crate::domain::record::SessionKind::Search,
            workload: setup.workload.name.clone(),
            proposer: "random".to_owned(),
            seed,
            budget: setup.options.budget,
            asked: SessionScope {
                families: Vec::new(),
                dtype: Dtype::F16,
                compute: Compute::Dtype,
                cases: setup.workload.cases.clone(),
                meaning: None,
                left_out: Vec::new(),
                lessons: None,
            },
            config: serde_json::Value::Null,
            lanes: Vec::new(),
            oracle_on: None,
            submission: None,
            environment: Environment {
                device: setup.device.clone(),
                nvrtc: "13.0".to_owned(),
                optloop: "0.1.0".to_owned(),
                torch: None,
                host: "Linux".to_owned(),
            },
        };
        let session = scene.store.begin_session(&new).await.unwrap();
        Self { scene, session, state: SessionState::new(Arc::new(setup)), rng: SmallRng::seed_from_u64(seed) }
    }

    /// Begins an iteration of a random variant. One in ten is left in flight.
    async fn iteration(&mut self) {
        let purpose = match self.state.meter().finished() {
            0 => Purpose::Initial,
            _ if self.rng.random_bool(0.4) => Purpose::Confirmation,
            _ => Purpose::Screening,
        };
        let proposal = proposal(self.state.setup(), self.rng.random_range(0..6), purpose, CASES.len());
        let iteration = self.scene.store.begin(self.session, &proposal).await.unwrap();
        let begun = Begun::of(iteration, &proposal, None);
        self.state.apply(&Record::Begun(Box::new(begun.clone())));
        if self.rng.random_bool(0.9) {
            self.conclude(&begun).await;
        }
    }

    async fn conclude(&mut self, begun: &Begun) {
        let outcome = match self.rng.random_bool(0.8) {
            true => Outcome::Measured,
            false => Outcome::Wrong {
                case: CASES[self.rng.random_range(0..2)].into(),
                check: Check::Accuracy,
                message: "zeros".to_owned(),
            },
        };
        let found: Vec<Measurement> = CASES.iter().map(|case| self.measurement(begun, case)).collect();
        let evaluation = evaluation(outcome, found);
        let decisions = judge(&self.state.history().incumbents, &evaluation, self.state.setup().policy());
        let spent = Spent { gpu_s: 1.0, gpu_usd: 0.25, llm_usd: 0.0 };
        let concluded = Concluded::of(begun.iteration, &evaluation, &decisions, spent, Duration::from_secs(1));
        let disqualifications = self.state.disqualifications(begun, &concluded);
        let finish = Finish {
            artifact: None,
            compile_log: None,
            plans: &[],
            evaluation: &evaluation,
            decisions: &decisions,
            actual_speedup: None,
            score: Score::Untested,
            crps: None,
            spent,
            wall_s: 1.0,
            steps: StepTimes::default(),
            left_out: 0,
            lane: None,
            disqualified: &disqualifications,
        };
        self.scene.store.finish(begun.iteration, &finish).await.unwrap();
        self.state.apply(&Record::Concluded(Box::new(concluded)));
        disqualifications.into_iter().for_each(|out| self.state.apply(&Record::Disqualified(out)));
    }

    fn measurement(&mut self, begun: &Begun, case: &str) -> Measurement {
        let us = self.rng.random_range(40..200);
        let incumbent =
            self.state.history().incumbents.get(case).filter(|_| begun.rationale.purpose == Purpose::Confirmation);
        let against = incumbent.map(|best| (begun.iteration, best.iteration, (best.timing.median_ns / 1024.0) as u32));
        measurement(case, us, against)
    }

    /// Holds a final between the incumbent of a case and one of its near ties, and lets either win.
    async fn last(&mut self) {
        let case = CASES[self.rng.random_range(0..2)];
        let Some(incumbent) = self.state.incumbent(case).cloned() else { return };
        let near_ties = self.state.finalists(case, &incumbent);
        let winner = near_ties.into_iter().next().unwrap_or(incumbent.clone());
        let comparison = comparison(case, (winner.iteration, 40), (incumbent.iteration, 60));
        self.scene.store.record_final(self.session, &comparison, winner.iteration).await.unwrap();
        self.state.apply(&Record::Final(Box::new(Final { comparison, winner: winner.iteration })));
    }

    async fn commit(&mut self) {
        let iteration = |case: &CaseState| case.unlinked.or(case.winner().map(|winner| winner.candidate.iteration));
        let due = self.state.cases().filter_map(|(case, state)| Some((case.clone(), iteration(state)?)));
        for (case, iteration) in due.collect::<Vec<_>>() {
            self.scene.store.link_commit(iteration, &case, "abc").await.unwrap();
            self.state.apply(&Record::Committed { iteration, case });
        }
    }

    async fn baseline(&mut self) {
        let baseline = Baseline {
            case: CASES[0].into(),
            name: format!("backend {}", self.state.meter().finished()),
            kind: BaselineKind::Program,
            regime: Regime::Warm,
            timing: timing(25_600.0),
            eager_ns: None,
            relative_l2: None,
            kernels: Vec::new(),
        };
        if self.scene.store.record_baselines(self.session, std::slice::from_ref(&baseline)).await.is_ok() {
            self.state.apply(&Record::Baseline(baseline));
        }
    }

    /// Kills the process and resumes the session.
    async fn resume(&mut self) {
        let used = self.scene.store.past(self.session).await.unwrap().used;
        let budget = self.state.setup().options.budget.wall;
        self.scene.store.resume_session(self.session, used, budget).await.unwrap();
        self.state.apply(&Record::Resumed { used });
    }

    async fn rebuilt(&self) -> SessionState {
        let mut rebuilt = SessionState::new(Arc::clone(&self.state.setup));
        let journal = self.scene.store.past(self.session).await.unwrap().journal;
        journal.iter().for_each(|record| rebuilt.apply(record));
        rebuilt
    }
}

#[tokio::test]
async fn a_session_that_is_rebuilt_from_its_journal_knows_what_the_live_one_knew() {
    let mut wins = 0;
    for seed in 0..repeats(4, 20) {
        let mut live = Live::new(seed).await;
        for _ in 0..30 {
            match live.rng.random_range(0..20) {
                0 => live.last().await,
                1 => live.commit().await,
                2 => live.resume().await,
                3 => live.baseline().await,
                _ => live.iteration().await,
            }
        }
        let rebuilt = live.rebuilt().await;
        wins += live.state.cases.values().filter(|case| case.winner().is_some()).count();
        assert_eq!(rebuilt.history, live.state.history, "seed {seed}");
        assert_eq!(rebuilt.cases, live.state.cases, "seed {seed}");
        assert_eq!(rebuilt.meter, live.state.meter, "seed {seed}");
        assert_eq!((rebuilt.in_flight, rebuilt.deaths), (live.state.in_flight, live.state.deaths), "seed {seed}");
    }
    assert!(wins > repeats(1, 5), "the histories are worth telling: {wins}");
}

fn outcome(case: &str) -> Outcome {
    Outcome::Wrong { case: case.into(), check: Check::Accuracy, message: "zeros".to_owned() }
}

#[test]
fn a_failed_confirmation_disqualifies_a_variant_wherever_it_was_only_screened() {
    let mut told = Scenario::new(setup());
    let initial = told.screened(0, Purpose::Initial, [100, 100]);
    let screened = told.screened(1, Purpose::Screening, [50, 50]);
    let begun = told.begin(1, Purpose::Confirmation);
    let wrong = evaluation(outcome(CASES[1]), Vec::new());
    let concluded = Concluded::of(begun.iteration, &wrong, &[], Spent::default(), Duration::ZERO);
    let disqualifications = told.state.disqualifications(&begun, &concluded);
    let out: Vec<_> = disqualifications.iter().map(|out| (out.iteration, out.case.as_str())).collect();
    assert_eq!(out, [(screened, "a"), (screened, "b")]);
    told.conclude(&begun, &wrong);
    disqualifications.into_iter().for_each(|out| told.state.apply(&Record::Disqualified(out)));
    assert_eq!(told.state.history().fastest("a").unwrap().0.iteration, initial);
    assert!(told.state.best_candidate("a").is_none());
}

/// Twelve are faster than one with another value of a parameter, and two of them fail.
#[test]
fn what_failed_variants_have_in_common_is_checked_last() {
    let mut told = Scenario::new(setup());
    told.screened(0, Purpose::Initial, [100, 100]);
    let screened: Vec<_> = (1..=12).map(|number| told.screened(number, Purpose::Screening, [50, 50])).collect();
    let other = told.screened(101, Purpose::Screening, [60, 60]);
    let next = |told: &Scenario| told.state.best_candidate("a").map(|best| best.iteration);
    for failed in [screened[0], screened[1]] {
        assert_ne!(next(&told), Some(other));
        let hash = told.state.history().iteration(failed).unwrap().hash.clone();
        let out = Disqualified { iteration: failed, hash, case: "a".into(), reason: "zeros".to_owned() };
        told.state.apply(&Record::Disqualified(out));
    }
    assert_eq!(next(&told), Some(other));
}

#[test]
fn a_case_that_a_variant_has_won_stays_its_own_when_it_fails_elsewhere() {
    let mut told = Scenario::new(setup());
    told.screened(0, Purpose::Initial, [100, 100]);
    told.screened(1, Purpose::Screening, [50, 50]);
    let won = told.confirmed(1, 50);
    let begun = told.begin(1, Purpose::Confirmation);
    let concluded =
        Concluded::of(begun.iteration, &evaluation(outcome("b"), Vec::new()), &[], Spent::default(), Duration::ZERO);
    let disqualifications = told.state.disqualifications(&begun, &concluded);
    assert!(
        disqualifications.iter().all(|out| out.case == "b") && disqualifications.len() == 1,
        "{disqualifications:?}"
    );
    assert_eq!(told.state.history().incumbents["a"].iteration, won);
}

#[test]
fn a_configuration_that_was_in_flight_at_two_deaths_is_not_proposed_again() {
    let mut told = Scenario::new(setup());
    let configurations = |told: &Scenario| told.state.history().proposed.len();
    for (death, proposed) in [(1, 0), (2, 1)] {
        told.begin(1, Purpose::Screening);
        told.state.apply(&Record::Resumed { used: Duration::from_secs(death) });
        assert_eq!(configurations(&told), proposed, "after death {death}");
    }
}

/// Makes a committed winner of case `a` with the given time. No family renders its source any more.
fn known(number: i64, us: Option<f64>) -> crate::domain::proposal::KnownWinner {
    crate::domain::proposal::KnownWinner {
        case: "a".into(),
        family: "toy".to_owned(),
        params: params(number),
        hash: crate::domain::variant::VariantHash::of("an older rendering"),
        sidecar: std::path::PathBuf::new(),
        device: "NVIDIA H200".to_owned(),
        median_us: us,
        here: true,
    }
}

#[test]
fn a_committed_winner_that_renders_to_another_source_is_committed_again_only_if_it_is_faster() {
    // One of another state of the graphs has no time to compare.
    for (recorded_us, is_news) in [(Some(50.0), false), (Some(50.4), false), (Some(60.0), true), (None, false)] {
        let mut setup = setup();
        // A synthetic time of 50 is 50 * 1024 ns.
        setup.known = vec![known(1, recorded_us.map(|us: f64| us * 1.024))];
        let mut told = Scenario::new(setup);
        told.screened(0, Purpose::Initial, [100, 100]);
        told.screened(1, Purpose::Screening, [50, 100]);
        told.confirmed(1, 50);
        let case = told.state.case("a").unwrap();
        assert!(case.remeasured);
        assert_eq!(case.winner().is_some(), is_news, "recorded {recorded_us:?} us");
    }
}

/// With an initial kernel, what a session began with is no win.
#[test]
fn a_first_kernel_that_nothing_beats_is_a_winner_after_its_final() {
    for (initial_kernel, wins) in [(None, true), (Some("toy".to_owned()), false)] {
        let mut setup = setup();
        setup.workload.initial_kernel = initial_kernel;
        let mut told = Scenario::new(setup);
        let first = told.screened(0, Purpose::Screening, [100, 100]);
        assert!(told.state.case("a").unwrap().winner().is_none(), "it was only screened");
        let last = || Final { comparison: comparison("a", (first, 100), (first, 100)), winner: first };
        told.state.apply(&Record::Final(Box::new(last())));
        let winner = |told: &Scenario| told.state.case("a").unwrap().winner().cloned();
        assert_eq!(winner(&told).map(|winner| winner.previous), wins.then_some(None));
        if wins {
            told.state.apply(&Record::Committed { iteration: first, case: "a".into() });
            told.state.apply(&Record::Final(Box::new(last())));
            assert!(winner(&told).is_none(), "it is committed once");
        }
    }
}
