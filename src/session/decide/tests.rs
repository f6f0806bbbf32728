use super::*;
use crate::domain::budget::cost::Spent;
use crate::domain::code::ablation::{Ablated, Ablation};
use crate::domain::code::counters::{Counted, CountedBaseline, Counters};
use crate::domain::device::TimingMode;
use crate::domain::ids::{CaseName, IterationId};
use crate::domain::measurement::evaluation::Outcome;
use crate::domain::op::Axis;
use crate::domain::proposal::KnownWinner;
use crate::domain::proposal::experiment::Scaling;
use crate::domain::proposal::origin::{Origin, Purpose};
use crate::domain::record::journal::{Concluded, Record};
use crate::session::setup::SessionSetup;
use crate::session::synthetic::{CASES, Scenario, evaluation, measurement, params, setup};

const SECOND: Duration = Duration::from_secs(1);

/// Returns the decision at a time, in seconds after the start, with some proposals under way.
fn at(told: &Scenario, seconds: u64, proposals: usize) -> Action {
    next_action(&told.state, &Phase::Search, &inputs(seconds, proposals))
}

fn inputs(seconds: u64, proposals: usize) -> LoopInputs {
    let time = Time { running: Duration::from_secs(seconds), since_record: SECOND };
    LoopInputs {
        time,
        interrupts: 0,
        under_way: UnderWay { proposals, is_dry: false, ..UnderWay::default() },
        may_ask: false,
        baselines: Baselines::Known,
        clients: Clients::None,
    }
}

/// The same while the baselines are not known.
fn without_baselines(told: &Scenario, baselines: Baselines, proposals: usize) -> Action {
    next_action(&told.state, &Phase::Search, &LoopInputs { baselines, ..inputs(0, proposals) })
}

fn limited(limit: impl FnOnce(&mut SessionSetup)) -> Scenario {
    let mut setup = setup();
    limit(&mut setup);
    Scenario::new(setup)
}

fn with_start(mut told: Scenario) -> Scenario {
    told.screened(0, Purpose::Initial, [100, 100]);
    told
}

fn confirms(action: &Action, candidates: &[(IterationId, &str)]) -> bool {
    let candidates = candidates.iter().map(|(iteration, case)| (*iteration, CaseName::from(*case))).collect();
    *action == Action::Confirm(ConfirmationDue { candidates })
}

#[test]
fn compilers_are_kept_busy_then_the_oldest_proposal_is_evaluated() {
    let told = Scenario::new(setup());
    assert_eq!(at(&told, 0, 0), Action::Propose);
    assert_eq!(at(&told, 0, 1), Action::Propose);
    assert!(matches!(at(&told, 0, 2), Action::Evaluate { within } if within < 3600 * SECOND));
}

#[test]
fn while_the_device_evaluates_the_proposer_fills_the_queue() {
    let told = Scenario::new(setup());
    assert_eq!(room_meanwhile(&told.state, &inputs(0, 0)), 2);
    assert_eq!(room_meanwhile(&told.state, &inputs(0, 2)), 0, "the queue is full");
    let last = limited(|setup| setup.options.budget.max_iterations = Some(2));
    assert_eq!(room_meanwhile(&last.state, &inputs(0, 0)), 1);
    assert_eq!(room_meanwhile(&last.state, &inputs(0, 1)), 0, "two iterations are begun or proposed");
    let asks = LoopInputs { may_ask: true, ..inputs(0, 1) };
    assert_eq!(room_meanwhile(&told.state, &asks), 0, "the next turn may be a model's");
}

#[test]
fn lanes_get_what_is_compiled_until_the_budget_is_needed_for_the_end() {
    let told = with_start(Scenario::new(setup()));
    let compiled = |seconds, proposals| {
        let under_way = UnderWay { proposals, is_ready: true, ..UnderWay::default() };
        LoopInputs { under_way, ..inputs(seconds, proposals) }
    };
    let within = told.state.meter().left(&told.state.setup().options.budget, &inputs(1, 0).time, Duration::ZERO);
    assert!(matches!(for_lanes(&told.state, &compiled(1, 2), 1), ForLanes::Screen { within: left } if left <= within));
    assert_eq!(for_lanes(&told.state, &compiled(1, 1), 0), ForLanes::Propose, "every lane is busy");
    assert_eq!(for_lanes(&told.state, &compiled(1, 2), 0), ForLanes::Wait, "and the queue is full");
    assert_eq!(for_lanes(&told.state, &compiled(3600, 2), 1), ForLanes::Wait, "the time is over");
    let interrupted = LoopInputs { interrupts: 1, ..compiled(1, 2) };
    assert_eq!(for_lanes(&told.state, &interrupted, 1), ForLanes::Wait);
}

#[test]
fn iterations_on_lanes_count_as_begun() {
    let mut told = limited(|setup| setup.options.budget.max_iterations = Some(3));
    let begun = (told.begin(1, Purpose::Screening), told.begin(2, Purpose::Screening));
    assert_eq!(iterations_left(&told.state), 3 - told.state.meter().finished() - 2);
    told.conclude(&begun.1, &evaluation(Outcome::Measured, Vec::new()));
    assert_eq!(told.state.in_flight(), 1, "a later one may end first");
    told.conclude(&begun.0, &evaluation(Outcome::Measured, Vec::new()));
    assert_eq!(told.state.in_flight(), 0);
}

