//! Commits the winners of a session to git.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Instant;

use super::Session;
use super::case_state::{Candidate, Pending};
use super::event::Event;
use super::setup::SessionSetup;
use super::shelf::Kernel;
use super::state::SessionState;
use crate::domain::comparison::Role;
use crate::domain::conditions::Conditions;
use crate::domain::ids::{CaseName, IterationId, SessionId};
use crate::domain::journal::Record;
use crate::domain::origin::Origin;
use crate::domain::phase::{Phase, PhaseTime};
use crate::domain::proposal::KnownWinner;
use crate::domain::sidecar::{self, Sidecar, SidecarEnvironment, SidecarMeasurement, SidecarVariant};
use crate::domain::timing::Timing;
use crate::vcs::{BaselineTime, CommitId, Earlier, Figures, Repo, TimedBy, Winner};

/// Commits winners, and remembers why it could not.
pub(super) struct Committer {
    /// The repository, or the reason why there is none to commit to.
    repo: Result<Repo, String>,
    /// The reason why a case's winner was last not committed, so that it is reported once.
    refusals: HashMap<CaseName, String>,
    /// Whether there was no time for the last winners.
    cut_short: bool,
    /// The commits that introduced committed winners, by their sidecars. A walk through the history takes a while.
    introduced: HashMap<PathBuf, Option<CommitId>>,
}

impl Committer {
    pub fn new(repo: Result<Repo, String>) -> Self {
        Self { repo, refusals: HashMap::new(), cut_short: false, introduced: HashMap::new() }
    }

    /// Returns the commit that introduced a committed winner, if HEAD has the winner.
    fn introduced(&mut self, known: &KnownWinner) -> Option<CommitId> {
        let Ok(repo) = &self.repo else { return None };
        let find = || match repo.introduced(&known.sidecar, &known.hash) {
            Ok(commit) => commit,
            Err(reason) => {
                tracing::warn!("the commit of {} is not known: {reason}", known.sidecar.display());
                None
            }
        };
        self.introduced.entry(known.sidecar.clone()).or_insert_with(find).clone()
    }

    fn commit(&self, winner: &Winner) -> Result<String, String> {
        let repo = self.repo.as_ref().map_err(Clone::clone)?;
        repo.commit_winner(winner).map(|commit| commit.0).map_err(|error| error.to_string())
    }

    /// Returns whether winners wait for a resumption, because there was no time to commit them.
    pub fn is_cut_short(&self) -> bool {
        self.cut_short
    }

    /// Returns whether a refusal is new.
    fn is_new_refusal(&mut self, case: &str, reason: &str) -> bool {
        self.refusals.insert(case.into(), reason.to_owned()).as_deref() != Some(reason)
    }
}

impl Session<'_> {
    /// Commits the winners that have no commit yet. One that cannot be committed stays pending: the index may be locked
    /// now and free with the next winner.
    pub(super) async fn commit_pending(&mut self) -> anyhow::Result<()> {
        let pending = self.state.cases().filter_map(|(case, state)| Some((case.clone(), state.pending.clone()?)));
        let pending: Vec<_> = pending.collect();
        if pending.is_empty() {
            return Ok(());
        }
        let begun = Instant::now();
        self.commit_each(pending).await?;
        self.record_phase(&PhaseTime::of(Phase::Commits, begun.elapsed())).await
    }

    async fn commit_each(&mut self, pending: Vec<(CaseName, Pending)>) -> anyhow::Result<()> {
        for (case, pending) in pending {
            if self.deadline.is_over() {
                self.committer.cut_short = self.committer.repo.is_ok();
                break;
            }
            match pending {
                Pending::Kept { iteration } => self.link_kept(iteration, &case).await?,
                Pending::New { candidate, previous } => {
                    let kernel = self.shelf.kernel(self.state.setup(), candidate.iteration).await?;
                    let iteration = candidate.iteration;
                    let earlier = self.earlier(&candidate);
                    let winner = winner(self.id, &self.state, &kernel, &candidate, previous.as_ref());
                    let Some(mut winner) = winner.map(|winner| Winner { earlier, ..winner }) else { continue };
                    winner.sidecar.proven_for = self.evaluator.proven_for(&kernel.variant.hash);
                    self.commit(iteration, &case, &winner).await?;
                }
            }
        }
        Ok(())
    }

    async fn commit(&mut self, iteration: IterationId, case: &CaseName, winner: &Winner) -> anyhow::Result<()> {
        match self.committer.commit(winner) {
            Ok(commit) => {
                self.record_commit(iteration, case, &commit).await?;
                self.observer.event(&Event::Committed { case, commit: &commit });
            }
            Err(reason) => {
                if self.committer.is_new_refusal(case, &reason) {
                    self.observer.event(&Event::NotCommitted { case, reason: &reason });
                }
            }
        }
        Ok(())
    }

    /// Links a committed winner that was measured again to the commit that introduced it. Without such a commit in HEAD,
    /// there is no link.
    async fn link_kept(&mut self, iteration: IterationId, case: &CaseName) -> anyhow::Result<()> {
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
        let Origin::CommittedWinner { device, .. } = &self.state.history().iteration(*iteration)?.origin else {
            return None;
        };
        let known = self.state.setup().known(&measurement.case, family, params)?;
        Some(Earlier { device: device.clone(), commit: self.committer.introduced(known) })
    }

    /// Links a winner to the commit that this session has made of it.
    pub(super) async fn record_commit(
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
        source: Some(won.source_name()),
        arch: artifact.arch.clone(),
        compile_options: artifact.options.clone(),
        tensors: sidecar::tensors(&workload.op.tensors(&request.case.dims, workload.dtype)),
        workspaces: sidecar::workspaces(&request.plan.workspaces),
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
    })
}
