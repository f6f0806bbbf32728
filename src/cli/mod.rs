//! The command line. Data goes to standard output, messages go to standard error.

mod adding;
mod client;
mod error;
mod examples;
mod internal;
mod nats_args;
#[cfg(test)]
mod reference;
mod signals;
mod submission;
mod target_args;
mod terminal;
mod threads;
mod unanswered;
mod verbs;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;

use error::report_error;
use internal::{compiler, confined, guard, oracle, profiled, renderer};
use signals::{Stopped, or_stop};
use terminal::screen::Screen;
use terminal::ticker::aloud;
use verbs::serve::LogFormat;
use verbs::*;

use crate::alive::Killed;
use crate::catalog::Project;
use crate::launch::project_store::{existing_store, store_path};
use crate::launch::target;
use crate::notices;
use crate::runner::descendants;
use crate::secrets;

/// How long the threads of stopped work may take to clean up.
const STOP_PATIENCE: Duration = Duration::from_secs(2);

/// Makes CUDA kernels faster on a budget: proposes, compiles, validates, measures, commits and reports.
#[derive(Debug, Parser)]
#[command(name = "optloop", version, after_help = examples::ALL)]
struct Arguments {
    /// Project folder, which contains config.toml [default: the nearest one at or above the current folder]
    #[arg(long, global = true, value_name = "DIR")]
    project: Option<PathBuf>,

    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Create a project in a folder, with the workloads and families that optloop ships
    #[command(after_help = examples::INIT)]
    Init(init::Args),
    /// Make a workload, a family and an op of your own CUDA kernel
    #[command(after_help = examples::ADD)]
    Add(add::Args),
    /// Make a workload, a family and an op of a file of another tool
    #[command(after_help = examples::IMPORT)]
    Import(import::Args),
    /// Check workloads and families, and explain all that is wrong with them
    #[command(after_help = examples::CHECK)]
    Check(check::Args),
    /// List workloads, families and ops, and which family takes which case
    #[command(after_help = examples::LIST)]
    List(list::Args),
    /// Run a session: optimise a workload within a budget
    #[command(after_help = examples::START)]
    Start(start::Args),
    /// Continue a session that was killed, was interrupted, or failed
    #[command(after_help = examples::RESUME)]
    Resume(resume::Args),
    /// Serve a session to a coding agent over the Model Context Protocol
    #[command(after_help = examples::MCP)]
    Mcp(mcp::Args),
    /// Tell coding agents about this project: AGENTS.md, a skill, and how to reach `optloop mcp`
    #[command(after_help = examples::SKILL)]
    Skill(skill::Args),
    /// Measure one kernel and compare it with its baseline or with other kernels
    #[command(after_help = examples::BENCH)]
    Bench(bench::Args),
    /// Find out why a kernel is slow, and what to change
    #[command(after_help = examples::DIAGNOSE)]
    Diagnose(diagnose::Args),
    /// Measure a committed winner again and check that its recorded time is reproduced
    #[command(after_help = examples::REPRODUCE)]
    Reproduce(reproduce::Args),
    /// Measure the committed winners of a workload again and replace the figures in their sidecars
    #[command(after_help = examples::REMEASURE)]
    Remeasure(remeasure::Args),
    /// Write committed winners as a C++ launcher, a Python module or an op of PyTorch
    #[command(after_help = examples::EXPORT)]
    Export(export::Args),
    /// Replay kernels that cheat or are broken, and report which ones are caught
    #[command(after_help = examples::AUDIT)]
    Audit(audit::Args),
    /// Compile families without a GPU, and show registers, spills and shared memory
    #[command(after_help = examples::COMPILE)]
    Compile(compile::Args),
    /// Print the report of a session
    #[command(after_help = examples::REPORT)]
    Report(report::Args),
    /// List the sessions
    #[command(after_help = examples::SESSIONS)]
    Sessions(sessions::Args),
    /// List the iterations of a session
    #[command(after_help = examples::HISTORY)]
    History(history::Args),
    /// Show everything about one iteration
    #[command(after_help = examples::SHOW)]
    Show(show::Args),
    /// List the calls to language models with their cost, or print one
    #[command(after_help = examples::CALLS)]
    Calls(calls::Args),
    /// Compare two recorded times, if their conditions are the same
    #[command(after_help = examples::COMPARE)]
    Compare(compare::Args),
    /// Run proposers on recorded search spaces, and measure how fast they find good configurations
    #[command(after_help = examples::SIMULATE)]
    Simulate(simulate::Args),
    /// Export sessions as recorded search spaces, and convert such spaces
    #[command(after_help = examples::SPACE)]
    Space(space::Args),
    /// Run a service: sessions in a queue, and an HTTP API to watch them
    #[command(after_help = examples::SERVE)]
    Serve(serve::Args),
    /// Submit a session to a service
    #[command(after_help = examples::SUBMIT)]
    Submit(submit::Args),
    /// List the submissions of a service
    #[command(after_help = examples::QUEUE)]
    Queue(queue::Args),
    /// Follow the session of a submission
    #[command(after_help = examples::TAIL)]
    Tail(tail::Args),
    /// Drop a submission, or stop its session
    #[command(after_help = examples::CANCEL)]
    Cancel(cancel::Args),
    /// Copy the store, even while a session writes to it
    #[command(after_help = examples::BACKUP)]
    Backup(backup::Args),
    /// Report what is installed, what is missing, and how to fix it
    #[command(after_help = examples::DOCTOR)]
    Doctor(doctor::Args),
    /// Print a page of the documentation, or list the pages
    #[command(after_help = examples::DOCS)]
    Docs(docs::Args),
    /// Show what this project chooses to run, and trust it
    #[command(after_help = examples::TRUST)]
    Trust(trust::Args),
    /// Print a shell script that completes verbs and arguments
    #[command(after_help = examples::COMPLETIONS)]
    Completions(manual::CompletionsArgs),
    /// Print the manual page, or write a page for each verb into a folder
    #[command(after_help = examples::MAN)]
    Man(manual::ManArgs),
    /// Serve a device to sessions on other machines
    #[command(after_help = examples::WORKER)]
    Worker(worker::Args),
    /// List the workers of a fleet, or print your key
    #[command(after_help = examples::WORKERS)]
    Workers(workers::Args),
    /// Open a device and execute an oracle in CUDA (started by whatever checks outputs)
    #[command(hide = true)]
    Oracle(oracle::Args),
    /// Load NVRTC and compile sources (started by a session)
    #[command(hide = true)]
    Compiler(compiler::Args),
    /// Become a program that is confined to a few files and no network (started by a guard)
    #[command(hide = true)]
    Confined(confined::Args),
    /// Launch a variant for a profiler (started by a session)
    #[command(hide = true)]
    Profiled(profiled::Args),
    /// Render templates (started by a session)
    #[command(hide = true)]
    Renderer,
    /// Run a program that must not outlive optloop (started by a session)
    #[command(hide = true)]
    Guard(guard::Args),
}