#[test]
fn what_is_compiled_does_not_wait_for_a_search_without_prospects() {
    let told = with_start(Scenario::new(setup()));
    let next = |told: &Scenario, proposals, left_out| {
        let under_way = UnderWay { proposals, left_out, is_ready: proposals > 0, ..UnderWay::default() };
        next_action(&told.state, &Phase::Search, &LoopInputs { under_way, ..inputs(1, proposals) })
    };
    assert_eq!(next(&told, 1, 0), Action::Propose);
    assert!(matches!(next(&told, 1, 1), Action::Evaluate { .. }), "others are drawn while the device works");
    assert_eq!(next(&told, 0, 1000), Action::Propose, "nothing else can be done");
    let compiling = UnderWay { proposals: 1, left_out: 1000, ..UnderWay::default() };
    let while_compiling = LoopInputs { under_way: compiling, ..inputs(1, 1) };
    assert_eq!(next_action(&told.state, &Phase::Search, &while_compiling), Action::Propose, "the device would wait");
    let counted = with_start(limited(|setup| setup.options.budget.max_iterations = Some(9)));
    let evaluates = matches!(next_action(&counted.state, &Phase::Search, &while_compiling), Action::Evaluate { .. });
    assert!(evaluates, "what is proposed next must not depend on how long a compilation takes");
    let modelled = with_start(limited(|setup| setup.device.timing = TimingMode::Modelled));
    assert_eq!(next(&modelled, 1, MOST_LEFT_OUT - 1), Action::Propose);
    assert!(matches!(next(&modelled, 1, MOST_LEFT_OUT), Action::Evaluate { .. }));
}

#[test]
fn the_search_begins_while_the_program_of_the_baselines_starts() {
    let told = with_start(Scenario::new(setup()));
    let starting = |proposals| without_baselines(&told, Baselines::Starting, proposals);
    assert_eq!(starting(1), Action::Propose);
    assert!(matches!(starting(2), Action::Evaluate { .. }));
    assert_eq!(without_baselines(&told, Baselines::Started, 1), Action::TimeBaselines);
}

#[test]
fn a_candidate_is_accepted_but_not_compared_before_the_baselines_are_known() {
    let mut told = with_start(Scenario::new(setup()));
    told.screened(1, Purpose::Screening, [50, 50]);
    for number in 2..20 {
        told.screened(number, Purpose::Screening, [150, 150]);
    }
    assert!(matches!(at(&told, 0, 2), Action::Confirm(_)));
    assert!(matches!(without_baselines(&told, Baselines::Starting, 2), Action::Evaluate { .. }));
    let may = |baselines| confirming(&told.state, &LoopInputs { baselines, ..inputs(0, 2) });
    assert_eq!(may(Baselines::Starting), Confirming::Accept);
    assert_eq!(may(Baselines::Known), Confirming::Compare);
}

#[test]
fn a_committed_winner_is_confirmed_first_once_the_baselines_are_known() {
    let winner = KnownWinner {
        case: CASES[0].into(),
        family: "toy".to_owned(),
        params: params(1),
        hash: VariantHash::of("variant 1"),
        sidecar: "w.toml".into(),
        device: "d".to_owned(),
        median_us: None,
        here: true,
    };
    let mut told = with_start(limited(|setup| setup.known = vec![winner]));
    told.screened(1, Purpose::Remeasurement, [90, 200]);
    let iteration = told.state.best_candidate(CASES[0]).unwrap().iteration;
    told.screened(2, Purpose::Screening, [50, 90]);
    let in_design = LoopInputs { under_way: UnderWay { initial: 1, ..inputs(0, 2).under_way }, ..inputs(0, 2) };
    let action = next_action(&told.state, &Phase::Search, &in_design);
    assert!(confirms(&action, &[(iteration, CASES[0])]), "a faster variant waits: {action:?}");
}

/// The report counts its gain from what was committed, on whichever device.
#[test]
fn a_committed_winner_of_another_device_is_confirmed_before_a_faster_candidate() {
    let mut told = with_start(Scenario::new(setup()));
    let winner = told.screened_from_another_device(1, [90, 200]);
    told.screened(2, Purpose::Screening, [50, 200]);
    let action = at(&told, 0, 2);
    assert!(confirms(&action, &[(winner, CASES[0])]), "a faster variant waits: {action:?}");
}

#[test]
fn the_baselines_are_timed_before_the_search_ends() {
    let told = with_start(Scenario::new(setup()));
    let late = |baselines| next_action(&told.state, &Phase::Search, &LoopInputs { baselines, ..inputs(3600, 2) });
    assert_eq!(late(Baselines::Starting), Action::TimeBaselines);
    assert!(matches!(late(Baselines::Known), Action::EndSearch(_)));
}

#[test]
fn a_dry_proposer_is_not_asked_and_without_proposals_the_search_ends() {
    let told = Scenario::new(setup());
    let dry = |proposals| LoopInputs {
        under_way: UnderWay { proposals, is_dry: true, ..UnderWay::default() },
        ..inputs(0, 0)
    };
    assert!(matches!(next_action(&told.state, &Phase::Search, &dry(1)), Action::Evaluate { .. }));
    let nothing_left = Action::EndSearch(Reason { text: NOTHING_LEFT.into(), early: Some(EarlyEnd::NothingLeft) });
    assert_eq!(next_action(&told.state, &Phase::Search, &dry(0)), nothing_left);
}

#[test]
fn each_limit_ends_the_search() {
    let told = with_start(limited(|setup| setup.options.budget.max_iterations = Some(1)));
    assert_eq!(at(&told, 0, 2), Action::EndSearch("its iteration limit (--iterations) is reached".into()));
    let told = Scenario::new(setup());
    assert_eq!(at(&told, 3600, 2), Action::EndSearch("its time budget (--budget) is spent".into()));
    let told = limited(|setup| {
        setup.device.timing = TimingMode::Measured(Default::default());
        setup.options.rate.gpu_usd_per_hour = 3600.0;
        setup.options.budget.max_cost_usd = Some(1.0);
    });
    assert_eq!(at(&told, 1, 2), Action::EndSearch("its cost limit (--max-cost) is reached".into()));
}

