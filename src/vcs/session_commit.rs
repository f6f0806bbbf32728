//! The one commit that a session leaves on a branch: its winners, with the table of gains in its message.

use std::fmt::Write;

use git2::Tree;

use super::changes::WinnerFiles;
use super::commit::{Attempt, Text};
use super::destination::Destination;
use super::error::VcsError;
use super::family::FamilyFiles;
use super::winner::{Earlier, us};
use super::{CommitId, Repo, running};
use crate::domain::device::gpu_state::Graphs;
use crate::domain::device::{DeviceKey, TimeSource};
use crate::domain::ids::{CaseName, IterationId, SessionId};
use crate::domain::record::BaselineKind;
use crate::domain::record::gain::CaseGain;
use crate::domain::sidecar::Sidecar;
use crate::domain::text::escape::git;
use crate::domain::variant::{VariantHash, show_params};

/// Marks the time of the initial kernel where no winner was committed before, and where one was, but was not measured again.
const NONE_BEFORE: &str = "*";
const NOT_MEASURED: &str = "+";

/// The winners of a session that are kept under its reference, ready to be committed.
#[derive(Debug)]
pub struct SessionCommit<'a> {
    /// The session.
    pub session: SessionId,
    /// The workload's name.
    pub workload: &'a str,
    /// The kind of device to which the winners belong.
    pub device: DeviceKey,
    /// The name of the device.
    pub device_name: &'a str,
    /// Whether times are measured or modelled.
    pub time_source: TimeSource,
    /// The state of the graphs in which they were taken.
    pub graphs: Graphs,
    /// The reference under which the winners are kept.
    pub kept_under: &'a str,
    /// The winner of each case.
    pub winners: Vec<SessionWinner>,
}

/// The winner of a case.
#[derive(Debug)]
pub struct SessionWinner {
    /// The iteration that measured it.
    pub iteration: IterationId,
    /// What the session has gained on the case.
    pub gain: CaseGain,
    /// The sources of the case that it has beaten.
    pub beaten: Vec<VariantHash>,
    /// Its family, if a language model wrote that.
    pub family: Option<FamilyFiles>,
    /// Where an earlier session found the configuration. None if this session found it.
    pub earlier: Option<Earlier>,
}

/// What came of the commit of a session.
#[derive(Debug, Default)]
pub struct SessionCommitted {
    /// The commit. None if no winner could be committed.
    pub commit: Option<CommitId>,
    /// The cases whose winners it has.
    pub cases: Vec<CaseName>,
    /// The cases whose winners it has not, by reason. They are still kept under the reference.
    pub refused: Vec<(String, Vec<CaseName>)>,
}

/// A winner with its files.
type Ready<'a> = (&'a SessionWinner, WinnerFiles);

impl Repo {
    /// Commits the kept winners of a session, and removes its reference. A winner that cannot be committed is left out, and
    /// stays under the reference: in a commit of its own that `git cherry-pick` can take, if possible.
    pub fn commit_session(
        &self,
        destination: &Destination,
        session: &SessionCommit<'_>,
    ) -> Result<SessionCommitted, VcsError> {
        let _running = running::begin();
        let kept = self.tip(session.kept_under)?.ok_or_else(|| VcsError::gone(session.kept_under))?;
        let tree = self.tree_of(Some(&kept))?;
        let files = |winner| Ok((winner, self.kept_files(session, winner, &tree)?));
        let mut ready: Vec<Ready<'_>> = session.winners.iter().map(files).collect::<Result<_, VcsError>>()?;
        let (mut done, mut left_out) = (SessionCommitted::default(), Vec::new());
        // Each turn leaves out at least one winner.
        while done.commit.is_none() && !ready.is_empty() {
            let (refused, reasons): (Vec<usize>, Vec<String>) = match self.try_session(destination, session, &ready) {
                Ok(Attempt::Done(commit)) => {
                    done.commit = Some(commit);
                    break;
                }
                Ok(Attempt::Refused(refused)) => refused.into_iter().map(|(at, why)| (at, why.to_string())).unzip(),
                Err(reason) => (0..ready.len()).map(|at| (at, reason.to_string())).unzip(),
            };
            for (at, reason) in refused.into_iter().zip(reasons).rev() {
                let out = ready.remove(at);
                done.refuse(out.0.gain.case.clone(), reason);
                left_out.push(out);
            }
        }
        done.cases = ready.iter().map(|(winner, _)| winner.gain.case.clone()).collect();
        if !left_out.is_empty() {
            self.park(destination, session, &left_out, &kept);
        } else if let Err(reason) = self.drop_kept(session.kept_under) {
            // The commit is made, so this is no reason against it.
            tracing::warn!("{} is not removed, and has only winners that are committed: {reason}", session.kept_under);
        }
        Ok(done)
    }

