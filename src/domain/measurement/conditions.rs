//! Ensures that only comparable times are compared.

use serde::{Deserialize, Serialize};

use crate::domain::compute::Compute;
use crate::domain::device::gpu_state::{Graphs, Load};
use crate::domain::device::regime::Regime;
use crate::domain::device::{DeviceInfo, TimeSource};
use crate::domain::ids::CaseName;
use crate::domain::op::{Dims, Dtype};
use crate::domain::statistics::timing::Timing;
use crate::domain::statistics::{Ratio, ratio_interval};
use crate::domain::workload::{Case, Workload};

/// The conditions under which a time was taken. Two times may be compared if all fields are equal.
///
/// The first notebooks claimed 41x because they compared two workloads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conditions {
    /// Name of the workload.
    pub workload: String,
    /// Name of the case.
    pub case: CaseName,
    /// The case's dimensions, because the same name can be given to another shape.
    pub dims: Dims,
    /// Element type of the tensors.
    pub dtype: Dtype,
    /// The precision in which kernels may multiply.
    #[serde(default, skip_serializing_if = "Compute::is_dtype")]
    pub compute: Compute,
    /// Product name of the device.
    pub device: String,
    /// State of the caches.
    pub regime: Regime,
    /// Whether the time is measured or modelled.
    pub time_source: TimeSource,
    /// State of the graphs of the process.
    #[serde(default, skip_serializing_if = "Graphs::is_alone")]
    pub graphs: Graphs,
    /// How busy the device was.
    #[serde(default, skip_serializing_if = "Load::is_bursts")]
    pub load: Load,
}

/// The differences between two conditions, one clause each.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("these times are not comparable: {}", .0.join("; "))]
pub struct NotComparable(pub Vec<String>);

impl Conditions {
    /// Returns the conditions of a case of a workload on a device.
    pub fn of(workload: &Workload, case: &Case, device: &DeviceInfo) -> Self {
        Self {
            workload: workload.name.clone(),
            case: case.name.clone(),
            dims: case.dims.clone(),
            dtype: workload.dtype,
            compute: workload.compute,
            device: device.name.clone(),
            regime: case.regime,
            time_source: device.time_source(),
            graphs: device.graphs(),
            load: Load::Bursts,
        }
    }

    /// Checks that times under these and the other conditions may be compared. The error names what differs.
    pub fn like(&self, other: &Self) -> Result<(), NotComparable> {
        let mut differences = Vec::new();
        let mut differ = |what: &str, a: &str, b: &str| {
            if a != b {
                differences.push(format!("{what} is {a} here and {b} there"));
            }
        };
        differ("the workload", &self.workload, &other.workload);
        differ("the case", &self.case, &other.case);
        if self.case == other.case {
            differ("the case's shape", &shape(&self.dims), &shape(&other.dims));
        }
        differ("the dtype", self.dtype.name(), other.dtype.name());
        differ("the compute mode", self.compute.name(), other.compute.name());
        differ("the device", &self.device, &other.device);
        differ("the cache regime", self.regime.name(), other.regime.name());
        differ("the time source", self.time_source.name(), other.time_source.name());
        differ("the state of the graphs", self.graphs.name(), other.graphs.name());
        differ("the load", self.load.name(), other.load.name());
        if differences.is_empty() { Ok(()) } else { Err(NotComparable(differences)) }
    }
}

/// A recorded time with everything that it depends on.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedTime {
    /// The conditions under which it was taken.
    pub conditions: Conditions,
    /// The name of the timed kernel or program, for display.
    pub name: String,
    /// The time. It may lack its samples: the median and its interval are enough.
    pub timing: Timing,
}

/// Divides the second recorded time by the first. Above 1, the first is faster. This is the only way to divide two
/// recorded times.
///
/// The two were not taken in turns. Changes of the machine in between affect the ratio and are not in its interval. A
/// comparison is the better answer where both can still be run.
pub fn compare(a: &RecordedTime, b: &RecordedTime) -> Result<Ratio, NotComparable> {
    a.conditions.like(&b.conditions)?;
    let (a, b) = (&a.timing, &b.timing);
    Ok(Ratio {
        estimate: b.median_ns / a.median_ns,
        interval: ratio_interval((b.median_ns, b.interval_ns), (a.median_ns, a.interval_ns)),
    })
}

