//! What rules and reports need to know of a device.

pub mod gpu_state;
mod key;
pub mod machine;
pub mod regime;

use serde::{Deserialize, Serialize};

use self::gpu_state::Graphs;
use super::compute::Compute;
use super::expr::Bindings;
use super::op::Dtype;
use crate::error::{Error, error};

pub use key::DeviceKey;

/// Where a time comes from. Times from different sources are never compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TimeSource {
    /// A real GPU's clock.
    Measured,
    /// A model of a GPU.
    Modelled,
    /// A file of recorded times. optloop neither ran nor checked anything.
    Recorded,
}

impl TimeSource {
    /// Returns the word that the store and the reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Modelled => "modelled",
            Self::Recorded => "recorded",
        }
    }
}

/// How a device determines the time of a plan. Everything that depends on the method asks this type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "RecordedTiming", into = "RecordedTiming")]
pub enum TimingMode {
    /// A real GPU replays plans and reads its clock. Samples are noisy, so variants are compared in turns. The
    /// replaying process is kept in a state of its graphs.
    Measured(Graphs),
    /// A virtual GPU computes one time from what a plan does. It has no noise and replays nothing.
    Modelled,
    /// A device for tests replays plans like a real one, with noise, but its times are made up.
    Simulated,
    /// A recorded search space has one time for each configuration. Nothing is executed.
    Recorded,
}

/// A [`TimingMode`] as it is recorded. The first key is the store's column `time_source`.
#[derive(Serialize, Deserialize)]
struct RecordedTiming {
    time_source: TimeSource,
    #[serde(default)]
    replays: bool,
    #[serde(default, skip_serializing_if = "Graphs::is_alone")]
    graphs: Graphs,
}

impl From<RecordedTiming> for TimingMode {
    fn from(recorded: RecordedTiming) -> Self {
        match (recorded.time_source, recorded.replays) {
            // Early records lack the second key.
            (TimeSource::Measured, _) => Self::Measured(recorded.graphs),
            (TimeSource::Modelled, false) => Self::Modelled,
            (TimeSource::Modelled, true) => Self::Simulated,
            (TimeSource::Recorded, _) => Self::Recorded,
        }
    }
}

impl From<TimingMode> for RecordedTiming {
    fn from(mode: TimingMode) -> Self {
        Self { time_source: mode.source(), replays: mode.replays(), graphs: mode.graphs() }
    }
}

impl TimingMode {
    /// Returns where the times of this mode come from.
    pub fn source(self) -> TimeSource {
        match self {
            Self::Measured(_) => TimeSource::Measured,
            Self::Modelled | Self::Simulated => TimeSource::Modelled,
            Self::Recorded => TimeSource::Recorded,
        }
    }

    /// Tells whether the device replays plans, with noise.
    pub fn replays(self) -> bool {
        match self {
            Self::Measured(_) | Self::Simulated => true,
            Self::Modelled | Self::Recorded => false,
        }
    }

    /// Returns the state of the graphs in which the device replays. Times that are made up have no such state.
    pub fn graphs(self) -> Graphs {
        match self {
            Self::Measured(graphs) => graphs,
            Self::Modelled | Self::Simulated | Self::Recorded => Graphs::Alone,
        }
    }
}

/// A device and its limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// How it was selected, such as `cuda:0`.
    pub id: String,
    /// The product's name, such as `NVIDIA H200`.
    pub name: String,
    /// Compute capability times ten: 90 for 9.0.
    pub sm: u32,
    /// The NVRTC architecture that enables every feature of the device, such as `sm_90a`.
    pub arch: String,
    /// Streaming multiprocessors.
    pub sms: u32,
    /// The most shared memory of one block in bytes (the opt-in limit).
    pub smem_limit_bytes: u64,
    /// The most threads of one block.
    pub max_threads: u32,
    /// Size of the L2 cache in bytes.
    pub l2_bytes: u64,
    /// Size of device memory in bytes.
    pub memory_bytes: u64,
    /// Driver version, such as `13.0`, where there is a driver.
    pub driver: Option<String>,
    /// The UUID by which NVML and the driver identify this device. The hash of the file for a recording. None for virtual
    /// devices.
    #[serde(default)]
    pub uuid: Option<String>,
    /// How the device determines the time of a plan.
    #[serde(flatten)]
    pub timing: TimingMode,
    /// Peaks, for floors and shares of peak.
    pub peaks: Peaks,
}