    fn try_session(
        &self,
        destination: &Destination,
        session: &SessionCommit<'_>,
        ready: &[Ready<'_>],
    ) -> Result<Attempt, VcsError> {
        let reference = destination.reference();
        if self.tip(reference)?.is_none() && self.kept(session.kept_under, session.session)?.has_base {
            return Err(VcsError::gone(reference));
        }
        let files: Vec<&WinnerFiles> = ready.iter().map(|(_, files)| files).collect();
        self.attempt(reference, &files, &|new_families| session.text(ready, new_families))
    }

    /// Reads the files of a winner from the tree of what is kept.
    fn kept_files(
        &self,
        session: &SessionCommit<'_>,
        winner: &SessionWinner,
        tree: &Tree<'_>,
    ) -> Result<WinnerFiles, VcsError> {
        let case = &winner.gain.case;
        let path = self.sidecar_path(&session.device, session.workload, case)?;
        let missing = || VcsError::NotKept { case: case.to_string(), reference: session.kept_under.to_owned() };
        let text = self.text_in(tree, &path).ok_or_else(missing)?;
        let sidecar = Sidecar::parse(&text).map_err(|_| missing())?;
        let source = self.text_in(tree, &sidecar.source_beside(&path)).ok_or_else(missing)?;
        let (family, beaten) = (winner.family.clone(), Some(winner.beaten.clone()));
        Ok(WinnerFiles { path, sidecar, text, source, family, beaten })
    }

    /// Makes one commit of the winners that were left out, and moves the session's reference to it. Where that is not
    /// possible, the reference keeps what it has.
    fn park(
        &self,
        destination: &Destination,
        session: &SessionCommit<'_>,
        left_out: &[Ready<'_>],
        kept: &git2::Commit<'_>,
    ) {
        let parked = || {
            let parent = self.base(destination)?;
            let base = self.tree_of(parent.as_ref())?;
            let files: Vec<&WinnerFiles> = left_out.iter().map(|(_, files)| files).collect();
            let changes = self.changes(&files, &base, false).map_err(|mut refused| refused.swap_remove(0).1)?;
            let tree = self.tree_with(&base, &changes)?;
            let Text { summary, message } = session.text(left_out, &self.new_families(&files, &changes));
            let commit = self.commit(&message, &tree, parent.as_ref())?;
            self.point(session.kept_under, Some(kept), commit, &summary)
        };
        if let Err(reason) = parked() {
            tracing::debug!("{} stays as it is: {reason}", session.kept_under);
        }
    }
}

impl SessionCommitted {
    fn refuse(&mut self, case: CaseName, reason: String) {
        match self.refused.iter_mut().find(|(other, _)| *other == reason) {
            Some((_, cases)) => cases.push(case),
            None => self.refused.push((reason, vec![case])),
        }
    }
}

impl SessionCommit<'_> {
    /// Returns the message of the commit with some of the winners.
    fn text(&self, winners: &[Ready<'_>], new_families: &[&str]) -> Text {
        let summary = self.summary(winners);
        let is_modelled = self.time_source == TimeSource::Modelled;
        let mut message = format!("{summary}\n\n{}", table(winners, is_modelled));
        let mut line = |text: String| {
            // Writing to a string cannot fail.
            let _ = writeln!(message, "{text}");
        };
        let has = |mark: &str| winners.iter().any(|(winner, _)| winner.mark() == mark);
        let notes = [
            (has(NONE_BEFORE), "* the initial kernel: no winner was committed before"),
            (has(NOT_MEASURED), "+ the initial kernel: the committed winner was not measured"),
            (
                !is_modelled && winners.iter().any(|(winner, _)| !winner.gain.is_paired()),
                "~ ratio across two runs; all others are from a single run",
            ),
        ];
        for (place, (_, note)) in notes.iter().filter(|(applies, _)| *applies).enumerate() {
            line(format!("{}{note}", if place == 0 { "\n" } else { "" }));
        }
        let graphs = if self.graphs.is_alone() { "" } else { ", other graphs loaded" };
        line(format!("\nDevice:  {}, {}{graphs}", git(self.device_name), self.time_source.name()));
        line(format!("Session: {}", self.session));
        if !new_families.is_empty() {
            line(format!("New:     {}, which a language model wrote", new_families.join(", ")));
        }
        line("Winners:".to_owned());
        for (winner, files) in winners {
            line(format!("  {}", winner.describe(files)));
        }
        Text { summary, message }
    }

    fn summary(&self, winners: &[Ready<'_>]) -> String {
        let count = match winners {
            [(winner, _)] => winner.gain.case.to_string(),
            _ => format!("{} winners", winners.len()),
        };
        let largest = winners.iter().filter_map(|(winner, _)| winner.gain.gain).fold(1.0, f64::max);
        let times = if self.time_source == TimeSource::Modelled { " (modelled)" } else { "" };
        match (largest > 1.005, winners.len()) {
            (false, _) => format!("{}: {count}{times}", self.workload),
            (true, 1) => format!("{}: {count}, {largest:.2}x faster{times}", self.workload),
            (true, _) => format!("{}: {count}, up to {largest:.2}x faster{times}", self.workload),
        }
    }
}

impl SessionWinner {
    /// Returns what stands before the time that the winner has beaten, if that is the initial kernel's.
    fn mark(&self) -> &'static str {
        match (self.gain.before_us, self.beaten.is_empty()) {
            (Some(_), _) => "",
            (None, true) => NONE_BEFORE,
            (None, false) => NOT_MEASURED,
        }
    }

    /// Describes the winner in the form that [`super::found::told`] reads.
    fn describe(&self, files: &WinnerFiles) -> String {
        let variant = &files.sidecar.variant;
        let earlier = self.earlier.as_ref().map(|earlier| format!(", found by {}", git(&earlier.describe())));
        format!(
            "{}: iteration {}, variant {}, {} {}{}",
            self.gain.case,
            self.iteration,
            variant.hash,
            variant.family,
            show_params(&variant.params),
            earlier.unwrap_or_default()
        )
    }
}

/// Returns the table of gains. Modelled times have no noise, so it does not matter whether one run gave both.
fn table(winners: &[Ready<'_>], is_modelled: bool) -> String {
    let mut rows = vec![["case", "before, us", "now, us", "gain", "baseline", "its us", "ratio"].map(str::to_owned)];
    rows.extend(winners.iter().map(|(winner, _)| row(winner, is_modelled)));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: [usize; 7] = std::array::from_fn(width);
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(widths).enumerate().map(|(column, (cell, width))| match column {
            // Names stand left, figures right.
            0 | 4 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

fn row(winner: &SessionWinner, is_modelled: bool) -> [String; 7] {
    let gain = &winner.gain;
    let time = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), us);
    let ratio = |value: Option<f64>, interval: Option<[f64; 2]>| match (value, interval) {
        (None, _) => "-".to_owned(),
        (Some(value), Some(_)) => format!("{value:.3}x"),
        (Some(value), None) if is_modelled => format!("{value:.2}x"),
        (Some(value), None) => format!("~{value:.2}x"),
    };
    let before = match gain.before_us {
        Some(before) => us(before),
        None => gain.initial_us.map_or_else(|| "-".to_owned(), |initial| format!("{}{}", winner.mark(), us(initial))),
    };
    [
        gain.case.to_string(),
        before,
        time(gain.now_us),
        ratio(gain.gain, gain.gain_ci),
        match gain.baseline_kind {
            Some(BaselineKind::InitialKernel) => "initial kernel".to_owned(),
            _ => gain.baseline.as_deref().map_or_else(|| "-".to_owned(), git),
        },
        time(gain.baseline_us),
        ratio(gain.over_baseline, gain.over_baseline_ci),
    ]
}
