//! Reports of sessions without a GPU.

use super::*;

#[test]
fn modelled_times_say_so() {
    let mut record = record();
    record.session.time_source = TimeSource::Modelled;
    let markdown = report(&record).to_markdown().unwrap();
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
    let markdown = report.to_markdown().unwrap();
    let section = markdown.split("Counters of").nth(1).and_then(|rest| rest.split("## ").next()).unwrap();
    insta::assert_snapshot!(section, @"
     the best variants, and the limiter of the modelled time of each launch.

    | Case | kernel | µs, modelled | limiter | blocks per SM | active lanes | divergent branches | global sectors / ideal | shared wavefronts / ideal | local sectors |
    |---|---|--:|---|--:|--:|--:|--:|--:|--:|
    | b8h8s512 | attend | 64.00 | shared | 4 | 31.5 | 5.0% | 1.20× | 32.00× | 0 |

    - `b8h8s512` was too large to execute in full: attend: 64 of 256 blocks counted; checked on S=256.
    ");
    assert!(markdown.contains("64 of 128 (of a smaller case: virtual.launch_gflop)"), "{markdown}");
}