/// A session of 1000 s with two cases, and 40 variants that are slower than the first one.
fn idle(change: impl FnOnce(&mut SessionSetup)) -> Scenario {
    let mut told = with_start(limited(|setup| {
        setup.options.min_gain = 0.005;
        setup.options.budget.wall = 1000 * SECOND;
        change(setup);
    }));
    for number in 1..41 {
        told.screened(number, Purpose::Screening, [120, 120]);
    }
    told
}

/// Returns why the rest of its 1000 s is not worth spending after so many seconds.
fn stops(told: &Scenario, seconds: u64) -> Option<String> {
    not_worth_it(&told.state, &inputs(seconds, 2), Duration::from_secs(1000 - seconds))
}

#[test]
fn a_search_that_gains_nothing_ends_after_a_quarter_of_its_time() {
    let told = idle(|_| ());
    assert_eq!(stops(&told, 200), None);
    insta::assert_snapshot!(stops(&told, 300).unwrap(), @"the remaining 11m 40s are expected to gain 0.43%, which is less than 0.50% (stop.min_gain)");
    assert_eq!(stops(&idle(|setup| setup.options.min_gain = 0.0), 900), None, "--no-early-stop");
    let counted = idle(|setup| setup.options.budget.max_iterations = Some(1000));
    assert_eq!(stops(&counted, 900), None, "so many iterations are wanted");
}

#[test]
fn what_is_saved_is_also_told_in_dollars() {
    let told = idle(|setup| {
        setup.device.timing = TimingMode::Measured(Default::default());
        setup.options.rate.gpu_usd_per_hour = 3.6;
    });
    insta::assert_snapshot!(stops(&told, 500).unwrap(), @"the remaining 8m 20s and $0.50 are expected to gain 0.24% (0.5% per dollar), which is less than 0.50% (stop.min_gain)");
}

#[test]
fn a_late_gain_an_open_question_or_a_case_that_was_hardly_tried_keeps_the_search_alive() {
    let mut told = idle(|_| ());
    told.screened(41, Purpose::Screening, [80, 120]);
    assert_eq!(stops(&told, 300), None, "a faster variant is not confirmed yet");
    told.confirmed(41, 80);
    assert_eq!(stops(&told, 300), None, "the gain promises more");
    assert!(stops(&told, 950).is_some(), "but not for ever");
    let asking = LoopInputs { may_ask: true, ..inputs(300, 2) };
    assert_eq!(not_worth_it(&idle(|_| ()).state, &asking, 700 * SECOND), None, "a language model may have ideas");
    let mut few = with_start(limited(|setup| setup.options.min_gain = 0.005));
    for number in 1..29 {
        few.screened(number, Purpose::Screening, [120, 120]);
    }
    assert_eq!(stops(&few, 900), None, "28 tries tell little");
}

#[test]
fn no_more_is_proposed_than_there_are_iterations_left() {
    let told = limited(|setup| setup.options.budget.max_iterations = Some(1));
    assert_eq!(at(&told, 0, 0), Action::Propose);
    assert!(matches!(at(&told, 0, 1), Action::Evaluate { .. }));
}

#[test]
fn a_part_of_the_time_is_kept_for_the_finals() {
    let told = with_start(Scenario::new(setup()));
    let kept = told.state.finals_time();
    assert!(kept > SECOND, "{kept:?}");
    assert_eq!(at(&told, 3600 - kept.as_secs(), 2), Action::EndSearch("its time budget (--budget) is spent".into()));
}

#[test]
fn the_best_candidate_is_confirmed_once_nothing_faster_has_come_for_a_while() {
    let mut told = with_start(Scenario::new(setup()));
    let fastest = told.screened(1, Purpose::Screening, [50, 100]);
    // Two are compiled ahead, and twice as many iterations must pass.
    for number in 2..6 {
        assert!(matches!(at(&told, 5, 2), Action::Evaluate { .. }), "before iteration {number}");
        told.screened(number, Purpose::Screening, [120, 120]);
    }
    assert!(confirms(&at(&told, 5, 2), &[(fastest, CASES[0])]));
}

#[test]
fn a_faster_variant_becomes_the_best_candidate_and_the_wait_begins_again() {
    let mut told = with_start(Scenario::new(setup()));
    told.screened(1, Purpose::Screening, [50, 100]);
    for number in 2..5 {
        told.screened(number, Purpose::Screening, [120, 120]);
    }
    let faster = told.screened(5, Purpose::Screening, [40, 100]);
    assert!(matches!(at(&told, 5, 2), Action::Evaluate { .. }));
    for number in 6..10 {
        told.screened(number, Purpose::Screening, [120, 120]);
    }
    assert!(confirms(&at(&told, 5, 2), &[(faster, CASES[0])]));
}

#[test]
fn the_best_candidate_is_confirmed_at_once_when_nothing_else_is_left_or_the_budget_is_needed_for_it() {
    let mut told = with_start(limited(|setup| setup.options.budget.max_iterations = Some(4)));
    let fastest = told.screened(1, Purpose::Screening, [50, 60]);
    let candidates = [(fastest, CASES[0]), (fastest, CASES[1])];
    let dry = LoopInputs {
        under_way: UnderWay { proposals: 0, initial: 0, is_dry: true, ..UnderWay::default() },
        ..inputs(5, 0)
    };
    assert!(confirms(&next_action(&told.state, &Phase::Search, &dry), &candidates), "one iteration for both cases");
    assert!(matches!(at(&told, 5, 2), Action::Evaluate { .. }), "two iterations are left");
    told.screened(2, Purpose::Screening, [120, 120]);
    assert!(confirms(&at(&told, 5, 2), &candidates), "the last iteration is needed for it");
}

