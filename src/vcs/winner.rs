//! A confirmed winner, and its commit message.

use std::fmt::Write;

use super::{CommitId, FamilyFiles};
use crate::domain::device::{DeviceKey, TimeSource};
use crate::domain::ids::{IterationId, SessionId};
use crate::domain::measurement::comparison::{Comparison, Role};
use crate::domain::record::Baseline;
use crate::domain::sidecar::Sidecar;
use crate::domain::statistics::Ratio;
use crate::domain::statistics::sampling::MIN_SAMPLES;
use crate::domain::text::escape::git;
use crate::domain::variant::show_params;

/// A confirmed winner, ready to be committed.
///
/// The case, the device, the time source and the new figures come from the sidecar, so the message and the file cannot
/// differ.
#[derive(Debug, Clone, PartialEq)]
pub struct Winner {
    /// The kind of device to which it belongs.
    pub device: DeviceKey,
    /// The workload's name.
    pub workload: String,
    /// The text of its source.
    pub source: String,
    /// Its launch and its results. It names the file of the source.
    pub sidecar: Sidecar,
    /// The time of the incumbent that it replaces, if there is one.
    pub previous: Option<Figures>,
    /// That time over the winner's, if one run sampled both in turns.
    pub speedup: Option<Ratio>,
    /// The baseline's time, if there is one of the same time source.
    pub baseline: Option<BaselineTime>,
    /// What measured it.
    pub timed_by: TimedBy,
    /// Where an earlier session found the configuration. None if this session found it.
    pub earlier: Option<Earlier>,
    /// Its family, if a language model wrote that. The commit adds it to a project that does not have it.
    pub family: Option<FamilyFiles>,
}

/// What measured a winner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimedBy {
    /// An iteration of a session.
    Iteration {
        /// The session.
        session: SessionId,
        /// The iteration.
        iteration: IterationId,
    },
    /// `optloop remeasure`, outside any session. It replaces the figures of a committed winner.
    Remeasure,
}

/// The find of an earlier session.
#[derive(Debug, Clone, PartialEq)]
pub struct Earlier {
    /// The device on which it won.
    pub device: String,
    /// The commit of its sidecar, if HEAD has one.
    pub commit: Option<CommitId>,
}

/// A time with its uncertainty, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    /// Median.
    pub median_us: f64,
    /// 95% interval of the median.
    pub ci_us: [f64; 2],
    /// Samples taken.
    pub samples: usize,
}

/// The time of the baseline.
#[derive(Debug, Clone, PartialEq)]
pub struct BaselineTime {
    /// Its name.
    pub name: String,
    /// Its median, in microseconds.
    pub us: f64,
}

impl BaselineTime {
    /// Returns the time of the baseline in a winner's comparison, else as it was timed alone.
    pub fn of(comparison: Option<&Comparison>, alone: Option<&Baseline>) -> Option<Self> {
        let in_comparison = comparison.and_then(|comparison| comparison.against(Role::Baseline));
        let in_comparison = in_comparison.map(|(participant, _)| (&participant.name, &participant.timing));
        let (name, timing) = in_comparison.or(alone.map(|baseline| (&baseline.name, &baseline.timing)))?;
        Some(Self { name: name.clone(), us: timing.median_ns / 1e3 })
    }
}

impl Winner {
    /// Returns the name of the case that it won.
    pub fn case(&self) -> &str {
        &self.sidecar.measurement.case
    }

    /// Returns the first line of the commit message.
    pub fn summary(&self) -> String {
        let after = self.after().median_us;
        // A measured time needs no mark, since readers expect it.
        let unit = match self.time_source() {
            TimeSource::Measured => "us",
            TimeSource::Modelled => "us modelled",
            TimeSource::Recorded => "us recorded",
        };
        let change = match &self.previous {
            // The two may be of different states, so they are not divided.
            Some(before) if self.timed_by == TimedBy::Remeasure => {
                format!("{} {unit}, measured again ({} before)", us(after), us(before.median_us))
            }
            Some(before) => {
                let speedup = self.speedup.map_or(before.median_us / after, |speedup| speedup.estimate);
                format!("{} -> {} {unit} ({speedup:.2}x)", us(before.median_us), us(after))
            }
            None => format!("{} {unit}, the first winner", us(after)),
        };
        format!("{}/{}: {change}", self.workload, self.case())
    }

