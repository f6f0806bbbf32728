//! Findings from a virtual GPU's counts: pathologies that a time alone does not explain.

use crate::domain::finding::Finding;
use crate::domain::history::Finished;
use crate::domain::profile::LaunchProfile;

/// A rule about counts: its name, its severity and its evidence. The severity is `None` if all is well.
struct Rule {
    name: &'static str,
    severity: fn(&LaunchProfile) -> Option<f64>,
    evidence: fn(&LaunchProfile) -> String,
}

/// The thresholds separate waste from what the best kernels cannot avoid, such as a half-empty last tile.
const RULES: [Rule; 4] = [
    Rule {
        name: "bank-conflicts",
        severity: |launch| launch.shared.excess().filter(|excess| *excess >= 1.5),
        evidence: |launch| {
            let excess = launch.shared.excess().unwrap_or(1.0);
            format!(
                "takes {excess:.1} times as many shared memory wavefronts as its data needs because of bank \
                 conflicts"
            )
        },
    },
    Rule {
        name: "scattered-access",
        severity: |launch| launch.global().excess().filter(|excess| *excess >= 2.0),
        evidence: |launch| {
            let excess = launch.global().excess().unwrap_or(1.0);
            format!(
                "moves {excess:.1} times as many global memory sectors as its data needs because its accesses are \
                 scattered"
            )
        },
    },
    Rule {
        name: "idle-lanes",
        severity: |launch| (launch.active_lanes < 16.0).then(|| 32.0 / launch.active_lanes.max(1.0)),
        evidence: |launch| {
            let divergent = 100.0 * launch.divergence();
            format!("has {:.1} of 32 lanes active, and {divergent:.0}% of its branches diverge", launch.active_lanes)
        },
    },
    Rule {
        name: "local-memory",
        severity: |launch| {
            (launch.local.moved > 0).then(|| launch.local.moved as f64 / launch.warp_instructions as f64)
        },
        evidence: |launch| {
            let each = launch.local.moved as f64 / launch.warp_instructions as f64;
            format!(
                "moves {each:.2} sectors of local memory per instruction: it has arrays that are indexed by \
                 variables, or that are too large for registers"
            )
        },
    },
];

/// Returns an iteration's findings, each rule for its worst case.
pub(super) fn findings(finished: &Finished) -> Vec<Finding> {
    RULES.iter().filter_map(|rule| worst(rule, finished)).collect()
}

fn worst(rule: &Rule, finished: &Finished) -> Option<Finding> {
    let longest = finished.times.iter().filter_map(|time| Some((time, time.profile.as_ref()?.longest()?)));
    let shown = longest.filter_map(|(time, launch)| Some((time, launch, (rule.severity)(launch)?)));
    let (time, launch, severity) = shown.max_by(|a, b| a.2.total_cmp(&b.2))?;
    Some(Finding {
        iteration: finished.iteration,
        family: finished.family.clone(),
        rule: rule.name,
        severity,
        evidence: format!("on {}, `{}` {}", time.case, launch.kernel, (rule.evidence)(launch)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::history::CaseTime;
    use crate::domain::hypothesis::{Hypothesis, Reference};
    use crate::domain::ids::IterationId;
    use crate::domain::origin::{Origin, Purpose};
    use crate::domain::profile::tests::launch;
    use crate::domain::profile::{Profile, Units};
    use crate::domain::variant::{Params, VariantHash};

    fn finished(launches: Vec<LaunchProfile>) -> Finished {
        let time = |launch| CaseTime {
            case: "b1".into(),
            median_ns: 1000.0,
            ctas: 1,
            profile: Some(Profile { launches: vec![launch], checked_on: None }),
            screened_only: false,
        };
        Finished {
            iteration: IterationId(7),
            purpose: Purpose::Screening,
            origin: Origin::FamilyDefault,
            family: "tiled".to_owned(),
            params: Params::default(),
            hash: VariantHash::of(""),
            hypothesis: Hypothesis::without_claim(String::new(), String::new(), "b1".into(), Reference::Incumbent),
            times: launches.into_iter().map(time).collect(),
        }
    }

    #[test]
    fn conflicts_of_banks_are_found_where_they_are_worst() {
        let mild = LaunchProfile { shared: Units { moved: 2000, ideal: 1000 }, ..launch("mild", 900.0) };
        let found = findings(&finished(vec![mild, launch("bad", 900.0)]));
        let told: Vec<_> = found.iter().map(|finding| format!("{}: {}", finding.rule, finding.evidence)).collect();
        insta::assert_snapshot!(told.join("\n"), @"bank-conflicts: on b1, `bad` takes 32.0 times as many shared memory wavefronts as its data needs because of bank conflicts");
    }

    #[test]
    fn lanes_sectors_and_spills_are_found_and_a_clean_launch_shows_nothing() {
        let clean = LaunchProfile { shared: Units { moved: 1000, ideal: 1000 }, ..launch("clean", 900.0) };
        assert_eq!(findings(&finished(vec![clean.clone()])), []);
        let poor = LaunchProfile {
            active_lanes: 4.0,
            global_loads: Units { moved: 8000, ideal: 1000 },
            local: Units { moved: 5000, ideal: 5000 },
            ..clean
        };
        let rules: Vec<_> = findings(&finished(vec![poor])).into_iter().map(|finding| finding.rule).collect();
        assert_eq!(rules, ["scattered-access", "idle-lanes", "local-memory"]);
    }
}
