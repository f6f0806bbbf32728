//! Figures that come from comparisons.

use super::*;
use crate::domain::comparison::{Comparison, Participant, Role};
use crate::domain::ids::IterationId;
use crate::domain::origin::Origin;
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

fn section(report: &Report, from: &str, to: &str) -> String {
    let markdown = report.to_markdown_details().unwrap();
    let rest = markdown.split_once(from).unwrap_or_else(|| panic!("no {from:?} in {markdown}")).1;
    format!("{from}{}", rest.split_once(to).unwrap().0)
}

#[test]
fn the_figures_of_a_case_are_those_of_the_comparison_of_its_best_variant() {
    let report = report(&confirmed());
    insta::assert_snapshot!(section(&report, "Times are in microseconds, measured.", "</details>"), @r#"
    Times are in microseconds, measured. The interval is the 95% interval of the median. "Over baseline" is the baseline's time divided by ours: above 1, ours is faster. It has a 95% interval if the two were timed in turns in one run. Regime: in `warm`, the data is in L2; in `cold`, it is not.

    | Case | Regime | Ours | Interval | Baseline | Over baseline | Floor | Share of floor | SM clock (MHz), ours / baseline |
    |---|---|--:|--:|--:|--:|--:|--:|--:|
    | b1h1s128 | warm | 52.63 | 51.38 to 54.24 | 42.29 (torch sdpa (cudnn)) | 0.798× (0.798 to 0.808) | 1.000 | 1.9% | 1980 / 1980 |
    | b8h8s512 | warm | 400.00 (not confirmed) | 398.00 to 402.00 | - | - | 1.000 | 0.25% | - |
    | b16h8s512 | warm | - | - | - | - | 1.000 | - | - |

    The best variant compared with the first correct one, and its use of the device. Rates are computed from the measured times.

    | Case | Start | Over start | GFLOP/s | Share of peak | Blocks / SMs | Variant |
    |---|--:|--:|--:|--:|--:|---|
    | b1h1s128 | 80.00 | 1.52× (not in one run) | 76.0 | 0.06% | 2 / 58 | tiled BLOCK=256 PAD=8 (`ae4c80b6f6`) |
    | b8h8s512 | 400.00 | 1.00× | 10.0 | 0.01% | 2 / 58 | tiled BLOCK=64 PAD=8 (`67df4d5f39`) |
    | b16h8s512 | - | - | - | - | - / 58 | - |

    Measurement: the best variant, its A/A control and the baseline took turns, one sample group at a time. The noise is how far from 1 the interval of the ratio between the variant and its A/A control reaches. Smaller differences do not count. Energy is given for one execution, ours / baseline.

    | Case | Held as | Rounds | Discarded | Samples | Noise (A/A) | SM clock (MHz) | Power (W) | Temperature (°C) | Throttled by | Energy (mJ) |
    |---|---|--:|--:|--:|--:|--:|--:|--:|---|--:|
    | b1h1s128 | confirmation | 12 | 2 | 12 | 0.38% | 1965 to 1980 | 72 | 64 | power cap | 250.00 / - |

    - From its screening run to the comparison, the time of 2 winners changed by +3.6% in the median and by +6.2% at worst.
    - Each process had a graph that was not launched yet, as programs with several graphs do: an empty kernel took 0.71 us as a node of a graph in ours.
    - The baseline of `b1h1s128` does not report the state of its graphs, so it may be the other one.
    - There was no final for `b1h1s128`: the figures come from the confirmation.

    Every baseline, timed separately before the first comparison. Eager is the time of a call without a CUDA graph, including the host's work. Kernels are those of a call, with their blocks.

    | Case | Baseline | Regime | Graph | Interval | Eager | Error | Kernels |
    |---|---|---|--:|--:|--:|--:|---|
    | b1h1s128 | torch sdpa (flash) | warm | 25.00 | 24.88 to 25.12 | - | - | - |
    "#);
    insta::assert_snapshot!(section(&report, "| # | Case", "Errors of the best"), @r"
    | # | Case | Verdict | Time | Speed-up | Predicted | Prediction | Variant | Claim |
    |--:|---|---|--:|--:|--:|---|---|---|
    | 1 | b1h1s128 | start | 80.00 | - | 1.10× to 1.50× | untested | tiled BLOCK=64 PAD=8 | 64 threads \| more warps hide latency |
    | 1 | b8h8s512 | start | 400.00 | - | - | - | tiled BLOCK=64 PAD=8 | 64 threads \| more warps hide latency |
    | 2 | b1h1s128 | improved | 64.00 | 1.256× (1.241 to 1.256) | 1.10× to 1.50× | in range | tiled BLOCK=128 PAD=8 | 128 threads \| more warps hide latency |
    | 3 | b1h1s128 | improved | 50.00 | 1.286× (1.270 to 1.286) | 1.10× to 1.50× | in range | tiled BLOCK=256 PAD=8 | 256 threads \| more warps hide latency |
    ");
}

/// The first kernel was also timed apart, in 80 us. In the run with the winner, it took 1.5 times as long.
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

/// The final lacks the first kernel, with which the confirmation compared the winner.
#[test]
fn a_ratio_that_the_final_lacks_is_that_of_the_confirmation() {
    let ratio = report(&settled()).cases[0].change.as_ref().unwrap().ratio.unwrap();
    assert!(ratio.paired && (ratio.estimate - 1.25).abs() < 0.01, "{ratio:?}");
}

/// The best variant took 79 us and the first kernel 80 us, in two runs. What two runs of one variant differ by is not known.
#[test]
fn a_ratio_of_two_runs_within_their_noise_is_a_tie_in_all_parts() {
    let mut record = record();
    record.iterations.truncate(2);
    record.iterations[1].measurements[0] = found("b1h1s128", 79.0, Verdict::Improved, None, None);
    let page = report(&record).to_markdown().unwrap();
    let of_tie = |line: &&str| {
        ["# attention", "- **Result.", "| b1h1s128 | 80", "Two runs"].iter().any(|head| line.starts_with(head))
    };
    insta::assert_snapshot!(page.lines().filter(of_tie).collect::<Vec<_>>().join("\n"), @"
    # attention-fp16-d64 on NVIDIA L4: 0 of 3 cases improved, 1 tied, 0 of 1 ahead of the baseline
    - **Result.** Ours beats the fastest baseline on 0 of 1 cases: it is 0.32× as fast. The session improved 0 of 2 cases over their first correct kernels, and tied on 1.
    | b1h1s128 | 80.00 | 79.00 | 1.01× (two runs: within their noise) | tiled | 25.00 (torch sdpa (flash)) | 0.32× (not in one run) | 1.000 (launch) | idle SMs: 2 blocks on 58 |
    Two runs of one variant may differ by 2.7%, so a ratio of two runs within that is a tie: `b1h1s128`.
    ");
    record.iterations[1].measurements[0] = found("b1h1s128", 77.0, Verdict::Improved, None, None);
    let title = report(&record).to_markdown().unwrap();
    assert!(title.starts_with("# attention-fp16-d64 on NVIDIA L4: 1 of 3 cases improved, 0 of 1 ahead"), "{title}");
}

/// Iteration 3 lost the final by 1%. Its screening run took 45 us.
#[test]
fn a_rival_that_took_turns_with_the_winner_has_the_ratio_of_that_run() {
    let mut record = settled();
    record.iterations[1].family = "split-k".to_owned();
    let report = report(&record);
    let [winner, rival] = &*report.rivals[0].families else { panic!("two families") };
    assert_eq!((&*winner.family, &*rival.family, rival.in_one_run), ("split-k", "tiled", true));
    assert!((rival.us / winner.us - 1.01).abs() < 0.005, "{rival:?}");
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
    insta::assert_snapshot!(section(&report, "Measurement: ", "</details>"), @"
    Measurement: the best variant, its A/A control and the baseline took turns, one sample group at a time. The noise is how far from 1 the interval of the ratio between the variant and its A/A control reaches. Smaller differences do not count. Energy is given for one execution, ours / baseline.

    | Case | Held as | Rounds | Discarded | Samples | Noise (A/A) | SM clock (MHz) | Power (W) | Temperature (°C) | Throttled by | Energy (mJ) |
    |---|---|--:|--:|--:|--:|--:|--:|--:|---|--:|
    | b1h1s128 | final | 12 | 2 | 12 | 0.38% | 1965 to 1980 | 72 | 64 | power cap | 250.00 / - |

    - From its screening run to the comparison, the time of 2 winners changed by +3.6% in the median and by +6.2% at worst.
    - The final of `b1h1s128` left iteration 2 as the best: iteration 3 takes 1.009× (1.003 to 1.015) as long.
    - Each process had a graph that was not launched yet, as programs with several graphs do: an empty kernel took 0.71 us as a node of a graph in ours.
    - The baseline of `b1h1s128` does not report the state of its graphs, so it may be the other one.
    - Other processes used the GPU while `b1h1s128` was timed: python3 (process 4242, 512 MiB).

    Every baseline, timed separately before the first comparison. Eager is the time of a call without a CUDA graph, including the host's work. Kernels are those of a call, with their blocks.

    | Case | Baseline | Regime | Graph | Interval | Eager | Error | Kernels |
    |---|---|---|--:|--:|--:|--:|---|
    | b1h1s128 | torch sdpa (flash) | warm | 25.00 | 24.88 to 25.12 | - | - | - |
    ");
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
    let steps = report.next_steps.join("\n");
    assert!(steps.contains("No win on `b8h8s512`: no variant was faster"), "{steps}");
    assert!(steps.contains("not committed: `b1h1s128` (iteration 3)."), "{steps}");
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
    let steps = report(&record).next_steps.join("\n");
    assert!(steps.contains("`b1h1s128` is faster than its floor"), "{steps}");
}

#[test]
fn what_is_level_with_the_baseline_is_not_called_slower() {
    let mut record = confirmed();
    let comparison = record.iterations[2].measurements[0].comparison.as_mut().unwrap();
    comparison.participants[3] = participant(Role::Baseline, "torch sdpa (cudnn)", None, 49.8);
    let steps = report(&record).next_steps.join("\n");
    assert!(steps.contains("`b1h1s128` is tied with torch sdpa (cudnn)"), "{steps}");
}

#[test]
fn without_pytorch_the_report_says_what_the_baseline_is() {
    let mut record = record();
    record.environment.torch = None;
    let baseline = &mut record.baselines[0];
    baseline.name = Baseline::initial_kernel_name(TimeSource::Measured, "tiled", Some(&Origin::InitialKernel));
    baseline.kind = BaselineKind::InitialKernel;
    let markdown = report(&record).to_markdown_details().unwrap();
    let said = "No baseline program could be timed for `b1h1s128`, because PyTorch is not installed. The workload's \
                initial kernel is the baseline instead.";
    assert!(markdown.contains(said), "{markdown}");
}

/// The first iteration measures the initial kernel in its default configuration.
#[test]
fn an_initial_kernel_that_stood_for_the_baseline_in_a_comparison_is_called_so() {
    let mut record = confirmed();
    record.iterations[0].origin = Origin::InitialKernel;
    let comparison = record.iterations[2].measurements[0].comparison.as_mut().unwrap();
    comparison.participants[3] = participant(Role::Baseline, "tiled 67df4d5f39", Some(IterationId(1)), 80.0);
    let report = report(&record);
    let baseline = report.cases[0].baseline.as_ref().unwrap();
    assert_eq!(
        (baseline.name.as_str(), baseline.is_initial_kernel),
        ("measured, the default configuration of tiled", true)
    );
    // The default configuration was wrong.
    record.iterations[0].origin = Origin::Random;
    let random = super::report(&record).cases[0].baseline.clone().unwrap();
    assert_eq!(random.name, "measured, the first correct configuration of tiled");
    let ratio = report.cases[0].ratio_to_start.unwrap();
    assert!(ratio.paired && (ratio.estimate - 1.6).abs() < 0.05, "the start was in the same comparison: {ratio:?}");
    assert!(
        report
            .to_markdown_details()
            .unwrap()
            .contains("could be timed for `b1h1s128`. The workload's initial kernel is the baseline")
    );
}

#[test]
fn every_baseline_is_listed_as_a_user_without_graphs_sees_it() {
    let mut record = record();
    record.baselines[0].eager_ns = Some(38_000.0);
    record.baselines[0].relative_l2 = Some(2.5e-4);
    insta::assert_snapshot!(section(&report(&record), "Every baseline", "</details>"), @"
    Every baseline, timed separately before the first comparison. Eager is the time of a call without a CUDA graph, including the host's work. Kernels are those of a call, with their blocks.

    | Case | Baseline | Regime | Graph | Interval | Eager | Error | Kernels |
    |---|---|---|--:|--:|--:|--:|---|
    | b1h1s128 | torch sdpa (flash) | warm | 25.00 | 24.88 to 25.12 | 38.00 | 2.5e-4 | - |
    ");
}