/// Parses the command line. What begins like a number below zero is a value, so that its error says what to use instead.
fn parsed() -> Result<Arguments, clap::Error> {
    fn with_numbers(command: clap::Command) -> clap::Command {
        let with_number = |arg: clap::Arg| {
            let takes_values = arg.get_action().takes_values();
            if takes_values { arg.allow_negative_numbers(true) } else { arg }
        };
        command.mut_args(with_number).mut_subcommands(with_numbers)
    }
    Arguments::from_arg_matches(&with_numbers(Arguments::command()).try_get_matches()?)
}

/// Runs the command and returns its exit code: 0, or that of the error's kind.
pub fn main() -> ExitCode {
    let arguments = match parsed() {
        Ok(arguments) => arguments,
        Err(error) => return error::report_clap(&error),
    };
    // Compilers and guards do blocking work on one thread, workers compute on every core. None needs a runtime.
    match &arguments.verb {
        Verb::Worker(args) if !args.is_of_a_fleet() => {
            return finish(threads::compute_on_every_core().and_then(|()| worker::run(args)));
        }
        Verb::Oracle(args) => return finish(threads::compute_on_every_core().and_then(|()| oracle::run(args))),
        Verb::Compiler(args) => return finish(compiler::run(args)),
        Verb::Confined(args) => return confined::run(args),
        Verb::Profiled(args) => {
            return finish(threads::compute_on_every_core().and_then(|()| profiled::run(args)));
        }
        Verb::Renderer => return finish(renderer::run()),
        Verb::Guard(args) => return guard::run(args),
        _ => {}
    }
    notices::say_panics();
    start_tracing(match &arguments.verb {
        Verb::Serve(args) => Some(args.log_format),
        _ => None,
    });
    unanswered::watch();
    match threads::compute_on_every_core().and_then(|()| threads::runtime()) {
        Ok(runtime) => {
            let result = runtime.block_on(run(arguments));
            if result.as_ref().is_err_and(|error| error.is::<Stopped>()) {
                // Lets writes to a temporary folder end, and the folder with them.
                runtime.shutdown_timeout(STOP_PATIENCE);
            } else {
                // The compilations of a session that has ended are of no use.
                runtime.shutdown_background();
            }
            descendants::end();
            finish(result)
        }
        Err(error) => finish(Err(error)),
    }
}