    /// Returns the commit message. `has_new_family` tells whether the commit adds the family.
    pub fn message(&self, has_new_family: bool) -> String {
        let Sidecar { variant, measurement, environment, .. } = &self.sidecar;
        let after = self.after();
        let mut text = format!("{}\n\n", self.summary());
        let mut line = |label: &str, value: String| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{:<12}{}", format!("{label}:"), git(&value));
        };
        let new = if has_new_family { ", new: committed with its family, which a language model wrote" } else { "" };
        line("Family", format!("{}{new}", variant.family));
        line("Parameters", show_params(&variant.params));
        line("Variant", variant.hash.to_string());
        line("Before", self.previous.map_or("no incumbent".to_owned(), |before| before.describe(self.time_source())));
        line("After", after.describe(self.time_source()));
        if let Some(Ratio { estimate, interval }) = self.speedup {
            line(
                "Speed-up",
                format!("{}, in one run with the previous winner", ratio(estimate, interval.lo, interval.hi)),
            );
        }
        line("Baseline", self.describe_baseline());
        if let Some(noise) = measurement.noise {
            line("Noise", format!("{:.2}% of the variant over itself in that run", noise * 100.0));
        }
        let graphs = if measurement.graphs.is_alone() { "" } else { ", other graphs loaded" };
        line("Device", format!("{}, {}{graphs}", environment.device, measurement.time_source.name()));
        let here = match self.timed_by {
            TimedBy::Iteration { session, iteration } => format!("session {session}, iteration {iteration}"),
            TimedBy::Remeasure => "optloop remeasure".to_owned(),
        };
        match &self.earlier {
            None => line("Found by", here),
            Some(earlier) => {
                line("Found by", earlier.describe());
                line("Timed by", here);
            }
        }
        text
    }

    fn time_source(&self) -> TimeSource {
        self.sidecar.measurement.time_source
    }

    fn after(&self) -> Figures {
        let found = &self.sidecar.measurement;
        Figures { median_us: found.median_us, ci_us: found.ci_us, samples: found.samples }
    }

    fn describe_baseline(&self) -> String {
        match &self.baseline {
            Some(BaselineTime { name, us: baseline_us }) => {
                let speedup = match (&self.sidecar.measurement.ratio_to_baseline, self.time_source()) {
                    (Some(found), _) => format!("{}, in one run", ratio(found.estimate, found.lo, found.hi)),
                    (None, TimeSource::Modelled | TimeSource::Recorded) => {
                        format!("{:.2}x", baseline_us / self.after().median_us)
                    }
                    (None, TimeSource::Measured) => {
                        format!("{:.2}x, not in one run", baseline_us / self.after().median_us)
                    }
                };
                format!("{name}, {} us ({speedup})", us(*baseline_us))
            }
            None => "no baseline measured".to_owned(),
        }
    }
}

impl Earlier {
    pub(super) fn describe(&self) -> String {
        let commit = self.commit.as_ref().map(|commit| format!(", commit {commit}")).unwrap_or_default();
        format!("an earlier session on {}{commit}", self.device)
    }
}

impl Figures {
    fn describe(&self, time_source: TimeSource) -> String {
        let Self { median_us, ci_us: [lo, hi], samples } = *self;
        if samples < MIN_SAMPLES {
            let what = match (time_source, samples) {
                (TimeSource::Modelled, _) => "modelled".to_owned(),
                (TimeSource::Recorded, _) => "recorded".to_owned(),
                (TimeSource::Measured, 1) => "1 sample".to_owned(),
                (TimeSource::Measured, samples) => format!("{samples} samples"),
            };
            return format!("{} us ({what})", us(median_us));
        }
        format!("{} us (95% interval {} to {}, {samples} samples)", us(median_us), us(lo), us(hi))
    }
}

/// Formats a ratio with its interval. Comparisons resolve differences below 1%.
fn ratio(estimate: f64, lo: f64, hi: f64) -> String {
    format!("{estimate:.3}x, 95% interval {lo:.3} to {hi:.3}")
}

/// Formats microseconds with four significant digits or more. Medians repeat to about 0.1%.
pub(super) fn us(value: f64) -> String {
    match value {
        100.0.. => format!("{value:.1}"),
        10.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}
