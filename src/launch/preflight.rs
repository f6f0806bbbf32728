//! Checks that refuse a session before it begins and spends anything.

use serde::Serialize;

use crate::catalog::Families;
use crate::domain::device::DeviceInfo;
use crate::domain::family::Family;
use crate::domain::ids::CaseName;
use crate::domain::record::{ContentHashes, SessionRecord};
use crate::domain::space::Space;
use crate::domain::text::names::did_you_mean;
use crate::domain::variant::show_params;
use crate::domain::workload::{Case, Workload};
use crate::error::{Error, error};
use crate::runner::renderer::Renderer;
use crate::store::Past;

/// Refuses a workload whose initial kernel's family is missing or broken.
pub fn check_initial_kernel(workload: &Workload, families: &Families) -> Result<(), Error> {
    let Some(initial) = &workload.initial_kernel else { return Ok(()) };
    let Families { sound, broken } = families;
    if sound.iter().any(|family| family.name == *initial) {
        return Ok(());
    }
    if let Some(broken) = broken.iter().find(|broken| broken.name == *initial) {
        return Err(Error::new(broken));
    }
    let hint = did_you_mean(initial, sound.iter().map(|family| family.name.as_str()));
    Err(error!("workload `{}` names the initial kernel `{initial}`, which does not exist{hint}", workload.name))
}

/// The cases that a family can take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// The family.
    pub family: String,
    /// The cases on which it has a valid configuration.
    pub cases: Vec<CaseName>,
}

/// What a session can search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Searchable {
    /// The cases that each searched family takes.
    pub coverage: Vec<Coverage>,
    /// The families that cannot be used, each with a sentence.
    pub unusable: Vec<(String, String)>,
}

/// Refuses what no session could search: no family that fits, or a case without a valid configuration.
///
/// A family whose template does not render or whose launch plan cannot be filled in is left out, unless the user has
/// `named` it or the workload starts from it. No family is needed where the proposer writes some.
pub fn check_spaces(
    workload: &Workload,
    families: &[Family],
    (searched, named, writes_families): (&[String], &[String], bool),
    device: &DeviceInfo,
    renderer: &Renderer,
) -> Result<Searchable, Error> {
    let chosen = |family: &&Family| searched.contains(&family.name) && family.fits(workload, device);
    let fitting: Vec<_> = families.iter().filter(chosen).collect();
    if fitting.is_empty() {
        let others = families.iter().filter(|family| family.fits(workload, device));
        let others: Vec<&str> = others.map(|family| family.name.as_str()).collect();
        if !others.is_empty() {
            return Err(error!(
                "none of the selected families ({}) can compute workload `{}` on {}; these can: {}",
                searched.join(", "),
                workload.name,
                device.name,
                others.join(", ")
            ));
        }
        if writes_families && workload.initial_kernel.is_none() {
            return Ok(Searchable { coverage: Vec::new(), unusable: Vec::new() });
        }
        return Err(error!(
            "no family can compute workload `{}` ({}, {}) on {} (sm_{}): add one to templates/kernels/{}",
            workload.name,
            workload.op.name(),
            workload.compute.of(workload.dtype),
            device.name,
            device.sm,
            match &workload.initial_kernel {
                Some(_) => "",
                None => ", or have one written, with --proposer llm or `optloop mcp`",
            }
        ));
    }
    let mut unusable = Vec::new();
    let mut taken: Vec<(&Family, Vec<Result<(), String>>)> = Vec::new();
    for family in fitting {
        let is_needed = named.contains(&family.name) || workload.starts_from(&family.name);
        match workload.cases.iter().map(|case| takes(family, case, workload, device, renderer)).collect() {
            Ok(cases) => taken.push((family, cases)),
            Err(problem) if is_needed => return Err(problem),
            Err(problem) => unusable.push((family.name.clone(), problem.to_string())),
        }
    }
    for (place, case) in workload.cases.iter().enumerate() {
        let why_not = |(family, cases): &(&Family, Vec<Result<(), String>>)| {
            cases[place].as_ref().err().map(|why| format!("{} ({why})", family.name))
        };
        let reasons: Vec<String> = taken.iter().filter_map(why_not).collect();
        if reasons.len() == taken.len() {
            let reasons = reasons.into_iter().chain(unusable.iter().map(|(_, problem)| problem.clone()));
            return Err(error!(
                "case `{}` has no valid configuration in any family: {}; select other cases with --case, or add \
                 values to a family",
                case.name,
                reasons.collect::<Vec<_>>().join("; ")
            ));
        }
    }
    let is_usable = |name: &&String| unusable.iter().all(|(other, _)| other != *name);
    let coverage = searched.iter().filter(is_usable).map(|name| {
        let cases = taken.iter().find(|(family, _)| family.name == *name).map(|(_, cases)| cases.as_slice());
        let named = workload.cases.iter().zip(cases.unwrap_or_default());
        let cases = named.filter(|(_, taken)| taken.is_ok()).map(|(case, _)| case.name.clone()).collect();
        Coverage { family: name.clone(), cases }
    });
    Ok(Searchable { coverage: coverage.collect(), unusable })
}

