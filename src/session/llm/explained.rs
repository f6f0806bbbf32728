//! Findings of the diagnosis about a variant, as prompts tell them. Pure.

use std::fmt::Write;

use crate::agent::SearchContext;
use crate::domain::history::Finished;
use crate::domain::proposal::finding::Finding;
use crate::session::evidence::findings::{self, Evidence};
use crate::session::state::SessionState;

/// Returns the findings about a variant on a case, by what its own run has counted.
pub(in crate::session) fn findings_of(
    state: &SessionState,
    context: &SearchContext<'_>,
    finished: &Finished,
    case: &str,
) -> Vec<Finding> {
    let Ok(case) = context.workload.case(case) else { return Vec::new() };
    let (workload, device) = (context.workload, context.device);
    let family = context.family(&finished.family);
    let plan = family.map(|family| family.plan(&finished.params, case, workload.op, workload.dtype, device));
    let Some(Ok(plan)) = plan else { return Vec::new() };
    let time = finished.times.iter().find(|time| time.case == case.name);
    let profile = time.and_then(|time| time.profile.as_ref());
    findings::of_variant(state, finished.iteration, case, Evidence { plan: &plan, kernels: &[], profile })
}

/// Writes a finding with its evidence.
pub(super) fn told(finding: &Finding) -> String {
    let Finding { case, family, cause, mechanism, evidence, confidence, gain, remedies, .. } = finding;
    let mut text = format!(
        "- {case} (`{family}`): {cause} (confidence {}, estimated gain {gain:.2}x): {mechanism}.\n",
        confidence.name()
    );
    for one in evidence {
        let side = if one.supports { "for" } else { "against" };
        let _ = writeln!(text, "  - {side}: {} ({})", one.text, one.source.name());
    }
    for remedy in remedies.iter().take(1) {
        let _ = writeln!(text, "  - the rules would: {}", remedy.text);
    }
    text
}