/// Makes a large future on the heap, and apart from its caller: without optimisation, one function with the futures of all verbs
/// takes 3 MB of the stack.
fn apart<'f, F: Future<Output = anyhow::Result<()>> + 'f>(
    make: impl FnOnce() -> F,
) -> std::pin::Pin<Box<dyn Future<Output = anyhow::Result<()>> + 'f>> {
    Box::pin(make())
}

async fn run(arguments: Arguments) -> anyhow::Result<()> {
    // Its standard output belongs to the protocol.
    if let Verb::Mcp(args) = arguments.verb {
        let project = Project::find(arguments.project.as_deref()).map_err(crate::error::usage)?;
        return apart(|| mcp::run(args, &project)).await;
    }
    let mut out = secrets::Masked::new(std::io::stdout().lock());
    // These need no project.
    match &arguments.verb {
        Verb::Init(args) => return init::run(args, &mut out),
        Verb::Docs(args) => return docs::run(args, Screen::of_stdout(), &mut out),
        Verb::Completions(args) => return manual::completions(args, &mut out),
        Verb::Man(args) => return manual::man(args, &mut out),
        Verb::Simulate(args) => return simulate::run(args, &mut out),
        Verb::Space(space::Args { action: space::Action::Convert(args) }) => return space::convert(args, &mut out),
        Verb::Serve(args) => return serve::run(args, arguments.project.as_deref(), &mut out).await,
        Verb::Submit(args) => return or_stop(submit::run(args, arguments.project.as_deref(), &mut out)).await,
        Verb::Queue(args) => return or_stop(queue::run(args, Screen::of_stdout(), &mut out)).await,
        Verb::Tail(args) => return or_stop(tail::run(args, &mut out)).await,
        Verb::Cancel(args) => return or_stop(cancel::run(args, &mut out)).await,
        Verb::Worker(args) => return apart(|| worker::serve_fleet(args)).await,
        Verb::Workers(args) => {
            let project = arguments.project.as_deref();
            return or_stop(workers::run(args, project, Screen::of_stdout(), &mut out)).await;
        }
        _ => {}
    }
    let project = Project::find(arguments.project.as_deref()).map_err(crate::error::usage)?;
    match &arguments.verb {
        Verb::Start(args) => apart(|| start::run(args, &project, &mut out)).await,
        Verb::Resume(args) => apart(|| resume::run(args, &project, &mut out)).await,
        Verb::Bench(args) => apart(|| or_stop(aloud(bench::run(args, &project, &mut out)))).await,
        Verb::Diagnose(args) => apart(|| or_stop(aloud(diagnose::run(args, &project, &mut out)))).await,
        Verb::Reproduce(args) => apart(|| or_stop(aloud(reproduce::run(args, &project, &mut out)))).await,
        Verb::Remeasure(args) => apart(|| or_stop(aloud(remeasure::run(args, &project, &mut out)))).await,
        Verb::Audit(args) => apart(|| or_stop(aloud(audit::run(args, &project, &mut out)))).await,
        Verb::Skill(args) => skill::run(args, &project, &mut out),
        Verb::Add(args) => aloud(async { add::run(args, &project, &mut out) }).await,
        Verb::Import(args) => aloud(async { import::run(args, &project, &mut out) }).await,
        Verb::Export(args) => export::run(args, &project, &mut out),
        Verb::Check(args) => apart(|| or_stop(aloud(check::run(args, &project, &mut out)))).await,
        Verb::List(args) => list::run(args, &project, Screen::of_stdout(), &mut out),
        Verb::Compile(args) => aloud(async { compile::run(args, &project, &mut out) }).await,
        Verb::Report(args) => report::run(args, &project, &existing_store(&project).await?, &mut out).await,
        Verb::Sessions(args) => {
            let store = existing_store(&project).await?;
            let killed = Killed::of(&store, &store_path(&project)?).await?;
            let left_over = target::left_over(project.root(), &store).await?;
            sessions::run(args, &store, &killed, &left_over, Screen::of_stdout(), &mut out).await
        }
        Verb::History(args) => {
            history::run(args, &existing_store(&project).await?, Screen::of_stdout(), &mut out).await
        }
        Verb::Calls(args) => calls::run(args, &existing_store(&project).await?, Screen::of_stdout(), &mut out).await,
        Verb::Show(args) => {
            let store = existing_store(&project).await?;
            let killed = Killed::of(&store, &store_path(&project)?).await?;
            show::run(args, Some(&project), &store, &killed, Screen::of_stdout(), &mut out).await
        }
        Verb::Backup(args) => backup::run(args, &existing_store(&project).await?, &mut out).await,
        Verb::Compare(args) => compare::run(args, &project, &mut out).await,
        Verb::Doctor(args) => apart(|| or_stop(aloud(doctor::run(args, &project, &mut out)))).await,
        Verb::Trust(args) => trust::run(args, &project, &mut out),
        Verb::Space(space::Args { action: space::Action::Export(args) }) => {
            space::export(args, &project, &existing_store(&project).await?, &mut out).await
        }
        // These have already run by now: without a project, or as child processes without a runtime.
        Verb::Init(_)
        | Verb::Mcp(_)
        | Verb::Docs(_)
        | Verb::Completions(_)
        | Verb::Man(_)
        | Verb::Simulate(_)
        | Verb::Space(_)
        | Verb::Serve(_)
        | Verb::Submit(_)
        | Verb::Queue(_)
        | Verb::Tail(_)
        | Verb::Cancel(_)
        | Verb::Worker(_)
        | Verb::Workers(_)
        | Verb::Oracle(_)
        | Verb::Compiler(_)
        | Verb::Confined(_)
        | Verb::Profiled(_)
        | Verb::Renderer
        | Verb::Guard(_) => Ok(()),
    }
}

fn finish(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report_error(&error),
    }
}

/// Starts the messages of libraries and, for a service, its log.
fn start_tracing(log: Option<LogFormat>) {
    let wanted = std::env::var("OPTLOOP_LOG").ok().and_then(|text| text.parse().ok());
    let level = if log.is_some() { Level::INFO } else { Level::WARN };
    let filter = wanted.unwrap_or_else(|| Targets::new().with_default(Level::WARN).with_target("optloop", level));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(|| secrets::Masked::new(std::io::stderr()))
        .with_ansi(false)
        // Otherwise it would report internal errors on standard error, and panic where that is closed.
        .log_internal_errors(false);
    let lines = match log {
        Some(LogFormat::Json) => lines.json().flatten_event(true).boxed(),
        Some(LogFormat::Text) => lines.boxed(),
        None => lines.without_time().boxed(),
    };
    tracing_subscriber::registry().with(lines.with_filter(filter)).init();
}