#[test]
fn the_first_candidate_ahead_of_the_baseline_is_confirmed_at_once() {
    let mut told = with_start(Scenario::new(setup()));
    told.baseline(60);
    told.screened(1, Purpose::Screening, [70, 100]);
    assert!(matches!(at(&told, 5, 2), Action::Evaluate { .. }), "it is behind the baseline");
    let ahead = told.screened(2, Purpose::Screening, [50, 100]);
    assert!(confirms(&at(&told, 5, 2), &[(ahead, CASES[0])]));
    told.confirmed(2, 50);
    told.screened(3, Purpose::Screening, [40, 100]);
    assert!(matches!(at(&told, 5, 2), Action::Evaluate { .. }), "the incumbent is ahead already");
}

#[test]
fn nothing_is_confirmed_while_the_initial_design_is_under_way() {
    let mut told = with_start(Scenario::new(setup()));
    told.screened(1, Purpose::Screening, [50, 100]);
    for number in 2..7 {
        told.screened(number, Purpose::Screening, [120, 120]);
    }
    let initial = LoopInputs {
        under_way: UnderWay { proposals: 2, initial: 1, is_dry: false, ..UnderWay::default() },
        ..inputs(5, 2)
    };
    assert!(matches!(next_action(&told.state, &Phase::Search, &initial), Action::Evaluate { .. }));
}

#[test]
fn a_variant_is_confirmed_once_even_if_it_did_not_win() {
    let mut told = with_start(Scenario::new(setup()));
    told.screened(1, Purpose::Screening, [50, 100]);
    told.confirmed(1, 100);
    let dry = LoopInputs {
        under_way: UnderWay { proposals: 0, initial: 0, is_dry: true, ..UnderWay::default() },
        ..inputs(5, 0)
    };
    let nothing_left = Action::EndSearch(Reason { text: NOTHING_LEFT.into(), early: Some(EarlyEnd::NothingLeft) });
    assert_eq!(next_action(&told.state, &Phase::Search, &dry), nothing_left);
}

/// A confirmation that takes half a minute, in a session of three minutes.
#[test]
fn confirmations_have_a_share_of_the_time_where_one_for_each_case_takes_more() {
    let settled = |wall: Duration| {
        let mut told = with_start(limited(|setup| setup.options.budget.wall = wall));
        told.screened(1, Purpose::Screening, [50, 60]);
        let begun = told.begin(1, Purpose::Confirmation);
        let found = vec![measurement(CASES[0], 50, Some((begun.iteration, IterationId(1), 100)))];
        told.conclude_after(30 * SECOND, &begun, &evaluation(Outcome::Measured, found));
        told.screened(2, Purpose::Screening, [100, 40]);
        let wait = SETTLED * told.state.setup().options.compile_ahead as u64;
        for other in 0..wait {
            told.screened(3 + other as i64, Purpose::Screening, [200, 200]);
        }
        told
    };
    let is_confirmed = |told: &Scenario, seconds| matches!(at(told, seconds, 4), Action::Confirm(_));
    let short = settled(180 * SECOND);
    assert!(!is_confirmed(&short, 60), "{:?}", at(&short, 60, 4));
    assert!(matches!(at(&short, 175, 4), Action::EndSearch(_)), "its final confirms it: {:?}", at(&short, 175, 4));
    assert!(is_confirmed(&settled(3600 * SECOND), 60), "the budget has room for all of them");
}

#[test]
fn no_final_times_a_naive_kernel_that_nothing_was_compared_with() {
    let mut told = with_start(Scenario::new(setup()));
    told.baseline(10);
    let finals = told.state.finals();
    assert!(finals.iter().all(|(_, case)| *case == CASES[1]), "{finals:?}");
    told.screened(1, Purpose::Screening, [20, 100]);
    assert!(told.state.finals().iter().any(|(need, case)| (*need, case.as_str()) == (Need::Settle, CASES[0])));
}

#[test]
fn what_is_far_ahead_of_a_kernel_too_slow_for_comparisons_gets_its_final() {
    let mut told = limited(|setup| setup.options.measuring.policy.comparison.max_ns = 1e6);
    told.screened(0, Purpose::Initial, [10_000, 10_000]);
    assert_eq!((told.state.finals().len(), told.state.too_slow_for_finals().len()), (0, 2));
    told.screened(1, Purpose::Screening, [20, 10_000]);
    assert_eq!(Vec::from(told.state.finals()), [(Need::Settle, CASES[0].into())]);
    assert_eq!(told.state.too_slow_for_finals(), [CASES[1]]);
}

#[test]
fn finals_come_in_order_of_need_and_only_what_is_unsettled_may_overrun_the_budget() {
    let mut told = with_start(Scenario::new(setup()));
    told.screened(1, Purpose::Screening, [50, 60]);
    told.confirmed(1, 50);
    let mut phase =
        Phase::Finals { queue: told.state.finals(), held: false, reason: "its time budget (--budget) is spent".into() };
    let unsettled = [(Need::Settle, CASES[1].into()), (Need::Figures, CASES[0].into())];
    assert!(matches!(&phase, Phase::Finals { queue, .. } if *queue == unsettled));
    let late = inputs(3600, 0);
    assert_eq!(next_action(&told.state, &phase, &late), Action::Final(CASES[1].into()));
    phase.take_up(true);
    let no_time = "there is no time left for it (--budget), so the figures that it has are used";
    assert_eq!(next_action(&told.state, &phase, &late), Action::SkipFinal(CASES[0].into(), no_time));
    assert_eq!(next_action(&told.state, &phase, &inputs(10, 0)), Action::Final(CASES[0].into()));
    phase.take_up(true);
    let over = Action::Stop(Status::Finished, "its time budget (--budget) is spent".into());
    assert_eq!(next_action(&told.state, &phase, &late), over);
}

