//! A confirmed winner, and what its commit message says of it.

use std::fmt::Write;

use crate::domain::device::TimeSource;
use crate::domain::sidecar::Sidecar;
use crate::domain::variant::show_params;

/// A confirmed winner, ready to be committed.
///
/// Case, device, time source and the figures after are those of the sidecar, so that message and file cannot differ.
#[derive(Debug, Clone, PartialEq)]
pub struct Winner {
    /// The folder below `kernels/` for winners of its device, such as `variants`.
    pub folder: String,
    /// The workload's name.
    pub workload: String,
    /// The text of the `.cu` file.
    pub source: String,
    /// How to launch it and what was found.
    pub sidecar: Sidecar,
    /// The time of the incumbent that it replaces, if there is one.
    pub previous: Option<Figures>,
    /// The time of what a user would use instead, if there is one of the same source.
    pub baseline: Option<BaselineTime>,
    /// The session that found it.
    pub session: i64,
    /// The iteration that found it.
    pub iteration: i64,
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

impl Winner {
    /// Returns the name of the case that it won.
    pub fn case(&self) -> &str {
        &self.sidecar.measurement.case
    }

    /// Returns the first line of the commit message.
    pub fn summary(&self) -> String {
        let after = self.after().median_us;
        // A measured time needs no mark: it is what a reader expects.
        let unit = match self.time_source() {
            TimeSource::Measured => "us",
            TimeSource::Modelled => "us modelled",
        };
        let change = match &self.previous {
            Some(before) => {
                format!("{} -> {} {unit} ({:.2}x)", us(before.median_us), us(after), before.median_us / after)
            }
            None => format!("{} {unit}, the first winner", us(after)),
        };
        format!("{}/{}: {change}", self.workload, self.case())
    }

    /// Returns the commit message.
    pub fn message(&self) -> String {
        let Sidecar { variant, measurement, environment, .. } = &self.sidecar;
        let after = self.after();
        let mut text = format!("{}\n\n", self.summary());
        let mut line = |label: &str, value: String| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{:<12}{value}", format!("{label}:"));
        };
        line("Family", variant.family.clone());
        line("Parameters", show_params(&variant.params));
        line("Variant", variant.hash.to_string());
        line("Before", self.previous.map_or("no incumbent".to_owned(), |before| before.describe(self.time_source())));
        line("After", after.describe(self.time_source()));
        line("Baseline", self.describe_baseline());
        line("Device", format!("{}, {}", environment.device, measurement.time_source.name()));
        line("Found by", format!("session {}, iteration {}", self.session, self.iteration));
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
                let speedup = baseline_us / self.after().median_us;
                format!("{name}, {} us ({speedup:.2}x)", us(*baseline_us))
            }
            None => "no baseline measured".to_owned(),
        }
    }
}

impl Figures {
    fn describe(&self, time_source: TimeSource) -> String {
        let Self { median_us, ci_us: [lo, hi], samples } = *self;
        if time_source == TimeSource::Modelled && samples == 1 {
            return format!("{} us (modelled)", us(median_us));
        }
        format!("{} us (95% interval {} to {}, {samples} samples)", us(median_us), us(lo), us(hi))
    }
}

/// Shows microseconds with four significant digits or more: medians repeat to about 0.1%.
fn us(value: f64) -> String {
    match value {
        100.0.. => format!("{value:.1}"),
        10.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}
