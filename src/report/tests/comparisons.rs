//! Figures that come from comparisons.

use super::*;
use crate::domain::ids::IterationId;
use crate::domain::measurement::comparison::{Comparison, Participant, Role};
use crate::domain::proposal::origin::Origin;
use crate::domain::record::Final;
use crate::store::testing::{comparison, participant};

/// Makes confirmations of the first case's best and second best variants, each with its own comparison.
fn confirmed() -> SessionRecord {
    let mut record = record();
    let held = |sides: [(IterationId, f64); 2]| {
        let [(challenger, us), (incumbent, incumbent_us)] = sides;
        let mut sides = vec![
            participant(Role::Challenger, "tiled", Some(challenger), us),
            participant(Role::Control, "tiled", Some(challenger), us),
            participant(Role::Incumbent, "tiled", Some(incumbent), incumbent_us),
        ];
        sides.push(participant(Role::Baseline, "torch sdpa (cudnn)", None, 40.0));
        comparison("b1h1s128", sides)
    };
    record.iterations[1].measurements[0].comparison = Some(held([(IterationId(2), 64.0), (IterationId(1), 80.0)]));
    let second = Comparison {
        winners_curse: Some(1.01),
        others: Vec::new(),
        ..held([(IterationId(3), 50.0), (IterationId(2), 64.0)])
    };
    record.iterations[2].measurements[0].comparison = Some(second);
    record
}

/// Makes a final that moves the case from iteration 3 to iteration 2, its near tie.
fn settled() -> SessionRecord {
    let mut record = confirmed();
    let sides: Vec<Participant> = vec![
        participant(Role::Challenger, "tiled 256", Some(IterationId(3)), 50.0),
        participant(Role::Control, "tiled 256", Some(IterationId(3)), 50.0),
        participant(Role::NearTie, "tiled 128", Some(IterationId(2)), 49.5),
        participant(Role::Baseline, "torch sdpa (cudnn)", None, 40.0),
    ];
    record.finals.push(Final { comparison: comparison("b1h1s128", sides), winner: IterationId(2) });
    record
}

#[test]
fn the_figures_of_a_case_are_those_of_the_comparison_of_its_best_variant() {
    let report = report(&confirmed());
    let case = &report.cases[0];
    let ratio = case.ratio_to_baseline.unwrap();
    assert_eq!((case.best_us, case.baseline.as_ref().map(|one| &*one.name)), (Some(52.63), Some("torch sdpa (cudnn)")));
    assert!(ratio.paired && (ratio.estimate - 0.798).abs() < 0.001, "{ratio:?}");
    let wins: Vec<_> = report.wins.iter().filter_map(|win| Some((win.iteration.0, win.ratio?.paired))).collect();
    assert_eq!(wins, [(2, true), (3, true)]);
    assert_eq!(report.winners_curse.map(|curse| curse.winners), Some(2));
}

/// The initial kernel was also timed apart, in 80 us. In the run with the winner, it took 1.5 times as long.
#[test]
fn the_time_before_agrees_with_the_ratio_of_one_run() {
    let mut record = confirmed();
    let held = record.iterations[2].measurements[0].comparison.as_mut().unwrap();
    held.participants[2] = participant(Role::Incumbent, "tiled", Some(IterationId(1)), 75.0);
    let markdown = report(&record).to_markdown().unwrap();
    let row = markdown.lines().find(|line| line.starts_with("| b1h1s128 | ")).unwrap();
    let cells: Vec<&str> = row.split(" | ").collect();
    let figure = |place: usize| cells[place].split(['×', ' ']).next().unwrap().parse::<f64>().unwrap();
    assert!((figure(1) / figure(2) - figure(3)).abs() < 0.001 && !row.contains("80.00"), "{row}");
}

/// The final lacks the initial kernel, with which the confirmation compared the winner.
#[test]
fn a_ratio_that_the_final_lacks_is_that_of_the_confirmation() {
    let ratio = report(&settled()).cases[0].change.as_ref().unwrap().ratio.unwrap();
    assert!(ratio.paired && (ratio.estimate - 1.25).abs() < 0.01, "{ratio:?}");
}

/// The best variant took 79 us and the initial kernel 80 us, in two runs. What two runs of one variant differ by is not known.
#[test]
fn a_ratio_of_two_runs_within_their_noise_is_a_tie_in_all_parts() {
    let mut record = record();
    record.iterations.truncate(2);
    record.iterations[1].measurements[0] = found("b1h1s128", 79.0, Verdict::Improved, None, None);
    let tied = report(&record);
    let change = tied.cases[0].change.as_ref().unwrap();
    assert_eq!((change.tied, change.improved), (true, false));
    let page = tied.to_markdown().unwrap();
    assert!(page.starts_with("# attention-fp16-d64 on NVIDIA L4: 0 of 3 cases improved\n"), "{page}");
    assert!(page.contains("| tied |"), "{page}");
    record.iterations[1].measurements[0] = found("b1h1s128", 77.0, Verdict::Improved, None, None);
    let title = report(&record).to_markdown().unwrap();
    assert!(title.starts_with("# attention-fp16-d64 on NVIDIA L4: 1 of 3 cases improved, by 1.04×"), "{title}");
}

/// Iteration 3 lost the final by 1%. Its screening run took 45 us.
#[test]
fn a_rival_that_took_turns_with_the_winner_has_the_ratio_of_that_run() {
    let mut record = settled();
    record.iterations[1].family = "split-k".to_owned();
    let report = report(&record);
    let rival = report.leads.iter().find(|lead| lead.over.kind == contract::OverKind::Family).unwrap();
    let ratio = rival.ratio.unwrap();
    assert_eq!((&*rival.over.name, ratio.paired), ("tiled", true));
    assert!((ratio.estimate - 1.01).abs() < 0.005, "{rival:?}");
}

