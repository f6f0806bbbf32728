//! Prints how long a kernel takes without each kind of instruction, and from which lines of its source these come.

use std::io::{self, Write};

use crate::domain::code::ablation::{Ablation, Removed, SourceLine, control_ns};
use crate::domain::text::counted::counted;

/// The most lines of each kind to print.
const MAX_LINES: usize = 6;

/// Prints the ablations of a variant on a case in lines of at most `columns`. Nothing if there are none.
pub fn print(case: &str, ablations: &[Ablation], columns: usize, out: &mut impl Write) -> io::Result<()> {
    let Some(control_ns) = control_ns(ablations) else { return Ok(()) };
    let head = format!(
        "Times without one kind of instruction on {case}, whose output is not checked (all: {:.3} us):",
        control_ns / 1e3
    );
    writeln!(out, "\n{}", textwrap::fill(&head, columns))?;
    let indented = textwrap::Options::new(columns).initial_indent("  ").subsequent_indent("    ");
    for one in ablations.iter().filter(|one| one.removed != Removed::Nothing) {
        writeln!(out, "{}", textwrap::fill(&of_kind(one, control_ns), &indented))?;
        let indented = textwrap::Options::new(columns).initial_indent("    ").subsequent_indent("      ");
        for line in one.lines.iter().take(MAX_LINES) {
            writeln!(out, "{}", textwrap::fill(&of_line(line, control_ns), &indented))?;
        }
        if let Some(more @ 1..) = one.lines.len().checked_sub(MAX_LINES) {
            writeln!(out, "    {}", counted(more, "more line"))?;
        }
    }
    Ok(())
}

fn of_line(SourceLine { line, text, places, time_ns }: &SourceLine, control_ns: f64) -> String {
    let unit = if *places == 1 { "place" } else { "places" };
    match time_ns {
        Some(ns) => {
            let (us, less) = (ns / 1e3, 100.0 * (1.0 - ns / control_ns));
            format!("line {line}, `{text}`: {us:.3} us, {less:.1}% less ({places} {unit})")
        }
        None => format!("line {line}, `{text}`: {places} {unit}"),
    }
}

fn of_kind(Ablation { removed, places, diverting, kept, time_ns, .. }: &Ablation, control_ns: f64) -> String {
    let what = removed.text();
    match time_ns {
        Ok(ns) => {
            let kept = if *kept > 0 { format!(", {kept} stay") } else { String::new() };
            let path = if *diverting > 0 { ", may take another path" } else { "" };
            let (us, less) = (ns / 1e3, 100.0 * (1.0 - ns / control_ns));
            format!("{what}: {us:.3} us, {less:.1}% less ({places} removed{kept}{path})")
        }
        Err(reason) => format!("{what}: not known: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_reasons_are_printed() {
        let one = |removed, [places, diverting, kept]: [u32; 3], time_ns, lines| Ablation {
            removed,
            places,
            diverting,
            kept,
            time_ns,
            lines,
        };
        let line = |line, text: &str, places, time_ns| SourceLine { line, text: text.to_owned(), places, time_ns };
        let loads = vec![
            line(113, "copy_async<KEYS>(k_at + slot, k + first * D);", 32, Some(2910.0)),
            line(119, "copy_async<BR>(q_at, q, rows);", 1, Some(3900.0)),
        ];
        let waits = (1..=8).map(|at| line(at, "wait<0>();", at, None)).collect();
        let ablations = [
            one(Removed::Nothing, [0, 0, 0], Ok(3950.0), Vec::new()),
            one(Removed::Work, [1, 0, 0], Ok(562.0), Vec::new()),
            one(Removed::GlobalLoads, [65, 2, 3], Ok(2734.0), loads),
            one(Removed::Barriers, [0, 0, 3], Err("all of them decide addresses".to_owned()), Vec::new()),
            one(Removed::AllKindsAndWaits, [200, 0, 0], Ok(1500.0), waits),
        ];
        let mut out = Vec::new();
        print("b1h1s512", &ablations, 100, &mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap(), @"

        Times without one kind of instruction on b1h1s512, whose output is not checked (all: 3.950 us):
          all work: 0.562 us, 85.8% less (1 removed)
          loads from global memory: 2.734 us, 30.8% less (65 removed, 3 stay, may take another path)
            line 113, `copy_async<KEYS>(k_at + slot, k + first * D);`: 2.910 us, 26.3% less (32 places)
            line 119, `copy_async<BR>(q_at, q, rows);`: 3.900 us, 1.3% less (1 place)
          block barriers: not known: all of them decide addresses
          all of these and waits for asynchronous work: 1.500 us, 62.0% less (200 removed)
            line 1, `wait<0>();`: 1 place
            line 2, `wait<0>();`: 2 places
            line 3, `wait<0>();`: 3 places
            line 4, `wait<0>();`: 4 places
            line 5, `wait<0>();`: 5 places
            line 6, `wait<0>();`: 6 places
            2 more lines
        ");
    }
}
