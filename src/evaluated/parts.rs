//! What the time of a kernel consists of, beside that of its base.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::domain::code::ablation::{Ablation, Removed, control_ns, time_ns};
use crate::domain::code::profile::Profile;
use crate::domain::device::TimeSource;
use crate::domain::record::CaseRecord;

/// A part of the time of a kernel. Parts overlap, so they do not add up.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Part {
    /// What takes the time: a kind of instruction, or a part of the model of a virtual GPU.
    pub what: String,
    /// The time in microseconds. Measured: how much less the kernel takes without these instructions.
    pub us: f64,
    /// The same of the base. None if it is not known.
    pub base_us: Option<f64>,
    /// Where these times come from.
    pub source: TimeSource,
}

/// What tells the parts of a time.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'a> {
    /// The times without each kind of instruction, the control first.
    pub ablations: &'a [Ablation],
    /// What a virtual GPU counted.
    pub profile: Option<&'a Profile>,
}

impl<'a> Sources<'a> {
    /// Returns what the record of a case has.
    pub fn of(found: &'a CaseRecord) -> Self {
        Self { ablations: &found.ablations, profile: found.profile.as_ref().or(found.explanation.as_ref()) }
    }
}

/// Returns the parts of the time of a kernel on a case, the largest first: measured where the kernel was ablated, else modelled.
/// Empty if nothing is known.
pub fn parts(found: Sources<'_>, base: Option<Sources<'_>>) -> Vec<Part> {
    let (own, source) = match measured(found) {
        measured if !measured.is_empty() => (measured, TimeSource::Measured),
        _ => (modelled(found), TimeSource::Modelled),
    };
    let of_base = base.map(|base| match source {
        TimeSource::Measured => measured(base),
        _ => modelled(base),
    });
    let base_us = |what: &str| of_base.as_ref().and_then(|all| all.get(what)).map(|ns| ns / 1e3);
    let part = |(what, ns): (&String, &f64)| Part { what: what.clone(), us: ns / 1e3, base_us: base_us(what), source };
    let mut parts: Vec<Part> = own.iter().map(part).collect();
    parts.sort_by(|a, b| b.us.total_cmp(&a.us));
    parts
}

/// Returns how much less the kernel takes without each kind of instruction, in nanoseconds.
fn measured(found: Sources<'_>) -> BTreeMap<String, f64> {
    let Some(all_ns) = control_ns(found.ablations) else { return BTreeMap::new() };
    let saved = |removed: Removed| Some((removed.name().to_owned(), all_ns - time_ns(found.ablations, removed)?));
    Removed::KINDS.into_iter().filter_map(saved).collect()
}

/// Returns the parts of the model of a virtual GPU, over all launches, in nanoseconds.
fn modelled(found: Sources<'_>) -> BTreeMap<String, f64> {
    let mut parts = BTreeMap::new();
    for (what, ns) in found.profile.iter().flat_map(|profile| &profile.launches).flat_map(|launch| &launch.parts_ns) {
        *parts.entry(what.clone()).or_default() += ns;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::code::profile::tests::launch;
    use crate::store::testing::evaluation;

    fn modelled_record(parts: [(&str, f64); 2]) -> CaseRecord {
        let mut measurement = evaluation(1000.0, false).measurements.remove(0);
        let parts_ns = parts.map(|(what, ns)| (what.to_owned(), ns)).into();
        let half = crate::domain::code::profile::LaunchProfile { parts_ns, ..launch("attend", 500.0) };
        measurement.profile = Some(Profile { launches: vec![half.clone(), half], checked_on: None });
        CaseRecord::of(&measurement, None)
    }

    #[test]
    fn parts_are_summed_over_launches_and_stand_beside_those_of_the_base() {
        let own = modelled_record([("alu", 400.0), ("shared", 900.0)]);
        let base = modelled_record([("alu", 700.0), ("tensor", 100.0)]);
        let told: Vec<_> = parts(Sources::of(&own), Some(Sources::of(&base)))
            .into_iter()
            .map(|one| (one.what, one.us, one.base_us))
            .collect();
        assert_eq!(told, [("shared".to_owned(), 1.8, None), ("alu".to_owned(), 0.8, Some(1.4))]);
        assert_eq!(parts(Sources { ablations: &[], profile: None }, None), [], "nothing is known");
    }
}