fn shape(dims: &Dims) -> String {
    let mut sizes: Vec<String> = dims.iter().map(|(name, size)| format!("{name}={size}")).collect();
    sizes.sort();
    sizes.join(" ")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::domain::statistics::Interval;

    /// An example, also for tests of other modules.
    pub(crate) fn conditions() -> Conditions {
        Conditions {
            workload: "attention-fp16-d64".to_owned(),
            case: "s512".into(),
            dims: [("Sq", 512), ("Skv", 512)].map(|(name, size)| (name.to_owned(), size)).into_iter().collect(),
            dtype: Dtype::F16,
            compute: Compute::Dtype,
            device: "NVIDIA H200".to_owned(),
            regime: Regime::Warm,
            time_source: TimeSource::Measured,
            graphs: Graphs::AmongOthers,
            load: Load::Bursts,
        }
    }

    fn figure(conditions: Conditions, ns: f64) -> RecordedTime {
        let interval_ns = Interval { lo: 0.99 * ns, hi: 1.01 * ns };
        RecordedTime { conditions, name: "a kernel".to_owned(), timing: Timing { interval_ns, ..Timing::modelled(ns) } }
    }

    #[test]
    fn like_times_are_divided_and_the_interval_is_that_of_both() {
        let ratio = compare(&figure(conditions(), 20.0), &figure(conditions(), 30.0)).unwrap();
        assert_eq!(ratio.estimate, 1.5);
        let Interval { lo, hi } = ratio.interval;
        // 1% for each side: the root of twice its square.
        assert!((lo / 1.5 - (-0.01_f64 * 2.0_f64.sqrt()).exp()).abs() < 1e-4, "{lo}");
        assert!((hi / 1.5 - (0.01_f64 * 2.0_f64.sqrt()).exp()).abs() < 1e-4, "{hi}");
    }

    /// Changes one field at a time and expects the one clause that names it.
    #[test]
    fn a_difference_in_any_condition_is_refused_by_name() {
        let refusal = |change: fn(&mut Conditions)| {
            let mut there = conditions();
            change(&mut there);
            compare(&figure(conditions(), 20.0), &figure(there, 30.0)).unwrap_err().0.join("; ")
        };
        let refusals = [
            refusal(|there| there.workload = "attention-fp32-d64".to_owned()),
            refusal(|there| there.case = "s1024".into()),
            refusal(|there| there.dims["Skv"] = 2048),
            refusal(|there| there.dtype = Dtype::F32),
            refusal(|there| there.compute = Compute::Tf32),
            refusal(|there| there.device = "NVIDIA L4".to_owned()),
            refusal(|there| there.regime = Regime::Cold),
            refusal(|there| there.time_source = TimeSource::Modelled),
            refusal(|there| there.graphs = Graphs::Alone),
            refusal(|there| there.load = Load::Sustained),
        ];
        insta::assert_snapshot!(refusals.join("\n"), @r"
        the workload is attention-fp16-d64 here and attention-fp32-d64 there
        the case is s512 here and s1024 there
        the case's shape is Skv=512 Sq=512 here and Skv=2048 Sq=512 there
        the dtype is f16 here and f32 there
        the compute mode is dtype here and tf32 there
        the device is NVIDIA H200 here and NVIDIA L4 there
        the cache regime is warm here and cold there
        the time source is measured here and modelled there
        the state of the graphs is among_others here and alone there
        the load is bursts here and sustained there
        ");
    }

    #[test]
    fn conditions_from_before_states_were_recorded_are_alone_and_in_bursts() {
        let mut recorded = serde_json::to_value(conditions()).unwrap();
        assert!(recorded.as_object_mut().unwrap().remove("graphs").is_some() && recorded.get("load").is_none());
        let read: Conditions = serde_json::from_value(recorded).unwrap();
        assert_eq!((read.graphs, read.load), (Graphs::Alone, Load::Bursts));
    }

    #[test]
    fn every_difference_is_named_at_once_and_a_missing_dimension_is_one() {
        let mut there = conditions();
        there.device = "NVIDIA L4".to_owned();
        there.regime = Regime::Cold;
        there.dims.retain(|name, _| name == "Sq");
        let refusal = compare(&figure(conditions(), 20.0), &figure(there, 30.0)).unwrap_err();
        insta::assert_snapshot!(refusal, @"these times are not comparable: the case's shape is Skv=512 Sq=512 here and Sq=512 there; the device is NVIDIA H200 here and NVIDIA L4 there; the cache regime is warm here and cold there");
    }
}
