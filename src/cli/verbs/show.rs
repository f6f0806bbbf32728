//! `optloop show`: everything about one iteration.

mod json;
mod sass;
#[cfg(test)]
mod tests;
mod text;

use std::io::Write;

use self::json::{Shown, hide_intervals};
use crate::alive::Killed;
use crate::catalog::Project;
use crate::cli::terminal::screen::Screen;
use crate::cli::verbs::report;
use crate::domain::ids::{CaseName, IterationId};
use crate::domain::proposal::finding::Finding;
use crate::domain::text::names::did_you_mean;
use crate::error::usage_sentence;
use crate::evaluated::Evaluated;
use crate::runner::sass::Lines;
use crate::store::{IterationDetail, Store};

/// Show everything about an iteration: its claim, outcome, times, resources, cost and source.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of the iteration
    pub iteration: IterationId,
    /// Show only this case
    #[arg(short = 'c', long)]
    pub case: Option<CaseName>,
    /// Leave out the source, its changes and the compiler log
    #[arg(long)]
    pub brief: bool,
    /// Print only the source
    #[arg(long, conflicts_with_all = ["brief", "json", "sass"])]
    pub source: bool,
    /// Print the machine code that comes from these lines of the source, such as 40 or 40..52, or all of it; needs NVIDIA's nvdisasm
    #[arg(long, value_name = "LINES", num_args = 0..=1, default_missing_value = "..", value_parser = Lines::parse,
          conflicts_with_all = ["brief", "json"])]
    pub sass: Option<Lines>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Shows an iteration.
pub async fn run(
    args: &Args,
    project: Option<&Project>,
    store: &Store,
    killed: &Killed,
    screen: Screen,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let mut detail = store.iteration(args.iteration).await?;
    killed.mark(&mut detail.session);
    if args.source {
        writeln!(out, "{}", detail.source.trim_end())?;
        return Ok(());
    }
    if let (Some(lines), Some(project)) = (args.sass, project) {
        return sass::print(project, &detail, lines, out).await;
    }
    if let Some(case) = &args.case {
        only(case, &mut detail)?;
    }
    let mut diagnosed = match project {
        Some(project) => report::diagnosed(project, store, &detail.iteration).await?,
        None => Vec::new(),
    };
    diagnosed.retain(|(case, _)| args.case.as_ref().is_none_or(|only| only == case));
    if args.json {
        let evaluation = Evaluated::of(store, &detail).await?;
        let mut json = serde_json::to_value(Shown::of(&detail, &diagnosed, evaluation))?;
        hide_intervals(&mut json);
        writeln!(out, "{}", serde_json::to_string_pretty(&json)?)?;
        return Ok(());
    }
    let mut shown = Vec::new();
    text::print(&detail, &diagnosed, args.brief, screen, &mut shown)?;
    screen.show(&shown, out)?;
    Ok(())
}

/// Leaves out all cases but one.
fn only(case: &CaseName, detail: &mut IterationDetail) -> anyhow::Result<()> {
    let found = &mut detail.iteration.measurements;
    if !found.iter().any(|measurement| measurement.case == *case) {
        let reached = found.iter().map(|measurement| measurement.case.as_str()).collect::<Vec<_>>();
        let hint = did_you_mean(case, reached.iter().copied());
        let which = if reached.is_empty() { "no case".to_owned() } else { reached.join(", ") };
        let id = detail.iteration.id;
        return Err(usage_sentence(format!("iteration {id} did not reach `{case}`{hint}; it reached {which}")));
    }
    found.retain(|measurement| measurement.case == *case);
    Ok(())
}

/// The findings about an iteration on a case.
type Diagnosed = (CaseName, Vec<Finding>);