/// Two cases have only their start, so each needs a final to settle it.
#[test]
fn one_final_may_begin_after_the_budget_and_none_that_would_end_after_the_grace() {
    let told = with_start(Scenario::new(setup()));
    let finals = |held| Phase::Finals { queue: told.state.finals(), held, reason: "r".into() };
    let next = |held, seconds| next_action(&told.state, &finals(held), &inputs(seconds, 0));
    let no_time = "there is no time left for it (--budget), so the figures that it has are used";
    let (held, skipped) = (Action::Final(CASES[0].into()), Action::SkipFinal(CASES[0].into(), no_time));
    assert_eq!((next(false, 3599), next(true, 3599)), (held.clone(), held.clone()), "it begins within the budget");
    assert_eq!((next(false, 3600), next(true, 3600)), (held, skipped.clone()), "only the first begins after it");
    let hard_end = told.state.hard_end();
    assert_eq!(hard_end, 3608 * SECOND, "2 s of the 10 s of grace are kept for the end");
    let too_late = hard_end.saturating_sub(told.state.final_time(CASES[0])).as_secs() + 1;
    assert_eq!(next(false, too_late), skipped);
}

#[test]
fn a_resumed_session_whose_time_is_spent_has_the_grace_once_more() {
    let mut told = with_start(limited(|setup| setup.options.budget.wall = SECOND));
    told.state.apply(&crate::domain::record::journal::Record::Resumed { used: 100 * SECOND });
    assert_eq!(told.state.hard_end(), 108 * SECOND);
    let phase = Phase::Finals { queue: told.state.finals(), held: false, reason: "r".into() };
    assert_eq!(next_action(&told.state, &phase, &inputs(0, 0)), Action::Final(CASES[0].into()));
}

#[test]
fn no_comparison_begins_that_would_end_after_the_grace_or_after_the_search() {
    let mut told = with_start(limited(|setup| setup.options.budget.wall = 10 * SECOND));
    let may_compare = |told: &Scenario, seconds| confirming(&told.state, &inputs(seconds, 0)) == Confirming::Compare;
    let ends = (told.state.hard_end() - told.state.meter().confirmation_time()).as_secs();
    assert!(may_compare(&told, 0) && ends < 18);
    let search_s = (10 * SECOND - told.state.finals_time()).as_secs();
    assert!(!may_compare(&told, search_s + 1), "the rest is for the finals");
    told.screened(1, Purpose::Screening, [50, 100]);
    let begun = told.begin(1, Purpose::Confirmation);
    let against = (begun.iteration, IterationId(1), 100);
    let found = vec![measurement(CASES[0], 50, Some(against))];
    told.conclude_after(30 * SECOND, &begun, &evaluation(Outcome::Measured, found));
    assert!(!may_compare(&told, 4), "a confirmation takes 15 s for each case, and 14 s are left");
}

#[test]
fn a_confirmation_takes_long_where_screening_does() {
    let mut told = with_start(Scenario::new(setup()));
    assert_eq!(told.state.meter().confirmation_time(), 8 * SECOND);
    let begun = told.begin(1, Purpose::Screening);
    let found = CASES.map(|case| measurement(case, 50, None)).into();
    told.conclude_after(4 * SECOND, &begun, &evaluation(Outcome::Measured, found));
    assert_eq!(told.state.meter().confirmation_time(), 32 * SECOND, "16 times what each of the two cases took");
}

#[test]
fn no_baseline_is_begun_that_needs_more_than_what_is_left() {
    assert!(may_time_baselines(SECOND, Duration::ZERO) && may_time_baselines(5 * SECOND, 5 * SECOND));
    assert!(!may_time_baselines(4 * SECOND, 5 * SECOND) && !may_time_baselines(Duration::ZERO, Duration::ZERO));
}

/// A device for a dollar a second, of which so many may be spent.
fn rented(dollars: f64) -> Scenario {
    limited(|setup| {
        setup.device.timing = TimingMode::Measured(Default::default());
        setup.options.rate.gpu_usd_per_hour = 3600.0;
        setup.options.budget.max_cost_usd = Some(dollars);
    })
}

/// One case is confirmed, and the other is not. A second has passed since the last record.
#[test]
fn a_final_is_skipped_if_it_costs_more_than_what_is_left() {
    let told = |dollars| {
        let mut told = with_start(rented(dollars));
        told.screened(1, Purpose::Screening, [50, 60]);
        told.confirmed(1, 50);
        told
    };
    let seconds = |case: &str| told(1e9).state.final_time(case).as_secs_f64();
    let (figures, settle) = (seconds(CASES[0]), seconds(CASES[1]));
    assert!(figures > 1.0 && settle > figures, "{figures} {settle}");
    let unconfirmed = "--max-cost leaves no money for it, so its fastest variant stays unconfirmed";
    let confirmed = "--max-cost leaves no money for it, so the figures of its confirmation are used";
    let skip = |case: &str, reason| Action::SkipFinal(case.into(), reason);
    for (need, case, dollars, expected) in [
        (Need::Settle, CASES[1], 1.01 + settle, Action::Final(CASES[1].into())),
        (Need::Settle, CASES[1], 0.99 + settle, skip(CASES[1], unconfirmed)),
        (Need::Figures, CASES[0], 1.01 + figures, Action::Final(CASES[0].into())),
        (Need::Figures, CASES[0], 0.99 + figures, skip(CASES[0], confirmed)),
        (Need::Part, CASES[0], 0.5, skip(CASES[0], confirmed)),
    ] {
        let phase = Phase::Finals { queue: [(need, case.into())].into(), held: false, reason: "r".into() };
        assert_eq!(next_action(&told(dollars).state, &phase, &inputs(10, 0)), expected, "{need:?} with ${dollars}");
    }
}

