//! Diagnoses from measurements why variants are slow.
//!
//! [`diagnose`] is quick, and precedes every proposal. [`findings`] applies the rules to one variant on one case.

mod ablated;
mod alike;
mod bound;
mod experiments;
mod modelled;
mod recorded;
mod remedy;
mod rules;
mod subject;

use std::collections::HashMap;

use crate::domain::device::DeviceInfo;
use crate::domain::history::{Finished, History};
use crate::domain::ids::{CaseName, IterationId};
use crate::domain::measurement::floor::floor_ns;
use crate::domain::proposal::finding::Finding;
use crate::domain::workload::Workload;

pub use bound::Bound;
pub use recorded::{Best, Recorded, of_session, of_variant};
pub use rules::{findings, findings_within, leaves_idle, names};
pub use subject::{Point, Subject};

/// Where time can still be saved, according to a session's history.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Diagnosis {
    /// Each measured case's distance to its floor.
    pub headroom: Vec<Headroom>,
    /// The causes of lost time of the explained variants, the most important of each case first.
    pub findings: Vec<Finding>,
}

/// The distance of a case's fastest variant, confirmed or not, to the floor.
#[derive(Debug, Clone, PartialEq)]
pub struct Headroom {
    /// The case's name.
    pub case: CaseName,
    /// The fastest variant's time, in nanoseconds.
    pub best_ns: f64,
    /// The case's floor, in nanoseconds.
    pub floor_ns: f64,
    /// The number of blocks that the fastest variant launches.
    pub ctas: u64,
}

impl Headroom {
    /// Returns the fastest variant's time as a multiple of the floor.
    pub fn factor(&self) -> f64 {
        self.best_ns / self.floor_ns
    }
}

/// Diagnoses the session so far.
pub fn diagnose(history: &History, workload: &Workload, device: &DeviceInfo) -> Diagnosis {
    // Visits each iteration once, not for each pair of cases. Many cases have the same fastest variant.
    let mut blocks: HashMap<IterationId, HashMap<&str, u64>> = HashMap::new();
    let headroom = workload
        .cases
        .iter()
        .filter_map(|case| {
            let (fastest, best_ns) = history.fastest(&case.name)?;
            let blocks = blocks.entry(fastest.iteration).or_insert_with(|| ctas_by_case(fastest));
            let ctas = blocks.get(case.name.as_str()).copied().unwrap_or(0);
            Some(Headroom { case: case.name.clone(), best_ns, floor_ns: floor_ns(workload, case, device), ctas })
        })
        .collect();
    Diagnosis { headroom, findings: Vec::new() }
}

fn ctas_by_case(finished: &Finished) -> HashMap<&str, u64> {
    finished.times.iter().map(|time| (time.case.as_str(), time.ctas)).collect()
}
