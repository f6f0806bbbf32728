//! The live view of a session: plain data, and its text of 80 columns.

use std::collections::VecDeque;
use std::time::Duration;

use crate::domain::device::TimeSource;
use crate::domain::record::BaselineKind;
use crate::domain::record::gain::{CaseGain, GainResult};
use crate::domain::text::counted::counted;
use crate::domain::variant::show_params;
use crate::report::format;

/// The width of the view.
pub const WIDTH: usize = 80;

/// The most cases in the view. The others are counted.
const MAX_CASES: usize = 8;

/// The most verdicts in the view.
const MAX_VERDICTS: usize = 3;

/// The widest name of a case or a baseline in the view.
const NAME: usize = 22;

/// What the live view shows.
#[derive(Debug, Default)]
pub struct Board {
    /// The wall time allowed.
    pub budget: Duration,
    /// US dollars allowed.
    pub max_cost_usd: Option<f64>,
    /// Iterations allowed.
    pub max_iterations: Option<u64>,
    /// US dollars spent.
    pub cost_usd: f64,
    /// Iterations finished.
    pub finished: u64,
    /// Where the times come from. None before the session has begun.
    times: Option<TimeSource>,
    /// What was gained on each case, the one that changed last first.
    cases: Vec<CaseGain>,
    /// The last verdicts, the newest first.
    verdicts: VecDeque<String>,
}

impl Board {
    /// Notes what was gained on a case.
    pub fn note_case(&mut self, gain: &CaseGain) {
        self.cases.retain(|other| other.case != gain.case);
        self.cases.insert(0, gain.clone());
    }

    /// Notes the verdict on an iteration.
    pub fn note_verdict(&mut self, verdict: String) {
        self.verdicts.push_front(verdict);
        self.verdicts.truncate(MAX_VERDICTS);
    }

    /// Sets what the times are.
    pub fn set_times(&mut self, times: TimeSource) {
        self.times = Some(times);
    }

    /// Returns the time and the money that are used, beside the budget.
    pub fn used(&self, elapsed: Duration) -> String {
        let money = match self.max_cost_usd {
            Some(most) => format!("{} of {}", format::usd(self.cost_usd), format::usd(most)),
            None => format::usd(self.cost_usd),
        };
        let iterations = match self.max_iterations {
            Some(most) => format!("{} of {}", self.finished, counted(most as usize, "iteration")),
            None => counted(self.finished as usize, "iteration"),
        };
        format!("{} of {}, {money}, {iterations}", span(elapsed), span(self.budget))
    }

    /// Returns the view. `now` is what is under way, and for how long.
    pub fn text(&self, elapsed: Duration, now: Option<(&[String], Duration)>) -> String {
        let mut lines = vec![self.used(elapsed)];
        lines.extend(self.table());
        lines.extend(self.best());
        if let Some((steps, since)) = now {
            lines.push(format!("now: {} for {}", steps.join(": "), span(since)));
        }
        lines.extend(self.verdicts.iter().cloned());
        let lines: Vec<String> = lines.iter().map(|line| cut(line, WIDTH)).collect();
        lines.join("\n")
    }

    /// Returns the best configuration of the case at the top, in as many lines as it takes.
    fn best(&self) -> Vec<String> {
        let Some(gain) = self.cases_in_order().into_iter().next() else { return Vec::new() };
        let (Some(family), Some(iteration)) = (&gain.family, gain.iteration) else { return Vec::new() };
        let text = format!("best of {}: #{iteration} {family} {}", gain.case, show_params(&gain.params));
        textwrap::wrap(&text, textwrap::Options::new(WIDTH).subsequent_indent("  "))
            .into_iter()
            .map(Into::into)
            .collect()
    }

    /// Improved cases come first, the latest of them at the top.
    fn cases_in_order(&self) -> Vec<&CaseGain> {
        let (mut shown, rest): (Vec<&CaseGain>, Vec<&CaseGain>) =
            self.cases.iter().partition(|gain| gain.result == GainResult::Improved);
        shown.extend(rest);
        shown
    }

    fn table(&self) -> Vec<String> {
        if self.cases.is_empty() {
            return vec!["nothing is timed yet".to_owned()];
        }
        let mut shown = self.cases_in_order();
        let more = shown.len().saturating_sub(MAX_CASES);
        shown.truncate(MAX_CASES);
        let now = self.times.map_or("us", unit);
        let row = |case: &str, now: &str, gain: &str, ratio: &str, baseline: &str| {
            format!("  {case:<NAME$} {now:>13} {gain:>9} {ratio:>9}  {baseline}").trim_end().to_owned()
        };
        let mut lines = vec![row("case", now, "gain", "ratio", "to")];
        lines.extend(shown.into_iter().map(|gain| {
            let figure = |value: Option<f64>, show: fn(f64) -> String| value.map_or_else(nothing, show);
            row(
                &cut(&gain.case, NAME),
                &figure(gain.now_us, format::us),
                &figure(gain.gain, format::times),
                &figure(gain.over_baseline, format::times),
                &cut(&baseline(gain), NAME - 1),
            )
        }));
        if more > 0 {
            lines.push(format!("  and {more} more"));
        }
        lines
    }
}

/// Returns the unit of a time, and says if the time is not measured.
pub fn unit(time_source: TimeSource) -> &'static str {
    match time_source {
        TimeSource::Measured => "us",
        TimeSource::Modelled => "us (modelled)",
        TimeSource::Recorded => "us (recorded)",
    }
}

