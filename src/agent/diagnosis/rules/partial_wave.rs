//! A last wave of blocks that leaves multiprocessors idle.
//!
//! waves = blocks / (SMs * blocks per SM); gain = ceil(waves) / waves, or that of the model

use super::{Found, MIN_GAIN, Rule, modelled, supports, without};
use crate::agent::diagnosis::remedy;
use crate::agent::diagnosis::subject::Subject;
use crate::domain::code::profile::Cause;
use crate::domain::family::plan::LaunchPlan;
use crate::domain::proposal::finding::{Confidence, EvidenceSource};
use crate::domain::text::counted::counted;

pub(super) const RULE: Rule = Rule {
    name: "partial-wave",
    mechanism: "the blocks of the last wave keep some multiprocessors busy while the others wait for the end",
    kernel_change: |_| "run one wave of persistent blocks that take tiles from a queue",
    find,
};

fn find(subject: &Subject<'_>) -> Option<Found> {
    let per_sm = match subject.longest() {
        Some(launch) => launch.blocks_per_sm,
        None => subject.occupancy()?.blocks,
    };
    let (ctas, places) = (subject.launch()?.ctas() as f64, f64::from(subject.device.sms * per_sm.max(1)));
    let waves = ctas / places;
    if waves <= 1.0 {
        return None;
    }
    let modelled_gain = subject.gain_without(Cause::PartialWave);
    let gain = modelled_gain.unwrap_or(waves.ceil() / waves);
    if gain < MIN_GAIN {
        return None;
    }
    let mut evidence = vec![supports(
        EvidenceSource::Launch,
        format!("{ctas} blocks need {waves:.2} waves of {places} places, and so {:.0} rounds", waves.ceil()),
    )];
    evidence.extend(modelled_gain.map(|gain| without("the partial wave", gain)));
    let full = |plan: &LaunchPlan| {
        let waves = plan.ctas() as f64 / places;
        waves / waves.ceil()
    };
    let blocks = |plan: &LaunchPlan| {
        format!("{}, {:.2} waves", counted(plan.ctas() as usize, "block"), plan.ctas() as f64 / places)
    };
    Some(Found {
        cause: format!(
            "the last of {:.0} waves of blocks fills {:.0}% of the device",
            waves.ceil(),
            100.0 * waves.fract()
        ),
        evidence,
        confidence: if modelled_gain.is_some() { modelled(subject) } else { Confidence::Low },
        gain,
        remedies: remedy::by_plan(subject, full, blocks),
    })
}
