//! Reads what `ncu --csv --page source --print-source sass` prints: at which instructions the warps of each launch were sampled.
//!
//! `ncu` counts a warp as waiting at a barrier while it waits for the products of its warpgroup: at `WARPGROUP.DEPBAR`, which is
//! PTX's `wgmma.wait_group`. The instruction tells the two apart (docs/counters.md).

use super::metrics::STATE_PREFIX;
use super::output::number;
use crate::domain::code::counters::{LaunchCounters, WARPGROUP_PRODUCTS};

/// The first column of the row that begins the table of a launch.
const LAUNCH_COLUMN: &str = "Kernel Name";

/// The first column of the row with the names of a table's columns, and the column with the instruction.
const FIRST_COLUMN: &str = "Address";
const INSTRUCTION_COLUMN: &str = "Source";

/// The instruction that waits for the products of a warpgroup.
const WAIT: &str = "WARPGROUP.DEPBAR";

/// The state that `ncu` gives these waits, together with waits at barriers.
const BARRIER: &str = "barrier";

/// Counts waits for products of warpgroups apart from waits at barriers. Launches are in the order of the tables. If these are
/// not those of the launches, nothing changes.
pub(super) fn tell_products_apart(launches: &mut [LaunchCounters], printed: &str) {
    let Some(waits) = waits_for_products(printed).filter(|waits| waits.len() == launches.len()) else { return };
    for (launch, waits) in launches.iter_mut().zip(waits) {
        if let Some(barrier) = launch.warp_states.get_mut(BARRIER) {
            let waits = waits.min(*barrier);
            *barrier -= waits;
            launch.warp_states.insert(WARPGROUP_PRODUCTS.to_owned(), waits);
        }
    }
}

/// Returns the samples of warps that waited for products of their warpgroups, for each table. None if a table lacks a column.
fn waits_for_products(printed: &str) -> Option<Vec<f64>> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(printed.as_bytes());
    let mut waits = Vec::new();
    let mut columns = None;
    for record in reader.records().map_while(Result::ok) {
        match record.get(0) {
            Some(LAUNCH_COLUMN) => {
                waits.push(0.0);
                columns = None;
            }
            Some(FIRST_COLUMN) => {
                let place = |column: &str| record.iter().position(|name| name == column);
                columns = Some((place(INSTRUCTION_COLUMN)?, place(&format!("{STATE_PREFIX}{BARRIER}"))?));
            }
            _ => {
                let (Some((instruction, barrier)), Some(sum)) = (columns, waits.last_mut()) else { continue };
                let is_wait = record.get(instruction).is_some_and(|text| text.contains(WAIT));
                *sum += record.get(barrier).and_then(number).filter(|_| is_wait).unwrap_or_default();
            }
        }
    }
    columns.map(|_| waits)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of what ncu 2025.3.1 printed about PyTorch's cuDNN kernel for b1h8s512 and its FlashAttention kernel for b8h8s128
    /// (H200, 2026-11-28): those around the waits, with some of the states.
    const H200: &str = include_str!("source_sample.csv");

    fn launch(barrier: f64) -> LaunchCounters {
        LaunchCounters { warp_states: [(BARRIER.to_owned(), barrier)].into(), ..LaunchCounters::default() }
    }

    #[test]
    fn waits_for_products_of_a_warpgroup_are_no_waits_at_barriers() {
        let mut launches = [launch(704.0), launch(24.0)];
        tell_products_apart(&mut launches, H200);
        let states = launches.map(|launch| (launch.warp_states[BARRIER], launch.warp_states[WARPGROUP_PRODUCTS]));
        assert_eq!(states, [(454.0, 250.0), (24.0, 0.0)]);
    }

    #[test]
    fn tables_of_other_launches_change_nothing() {
        for (launches, printed) in [(1, H200), (2, ""), (1, "\"Kernel Name\",\"k\"\n\"Address\",\"Source\"\n")] {
            let mut told = vec![launch(704.0); launches];
            tell_products_apart(&mut told, printed);
            assert_eq!(told, vec![launch(704.0); launches], "{printed}");
        }
    }
}