/// The peaks of a device: no correct kernel is faster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Peaks {
    /// FP16 tensor-core rate with FP32 accumulation, dense, in FLOP/s.
    pub f16_flops: f64,
    /// The best rate at FP32 accuracy, in FLOP/s: see [`Peaks::f32_peak`].
    pub f32_flops: f64,
    /// Device-memory bandwidth in bytes/s.
    pub memory_bytes_per_s: f64,
    /// L2 bandwidth in bytes/s, which bounds a warm working set that fits the cache.
    pub l2_bytes_per_s: f64,
    /// The time of an empty kernel as a node of a replayed graph, in nanoseconds.
    pub launch_ns: f64,
    /// Where these figures come from.
    pub source: String,
}

impl Peaks {
    /// Derives the peaks from the clocks and the bus width that the driver reports, by compute capability.
    ///
    /// Rates per SM and clock are those of the CUDA C++ Programming Guide's table "Throughput of Native Arithmetic
    /// Instructions" and the architecture whitepapers. Dense FP16 tensor FLOP/clk/SM is 2048 on sm_80, 1024 on sm_86
    /// and sm_89, 4096 on sm_90. FP32 FMA lanes are 64 on sm_80, 128 elsewhere. An SM takes at most 64 bytes a clock
    /// from L2.
    pub fn derived(sm: u32, sms: u32, clock_khz: f64, memory_clock_khz: f64, bus_bits: f64) -> Self {
        let per_clock = f64::from(sms) * clock_khz * 1e3;
        let (tensor, lanes) = match sm {
            80 => (2048.0, 64.0),
            86..=89 => (1024.0, 128.0),
            90.. => (4096.0, 128.0),
            _ => (1024.0, 64.0),
        };
        Self {
            f16_flops: per_clock * tensor,
            f32_flops: Self::f32_peak(per_clock * 2.0 * lanes, per_clock * tensor),
            // Double data rate: two transfers per clock.
            memory_bytes_per_s: 2.0 * memory_clock_khz * 1e3 * bus_bits / 8.0,
            l2_bytes_per_s: per_clock * 64.0,
            // A graph of one-element kernels replays at 0.91 us a node on an H200 (2026-11-20, CUDA 13.0).
            launch_ns: 900.0,
            source: format!(
                "derived from the driver's clocks ({:.0} MHz SM, {:.0} MHz memory, {bus_bits:.0}-bit bus)",
                clock_khz / 1e3,
                memory_clock_khz / 1e3
            ),
        }
    }

    /// Returns the best rate at FP32 accuracy, from the rates of the FMA pipes and of the FP16 tensor cores.
    ///
    /// Each FP32 factor can be split into two FP16 halves. Three of the four partial products keep FP32's accuracy
    /// (Ootomo and Yokota, Recovering single precision accuracy from Tensor Cores, 2022). 3xTF32 is the same method at
    /// half the rate.
    pub fn f32_peak(fma_flops: f64, f16_flops: f64) -> f64 {
        fma_flops.max(f16_flops / 3.0)
    }

    /// Returns the arithmetic peak for a dtype in a compute mode, in FLOP/s.
    pub fn flops(&self, dtype: Dtype, compute: Compute) -> f64 {
        match dtype {
            // Tensor cores multiply TF32 at half of the FP16 rate on every GPU that has it, sm_80 to sm_90
            // (architecture whitepapers).
            Dtype::F32 if compute == Compute::Tf32 => self.f32_flops.max(self.f16_flops / 2.0),
            Dtype::F16 | Dtype::Bf16 => self.f16_flops,
            Dtype::F32 | Dtype::F64 => self.f32_flops,
            // Tensor cores multiply 8-bit numbers at twice the rate of 16-bit ones. No other unit is faster.
            _ => 2.0 * self.f16_flops,
        }
    }
}