/// Returns a short name of the baseline.
pub fn baseline(gain: &CaseGain) -> String {
    match gain.baseline_kind {
        Some(BaselineKind::InitialKernel) => "initial kernel".to_owned(),
        _ => gain.baseline.clone().unwrap_or_default(),
    }
}

fn nothing() -> String {
    format::NOTHING.to_owned()
}

/// Cuts a text to a number of characters.
pub fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(3)).collect::<String>() + "..."
}

/// Shows a duration as `1h 4m 12s`.
pub fn span(duration: Duration) -> String {
    humantime::format_duration(Duration::from_secs(duration.as_secs())).to_string()
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::domain::ids::IterationId;
    use crate::domain::variant::Params;

    /// Makes the gain of a case, whose time was divided by `gain`.
    pub fn gain(case: &str, gain: f64, ratio: Option<f64>) -> CaseGain {
        CaseGain {
            case: case.into(),
            initial_us: Some(2272.17),
            before_us: None,
            now_us: Some(2272.17 / gain),
            iteration: Some(IterationId(3)),
            family: Some("tiled".to_owned()),
            params: Params::from_iter([("TILE".to_owned(), 64)]),
            gain: Some(gain),
            gain_ci: Some([gain * 0.99, gain * 1.01]),
            baseline: ratio.map(|_| "flash".to_owned()),
            baseline_kind: ratio.map(|_| BaselineKind::Program),
            baseline_us: ratio.map(|ratio| ratio * 2272.17 / gain),
            over_baseline: ratio,
            over_baseline_ci: None,
            result: if gain > 1.0 { GainResult::Improved } else { GainResult::Unchanged },
        }
    }

    #[test]
    fn a_view_begins_without_times() {
        let board = Board { budget: Duration::from_secs(600), ..Board::default() };
        let steps = ["timing the baselines".to_owned()];
        insta::assert_snapshot!(board.text(Duration::from_secs(2), Some((&steps, Duration::from_secs(1)))), @"
        2s of 10m, $0.00, 0 iterations
        nothing is timed yet
        now: timing the baselines for 1s
        ");
    }

    #[test]
    fn a_view_shows_the_budget_the_best_of_each_case_what_runs_and_the_last_verdicts() {
        let mut board = Board {
            budget: Duration::from_secs(14_400),
            max_cost_usd: Some(5.0),
            max_iterations: Some(100),
            cost_usd: 1.254,
            finished: 41,
            ..Board::default()
        };
        board.note_case(&gain("b1h1s64", 1.0, Some(0.021)));
        board.note_case(&gain("b4h16s4096d128-causal-and-more", 206.41, Some(1.174)));
        board.note_case(&gain("b1h1s128", 1.0, None));
        board.note_case(&gain("b8h8s128", 86.2, Some(1.78)));
        (38..42).for_each(|number| board.note_verdict(format!("#{number} 1 tied: {}", "TILE=64 ".repeat(12))));
        let steps = ["iteration 42".to_owned(), "timing b1h1s64".to_owned()];
        let text = board.text(Duration::from_secs(3852), Some((&steps, Duration::from_secs(12))));
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        insta::assert_snapshot!(text, @"
        1h 4m 12s of 4h, $1.25 of $5.00, 41 of 100 iterations
          case                              us      gain     ratio  to
          b8h8s128                       26.36    86.20×     1.78×  flash
          b4h16s4096d128-caus...         11.01      206×     1.17×  flash
          b1h1s128                      2272.2     1.00×         -
          b1h1s64                       2272.2     1.00×   0.0210×  flash
        best of b8h8s128: #3 tiled TILE=64
        now: iteration 42: timing b1h1s64 for 12s
        #41 1 tied: TILE=64 TILE=64 TILE=64 TILE=64 TILE=64 TILE=64 TILE=64 TILE=64 T...
        #40 1 tied: TILE=64 TILE=64 TILE=64 TILE=64 TILE=64 TILE=64 TILE=64 TILE=64 T...
        #39 1 tied: TILE=64 TILE=64 TILE=64 TILE=64 TILE=64 TILE=64 TILE=64 TILE=64 T...
        ");
    }

    #[test]
    fn of_many_cases_those_that_changed_last_are_shown() {
        let mut board =
            Board { budget: Duration::from_secs(60), times: Some(TimeSource::Modelled), ..Board::default() };
        (1..=24).for_each(|number| board.note_case(&gain(&format!("c{number}"), 1.0, None)));
        (3..=4).for_each(|number| board.note_case(&gain(&format!("c{number}"), 2.0, None)));
        board.note_case(&gain("c5", 1.0, None));
        insta::assert_snapshot!(board.text(Duration::ZERO, None), @"
        0s of 1m, $0.00, 0 iterations
          case                   us (modelled)      gain     ratio  to
          c4                            1136.1     2.00×         -
          c3                            1136.1     2.00×         -
          c5                            2272.2     1.00×         -
          c24                           2272.2     1.00×         -
          c23                           2272.2     1.00×         -
          c22                           2272.2     1.00×         -
          c21                           2272.2     1.00×         -
          c20                           2272.2     1.00×         -
          and 16 more
        best of c4: #3 tiled TILE=64
        ");
    }
}
