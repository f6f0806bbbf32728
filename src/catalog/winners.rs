//! The committed winners of a project. They belong to kinds of device: the sidecars are
//! `kernels/variants/<device>/<workload>/<case>.json`, and the sources that they name lie in the same folder.
//!
//! Version 0.1.0 had one folder for all real devices, `variants/<workload>/`, and `modelled/<gpu>/<workload>/` for
//! virtual GPUs. Its files do not record a device's SMs and memory, so their kind of device is unknown. They are read
//! as winners of another device.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::Project;
use crate::domain::device::{DeviceInfo, DeviceKey};
use crate::domain::proposal::KnownWinner;
use crate::domain::sidecar::Sidecar;
use crate::domain::workload::{Case, Workload};
use crate::files;

impl Project {
    /// Returns the path of the sidecar of a device's winner on a case. It need not exist.
    pub fn winner(&self, device: &DeviceKey, workload: &str, case: &str) -> PathBuf {
        self.winners_of(&device.to_string(), workload).join(format!("{case}.json"))
    }

    /// Returns the committed winners of a workload: those of the device's own kind, then all others.
    pub fn known_winners(&self, workload: &Workload, device: &DeviceInfo) -> Vec<KnownWinner> {
        let own = self.winners_of(&device.key().to_string(), &workload.name);
        let mut folders = self.winners_folders(&workload.name);
        // The sort is stable: the device's own folder first, the others in the listed order.
        folders.sort_by_key(|folder| *folder != own);
        let of_folder = |folder: &PathBuf| {
            let winner = |case: &Case| known_winner(self.root(), folder, case, device, *folder == own);
            workload.cases.iter().filter_map(winner).collect::<Vec<_>>()
        };
        folders.iter().flat_map(of_folder).collect()
    }

    /// Returns the winner of a sidecar that a branch has, whose path is relative to the project. None if the workload has no
    /// such case, or if the sidecar cannot be read.
    pub fn winner_on_branch(
        &self,
        path: &Path,
        text: &str,
        workload: &Workload,
        device: &DeviceInfo,
    ) -> Option<KnownWinner> {
        let stem = path.file_stem()?.to_str()?;
        let case = workload.cases.iter().find(|case| *case.name == *stem)?;
        let own = self.winners_of(&device.key().to_string(), &workload.name);
        let here = self.root().join(path).parent() == Some(&own);
        let sidecar = Sidecar::parse(text).map_err(|error| tracing::warn!("{} is skipped: {error}", path.display()));
        Some(of_sidecar(sidecar.ok()?, path.to_owned(), case, device, here))
    }

    /// Returns the sidecars of the committed winners of a case, at most one for each kind of device.
    pub fn committed(&self, workload: &str, case: &str) -> Vec<PathBuf> {
        let sidecar = |folder: PathBuf| folder.join(format!("{case}.json"));
        self.winners_folders(workload).into_iter().map(sidecar).filter(|path| path.is_file()).collect()
    }

    fn winners_of(&self, device: &str, workload: &str) -> PathBuf {
        self.root().join("kernels/variants").join(device).join(workload)
    }

    /// Returns the folders that may hold winners of a workload: those of devices by name, then those of version 0.1.0.
    fn winners_folders(&self, workload: &str) -> Vec<PathBuf> {
        let kernels = self.root().join("kernels");
        let devices = names_in(&kernels.join("variants")).into_iter().filter(|name| name.parse::<DeviceKey>().is_ok());
        let mut folders: Vec<PathBuf> = devices.map(|name| self.winners_of(&name, workload)).collect();
        folders.push(kernels.join("variants").join(workload));
        let modelled = kernels.join("modelled");
        folders.extend(names_in(&modelled).iter().map(|gpu| modelled.join(gpu).join(workload)));
        folders
    }
}

/// Returns the sidecars that name a source, sorted. They are in its folder.
pub fn sidecars_of(source: &Path) -> anyhow::Result<Vec<PathBuf>> {
    // As in version 0.1.0. Its reader reports whether it can be read.
    let same_name = source.with_extension("json");
    if same_name.is_file() {
        return Ok(vec![same_name]);
    }
    let folder = source.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let beside = fs::read_dir(folder).with_context(|| format!("Failed to list {}", folder.display()))?;
    let paths = beside.filter_map(|entry| Some(source.with_file_name(entry.ok()?.file_name())));
    let names_it = |path: &PathBuf| {
        let sidecar = files::read(path).ok().and_then(|text| Sidecar::parse(&text).ok());
        sidecar.is_some_and(|sidecar| sidecar.source_beside(path) == source)
    };
    let is_json = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "json");
    let mut found: Vec<PathBuf> = paths.filter(is_json).filter(names_it).collect();
    found.sort();
    Ok(found)
}

/// Returns the names in a folder, sorted. Empty if there is no folder.
fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// Reads the winner of a case. Logs and skips a sidecar that cannot be read.
fn known_winner(root: &Path, folder: &Path, case: &Case, device: &DeviceInfo, here: bool) -> Option<KnownWinner> {
    let path = folder.join(format!("{}.json", case.name));
    if !path.exists() {
        return None;
    }
    match files::read_inside(root, &path).and_then(|text| Sidecar::parse(&text).map_err(anyhow::Error::msg)) {
        Ok(sidecar) => {
            let relative = path.strip_prefix(root).unwrap_or(&path).to_owned();
            Some(of_sidecar(sidecar, relative, case, device, here))
        }
        Err(error) => {
            tracing::warn!("{} is skipped: {error:#}", path.display());
            None
        }
    }
}

fn of_sidecar(sidecar: Sidecar, path: PathBuf, case: &Case, device: &DeviceInfo, here: bool) -> KnownWinner {
    let Sidecar { variant, measurement, environment, .. } = sidecar;
    KnownWinner {
        case: case.name.clone(),
        family: variant.family,
        params: variant.params,
        hash: variant.hash,
        sidecar: path,
        device: environment.device,
        median_us: (measurement.graphs == device.graphs()).then_some(measurement.median_us),
        here,
    }
}
