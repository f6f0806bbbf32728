//! A hand-made session and the report that it makes.

use indexmap::IndexMap;

use super::*;
use crate::domain::cost::Spent;
use crate::domain::device::{DeviceInfo, TimeSource};
use crate::domain::evaluation::{Correctness, Outcome, Timing};
use crate::domain::hypothesis::{Hypothesis, Score};
use crate::domain::profile::tests::launch;
use crate::domain::profile::{LaunchProfile, Profile};
use crate::domain::record::{
    Baseline, CaseRecord, Environment, IterationRecord, SessionRecord, SessionSummary, Status,
};
use crate::domain::regime::Regime;
use crate::domain::statistics::Interval;
use crate::domain::variant::VariantHash;
use crate::domain::verdict::Verdict;

fn timing(us: f64) -> Timing {
    let interval_ns = Interval { lo: us * 995.0, hi: us * 1005.0 };
    Timing { samples_ns: vec![us * 1000.0], launches_per_sample: 1, median_ns: us * 1000.0, interval_ns }
}

fn session(id: i64, wins: u64, spent: Spent) -> SessionSummary {
    SessionSummary {
        id,
        workload: "attention-fp16-d64".to_owned(),
        cases: ["b1h1s128", "b8h8s512", "b16h8s512"].map(str::to_owned).to_vec(),
        proposer: "rules".to_owned(),
        seed: 1,
        device: "NVIDIA L4".to_owned(),
        time_source: TimeSource::Measured,
        status: if wins == 0 { Status::Interrupted } else { Status::Finished },
        stop_reason: Some("its time budget is spent".to_owned()),
        started_at: "2026-11-20T10:00:00Z".to_owned(),
        ended_at: Some("2026-11-20T10:55:00Z".to_owned()),
        budget_s: 3300.0,
        max_cost_usd: None,
        max_iterations: None,
        wall_s: Some(3301.0),
        iterations: 5,
        unfinished: 0,
        wins,
        best_speedup: (wins > 0).then_some(1.6),
        cost: spent,
    }
}

fn iteration(id: i64, block: i64, parent: Option<i64>, outcome: Outcome, found: Vec<CaseRecord>) -> IterationRecord {
    let actual = found.iter().find_map(|case| case.speedup);
    let hypothesis = Hypothesis {
        claim: format!("{block} threads | more warps hide latency"),
        evidence: "2 blocks on 58 SMs".to_owned(),
        case: "b1h1s128".to_owned(),
        predicted: Interval { lo: 1.1, hi: 1.5 },
        relative_to: parent,
    };
    IterationRecord {
        id,
        session: 2,
        ordinal: id,
        proposer: "rules".to_owned(),
        family: "tiled".to_owned(),
        params: IndexMap::from([("BLOCK".to_owned(), block), ("PAD".to_owned(), 8)]),
        hash: VariantHash::of(&block.to_string()),
        parent,
        cases: Vec::new(),
        started_at: "2026-11-20T10:00:01Z".to_owned(),
        ended_at: Some("2026-11-20T10:00:04Z".to_owned()),
        outcome: Some(outcome),
        score: Some(hypothesis.score(actual)),
        hypothesis,
        actual,
        measurements: found,
        device_s: Some(0.5),
        wall_s: Some(3.0),
        cost: Spent::default(),
    }
}

fn found(case: &str, us: f64, verdict: Verdict, speedup: Option<f64>, commit: Option<&str>) -> CaseRecord {
    let confirmed = verdict == Verdict::Improved;
    CaseRecord {
        case: case.to_owned(),
        regime: Regime::Warm,
        correctness: Some(Correctness { relative_l2: 1.2e-4, worst_row: 3.4e-4, rows_checked: 64, rows: 128 }),
        ctas: Some(2),
        contest: None,
        profile: None,
        // The screening is luckier than the confirmation, which is the one to report.
        screening: Some(timing(if confirmed { us * 0.9 } else { us })),
        confirmation: confirmed.then(|| timing(us)),
        verdict: Some(verdict),
        speedup,
        commit: commit.map(str::to_owned),
    }
}

