//! Lets only like be compared with like.

use serde::{Deserialize, Serialize};

use super::contest::Ratio;
use super::device::TimeSource;
use super::evaluation::Timing;
use super::op::{Dims, Dtype};
use super::regime::Regime;
use super::statistics::ratio_interval;

/// Under which a time was taken. Two times may be compared if all of it is the same.
///
/// The 41x that the product's first notebooks claimed came from comparing two workloads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conditions {
    /// Name of the workload.
    pub workload: String,
    /// Name of the case.
    pub case: String,
    /// The case's dimensions: a name alone can be given to another shape.
    pub dims: Dims,
    /// Element type of the tensors.
    pub dtype: Dtype,
    /// Product name of the device.
    pub device: String,
    /// State of the caches.
    pub regime: Regime,
    /// Measured or modelled.
    pub time_source: TimeSource,
}

/// What differs between conditions that were to be compared: one clause a difference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("these are not comparable: {}", .0.join("; "))]
pub struct Unlike(pub Vec<String>);

impl Conditions {
    /// Returns whether times under these and the other conditions may be compared; the error names what differs.
    pub fn like(&self, other: &Self) -> Result<(), Unlike> {
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
        differ("the device", &self.device, &other.device);
        differ("the cache regime", self.regime.name(), other.regime.name());
        differ("the time source", self.time_source.name(), other.time_source.name());
        if differences.is_empty() { Ok(()) } else { Err(Unlike(differences)) }
    }
}

/// A recorded time with all that it depends on.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Under which it was taken.
    pub conditions: Conditions,
    /// Of what it is the time, for people.
    pub name: String,
    /// The time. Its samples may be lost: the median and its interval are enough.
    pub timing: Timing,
}

/// Divides the second recorded time by the first: above 1, the first is the faster. The only way to divide two recorded times.
///
/// The two were not taken in turns, so that whatever changed on the machine in between is in the ratio and not in its
/// interval. A contest is the better answer where both can still be run.
pub fn compare(a: &Figure, b: &Figure) -> Result<Ratio, Unlike> {
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
