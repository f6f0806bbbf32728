//! The steps that this process is waiting for, so that a long wait can be reported while it lasts.
//!
//! A step registers when it begins. Its guard ends it, even if its future is dropped. Steps nest: a session's iteration
//! contains a step on the device. There is one list for the process, because a process does one thing at a time.
//! Background work is not listed.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The longest time without a report of what is under way.
const PERIOD: Duration = Duration::from_secs(10);

static STEPS: Mutex<Vec<Step>> = Mutex::new(Vec::new());

/// The number of a step that is not listed.
const UNLISTED: u64 = 0;

tokio::task_local! {
    static IN_BACKGROUND: ();
}

/// Runs a future whose steps are not listed, because the process waits for others.
pub async fn in_background<F: Future>(work: F) -> F::Output {
    IN_BACKGROUND.scope((), work).await
}

/// A limit that ends a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Its key in config.toml, or its option on the command line.
    pub key: &'static str,
    /// The time from the step's beginning.
    pub after: Duration,
}

impl Limit {
    /// A limit under a key of config.toml.
    pub fn new(key: &'static str, after: Duration) -> Option<Self> {
        Some(Self { key, after })
    }
}

#[derive(Debug, Clone)]
struct Step {
    number: u64,
    name: String,
    since: Instant,
    limit: Option<Limit>,
}

/// A step under way. Dropping it ends it.
#[derive(Debug)]
#[must_use = "the step ends when this is dropped"]
pub struct RunningStep(u64);

/// Begins a step inside those under way.
pub fn begin(name: impl Into<String>, limit: Option<Limit>) -> RunningStep {
    if IN_BACKGROUND.try_with(|()| ()).is_ok() {
        return RunningStep(UNLISTED);
    }
    let mut steps = STEPS.lock().unwrap_or_else(PoisonError::into_inner);
    let number = steps.iter().map(|step| step.number).max().unwrap_or(0) + 1;
    steps.push(Step { number, name: name.into(), since: Instant::now(), limit });
    RunningStep(number)
}

impl RunningStep {
    /// Replaces the step by the next one at its place.
    pub fn replace(&mut self, name: impl Into<String>, limit: Option<Limit>) {
        let mut steps = STEPS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(step) = steps.iter_mut().find(|step| step.number == self.0) {
            (step.name, step.since, step.limit) = (name.into(), Instant::now(), limit);
        }
    }
}

impl Drop for RunningStep {
    fn drop(&mut self) {
        STEPS.lock().unwrap_or_else(PoisonError::into_inner).retain(|step| step.number != self.0);
    }
}

/// The steps under way at a moment.
#[derive(Debug, Clone, PartialEq)]
pub struct UnderWay {
    /// Their names, the outermost first.
    pub names: Vec<String>,
    /// When the outermost began.
    pub outer_since: Instant,
    /// When the innermost began.
    pub inner_since: Instant,
    /// The limit that ends one of them first, from the beginning of the innermost step.
    limit: Option<Limit>,
}

/// Returns the steps under way. None between two steps.
pub fn under_way() -> Option<UnderWay> {
    let steps = STEPS.lock().unwrap_or_else(PoisonError::into_inner);
    UnderWay::of(&steps)
}

impl UnderWay {
    fn of(steps: &[Step]) -> Option<Self> {
        let (outer, inner) = (steps.first()?, steps.last()?);
        // What ends a step ends those within it.
        let limits = steps.iter().filter_map(|step| {
            let Limit { key, after } = step.limit?;
            let begun_before = inner.since.saturating_duration_since(step.since);
            Some(Limit { key, after: after.saturating_sub(begun_before) })
        });
        let limit = limits.min_by_key(|limit| limit.after);
        let names = steps.iter().map(|step| step.name.clone()).collect();
        Some(Self { names, outer_since: outer.since, inner_since: inner.since, limit })
    }

