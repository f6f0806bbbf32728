//! One side of a comparison: the user's name for a recorded time, and where the time is.

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::catalog::{Project, sidecars_of};
use crate::domain::device::gpu_state::Load;
use crate::domain::device::regime::Regime;
use crate::domain::ids::{CaseName, IterationId, SessionId};
use crate::domain::measurement::comparison::{Comparison, Participant, Role};
use crate::domain::measurement::conditions::{Conditions, RecordedTime, compare};
use crate::domain::op::Dims;
use crate::domain::record::{CaseRecord, IterationRecord, SessionSummary};
use crate::domain::sidecar::{self, Sidecar};
use crate::domain::text::names::did_you_mean;
use crate::error::{usage, usage_sentence};
use crate::files;
use crate::launch::replayed;
use crate::store::Store;

/// The user's name for a recorded time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Side {
    /// An iteration of a session.
    Iteration(IterationId),
    /// The fastest baseline of a case in a session.
    Baseline {
        /// The session.
        session: SessionId,
        /// The case.
        case: CaseName,
    },
    /// The sidecar of a committed winner.
    Sidecar(PathBuf),
    /// The committed winners of a case on several devices. The other side decides which of them is meant.
    Winners {
        /// The user's text.
        text: String,
        /// The case.
        case: CaseName,
        /// Their sidecars.
        sidecars: Vec<PathBuf>,
    },
}

/// A recorded time.
pub(super) struct Recorded {
    /// The time with its conditions.
    pub(super) figure: RecordedTime,
    /// The number of samples behind it, even if they are lost.
    pub(super) samples: usize,
}

impl Side {
    /// Parses the user's text.
    pub(super) fn parse(text: &str, project: &Project) -> anyhow::Result<Self> {
        if let Ok(iteration) = text.parse() {
            return Ok(Self::Iteration(iteration));
        }
        if let Some(rest) = text.strip_prefix("baseline:") {
            let parsed = rest.split_once('/').and_then(|(session, case)| Some((session.parse().ok()?, case)));
            let Some((session, case)) = parsed else {
                return Err(usage_sentence(format!(
                    "`{text}` does not name a baseline: write baseline:<session>/<case>, such as baseline:3/b1h1s128"
                )));
            };
            return Ok(Self::Baseline { session, case: case.into() });
        }
        let path = Path::new(text);
        if path.extension().is_some_and(|extension| extension == "json") {
            return Ok(Self::Sidecar(path.to_owned()));
        }
        if path.extension().is_some_and(|extension| extension == "cu") {
            let named_by = sidecars_of(path).map_err(usage)?;
            return one_of(&named_by, &format!("`{text}` has no sidecar beside it"), text, project);
        }
        let Some((workload, case)) = text.split_once('/') else {
            return Err(usage_sentence(format!(
                "`{text}` does not name a time: write an iteration's number, <workload>/<case>, a winner's .json or \
                 .cu, or baseline:<session>/<case>"
            )));
        };
        let sidecars = project.committed(workload, case);
        if sidecars.len() > 1 {
            return Ok(Self::Winners { text: text.to_owned(), case: case.into(), sidecars });
        }
        one_of(&sidecars, &format!("`{text}` has no committed winner in kernels/variants/"), text, project)
    }

    /// Decides between the winners of several devices: the one that can be compared with the other time. If none can,
    /// or the other side is open, too, the error names them.
    pub(super) fn resolved(self, other: Option<&Recorded>, project: &Project) -> anyhow::Result<Self> {
        let Self::Winners { text, sidecars, .. } = self else { return Ok(self) };
        let is_comparable = |path: &&PathBuf| {
            let found = from_sidecar(path, project).ok();
            found.zip(other).is_some_and(|(found, other)| compare(&found.figure, &other.figure).is_ok())
        };
        let comparable: Vec<PathBuf> = sidecars.iter().filter(is_comparable).cloned().collect();
        one_of(if comparable.is_empty() { &sidecars } else { &comparable }, "", &text, project)
    }

