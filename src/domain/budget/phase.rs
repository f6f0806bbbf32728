//! How long a session spends on each kind of work.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::domain::ids::CaseName;

/// Seconds that an iteration or a final spent on each kind of step. Nothing is counted twice. The rest of its wall time
/// went into rendering, compilation of stored kernels, records and commits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct StepTimes {
    /// Waiting for a proposal to be compiled, while the device was idle.
    pub waiting_s: f64,
    /// Screening: the output checks and the short measurement of a variant.
    pub screening_s: f64,
    /// Acceptance checks on the device.
    pub acceptance_s: f64,
    /// The sanitizer: execution on a virtual GPU, while the device was idle.
    pub sanitizer_s: f64,
    /// Comparisons, including the start of their processes.
    pub comparison_s: f64,
}

impl StepTimes {
    /// Returns the sum in seconds.
    pub fn total_s(&self) -> f64 {
        self.waiting_s + self.screening_s + self.acceptance_s + self.sanitizer_s + self.comparison_s
    }
}

impl std::ops::AddAssign for StepTimes {
    fn add_assign(&mut self, other: Self) {
        self.waiting_s += other.waiting_s;
        self.screening_s += other.screening_s;
        self.acceptance_s += other.acceptance_s;
        self.sanitizer_s += other.sanitizer_s;
        self.comparison_s += other.comparison_s;
    }
}

/// Work of a session that belongs to no iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The baselines were timed, before the first comparison.
    Baselines,
    /// The final of a case was held.
    Final,
    /// Two iterations were compared because a client has asked for it.
    Comparison,
    /// Winners were committed.
    Commits,
}

impl Phase {
    /// Returns the name that the store uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Baselines => "baselines",
            Self::Final => "final",
            Self::Comparison => "comparison",
            Self::Commits => "commits",
        }
    }
}

/// The time of such work.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PhaseTime {
    /// What was done.
    pub phase: Phase,
    /// The case that it was done for; none if it was not for one case.
    pub case: Option<CaseName>,
    /// Wall time in seconds.
    pub wall_s: f64,
    /// The share of each kind of step in it.
    pub steps: StepTimes,
}

impl PhaseTime {
    /// Makes the record of a phase that is not for one case and has no steps.
    pub fn of(phase: Phase, wall: Duration) -> Self {
        Self { phase, case: None, wall_s: wall.as_secs_f64(), steps: StepTimes::default() }
    }
}
