//! Finds changes that would remove a cause: other configurations of the family, or other families.

use super::subject::Subject;
use crate::domain::family::{Family, Helps};
use crate::domain::finding::Remedy;
use crate::domain::plan::LaunchPlan;
use crate::domain::space::Space;
use crate::domain::variant::Params;

/// The most configurations to name for one cause.
const MOST: usize = 3;

/// Returns the configurations that differ in a parameter of which the manifest says that it helps against the cause, the
/// nearest first.
pub(super) fn by_manifest(subject: &Subject<'_>, cause: &str) -> Vec<Remedy> {
    let Some((family, params)) = subject.configuration else { return Vec::new() };
    let space = space(subject, family);
    let mut remedies = Vec::new();
    for (name, param) in &family.params {
        let (Some(direction), Some(now)) = (param.helps.get(cause), params.get(name).copied()) else { continue };
        let helps = |value: &&i64| match direction {
            Helps::More => **value > now,
            Helps::Less => **value < now,
        };
        let mut values: Vec<i64> = param.values.iter().filter(helps).copied().collect();
        values.sort_by_key(|value| value.abs_diff(now));
        let nearest =
            values.into_iter().find_map(|value| Some((value, space.nearest_with(params, name, value).ok().flatten()?)));
        if let Some((value, configuration)) = nearest {
            let text = format!("set {name} from {now} to {value}: {}", param.about);
            remedies.push(Remedy { text, family: family.name.clone(), params: Some(configuration) });
        }
    }
    remedies.truncate(MOST);
    remedies
}

/// Returns the neighbouring configurations whose launch plan has the largest value, if that is more than the current
/// plan's. `why` describes a plan.
pub(super) fn by_plan(
    subject: &Subject<'_>,
    value: impl Fn(&LaunchPlan) -> f64,
    why: impl Fn(&LaunchPlan) -> String,
) -> Vec<Remedy> {
    let Some((family, params)) = subject.configuration else { return Vec::new() };
    let space = space(subject, family);
    let now = value(subject.plan);
    let Subject { workload, case, device, .. } = *subject;
    let mut better: Vec<(f64, Remedy)> = space
        .neighbours(params)
        .unwrap_or_default()
        .into_iter()
        .filter_map(|(name, configuration)| {
            let plan = family.plan(&configuration, case, workload.op, workload.dtype, device).ok()?;
            let text = format!("set {name} from {} to {}: {}", params.get(&name)?, configuration[&name], why(&plan));
            Some((value(&plan), Remedy { text, family: family.name.clone(), params: Some(configuration) }))
        })
        .filter(|(value, _)| *value > now)
        .collect();
    better.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    better.truncate(MOST);
    better.into_iter().map(|(_, remedy)| remedy).collect()
}

/// Returns the default configurations of the other families that satisfy a condition and can take the case.
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
    others.into_iter().filter_map(remedy).take(MOST).collect()
}

/// Returns the families that satisfy a condition but cannot take the case, each with the reason.
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
