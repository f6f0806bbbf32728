//! The command line, with one file for each verb. Data goes to standard output, messages go to standard error.

mod alive;
mod audit;
mod backup;
mod bench;
mod ceilings;
mod compare;
mod comparisons;
mod compile;
mod compiler;
mod doctor;
mod error;
mod guard;
mod history;
mod measured;
mod preflight;
mod progress;
mod report;
mod reproduce;
mod resume;
mod sessions;
mod show;
mod signals;
mod start;
mod table;
mod talk;
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{Parser, Subcommand};
use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;

use alive::Killed;
pub use error::Usage;
use error::report_error;
use signals::{Stopped, or_stop};

use crate::catalog::Project;
use crate::config::Config;
use crate::secrets;
use crate::store::Store;

/// How long the threads of stopped work may take to clean up.
const STOP_PATIENCE: Duration = Duration::from_secs(2);

/// Makes CUDA kernels faster on a budget: proposes, compiles, validates, measures, commits and reports.
#[derive(Debug, Parser)]
#[command(name = "optloop", version, disable_help_subcommand = true)]
struct Arguments {
    /// The project: a folder with config.toml [default: the nearest at or above the current one]
    #[arg(long, global = true, value_name = "DIR")]
    project: Option<PathBuf>,

    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run a session: spend a budget on making a workload faster
    Start(start::Args),
    /// Go on with a session that was killed or interrupted, or that failed
    Resume(resume::Args),
    /// Measure a kernel by hand, beside its baseline or any other
    Bench(bench::Args),
    /// Measure a committed winner again, and say whether its figure holds
    Reproduce(reproduce::Args),
    /// Replay kernels that cheat or are broken, and say which were caught
    Audit(audit::Args),
    /// Compile families without a GPU, and show registers, spills and shared memory
    Compile(compile::Args),
    /// Write the report of a session again
    Report(report::Args),
    /// List the sessions
    Sessions(sessions::Args),
    /// List the iterations of a session
    History(history::Args),
    /// Show everything about one iteration
    Show(show::Args),
    /// Hold two recorded times against each other, if they are comparable
    Compare(compare::Args),
    /// Copy the store, also while a session writes to it
    Backup(backup::Args),
    /// Say what is here, what is missing, and how to mend it
    Doctor(doctor::Args),
    /// Hold a device and evaluate variants (started by a session)
    #[command(hide = true)]
    Worker(worker::Args),
    /// Hold NVRTC and compile sources (started by a session)
    #[command(hide = true)]
    Compiler(compiler::Args),
    /// Run a program that must not outlive optloop (started by a session)
    #[command(hide = true)]
    Guard(guard::Args),
}

/// Runs the command and returns its exit code: 0, 1 for a failure, 2 for a usage error.
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return error::report_clap(&error),
    };
    // Child processes do blocking work on one thread and need no runtime.
    match &arguments.verb {
        Verb::Worker(args) => return finish(worker::run(args)),
        Verb::Compiler(args) => return finish(compiler::run(args)),
        Verb::Guard(args) => return guard::run(args),
        _ => {}
    }
    talk::say_panics();
    start_tracing();
    match tokio::runtime::Runtime::new() {
        Ok(runtime) => {
            let result = runtime.block_on(run(arguments));
            if result.as_ref().is_err_and(|error| error.is::<Stopped>()) {
                // Lets writes to a temporary folder end, and the folder with them.
                runtime.shutdown_timeout(STOP_PATIENCE);
            } else {
                // The compilations of a session that has ended are of no use.
                runtime.shutdown_background();
            }
            finish(result)
        }
        Err(error) => finish(Err(anyhow::Error::new(error).context("Failed to start the runtime"))),
    }
}

async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let project = Project::find(arguments.project.as_deref()).map_err(error::usage)?;
    let mut out = secrets::Masked::new(std::io::stdout().lock());
    match &arguments.verb {
        Verb::Start(args) => start::run(args, &project, &mut out).await,
        Verb::Resume(args) => resume::run(args, &project, &mut out).await,
        Verb::Bench(args) => or_stop(bench::run(args, &project, &mut out)).await,
        Verb::Reproduce(args) => or_stop(reproduce::run(args, &project, &mut out)).await,
        Verb::Audit(args) => or_stop(audit::run(args, &project, &mut out)).await,
        Verb::Compile(args) => compile::run(args, &project, &mut out),
        Verb::Report(args) => report::run(args, &project, &existing_store(&project).await?, &mut out).await,
        Verb::Sessions(args) => {
            let store = existing_store(&project).await?;
            sessions::run(args, &store, &Killed::of(&store, &store_path(&project)?).await?, &mut out).await
        }
        Verb::History(args) => history::run(args, &existing_store(&project).await?, &mut out).await,
        Verb::Show(args) => {
            let store = existing_store(&project).await?;
            show::run(args, &store, &Killed::of(&store, &store_path(&project)?).await?, &mut out).await
        }
        Verb::Backup(args) => backup::run(args, &existing_store(&project).await?, &mut out).await,
        Verb::Compare(args) => compare::run(args, &project, &mut out).await,
        Verb::Doctor(args) => or_stop(doctor::run(args, &project, &mut out)).await,
        // These child processes have already run by now, without a runtime.
        Verb::Worker(_) | Verb::Compiler(_) | Verb::Guard(_) => Ok(()),
    }
}

/// Returns the executable that child processes start from.
fn own_executable() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("Failed to find optloop's own executable")
}

async fn existing_store(project: &Project) -> anyhow::Result<Store> {
    Ok(Store::open_existing(&store_path(project)?).await?)
}

fn store_path(project: &Project) -> anyhow::Result<PathBuf> {
    let config = Config::load(project.root()).map_err(error::usage)?;
    Ok(project.root().join(config.store.path))
}

fn finish(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report_error(&error),
    }
}

fn start_tracing() {
    let wanted = std::env::var("OPTLOOP_LOG").ok().and_then(|text| text.parse().ok());
    let filter = wanted.unwrap_or_else(|| Targets::new().with_default(Level::WARN));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(|| secrets::Masked::new(std::io::stderr()))
        .with_ansi(false)
        .without_time()
        // Otherwise it would report internal errors on standard error, and panic where that is closed.
        .log_internal_errors(false);
    tracing_subscriber::registry().with(lines.with_filter(filter)).init();
}
