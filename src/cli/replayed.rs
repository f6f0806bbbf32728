//! Sessions on recorded search spaces: what they search, and what their records are read with.

use std::path::Path;

use super::error::{usage, usage_sentence};
use super::request::StartRequest;
use crate::agent;
use crate::catalog::Project;
use crate::domain::device::TimeSource;
use crate::domain::record::{SessionRecord, SessionSummary};
use crate::domain::workload::Workload;
use crate::runner::device::Others;
use crate::runner::recording::Recording;
use crate::spaces;

/// Makes the request of a session on a recording. Nothing of it comes from the project.
pub(super) fn asked(recording: Recording, proposer: &str, seed: u64) -> anyhow::Result<StartRequest> {
    if [agent::LLM, agent::FAULT_INJECTION].contains(&proposer) {
        return Err(usage_sentence(format!(
            "the proposer `{proposer}` cannot search a recording, which has neither sources nor planted bugs"
        )));
    }
    let proposer = agent::proposer(proposer, seed).map_err(usage_sentence)?;
    let device = recording.info.id.parse().map_err(usage_sentence)?;
    let spaces::Searchable { workload, families, .. } = recording.searchable;
    let searched = families.iter().map(|family| family.name.clone()).collect();
    let (families, left_out, others) = (families.into(), Vec::new(), Others::none());
    Ok(StartRequest { workload, families, searched, left_out, proposer, device, others })
}

/// Reads the recording of a session again. The error is one sentence, also if the file is another one than before.
pub(super) fn unchanged(path: &Path, record: &SessionRecord) -> Result<Recording, String> {
    let recording = Recording::open(path)?;
    if recording.info.uuid != record.environment.device.uuid {
        return Err(format!(
            "{} has changed since session {} began: restore the file, or start another session",
            path.display(),
            record.session.id
        ));
    }
    Ok(recording)
}

/// Returns the workload of a session: one of the project, or that of its recording. A recording's workload follows from
/// its name, so its file is not needed.
pub(super) fn workload_of(project: &Project, session: &SessionSummary) -> anyhow::Result<Workload> {
    match session.time_source {
        TimeSource::Recorded => spaces::workload(&session.workload).map_err(usage_sentence),
        TimeSource::Measured | TimeSource::Modelled => project.workload(&session.workload).map_err(usage),
    }
}
