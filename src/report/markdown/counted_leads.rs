//! The table of where the cycles of winners and of other kernels go.

use super::table;
use crate::report::contract::CountedLead;
use crate::report::cycle_parts::{compared, part_names, sums};
use crate::report::format::{NOTHING, fine, us};

/// Returns a row for each lead: the cycles of the other kernel and of the winner, and their parts. None without any.
pub(in crate::report) fn table(leads: &[CountedLead]) -> Option<String> {
    let first = ["case", "other kernel", ">other / ours", ">us more", ">profiled", ">cycles"].map(str::to_owned);
    let parts = part_names().map(|part| format!(">{}", part.replace('_', " ")));
    let headings: Vec<String> = first.into_iter().chain(parts).collect();
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let rows: Vec<Vec<String>> = leads.iter().map(row).collect();
    (!rows.is_empty()).then(|| table::table(&headings, &rows))
}

fn row(lead: &CountedLead) -> Vec<String> {
    let both = |other: f64, winner: f64| format!("{other:.0}, {winner:.0}");
    let [other, winner] = sums(compared(&lead.parts));
    let [more, profiled] = [lead.more_us, lead.profiled_more_us].map(us);
    let first = [lead.case.to_string(), lead.other.clone(), fine(lead.ratio), more, profiled, both(other, winner)];
    let part = |name: &str| lead.parts.iter().find(|part| part.part == name);
    let shown = |name| part(name).map_or_else(|| NOTHING.to_owned(), |part| both(part.other, part.winner));
    first.into_iter().chain(part_names().map(shown)).collect()
}
