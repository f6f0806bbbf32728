//! Keeps the winners of a session in git while it runs, and commits them at its end.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Instant;

use super::target::{NoCommit, Target};
use crate::domain::budget::phase::{Phase, PhaseTime};
use crate::domain::family::Family;
use crate::domain::ids::{CaseName, IterationId, SessionId};
use crate::domain::measurement::comparison::Role;
use crate::domain::measurement::conditions::Conditions;
use crate::domain::proposal::KnownWinner;
use crate::domain::proposal::origin::Origin;
use crate::domain::record::journal::Record;
use crate::domain::sidecar::{self, Sidecar, SidecarEnvironment, SidecarMeasurement, SidecarVariant};
use crate::domain::statistics::timing::Timing;
use crate::domain::variant::VariantHash;
use crate::session::Session;
use crate::session::event::Event;
use crate::session::pipeline::kernel_cache::Kernel;
use crate::session::setup::SessionSetup;
use crate::session::state::SessionState;
use crate::session::state::case_state::{Candidate, Uncommitted};
use crate::vcs::{
    BaselineTime, CommitId, Destination, Earlier, Figures, Repo, SessionCommit, SessionCommitted, SessionWinner,
    TimedBy, VcsError, Winner,
};

/// Keeps and commits winners, and remembers what git has.
///
/// The store knows every winner. What git keeps is not on record: the reference is the truth about it.
pub(in crate::session) struct Committer {
    target: Target,
    /// The winner that is kept for each case: the iteration that measured it, and its source. Iterations of another
    /// store may have the same number.
    kept: HashMap<CaseName, (IterationId, VariantHash)>,
    /// The commit that keeps them.
    tip: Option<CommitId>,
    /// The reason why a case's winner was last not kept, so that it is reported once.
    refusals: HashMap<CaseName, String>,
    /// Whether there was no time for the last winners.
    cut_short: bool,
    /// The commits that introduced committed winners, by their sidecars. A walk through the history takes a while.
    introduced: HashMap<PathBuf, Option<CommitId>>,
}

/// The parts of a target that commits.
struct Way<'a> {
    repo: &'a Repo,
    destination: &'a Destination,
    kept_under: &'a str,
}

impl Committer {
    pub fn new(target: Target) -> Self {
        let (kept, refusals, introduced) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { target, kept, tip: None, refusals, cut_short: false, introduced }
    }

    fn way(&self) -> Option<Way<'_>> {
        let Target { repo, destination, kept_under } = &self.target;
        let (repo, destination) = (repo.as_ref()?, destination.as_ref().ok()?);
        Some(Way { repo, destination, kept_under: kept_under.as_deref()? })
    }

    /// Returns whether winners go to git at all.
    fn keeps(&self) -> bool {
        self.way().is_some()
    }

    /// Reads what is kept, if this process did not put it there.
    fn refresh(&mut self, session: SessionId) -> Result<(), VcsError> {
        let Some(Way { repo, kept_under, .. }) = self.way() else { return Ok(()) };
        if repo.commit_at(kept_under) == self.tip {
            return Ok(());
        }
        let kept = repo.kept(kept_under, session)?;
        self.tip = kept.tip;
        // The newest of a case comes first.
        self.kept =
            kept.winners.into_iter().rev().map(|winner| (winner.case, (winner.iteration, winner.variant))).collect();
        Ok(())
    }

    fn has(&self, case: &CaseName, winner: &Candidate) -> bool {
        self.kept.get(case).is_some_and(|(iteration, hash)| *iteration == winner.iteration && *hash == winner.hash)
    }

    fn keep(&mut self, case: &CaseName, iteration: IterationId, winner: &Winner) -> Result<(), VcsError> {
        let Some(Way { repo, destination, kept_under }) = self.way() else { return Ok(()) };
        let tip = repo.keep(kept_under, destination, winner)?;
        self.tip = Some(tip);
        self.kept.insert(case.clone(), (iteration, winner.sidecar.variant.hash.clone()));
        Ok(())
    }

    /// Returns the commit that introduced a committed winner, if HEAD or the session's branch has the winner.
    fn introduced(&mut self, known: &KnownWinner) -> Option<CommitId> {
        let repo = self.target.repo.as_ref()?;
        let other = self.target.destination.as_ref().ok().map(Destination::reference);
        let find = || match repo.introduced(&known.sidecar, &known.hash, other) {
            Ok(commit) => commit,
            Err(reason) => {
                tracing::warn!("the commit of {} is not known: {reason}", known.sidecar.display());
                None
            }
        };
        self.introduced.entry(known.sidecar.clone()).or_insert_with(find).clone()
    }

    /// Returns whether winners wait for a resumption, because there was no time to keep them.
    pub fn is_cut_short(&self) -> bool {
        self.cut_short
    }

    /// Returns whether a refusal is new.
    fn is_new_refusal(&mut self, case: &str, reason: &str) -> bool {
        self.refusals.insert(case.into(), reason.to_owned()).as_deref() != Some(reason)
    }
}

