//! Reports of sessions without a GPU.

use super::*;

#[test]
fn modelled_times_say_so() {
    let mut record = record();
    record.session.time_source = TimeSource::Modelled;
    let report = report(&record);
    let markdown = [report.to_markdown().unwrap(), report.to_markdown_details().unwrap()].concat();
    assert!(markdown.contains("**modelled**") && !markdown.contains("µs, measured"), "{markdown}");
}

/// The counts explain the time. The report says what was not executed.
#[test]
fn what_a_virtual_gpu_counted_is_told_of_the_best_variants() {
    let mut record = record();
    record.session.time_source = TimeSource::Modelled;
    let launch = LaunchProfile { executed_blocks: 64, ..launch("attend", 64_000.0) };
    let checked_on = Some(IndexMap::from([("S".to_owned(), 256)]));
    record.iterations[0].measurements[1].profile = Some(Profile { launches: vec![launch], checked_on });
    let report = report(&record);
    let markdown = report.to_markdown_details().unwrap();
    let section = markdown.split("Counters of").nth(1).and_then(|rest| rest.split("## ").next()).unwrap();
    insta::assert_snapshot!(section, @r"
     the best variants, and the limiter of the modelled time of each launch.

    | Case | kernel | µs, modelled | limiter | blocks per SM | active lanes | divergent branches | global sectors / ideal | shared wavefronts / ideal | local sectors |
    |---|---|--:|---|--:|--:|--:|--:|--:|--:|
    | b8h8s512 | attend | 64.00 | shared | 4 | 31.5 | 5.0% | 1.20× | 32.00× | 0 |

    - `b8h8s512` was too large to execute in full: attend: 64 of 256 blocks counted; checked on S=256.

    </details>

    <details><summary>Iterations, correctness, environment, ledger, commits</summary>

    Started 2026-11-20T10:00:00Z, 55 min of 55 min.

    5 iterations: 1 unfinished, 3 modelled, 1 wrong. Wrong or cheating variants by the check that caught them: 1 accuracy.

    The first correct variant of each case and every confirmed improvement that this session found. Times are in microseconds, modelled. The speed-up is over the incumbent at that time.

    | # | Case | Verdict | Time | Speed-up | Predicted | Prediction | Variant | Claim |
    |--:|---|---|--:|--:|--:|---|---|---|
    | 1 | b1h1s128 | start | 80.00 | - | 1.10× to 1.50× | untested | tiled BLOCK=64 PAD=8 | 64 threads \| more warps hide latency |
    | 1 | b8h8s512 | start | 400.00 | - | - | - | tiled BLOCK=64 PAD=8 | 64 threads \| more warps hide latency |
    | 2 | b1h1s128 | improved | 64.00 | 1.25× | 1.10× to 1.50× | in range | tiled BLOCK=128 PAD=8 | 128 threads \| more warps hide latency |
    | 3 | b1h1s128 | improved | 50.00 | 1.28× | 1.10× to 1.50× | in range | tiled BLOCK=256 PAD=8 | 256 threads \| more warps hide latency |

    Errors of the best variants against a float64 oracle, relative to the scale of the output.

    | Case | Whole output | Worst row | Rows checked |
    |---|--:|--:|--:|
    | b1h1s128 | 1.2e-4 | 3.4e-4 | 64 of 128 |
    | b8h8s512 | 1.2e-4 | 3.4e-4 | 64 of 128 (of a smaller case: virtual.launch_gflop) |
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
    ");
    assert!(markdown.contains("64 of 128 (of a smaller case: virtual.launch_gflop)"), "{markdown}");
}
