//! Diagnoses from measurements what is slow and why.

mod counted;

use crate::domain::device::DeviceInfo;
use crate::domain::finding::Finding;
use crate::domain::floor::floor_ns;
use crate::domain::history::{Finished, History};
use crate::domain::ids::CaseName;
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
    let headroom = workload
        .cases
        .iter()
        .filter_map(|case| {
            let (fastest, best_ns) = history.fastest(&case.name)?;
            let ctas = fastest.times.iter().find(|time| time.case == case.name).map_or(0, |time| time.ctas);
            Some(Headroom { case: case.name.clone(), best_ns, floor_ns: floor_ns(workload, case, device), ctas })
        })
        .collect();
    Diagnosis { headroom }
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
    let mut worst: Option<Finding> = None;
    for small in &finished.times {
        for large in finished.times.iter().filter(|large| large.ctas == small.ctas) {
            // The workload may have lost a case since the measurement. Such a case is skipped.
            let (Ok(more), Ok(less)) = (workload.case(&large.case), workload.case(&small.case)) else { continue };
            let grows = |amount: &dyn Fn(&Case) -> f64| amount(more) / amount(less);
            let work = grows(&|case| workload.op.flop(&case.dims));
            let independent = grows(&|case| outputs(workload, case));
            let slowdown = large.median_ns / small.median_ns;
            let idle = large.ctas * 2 <= u64::from(device.sms);
            let shows = work >= 4.0 && independent >= 4.0 && slowdown >= 0.5 * work && idle;
            if !shows || worst.as_ref().is_some_and(|worst| worst.severity >= work) {
                continue;
            }
            let evidence = format!(
                "from {} to {} the work grows {work:.0}-fold and the time {slowdown:.1}-fold, but the grid stays at \
                 {} blocks on {} SMs: independent work runs sequentially inside the blocks instead of in parallel \
                 across the grid",
                small.case, large.case, large.ctas, device.sms
            );
            let (iteration, family) = (finished.iteration, finished.family.clone());
            worst = Some(Finding { iteration, family, rule: "serialised-grid", severity: work, evidence });
        }
    }
    worst
}

fn outputs(workload: &Workload, case: &Case) -> f64 {
    let tensors = workload.op.tensors(&case.dims, workload.dtype);
    let outputs = tensors.iter().filter(|tensor| tensor.role == TensorRole::Output);
    outputs.map(|tensor| tensor.elements() as f64).sum()
}