/// Two wins in a row on one case, a start without a win on another, and nothing correct on the third.
fn record() -> SessionRecord {
    let message = "all zeros".to_owned();
    let wrong = Outcome::Wrong { case: "b16h8s512".to_owned(), message };
    let spent = Spent { gpu_s: 3301.0, gpu_usd: 0.18, llm_usd: 0.75 };
    let earlier = Spent { gpu_s: 10_800.0, gpu_usd: 0.6, llm_usd: 3.0 };
    let session = session(2, 2, spent);
    SessionRecord {
        environment: Environment {
            device: DeviceInfo {
                name: "NVIDIA L4".to_owned(),
                driver: Some("13.0".to_owned()),
                ..DeviceInfo::of_arch("sm_89").unwrap()
            },
            nvrtc: "13.0".to_owned(),
            optloop: "0.1.0".to_owned(),
            torch: Some("2.9.0".to_owned()),
            host: "Linux, 16 cores".to_owned(),
        },
        baselines: vec![Baseline {
            case: "b1h1s128".to_owned(),
            name: "torch sdpa (flash)".to_owned(),
            regime: Regime::Warm,
            timing: timing(25.0),
            eager_ns: None,
            relative_l2: None,
        }],
        iterations: vec![
            iteration(
                1,
                64,
                None,
                Outcome::Measured,
                vec![
                    found("b1h1s128", 80.0, Verdict::Start, None, None),
                    found("b8h8s512", 400.0, Verdict::Start, None, None),
                ],
            ),
            iteration(
                2,
                128,
                Some(1),
                Outcome::Measured,
                vec![found("b1h1s128", 64.0, Verdict::Improved, Some(1.25), Some("0123456789abcdef"))],
            ),
            iteration(
                3,
                256,
                Some(2),
                Outcome::Measured,
                vec![found("b1h1s128", 50.0, Verdict::Improved, Some(1.28), None)],
            ),
            iteration(4, 512, Some(3), wrong, Vec::new()),
            IterationRecord {
                outcome: None,
                score: None,
                ended_at: None,
                ..iteration(5, 96, Some(3), Outcome::Measured, vec![])
            },
        ],
        finals: Vec::new(),
        ledger: vec![self::session(1, 0, earlier), session.clone()],
        session,
    }
}

fn report(record: &SessionRecord) -> Report {
    report_with(record, &[])
}

fn report_with(record: &SessionRecord, findings: &[Finding]) -> Report {
    let facts = ["b1h1s128", "b8h8s512", "b16h8s512"].map(|case| CaseFacts {
        case: case.to_owned(),
        floor_ns: 1000.0,
        flop: 4.0e6,
        peak_flops: 1.2e14,
    });
    let families = ["tiled", "split-k"].map(str::to_owned);
    build(&ReportInput { record, facts: &facts, families: &families, findings })
}