#[test]
fn a_part_of_the_money_is_kept_for_the_finals_as_of_the_time() {
    let needed = with_start(rented(1e9)).state.finals_device_time().as_secs_f64();
    assert!(needed > 2.0, "{needed}");
    let ends = |dollars: f64, spent: f64| {
        let mut told = with_start(rented(dollars));
        told.state.apply(&Record::Booked(Spent { gpu_usd: spent, ..Spent::default() }));
        at(&told, 10, 2) == Action::EndSearch(crate::domain::budget::Stop::Cost.reason().into())
    };
    // A second has passed since the last record.
    assert!(!ends(100.0, 98.9 - needed) && ends(100.0, 99.1 - needed));
    // At most a fifth is kept, however little there is.
    assert!(!ends(2.0, 0.5) && ends(2.0, 0.7));
}

#[test]
fn an_interrupt_ends_every_phase() {
    let told = with_start(Scenario::new(setup()));
    let finals = Phase::Finals { queue: told.state.finals(), held: false, reason: "r".into() };
    for phase in [Phase::Search, finals] {
        for (interrupts, reason) in [(1, "it was interrupted"), (2, "it was interrupted twice")] {
            let inputs = LoopInputs { interrupts, ..inputs(0, 2) };
            assert_eq!(next_action(&told.state, &phase, &inputs), Action::Stop(Status::Interrupted, reason.into()));
        }
    }
}

/// Counters of an iteration on a case that took this long, or none.
fn counted(told: &mut Scenario, iteration: IterationId, case: &str, wall_s: f64, works: bool) {
    let counters = if works { Ok(Counters::default()) } else { Err("ncu is not installed".to_owned()) };
    let counted = Counted { iteration, case: case.into(), counters, wall_s };
    told.state.apply(&Record::Counted(Box::new(counted)));
}

#[test]
fn the_initial_kernel_is_profiled_once_on_its_slowest_case() {
    let mut told = limited(|setup| setup.options.counters_share = 0.05);
    assert!(matches!(at(&told, 0, 2), Action::Evaluate { .. }), "nothing is measured yet");
    let initial = told.screened(0, Purpose::Initial, [100, 300]);
    assert_eq!(at(&told, 10, 2), Action::Profile(OnCase { iteration: initial, case: "b".into() }));
    let in_design = LoopInputs {
        under_way: UnderWay { proposals: 2, initial: 1, is_dry: false, ..UnderWay::default() },
        ..inputs(10, 2)
    };
    assert!(matches!(next_action(&told.state, &Phase::Search, &in_design), Action::Evaluate { .. }));
    counted(&mut told, initial, "b", 3.0, true);
    assert!(matches!(at(&told, 20, 2), Action::Evaluate { .. }));
    // No share, no profile.
    let mut told = limited(|setup| setup.options.counters_share = 0.0);
    told.screened(0, Purpose::Initial, [100, 300]);
    assert!(matches!(at(&told, 10, 2), Action::Evaluate { .. }));
}

/// The finals, once all are held.
fn after_finals() -> Phase {
    Phase::Finals { queue: Default::default(), held: true, reason: "r".into() }
}

#[test]
fn winners_are_profiled_after_the_finals_until_the_share_is_used_or_the_tool_fails() {
    let next = |told: &Scenario| next_action(&told.state, &after_finals(), &inputs(3000, 0));
    let mut told = with_start(limited(|setup| setup.options.counters_share = 0.05));
    let initial = IterationId(1);
    counted(&mut told, initial, "a", 50.0, true);
    // Case a's incumbent is the initial kernel, which has its counters.
    assert_eq!(next(&told), Action::Profile(OnCase { iteration: initial, case: "b".into() }));
    let faster = told.confirmed(1, 50);
    counted(&mut told, initial, "b", 50.0, true);
    assert_eq!(next(&told), Action::Profile(OnCase { iteration: faster, case: "a".into() }));
    // 180 s are the share of an hour.
    counted(&mut told, IterationId(77), "b", 50.0, true);
    assert!(matches!(next(&told), Action::Stop(..)));
    let mut told = with_start(limited(|setup| setup.options.counters_share = 0.05));
    counted(&mut told, initial, "a", 1.0, false);
    assert!(matches!(next(&told), Action::Stop(..)));
}

#[test]
fn the_baselines_of_profiled_winners_are_profiled_once_and_together() {
    let next = |told: &Scenario| next_action(&told.state, &after_finals(), &inputs(3000, 0));
    let profiled = |change: fn(&mut SessionSetup)| {
        let mut told = with_start(limited(|setup| {
            setup.options.counters_share = 0.05;
            setup.counts_baselines = true;
            change(setup);
        }));
        told.baseline(50);
        counted(&mut told, IterationId(1), "a", 2.0, true);
        counted(&mut told, IterationId(1), "b", 2.0, true);
        told
    };
    let mut told = profiled(|_| {});
    // Case b has no baseline program.
    assert_eq!(next(&told), Action::ProfileBaselines(vec!["a".into()]));
    let kept = told.state.closing_time() - told.state.finals_time();
    assert_eq!(kept, 22 * SECOND, "12 s, and five profiles of 2 s");
    let reason = Err("ncu is broken".to_owned());
    let failed = CountedBaseline { case: "a".into(), name: "torch".to_owned(), counters: reason, wall_s: 9.0 };
    told.state.apply(&Record::CountedBaseline(Box::new(failed)));
    assert!(matches!(next(&told), Action::Stop(..)));
    // Only programs that optloop ships, and only in their share of the time.
    let untrusted = profiled(|setup| setup.counts_baselines = false);
    let short = profiled(|setup| setup.options.counters_share = 0.004);
    assert!([untrusted, short].iter().all(|told| matches!(next(told), Action::Stop(..))));
}

