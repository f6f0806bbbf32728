//! Watches the GPU through NVML, the library of `nvidia-smi`, while times are measured.
//!
//! optloop only reads: it never sets clocks, power limits or modes. They belong to the machine's owner and outlive a
//! session. NVML is loaded at run time. If it is missing or does not know the device, there is no monitor. One sentence
//! then says why, and everything else works without it.

use std::collections::{BTreeMap, BTreeSet};

use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};

use crate::domain::device::DeviceInfo;
use crate::domain::device::machine::{MachineState, Throttle};
use crate::error::{Result, error};

/// Watches one GPU.
pub struct Monitor {
    nvml: Nvml,
    uuid: String,
}

/// A process that NVML lists on the GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
struct GpuProcess {
    pid: u32,
    name: Option<String>,
    memory_bytes: Option<u64>,
}

/// Returns the numbers of the CUDA devices of this machine, as far as NVML knows. Processes see only those that
/// `CUDA_VISIBLE_DEVICES` lists, and number them from 0.
pub fn gpus() -> Vec<u32> {
    let found = Nvml::init().and_then(|nvml| nvml.device_count()).unwrap_or(0);
    let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
    let listed = visible.map(|list| list.split(',').filter(|device| !device.trim().is_empty()).count());
    (0..listed.and_then(|count| u32::try_from(count).ok()).map_or(found, |count| count.min(found))).collect()
}

impl Monitor {
    /// Finds the device by its UUID. The error says in one sentence why there is no monitoring.
    pub fn open(device: &DeviceInfo) -> Result<Self> {
        let uuid = device.uuid.clone().ok_or_else(|| error!("{} is not a GPU that NVML supports", device.name))?;
        let nvml = Nvml::init().map_err(|error| nvml_problem(&error))?;
        let answered = nvml.device_by_uuid(uuid.as_str()).map(|_| ());
        answered.map_err(|error| error!("NVML does not give access to {} ({uuid}): {error}", device.name))?;
        Ok(Self { nvml, uuid })
    }

    /// Reads clocks, power, temperature and throttling. A figure that NVML refuses is `None`.
    ///
    /// Power is what NVML calls power usage: an average over the last second on most GPUs since Ampere.
    pub fn state(&self) -> MachineState {
        let Some(device) = self.device() else { return MachineState::default() };
        MachineState {
            sm_clock_mhz: device.clock_info(Clock::SM).ok(),
            memory_clock_mhz: device.clock_info(Clock::Memory).ok(),
            power_w: device.power_usage().ok().map(|milliwatts| f64::from(milliwatts) / 1e3),
            temperature_c: device.temperature(TemperatureSensor::Gpu).ok(),
            throttle: device.current_throttle_reasons().map(throttle).unwrap_or_default(),
        }
    }

    /// Returns the energy that the GPU has used since the driver was loaded, in millijoules; `None` if NVML refuses it.
    pub fn energy_mj(&self) -> Option<u64> {
        self.device()?.total_energy_consumption().ok()
    }

    /// Names the processes on the GPU other than our `own`, for display: `python3 (pid 17, 1.2 GiB)`.
    ///
    /// `own` are the processes that already hold the GPU for us, such as a worker that has opened its device. Their
    /// descendants count as ours, too, because a baseline's command may be a wrapper. In a container NVML may list
    /// nothing, or process IDs of another namespace. Then none of our processes is listed, so only the count
    /// distinguishes other processes from ours. If more processes are listed than we have, the surplus is reported
    /// without names.
    pub fn others(&self, own: &[u32]) -> Vec<String> {
        others(&self.listed(), own, parent)
    }

