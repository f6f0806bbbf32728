//! `optloop simulate`: how fast proposers find good configurations of recorded search spaces.

use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use clap::ArgGroup;
use rayon::prelude::*;
use serde_json::json;

use crate::agent;
use crate::cli::terminal::table::{Table, figure};
use crate::error::usage_sentence;
use crate::notices::say;
use crate::simulate::{BUDGETS, Effort, Reached, Summary, proposers, simulate};
use crate::spaces::{self, Searchable};

/// Arguments of `optloop simulate`.
#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("form"))]
pub struct Args {
    /// Recorded spaces: Kernel Tuner caches or T4 results, .json or .json.gz
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Proposer to run; can be repeated; `all` runs every one that can search a recording
    #[arg(long, value_name = "NAME", default_value = "all")]
    proposer: Vec<String>,

    /// Runs of each proposer on each space
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeats: u32,

    /// Evaluations per run
    #[arg(long, default_value_t = 220, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    evaluations: u32,

    /// Seed of the first run; later runs use the seeds that follow
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Devices that evaluate at the same time
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    lanes: u32,

    /// Print JSON, with the curves
    #[arg(long, group = "form")]
    json: bool,

    /// Print the curves as CSV
    #[arg(long, group = "form")]
    csv: bool,
}

/// Runs the proposers and prints their figures.
pub fn run(args: &Args, out: &mut impl Write) -> anyhow::Result<()> {
    let proposers = chosen(&args.proposer)?;
    let read = |file: &PathBuf| {
        let space = spaces::read(file)?;
        Searchable::new(space).map_err(|problem| problem.within(file.display()))
    };
    let spaces: Vec<Searchable> = args.files.par_iter().map(read).collect::<Result<_, _>>().map_err(usage_sentence)?;
    let Args { repeats, evaluations, seed, lanes, .. } = *args;
    let (repeats, evaluations, lanes) = (repeats as usize, evaluations as usize, lanes as usize);
    let effort = Effort { repeats, evaluations, seed, lanes };
    let began = Instant::now();
    let summaries = simulate(&spaces, &proposers, effort).map_err(anyhow::Error::msg)?;
    let runs = spaces.len() * proposers.len() * effort.repeats;
    say(&format!("{runs} runs of {} evaluations took {:.1} s", effort.evaluations, began.elapsed().as_secs_f64()));
    if args.json {
        let spaces: Vec<_> = spaces.iter().map(describe).collect();
        let document = json!({ "spaces": spaces, "budgets": BUDGETS, "results": summaries });
        writeln!(out, "{}", serde_json::to_string_pretty(&document)?)?;
    } else if args.csv {
        write_curves(&summaries, out)?;
    } else {
        print_spaces(&spaces, out)?;
        writeln!(out)?;
        print_summaries(&summaries, &proposers, out)?;
    }
    Ok(())
}

/// Returns the names of the proposers to run.
fn chosen(names: &[String]) -> anyhow::Result<Vec<String>> {
    let mut chosen: Vec<String> = Vec::new();
    for name in names {
        if name == "all" {
            chosen.extend(proposers().map(str::to_owned));
            continue;
        }
        agent::proposer(name, 0).map_err(usage_sentence)?;
        if !proposers().any(|other| other == name) {
            let all: Vec<_> = proposers().collect();
            let why = "cannot search a recording, which has neither sources nor planted bugs";
            return Err(usage_sentence(format!("the proposer `{name}` {why}; use one of: {}", all.join(", "))));
        }
        chosen.push(name.clone());
    }
    let mut seen = std::collections::HashSet::new();
    chosen.retain(|name| seen.insert(name.clone()));
    Ok(chosen)
}

/// Counts the configurations within a share of the optimum.
fn within(space: &Searchable, share: f64) -> usize {
    let times_ns = space.space.sorted_times_ns();
    times_ns.partition_point(|ns| *ns <= times_ns[0] * (1.0 + share))
}