impl Session<'_> {
    /// Keeps the winners in git that are not kept yet. One that cannot be kept is tried again with the next winner.
    pub(in crate::session) async fn keep_winners(&mut self) -> anyhow::Result<()> {
        if let Err(reason) = self.committer.refresh(self.id) {
            tracing::warn!("what is kept in git is not known: {reason}");
        }
        let winner = |case: &CaseName, winner: &Uncommitted| {
            let is_due = self.committer.keeps() && !self.committer.has(case, &winner.candidate);
            is_due.then(|| (case.clone(), winner.clone()))
        };
        let due: Vec<_> = self.state.cases().filter_map(|(case, state)| winner(case, state.winner()?)).collect();
        let unlinked: Vec<_> =
            self.state.cases().filter_map(|(case, state)| Some((case.clone(), state.unlinked?))).collect();
        if due.is_empty() && unlinked.is_empty() {
            return Ok(());
        }
        let begun = Instant::now();
        for (case, iteration) in unlinked {
            self.link_remeasured(iteration, &case).await?;
        }
        for (case, winner) in due {
            if self.deadline.is_over() {
                self.committer.cut_short = true;
                break;
            }
            self.keep(&case, winner).await?;
        }
        self.record_phase(&PhaseTime::of(Phase::Commits, begun.elapsed())).await
    }

    async fn keep(&mut self, case: &CaseName, winner: Uncommitted) -> anyhow::Result<()> {
        let Uncommitted { candidate, previous } = winner;
        let kernel = self.cache.kernel(self.state.setup(), candidate.iteration).await?;
        let earlier = self.earlier(&candidate);
        let Some(winner) = self::winner(self.id, &self.state, &kernel, &candidate, previous.as_ref()) else {
            return Ok(());
        };
        let mut winner = Winner { earlier, ..winner };
        winner.sidecar.proven_for = self.shared.proven.of(&kernel.variant.hash);
        match self.committer.keep(case, candidate.iteration, &winner) {
            Ok(()) => {
                if let (Some(commit), Some(reference)) = (&self.committer.tip, &self.committer.target.kept_under) {
                    self.observer.event(&Event::Kept { case, commit: &commit.0, reference });
                }
            }
            Err(reason) => {
                let reason = reason.to_string();
                if self.committer.is_new_refusal(case, &reason) {
                    self.observer.event(&Event::NotKept { case, reason: &reason });
                }
            }
        }
        Ok(())
    }

    /// Commits the winners at the end of the session, all in one commit.
    pub(in crate::session) async fn commit_winners(&mut self) -> anyhow::Result<()> {
        self.keep_winners().await?;
        let begun = Instant::now();
        let committed = match self.commit_kept() {
            Ok(Some(committed)) => committed,
            Ok(None) => return Ok(()),
            Err((reason, cases)) => SessionCommitted { refused: vec![(reason, cases)], ..SessionCommitted::default() },
        };
        if let Some(commit) = &committed.commit {
            for case in &committed.cases {
                let winner = self.state.case(case).and_then(|case| case.winner());
                if let Some(iteration) = winner.map(|winner| winner.candidate.iteration) {
                    self.record_commit(iteration, case, &commit.0).await?;
                }
            }
            self.tell_committed(&commit.0, &committed.cases);
        }
        for (reason, cases) in &committed.refused {
            let kept_under = self.committer.way().filter(|way| way.repo.commit_at(way.kept_under).is_some());
            let kept_under = kept_under.map(|way| way.kept_under);
            self.observer.event(&Event::NotCommitted { cases, reason, kept_under });
        }
        self.record_phase(&PhaseTime::of(Phase::Commits, begun.elapsed())).await
    }

    /// Commits what is kept. None if there is nothing to commit. An error is about all of the cases.
    fn commit_kept(&mut self) -> Result<Option<SessionCommitted>, (String, Vec<CaseName>)> {
        // In the workload's order, as in every table.
        let names = self.state.setup().workload.cases.iter().map(|case| &case.name);
        let winner = |case: &CaseName| Some((case.clone(), self.state.case(case)?.winner()?.candidate.clone()));
        let won: Vec<(CaseName, Candidate)> = names.filter_map(winner).collect();
        let cases = || won.iter().map(|(case, _)| case.clone()).collect();
        if let Err(NoCommit::Impossible(reason)) = &self.committer.target.destination
            && !won.is_empty()
        {
            return Err((reason.clone(), cases()));
        }
        let kept = won.iter().filter(|(case, winner)| self.committer.has(case, winner)).cloned();
        let winners =
            kept.collect::<Vec<_>>().into_iter().filter_map(|(case, winner)| self.session_winner(&case, &winner));
        let winners: Vec<SessionWinner> = winners.collect();
        let Some(Way { repo, destination, kept_under }) = self.committer.way() else { return Ok(None) };
        if winners.is_empty() {
            // Those that were kept have failed since, or are committed.
            let dropped = if won.is_empty() { repo.drop_kept(kept_under) } else { Ok(()) };
            dropped.unwrap_or_else(|reason| tracing::warn!("{kept_under} is not removed: {reason}"));
            return Ok(None);
        }
        let setup = self.state.setup();
        let commit = SessionCommit {
            session: self.id,
            workload: &setup.workload.name,
            device: setup.device.key(),
            device_name: &setup.device.name,
            time_source: setup.device.time_source(),
            graphs: setup.device.graphs(),
            kept_under,
            winners,
        };
        repo.commit_session(destination, &commit).map(Some).map_err(|reason| (reason.to_string(), cases()))
    }

    fn session_winner(&mut self, case: &CaseName, winner: &Candidate) -> Option<SessionWinner> {
        let known = self.state.setup().known.iter().filter(|known| known.case == *case).map(|known| known.hash.clone());
        let own = self.state.case(case)?.committed.iter().cloned();
        Some(SessionWinner {
            iteration: winner.iteration,
            gain: self.state.gain_of(case, winner)?,
            beaten: known.chain(own).collect(),
            family: self.state.setup().family_to_commit(&winner.family),
            earlier: self.earlier(winner),
        })
    }

    /// Tells the observer of a commit.
    pub(in crate::session) fn tell_committed(&self, commit: &str, cases: &[CaseName]) {
        let branch = self.committer.target.destination.as_ref().map_or("HEAD", |destination| destination.name());
        let elsewhere = self.committer.way().is_some_and(|way| !way.repo.is_checked_out(way.destination.reference()));
        self.observer.event(&Event::Committed { elsewhere, commit, branch, cases });
    }

    /// Links a committed winner that was measured again to the commit that introduced it. Without such a commit in HEAD,
    /// there is no link.
    async fn link_remeasured(&mut self, iteration: IterationId, case: &CaseName) -> anyhow::Result<()> {
        let known = self.state.case(case).and_then(|case| case.known.clone());
        if let Some(commit) = known.and_then(|known| self.committer.introduced(&known)) {
            self.store.link_earlier_commit(iteration, case, &commit.0).await?;
            self.state.apply(&Record::Committed { iteration, case: case.clone() });
        }
        Ok(())
    }

    /// Returns where an earlier session found the configuration of a winner. None if this session found it.
    fn earlier(&mut self, candidate: &Candidate) -> Option<Earlier> {
        let Candidate { iteration, family, params, measurement, .. } = candidate;
        let Origin::CommittedWinner { device, .. } = &self.state.history().iteration(*iteration)?.rationale.origin
        else {
            return None;
        };
        let known = self.state.setup().known(&measurement.case, family, params)?;
        Some(Earlier { device: device.clone(), commit: self.committer.introduced(known) })
    }

    /// Links a winner to the commit that this session has made of it.
    pub(in crate::session) async fn record_commit(
        &mut self,
        iteration: IterationId,
        case: &CaseName,
        commit: &str,
    ) -> anyhow::Result<()> {
        self.store.link_commit(iteration, case, commit).await?;
        self.state.apply(&Record::Committed { iteration, case: case.clone() });
        Ok(())
    }
}