    fn device(&self) -> Option<Device<'_>> {
        self.nvml.device_by_uuid(self.uuid.as_str()).ok()
    }

    /// Lists the processes that hold a context, for compute or for graphics, each once.
    fn listed(&self) -> Vec<GpuProcess> {
        let Some(device) = self.device() else { return Vec::new() };
        let compute = device.running_compute_processes().unwrap_or_default();
        let graphics = device.running_graphics_processes().unwrap_or_default();
        let mut memory_by_pid: BTreeMap<u32, Option<u64>> = BTreeMap::new();
        for process in compute.into_iter().chain(graphics) {
            let memory_bytes = match process.used_gpu_memory {
                UsedGpuMemory::Used(bytes) => Some(bytes),
                UsedGpuMemory::Unavailable => None,
            };
            let known = memory_by_pid.entry(process.pid).or_default();
            *known = (*known).max(memory_bytes);
        }
        let name = |pid| self.nvml.sys_process_name(pid, NAME_BYTES).ok();
        memory_by_pid.into_iter().map(|(pid, memory_bytes)| GpuProcess { pid, name: name(pid), memory_bytes }).collect()
    }
}

/// The longest process name to ask for. It is a path, of which the last part is shown.
const NAME_BYTES: usize = 256;

/// How many ancestors of a process are followed. Process IDs are reused, so the chain could become a cycle while it is
/// read.
const MAX_ANCESTORS: usize = 64;

/// Returns one sentence on why NVML cannot be used.
fn nvml_problem(error: &NvmlError) -> String {
    match error {
        NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound => {
            "NVML is not installed (libnvidia-ml.so.1 was not found)".to_owned()
        }
        NvmlError::NoPermission => "this user has no permission to use NVML".to_owned(),
        error => format!("NVML cannot be initialized: {error}"),
    }
}

/// Maps NVML's throttle reasons to those that matter here.
///
/// An idle GPU, application clocks, a synchronised boost group and a display are not throttling. The GPU then runs at
/// the requested clocks.
fn throttle(reasons: ThrottleReasons) -> BTreeSet<Throttle> {
    let mapped = [
        (ThrottleReasons::SW_POWER_CAP, Throttle::PowerCap),
        (ThrottleReasons::SW_THERMAL_SLOWDOWN, Throttle::Thermal),
        (ThrottleReasons::HW_THERMAL_SLOWDOWN, Throttle::Thermal),
        (ThrottleReasons::HW_SLOWDOWN, Throttle::Hardware),
        (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, Throttle::Hardware),
    ];
    mapped.into_iter().filter(|(reason, _)| reasons.contains(*reason)).map(|(_, throttle)| throttle).collect()
}

