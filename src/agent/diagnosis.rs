//! Diagnoses from measurements what is slow and why.

mod counted;

use std::collections::HashMap;

use crate::domain::device::DeviceInfo;
use crate::domain::finding::Finding;
use crate::domain::floor::floor_ns;
use crate::domain::history::{CaseTime, Finished, History};
use crate::domain::ids::{CaseName, IterationId};
use crate::domain::op::TensorRole;
use crate::domain::workload::{Case, Workload};

/// What a session's history says about where time can still be saved.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Diagnosis {
    /// Each measured case's distance to its floor.
    pub headroom: Vec<Headroom>,
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
    // One look at each iteration, not at each pair of cases. Many cases have the same fastest variant.
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
    Diagnosis { headroom }
}

fn ctas_by_case(finished: &Finished) -> HashMap<&str, u64> {
    finished.times.iter().map(|time| (time.case.as_str(), time.ctas)).collect()
}

/// Returns the pathologies of all measurements, oldest iteration first. It compares every pair of cases of every
/// iteration, so call it at the end of a session, not for every proposal.
pub fn findings(history: &History, workload: &Workload, device: &DeviceInfo) -> Vec<Finding> {
    let of = |finished: &Finished| {
        let mut found: Vec<Finding> = serialised(finished, workload, device).into_iter().collect();
        found.extend(counted::findings(finished));
        found
    };
    history.finished.iter().flat_map(of).collect()
}

/// Finds a variant that does more work with the same number of blocks. The project's original V3 kernel did: it looped
/// over batch and head inside the block. So its time grew 17-fold from B = 1 to B = 8 on an idle GPU.
///
/// The signs hold between two cases with the same number of blocks. The work and the outputs, which are independent of
/// each other, grow at least fourfold. The time grows with the work, and the blocks leave most of the device idle. Work
/// alone is no sign: it also grows with the keys of a query, which a block may well process in sequence.
fn serialised(finished: &Finished, workload: &Workload, device: &DeviceInfo) -> Option<Finding> {
    let sized = sized(finished, workload);
    let mut worst: Option<Finding> = None;
    for small in &sized {
        for large in sized.iter().filter(|large| large.time.ctas == small.time.ctas) {
            let (work, independent) = (large.flop / small.flop, large.outputs / small.outputs);
            let slowdown = large.time.median_ns / small.time.median_ns;
            let idle = large.time.ctas * 2 <= u64::from(device.sms);
            let shows = work >= 4.0 && independent >= 4.0 && slowdown >= 0.5 * work && idle;
            if !shows || worst.as_ref().is_some_and(|worst| worst.severity >= work) {
                continue;
            }
            let evidence = format!(
                "from {} to {} the work grows {work:.0}-fold and the time {slowdown:.1}-fold, but the grid stays at \
                 {} blocks on {} SMs: independent work runs sequentially inside the blocks instead of in parallel \
                 across the grid",
                small.time.case, large.time.case, large.time.ctas, device.sms
            );
            let (iteration, family) = (finished.iteration, finished.family.clone());
            worst = Some(Finding { iteration, family, rule: "serialised-grid", severity: work, evidence });
        }
    }
    worst
}

/// A time with the size of its case.
struct SizedTime<'a> {
    time: &'a CaseTime,
    flop: f64,
    outputs: f64,
}

/// Returns the times of an iteration with their sizes, which are computed once: there may be millions of pairs. The
/// workload may have lost a case since the measurement. Such a case is left out.
fn sized<'a>(finished: &'a Finished, workload: &Workload) -> Vec<SizedTime<'a>> {
    let cases: HashMap<&str, &Case> = workload.cases.iter().map(|case| (case.name.as_str(), case)).collect();
    let of = |time: &'a CaseTime| {
        let case = cases.get(time.case.as_str())?;
        Some(SizedTime { time, flop: workload.op.flop(&case.dims), outputs: outputs(workload, case) })
    };
    finished.times.iter().filter_map(of).collect()
}

fn outputs(workload: &Workload, case: &Case) -> f64 {
    let tensors = workload.op.tensors(&case.dims, workload.dtype);
    let outputs = tensors.iter().filter(|tensor| tensor.role == TensorRole::Output);
    outputs.map(|tensor| tensor.elements() as f64).sum()
}