#[test]
fn what_profiled_winners_have_beaten_is_profiled_last() {
    let next = |told: &Scenario| next_action(&told.state, &after_finals(), &inputs(3000, 0));
    let on = |iteration, case: &str| Action::Profile(OnCase { iteration, case: case.into() });
    let mut told = with_start(limited(|setup| setup.options.counters_share = 0.05));
    let initial = IterationId(1);
    counted(&mut told, initial, "b", 2.0, true);
    let committed = told.screened_from_another_device(1, [80, 100]);
    let winner = told.confirmed(2, 50);
    assert_eq!(next(&told), on(winner, "a"));
    counted(&mut told, winner, "a", 2.0, true);
    assert_eq!(next(&told), on(committed, "a"));
    // The initial kernel takes twice the time on case a. On case b, nothing was beaten.
    counted(&mut told, committed, "a", 2.0, true);
    assert!(matches!(next(&told), Action::Stop(..)), "{:?}", next(&told));
}

#[test]
fn time_for_the_profiles_is_kept_until_the_tool_has_failed() {
    let mut told = with_start(limited(|setup| setup.options.counters_share = 0.05));
    let kept = told.state.closing_time() - told.state.finals_time();
    assert_eq!(kept, 20 * SECOND, "4 s for each of two winners and what they have beaten, and for one more");
    counted(&mut told, IterationId(1), "a", 1.0, false);
    assert_eq!(told.state.closing_time(), told.state.finals_time());
}

/// Ablations of an iteration on a case that took this long, or none.
fn ablated(told: &mut Scenario, iteration: IterationId, case: &str, wall_s: f64, works: bool) {
    let time_ns = if works { Ok(100.0) } else { Err("it is not known".to_owned()) };
    let ablations = vec![Ablation::of_control(time_ns)];
    told.state.apply(&Record::Ablated(Box::new(Ablated { iteration, case: case.into(), ablations, wall_s })));
}

#[test]
fn the_initial_kernel_and_the_incumbents_are_ablated_before_the_finals_while_their_share_lasts() {
    let next = |told: &Scenario| {
        let finals = Phase::Finals { queue: told.state.finals(), held: false, reason: "r".into() };
        next_action(&told.state, &finals, &inputs(3000, 0))
    };
    let on = |iteration, case: &str| Action::Ablate(OnCase { iteration, case: case.into() });
    let mut told = with_start(limited(|setup| setup.options.ablations_share = 0.05));
    let initial = IterationId(1);
    let Action::Ablate(first) = next(&told) else { panic!("{:?}", next(&told)) };
    assert_eq!(first.iteration, initial);
    ablated(&mut told, initial, &first.case, 50.0, true);
    let other = if first.case == "a" { "b" } else { "a" };
    assert_eq!(next(&told), on(initial, other));
    ablated(&mut told, initial, other, 50.0, true);
    assert!(matches!(next(&told), Action::Final(_)), "both incumbents are the initial kernel");
    let faster = told.confirmed(1, 50);
    assert_eq!(next(&told), on(faster, "a"));
    // 180 s are the share of an hour.
    ablated(&mut told, faster, "a", 50.0, true);
    assert!(matches!(next(&told), Action::Final(_)));

    // After the finals, the best variants of other families follow.
    let mut told = with_start(limited(|setup| setup.options.ablations_share = 0.05));
    ["a", "b"].iter().for_each(|case| ablated(&mut told, initial, case, 1.0, true));
    let after = |told: &Scenario, held| {
        let finals = Phase::Finals { queue: VecDeque::new(), held, reason: "r".into() };
        next_action(&told.state, &finals, &inputs(3000, 0))
    };
    assert!(matches!(after(&told, true), Action::Stop(..)), "there is no other family");
    let faster = told.confirmed(1, 50);
    assert_eq!(after(&told, true), on(faster, "a"));
    assert!(matches!(next(&told), Action::Ablate(_)), "a final may still replace it, but it is the best so far");

    // So does a committed winner that was beaten.
    let mut told = with_start(limited(|setup| setup.options.ablations_share = 0.05));
    ["a", "b"].iter().for_each(|case| ablated(&mut told, initial, case, 1.0, true));
    let committed = told.screened_from_another_device(1, [80, 100]);
    let winner = told.confirmed(2, 50);
    assert_eq!(after(&told, true), on(winner, "a"));
    ablated(&mut told, winner, "a", 1.0, true);
    assert!(matches!(next(&told), Action::Final(_)), "the final decides whether it was beaten");
    assert_eq!(after(&told, true), on(committed, "a"));

    // If the first one cannot be ablated, none can.
    let mut told = with_start(limited(|setup| setup.options.ablations_share = 0.05));
    ablated(&mut told, initial, "a", 1.0, false);
    assert!(matches!(next(&told), Action::Final(_)));
    assert_eq!(told.state.closing_time(), told.state.finals_time());
}

/// Runs the experiment that is due, if there is one. It takes as long as the work that it has.
fn experiment(told: &mut Scenario, seconds: u64) -> Option<(Scaling, Vec<i64>)> {
    let due = told.state.experiment(&inputs(seconds, 2).time, false)?;
    let mut begun = told.begin(0, Purpose::Experiment);
    begun.rationale.origin = Origin::ScaledCase(due.scaling.clone());
    begun.cases = vec![due.case.clone()];
    told.state.apply(&Record::Begun(Box::new(begun.clone())));
    let found = measurement(&due.case.name, 77, None);
    told.state.apply(&Record::Concluded(Box::new(Concluded::of(
        begun.iteration,
        &evaluation(Outcome::Measured, vec![found]),
        &[],
        Spent::default(),
        SECOND,
    ))));
    Some((due.scaling, ["H", "Sk"].map(|name| due.case.dims[name]).into()))
}

