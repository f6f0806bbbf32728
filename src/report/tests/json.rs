//! The whole report as JSON.

use super::*;

#[test]
fn a_session_is_told_to_programs_as_json() {
    let mut report = report(&record());
    // One row of each kind is enough to show the contract.
    report.hypotheses.drain(2..);
    report.wins.drain(1..);
    report.calibration.kept.drain(1..);
    insta::assert_snapshot!(report.to_json().unwrap(), @r#"
    {
      "schema": "optloop.report/4",
      "session": {
        "id": 2,
        "status": "finished",
        "stop_reason": "its time budget is spent",
        "workload": "attention-fp16-d64",
        "compute": "dtype",
        "proposer": "rules",
        "seed": 1,
        "device": "NVIDIA L4",
        "time_source": "measured",
        "graphs": "among_others",
        "started_at": "2026-11-20T10:00:00Z",
        "ended_at": "2026-11-20T10:55:00Z",
        "budget_s": 3300.0,
        "resumptions": 0,
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
      "dims": {
        "S": "the sequence length"
      },
      "cases": [
        {
          "case": "b1h1s128",
          "dims": {
            "S": 128
          },
          "start_us": 80.0,
          "best_us": 50.0,
          "best_ci_us": [
            49.75,
            50.25
          ],
          "confirmed": true,
          "regime": "warm",
          "baseline": {
            "name": "torch sdpa (flash)",
            "us": 25.0,
            "ci_us": [
              24.875,
              25.125
            ],
            "is_initial_kernel": false,
            "kernels": []
          },
          "speedup_over_start": 1.6,
          "ratio_to_start": {
            "estimate": 1.6,
            "lo": 1.5887260686618034,
            "hi": 1.6113539335049172,
            "paired": false
          },
          "speedup_over_baseline": 0.5,
          "ratio_to_baseline": {
            "estimate": 0.5,
            "lo": 0.49647689645681353,
            "hi": 0.5035481042202866,
            "paired": false
          },
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
          "comparison": null,
          "profile": null,
          "counters": null,
          "breakdown": null,
          "change": {
            "began_with": "first_variant",
            "began_us": 80.0,
            "ratio": {
              "estimate": 1.6,
              "lo": 1.5887260686618034,
              "hi": 1.6113539335049172,
              "paired": false
            },
            "improved": true,
            "tied": false
          },
          "roofline": {
            "flop": 4000000.0,
            "bytes": 500000.0,
            "intensity": 8.0,
            "ridge": 40.0,
            "bytes_from": "L2",
            "side": "bytes",
            "floor_limiter": "launch",
            "fma_us": 0.5333333333333333,
            "flop_per_s": 80000000000.0,
            "share_of_arithmetic": 0.0006666666666666666,
            "bytes_per_s": 10000000000.0,
            "share_of_bandwidth": 0.0033333333333333335,
            "share_of_launch": 0.02,
            "times_of_floor": 50.0
          },
          "limited_by": "idle SMs: 2 blocks on 58",
          "exhausted": []
        },
        {
          "case": "b8h8s512",
          "dims": {
            "S": 128
          },
          "start_us": 400.0,
          "best_us": 400.0,
          "best_ci_us": [
            398.0,
            402.0
          ],
          "confirmed": false,
          "regime": "warm",
          "baseline": null,
          "speedup_over_start": 1.0,
          "ratio_to_start": {
            "estimate": 1.0,
            "lo": 1.0,
            "hi": 1.0,
            "paired": true
          },
          "speedup_over_baseline": null,
          "ratio_to_baseline": null,
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
          "comparison": null,
          "profile": null,
          "counters": null,
          "breakdown": null,
          "change": {
            "began_with": "first_variant",
            "began_us": 400.0,
            "ratio": {
              "estimate": 1.0,
              "lo": 1.0,
              "hi": 1.0,
              "paired": true
            },
            "improved": false,
            "tied": false
          },
          "roofline": {
            "flop": 4000000.0,
            "bytes": 500000.0,
            "intensity": 8.0,
            "ridge": 40.0,
            "bytes_from": "L2",
            "side": "bytes",
            "floor_limiter": "launch",
            "fma_us": 0.5333333333333333,
            "flop_per_s": 10000000000.0,
            "share_of_arithmetic": 0.00008333333333333333,
            "bytes_per_s": 1250000000.0,
            "share_of_bandwidth": 0.0004166666666666667,
            "share_of_launch": 0.0025,
            "times_of_floor": 400.0
          },
          "limited_by": "idle SMs: 2 blocks on 58",
          "exhausted": []
        },
        {
          "case": "b16h8s512",
          "dims": {
            "S": 128
          },
          "start_us": null,
          "best_us": null,
          "best_ci_us": null,
          "confirmed": false,
          "regime": "warm",
          "baseline": null,
          "speedup_over_start": null,
          "ratio_to_start": null,
          "speedup_over_baseline": null,
          "ratio_to_baseline": null,
          "floor_us": 1.0,
          "variant": null,
          "iteration": null,
          "commit": null,
          "gflops": null,
          "share_of_floor": null,
          "share_of_peak": null,
          "ctas": null,
          "sms": 58,
          "comparison": null,
          "profile": null,
          "counters": null,
          "breakdown": null,
          "change": null,
          "roofline": {
            "flop": 4000000.0,
            "bytes": 500000.0,
            "intensity": 8.0,
            "ridge": 40.0,
            "bytes_from": "L2",
            "side": "bytes",
            "floor_limiter": "launch",
            "fma_us": 0.5333333333333333,
            "flop_per_s": null,
            "share_of_arithmetic": null,
            "bytes_per_s": null,
            "share_of_bandwidth": null,
            "share_of_launch": null,
            "times_of_floor": null
          },
          "limited_by": null,
          "exhausted": []
        }
      ],
      "baselines": [
        {
          "case": "b1h1s128",
          "name": "torch sdpa (flash)",
          "regime": "warm",
          "us": 25.0,
          "ci_us": [
            24.875,
            25.125
          ],
          "eager_us": null,
          "relative_l2": null,
          "kernels": []
        }
      ],
      "winners_curse": null,
      "iterations": {
        "total": 5,
        "unfinished": 1,
        "measured": 3,
        "rejected_by_compiler": 0,
        "wrong": 1,
        "crashed": 0,
        "timed_out": 0,
        "cheated": 0,
        "out_of_memory": 0,
        "pruned": 0
      },
      "excerpt": null,
      "caught": {
        "accuracy": 1
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
          "ratio": null,
          "claim": "64 threads | more warps hide latency",
          "predicted": [
            1.1,
            1.5
          ],
          "score": "untested",
          "commit": null
        }
      ],
      "remeasured": [],
      "hypotheses": [
        {
          "iteration": 1,
          "case": "b1h1s128",
          "kind": "family_default",
          "mechanism": "threads",
          "claim": "64 threads | more warps hide latency",
          "evidence": "2 blocks on 58 SMs",
          "strength": "weak",
          "predicted": [
            1.1,
            1.5
          ],
          "predicted_median": 1.25,
          "direction": "faster",
          "reference": "incumbent",
          "relative_to": null,
          "actual": null,
          "score": "untested",
          "crps": null,
          "crps_no_change": null
        },
        {
          "iteration": 2,
          "case": "b1h1s128",
          "kind": "move",
          "mechanism": "threads",
          "claim": "128 threads | more warps hide latency",
          "evidence": "2 blocks on 58 SMs",
          "strength": "weak",
          "predicted": [
            1.1,
            1.5
          ],
          "predicted_median": 1.25,
          "direction": "faster",
          "reference": "iteration",
          "relative_to": 1,
          "actual": 1.25,
          "score": "in_range",
          "crps": 0.0240887615101259,
          "crps_no_change": 0.22314355131420976
        }
      ],
      "predictions": {
        "in_range": 2,
        "above": 0,
        "below": 0,
        "untested": 2,
        "no_claim": 0,
        "faster": 2
      },
      "calibration": {
        "kept": [
          {
            "kind": "move",
            "band": null,
            "claims": 2,
            "enough": false,
            "coverage": 1.0,
            "coverage_ci": [
              0.3423719528896193,
              1.0
            ],
            "first_width": 1.3636363636363635,
            "last_width": 1.3636363636363635,
            "narrowed": null,
            "early_width": null,
            "learnt": null,
            "crps": 0.02524779142427825,
            "crps_no_change": 0.2350018146228678,
            "crps_difference": [
              -0.20975402319858955,
              -0.22045325659309523,
              -0.19905478980408386
            ],
            "faster": 2
          }
        ],
        "pays": [],
        "refuted": []
      },
      "diagnoses": [],
      "model_check": null,
      "first_breakdown": null,
      "ablated_leads": [],
      "undivided_leads": [],
      "no_counters": null,
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
            "best_speedup": null,
            "best_speedup_ci": null
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
            "best_speedup": 1.6,
            "best_speedup_ci": null
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
        "`b1h1s128` still takes 2.00× as long as torch sdpa (flash) (not in one run).",
        "No win on `b8h8s512`: no variant was faster than the first correct one.",
        "Never timed in this session: `split-k`.",
        "No baseline was timed for `b8h8s512`, `b16h8s512`, so it is unknown how these cases compare with the usual implementation.",
        "Winners that are not committed: `b1h1s128` (iteration 3)."
      ],
      "summary": "- **Result.** Ours beats the fastest baseline on 0 of 1 cases: it is 0.50× as fast. The session improved 1 of 2 cases over their first correct kernels, by 1.60×.\n- **What won.** `tiled` (Tiles of queries: keys are shared).\n- **What limits it now.** On 2 of 3 cases, most of the distance to the floor is not explained; the largest unexplained factor is 400× (`b8h8s512`).\n- **Recommendation: continue this search.** It costs 55 min and $0.18.\n- **Cost of this session.** $0.93 and 55 min (the GPU at $0.20 an hour), of which 12 s were search, for 5 variants. Its last improvement (1.28× on `b1h1s128`) was confirmed after 9 s; none in the 6 s of search after it.",
      "scaling": [],
      "ladders": [
        {
          "case": "b1h1s128",
          "steps": [
            {
              "what": "the first kernel, `tiled`",
              "kind": "start",
              "family": "tiled",
              "us": 80.0,
              "factor": null,
              "mechanism": "Tiles of queries: keys are shared.",
              "committed": false,
              "left_behind": null
            },
            {
              "what": "`tiled`, the winner",
              "kind": "tuning",
              "family": "tiled",
              "us": 50.0,
              "factor": 1.6,
              "mechanism": "`BLOCK` 64 → 256 (threads of a block)",
              "committed": false,
              "left_behind": null
            }
          ],
          "floor_us": 1.0
        }
      ],
      "advantages": [],
      "first_advantage": null,
      "rival_advantages": [],
      "counted_leads": [],
      "tuned_alone": null,
      "paths": [],
      "improved_by": {
        "search": 1,
        "search_steps": 2,
        "initial_design": 0,
        "finals": 0
      },
      "beaten": [],
      "rivals": [],
      "credits": [
        {
          "family": "tiled",
          "kind": "tuning",
          "factor": 1.6,
          "cases": 1,
          "mechanism": ""
        }
      ],
      "parameters": {
        "noise": null,
        "noise_pairs": 0,
        "effects": [
          {
            "family": "tiled",
            "parameter": "BLOCK",
            "about": "threads of a block: more of them hide latency",
            "from": 64,
            "to": 128,
            "effect": 1.3888888888888882,
            "lower_quartile": 1.3888888888888882,
            "upper_quartile": 1.3888888888888882,
            "pairs": 1,
            "cases": 1,
            "faster": 1,
            "slower": 0,
            "verdict": "few",
            "by_case": [
              {
                "case": "b1h1s128",
                "effect": 1.3888888888888882,
                "pairs": 1,
                "verdict": "helps"
              }
            ],
            "used_on": []
          },
          {
            "family": "tiled",
            "parameter": "BLOCK",
            "about": "threads of a block: more of them hide latency",
            "from": 64,
            "to": 256,
            "effect": 1.7777777777777772,
            "lower_quartile": 1.7777777777777772,
            "upper_quartile": 1.7777777777777772,
            "pairs": 1,
            "cases": 1,
            "faster": 1,
            "slower": 0,
            "verdict": "few",
            "by_case": [
              {
                "case": "b1h1s128",
                "effect": 1.7777777777777772,
                "pairs": 1,
                "verdict": "helps"
              }
            ],
            "used_on": [
              "b1h1s128"
            ]
          }
        ],
        "interactions": [],
        "about": {
          "tiled": {
            "BLOCK": "threads of a block: more of them hide latency",
            "PAD": "padding of a row"
          }
        }
      },
      "next_experiment": null,
      "outlook": null,
      "options": [
        {
          "kind": "go_on",
          "what": "continue this search for another session",
          "families": [],
          "gain": "not known, because the search was too short to extrapolate from",
          "expected": null,
          "most": null,
          "minutes": 55.016666666666666,
          "usd": 0.18,
          "risk": "little",
          "recommended": true,
          "then": false
        },
        {
          "kind": "another_family",
          "what": "search only `split-k`, which has hardly been tried",
          "families": [
            "split-k"
          ],
          "gain": "`split-k`: never timed",
          "expected": null,
          "most": null,
          "minutes": null,
          "usd": null,
          "risk": "their best may stay behind",
          "recommended": false,
          "then": false
        },
        {
          "kind": "new_kernel",
          "what": "change the source of `tiled`, or write a new kernel for `b1h1s128` (until then, use `torch sdpa (flash)` there, which is 2.00× as fast). Then run a session like this one",
          "families": [
            "tiled"
          ],
          "gain": "2.00× on `b1h1s128`, as `torch sdpa (flash)` shows to be possible",
          "expected": 1.2599210498948732,
          "most": null,
          "minutes": 55.016666666666666,
          "usd": 0.18,
          "risk": "moderate: the gain is known to be possible, but not how",
          "recommended": false,
          "then": false
        },
        {
          "kind": "stop",
          "what": "stop here",
          "families": [],
          "gain": "keeps 0.50× over the baseline",
          "expected": 1.0,
          "most": null,
          "minutes": 0.0,
          "usd": 0.0,
          "risk": "none",
          "recommended": false,
          "then": false
        }
      ],
      "winning_families": [
        {
          "name": "tiled",
          "cases": 2,
          "about": "Tiles of queries: keys are shared.",
          "lines": 120
        }
      ],
      "excluded": [],
      "suggestions_left_out": 0,
      "left_out": [],
      "phases": {
        "rows": [
          {
            "phase": "screening",
            "name": "screening (search)",
            "seconds": 2.0,
            "share": 0.0006058770069675856,
            "usd": 0.00010905786125416541,
            "gained": "4 variants, 4 times"
          },
          {
            "phase": "other",
            "name": "the rest: start, rendering, records, report",
            "seconds": 3299.0,
            "share": 0.9993941229930324,
            "usd": 0.17989094213874582,
            "gained": ""
          }
        ],
        "complete": false,
        "timing_s": 0.0018228
      },
      "progress": [
        {
          "case": "b1h1s128",
          "steps": [
            {
              "kind": "start",
              "at_s": 3.0,
              "cost_usd": 0.0,
              "us": 80.0,
              "iteration": 1,
              "family": "tiled"
            },
            {
              "kind": "improved",
              "at_s": 6.0,
              "cost_usd": 0.0,
              "us": 64.0,
              "iteration": 2,
              "family": "tiled"
            },
            {
              "kind": "improved",
              "at_s": 9.0,
              "cost_usd": 0.0,
              "us": 50.0,
              "iteration": 3,
              "family": "tiled"
            }
          ],
          "tried": [
            {
              "at_s": 3.0,
              "cost_usd": 0.0,
              "us": 80.0
            },
            {
              "at_s": 6.0,
              "cost_usd": 0.0,
              "us": 64.0
            },
            {
              "at_s": 9.0,
              "cost_usd": 0.0,
              "us": 50.0
            }
          ],
          "tried_in_all": 3
        },
        {
          "case": "b8h8s512",
          "steps": [
            {
              "kind": "start",
              "at_s": 3.0,
              "cost_usd": 0.0,
              "us": 400.0,
              "iteration": 1,
              "family": "tiled"
            }
          ],
          "tried": [
            {
              "at_s": 3.0,
              "cost_usd": 0.0,
              "us": 400.0
            }
          ],
          "tried_in_all": 1
        }
      ],
      "distributions": [
        {
          "case": "b1h1s128",
          "from": "apart",
          "sampled": [
            {
              "role": "best",
              "name": "tiled ae4c80b6f6",
              "samples": 3,
              "quantiles_us": [
                50.0,
                50.0,
                50.0,
                50.0,
                50.0
              ],
              "some_us": [
                50.0,
                50.0,
                50.0
              ]
            },
            {
              "role": "baseline",
              "name": "torch sdpa (flash)",
              "samples": 3,
              "quantiles_us": [
                25.0,
                25.0,
                25.0,
                25.0,
                25.0
              ],
              "some_us": [
                25.0,
                25.0,
                25.0
              ]
            }
          ]
        },
        {
          "case": "b8h8s512",
          "from": "apart",
          "sampled": [
            {
              "role": "best",
              "name": "tiled 67df4d5f39",
              "samples": 3,
              "quantiles_us": [
                400.0,
                400.0,
                400.0,
                400.0,
                400.0
              ],
              "some_us": [
                400.0,
                400.0,
                400.0
              ]
            }
          ]
        }
      ],
      "lineages": [
        {
          "case": "b1h1s128",
          "left_out": 0,
          "steps": [
            {
              "iteration": 1,
              "kind": "family_default",
              "family": "tiled",
              "changes": [
                "BLOCK=64 PAD=8"
              ],
              "claim": "64 threads | more warps hide latency",
              "us": 80.0,
              "diff": null
            },
            {
              "iteration": 2,
              "kind": "move",
              "family": "tiled",
              "changes": [
                "BLOCK 64 → 128"
              ],
              "claim": "128 threads | more warps hide latency",
              "us": 64.0,
              "diff": null
            },
            {
              "iteration": 3,
              "kind": "move",
              "family": "tiled",
              "changes": [
                "BLOCK 128 → 256"
              ],
              "claim": "256 threads | more warps hide latency",
              "us": 50.0,
              "diff": null
            }
          ]
        },
        {
          "case": "b8h8s512",
          "left_out": 0,
          "steps": [
            {
              "iteration": 1,
              "kind": "family_default",
              "family": "tiled",
              "changes": [
                "BLOCK=64 PAD=8"
              ],
              "claim": "64 threads | more warps hide latency",
              "us": 400.0,
              "diff": null
            }
          ]
        }
      ]
    }
    "#);
}
