//! The page as Markdown.

use super::*;

/// A printed page has about 600 words. Bars of tables count, as `wc -w` counts them.
#[test]
fn the_report_of_eighteen_cases_has_at_most_1200_words_and_that_of_three_600() {
    for (cases, most) in [(18, 1200), (3, 600)] {
        let page = full::full(cases).to_markdown().unwrap();
        let words = page.split_whitespace().count();
        assert!(words <= most, "{words} words for {cases} cases: {page}");
    }
}

#[test]
fn a_report_has_its_parts_in_the_order_in_which_they_are_read() {
    let page = full::full(18).to_markdown().unwrap();
    let parts =
        ["# ", "**Next: ", "| Case | ", "**Causes.**", "**Time.**", "**Money.**", "**Verified.**", "](session-2.html)"];
    let places: Vec<usize> =
        parts.iter().map(|part| page.find(part).unwrap_or_else(|| panic!("no {part} in {page}"))).collect();
    assert!(places.is_sorted(), "{places:?}: {page}");
    assert_eq!(page.matches("optloop bench ").count(), 1, "one command");
    let causes = page.split("**Causes.**").nth(1).unwrap().split("**Time.**").next().unwrap();
    assert_eq!(causes.lines().filter(|line| line.starts_with("- ")).count(), 5, "{causes}");
}

/// Names, claims and reasons come from manifests, models and logs.
#[test]
fn hostile_text_is_no_markup() {
    let mut record = record();
    record.session.workload = full::HOSTILE.to_owned();
    record.session.status = Status::Interrupted;
    record.session.stop_reason = Some(full::HOSTILE.to_owned());
    record.baselines[0].name = full::HOSTILE.to_owned();
    for page in [report(&record).to_markdown().unwrap(), full::full(3).to_markdown().unwrap()] {
        // In a span of code, nothing is markup.
        let prose = page.split("``").step_by(2).collect::<String>().replace("\\<", "");
        for markup in ["<script", "[x](javascript", "<img"] {
            assert!(!prose.contains(markup), "{markup} in {page}");
        }
    }
}

#[test]
fn a_session_reads_as_markdown() {
    insta::assert_snapshot!(report(&record()).to_markdown().unwrap(), @r"
    # attention-fp16-d64 on NVIDIA L4: 1 of 3 cases improved, by 1.60× over the initial kernel

    55 min, 5 iterations, $0.93; times are measured. 0 of 1 cases are ahead of the fastest baseline (0.50×).

    **Next: continue this search** (55 min and $0.18). `optloop start --workload attention-fp16-d64 --case b1h1s128 --case b8h8s512 --case b16h8s512 --budget 3300s`

    | Case | Before, us | Now | Gain (95%) | Baseline | Faster by | Of floor | Limited by |
    |---|--:|--:|--:|---|--:|--:|---|
    | b1h1s128 | 80.00 | 50.00 | 1.60 (two runs) | torch sdpa (flash) 25.00 | 0.50× | 2.0% | 2 blocks on 58 SMs |
    | b8h8s512 | 400.00 | 400.00 | unchanged | - | - | 0.25% | 2 blocks on 58 SMs |
    | b16h8s512 | - | - | - | - | - | - | - |

    Before is the first correct variant. The floor is the time that no correct kernel beats. Not confirmed: b8h8s512.

    **Causes.**

    - Gained 1.60× on b1h1s128: BLOCK 64 to 256. *the cause was not tested.*

    **Time.** 55 min: start, records and report 100%. The session ended because its time budget is spent. **Money.** GPU $0.18, models $0.75; all sessions $4.53.

    **Verified.** Every winner against float64 (worst relative error 1.2e-4), 1 of 3 on held-out inputs.

    - No correct variant on b16h8s512: optloop history 2 says why.
    - No baseline was timed on b8h8s512.

    [Charts and evidence](session-2.html), [JSON](session-2.json).
    ");
}

#[test]
fn times_that_were_not_measured_say_so() {
    let mut record = record();
    let mut told = |source| {
        record.session.time_source = source;
        report(&record).to_markdown().unwrap()
    };
    let modelled = told(TimeSource::Modelled);
    assert!(
        modelled.contains("times are modelled: no GPU ran") && modelled.contains("Confirm modelled times"),
        "{modelled}"
    );
    let recorded = told(TimeSource::Recorded);
    assert!(recorded.contains("Nothing was checked") && !recorded.contains("optloop start"), "{recorded}");
}

/// More cases than rows: those that changed and one row for the rest.
#[test]
fn many_unchanged_cases_share_a_row() {
    let mut report = report(&record());
    let unchanged = report.cases[1].clone();
    report
        .cases
        .extend((0..40).map(|n| contract::Case { case: format!("case{n}").as_str().into(), ..unchanged.clone() }));
    let page = report.to_markdown().unwrap();
    assert!(page.contains("| 41 more |") && !page.contains("case7") && page.contains("| b1h1s128 |"), "{page}");
}