#[test]
fn a_session_reads_as_markdown() {
    insta::assert_snapshot!(report(&record()).to_markdown().unwrap(), @r"
    # Session 2: attention-fp16-d64 on NVIDIA L4

    **Status**: finished, its time budget is spent  
    **Started**: 2026-11-20T10:00:00Z  
    **Time**: 55 min of 55 min  
    **Cost**: $0.93 (GPU $0.18, language models $0.75)

    Every time below is **measured** on the device.

    ## Objective

    Make every case of `attention-fp16-d64` as fast as its floor allows, against its first correct variant and against what a user would use instead.

    ## Environment

    | | |
    |---|---|
    | Device | NVIDIA L4 (sm_89, 58 SMs) |
    | Driver, NVRTC | 13.0, 13.0 |
    | PyTorch | 2.9.0 |
    | Host | Linux, 16 cores |
    | optloop | 0.1.0, proposer rules, seed 1 |
    | Ceilings | derived from the driver's clocks (1700 MHz SM, 2600 MHz memory, 5120-bit bus) |

    ## Result

    Times in microseconds, measured; the interval is the median's 95% one.

    | Case | Start | Best | Interval | Over start | Baseline | Over baseline |
    |---|--:|--:|--:|--:|--:|--:|
    | b1h1s128 | 80.00 | 50.00 | 49.75 to 50.25 | 1.60× | 25.00 (torch sdpa (flash)) | 0.50× |
    | b8h8s512 | 400.00 | 400.00 (not confirmed) | 398.00 to 402.00 | 1.00× | - | - |
    | b16h8s512 | - | - | - | - | - | - |

    How far from the device's limits the best variants are; rates follow from the measured times.

    | Case | Floor (µs) | Share of floor | GFLOP/s | Share of peak | Blocks / SMs | Variant |
    |---|--:|--:|--:|--:|--:|---|
    | b1h1s128 | 1.000 | 2.0% | 80.0 | 0.07% | 2 / 58 | tiled BLOCK=256 PAD=8 (`ae4c80b6f6`) |
    | b8h8s512 | 1.000 | 0.25% | 10.0 | 0.01% | 2 / 58 | tiled BLOCK=64 PAD=8 (`67df4d5f39`) |
    | b16h8s512 | 1.000 | - | - | - | - / 58 | - |

    ## Iterations

    5 iterations: 1 unfinished, 3 measured, 1 wrong. Predictions: 2 confirmed, 0 exceeded, 0 refuted, 2 untested.

    The first correct variant of each case and every confirmed improvement. Times in microseconds, measured; the speed-up is over the incumbent of its time.

    | # | Case | Verdict | Time | Speed-up | Predicted | Prediction | Variant | Claim |
    |--:|---|---|--:|--:|--:|---|---|---|
    | 1 | b1h1s128 | start | 80.00 | - | 1.10× to 1.50× | untested | tiled BLOCK=64 PAD=8 | 64 threads \| more warps hide latency |
    | 1 | b8h8s512 | start | 400.00 | - | - | - | tiled BLOCK=64 PAD=8 | 64 threads \| more warps hide latency |
    | 2 | b1h1s128 | improved | 64.00 | 1.25× | 1.10× to 1.50× | confirmed | tiled BLOCK=128 PAD=8 | 128 threads \| more warps hide latency |
    | 3 | b1h1s128 | improved | 50.00 | 1.28× | 1.10× to 1.50× | confirmed | tiled BLOCK=256 PAD=8 | 256 threads \| more warps hide latency |

    ## Correctness

    Errors of the best variants against a float64 reference, relative to the scale of the output.

    | Case | Whole output | Worst row | Rows checked |
    |---|--:|--:|--:|
    | b1h1s128 | 1.2e-4 | 3.4e-4 | 64 of 128 |
    | b8h8s512 | 1.2e-4 | 3.4e-4 | 64 of 128 |
    | b16h8s512 | - | - | - |

    ## Cost

    | Session | Workload | Time | GPU | Language models | Total | Result |
    |--:|---|--:|--:|--:|--:|---|
    | 1 | attention-fp16-d64 | 55 min | $0.60 | $3.00 | $3.60 | interrupted, 0 wins |
    | 2 | attention-fp16-d64 | 55 min | $0.18 | $0.75 | $0.93 | 2 wins, best 1.60× over start (measured) |
    | **Total** | | | $0.78 | $3.75 | $4.53 | |

    ## Committed

    - `0123456789`: iteration 2 on b1h1s128

    ## Next steps

    - `b16h8s512` has no correct variant yet: see `optloop history 2 --case b16h8s512` for why.
    - `b8h8s512` is furthest from its floor: the best time is 400× of it; it launches 2 blocks on 58 SMs, so most of the device idles.
    - `b1h1s128` still takes 2.00× as long as torch sdpa (flash).
    - `b8h8s512` has no win: nothing beat its first correct variant.
    - Never timed in this session: `split-k`.
    - Changes that paid off most: `BLOCK` of `tiled` (1.26× on geometric average over 2 changes).
    - No baseline was timed for `b8h8s512`, `b16h8s512`: nothing says how these compare with what a user has.
    - Winners that are not committed: `b1h1s128` (iteration 3).
    ");
}

#[test]
fn a_session_is_told_to_programs_as_json() {
    let mut report = report(&record());
    // One of each kind of row is enough to show the contract.
    report.hypotheses.drain(2..);
    report.wins.drain(1..);
    insta::assert_snapshot!(report.to_json().unwrap(), @r#"
    {
      "schema": "optloop.report/1",
      "session": {
        "id": 2,
        "status": "finished",
        "stop_reason": "its time budget is spent",
        "workload": "attention-fp16-d64",
        "proposer": "rules",
        "seed": 1,
        "device": "NVIDIA L4",
        "time_source": "measured",
        "started_at": "2026-11-20T10:00:00Z",
        "ended_at": "2026-11-20T10:55:00Z",
        "budget_s": 3300.0,
        "wall_s": 3301.0,
        "gpu_s": 3301.0,
        "cost_usd": 0.9299999999999999
      },
      "environment": {
        "device": "NVIDIA L4",
        "arch": "sm_89",
        "sms": 58,
        "driver": "13.0",
        "nvrtc": "13.0",
        "optloop": "0.1.0",
        "torch": "2.9.0",
        "host": "Linux, 16 cores",
        "peaks_source": "derived from the driver's clocks (1700 MHz SM, 2600 MHz memory, 5120-bit bus)"
      },
      "cases": [
        {
          "case": "b1h1s128",
          "start_us": 80.0,
          "best_us": 50.0,
          "best_ci_us": [
            49.75,
            50.25
          ],
          "confirmed": true,
          "baseline": {
            "name": "torch sdpa (flash)",
            "us": 25.0
          },
          "speedup_over_start": 1.6,
          "speedup_over_baseline": 0.5,
          "floor_us": 1.0,
          "variant": {
            "family": "tiled",
            "params": {
              "BLOCK": 256,
              "PAD": 8
            },
            "hash": "ae4c80b6f6ad13cd863c4cde52e47030"
          },
          "iteration": 3,
          "commit": null,
          "gflops": 80.0,
          "share_of_floor": 0.02,
          "share_of_peak": 0.0006666666666666666,
          "ctas": 2,
          "sms": 58,
          "profile": null
        },
        {
          "case": "b8h8s512",
          "start_us": 400.0,
          "best_us": 400.0,
          "best_ci_us": [
            398.0,
            402.0
          ],
          "confirmed": false,
          "baseline": null,
          "speedup_over_start": 1.0,
          "speedup_over_baseline": null,
          "floor_us": 1.0,
          "variant": {
            "family": "tiled",
            "params": {
              "BLOCK": 64,
              "PAD": 8
            },
            "hash": "67df4d5f39fcba92bccd6e1bb96145d9"
          },
          "iteration": 1,
          "commit": null,
          "gflops": 10.0,
          "share_of_floor": 0.0025,
          "share_of_peak": 0.00008333333333333333,
          "ctas": 2,
          "sms": 58,
          "profile": null
        },
        {
          "case": "b16h8s512",
          "start_us": null,
          "best_us": null,
          "best_ci_us": null,
          "confirmed": false,
          "baseline": null,
          "speedup_over_start": null,
          "speedup_over_baseline": null,
          "floor_us": 1.0,
          "variant": null,
          "iteration": null,
          "commit": null,
          "gflops": null,
          "share_of_floor": null,
          "share_of_peak": null,
          "ctas": null,
          "sms": 58,
          "profile": null
        }
      ],
      "iterations": {
        "total": 5,
        "unfinished": 1,
        "measured": 3,
        "rejected_by_compiler": 0,
        "wrong": 1,
        "crashed": 0,
        "timed_out": 0,
        "cheated": 0,
        "pruned": 0
      },
      "wins": [
        {
          "iteration": 1,
          "case": "b1h1s128",
          "verdict": "start",
          "variant": {
            "family": "tiled",
            "params": {
              "BLOCK": 64,
              "PAD": 8
            },
            "hash": "67df4d5f39fcba92bccd6e1bb96145d9"
          },
          "us": 80.0,
          "ci_us": [
            79.6,
            80.4
          ],
          "speedup": null,
          "claim": "64 threads | more warps hide latency",
          "predicted": [
            1.1,
            1.5
          ],
          "score": "untested",
          "commit": null
        }
      ],
      "hypotheses": [
        {
          "iteration": 1,
          "case": "b1h1s128",
          "claim": "64 threads | more warps hide latency",
          "evidence": "2 blocks on 58 SMs",
          "predicted": [
            1.1,
            1.5
          ],
          "actual": null,
          "verdict": "untested"
        },
        {
          "iteration": 2,
          "case": "b1h1s128",
          "claim": "128 threads | more warps hide latency",
          "evidence": "2 blocks on 58 SMs",
          "predicted": [
            1.1,
            1.5
          ],
          "actual": 1.25,
          "verdict": "confirmed"
        }
      ],
      "predictions": {
        "confirmed": 2,
        "exceeded": 0,
        "refuted": 0,
        "untested": 2
      },
      "findings": [],
      "correctness": [
        {
          "case": "b1h1s128",
          "relative_l2": 0.00012,
          "worst_row": 0.00034,
          "rows_checked": 64,
          "rows": 128,
          "checked_on": null
        },
        {
          "case": "b8h8s512",
          "relative_l2": 0.00012,
          "worst_row": 0.00034,
          "rows_checked": 64,
          "rows": 128,
          "checked_on": null
        },
        {
          "case": "b16h8s512",
          "relative_l2": null,
          "worst_row": null,
          "rows_checked": null,
          "rows": null,
          "checked_on": null
        }
      ],
      "committed": [
        {
          "commit": "0123456789abcdef",
          "iteration": 2,
          "case": "b1h1s128"
        }
      ],
      "cost": {
        "session": {
          "gpu_s": 3301.0,
          "gpu_usd": 0.18,
          "llm_usd": 0.75
        },
        "ledger": [
          {
            "session": 1,
            "workload": "attention-fp16-d64",
            "status": "interrupted",
            "time_source": "measured",
            "wall_s": 3301.0,
            "cost": {
              "gpu_s": 10800.0,
              "gpu_usd": 0.6,
              "llm_usd": 3.0
            },
            "wins": 0,
            "best_speedup": null
          },
          {
            "session": 2,
            "workload": "attention-fp16-d64",
            "status": "finished",
            "time_source": "measured",
            "wall_s": 3301.0,
            "cost": {
              "gpu_s": 3301.0,
              "gpu_usd": 0.18,
              "llm_usd": 0.75
            },
            "wins": 2,
            "best_speedup": 1.6
          }
        ],
        "cumulative": {
          "gpu_s": 14101.0,
          "gpu_usd": 0.78,
          "llm_usd": 3.75
        }
      },
      "next_steps": [
        "`b16h8s512` has no correct variant yet: see `optloop history 2 --case b16h8s512` for why.",
        "`b8h8s512` is furthest from its floor: the best time is 400× of it; it launches 2 blocks on 58 SMs, so most of the device idles.",
        "`b1h1s128` still takes 2.00× as long as torch sdpa (flash).",
        "`b8h8s512` has no win: nothing beat its first correct variant.",
        "Never timed in this session: `split-k`.",
        "Changes that paid off most: `BLOCK` of `tiled` (1.26× on geometric average over 2 changes).",
        "No baseline was timed for `b8h8s512`, `b16h8s512`: nothing says how these compare with what a user has.",
        "Winners that are not committed: `b1h1s128` (iteration 3)."
      ]
    }
    "#);
}

#[test]
fn the_start_of_a_session_is_reported_without_figures() {
    let mut record = record();
    record.iterations.clear();
    record.baselines.clear();
    let report = report(&record);
    assert_eq!(report.cases[0].best_us, None);
    assert!(report.to_markdown().unwrap().contains("No variant was correct."));
}

/// The worst evidence stands for a family, and the section is not there when nothing was found.
#[test]
fn what_a_diagnosis_found_is_told_once_a_family() {
    let finding = |iteration, family: &str, severity| Finding {
        iteration,
        family: family.to_owned(),
        rule: "serialised-grid",
        severity,
        evidence: format!("the work grows {severity}-fold"),
    };
    let found = [finding(1, "tiled", 16.0), finding(2, "tiled", 64.0), finding(3, "split-k", 8.0)];
    let markdown = report_with(&record(), &found).to_markdown().unwrap();
    let section = markdown.split("## ").find(|section| section.starts_with("Diagnosis")).unwrap();
    insta::assert_snapshot!(section, @"
    Diagnosis

    - `serialised-grid` in tiled (2 iterations): the work grows 64-fold.
    - `serialised-grid` in split-k (1 iteration): the work grows 8-fold.
    ");
    assert!(!report(&record()).to_markdown().unwrap().contains("Diagnosis"));
    insta::assert_json_snapshot!(report_with(&record(), &found).findings, @r#"
    [
      {
        "rule": "serialised-grid",
        "family": "tiled",
        "iterations": 2,
        "evidence": "the work grows 64-fold"
      },
      {
        "rule": "serialised-grid",
        "family": "split-k",
        "iterations": 1,
        "evidence": "the work grows 8-fold"
      }
    ]
    "#);
}

#[test]
fn refuted_predictions_are_owned_up_to() {
    let mut record = record();
    for iteration in &mut record.iterations {
        iteration.score = Some(Score::Refuted);
    }
    let steps = report(&record).next_steps.join("\n");
    assert!(steps.contains("100% of the tested predictions were refuted"), "{steps}");
}

#[test]
fn modelled_times_say_so() {
    let mut record = record();
    record.session.time_source = TimeSource::Modelled;
    let markdown = report(&record).to_markdown().unwrap();
    assert!(markdown.contains("**modelled**") && !markdown.contains("µs, measured"), "{markdown}");
}

/// What was counted explains the time, and what was not executed is owned up to.
#[test]
fn what_a_virtual_gpu_counted_is_told_of_the_best_variants() {
    let mut record = record();
    record.session.time_source = TimeSource::Modelled;
    let launch = LaunchProfile { executed_blocks: 64, ..launch("attend", 64_000.0) };
    let checked_on = Some(IndexMap::from([("S".to_owned(), 256)]));
    record.iterations[0].measurements[1].profile = Some(Profile { launches: vec![launch], checked_on });
    let report = report(&record);
    let markdown = report.to_markdown().unwrap();
    let section = markdown.split("What was counted").nth(1).and_then(|rest| rest.split("## ").next()).unwrap();
    insta::assert_snapshot!(section, @"
     while the best variants were executed, and what bounds the modelled time of each launch.

    | Case | kernel | µs, modelled | limiter | blocks per SM | active lanes | divergent branches | global sectors / ideal | shared wavefronts / ideal | local sectors |
    |---|---|--:|---|--:|--:|--:|--:|--:|--:|
    | b8h8s512 | attend | 64.00 | shared | 4 | 31.5 | 5.0% | 1.20× | 32.00× | 0 |

    - `b8h8s512` was too much work to be executed in full: attend: 64 of 256 blocks counted; checked on S=256.
    ");
    assert!(markdown.contains("64 of 128 (of a smaller case)"), "{markdown}");
}
