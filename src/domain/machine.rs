//! What a GPU was doing while it was timed.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::statistics::median;

/// A reason for which a GPU runs below the clocks that were asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Throttle {
    /// It draws as much power as it may. Under heavy work this is a GPU's ordinary state, so samples are kept.
    PowerCap,
    /// The driver holds it back because it is hot.
    Thermal,
    /// The board holds it back: heat or a power brake.
    Hardware,
}

impl Throttle {
    /// Returns the reason in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::PowerCap => "power cap",
            Self::Thermal => "heat",
            Self::Hardware => "hardware",
        }
    }

    /// Tells whether samples taken meanwhile say nothing about the kernel.
    pub fn spoils_samples(self) -> bool {
        matches!(self, Self::Thermal | Self::Hardware)
    }
}

/// A GPU at one instant, as NVML tells it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineState {
    /// Clock of the SMs.
    pub sm_clock_mhz: Option<u32>,
    /// Clock of the memory.
    pub memory_clock_mhz: Option<u32>,
    /// Power drawn.
    pub power_w: Option<f64>,
    /// Temperature of the chip.
    pub temperature_c: Option<u32>,
    /// Why it runs below its clocks, if it does.
    pub throttle: BTreeSet<Throttle>,
}

/// What a GPU was doing over several instants. Figures that NVML does not give are none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineSummary {
    /// Median clock of the SMs.
    pub sm_clock_mhz: Option<f64>,
    /// Lowest and highest clock of the SMs.
    pub sm_clock_range_mhz: Option<[u32; 2]>,
    /// Median clock of the memory.
    pub memory_clock_mhz: Option<f64>,
    /// Median power.
    pub power_w: Option<f64>,
    /// Highest temperature.
    pub temperature_c: Option<u32>,
    /// Every reason seen for running below the clocks.
    pub throttle: BTreeSet<Throttle>,
}

impl MachineSummary {
    /// Summarises instants. `None` for none.
    pub fn of(states: &[MachineState]) -> Option<Self> {
        if states.is_empty() {
            return None;
        }
        let numbers =
            |get: &dyn Fn(&MachineState) -> Option<f64>| -> Vec<f64> { states.iter().filter_map(get).collect() };
        let clocks = || states.iter().filter_map(|state| state.sm_clock_mhz);
        Some(Self {
            sm_clock_mhz: median(&numbers(&|state| state.sm_clock_mhz.map(f64::from))),
            sm_clock_range_mhz: clocks().min().zip(clocks().max()).map(|(lo, hi)| [lo, hi]),
            memory_clock_mhz: median(&numbers(&|state| state.memory_clock_mhz.map(f64::from))),
            power_w: median(&numbers(&|state| state.power_w)),
            temperature_c: states.iter().filter_map(|state| state.temperature_c).max(),
            throttle: states.iter().flat_map(|state| state.throttle.iter().copied()).collect(),
        })
    }
}
