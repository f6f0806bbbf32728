//! Finds what a project chooses.

use std::path::Path;

use super::files;
use super::{Item, Kind};
use crate::config::{BaselineConfig, Config};
use crate::domain::op::OpSource;
use crate::domain::op::oracle::OracleLanguage;
use crate::domain::workload::{BaselineKey, Workload};
use crate::ops::{Declared, OPS_FOLDER};
use crate::runner::baseline::{FOLDER, shipped};
use crate::runner::device::DeviceChoice;

/// Returns everything that a project chooses, for whatever verb.
pub fn of_project(project: &Path, config: &Config, workloads: &[Workload]) -> anyhow::Result<Vec<Item>> {
    let mut items: Vec<Item> = of_store(project, config).into_iter().collect();
    if let Ok(DeviceChoice::Replay(path)) = config.session.device.parse() {
        items.extend(of_recording(project, &path));
    }
    items.extend(of_interpreter(project, config)?);
    items.extend(additions(project, config));
    items.extend(of_models(project, config));
    items.extend(of_agent(project, config)?);
    items.extend(of_fleet(config));
    items.extend(of_notify(project, config)?);
    for workload in workloads {
        items.extend(oracle(project, config, workload)?);
        items.extend(baseline(project, config, workload)?);
    }
    Ok(items)
}

/// Returns what runs where an output of a workload is checked: nothing for one of optloop's own ops, or for an oracle in
/// CUDA.
pub fn of_oracle(project: &Path, config: &Config, workload: &Workload) -> anyhow::Result<Vec<Item>> {
    let oracle = oracle(project, config, workload)?;
    let interpreter = if oracle.is_some() { of_interpreter(project, config)? } else { None };
    Ok(interpreter.into_iter().chain(oracle).collect())
}

fn oracle(project: &Path, config: &Config, workload: &Workload) -> anyhow::Result<Option<Item>> {
    let OpSource::Declared(source) = workload.op.source() else { return Ok(None) };
    let file = Declared::oracle_file(&source.manifest).map_err(|mistakes| anyhow::anyhow!(mistakes.join("; ")))?;
    if OracleLanguage::of_file(&file) == Some(OracleLanguage::Cuda) {
        // It runs where kernels run, and can do what they can.
        return Ok(None);
    }
    let path = format!("{OPS_FOLDER}/{}/{file}", workload.op.name());
    let command = vec![config.baseline.python.clone(), path];
    let files = files::named(project, &command)?;
    Ok(Some(Item { kind: Kind::Oracle, workload: workload.name.clone(), command, files }))
}

/// Returns what runs where the baseline of a workload is timed.
pub fn of_baseline(project: &Path, config: &Config, workload: &Workload) -> anyhow::Result<Vec<Item>> {
    let mut items = Vec::new();
    if let Some(BaselineKey::File(_) | BaselineKey::Torch { .. } | BaselineKey::Module(_)) = workload.baseline {
        items.extend(of_interpreter(project, config)?);
    }
    if workload.baseline.is_some() {
        items.extend(additions(project, config));
    }
    items.extend(baseline(project, config, workload)?);
    Ok(items)
}

/// Returns what the project chooses for a program of the user's that runs as baselines do.
pub fn of_python(project: &Path, config: &Config) -> anyhow::Result<Vec<Item>> {
    Ok(of_interpreter(project, config)?.into_iter().chain(additions(project, config)).collect())
}

/// Returns the variables, files and folders that the project's baselines may use in addition to those of every
/// baseline.
fn additions(project: &Path, config: &Config) -> Vec<Item> {
    let BaselineConfig { env, read, write, .. } = &config.baseline;
    let resolved = |paths: &[String]| paths.iter().map(|path| resolved(project, path)).collect();
    let lists = [(Kind::Environment, env.clone()), (Kind::Read, resolved(read)), (Kind::Write, resolved(write))];
    let given = lists.into_iter().filter(|(_, list)| !list.is_empty());
    given.map(|(kind, command)| Item { kind, workload: String::new(), command, files: Default::default() }).collect()
}

/// Returns a path of config.toml without links, because what a link leads to is what the user agrees to.
fn resolved(project: &Path, path: &str) -> String {
    let path = project.join(path);
    path.canonicalize().unwrap_or(path).display().to_string()
}

/// Returns the interpreter, unless it is the user's `python3`.
pub fn of_interpreter(project: &Path, config: &Config) -> anyhow::Result<Option<Item>> {
    let python = &config.baseline.python;
    if *python == BaselineConfig::default().python {
        return Ok(None);
    }
    let command = vec![python.clone()];
    let files = files::named(project, &command)?;
    Ok(Some(Item { kind: Kind::Interpreter, workload: String::new(), command, files }))
}

