//! Prints hardware counters: the shares of a launch that say what holds it back.

use std::io::{self, Write};

use crate::domain::code::counters::{Counters, LaunchCounters};

/// The most states of warps to print.
const MAX_STATES: usize = 4;

/// Prints the counters of a variant on a case, one launch after the other.
pub fn print(case: &str, counters: &Counters, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\nHardware counters on {case} ({}):", counters.tool)?;
    for launch in &counters.launches {
        writeln!(out, "  {}: {}", launch.kernel, units(launch).join(", "))?;
        let states = launch.stall_shares();
        let shown = states.iter().take(MAX_STATES).map(|(state, share)| format!("{state} {:.0}%", share * 100.0));
        if !states.is_empty() {
            writeln!(out, "    states of warps: {}", shown.collect::<Vec<_>>().join(", "))?;
        }
    }
    Ok(())
}

/// Describes how much of each unit a launch used. What is not known is left out.
fn units(launch: &LaunchCounters) -> Vec<String> {
    let shares = [
        ("tensor cores", launch.tensor_pct),
        ("FMA", launch.fma_pct),
        ("XU", launch.xu_pct),
        ("DRAM", launch.dram_pct),
        ("L2", launch.l2_pct),
        ("L1 and shared memory", launch.l1_pct),
        ("occupancy", launch.occupancy_pct),
    ];
    shares.into_iter().filter_map(|(unit, pct)| Some(format!("{unit} {:.0}%", pct?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_printed() {
        let states = [("wait", 30.0), ("selected", 10.0)].map(|(state, samples)| (state.to_owned(), samples));
        let launch = LaunchCounters {
            kernel: "attention".to_owned(),
            tensor_pct: Some(61.6),
            dram_pct: Some(3.2),
            warp_states: states.into(),
            ..LaunchCounters::default()
        };
        let mut out = Vec::new();
        print("s64", &Counters { tool: "ncu 2025.3.1.0".to_owned(), launches: vec![launch] }, &mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap(), @"
        Hardware counters on s64 (ncu 2025.3.1.0):
          attention: tensor cores 62%, DRAM 3%
            states of warps: wait 75%, selected 25%
        ");
    }
}