    /// Returns whether the other side has to decide which time is meant.
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Winners { .. })
    }

    /// Returns the case that the text names. None for iterations, which may have several.
    pub(super) fn case(&self, project: &Project) -> Option<CaseName> {
        match self {
            Self::Iteration(_) => None,
            Self::Baseline { case, .. } | Self::Winners { case, .. } => Some(case.clone()),
            Self::Sidecar(path) => from_sidecar(path, project).ok().map(|recorded| recorded.figure.conditions.case),
        }
    }

    /// Returns whether the time is in the store rather than in a file.
    pub(super) fn is_stored(&self) -> bool {
        !matches!(self, Self::Sidecar(_) | Self::Winners { .. })
    }

    /// Returns its session. None for a file.
    pub(super) async fn session(&self, store: &Store) -> anyhow::Result<Option<SessionId>> {
        match self {
            Self::Iteration(id) => Ok(Some(store.iteration(*id).await?.iteration.session)),
            Self::Baseline { session, .. } => Ok(Some(*session)),
            Self::Sidecar(_) | Self::Winners { .. } => Ok(None),
        }
    }

    /// Returns its participant in a comparison.
    pub(super) fn find<'a>(&self, comparison: &'a Comparison) -> Option<&'a Participant> {
        comparison.participants.iter().find(|participant| match self {
            Self::Iteration(id) => participant.iteration == Some(*id) && participant.role != Role::Control,
            Self::Baseline { case, .. } => participant.role == Role::Baseline && comparison.conditions.case == *case,
            Self::Sidecar(_) | Self::Winners { .. } => false,
        })
    }

    /// Reads the time. There is a store if [`Self::is_stored`].
    pub(super) async fn read(
        &self,
        case: Option<&str>,
        project: &Project,
        store: Option<&Store>,
    ) -> anyhow::Result<Recorded> {
        match (self, store) {
            (Self::Iteration(id), Some(store)) => iteration(*id, case, project, store).await,
            (Self::Baseline { session, case }, Some(store)) => baseline(*session, case, project, store).await,
            (Self::Sidecar(path), _) => from_sidecar(path, project),
            (Self::Winners { text, sidecars, .. }, _) => {
                from_sidecar(sidecars.first().with_context(|| format!("`{text}` has no winner"))?, project)
            }
            (_, None) => anyhow::bail!("there is no store yet: run `optloop start` first"),
        }
    }
}

/// Returns the only sidecar. The error says what to write instead.
fn one_of(sidecars: &[PathBuf], none: &str, text: &str, project: &Project) -> anyhow::Result<Side> {
    match sidecars {
        [] => Err(usage_sentence(none)),
        [only] => Ok(Side::Sidecar(only.clone())),
        several => {
            let shown: Vec<String> = several.iter().map(|path| show(path, project)).collect();
            Err(usage_sentence(format!("`{text}` has several winners: write one of {}", shown.join(", "))))
        }
    }
}

async fn iteration(id: IterationId, case: Option<&str>, project: &Project, store: &Store) -> anyhow::Result<Recorded> {
    let detail = store.iteration(id).await?;
    let measurement = timed_case(&detail.iteration, case)?;
    let timing = measurement.best_timing().context("The case has no time")?;
    let conditions = match &measurement.comparison {
        Some(comparison) => comparison.conditions.clone(),
        None => {
            let dims = dims_of(&measurement.case, [&detail.iteration])?;
            conditions(project, &detail.session, &measurement.case, dims, measurement.regime)?
        }
    };
    let name = format!("iteration {id} ({} {})", detail.iteration.family, detail.iteration.hash.short());
    let samples = timing.samples_ns.len();
    Ok(Recorded { figure: RecordedTime { conditions, name, timing: timing.clone() }, samples })
}

/// Returns the case on which to compare an iteration: the requested one, or its only one.
fn timed_case<'a>(iteration: &'a IterationRecord, requested: Option<&str>) -> anyhow::Result<&'a CaseRecord> {
    let timed: Vec<_> = iteration.measurements.iter().filter(|found| found.best_timing().is_some()).collect();
    let names = timed.iter().map(|found| found.case.as_str());
    let listed = names.clone().collect::<Vec<_>>().join(", ");
    let id = iteration.id;
    match (requested, timed.as_slice()) {
        (_, []) => Err(usage_sentence(format!("iteration {id} has no time: see `optloop show {id}` for why"))),
        (None, [only]) => Ok(only),
        (None, _) => {
            Err(usage_sentence(format!("iteration {id} was timed on several cases: add --case, one of {listed}")))
        }
        (Some(case), _) => timed.iter().find(|found| found.case == case).copied().ok_or_else(|| {
            let hint = did_you_mean(case, names);
            usage_sentence(format!("iteration {id} was not timed on `{case}`{hint}; it was on {listed}"))
        }),
    }
}

