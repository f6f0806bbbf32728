//! The whole report as Markdown.

use super::*;
use crate::report::contract::{FamilyTime, Rivals};

/// Two pages of a printed report have about 1,100 words. The bars of tables are none.
#[test]
fn the_summary_of_a_large_report_has_at_most_two_pages() {
    let report = full::full();
    let summary = report.to_markdown().unwrap();
    let words = summary.split_whitespace().filter(|word| *word != "|").count();
    assert!(words < 1100, "{words}: {summary}");
    assert!(summary.contains("](session-2.html)") && !summary.contains("| 16 | "), "{summary}");
}

/// Six of seven cases are on the first page, and it says where the others are.
#[test]
fn the_first_page_says_where_the_cases_are_that_it_leaves_out() {
    let mut report = report(&record());
    let time =
        |family: &str, us: f64| FamilyTime { family: family.to_owned(), us, in_one_run: false, configurations: 1 };
    let rivals = |n: i32| Rivals {
        case: format!("case{n}").into(),
        families: vec![time("tiled", 10.0), time("split-k", 10.0 + f64::from(n))],
    };
    report.rivals = (1..=7).map(rivals).collect();
    let (summary, details) = (report.to_markdown().unwrap(), report.to_markdown_details().unwrap());
    assert!(
        summary.contains("These 6 of 7 cases have the largest leads; [the details](session-2-details.md) have all.")
    );
    assert!(summary.contains("| case7 |") && !summary.contains("| case1 |"), "{summary}");
    assert!(details.contains("| case1 | `tiled` | 10.00 | `split-k` 11.00 (1.10×) |"), "{details}");
}

