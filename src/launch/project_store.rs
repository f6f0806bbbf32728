//! The store of a project: where it is, and how verbs open it.

use std::path::{Path, PathBuf};

use crate::catalog::Project;
use crate::config::Config;
use crate::error::usage;
use crate::files;
use crate::locks::Locks;
use crate::store::{self, Store};

/// Returns the file of the store.
pub fn store_path(project: &Project) -> anyhow::Result<PathBuf> {
    let config = Config::load(project.root()).map_err(usage)?;
    if Path::new(&config.store.path).is_relative() {
        files::check_place(project.root(), Path::new(&config.store.path)).map_err(usage)?;
    }
    let path = project.root().join(config.store.path);
    store::check_path(&path).map_err(usage)?;
    Ok(path)
}

/// Opens the store for a verb that only reads.
pub async fn existing_store(project: &Project) -> anyhow::Result<Store> {
    Ok(Store::open_existing(&store_path(project)?).await?)
}

/// Opens the store for a verb that records what it measures.
pub async fn locked_store(project: &Project, config: &Config, locks: &mut Locks) -> anyhow::Result<Store> {
    let path = store_path(project)?;
    locks.store(&path)?;
    Ok(Store::open_within(&path, &config.store.limits()).await?)
}
