//! The state of a GPU while it was timed.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::domain::statistics::median;

/// A reason why a GPU runs below the requested clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Throttle {
    /// The GPU draws as much power as it may. This is ordinary under heavy work, so samples are kept.
    PowerCap,
    /// The driver slows the GPU because it is hot.
    Thermal,
    /// The board slows the GPU because of heat or a power brake.
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

    /// Tells whether this reason invalidates the samples taken meanwhile.
    pub fn invalidates_samples(self) -> bool {
        matches!(self, Self::Thermal | Self::Hardware)
    }
}

/// The state of a GPU at one instant, as NVML reports it. A field is none if NVML does not report it.
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
    /// The reasons why the GPU runs below its clocks; empty if it does not.
    pub throttle: BTreeSet<Throttle>,
}

/// A summary of a GPU's states at several instants. A field is none if NVML does not report it.
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
    /// Summarises states at several instants. `None` if there are none.
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

/// Returns the energy of one launch in joules, from NVML's counter before and after `launches` launches. `None` where
/// the counter did not advance or was reset.
///
/// It includes the whole GPU's energy, and so what an idle GPU takes in the same time. NVML updates the counter every
/// few tens of milliseconds, not at every read (Yang et al., Part-time Power Measurements, 2023). Each of the two reads
/// can be as old as one such period. Over half a second of replays, that is an error of some per cent to a fifth. Use
/// the figure only to compare kernels that differ by more.
pub fn energy_per_launch_j(before_mj: u64, after_mj: u64, launches: u64) -> Option<f64> {
    let spent_mj = after_mj.checked_sub(before_mj).filter(|spent| *spent > 0)?;
    (launches > 0).then(|| spent_mj as f64 / 1e3 / launches as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_heat_and_the_board_spoil_samples() {
        let spoils = [Throttle::PowerCap, Throttle::Thermal, Throttle::Hardware].map(Throttle::invalidates_samples);
        assert_eq!(spoils, [false, true, true]);
    }

    #[test]
    fn energy_is_shared_among_the_launches() {
        // 350 J over 100,000 launches.
        assert_eq!(energy_per_launch_j(5_000, 355_000, 100_000), Some(0.0035));
        assert_eq!(energy_per_launch_j(5_000, 5_000, 100_000), None, "the counter stood still");
        assert_eq!(energy_per_launch_j(5_000, 10, 100_000), None, "the driver was loaded again");
        assert_eq!(energy_per_launch_j(5_000, 355_000, 0), None);
    }

    #[test]
    fn a_summary_has_the_middle_the_extremes_and_every_reason() {
        let state = |clock, power, temperature, throttle: &[Throttle]| MachineState {
            sm_clock_mhz: clock,
            memory_clock_mhz: Some(3201),
            power_w: Some(power),
            temperature_c: Some(temperature),
            throttle: throttle.iter().copied().collect(),
        };
        let states = [
            state(Some(1980), 400.0, 50, &[]),
            state(None, 700.0, 61, &[Throttle::PowerCap]),
            state(Some(1755), 690.0, 60, &[Throttle::PowerCap, Throttle::Thermal]),
        ];
        let summary = MachineSummary::of(&states).unwrap();
        assert_eq!(summary.sm_clock_mhz, Some(1867.5));
        assert_eq!(summary.sm_clock_range_mhz, Some([1755, 1980]));
        assert_eq!((summary.power_w, summary.temperature_c), (Some(690.0), Some(61)));
        assert_eq!(summary.throttle, [Throttle::PowerCap, Throttle::Thermal].into());
        assert_eq!(MachineSummary::of(&[]), None);
    }
}
