//! What a session leaves: the table of its gains.

use crate::cli::terminal::board;
use crate::cli::terminal::table::{Table, figure};
use crate::domain::device::TimeSource;
use crate::domain::record::SessionSummary;
use crate::domain::record::gain::{CaseGain, GainResult};
use crate::report::format;
use crate::store::{Filter, Sort, Store, StoreError};

/// Returns the table of what a session has gained on each case.
pub fn table(cases: &[CaseGain], times: TimeSource) -> String {
    let now = match times {
        TimeSource::Measured => ">now, us",
        TimeSource::Modelled => ">now (modelled)",
        TimeSource::Recorded => ">now (recorded)",
    };
    let mut table = Table::new(&["case", ">initial", ">before", now, ">baseline", "", ">ratio", "result"]);
    for gain in cases {
        table.row([
            board::cut(&gain.case, 22),
            figure(gain.initial_us, format::us),
            figure(gain.before_us, format::us),
            figure(gain.now_us, format::us),
            figure(gain.baseline_us, format::us),
            board::cut(&board::baseline(gain), 14),
            figure(gain.over_baseline, format::times),
            result(gain),
        ]);
    }
    let mut out = Vec::new();
    // Writing to memory cannot fail.
    let _ = table.print(&mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// The outcomes of variants that failed, those that say most about the kernel first.
const FAILURES: [&str; 7] =
    ["wrong", "cheated", "crashed", "timed_out", "rejected_by_compiler", "out_of_memory", "not_modelled"];

/// Says that every variant of a session failed, and what to do. None if a variant was right, or if none failed.
pub async fn nothing_correct(store: &Store, session: &SessionSummary) -> Result<Option<String>, StoreError> {
    let first = async |outcome: &str| {
        let (sort, outcome) = (Sort::Number, Some(outcome.to_owned()));
        let filter = Filter { session: Some(session.id), sort, outcome, limit: Some(1), ..Filter::default() };
        Ok::<_, StoreError>(store.history(&filter).await?.into_iter().next())
    };
    if first("measured").await?.is_some() {
        return Ok(None);
    }
    let mut failed = None;
    for outcome in FAILURES {
        if failed.is_none() {
            failed = first(outcome).await?.map(|row| (outcome, row));
        }
    }
    Ok(failed.map(|(outcome, row)| {
        let (id, workload, iteration) = (session.id, &session.workload, row.iteration);
        if outcome == "out_of_memory" {
            let message = row.message.unwrap_or_default();
            return format!(
                "no variant of session {id} was run, because the device has too little memory: choose smaller cases. Iteration \
                 {iteration}: {message}"
            );
        }
        if outcome == "not_modelled" {
            let message = row.message.unwrap_or_default();
            return format!(
                "no variant of session {id} was run to its end, because a virtual GPU does not model all of the kernel: use a \
                 real one. Iteration {iteration}: {message}"
            );
        }
        let (is, how) = match outcome {
            "wrong" => ("the kernel or its oracle is wrong", String::new()),
            _ => ("the kernel is wrong", format!(" {}:", outcome.replace('_', " "))),
        };
        format!(
            "no variant of session {id} was correct, so {is}: mend it, and run `optloop check {workload}` before another \
             session. Iteration {iteration}:{how} {}",
            row.message.unwrap_or_default()
        )
    }))
}

/// Returns what became of a case, with its gain.
fn result(gain: &CaseGain) -> String {
    match (gain.result, gain.gain) {
        (GainResult::Improved, Some(ratio)) => format!("{} faster", format::times(ratio)),
        (result, _) => result.name().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::terminal::board::tests::gain;

    #[test]
    fn the_table_of_the_end_has_a_row_for_each_case() {
        let mut known = gain("b8h8s128", 1.25, Some(1.78));
        (known.before_us, known.initial_us) = (known.initial_us, Some(26_200.0));
        let failed = CaseGain {
            now_us: None,
            gain: None,
            over_baseline: None,
            result: GainResult::Unmeasured,
            ..gain("b1h1s4d4", 1.0, Some(1.0))
        };
        let text = table(
            &[gain("b1h1s64", 86.2, Some(1.78)), known, gain("b1h1s128", 1.0, None), failed],
            TimeSource::Measured,
        );
        assert!(text.lines().all(|line| line.chars().count() <= board::WIDTH), "{text}");
        insta::assert_snapshot!(text, @"
        case      initial  before  now, us  baseline         ratio  result
        b1h1s64    2272.2       -    26.36     46.92  flash  1.78×  86.20× faster
        b8h8s128  26200.0  2272.2   1817.7    3235.6  flash  1.78×  1.25× faster
        b1h1s128   2272.2       -   2272.2         -             -  unchanged
        b1h1s4d4   2272.2       -        -    2272.2  flash      -  unmeasured
        ");
    }
}