/// Returns the store, if it is outside the project.
pub fn of_store(project: &Path, config: &Config) -> Option<Item> {
    let path = Path::new(&config.store.path);
    let inside = project.canonicalize().is_ok_and(|project| path.starts_with(project));
    let command = vec![config.store.path.clone()];
    let item = Item { kind: Kind::Store, workload: String::new(), command, files: Default::default() };
    (path.is_absolute() && !inside).then_some(item)
}

/// Returns a recording, if it is outside the project: what config.toml names as device is opened and read.
pub fn of_recording(project: &Path, path: &Path) -> Option<Item> {
    // A file that is missing is reported where it is opened.
    let (project, found) = (project.canonicalize().ok()?, path.canonicalize().ok()?);
    let command = vec![found.display().to_string()];
    let item = Item { kind: Kind::Recording, workload: String::new(), command, files: Default::default() };
    (!found.starts_with(project)).then_some(item)
}

/// Returns what the use of language models needs. They cost money, get the user's key, and are sent the project's work.
pub fn of_models(project: &Path, config: &Config) -> Vec<Item> {
    let llm = &config.llm;
    let item = |kind, command| Item { kind, workload: String::new(), command, files: Default::default() };
    let mut items = Vec::new();
    // A cassette sends nothing.
    if llm.is_on() && llm.replay.is_empty() {
        let address = llm.address().map_or_else(|problem| problem.to_string(), |address| address.to_string());
        let key = llm.key_variable().unwrap_or("no key");
        items.push(item(Kind::Models, vec![address, key.to_owned(), llm.send.name().to_owned()]));
    }
    let folders = [&llm.record, &llm.replay].into_iter().filter(|path| Path::new(path).is_absolute());
    let outside =
        folders.filter(|path| !project.canonicalize().is_ok_and(|project| Path::new(path).starts_with(project)));
    items.extend(outside.map(|path| item(Kind::Cassettes, vec![path.clone()])));
    items
}

/// Returns the coding agent that the project wants to propose. It is a program, which costs what its model costs.
pub fn of_agent(project: &Path, config: &Config) -> anyhow::Result<Option<Item>> {
    let Some(command) = config.session.proposer.strip_prefix("agent:") else { return Ok(None) };
    let command = shlex::split(command).unwrap_or_else(|| vec![command.to_owned()]);
    let files = files::named(project, &command)?;
    Ok(Some(Item { kind: Kind::Agent, workload: String::new(), command, files }))
}

/// Returns the machines that screen for sessions. They are sent kernels, and what they say decides which variants are compared.
pub fn of_fleet(config: &Config) -> Option<Item> {
    let fleet = &config.fleet;
    let named = Some(&fleet.nats).filter(|url| !url.is_empty());
    let command: Vec<String> = named.into_iter().chain(&fleet.workers).cloned().collect();
    let item = Item { kind: Kind::Fleet, workload: String::new(), command, files: Default::default() };
    (!item.command.is_empty()).then_some(item)
}

/// Returns who is told the end of a session: a program runs with the user's rights, and an address learns of the work.
pub fn of_notify(project: &Path, config: &Config) -> anyhow::Result<Vec<Item>> {
    let notify = &config.notify;
    let mut items = Vec::new();
    if !notify.command.is_empty() {
        let files = files::named(project, &notify.command)?;
        let (kind, workload, command) = (Kind::NotifyCommand, String::new(), notify.command.clone());
        items.push(Item { kind, workload, command, files });
    }
    let by_name = (!notify.webhook_env.is_empty()).then(|| format!("${}", notify.webhook_env));
    for address in [Some(notify.webhook.clone()).filter(|url| !url.is_empty()), by_name].into_iter().flatten() {
        let (kind, workload, command) = (Kind::NotifyWebhook, String::new(), vec![address]);
        items.push(Item { kind, workload, command, files: Default::default() });
    }
    Ok(items)
}

/// Returns the baseline of a workload, unless optloop ships it.
fn baseline(project: &Path, config: &Config, workload: &Workload) -> anyhow::Result<Option<Item>> {
    let Some(key) = &workload.baseline else { return Ok(None) };
    if let BaselineKey::File(file) = key
        && shipped::is_shipped(&project.join(FOLDER), file)
    {
        return Ok(None);
    }
    let command = key.command(&config.baseline.python);
    // Expressions name no file of the project. All of them are in the command.
    let is_expression = matches!(key, BaselineKey::Torch { .. });
    let files = if is_expression { Default::default() } else { files::named(project, &command)? };
    Ok(Some(Item { kind: Kind::Baseline, workload: workload.name.clone(), command, files }))
}
