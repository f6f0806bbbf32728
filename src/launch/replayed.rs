//! Records of sessions on recorded search spaces: what they are read with.

use std::path::Path;

use crate::catalog::Project;
use crate::domain::device::TimeSource;
use crate::domain::record::{SessionRecord, SessionSummary};
use crate::domain::workload::Workload;
use crate::error::{Error, error, usage, usage_sentence};
use crate::runner::recording::Recording;
use crate::spaces;

/// Reads the recording of a session again. The error is one sentence, also if the file is another one than before.
pub fn unchanged(path: &Path, record: &SessionRecord) -> Result<Recording, Error> {
    let recording = Recording::open(path)?;
    if recording.info.uuid != record.environment.device.uuid {
        return Err(error!(
            "{} has changed since session {} began: restore the file, or start another session",
            path.display(),
            record.session.id
        ));
    }
    Ok(recording)
}

/// Returns the workload of a session: one of the project, or that of its recording. A recording's workload follows from
/// its name, so its file is not needed.
pub fn workload_of(project: &Project, session: &SessionSummary) -> anyhow::Result<Workload> {
    match session.time_source {
        TimeSource::Recorded => spaces::workload(&session.workload).map_err(usage_sentence),
        TimeSource::Measured | TimeSource::Modelled => project.workload(&session.workload).map_err(usage),
    }
}
