//! The whole report as Markdown.

use super::*;

#[test]
fn a_session_reads_as_markdown() {
    insta::assert_snapshot!(report(&record()).to_markdown().unwrap(), @r#"
    # Session 2: attention-fp16-d64 on NVIDIA L4

    **Status**: finished, its time budget is spent  
    **Started**: 2026-11-20T10:00:00Z  
    **Time**: 55 min of 55 min  
    **Cost**: $0.93 (GPU $0.18, language models $0.75)

    Every time below is **measured** on the device.

    ## Objective

    Bring every case of `attention-fp16-d64` as close to its floor as possible, and compare it with its first correct variant and with the baseline that a user would use instead.

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

    Times are in microseconds, measured. The interval is the 95% interval of the median. "Over baseline" is the baseline's time divided by ours: above 1, ours is faster. It has a 95% interval if the two were timed in turns in one run. Regime: in `warm`, the data is in L2; in `cold`, it is not.

    | Case | Regime | Ours | Interval | Baseline | Over baseline | Floor | Share of floor | SM clock (MHz), ours / baseline |
    |---|---|--:|--:|--:|--:|--:|--:|--:|
    | b1h1s128 | warm | 50.00 | 49.75 to 50.25 | 25.00 (torch sdpa (flash)) | 0.50× (not in one run) | 1.000 | 2.0% | - |
    | b8h8s512 | warm | 400.00 (not confirmed) | 398.00 to 402.00 | - | - | 1.000 | 0.25% | - |
    | b16h8s512 | warm | - | - | - | - | 1.000 | - | - |

    The best variant compared with the first correct one, and its use of the device. Rates are computed from the measured times.

    | Case | Start | Over start | GFLOP/s | Share of peak | Blocks / SMs | Variant |
    |---|--:|--:|--:|--:|--:|---|
    | b1h1s128 | 80.00 | 1.60× (not in one run) | 80.0 | 0.07% | 2 / 58 | tiled BLOCK=256 PAD=8 (`ae4c80b6f6`) |
    | b8h8s512 | 400.00 | 1.00× | 10.0 | 0.01% | 2 / 58 | tiled BLOCK=64 PAD=8 (`67df4d5f39`) |
    | b16h8s512 | - | - | - | - | - / 58 | - |

    Every baseline, timed separately before the first iteration. Eager is the time of a call without a CUDA graph, including the host's work.

    | Case | Baseline | Regime | Graph | Interval | Eager | Error |
    |---|---|---|--:|--:|--:|--:|
    | b1h1s128 | torch sdpa (flash) | warm | 25.00 | 24.88 to 25.12 | - | - |

    ## Iterations

    5 iterations: 1 unfinished, 3 measured, 1 wrong. Wrong or cheating variants by the check that caught them: 1 accuracy. Claims with an outcome: 2, of which 2 in the predicted range, 0 above it, 0 below it; 2 were faster than their reference. 2 claims were not tested, and 0 iterations claimed nothing.

    The first correct variant of each case and every confirmed improvement that this session found. Times are in microseconds, measured. The speed-up is over the incumbent at that time.

    | # | Case | Verdict | Time | Speed-up | Predicted | Prediction | Variant | Claim |
    |--:|---|---|--:|--:|--:|---|---|---|
    | 1 | b1h1s128 | start | 80.00 | - | 1.10× to 1.50× | untested | tiled BLOCK=64 PAD=8 | 64 threads \| more warps hide latency |
    | 1 | b8h8s512 | start | 400.00 | - | - | - | tiled BLOCK=64 PAD=8 | 64 threads \| more warps hide latency |
    | 2 | b1h1s128 | improved | 64.00 | 1.25× (not in one run) | 1.10× to 1.50× | in range | tiled BLOCK=128 PAD=8 | 128 threads \| more warps hide latency |
    | 3 | b1h1s128 | improved | 50.00 | 1.28× (not in one run) | 1.10× to 1.50× | in range | tiled BLOCK=256 PAD=8 | 256 threads \| more warps hide latency |

    ## Calibration of the predictions

    A claim predicts the speed-up over a named earlier iteration: a median, and a range that should hold the outcome in 80% of all cases. Coverage has its 95% interval (Wilson), and is judged from 50 claims on. The width is the median factor between the ends of the ranges, of the first and of the last claims (25 each, or half of them). The CRPS, the continuous ranked probability score of the logarithm of the speed-up, is compared with that of the forecast "no change", with a bootstrap interval: below 0, the predictions are better. An outcome in the range says that the prediction was good, not that the variant was: that is the last column.

    | Kind | Predicted speed-up | Claims | Coverage | Width, first to last | CRPS | "No change" | Difference | Faster |
    |---|---|--:|---|---|--:|--:|---|--:|
    | move | all | 2 | 100% (34% to 100%), too few to judge | 1.36× to 1.36× | 0.025 | 0.235 | -0.210 (-0.220 to -0.199) | 2 of 2 |
    | move | from 1.05× | 2 | 100% (34% to 100%), too few to judge | 1.36× to 1.36× | 0.025 | 0.235 | -0.210 (-0.220 to -0.199) | 2 of 2 |

    ## Correctness

    Errors of the best variants against a float64 oracle, relative to the scale of the output.

    | Case | Whole output | Worst row | Rows checked |
    |---|--:|--:|--:|
    | b1h1s128 | 1.2e-4 | 3.4e-4 | 64 of 128 |
    | b8h8s512 | 1.2e-4 | 3.4e-4 | 64 of 128 |
    | b16h8s512 | - | - | - |

    ## Cost

    | Session | Workload | Time | GPU | Language models | Total | Result |
    |--:|---|--:|--:|--:|--:|---|
    | 1 | attention-fp16-d64 | 55 min | $0.60 | $3.00 | $3.60 | interrupted, 0 wins |
    | 2 | attention-fp16-d64 | 55 min | $0.18 | $0.75 | $0.93 | 2 wins, best 1.60× over what it began with (measured, not in one run) |
    | **Total** | | | $0.78 | $3.75 | $4.53 | |

    ## Committed

    - `0123456789`: iteration 2 on b1h1s128

    ## Next steps

    - `b16h8s512` has no correct variant yet: see `optloop history 2 --case b16h8s512` for why.
    - `b8h8s512` is furthest from its floor: the best time is 400× of it; it launches 2 blocks on 58 SMs, so most of the device is idle.
    - `b1h1s128` still takes 2.00× as long as torch sdpa (flash) (not in one run).
    - `b8h8s512` has no win: no variant was faster than its first correct one.
    - Never timed in this session: `split-k`.
    - Most beneficial changes: `BLOCK` of `tiled` (1.26×, the geometric mean of 2 changes).
    - No baseline was timed for `b8h8s512`, `b16h8s512`, so it is unknown how these cases compare with the usual implementation.
    - Winners that are not committed: `b1h1s128` (iteration 3).
    "#);
}
