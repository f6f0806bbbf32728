//! The state of a process and of a GPU in which a time is taken, apart from the caches.

use serde::{Deserialize, Serialize};

/// The largest ratio of the controls of two participants in the same state. A node of a graph takes 0.53 us in one
/// state and 0.71 us in the other (H200, driver 580.159.04, 2026-11-22, `docs/measuring/graph_state.py`).
const SAME_STATE: f64 = 1.15;

/// The graphs that a process has besides those that it replays. A node of a replayed graph takes longer among others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Graphs {
    /// None that was uploaded and never launched. Times from before this was recorded are of this state.
    #[default]
    Alone,
    /// One that was uploaded and never launched, as in programs with several graphs.
    AmongOthers,
}

/// How busy a GPU is while it is timed. A GPU that is busy all the time reaches its power cap and lowers its clocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// Sample groups with pauses between them: the GPU is rested.
    #[default]
    Bursts,
    /// Without pauses, from before the first sample until clocks and power have settled.
    Sustained,
}

impl Graphs {
    /// Returns the word that the store and the reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::AmongOthers => "among_others",
        }
    }

    /// Tells whether this is the state of old records, which do not mention it.
    pub fn is_alone(&self) -> bool {
        *self == Self::Alone
    }
}

impl Load {
    /// Returns the word that the store and the reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bursts => "bursts",
            Self::Sustained => "sustained",
        }
    }

    /// Tells whether this is the load of old records, which do not mention it.
    pub fn is_bursts(&self) -> bool {
        *self == Self::Bursts
    }
}

/// Tells whether the controls of several participants, in nanoseconds, are of the same state, if the GPU's highest clock was
/// `clock_spread` times its lowest meanwhile. After a burst of large matrix products, the clock is lower, and so is the speed of an
/// empty kernel: 0.89 and 1.13 us (H200, 2026-11-29, `optloop start --workload gemm-fp16`).
pub fn alike(graph_node_ns: impl IntoIterator<Item = f64>, clock_spread: f64) -> bool {
    let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
    for ns in graph_node_ns {
        (least, most) = (least.min(ns), most.max(ns));
    }
    most <= least * SAME_STATE * clock_spread
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_states_of_a_node_are_distinguished_and_noise_is_not() {
        assert!(alike([530.0, 545.0, 520.0], 1.0) && alike([710.0], 1.0) && alike([], 1.0));
        assert!(!alike([530.0, 710.0, 530.0], 1.0));
        assert!(!alike([890.0, 1130.0], 1.0) && alike([890.0, 1130.0], 1.35), "the clock explains it");
    }
}