/// Returns whether a family takes a case, or else why not. The outer error says that the family cannot be used at all.
fn takes(
    family: &Family,
    case: &Case,
    workload: &Workload,
    device: &DeviceInfo,
    renderer: &Renderer,
) -> Result<Result<(), String>, Error> {
    let space = Space { family, case, dtype: workload.dtype, device };
    let start = space.start().map_err(|problem| error!("family `{}`: {problem}", family.name))?;
    let Some(params) = start else { return Ok(Err(space.why_not(&family.defaults()).unwrap_or_default())) };
    renderer.render(family, &family.specialization(case), workload.dtype, &params)?;
    let plan = family.plan(&params, case, workload.op, workload.dtype, device);
    plan.map(|_| Ok(()))
        .map_err(|error| error!("family `{}` has no launch plan on case `{}`: {error}", family.name, case.name))
}

/// Refuses to resume a session on another device than its own. Times of two devices are not comparable.
pub fn check_device(record: &SessionRecord, device: &DeviceInfo) -> Result<(), Error> {
    let then = &record.environment.device;
    let same = match (&then.uuid, &device.uuid) {
        (Some(then), Some(now)) => then == now,
        _ => then.name == device.name && then.time_source() == device.time_source(),
    };
    if same && then.graphs() != device.graphs() {
        return Err(error!(
            "session {} measured in another state of the graphs ({}) than this version of optloop ({}), and the two are \
             not comparable: start another session",
            record.session.id,
            then.graphs().name(),
            device.graphs().name()
        ));
    }
    if same {
        return Ok(());
    }
    let tell = |device: &DeviceInfo| match &device.uuid {
        Some(uuid) => format!("{} ({uuid})", device.name),
        None => device.name.clone(),
    };
    Err(error!(
        "session {} ran on {}, and {} is now {}: times of two devices are not comparable, so start another session",
        record.session.id,
        tell(then),
        device.id,
        tell(device)
    ))
}

/// Refuses to resume a session whose cases have changed since it began.
pub fn check_shapes(past: &Past, workload: &Workload) -> Result<(), Error> {
    let (id, name) = (past.record.session.id, &workload.name);
    let back = "restore the workload, or start another session";
    let (then, now) = (past.asked.compute.of(past.asked.dtype), workload.compute.of(workload.dtype));
    if then != now {
        return Err(error!("workload `{name}` was {then} when session {id} began and is {now} now: {back}"));
    }
    for then in &past.asked.cases {
        let now = workload.case(&then.name)?;
        if now != then {
            let tell = |case: &Case| format!("{} ({})", show_params(&case.dims), case.regime.name());
            return Err(error!(
                "case `{}` of workload `{name}` was {} when session {id} began and is {} now: {back}",
                then.name,
                tell(then),
                tell(now)
            ));
        }
    }
    Ok(())
}

/// Refuses to resume a session whose workload or families have changed their meaning since it began.
pub fn check_meaning(past: &Past, workload: &Workload, families: &Families) -> Result<(), Error> {
    // An older optloop did not record the meaning.
    let Some(then) = &past.asked.meaning else { return Ok(()) };
    let (id, now) = (past.record.session.id, ContentHashes::of(workload, &families.sound, &past.asked.families));
    if now.workload != then.workload {
        return Err(error!(
            "op, dtype, compute mode, tolerance or initial kernel of workload `{}` has changed since session {id} began: restore \
             the workload, or start another session",
            workload.name
        ));
    }
    // A broken family of another op was never used.
    let is_needed =
        |name: &String| families.broken.iter().all(|one| one.name != *name || one.may_compute(workload.op.name()));
    let has_changed =
        |(name, meaning): &(&String, &String)| now.families.get(*name) != Some(meaning) && is_needed(name);
    match then.families.iter().find(has_changed) {
        None => Ok(()),
        Some((name, _)) => Err(error!(
            "family `{name}` has changed since session {id} began: restore its manifest and template, or start \
             another session"
        )),
    }
}
