//! The facts that a report needs from the workload, the families and the device.

use std::collections::HashSet;

use crate::agent::prediction::{self, Question};
use crate::domain::claims::mechanism::Mechanism;
use crate::domain::claims::prediction::Prediction;
use crate::domain::device::DeviceInfo;
use crate::domain::family::Family;
use crate::domain::history::History;
use crate::domain::ids::CaseName;
use crate::domain::measurement::conditions::Conditions;
use crate::domain::measurement::floor::{Floor, Limiter, limits};
use crate::domain::proposal::finding::{Finding, Remedy};
use crate::domain::proposal::origin::{Change, Origin};
use crate::domain::record::SessionRecord;
use crate::domain::space::Space;
use crate::domain::variant::Params;
use crate::domain::workload::{Case, Workload};
use crate::report::{CaseFacts, FamilyFacts};

/// Returns the facts of a case.
pub(super) fn of_case(workload: &Workload, case: &Case, device: &DeviceInfo) -> CaseFacts {
    let floor = Floor::of(workload, case, device);
    let limits = limits((workload.op, workload.dtype, workload.compute), &case.dims, case.regime, device);
    let ns = |of: Limiter| limits.iter().find(|(limiter, _)| *limiter == of).map_or(0.0, |(_, ns)| *ns);
    let from_memory = ns(Limiter::Memory) > ns(Limiter::L2);
    let (bytes_from, bandwidth) = match from_memory {
        true => (Limiter::Memory, device.peaks.memory_bytes_per_s),
        false => (Limiter::L2, device.peaks.l2_bytes_per_s),
    };
    CaseFacts {
        case: case.name.clone(),
        conditions: Conditions::of(workload, case, device),
        floor_ns: floor.ns,
        flop: workload.op.flop(&case.dims),
        peak_flops: device.peaks.flops(workload.dtype, workload.compute),
        fma_share: workload.compute.fma_share(workload.dtype),
        bytes: workload.op.bytes(&case.dims, workload.dtype),
        bytes_from,
        bandwidth,
        floor_limiter: floor.limiter,
        launch_ns: ns(Limiter::Launch),
    }
}

/// Returns the facts of the families that compute the workload's op.
pub(super) fn of_families(families: &[Family], workload: &Workload, record: &SessionRecord) -> Vec<FamilyFacts> {
    let mut timed: HashSet<(&str, &CaseName)> = HashSet::new();
    for iteration in &record.iterations {
        timed.extend(iteration.measurements.iter().map(|found| (iteration.family.as_str(), &found.case)));
    }
    let of_op = families.iter().filter(|family| family.op == workload.op.name());
    let facts = of_op.map(|family| FamilyFacts {
        name: family.name.clone(),
        about: family.about.clone(),
        lines: family.template.lines().filter(|line| !line.trim().is_empty()).count() as u64,
        parameters: family.params.iter().map(|(name, param)| (name.clone(), param.about.clone())).collect(),
        pipelining: of_mechanism(family, Mechanism::Pipelining),
        reads_by_descriptor: family.template.contains("wgmma"),
        excluded: workload
            .cases
            .iter()
            // What was timed is not excluded. This saves a search through the space.
            .filter(|case| !timed.contains(&(family.name.as_str(), &case.name)))
            .filter_map(|case| Some((case.name.clone(), excluded(family, workload, case, &record.environment.device)?)))
            .collect(),
    });
    facts.collect()
}

/// Returns the parameters with a mechanism.
fn of_mechanism(family: &Family, mechanism: Mechanism) -> Vec<String> {
    let parameters = family.params.iter().filter(|(_, param)| param.mechanism == mechanism);
    parameters.map(|(name, _)| name.clone()).collect()
}

/// Returns why a family cannot compute a case. None if it can, or if its manifest is wrong.
fn excluded(family: &Family, workload: &Workload, case: &Case, device: &DeviceInfo) -> Option<Vec<String>> {
    if let Some(reason) = family.excluded_by_compute(workload) {
        return Some(vec![reason]);
    }
    let space = Space { family, case, dtype: workload.dtype, device };
    space.excluded().unwrap_or_else(|problem| {
        tracing::warn!("{}: {problem}", family.name);
        None
    })
}

/// Tells whether a family, by name, can run a configuration on a case, by name.
pub(super) fn is_valid(
    families: &[Family],
    workload: &Workload,
    device: &DeviceInfo,
    (family, params, case): (&str, &Params, &str),
) -> bool {
    let family = families.iter().find(|one| one.name == family && one.fits(workload, device));
    let case = workload.cases.iter().find(|one| *one.name == *case);
    family.zip(case).is_some_and(|(family, case)| {
        Space { family, case, dtype: workload.dtype, device }.contains(params).unwrap_or(false)
    })
}

/// Predicts the speed-up of a remedy over the variant that a finding explains, as the proposer would.
pub(super) fn predict(
    families: &[Family],
    history: &History,
    finding: &Finding,
    remedy: &Remedy,
) -> Option<Prediction> {
    let family = families.iter().find(|family| family.name == remedy.family)?;
    let reference = history.iteration(finding.iteration?)?;
    let changes = match family.name == reference.family {
        true => Change::between(&reference.params, remedy.params.as_ref()?),
        false => Vec::new(),
    };
    let origin = Origin::Remedy { rule: finding.rule.to_owned(), changes };
    let params = remedy.params.as_ref()?;
    let question = Question { family, params, case: &finding.case, reference, origin: &origin, built: None };
    prediction::predict(history, families, &question)
}