async fn baseline(session: SessionId, case: &str, project: &Project, store: &Store) -> anyhow::Result<Recorded> {
    let record = store.session_record(session).await?;
    // The store lists the fastest of a case first.
    let Some(found) = record.baselines.iter().find(|baseline| baseline.case == case) else {
        let cases: Vec<&str> = record.baselines.iter().map(|baseline| baseline.case.as_str()).collect();
        let hint = did_you_mean(case, cases.iter().copied());
        return Err(usage_sentence(format!("session {session} timed no baseline on `{case}`{hint}")));
    };
    let conditions = conditions(project, &record.session, case, dims_of(case, &record.iterations)?, found.regime)?;
    let samples = found.timing.samples_ns.len();
    Ok(Recorded {
        figure: RecordedTime { conditions, name: found.name.clone(), timing: found.timing.clone() },
        samples,
    })
}

/// Returns the dimensions that a case had when its session ran.
fn dims_of<'a>(case: &str, iterations: impl IntoIterator<Item = &'a IterationRecord>) -> anyhow::Result<Dims> {
    let mut cases = iterations.into_iter().flat_map(|iteration| &iteration.cases);
    let found = cases.find(|found| found.name == case).map(|found| found.dims.clone());
    found.ok_or_else(|| usage_sentence(format!("no iteration records the shape of `{case}`")))
}

fn conditions(
    project: &Project,
    session: &SessionSummary,
    case: &str,
    dims: Dims,
    regime: Regime,
) -> anyhow::Result<Conditions> {
    let workload = replayed::workload_of(project, session)?;
    Ok(Conditions {
        workload: session.workload.clone(),
        case: case.into(),
        dims,
        // The dtype belongs to the workload, so the store does not repeat it.
        dtype: workload.dtype,
        compute: workload.compute,
        device: session.device.clone(),
        regime,
        time_source: session.time_source,
        graphs: session.graphs,
        load: Load::Bursts,
    })
}

fn from_sidecar(path: &Path, project: &Project) -> anyhow::Result<Recorded> {
    let shown = show(path, project);
    let sidecar = Sidecar::parse(&files::read(path).map_err(usage)?)
        .map_err(|problem| usage_sentence(format!("{shown} is not the sidecar of a winner: {problem}")))?;
    let found = &sidecar.measurement;
    let folder = path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    let workload = found.workload.as_deref().or(folder).unwrap_or_default();
    let dims = match &found.dims {
        Some(dims) => dims.clone(),
        None => dims_by_name(&sidecar, workload, &shown, project)?,
    };
    let Some(dtype) = sidecar.dtype_in(project.workload(workload).ok().as_ref()) else {
        return Err(usage_sentence(format!("{shown} has no tensors and therefore no dtype")));
    };
    let conditions = Conditions {
        workload: workload.to_owned(),
        case: found.case.clone(),
        dims,
        dtype,
        compute: sidecar.compute,
        device: sidecar.environment.device.clone(),
        regime: found.regime,
        time_source: found.time_source,
        graphs: found.graphs,
        load: Load::Bursts,
    };
    let name = format!("{shown} ({} {})", sidecar.variant.family, sidecar.variant.hash.short());
    Ok(Recorded { figure: RecordedTime { conditions, name, timing: found.timing() }, samples: found.samples })
}

/// Returns the dimensions of a winner of the first release. Its sidecar gives only the shapes of its tensors, so the
/// case must still have these shapes.
fn dims_by_name(sidecar: &Sidecar, workload: &str, shown: &str, project: &Project) -> anyhow::Result<Dims> {
    let name = &sidecar.measurement.case;
    let workload = project.workload(workload).map_err(usage)?;
    let case = workload.cases.iter().find(|case| case.name == *name);
    let dims = case.map(|case| case.dims.clone());
    let same = |dims: &Dims| sidecar::tensors(&workload.op.tensors(dims, workload.dtype)) == sidecar.tensors;
    dims.filter(same).ok_or_else(|| {
        usage_sentence(format!(
            "{shown} does not record its dimensions, and {} no longer has a case `{name}` with its shapes",
            workload.name
        ))
    })
}

/// Returns a path relative to the project.
fn show(path: &Path, project: &Project) -> String {
    path.strip_prefix(project.root()).unwrap_or(path).display().to_string()
}