/// Returns a process's parent, where the system reports it.
fn parent(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

/// Names the processes that are not ours. See [`Monitor::others`].
fn others(listed: &[GpuProcess], own: &[u32], parent: impl Fn(u32) -> Option<u32>) -> Vec<String> {
    let is_ours = |process: &&GpuProcess| {
        let mut line = std::iter::successors(Some(process.pid), |pid| parent(*pid)).take(MAX_ANCESTORS);
        line.any(|pid| own.contains(&pid))
    };
    let (ours, theirs): (Vec<&GpuProcess>, Vec<&GpuProcess>) = listed.iter().partition(is_ours);
    if own.is_empty() || !ours.is_empty() {
        return theirs.into_iter().map(GpuProcess::describe).collect();
    }
    match listed.len().saturating_sub(own.len()) {
        0 => Vec::new(),
        1 => vec!["a process outside this container".to_owned()],
        more => vec![format!("{more} processes outside this container")],
    }
}

impl GpuProcess {
    fn describe(&self) -> String {
        let name = self.name.as_deref().and_then(|name| name.rsplit('/').next()).filter(|name| !name.is_empty());
        let name = name.unwrap_or("a process");
        match self.memory_bytes {
            Some(bytes) => format!("{name} (pid {}, {:.1} GiB)", self.pid, bytes as f64 / f64::from(1 << 30)),
            None => format!("{name} (pid {})", self.pid),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(pid: u32, name: &str, memory_bytes: Option<u64>) -> GpuProcess {
        GpuProcess { pid, name: Some(name.to_owned()), memory_bytes }
    }

    #[test]
    fn only_reasons_that_lower_the_clocks_are_throttling() {
        let none = ThrottleReasons::GPU_IDLE
            | ThrottleReasons::APPLICATIONS_CLOCKS_SETTING
            | ThrottleReasons::SYNC_BOOST
            | ThrottleReasons::DISPLAY_CLOCK_SETTING;
        assert_eq!(throttle(none), BTreeSet::new());
        assert_eq!(throttle(none | ThrottleReasons::SW_POWER_CAP), [Throttle::PowerCap].into());
        assert_eq!(throttle(ThrottleReasons::SW_THERMAL_SLOWDOWN), [Throttle::Thermal].into());
        assert_eq!(throttle(ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN), [Throttle::Hardware].into());
        // The board sets the general bit together with the specific one.
        let hot = ThrottleReasons::HW_SLOWDOWN | ThrottleReasons::HW_THERMAL_SLOWDOWN;
        assert_eq!(throttle(hot), [Throttle::Thermal, Throttle::Hardware].into());
    }

    #[test]
    fn our_own_processes_are_not_reported() {
        let all = [
            listed(17, "/usr/bin/python3", Some(1_288_490_189)),
            listed(40, "/usr/bin/optloop", Some(1 << 30)),
            GpuProcess { pid: 41, name: None, memory_bytes: None },
        ];
        let others = |listed: &[GpuProcess], own: &[u32]| others(listed, own, |_| None);
        assert_eq!(others(&all, &[40]), ["python3 (pid 17, 1.2 GiB)", "a process (pid 41)"]);
        assert_eq!(others(&all[1..2], &[40, 99]), Vec::<String>::new());
        assert_eq!(others(&all[..1], &[]), ["python3 (pid 17, 1.2 GiB)"]);
        assert_eq!(others(&[], &[40]), Vec::<String>::new());
    }

    /// The baseline's command is process 40, a script that started 41, which started Python as 42.
    #[test]
    fn children_of_our_processes_are_ours() {
        let all = [listed(42, "python3", None), listed(17, "python3", None)];
        let parent = |pid| (pid > 1).then(|| if pid == 17 { 1 } else { pid - 1 });
        assert_eq!(others(&all, &[40], parent), ["python3 (pid 17)"]);
        assert_eq!(others(&all[..1], &[40], Some), Vec::<String>::new(), "a circle ends, and tells nothing");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_parent_of_a_process_is_known_on_linux() {
        assert_eq!(parent(std::process::id()), Some(std::os::unix::process::parent_id()));
        assert_eq!(parent(u32::MAX), None);
    }

    /// The worker is process 40 here and 91540 to NVML.
    #[test]
    fn numbers_of_another_namespace_are_only_counted() {
        let all = [listed(91_540, "", None), listed(2_200, "", None), listed(2_300, "", None)];
        let others = |listed: &[GpuProcess], own: &[u32]| others(listed, own, |_| None);
        assert_eq!(others(&all[..1], &[40]), Vec::<String>::new());
        assert_eq!(others(&all[..2], &[40]), ["a process outside this container"]);
        assert_eq!(others(&all, &[40]), ["2 processes outside this container"]);
    }

    #[test]
    fn a_device_without_a_uuid_is_not_watched() {
        let device = DeviceInfo::of_arch("sm_90a").unwrap();
        let Err(reason) = Monitor::open(&device) else { panic!("it was found") };
        insta::assert_snapshot!(reason, @"H200 (not present) is not a GPU that NVML supports");
    }

    /// Holds on any machine: without the library, without permission, or with another GPU.
    #[test]
    fn a_missing_gpu_is_reported_in_one_sentence() {
        let uuid = Some("GPU-00000000-0000-0000-0000-000000000000".to_owned());
        let device = DeviceInfo { uuid, ..DeviceInfo::of_arch("sm_90a").unwrap() };
        let Err(reason) = Monitor::open(&device) else { panic!("it was found") };
        let reason = reason.to_string();
        assert!(reason.contains("NVML") && !reason.contains('\n'), "{reason}");
    }
}