#[test]
fn experiments_take_a_tenth_of_the_iterations_and_win_nothing() {
    let mut told = with_start(Scenario::new(setup()));
    (1..9).for_each(|number| _ = told.screened(number, Purpose::Screening, [90, 90]));
    assert_eq!(experiment(&mut told, 10), None, "nine iterations");
    told.screened(9, Purpose::Screening, [90, 90]);
    let before = told.state.history().clone();
    let (scaling, dims) = experiment(&mut told, 10).unwrap();
    assert_eq!((scaling.of, scaling.axis, scaling.factor), (IterationId(1), Axis::Independent, 2.0));
    assert_eq!(dims, [2, 64]);
    assert_eq!(experiment(&mut told, 10), None, "eleven iterations are enough for one");

    // It is in the list of its own, and nowhere else.
    let history = told.state.history();
    let [seen] = &history.experiments[..] else { panic!("{:?}", history.experiments) };
    assert_eq!((&seen.scaling, seen.time_ns, seen.ctas), (&scaling, 77.0 * 1024.0, 1));
    assert_eq!((&history.finished, &history.incumbents), (&before.finished, &before.incumbents));
    assert_eq!((&history.fastest, &history.proposed), (&before.fastest, &before.proposed));
    assert_eq!(told.state.cases().count(), CASES.len());
}

#[test]
fn the_incumbent_is_explained_late_and_with_time_left() {
    let mut told = with_start(Scenario::new(setup()));
    let incumbent = told.confirmed(1, 50);
    (2..100).for_each(|number| _ = told.screened(number, Purpose::Screening, [60, 90]));
    // Case b has the most headroom for both kernels; its incumbent is the initial kernel, which is explained already.
    let done: Vec<_> = std::iter::from_fn(|| experiment(&mut told, 10)).map(|(scaling, _)| scaling.factor).collect();
    assert_eq!(done, [2.0, 2.0], "no half head");
    let (scaling, dims) = experiment(&mut told, 3000).unwrap();
    assert_eq!((scaling.of, &*scaling.case, scaling.axis), (incumbent, "a", Axis::Sequential), "it leaves SMs idle");
    assert_eq!(dims, [1, 32]);
    assert_eq!(experiment(&mut told, 3000), None, "b's incumbent is the initial kernel");
    assert_eq!(told.state.experiment(&inputs(3300, 2).time, true), None, "under a tenth of the time is left");
}

/// Times the step of a path that is due, if there is one, or fails to.
fn walk(told: &mut Scenario, us: Option<u32>) -> Option<(IterationId, i64)> {
    let due = told.state.path_step(&inputs(3000, 2).time, false)?;
    let mut begun = told.begin(0, Purpose::Experiment);
    (begun.params, begun.rationale.origin) =
        (due.params, Origin::PathStep { path: due.path.clone(), changes: due.changes });
    told.state.apply(&Record::Begun(Box::new(begun.clone())));
    let found = us.map(|us| measurement(&due.path.case, us, None));
    let outcome =
        if us.is_some() { Outcome::Measured } else { Outcome::RejectedByCompiler { message: "c".to_owned() } };
    let evaluation = evaluation(outcome, found.into_iter().collect());
    let concluded = Concluded::of(begun.iteration, &evaluation, &[], Spent::default(), SECOND);
    told.state.apply(&Record::Concluded(Box::new(concluded)));
    Some((due.path.to, begun.params["N"]))
}

#[test]
fn a_path_to_the_best_configuration_is_walked_late_and_wins_nothing() {
    let mut told = with_start(Scenario::new(setup()));
    let best = told.screened(1, Purpose::Screening, [40, 40]);
    (2..100).for_each(|number| _ = told.screened(number, Purpose::Screening, [60, 90]));
    assert_eq!(told.state.path_step(&inputs(10, 2).time, false), None, "it is early");
    assert!(told.state.path_step(&inputs(10, 2).time, true).is_some(), "nothing else is left to do");
    let before = told.state.history().clone();
    assert_eq!(walk(&mut told, Some(48)), Some((best, 1)));
    assert_eq!(walk(&mut told, Some(48)), None, "the end");

    let history = told.state.history();
    let [step] = &history.path_steps[..] else { panic!("{:?}", history.path_steps) };
    assert_eq!(step.time_ns, Some(48.0 * 1024.0));
    assert_eq!((&history.finished, &history.fastest), (&before.finished, &before.fastest));
    assert_eq!((&history.proposed, &history.attempts), (&before.proposed, &before.attempts));
}

#[test]
fn a_step_that_fails_is_not_tried_again() {
    let mut told = with_start(Scenario::new(setup()));
    told.screened(1, Purpose::Screening, [40, 40]);
    (2..100).for_each(|number| _ = told.screened(number, Purpose::Screening, [60, 90]));
    assert!(walk(&mut told, None).is_some());
    assert_eq!(walk(&mut told, None), None);
}

#[test]
fn a_session_waits_for_its_clients_until_they_leave() {
    let mut told = Scenario::new(setup());
    told.screened(0, Purpose::Initial, [100, 100]);
    told.screened(1, Purpose::Screening, [50, 50]);
    let with = |clients, proposals| {
        let under_way = UnderWay { proposals, is_dry: true, ..UnderWay::default() };
        next_action(&told.state, &Phase::Search, &LoopInputs { clients, under_way, ..inputs(10, proposals) })
    };
    let idle = Clients::Present { has_submitted: false };
    assert!(matches!(with(idle, 0), Action::AwaitRequest { .. }), "no candidate is confirmed, because more may come");
    assert!(matches!(with(Clients::None, 0), Action::Confirm(_)), "nothing else comes");
    assert!(matches!(with(idle, 1), Action::Evaluate { .. }));
    assert_eq!(with(Clients::Present { has_submitted: true }, 1), Action::ConfirmSubmitted);
    assert_eq!(with(Clients::Gone, 1), Action::EndSearch("its clients have ended it".into()));
}
