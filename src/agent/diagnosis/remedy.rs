//! Finds changes that would remove a cause: other configurations of the family, or other families.

use super::subject::Subject;
use crate::domain::family::plan::LaunchPlan;
use crate::domain::family::{Family, Param};
use crate::domain::proposal::finding::Remedy;
use crate::domain::space::Space;
use crate::domain::variant::Params;

/// The most configurations to name for one cause.
const MAX_REMEDIES: usize = 3;

/// The most values to try for one cause: those next to the current ones first. Shipped families have fewer than 50. Room for
/// a value that constraints forbid is sought among hundreds of configurations.
const MAX_MOVES: usize = 256;

/// Returns the configurations that differ in a parameter that helps against the cause, according to the manifest, the
/// nearest first.
pub(super) fn by_manifest(subject: &Subject<'_>, cause: &str) -> Vec<Remedy> {
    let Some((family, params)) = subject.configuration else { return Vec::new() };
    let space = space(subject, family);
    let mut remedies = Vec::new();
    for (name, param) in &family.params {
        let (Some(direction), Some(now)) = (param.helps.get(cause), params.get(name).copied()) else { continue };
        let mut values: Vec<i64> = param.values.iter().copied().filter(|value| direction.leads(now, *value)).collect();
        values.sort_by_key(|value| value.abs_diff(now));
        values.truncate(MAX_MOVES);
        let nearest =
            values.into_iter().find_map(|value| Some((value, space.nearest_with(params, name, value).ok().flatten()?)));
        if let Some((_, configuration)) = nearest {
            let text = format!("{}: {}", change(name, params, &configuration), param.about);
            remedies.push(Remedy { text, family: family.name.clone(), params: Some(configuration) });
        }
    }
    remedies.truncate(MAX_REMEDIES);
    remedies
}

/// Returns the configurations with another value of one parameter whose launch plan scores highest, if that is higher
/// than the current plan. Other parameters change where a constraint requires it. `why` describes a plan.
pub(super) fn by_plan(
    subject: &Subject<'_>,
    worth: impl Fn(&LaunchPlan) -> f64,
    why: impl Fn(&LaunchPlan) -> String,
) -> Vec<Remedy> {
    let Some((family, params)) = subject.configuration else { return Vec::new() };
    let space = space(subject, family);
    let now = worth(subject.plan);
    let Subject { workload, case, device, .. } = *subject;
    let remedy = |(name, value): (&str, i64)| {
        let configuration = space.nearest_with(params, name, value).ok().flatten()?;
        let plan = family.plan(&configuration, case, workload.op, workload.dtype, device).ok()?;
        let text = format!("{}: {}", change(name, params, &configuration), why(&plan));
        let changed = configuration.iter().filter(|(name, value)| params.get(*name) != Some(value)).count();
        Some((worth(&plan), changed, Remedy { text, family: family.name.clone(), params: Some(configuration) }))
    };
    let mut better: Vec<_> = moves(family, params).into_iter().filter_map(remedy).filter(|it| it.0 > now).collect();
    // Among plans with the same score, the one with the fewest changes comes first.
    better.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut remedies: Vec<Remedy> = better.into_iter().map(|(.., remedy)| remedy).collect();
    remedies.dedup_by(|a, b| a.params == b.params);
    remedies.truncate(MAX_REMEDIES);
    remedies
}

/// Returns the other values of all parameters. If there are too many, only those next to the current ones.
fn moves<'a>(family: &'a Family, from: &Params) -> Vec<(&'a str, i64)> {
    let of_one = |(name, param): (&'a String, &'a Param)| {
        let now = param.values.iter().position(|value| Some(value) == from.get(name));
        let others = param.values.iter().enumerate().filter(move |(place, _)| Some(*place) != now);
        others.map(move |(place, value)| (place.abs_diff(now.unwrap_or(0)), (name.as_str(), *value)))
    };
    let mut moves: Vec<_> = family.params.iter().flat_map(of_one).collect();
    if moves.len() > MAX_MOVES {
        moves.sort_by_key(|(steps, _)| *steps);
        moves.truncate(MAX_MOVES);
    }
    moves.into_iter().map(|(_, moved)| moved).collect()
}

/// Describes how a configuration differs from another: in one parameter, and in those that had to change with it.
fn change(name: &str, from: &Params, to: &Params) -> String {
    let set = |name: &str| format!("{name} from {} to {}", from[name], to[name]);
    let others = to.iter().filter(|(other, value)| *other != name && from.get(*other) != Some(value));
    let others: Vec<String> = others.map(|(other, _)| set(other)).collect();
    if others.is_empty() {
        format!("set {}", set(name))
    } else {
        format!("set {}, with {}", set(name), others.join(", "))
    }
}

/// Returns the default configurations of the other families that satisfy a condition and can compute the case.
pub(super) fn by_family(subject: &Subject<'_>, wanted: impl Fn(&Family) -> bool, why: &str) -> Vec<Remedy> {
    let mut others: Vec<&&Family> =
        subject.families.iter().filter(|family| family.name != subject.family && wanted(family)).collect();
    let place = |family: &Family| subject.fast.iter().position(|name| *name == family.name);
    others.sort_by_key(|family| place(family).unwrap_or(usize::MAX));
    let remedy = |family: &&Family| {
        let params = space(subject, family).start().ok().flatten()?;
        let text = format!("use the family {}, {why}", family.name);
        Some(Remedy { text, family: family.name.clone(), params: Some(params) })
    };
    others.into_iter().filter_map(remedy).take(MAX_REMEDIES).collect()
}

/// Returns the families that satisfy a condition but cannot compute the case, each with the reason.
pub(super) fn excluded(subject: &Subject<'_>, wanted: impl Fn(&Family) -> bool) -> Vec<String> {
    let Subject { workload, case, device, .. } = *subject;
    let fitting = subject.families.iter().filter(|family| wanted(family));
    let reason = |family: &&Family| {
        let space = space(subject, family);
        if space.start().ok()?.is_some() {
            return None;
        }
        let error = family.check(&Params::new(), case, workload.dtype, device).err();
        let error = error.or_else(|| family.check(&family.defaults(), case, workload.dtype, device).err())?;
        Some(format!("{} cannot take {}: {error}", family.name, case.name))
    };
    fitting.filter_map(reason).collect()
}

fn space<'a>(subject: &Subject<'a>, family: &'a Family) -> Space<'a> {
    Space { family, case: subject.case, dtype: subject.workload.dtype, device: subject.device }
}
