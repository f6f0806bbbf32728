//! Groups the findings of a diagnosis. A family shows the same pathology in many iterations.

use super::contract;
use crate::domain::finding::Finding;

/// Makes one finding per rule and family, with the worst evidence.
pub(super) fn group(findings: &[Finding]) -> Vec<contract::Finding> {
    let mut groups: Vec<(&Finding, u64)> = Vec::new();
    for finding in findings {
        match groups.iter_mut().find(|(worst, _)| worst.rule == finding.rule && worst.family == finding.family) {
            Some((worst, iterations)) => {
                *iterations += 1;
                if finding.severity > worst.severity {
                    *worst = finding;
                }
            }
            None => groups.push((finding, 1)),
        }
    }
    let to_contract = |(worst, iterations): (&Finding, u64)| contract::Finding {
        rule: worst.rule,
        family: worst.family.clone(),
        iterations,
        evidence: worst.evidence.clone(),
    };
    groups.into_iter().map(to_contract).collect()
}
