//! Where the winners of a session go: a branch, or nowhere but the store.

use std::path::Path;

use crate::config::Config;
use crate::domain::ids::SessionId;
use crate::domain::record::{SessionSummary, Status};
use crate::error::{Error, error, usage};
use crate::notices::say;
use crate::runner::device::DeviceChoice;
use crate::session::{NoCommit, Target};
use crate::store::{Past, Store};
use crate::vcs::Repo;

/// Where the user wants the winners to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted<'a> {
    /// Where config.toml says.
    Default,
    /// To this branch.
    Branch(&'a str),
    /// To the branch that is checked out.
    Here,
    /// Only to the store.
    Nowhere,
}

/// Returns where the winners of a new session go. Changes nothing.
pub fn choose(wanted: Wanted<'_>, root: &Path, config: &Config, device: &DeviceChoice) -> anyhow::Result<Target> {
    if let DeviceChoice::Replay(_) = device {
        return match wanted {
            Wanted::Branch(_) => {
                Err(usage(Error::new("a session on a recording commits no winner").hint("leave out --commit-to")))
            }
            _ => Ok(Target::of_recording()),
        };
    }
    let repo = Repo::discover(root);
    if wanted == Wanted::Nowhere || (wanted == Wanted::Default && !config.git.commit) {
        return Ok(Target { repo: repo.ok(), destination: Err(NoCommit::Chosen), kept_under: None });
    }
    let found = repo.and_then(|repo| {
        // Before the first commit, there is nothing at which another branch could begin.
        let usual = Some(config.git.branch.as_str()).filter(|name| !name.is_empty() && repo.head().is_some());
        let destination = repo.destination(match wanted {
            Wanted::Branch(name) => Some(name),
            Wanted::Here => None,
            _ => usual,
        })?;
        Ok((repo, destination))
    });
    match found {
        Ok((repo, destination)) => Ok(Target { repo: Some(repo), destination: Ok(destination), kept_under: None }),
        // A branch that was asked for is a promise.
        Err(reason) if matches!(wanted, Wanted::Branch(_)) => Err(usage(reason)),
        Err(reason) => {
            let destination = Err(NoCommit::Impossible(reason.to_string()));
            Ok(Target { repo: None, destination, kept_under: None })
        }
    }
}

/// Returns where the winners of a session that is resumed go: where they went before.
pub fn recorded(past: &Past, root: &Path, config: &Config, device: &DeviceChoice) -> anyhow::Result<Target> {
    if let DeviceChoice::Replay(_) = device {
        return Ok(Target::of_recording());
    }
    let repo = Repo::discover(root).map_err(|reason| error!("{reason}"));
    match Target::recorded(repo, past.commit_to.as_deref(), past.kept_under.clone()) {
        Some(target) => Ok(target),
        None => choose(Wanted::Default, root, config, device),
    }
}

/// Undoes what a killed process has left in the repository, and creates the branch of the session.
pub fn prepare(target: &mut Target) -> anyhow::Result<()> {
    let (Some(repo), Ok(destination)) = (&target.repo, &target.destination) else { return Ok(()) };
    let unlocked = target.kept_under.as_deref().map_or(Ok(()), |reference| repo.unlock_kept(reference));
    if let Err(reason) = unlocked.and_then(|()| repo.recover()) {
        say(&format!("the winners go only to the store: {reason}"));
        target.destination = Err(NoCommit::Impossible(reason.to_string()));
        return Ok(());
    }
    repo.create(destination).map_err(usage)
}

/// Describes where the winners go.
pub fn describe(target: &Target) -> String {
    match (&target.repo, &target.destination) {
        (Some(repo), Ok(destination)) => format!("one commit at the end, to {}", repo.describe(destination)),
        (_, Err(NoCommit::Recorded)) => "only to the store, because recorded times prove nothing".to_owned(),
        (_, Err(NoCommit::Impossible(reason))) => format!("only to the store: {reason}"),
        _ => "only to the store (--no-commit, or git.commit in config.toml)".to_owned(),
    }
}

/// Says what becomes of the winners of a session that is stopped.
pub fn when_stopped(target: &Target) -> &'static str {
    if target.destination.is_ok() { "the winners are committed" } else { "the winners stay in the store" }
}

/// Says which earlier sessions have winners that no branch has, and what to do.
pub async fn say_left_over(root: &Path, store: &Store) -> anyhow::Result<()> {
    let left = left_over(root, store).await?;
    if left.is_empty() {
        return Ok(());
    }
    for session in store.sessions().await? {
        if let Some((_, reference)) = left.iter().find(|(id, _)| *id == session.id) {
            say(&advice(&session, reference));
        }
    }
    Ok(())
}

/// Returns the sessions whose references still keep winners.
pub async fn left_over(root: &Path, store: &Store) -> anyhow::Result<Vec<(SessionId, String)>> {
    let Ok(repo) = Repo::discover(root) else { return Ok(Vec::new()) };
    let all = store.kept_under().await?;
    Ok(all.into_iter().filter(|(_, reference)| repo.commit_at(reference).is_some()).collect())
}

/// Returns what to do about the winners that a session keeps, in a sentence.
pub fn advice(session: &SessionSummary, reference: &str) -> String {
    let id = session.id;
    let way = match session.status {
        Status::Finished => format!("`git cherry-pick {reference}` commits them"),
        _ => format!("`optloop resume {id}` commits them"),
    };
    format!(
        "session {id} has winners on no branch, under {reference}: {way}, `git update-ref -d {reference}` drops them"
    )
}