/// The diagnosis limits a possible gain by the time of a variant over the floor. The times of iterations differ from those
/// of comparisons.
#[test]
fn the_best_variant_that_is_diagnosed_has_the_time_of_the_tables() {
    for record in [record(), confirmed(), settled()] {
        let case = report(&record).cases.remove(0);
        let (iteration, ns) = best_of_case("b1h1s128", &record).unwrap();
        assert_eq!((Some(iteration), Some(ns / 1e3)), (case.iteration, case.best_us));
    }
    assert_eq!(best_of_case("b16h8s512", &record()), None, "nothing was correct");
}

#[test]
fn a_final_settles_a_near_tie_and_gives_the_figures() {
    let record = settled();
    let report = report(&record);
    let case = &report.cases[0];
    let final_ = &record.finals[0].comparison;
    assert_eq!(case.iteration, Some(IterationId(2)));
    assert_eq!(case.best_us, Some(final_.participants[2].timing.median_ns / 1000.0));
    insta::assert_json_snapshot!((&case.ratio_to_baseline, &case.comparison), @r#"
    [
      {
        "estimate": 0.8101035661040245,
        "lo": 0.805048565434958,
        "hi": 0.8101137475857104,
        "paired": true
      },
      {
        "kind": "final",
        "samples": 12,
        "rounds": 12,
        "discarded_rounds": 2,
        "noise": 0.003752411383766696,
        "machine": {
          "sm_clock_mhz": 1980.0,
          "sm_clock_range_mhz": [
            1965,
            1980
          ],
          "memory_clock_mhz": 6250.0,
          "power_w": 71.5,
          "temperature_c": 64,
          "throttle": [
            "power_cap"
          ]
        },
        "baseline_machine": {
          "sm_clock_mhz": 1980.0,
          "sm_clock_range_mhz": [
            1965,
            1980
          ],
          "memory_clock_mhz": 6250.0,
          "power_w": 71.5,
          "temperature_c": 64,
          "throttle": [
            "power_cap"
          ]
        },
        "energy_j": 0.25,
        "baseline_energy_j": null,
        "graph_node_ns": 710.0,
        "baseline_graph_node_ns": null,
        "others": [
          "python3 (process 4242, 512 MiB)"
        ],
        "near_ties": [
          {
            "iteration": 3,
            "name": "tiled 256",
            "us": 52.63,
            "ratio": {
              "estimate": 1.0088359651272532,
              "lo": 1.0025532845720664,
              "hi": 1.0151707597499715,
              "paired": true
            }
          }
        ]
      }
    ]
    "#);
}

#[test]
fn a_start_that_nothing_beat_is_no_win_however_well_it_was_measured() {
    let mut record = record();
    let sides = vec![
        participant(Role::Challenger, "tiled", Some(IterationId(1)), 400.0),
        participant(Role::Control, "tiled", Some(IterationId(1)), 400.0),
    ];
    record.finals.push(Final { comparison: comparison("b8h8s512", sides), winner: IterationId(1) });
    let report = report(&record);
    assert!(report.cases[1].confirmed);
    let change = report.cases[1].change.as_ref().unwrap();
    assert_eq!((change.improved, change.tied), (false, false));
}

#[test]
fn times_of_two_regimes_are_not_divided() {
    let mut record = record();
    record.baselines[0].regime = Regime::Cold;
    let report = report(&record);
    let case = &report.cases[0];
    assert_eq!((case.speedup_over_baseline, case.ratio_to_baseline), (None, None));
    assert!(case.baseline.is_some() && case.ratio_to_start.is_some());
}

#[test]
fn a_time_below_the_floor_is_an_error_and_no_win() {
    let mut record = confirmed();
    record.iterations[2].measurements[0].comparison.as_mut().unwrap().floor_ns = Some(60_000.0);
    let page = report(&record).to_markdown().unwrap();
    assert!(page.contains("Faster than the floor on b1h1s128: the measurement or the peaks are wrong"), "{page}");
}

/// The first iteration measures the initial kernel in its default configuration.
#[test]
fn an_initial_kernel_that_stood_for_the_baseline_in_a_comparison_is_called_so() {
    let mut record = confirmed();
    record.iterations[0].rationale.origin = Origin::InitialKernel;
    let comparison = record.iterations[2].measurements[0].comparison.as_mut().unwrap();
    comparison.participants[3] = participant(Role::Baseline, "tiled 67df4d5f39", Some(IterationId(1)), 80.0);
    let report = report(&record);
    let baseline = report.cases[0].baseline.as_ref().unwrap();
    assert_eq!(
        (baseline.name.as_str(), baseline.is_initial_kernel),
        ("measured, the default configuration of tiled", true)
    );
    // The default configuration was wrong.
    record.iterations[0].rationale.origin = Origin::Random;
    let random = super::report(&record).cases[0].baseline.clone().unwrap();
    assert_eq!(random.name, "measured, the first correct configuration of tiled");
    let ratio = report.cases[0].ratio_to_start.unwrap();
    assert!(ratio.paired && (ratio.estimate - 1.6).abs() < 0.05, "the start was in the same comparison: {ratio:?}");
}

#[test]
fn every_baseline_is_listed_as_a_user_without_graphs_sees_it() {
    let mut record = record();
    record.baselines[0].eager_ns = Some(38_000.0);
    record.baselines[0].relative_l2 = Some(2.5e-4);
    let listed = &report(&record).baselines[0];
    assert_eq!((listed.us, listed.eager_us, listed.relative_l2), (25.0, Some(38.0), Some(2.5e-4)));
}
