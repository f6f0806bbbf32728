//! Prints how long a kernel takes without each kind of instruction.

use std::io::{self, Write};

use crate::domain::ablation::{Ablation, Removed, control_ns};

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
        writeln!(out, "{}", textwrap::fill(&line(one, control_ns), &indented))?;
    }
    Ok(())
}

fn line(Ablation { removed, places, diverting, kept, time_ns }: &Ablation, control_ns: f64) -> String {
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
        let one = |removed, places, diverting, kept, time_ns| Ablation { removed, places, diverting, kept, time_ns };
        let ablations = [
            one(Removed::Nothing, 0, 0, 0, Ok(3950.0)),
            one(Removed::Work, 1, 0, 0, Ok(562.0)),
            one(Removed::GlobalLoads, 65, 2, 3, Ok(2734.0)),
            one(Removed::Barriers, 0, 0, 3, Err("all of them decide addresses".to_owned())),
        ];
        let mut out = Vec::new();
        print("b1h1s512", &ablations, 100, &mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap(), @"

        Times without one kind of instruction on b1h1s512, whose output is not checked (all: 3.950 us):
          all work: 0.562 us, 85.8% less (1 removed)
          loads from global memory: 2.734 us, 30.8% less (65 removed, 3 stay, may take another path)
          block barriers: not known: all of them decide addresses
        ");
    }
}