/// Returns what a commit says about a winner. None if the winner was never timed.
fn winner(
    session: SessionId,
    state: &SessionState,
    kernel: &Kernel,
    candidate: &Candidate,
    previous: Option<&Timing>,
) -> Option<Winner> {
    let setup = state.setup();
    let timing = candidate.measurement.best_timing()?;
    let figures = |timing: &Timing| Figures {
        median_us: timing.median_ns / 1e3,
        ci_us: [timing.interval_ns.lo / 1e3, timing.interval_ns.hi / 1e3],
        samples: timing.samples_ns.len(),
    };
    let comparison = candidate.measurement.comparison.as_ref();
    let alone = state.case(&candidate.measurement.case).and_then(|case| case.baseline());
    Some(Winner {
        device: setup.device.key(),
        workload: setup.workload.name.clone(),
        source: kernel.variant.source.clone(),
        sidecar: sidecar(setup, kernel, candidate, timing)?,
        previous: previous.map(figures),
        speedup: comparison.and_then(|comparison| comparison.against(Role::Incumbent)).map(|(_, ratio)| ratio),
        baseline: BaselineTime::of(comparison, alone),
        timed_by: TimedBy::Iteration { session, iteration: candidate.iteration },
        earlier: None,
        family: setup.family_to_commit(&candidate.family),
    })
}

