//! Table rows with the counts of a virtual GPU, the same in reports and on the command line.

use super::format::{NOTHING, percent, times, us};
use crate::domain::code::profile::{LaunchProfile, Profile, Units};

/// The headings of [`rows`], after the caller's own columns. A leading `>` is for figures.
pub const HEADINGS: [&str; 9] = [
    "kernel",
    ">µs, modelled",
    "limiter",
    ">blocks per SM",
    ">active lanes",
    ">divergent branches",
    ">global sectors / ideal",
    ">shared wavefronts / ideal",
    ">local sectors",
];

/// Returns a row for every launch of a plan.
pub fn rows(profile: &Profile) -> Vec<[String; HEADINGS.len()]> {
    profile.launches.iter().map(row).collect()
}

fn row(launch: &LaunchProfile) -> [String; HEADINGS.len()] {
    let excess = |units: Units| units.excess().map_or_else(|| NOTHING.to_owned(), times);
    [
        launch.kernel.clone(),
        us(launch.modelled_ns / 1e3),
        launch.limiter.clone(),
        launch.blocks_per_sm.to_string(),
        format!("{:.1}", launch.active_lanes),
        percent(launch.divergence()),
        excess(launch.global()),
        excess(launch.shared),
        launch.local.moved.to_string(),
    ]
}
