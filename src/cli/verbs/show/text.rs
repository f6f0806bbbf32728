//! An iteration as text.

use std::io::{self, Write};

use similar::TextDiff;

use super::Diagnosed;
use crate::cli::terminal::ablations;
use crate::cli::terminal::comparisons;
use crate::cli::terminal::counters;
use crate::cli::terminal::measured::of_models;
use crate::cli::terminal::screen::Screen;
use crate::cli::terminal::table::{Table, figure};
use crate::cli::verbs::diagnose;
use crate::domain::device::TimeSource;
use crate::domain::measurement::evaluation::Outcome;
use crate::domain::proposal::finding::{CauseStatus, Finding};
use crate::domain::record::IterationRecord;
use crate::domain::statistics::timing::Timing;
use crate::domain::variant::show_params;
use crate::report::{format, profiles};
use crate::store::{ArtifactRecord, IterationDetail};

/// Prints everything about an iteration. `brief` leaves out the source and the compiler's log.
pub(super) fn print(
    detail: &IterationDetail,
    diagnosed: &[Diagnosed],
    brief: bool,
    screen: Screen,
    out: &mut impl Write,
) -> io::Result<()> {
    facts(detail, screen, out)?;
    cases(detail, screen, out)?;
    for found in &detail.iteration.measurements {
        if let Some(preparation) = &found.preparation {
            writeln!(out, "On {}, {}", found.case, format::prepared(preparation))?;
        }
    }
    for comparison in detail.iteration.measurements.iter().filter_map(|measurement| measurement.comparison.as_ref()) {
        let conditions = &comparison.conditions;
        writeln!(out, "\nComparison on {} ({} L2):", conditions.case, conditions.regime.name())?;
        comparisons::table(comparison).print_whole_on(screen, out)?;
        for note in comparisons::notes(comparison) {
            writeln!(out, "{}", textwrap::fill(&note, screen.columns))?;
        }
    }
    for found in &detail.iteration.measurements {
        if let Some(counted) = &found.counters {
            counters::print(&found.case, counted, out)?;
        }
        ablations::print(&found.case, &found.ablations, screen.columns, out)?;
    }
    counts(detail, screen, out)?;
    causes(diagnosed, screen, out)?;
    // Nothing of a recording was compiled.
    let artifact = detail.artifact.as_ref().filter(|_| detail.session.time_source != TimeSource::Recorded);
    if let Some(artifact) = artifact {
        resources(artifact, screen, out)?;
    }
    if !brief {
        log(detail, out)?;
        source(detail, out)?;
    }
    Ok(())
}

fn facts(detail: &IterationDetail, screen: Screen, out: &mut impl Write) -> io::Result<()> {
    let IterationDetail { iteration, session, .. } = detail;
    let (hypothesis, cost) = (&iteration.rationale.hypothesis, &iteration.cost);
    let predicted = match hypothesis.prediction {
        None => "no claim".to_owned(),
        Some(prediction) => format!(
            "{}{} to {} on {} over {}",
            prediction.median.map(|median| format!("{} (80%: ", format::times(median))).unwrap_or_default(),
            format::times(prediction.lo),
            format::times(prediction.hi) + if prediction.median.is_some() { ")" } else { "" },
            hypothesis.case,
            hypothesis.reference.describe()
        ),
    };
    let spent = format!("{} (GPU {}{})", format::usd(cost.total_usd()), format::usd(cost.gpu_usd), of_models(cost));
    let time = format!(
        "{}, {} of it on the device",
        figure(iteration.wall_s, format::duration),
        figure(iteration.device_s, format::duration)
    );
    let title = format!(
        "Iteration {} of session {}: {} on {}, times are {}",
        iteration.id,
        session.id,
        session.workload,
        session.device,
        session.time_source.name()
    );
    writeln!(out, "{}\n", textwrap::fill(&title, screen.columns))?;
    for (name, value) in [
        ("outcome", outcome(iteration, session.time_source)),
        ("family", iteration.family.clone()),
        ("parameters", show_params(&iteration.params)),
        ("variant", iteration.hash.to_string()),
        ("proposer", iteration.proposer.clone()),
        ("parent", figure(iteration.rationale.parent, |id| id.to_string())),
        ("claim", hypothesis.claim.clone()),
        ("evidence", hypothesis.evidence.clone()),
        ("mechanism", hypothesis.mechanism.name().to_owned()),
        ("predicted", predicted),
        ("actual", figure(iteration.actual, format::times)),
        ("score", figure(iteration.score, |score| score.name().to_owned())),
        ("started", iteration.started_at.clone()),
        ("time", time),
        ("cost", spent),
    ] {
        let indent = " ".repeat(12);
        let options = textwrap::Options::new(screen.columns).initial_indent(&indent).subsequent_indent(&indent);
        let wrapped = textwrap::fill(&value, options);
        writeln!(out, "{name:<10}  {}", wrapped.trim_start())?;
    }
    Ok(())
}

fn outcome(iteration: &IterationRecord, times: TimeSource) -> String {
    let Some(outcome) = &iteration.outcome else {
        return "unfinished: still in flight, or optloop was killed".to_owned();
    };
    let case = outcome.case().map(|case| format!(" on {case}")).unwrap_or_default();
    let message = outcome.message().map(|message| format!(": {message}")).unwrap_or_default();
    match (outcome, times) {
        // Nothing ran.
        (Outcome::Measured, TimeSource::Recorded) => times.name().to_owned(),
        _ => format!("{}{case}{message}", outcome.kind()),
    }
}