/// Describes a winner's launch and results. None without a launch plan on its case.
fn sidecar(setup: &SessionSetup, kernel: &Kernel, candidate: &Candidate, timing: &Timing) -> Option<Sidecar> {
    let (workload, device) = (&setup.workload, &setup.device);
    let Kernel { variant, artifact, requests } = kernel;
    let measurement = &candidate.measurement;
    let request = requests.iter().find(|request| request.case.name == measurement.case)?;
    let won =
        SidecarVariant { family: variant.family.clone(), params: variant.params.clone(), hash: variant.hash.clone() };
    Some(Sidecar {
        schema: sidecar::SCHEMA.to_owned(),
        source: Some(won.name_of(&variant.source)),
        arch: artifact.arch.clone(),
        compile_options: artifact.options.clone(),
        tensors: sidecar::tensors(&workload.op.tensors(&request.case.dims, workload.dtype)),
        dtype: Some(workload.dtype),
        compute: workload.compute,
        workspaces: sidecar::workspaces(&request.plan.workspaces),
        preparation: request.plan.preparation.clone(),
        launches: request.plan.launches.clone(),
        variant: won,
        measurement: SidecarMeasurement::of(&Conditions::of(workload, &request.case, device), measurement, timing),
        environment: SidecarEnvironment {
            device: device.name.clone(),
            driver: device.driver.clone(),
            nvrtc: artifact.nvrtc.clone(),
            optloop: env!("CARGO_PKG_VERSION").to_owned(),
        },
        proven_for: Vec::new(),
        rules: setup.family(&variant.family).ok().map(Family::plan_rules),
    })
}