fn describe(searchable: &Searchable) -> serde_json::Value {
    let space = &searchable.space;
    json!({
        "name": space.name,
        "kernel": space.kernel,
        "device": space.device,
        "parameters": space.parameters.len(),
        "configurations": space.configurations.len(),
        "valid": space.sorted_times_ns().len(),
        "optimum_ns": space.optimum_ns(),
        "within_2_percent": within(searchable, 0.02),
        "within_5_percent": within(searchable, 0.05),
        "within_10_percent": within(searchable, 0.10),
    })
}

fn print_spaces(spaces: &[Searchable], out: &mut impl Write) -> std::io::Result<()> {
    let mut table = Table::new(&[
        "space",
        "kernel",
        "device",
        ">parameters",
        ">configurations",
        ">valid",
        ">optimum",
        ">in 2%",
        ">in 5%",
        ">in 10%",
    ]);
    for searchable in spaces {
        let space = &searchable.space;
        table.row([
            space.name.clone(),
            figure(space.kernel.clone(), |kernel| kernel),
            figure(space.device.clone(), |device| device),
            space.parameters.len().to_string(),
            space.configurations.len().to_string(),
            space.sorted_times_ns().len().to_string(),
            format!("{:.4} ms", space.optimum_ns() / 1e6),
            within(searchable, 0.02).to_string(),
            within(searchable, 0.05).to_string(),
            within(searchable, 0.10).to_string(),
        ]);
    }
    table.print(out)
}

/// Prints a row for each proposer and space: the median best time over the optimum, how soon and how often runs come near
/// the optimum, the share of evaluations that failed, and the score. With several spaces, it ends with the mean score of each proposer.
fn print_summaries(summaries: &[Summary], proposers: &[String], out: &mut impl Write) -> std::io::Result<()> {
    let medians = BUDGETS.map(|budget| format!(">best@{budget}"));
    let mut headings = vec!["space", "proposer"];
    headings.extend(medians.iter().map(String::as_str));
    headings.extend([">to 5%", ">runs", ">to 1%", ">runs", ">failed", ">score", ">95% interval"]);
    let mut table = Table::new(&headings);
    for summary in summaries {
        let mut cells = vec![summary.space.clone(), summary.proposer.clone()];
        cells.extend(summary.medians.iter().map(|median| figure(*median, |over| format!("{over:.3}"))));
        for Reached { evaluations, share, .. } in &summary.reached {
            cells.extend([figure(*evaluations, |count| format!("{count:.0}")), format!("{:.0}%", share * 100.0)]);
        }
        cells.push(format!("{:.1}%", summary.failed * 100.0));
        cells.push(format!("{:.3}", summary.score));
        cells.push(figure(summary.score_interval, |[lo, hi]| format!("{lo:.3} to {hi:.3}")));
        table.row(cells);
    }
    table.print(out)?;
    let spaces = summaries.len() / (proposers.len() + 1);
    if spaces > 1 {
        writeln!(out, "\nMean score over {spaces} spaces:")?;
        for proposer in proposers {
            let scores = summaries.iter().filter(|summary| summary.proposer == *proposer).map(|summary| summary.score);
            writeln!(out, "  {proposer}: {:.3}", scores.sum::<f64>() / spaces as f64)?;
        }
    }
    Ok(())
}

fn write_curves(summaries: &[Summary], out: &mut impl Write) -> anyhow::Result<()> {
    let mut rows = csv::Writer::from_writer(out);
    rows.write_record(["space", "proposer", "evaluations", "mean", "lower_quartile", "median", "upper_quartile"])?;
    for summary in summaries {
        for (at, (mean, [lower, median, upper])) in summary.mean.iter().zip(&summary.quartiles).enumerate() {
            let figures = [mean, lower, median, upper].map(|over| format!("{over:.6}"));
            let place = [summary.space.clone(), summary.proposer.clone(), (at + 1).to_string()];
            rows.write_record(place.iter().chain(&figures))?;
        }
    }
    rows.flush()?;
    Ok(())
}
