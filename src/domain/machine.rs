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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_heat_and_the_board_spoil_samples() {
        let spoils = [Throttle::PowerCap, Throttle::Thermal, Throttle::Hardware].map(Throttle::spoils_samples);
        assert_eq!(spoils, [false, true, true]);
    }

    #[test]
    fn a_summary_has_the_middle_the_extremes_and_every_reason() {
        let at = |clock, power_w, temperature, throttle: &[Throttle]| MachineState {
            sm_clock_mhz: Some(clock),
            memory_clock_mhz: None,
            power_w,
            temperature_c: Some(temperature),
            throttle: throttle.iter().copied().collect(),
        };
        let states = [
            at(1980, Some(300.0), 40, &[]),
            at(1200, None, 55, &[Throttle::PowerCap]),
            at(1950, Some(500.0), 50, &[Throttle::Thermal, Throttle::PowerCap]),
        ];
        let expected = MachineSummary {
            sm_clock_mhz: Some(1950.0),
            sm_clock_range_mhz: Some([1200, 1980]),
            memory_clock_mhz: None,
            power_w: Some(400.0),
            temperature_c: Some(55),
            throttle: [Throttle::PowerCap, Throttle::Thermal].into(),
        };
        assert_eq!(MachineSummary::of(&states), Some(expected));
        assert_eq!(MachineSummary::of(&[]), None);
    }
}