    /// Returns the limit that ends the innermost step first: its own, or another one at an instant.
    pub fn limit(&self, other: Option<(&'static str, Instant)>) -> Option<Limit> {
        let after = |at: Instant| at.saturating_duration_since(self.inner_since);
        let other = other.map(|(key, at)| Limit { key, after: after(at) });
        self.limit.into_iter().chain(other).min_by_key(|limit| limit.after)
    }

    /// Describes the steps in a line.
    pub fn line(&self, now: Instant) -> String {
        let limit = self.limit(None);
        let seconds = |since: Instant| now.saturating_duration_since(since).as_secs_f64();
        line(
            &self.names,
            seconds(self.inner_since),
            seconds(self.outer_since),
            limit.map(|limit| (limit.key, limit.after.as_secs_f64())),
        )
    }
}

/// Describes steps in a line, such as `iteration 12 for 34 s: timing s64 for 20 s (worker.step_timeout ends it after
/// 90 s)`. A step that has just begun has no time of its own.
pub fn line(names: &[String], for_s: f64, all_s: f64, limit: Option<(&str, f64)>) -> String {
    let (outer, inner) = names.split_first().map_or(("", names), |(outer, inner)| (outer.as_str(), inner));
    let what = match (inner, all_s - for_s >= 0.5) {
        ([], _) => format!("{outer} for {all_s:.0} s"),
        (_, false) => format!("{} for {for_s:.0} s", names.join(": ")),
        (_, true) if for_s < 0.5 => format!("{outer} for {all_s:.0} s: {}", inner.join(": ")),
        (_, true) => format!("{outer} for {all_s:.0} s: {} for {for_s:.0} s", inner.join(": ")),
    };
    let end = match limit {
        Some((key, after_s)) => format!("{key} ends it after {after_s:.0} s"),
        None => "no limit ends it; Ctrl-C does".to_owned(),
    };
    format!("{what} ({end})")
}

/// How often long waits are reported.
#[derive(Debug, Clone, Copy)]
pub struct ReportInterval(Duration);

impl Default for ReportInterval {
    /// Ten seconds. The tests shorten it by `OPTLOOP_PROGRESS_MS`.
    fn default() -> Self {
        let asked = std::env::var("OPTLOOP_PROGRESS_MS").ok().and_then(|text| text.parse().ok());
        Self(asked.map_or(PERIOD, |ms: u64| Duration::from_millis(ms).clamp(Duration::from_millis(1), PERIOD)))
    }
}

impl ReportInterval {
    /// Returns the longest time without a report.
    pub fn period(self) -> Duration {
        self.0
    }

    /// Returns whether a report is due: the last one is a period ago, and so is the beginning of what is under way.
    pub fn is_due(self, last: Instant, steps: &UnderWay, now: Instant) -> bool {
        // The next check is a tenth of the period away.
        now.saturating_duration_since(last.max(steps.outer_since)) + self.0 / 10 >= self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn steps(begun: Instant) -> Vec<Step> {
        let step = |number, name: &str, after: u32, limit| Step {
            number,
            name: name.to_owned(),
            since: begun + after * SECOND,
            limit,
        };
        let limit = Limit::new("worker.step_timeout", 90 * SECOND);
        vec![step(1, "iteration 12", 0, None), step(2, "timing b1h1s512", 14, limit)]
    }

    #[test]
    fn a_progress_line_has_the_steps_their_duration_and_the_limit() {
        let begun = Instant::now();
        let told = |steps: &[Step], at: u32| UnderWay::of(steps).unwrap().line(begun + at * SECOND);
        insta::assert_snapshot!(told(&steps(begun), 34), @"iteration 12 for 34 s: timing b1h1s512 for 20 s (worker.step_timeout ends it after 90 s)");
        insta::assert_snapshot!(told(&steps(begun), 14), @"iteration 12 for 14 s: timing b1h1s512 (worker.step_timeout ends it after 90 s)");
        insta::assert_snapshot!(told(&steps(begun)[..1], 20), @"iteration 12 for 20 s (no limit ends it; Ctrl-C does)");
        assert_eq!(UnderWay::of(&[]), None);
    }

    #[test]
    fn the_limit_that_comes_first_is_named() {
        let begun = Instant::now();
        let under_way = UnderWay::of(&steps(begun)).unwrap();
        let named =
            |at: u32| under_way.limit(Some(("--budget", begun + at * SECOND))).map(|limit| (limit.key, limit.after));
        assert_eq!(named(60), Some(("--budget", 46 * SECOND)));
        assert_eq!(named(600), Some(("worker.step_timeout", 90 * SECOND)));
    }

    #[test]
    fn a_limit_of_an_outer_step_ends_the_inner_one() {
        let (begun, limit) = (Instant::now(), |key, seconds: u32| Limit::new(key, seconds * SECOND));
        let named = |outer: u32| {
            let mut steps = steps(begun);
            (steps[0].limit, steps[1].limit) = (limit("--budget", outer), limit("worker.step_timeout", 90));
            UnderWay::of(&steps).unwrap().limit(None).map(|limit| (limit.key, limit.after))
        };
        assert_eq!(named(60), Some(("--budget", 46 * SECOND)));
        assert_eq!(named(600), Some(("worker.step_timeout", 90 * SECOND)));
    }

    #[test]
    fn nothing_is_reported_within_the_period_and_then_once_in_each() {
        let begun = Instant::now();
        let under_way = UnderWay::of(&steps(begun)).unwrap();
        let due = |last: u32, now: u32| {
            ReportInterval(PERIOD).is_due(begun + last * SECOND, &under_way, begun + now * SECOND)
        };
        assert!(!due(0, 8) && due(0, 9), "no step runs for more than ten seconds without a line");
        assert!(!due(9, 17) && due(9, 18));
    }

    #[test]
    fn a_step_ends_with_its_guard_in_whatever_order() {
        let names = || under_way().map(|steps| steps.names).unwrap_or_default();
        let outer = begin("outer", None);
        let mut inner = begin("inner", None);
        inner.replace("next", None);
        assert!(names().ends_with(&["outer".to_owned(), "next".to_owned()]));
        drop(outer);
        assert!(names().ends_with(&["next".to_owned()]));
        drop(inner);
        assert!(!names().contains(&"next".to_owned()));
    }
}
