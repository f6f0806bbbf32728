//! `optloop space`: recorded search spaces as files.

use std::io::Write;
use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

use crate::catalog::Project;
use crate::domain::ids::SessionId;
use crate::domain::record::SessionRecord;
use crate::error::usage_sentence;
use crate::launch::replayed;
use crate::spaces;
use crate::store::Store;

/// Arguments of `optloop space`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    pub action: Action,
}

#[derive(Debug, Subcommand)]
pub enum Action {
    /// Print what a session evaluated as a recorded space, for `optloop simulate` and other tuners
    Export(Export),
    /// Print a recorded space in another format
    Convert(Convert),
}

#[derive(Debug, clap::Args)]
pub struct Export {
    /// Number of the session [default: the latest]
    session: Option<SessionId>,

    /// Format of the output
    #[arg(long, value_enum)]
    format: ExportFormat,

    /// Case to export; required if the session has several
    #[arg(long)]
    case: Option<String>,

    /// Family to export; required if the session has several
    #[arg(long)]
    family: Option<String>,
}

#[derive(Debug, clap::Args)]
pub struct Convert {
    /// Recorded space: a Kernel Tuner cache or T4 results, .json or .json.gz
    file: PathBuf,

    /// Format of the output
    #[arg(long, value_enum)]
    format: Format,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// A cache of Kernel Tuner
    KernelTuner,
    /// T4, the results format of the autotuning community
    T4,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ExportFormat {
    /// A cache of Kernel Tuner
    KernelTuner,
    /// T4, the results format of the autotuning community
    T4,
    /// T1, its input format: the search space with its conditions, without times
    T1,
}

impl From<Format> for spaces::Format {
    fn from(format: Format) -> Self {
        match format {
            Format::KernelTuner => Self::KernelTuner,
            Format::T4 => Self::T4,
        }
    }
}

/// Prints a session as a recorded space, or the space that it searched.
pub async fn export(args: &Export, project: &Project, store: &Store, out: &mut impl Write) -> anyhow::Result<()> {
    let session = match args.session {
        Some(session) => session,
        None => store.latest_session().await?.id,
    };
    let record = store.session_record(session).await?;
    let (case, family) = (args.case.as_deref(), args.family.as_deref());
    let format = match args.format {
        ExportFormat::KernelTuner => spaces::Format::KernelTuner,
        ExportFormat::T4 => spaces::Format::T4,
        ExportFormat::T1 => {
            writeln!(out, "{}", searched(&record, project, case, family)?)?;
            return Ok(());
        }
    };
    let space = spaces::of_session(&record, case, family).map_err(usage_sentence)?;
    writeln!(out, "{}", spaces::write(&space, format))?;
    Ok(())
}

/// Returns the space that a session searched, in T1. The family must still be in the project.
fn searched(
    record: &SessionRecord,
    project: &Project,
    case: Option<&str>,
    family: Option<&str>,
) -> anyhow::Result<String> {
    let (case, family) = spaces::chosen(record, case, family).map_err(usage_sentence)?;
    let workload = replayed::workload_of(project, &record.session)?;
    let families = project.families()?.sound;
    let found = families.iter().find(|other| other.name == family);
    let family = found.ok_or_else(|| usage_sentence(format!("the project has no sound family `{family}` anymore")))?;
    spaces::t1(family, &case, workload.dtype, &record.environment.device).map_err(usage_sentence)
}

/// Prints a recorded space in another format.
pub fn convert(args: &Convert, out: &mut impl Write) -> anyhow::Result<()> {
    let space = spaces::read(&args.file).map_err(usage_sentence)?;
    writeln!(out, "{}", spaces::write(&space, args.format.into()))?;
    Ok(())
}