impl DeviceInfo {
    /// Returns where the device's times come from.
    pub fn time_source(&self) -> TimeSource {
        self.timing.source()
    }

    /// Tells whether the device replays plans, with noise. If so, variants need comparisons.
    pub fn replays(&self) -> bool {
        self.timing.replays()
    }

    /// Returns the state of the graphs in which the device replays.
    pub fn graphs(&self) -> Graphs {
        self.timing.graphs()
    }

    /// Returns the kind of the device. Winners belong to a kind.
    pub fn key(&self) -> DeviceKey {
        DeviceKey::of(&self.name, self.sms, self.memory_bytes)
    }

    /// Binds the limits that constraints may name: `smem_limit`, `max_threads`, `sms` and `sm`.
    pub fn bind(&self, bindings: &mut Bindings) {
        bindings.insert("smem_limit".to_owned(), i64::try_from(self.smem_limit_bytes).unwrap_or(i64::MAX));
        bindings.insert("max_threads".to_owned(), i64::from(self.max_threads));
        bindings.insert("sms".to_owned(), i64::from(self.sms));
        bindings.insert("sm".to_owned(), i64::from(self.sm));
    }

    /// Returns the limits of an architecture whose device is not present, for compiling and for checking constraints.
    ///
    /// Shared-memory limits are those of the CUDA C++ Programming Guide's table "Technical Specifications per Compute
    /// Capability". No time is ever derived from these limits.
    pub fn of_arch(arch: &str) -> Result<Self, Error> {
        let (name, sm, sms, smem_kib) = match arch {
            "sm_80" => ("A100 (not present)", 80, 108, 163),
            "sm_86" => ("A10 (not present)", 86, 72, 99),
            "sm_89" => ("L4 (not present)", 89, 58, 99),
            "sm_90" | "sm_90a" => ("H200 (not present)", 90, 132, 227),
            _ => return Err(error!("architecture `{arch}` is not known; use sm_80, sm_86, sm_89, sm_90 or sm_90a")),
        };
        Ok(Self {
            id: format!("arch:{arch}"),
            name: name.to_owned(),
            sm,
            arch: arch.to_owned(),
            sms,
            smem_limit_bytes: smem_kib * 1024,
            max_threads: 1024,
            l2_bytes: 40 << 20,
            memory_bytes: 16 << 30,
            driver: None,
            uuid: None,
            timing: TimingMode::Modelled,
            peaks: Peaks::derived(sm, sms, 1_700_000.0, 2_600_000.0, 5120.0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_of_timing_is_recorded_as_two_keys_and_read_from_records_that_lack_one() {
        for (timing, source, replays) in [
            (TimingMode::Measured(Graphs::Alone), "measured", true),
            (TimingMode::Measured(Graphs::AmongOthers), "measured", true),
            (TimingMode::Modelled, "modelled", false),
            (TimingMode::Simulated, "modelled", true),
            (TimingMode::Recorded, "recorded", false),
        ] {
            let device = DeviceInfo { timing, ..DeviceInfo::of_arch("sm_90a").unwrap() };
            let mut recorded = serde_json::to_value(&device).unwrap();
            assert_eq!((&recorded["time_source"], &recorded["replays"]), (&source.into(), &replays.into()));
            assert_eq!(serde_json::from_value::<DeviceInfo>(recorded.clone()).unwrap(), device);
            recorded.as_object_mut().unwrap().remove("replays");
            let early: DeviceInfo = serde_json::from_value(recorded.clone()).unwrap();
            assert_eq!(early.time_source(), timing.source());
            assert_eq!(early.replays(), source == "measured", "early records are of no test device");
            recorded.as_object_mut().unwrap().remove("graphs");
            let earlier: DeviceInfo = serde_json::from_value(recorded).unwrap();
            assert_eq!(earlier.graphs(), Graphs::Alone);
        }
    }
}