fn cases(detail: &IterationDetail, screen: Screen, out: &mut impl Write) -> io::Result<()> {
    if detail.iteration.measurements.is_empty() {
        return Ok(());
    }
    let time = format!(">µs, {}", detail.session.time_source.name());
    let mut table = Table::new(&[
        "case",
        "verdict",
        &time,
        "interval",
        ">samples",
        "confirmed",
        ">speed-up",
        ">error",
        ">worst row",
        ">rows",
        ">blocks",
        "commit",
    ]);
    for measurement in &detail.iteration.measurements {
        let timing = measurement.best_timing();
        let us = |ns: f64| format::us(ns / 1000.0);
        table.row([
            measurement.case.to_string(),
            figure(measurement.verdict, |verdict| {
                verdict.word(detail.iteration.rationale.origin.is_committed_winner_of(&measurement.case)).to_owned()
            }),
            figure(timing, |timing| us(timing.median_ns)),
            figure(timing.and_then(Timing::shown_interval_ns), |shown| format!("{} to {}", us(shown.lo), us(shown.hi))),
            figure(timing, |timing| timing.samples_ns.len().to_string()),
            match (&measurement.confirmation, detail.session.time_source) {
                (_, TimeSource::Recorded) => format::NOTHING,
                (Some(_), _) => "yes",
                (None, _) => "no",
            }
            .to_owned(),
            figure(measurement.speedup, format::times),
            figure(measurement.checked(), |found| format::relative_error(found.relative_l2)),
            figure(measurement.checked(), |found| format::relative_error(found.worst_row)),
            figure(measurement.checked(), |found| format!("{} of {}", found.rows_checked, found.rows)),
            figure(measurement.ctas, |ctas| ctas.to_string()),
            figure(measurement.commit.clone(), |commit| commit),
        ]);
    }
    writeln!(out)?;
    table.print_whole_on(screen, out)
}

/// Prints the counts of a virtual GPU, if there are any.
fn counts(detail: &IterationDetail, screen: Screen, out: &mut impl Write) -> io::Result<()> {
    let measurements = detail.iteration.measurements.iter();
    let profiled: Vec<_> = measurements.filter_map(|m| Some((&m.case, m.profile.as_ref()?))).collect();
    if profiled.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(&[&["case"][..], &profiles::HEADINGS].concat());
    for (case, profile) in &profiled {
        for row in profiles::rows(profile) {
            table.row(std::iter::once(case.to_string()).chain(row));
        }
    }
    writeln!(out, "\nCounted:")?;
    table.print_whole_on(screen, out)?;
    for (case, profile) in &profiled {
        if let Some(shortcuts) = profile.shortcuts() {
            let note = format!("{case} was not executed in full: {shortcuts}");
            writeln!(out, "{}", textwrap::fill(&note, screen.columns))?;
        }
    }
    Ok(())
}

/// Prints the first cause of lost time on each case that no experiment refuted, as the report and `optloop diagnose` have it.
fn causes(diagnosed: &[Diagnosed], screen: Screen, out: &mut impl Write) -> io::Result<()> {
    let is_open = |one: &&Finding| one.tested.status != CauseStatus::NotConfirmed;
    let first = diagnosed.iter().filter_map(|(case, findings)| Some((case, findings.iter().find(is_open)?)));
    let lines: Vec<String> = first
        .map(|(case, found)| {
            let gain =
                if found.gain > 1.0 { format!(", {} without it", format::times(found.gain)) } else { String::new() };
            format!("{case}: {} ({}{gain}; {})", found.cause, found.rule, diagnose::tested(&found.tested))
        })
        .collect();
    if !lines.is_empty() {
        writeln!(out, "\nLimited by (`optloop diagnose` has the evidence):")?;
    }
    lines.iter().try_for_each(|line| writeln!(out, "{}", textwrap::fill(line, screen.columns)))
}

fn resources(artifact: &ArtifactRecord, screen: Screen, out: &mut impl Write) -> io::Result<()> {
    let options = artifact.options.join(" ");
    let compiled = format!(
        "Compiled for {} by NVRTC {} in {:.0} ms to {} bytes, options: {options}",
        artifact.arch, artifact.nvrtc, artifact.compile_ms, artifact.cubin_bytes
    );
    writeln!(out, "\n{}", textwrap::fill(&compiled, screen.columns))?;
    let headings = ["kernel", ">registers", ">shared bytes", ">stack bytes", ">spill stores", ">spill loads"];
    let mut table = Table::new(&headings);
    for kernel in &artifact.kernels {
        let known = |number: u32| figure(Some(number).filter(|_| !kernel.is_unknown()), |number| number.to_string());
        table.row([
            kernel.name.clone(),
            known(kernel.registers),
            known(kernel.shared_bytes),
            known(kernel.stack_bytes),
            known(kernel.spill_store_bytes),
            known(kernel.spill_load_bytes),
        ]);
    }
    table.print_whole_on(screen, out)
}

fn log(detail: &IterationDetail, out: &mut impl Write) -> io::Result<()> {
    let log = detail.artifact.as_ref().map(|artifact| &artifact.log).or(detail.compile_log.as_ref());
    match log.map(|log| log.trim_end()) {
        None | Some("") => Ok(()),
        Some(log) => writeln!(out, "\nCompiler's log:\n{log}"),
    }
}

fn source(detail: &IterationDetail, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\nSource:\n{}", detail.source.trim_end())?;
    if let (Some(parent), Some(id)) = (&detail.parent_source, detail.iteration.rationale.parent) {
        let diff = TextDiff::from_lines(parent.as_str(), detail.source.as_str());
        let (before, after) = (format!("iteration {id}"), format!("iteration {}", detail.iteration.id));
        writeln!(
            out,
            "\nChanges from its parent:\n{}",
            diff.unified_diff().header(&before, &after).to_string().trim_end()
        )?;
    }
    Ok(())
}