#[test]
fn a_session_reads_as_markdown() {
    let report = report(&record());
    insta::assert_snapshot!([report.to_markdown().unwrap(), report.to_markdown_details().unwrap()].concat(), @r#"
    # attention-fp16-d64 on NVIDIA L4: 1 of 3 cases improved, 0 of 1 ahead of the baseline

    - **Result.** Ours beats the fastest baseline on 0 of 1 cases: it is 0.50× as fast. The session improved 1 of 2 cases over their first correct kernels, by 1.60×.
    - **What won.** `tiled` (Tiles of queries: keys are shared).
    - **What limits it now.** On 2 of 3 cases, most of the distance to the floor is not explained; the largest unexplained factor is 400× (`b8h8s512`).
    - **Recommendation: continue this search.** It costs 55 min and $0.18.
    - **Cost of this session.** $0.93 and 55 min (the GPU at $0.20 an hour), of which 12 s were search, for 5 variants. Its last improvement (1.28× on `b1h1s128`) was confirmed after 9 s; none in the 6 s of search after it.

    Kernel times are **measured**, in microseconds.

    | case | before | now | before / now | winner | fastest baseline | baseline / ours | floor | what probably limits it |
    |---|--:|--:|--:|---|--:|--:|--:|---|
    | b1h1s128 | 80.00 | 50.00 | 1.60× (not in one run) | tiled | 25.00 (torch sdpa (flash)) | 0.50× (not in one run) | 1.000 (launch) | idle SMs: 2 blocks on 58 |
    | b8h8s512 | 400.00 | 400.00 (not confirmed) | the same kernel | tiled | - | - | 1.000 (launch) | idle SMs: 2 blocks on 58 |
    | b16h8s512 | - | - | - | - | - | - | 1.000 (launch) | - |

    *Before* and *now* of the improved case are of two runs, between which the machine may have changed. The search found its winner.

    **How to read it.** Session 2, finished (its time budget is spent). Durations are wall time since the start. A *family* is a kernel source with parameters; a *variant* has a value for each; an *iteration* tries one. A *case* is one shape: `b1h1s128` is S = 128 (the sequence length). *Baselines* (PyTorch 2.9.0, in CUDA graphs like ours): `torch sdpa (flash)`.

    - *Before* is what the session had to beat: the first kernel. The *first kernel* is a case's first correct one.
    - A ratio above 1 means that ours is faster. With a 95% interval, both took turns in one run: the other time is that ratio times *now*. Ratios of two runs have two decimals.
    - The *floor* is the time that no correct kernel beats: arithmetic at its peak, transfers from memory or L2, or an empty launch. Caches were warm: inputs that fit were in L2.
    - *Not explained* is the part of the distance to the floor that the named cause would not remove.

    ## What was slow, and why

    - The first kernels take 1.00× to 1.60× as long as the best ones, and 80.00× to 400× as long as the floor. They reach 0.01% to 0.04% of the arithmetic ceiling and 0.04% to 0.21% of the bandwidth of memory or L2. So neither of the two bounds them.

    ## What won, and why

    `b1h1s128`, from the first kernel to the winner. Steps are the fastest variants in turn.

    | step | us | factor | mechanism |
    |---|--:|--:|---|
    | the first kernel, `tiled` | 80.00 | - | Tiles of queries: keys are shared. |
    | `tiled`, the winner | 50.00 | 1.60× | `BLOCK` 64 → 256 (threads of a block) |
    | floor | 1.000 | - | 50.00× is left |

    **What probably limits the winners now.** Possible gains are estimates without the cause. They overlap, so they do not multiply. *Confirmed*: a change of one parameter gained about what was expected (where that is 2.00×, from 1.41× to 2.83×). *Supported*: it gained more, or several parameters changed, or another cause could account for it, too. *Inconclusive*: several parameters gained more.

    | cases | best variants | what probably limits them | possible gain, confidence | not explained | experiment | next |
    |---|---|---|---|---|---|---|
    | b1h1s128, b8h8s512 | tiled | idle SMs: 2 blocks on 58 | - | 98% to 100% | - | no rule found a cause |

    On `b8h8s512`, no cause accounts for the distance to the floor, 400×. Hardware counters would tell more: `optloop start --workload attention-fp16-d64 --case b8h8s512 --budget 240s` reads those of its winner if `ncu` works, in at most 240 s and for $0.01.

    ## What to try next

    **Recommended**: continue this search for another session. Expected: not known, because the search was too short to extrapolate from. Why: the search has hardly begun.

    ```
    optloop start --workload attention-fp16-d64 --case b1h1s128 --case b8h8s512 --case b16h8s512 --budget 3300s
    ```

    | option | gain, all cases | why | cost | risk |
    |---|---|---|---|---|
    | **continue this search for another session** (recommended) | - | not known, because the search was too short to extrapolate from | 55 min, $0.18 | little |
    | search only `split-k`, which has hardly been tried | not known | `split-k`: never timed | not known | their best may stay behind |
    | change the source of `tiled`, or write a new kernel for `b1h1s128` (until then, use `torch sdpa (flash)` there, which is 2.00× as fast). Then run a session like this one | 1.260× | 2.00× on `b1h1s128`, as `torch sdpa (flash)` shows to be possible | up to 5 days of human work ($3,900 at $100 an hour, 120 lines by COCOMO), or a language model's ($3.75 in all sessions so far); then a session: 55 min, $0.18 | moderate: the gain is known to be possible, but not how |
    | stop here | 1.000× | keeps 0.50× over the baseline | 0 s, $0.00 | none |

    The 2 sessions of this store so far cost $4.53.

    - `b16h8s512` has no correct variant yet: see `optloop history 2 --case b16h8s512` for why.
    - `b1h1s128` still takes 2.00× as long as torch sdpa (flash) (not in one run).
    - No win on `b8h8s512`: no variant was faster than the first correct one.

    ## Verified

    Every winner was compared with a float64 oracle (worst relative error 1.2e-4). 1 of 3 were confirmed on held-out inputs.

    ---

    **Details:** [with pictures](session-2.html), [as Markdown](session-2-details.md), [for programs](session-2.json). `optloop report 2 --format html` writes them again.
    # attention-fp16-d64 on NVIDIA L4: details of session 2

    [Summary](session-2.md), [pictures](session-2.html)

    ## Evidence

    - By their roofline, 3 of 3 cases are memory-bound: 8 FLOP per byte, and the device's ridge is at 40. Their best variants reach 0.04% to 0.33% of the bandwidth. That ceiling limits none of them.
    - `b8h8s512` is furthest from its floor: 400×. No kernel gains more than that.
    - Never timed in this session: `split-k`.
    - No baseline was timed for `b8h8s512`, `b16h8s512`, so it is unknown how these cases compare with the usual implementation.
    - Winners that are not committed: `b1h1s128` (iteration 3).

    ## What the parameters are worth

    From pairs of configurations that the session timed on the same case and that differ in one parameter only. An effect is the median of time before / time after, above 1 if the change helps. No variant was screened often enough to know the noise. The search stays near fast variants, so the effects hold near these.


    <details><summary>All 2 effects</summary>

    | family | parameter | change | effect | middle half | pairs on cases | faster / slower | verdict |
    |---|---|---|--:|--:|--:|--:|---|
    | tiled | BLOCK | 64 → 128 | 1.39× | 1.39× | 1 on 1 | 1 / 0 | few |
    | tiled | BLOCK | 64 → 256 | 1.78× | 1.78× | 1 on 1 | 1 / 0 | few |

    </details>

    ## Hypotheses

    2 claims were tested: 2 outcomes lie in the predicted range, 0 above it and 0 below it. 2 variants were faster than their reference. 2 claims were not tested, and 0 iterations claimed nothing. The claims that paid most, and those that promised most and were slower:

    | # | claim | evidence before | predicted | actual | score |
    |--:|---|---|--:|--:|---|
    | 3 | 256 threads \| more warps hide latency | 2 blocks on 58 SMs | 1.10× to 1.50× | 1.28× | in range |
    | 2 | 128 threads \| more warps hide latency | 2 blocks on 58 SMs | 1.10× to 1.50× | 1.25× | in range |


    ## Calibration of the predictions

    A claim predicts the speed-up over a named earlier iteration: a median, and a range that should hold the outcome in 80% of all cases. Coverage has its 95% interval (Wilson), and is judged from 50 claims on. The width is the median factor between the ends of the ranges, of the first and of the last claims (25 each, or half of them). In brackets is what is left of its logarithm, with a 95% interval. First and last claims are about different configurations, so the next column is about the last ones alone: how wide their ranges would have been with what was known after the first claims of their kind, and what is left of that in the median claim. The CRPS, the continuous ranked probability score of the logarithm of the speed-up, is compared with that of the forecast "no change", with a bootstrap interval: below 0, the predictions are better. An outcome in the range says that the prediction was good, not that the variant was: that is the last column.

    | Kind | Predicted speed-up | Claims | Coverage | Width, first to last | Last claims, known after the first | CRPS | "No change" | Difference | Faster |
    |---|---|--:|---|---|---|--:|--:|---|--:|
    | move | all | 2 | 100% (34% to 100%), too few to judge | 1.36× to 1.36× | - | 0.025 | 0.235 | -0.210 (-0.220 to -0.199) | 2 of 2 |
    | move | from 1.05× | 2 | 100% (34% to 100%), too few to judge | 1.36× to 1.36× | - | 0.025 | 0.235 | -0.210 (-0.220 to -0.199) | 2 of 2 |


    ## Time and cost

    All times are wall time. They add up to the session's.

    | phase | wall time | share | $ | result |
    |---|--:|--:|--:|---|
    | screening (search) | 2.0 s | 0.06% | $0.0001 | 4 variants, 4 times |
    | the rest: start, rendering, records, report | 3299.0 s | 100% | $0.18 |  |
    | **whole session** | **3301.0 s** | **100%** | **$0.18** |  |

    In samples that count, the GPU executed kernels for 0 s, <0.01% of the wall time. The rest went into compiling, checking and preparing them.

    This session: $0.93 (GPU $0.18, language models $0.75). All sessions of this store so far: $4.53. The steps were not timed when this session was recorded: screening includes the acceptance checks and the sanitizer.

    ## Figures

    <details><summary>Scaling: how times depend on one size</summary>

    Each table varies one size and keeps all others. Compare only times of one case: a time of one case over that of another is never a speed-up, because the work differs. (The first notebooks of this project once reported 41x that way.)

    No two cases differ in one size only.

    </details>

    <details><summary>Roofline: work, ceilings and floors</summary>

    FLOP and bytes are the least that the case needs: each input read once, each output written once. Loads that a kernel repeats are not counted. The ridge is the intensity from which arithmetic takes longer than the transfers: cases below it are memory-bound by their roofline.

    | case | FLOP | least bytes | FLOP/byte | ridge | by its roofline | FLOP/s (of ceiling) | bytes/s (of ceiling) | floor (limiter) | now / floor |
    |---|--:|--:|--:|--:|---|--:|--:|--:|--:|
    | b1h1s128 | 4.000 M | 500.000 k | 8.0 | 40 (L2) | memory-bound | 80.000 G (0.07%) | 10.000 G (0.33%) | 1.000 (launch) | 50.00× |
    | b8h8s512 | 4.000 M | 500.000 k | 8.0 | 40 (L2) | memory-bound | 10.000 G (0.01%) | 1.250 G (0.04%) | 1.000 (launch) | 400× |
    | b16h8s512 | 4.000 M | 500.000 k | 8.0 | 40 (L2) | memory-bound | - (-) | - (-) | 1.000 (launch) | - |

    </details>

    <details><summary>Intervals, baselines, clocks, energy</summary>

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

    Every baseline, timed separately before the first comparison. Eager is the time of a call without a CUDA graph, including the host's work. Kernels are those of a call, with their blocks.

    | Case | Baseline | Regime | Graph | Interval | Eager | Error | Kernels |
    |---|---|---|--:|--:|--:|--:|---|
    | b1h1s128 | torch sdpa (flash) | warm | 25.00 | 24.88 to 25.12 | - | - | - |

    </details>

    <details><summary>Iterations, correctness, environment, ledger, commits</summary>

    Started 2026-11-20T10:00:00Z, 55 min of 55 min.

    5 iterations: 1 unfinished, 3 measured, 1 wrong. Wrong or cheating variants by the check that caught them: 1 accuracy.

    The first correct variant of each case and every confirmed improvement that this session found. Times are in microseconds, measured. The speed-up is over the incumbent at that time.

    | # | Case | Verdict | Time | Speed-up | Predicted | Prediction | Variant | Claim |
    |--:|---|---|--:|--:|--:|---|---|---|
    | 1 | b1h1s128 | start | 80.00 | - | 1.10× to 1.50× | untested | tiled BLOCK=64 PAD=8 | 64 threads \| more warps hide latency |
    | 1 | b8h8s512 | start | 400.00 | - | - | - | tiled BLOCK=64 PAD=8 | 64 threads \| more warps hide latency |
    | 2 | b1h1s128 | improved | 64.00 | 1.25× (not in one run) | 1.10× to 1.50× | in range | tiled BLOCK=128 PAD=8 | 128 threads \| more warps hide latency |
    | 3 | b1h1s128 | improved | 50.00 | 1.28× (not in one run) | 1.10× to 1.50× | in range | tiled BLOCK=256 PAD=8 | 256 threads \| more warps hide latency |

    Errors of the best variants against a float64 oracle, relative to the scale of the output.

    | Case | Whole output | Worst row | Rows checked |
    |---|--:|--:|--:|
    | b1h1s128 | 1.2e-4 | 3.4e-4 | 64 of 128 |
    | b8h8s512 | 1.2e-4 | 3.4e-4 | 64 of 128 |
    | b16h8s512 | - | - | - |


    | | |
    |---|---|
    | Device | NVIDIA L4 (sm_89, 58 SMs) |
    | Driver, NVRTC | 13.0, 13.0 |
    | PyTorch | 2.9.0 |
    | Host | Linux, 16 cores |
    | optloop | 0.1.0, proposer rules, seed 1 |
    | Ceilings | derived from the driver's clocks (1700 MHz SM, 2600 MHz memory, 5120-bit bus) |

    | Session | Workload | Time | GPU | Language models | Total | Result |
    |--:|---|--:|--:|--:|--:|---|
    | 1 | attention-fp16-d64 | 55 min | $0.60 | $3.00 | $3.60 | interrupted, 0 wins |
    | 2 | attention-fp16-d64 | 55 min | $0.18 | $0.75 | $0.93 | 2 wins, best 1.60× over what it began with (measured, not in one run) |
    | **Total** | | | $0.78 | $3.75 | $4.53 | |


    - `0123456789`: iteration 2 on b1h1s128


    </details>
    "#);
}
