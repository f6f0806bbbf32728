//! The user's consent to what a project runs.

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::catalog::Project;
use crate::config::Config;
use crate::domain::workload::Workload;
use crate::error::{usage, usage_sentence};
use crate::files;
use crate::notices::say;
use crate::runner::device::DeviceChoice;
use crate::trust::{self, ConsentState, Consents, Item};
use crate::vcs::Repo;

/// Whether the user agrees to all that the project chooses to run (`--trust`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agrees(pub bool);

/// Refuses to continue unless the user has agreed to all of these, before or with `--trust`.
pub fn admit(project: &Project, agrees: Agrees, items: impl IntoIterator<Item = Item>) -> anyhow::Result<()> {
    let mut items: Vec<Item> = items.into_iter().collect();
    if items.is_empty() {
        return Ok(());
    }
    let (root, mut known) = (root(project)?, Consents::load().map_err(usage)?);
    let mut refused = Vec::new();
    let head = head(project);
    items.retain(|item| match known.standing(&root, item, head.as_deref()) {
        ConsentState::Trusted => false,
        ConsentState::New => {
            refused.push(item.to_string());
            true
        }
        ConsentState::Changed(what) => {
            refused.push(format!("{item} (changed since you trusted it: {})", what.join(", ")));
            true
        }
    });
    if items.is_empty() {
        return Ok(());
    }
    if !agrees.0 {
        return Err(usage_sentence(format!(
            "this project chooses what you have not trusted: {}; `optloop trust` shows it and asks, `--trust` trusts it",
            refused.join(", and ")
        )));
    }
    known.add(&root, &items)?;
    items.iter().for_each(|item| say(&format!("trusted: {item}")));
    Ok(())
}

/// Refuses places to write to that a project leads out of it, before anything is written.
pub fn check_places(project: &Project, config: &Config, agrees: Agrees) -> anyhow::Result<()> {
    let places =
        [".optloop/session.lock", ".optloop/reports", "kernels/variants", &config.store.path, &config.llm.record];
    let given = places.into_iter().filter(|place| !place.is_empty()).map(Path::new);
    for place in given.filter(|place| place.is_relative()) {
        files::check_place(project.root(), place).map_err(usage)?;
    }
    admit(project, agrees, trust::of_store(project.root(), config))
}

/// Refuses to open a recording outside the project without the user's trust. One that the user has named on the command
/// line needs none.
pub fn admit_recording(project: &Project, agrees: Agrees, path: &Path) -> anyhow::Result<()> {
    admit(project, agrees, trust::of_recording(project.root(), path))
}

/// Refuses to run the oracle of a workload without the user's trust. Every verb that checks outputs calls it first.
pub fn admit_oracle(project: &Project, config: &Config, agrees: Agrees, workload: &Workload) -> anyhow::Result<()> {
    admit(project, agrees, trust::of_oracle(project.root(), config, workload).map_err(usage)?)
}

/// Returns what a session runs or asks with the user's trust. Beside modelled times no baseline runs.
pub fn of_session(
    project: &Project,
    config: &Config,
    workload: &Workload,
    device: &DeviceChoice,
) -> anyhow::Result<Vec<Item>> {
    let mut items = trust::of_models(project.root(), config);
    items.extend(trust::of_oracle(project.root(), config, workload).map_err(usage)?);
    items.extend(trust::of_notify(project.root(), config).map_err(usage)?);
    items.extend(trust::of_fleet(config));
    if !matches!(device, DeviceChoice::Virtual(_) | DeviceChoice::Replay(_)) {
        items.extend(trust::of_baseline(project.root(), config, workload).map_err(usage)?);
    }
    Ok(items)
}

/// Returns whether the user has agreed to an item, before or with `--trust`.
pub fn is_trusted(project: &Project, item: &Item) -> bool {
    let known = root(project).and_then(|root| Ok((root, Consents::load()?)));
    let head = head(project);
    known.is_ok_and(|(root, known)| known.standing(&root, item, head.as_deref()) == ConsentState::Trusted)
}

/// Returns the commit of HEAD, if the project has one.
pub fn head(project: &Project) -> Option<String> {
    Repo::discover(project.root()).ok()?.head().map(|commit| commit.0)
}

/// Returns the folder of a project, with links resolved.
pub fn root(project: &Project) -> anyhow::Result<PathBuf> {
    project.root().canonicalize().with_context(|| format!("Failed to find {}", project.root().display()))
}
