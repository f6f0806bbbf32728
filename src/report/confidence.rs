//! How sure a cause is, with the reason.

use super::contract::Finding;
use crate::domain::finding::EvidenceSource;
use crate::domain::tested::CauseStatus;

/// Says how sure a cause is, and why: `medium confidence: the launch plan shows it, but no experiment removed it`.
pub(super) fn with_reason(found: &Finding) -> String {
    let level = found.confidence.name();
    let Some(strongest) = found.evidence.iter().find(|one| one.supports) else { return format!("{level} confidence") };
    let shown = match strongest.source {
        EvidenceSource::Ablation => "a measurement without its instructions shows it",
        EvidenceSource::HardwareCounters => "hardware counters show it",
        EvidenceSource::VirtualCounters => "the counts of a virtual GPU show it",
        EvidenceSource::Experiment => "an experiment speaks for it",
        EvidenceSource::Times => "times of other cases show it",
        EvidenceSource::Compiler => "the compiler's report shows it",
        EvidenceSource::Launch => "the launch plan shows it",
    };
    let tested = match found.tested.status {
        CauseStatus::Confirmed => ", and an experiment confirmed it",
        CauseStatus::Supported => ", and an experiment supports it",
        CauseStatus::Inconclusive => ", but its experiment changed too much to tell",
        CauseStatus::NotConfirmed => ", but an experiment refuted it",
        CauseStatus::NotTested | CauseStatus::NoExperiment => ", but no experiment removed it",
    };
    format!("{level} confidence: {shown}{tested}")
}
