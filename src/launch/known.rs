//! The committed winners that a session begins with: those of the working tree, and those of the branches that sessions commit to
//! without checking them out.

use crate::catalog::Project;
use crate::config::Config;
use crate::domain::device::DeviceInfo;
use crate::domain::proposal::KnownWinner;
use crate::domain::workload::Workload;
use crate::session::Target;
use crate::vcs::Repo;

/// Returns the committed winners of a workload: those of the device's own kind, the faster first, then all others.
pub fn winners(
    project: &Project,
    (config, target): (&Config, &Target),
    workload: &Workload,
    device: &DeviceInfo,
) -> Vec<KnownWinner> {
    let mut known = project.known_winners(workload, device);
    let Some(repo) = &target.repo else { return known };
    let chosen = target.destination.as_ref().ok().map(|destination| destination.reference().to_owned());
    let mut references: Vec<String> = config.git.reference().into_iter().chain(chosen).collect();
    references.dedup();
    for reference in references.iter().filter(|reference| !repo.is_checked_out(reference)) {
        for (path, text) in repo.winners_at(reference, &workload.name) {
            if let Some(winner) = project.winner_on_branch(&path, &text, workload, device) {
                add(winner, &mut known);
            }
        }
    }
    known
}

/// Adds a winner of a branch, unless the working tree has the same one. What the session must beat is the first of a case, so
/// the faster one comes before the other.
fn add(winner: KnownWinner, known: &mut Vec<KnownWinner>) {
    let is_rival = |other: &KnownWinner| other.case == winner.case && other.here == winner.here;
    if known.iter().any(|other| is_rival(other) && other.hash == winner.hash && other.sidecar == winner.sidecar) {
        return;
    }
    let is_slower = |other: &KnownWinner| {
        other.here && is_rival(other) && winner.median_us.zip(other.median_us).is_some_and(|(own, other)| own < other)
    };
    let first_of_others = known.iter().position(|other| !other.here).filter(|_| winner.here);
    let place = known.iter().position(is_slower).or(first_of_others).unwrap_or(known.len());
    known.insert(place, winner);
}

/// Says that a branch of sessions has winners of a workload that the working tree lacks, and how to bring them in. None if there
/// are none.
pub fn elsewhere(project: &Project, config: &Config, workload: &str) -> Option<String> {
    let (repo, reference) = (Repo::discover(project.root()).ok()?, config.git.reference()?);
    if repo.is_checked_out(&reference) || repo.winners_at(&reference, workload).is_empty() {
        return None;
    }
    Some(format!("branch {0} has winners of it, which `git merge {0}` brings in", config.git.branch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::variant::{Params, VariantHash};

    fn winner(case: &str, hash: &str, (median_us, here): (f64, bool)) -> KnownWinner {
        KnownWinner {
            case: case.into(),
            family: "tiled".to_owned(),
            params: Params::default(),
            hash: VariantHash(hash.to_owned()),
            sidecar: format!("{case}.json").into(),
            device: "a device".to_owned(),
            median_us: Some(median_us),
            here,
        }
    }

    #[test]
    fn of_two_winners_of_a_case_the_faster_one_comes_first_and_none_comes_twice() {
        let mut known =
            vec![winner("a", "1", (2.0, true)), winner("b", "2", (2.0, true)), winner("a", "3", (1.0, false))];
        for new in [
            winner("a", "4", (1.0, true)),
            winner("b", "5", (3.0, true)),
            winner("b", "2", (2.0, true)),
            winner("c", "6", (9.0, false)),
        ] {
            add(new, &mut known);
        }
        let hashes: Vec<&str> = known.iter().map(|one| one.hash.0.as_str()).collect();
        assert_eq!(hashes, ["4", "1", "2", "5", "3", "6"]);
    }
}
