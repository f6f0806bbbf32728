//! What hardware counters show of a kernel, in two sentences.

use crate::domain::counters::{Counters, LaunchCounters};

/// The most units and states of warps to name.
const MOST: usize = 3;

/// Says which units the longest launch uses most, and what its warps wait for.
pub(super) fn told(counters: &Counters) -> String {
    let ns = |launch: &LaunchCounters| launch.time_ns.unwrap_or_default();
    let longest = counters.launches.iter().max_by(|a, b| ns(a).total_cmp(&ns(b)));
    let Some(longest) = longest else { return "They are empty.".to_owned() };
    [Some(units(longest)), waits(longest)].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn units(launch: &LaunchCounters) -> String {
    let known = [
        ("issue slots", launch.issue_pct),
        ("tensor cores", launch.tensor_pct),
        ("FMA pipes", launch.fma_pct),
        ("special functions", launch.xu_pct),
        ("L1 and shared memory", launch.l1_pct),
        ("L2", launch.l2_pct),
        ("device memory", launch.dram_pct),
    ];
    let mut known: Vec<(&str, f64)> = known.into_iter().filter_map(|(unit, percent)| Some((unit, percent?))).collect();
    known.sort_by(|a, b| b.1.total_cmp(&a.1));
    let busiest: Vec<String> = known.iter().take(MOST).map(|(unit, percent)| format!("{unit} {percent:.0}%")).collect();
    let active =
        launch.sm_active_share().map(|share| format!("SMs are active for {:.0}% of the launch", 100.0 * share));
    let busiest = (!busiest.is_empty()).then(|| format!("the busiest units are {}", busiest.join(", ")));
    let all: Vec<String> = active.into_iter().chain(busiest).collect();
    if all.is_empty() { "They show no use of units.".to_owned() } else { format!("{}.", all.join("; ")) }
}

/// Names the most frequent states of warps, which are those of Nsight Compute. A warp that is selected issues.
fn waits(launch: &LaunchCounters) -> Option<String> {
    let states: Vec<String> = launch
        .stall_shares()
        .into_iter()
        .filter(|(state, _)| !["selected", "not_selected"].contains(state))
        .take(MOST)
        .map(|(state, share)| format!("`{state}` {:.0}%", 100.0 * share))
        .collect();
    (!states.is_empty()).then(|| format!("Its warps wait most in the states {}.", states.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_launch_is_told_by_its_busiest_units_and_its_waits() {
        let states = [("wait", 40.0), ("barrier", 30.0), ("selected", 20.0), ("long_scoreboard", 10.0)];
        let attend = LaunchCounters {
            time_ns: Some(7000.0),
            issue_pct: Some(30.4),
            l2_pct: Some(20.1),
            tensor_pct: Some(13.8),
            dram_pct: Some(5.9),
            sm_active_cycles: Some(72.0),
            sm_elapsed_cycles: Some(100.0),
            warp_states: states.map(|(state, samples)| (state.to_owned(), samples)).into(),
            ..LaunchCounters::default()
        };
        let short = LaunchCounters { time_ns: Some(900.0), issue_pct: Some(99.0), ..LaunchCounters::default() };
        let counters = Counters { tool: "ncu".to_owned(), launches: vec![short, attend] };
        insta::assert_snapshot!(told(&counters), @"SMs are active for 72% of the launch; the busiest units are issue slots 30%, L2 20%, tensor cores 14%. Its warps wait most in the states `wait` 40%, `barrier` 30%, `long_scoreboard` 10%.");
    }
}
