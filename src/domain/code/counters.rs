//! The hardware counters of a kernel: plain data, launch by launch. docs/counters.md names each metric.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::domain::ids::{CaseName, IterationId};

/// States of a warp that could issue. They are not stalls.
const READY: [&str; 2] = ["selected", "not_selected"];

/// The state of a warp that waits for the products of its warpgroup (`wgmma.wait_group`), beside those that the tool names. The
/// tool counts it as waiting at a barrier. A launch whose waits were not told apart lacks it.
pub const WARPGROUP_PRODUCTS: &str = "warpgroup_products";

/// The hardware counters of a variant on a case.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// The program that read them, with its version.
    pub tool: String,
    /// One entry for each launch of the plan, in order.
    pub launches: Vec<LaunchCounters>,
}

/// The hardware counters of one launch. A figure that the device or the tool does not report is none.
///
/// A percentage of a unit is its share of the unit's peak over the whole launch, the idle SMs of its tail included.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LaunchCounters {
    /// The kernel's name.
    pub kernel: String,
    /// Time of the launch in nanoseconds, while it was profiled. It is not a measured time: clocks and caches differ.
    pub time_ns: Option<f64>,
    /// How often the tool replayed the launch to read all counters.
    pub passes: Option<f64>,
    /// Use of the tensor cores, in percent.
    pub tensor_pct: Option<f64>,
    /// Use of the FP32 pipe (FMA), in percent.
    pub fma_pct: Option<f64>,
    /// Use of the pipe for special functions (XU, also called MUFU), in percent.
    pub xu_pct: Option<f64>,
    /// Instructions that warps executed.
    pub instructions: Option<f64>,
    /// Issue slots used while an SM was active, in percent.
    pub issue_pct: Option<f64>,
    /// Bandwidth of device memory used, in percent.
    pub dram_pct: Option<f64>,
    /// Bytes read from device memory.
    pub dram_read_bytes: Option<f64>,
    /// Bytes written to device memory.
    pub dram_write_bytes: Option<f64>,
    /// Bandwidth of L2 used, in percent.
    pub l2_pct: Option<f64>,
    /// Sectors of 32 bytes between the SMs and L2. See [`LaunchCounters::l2_bytes`].
    pub l2_sectors: Option<f64>,
    /// Use of the data stage of L1 and shared memory, in percent.
    pub l1_pct: Option<f64>,
    /// Wavefronts of shared memory: cycles of its data stage.
    pub shared_wavefronts: Option<f64>,
    /// Wavefronts that only bank conflicts caused.
    pub shared_conflicts: Option<f64>,
    /// Sectors for each global load of a warp: 4 for 4 contiguous bytes a thread, 16 for 16.
    pub load_sectors: Option<f64>,
    /// Sectors for each global store of a warp.
    pub store_sectors: Option<f64>,
    /// Sectors read from local memory: spilled registers and arrays with computed indices.
    pub local_load_sectors: Option<f64>,
    /// Sectors written to local memory.
    pub local_store_sectors: Option<f64>,
    /// Warps resident on an active SM, in percent of the most possible.
    pub occupancy_pct: Option<f64>,
    /// The same as the launch's resources allow it.
    pub theoretical_occupancy_pct: Option<f64>,
    /// Blocks for which an SM has room, by each resource.
    pub blocks_by: BTreeMap<Resource, f64>,
    /// Registers of a thread.
    pub registers: Option<f64>,
    /// Shared memory of a block in bytes, that of the driver included.
    pub shared_bytes: Option<f64>,
    /// Blocks of the grid over the blocks that fit on the device at once.
    pub waves: Option<f64>,
    /// Active threads of an executed warp instruction: 32 without divergence.
    pub active_threads: Option<f64>,
    /// Cycles for which an SM was active: the mean over the SMs.
    pub sm_active_cycles: Option<f64>,
    /// The same for the SM that was active least.
    pub sm_active_cycles_min: Option<f64>,
    /// The same for the SM that was active most.
    pub sm_active_cycles_max: Option<f64>,
    /// Cycles of the whole launch.
    pub sm_elapsed_cycles: Option<f64>,
    /// Samples of the state of a warp, by state. `selected` is a warp that issues. See
    /// [`LaunchCounters::stall_shares`].
    pub warp_states: BTreeMap<String, f64>,
}

/// What limits the blocks on an SM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// The registers of an SM.
    Registers,
    /// The shared memory of an SM.
    SharedMemory,
    /// The warps that an SM can hold.
    Warps,
    /// The blocks that an SM can hold.
    Blocks,
    /// The named barriers of an SM.
    Barriers,
}

impl LaunchCounters {
    /// Returns the bytes between the SMs and L2.
    pub fn l2_bytes(&self) -> Option<f64> {
        const SECTOR_BYTES: f64 = 32.0;
        self.l2_sectors.map(|sectors| sectors * SECTOR_BYTES)
    }

    /// Tells whether waits for products of warpgroups are apart from waits at barriers.
    pub fn tells_products_apart(&self) -> bool {
        self.warp_states.contains_key(WARPGROUP_PRODUCTS)
    }

    /// Returns the resource that allows the fewest blocks on an SM, with their number. The first of several.
    pub fn occupancy_limit(&self) -> Option<(Resource, f64)> {
        let blocks = self.blocks_by.iter().map(|(resource, blocks)| (*resource, *blocks));
        blocks.min_by(|(_, a), (_, b)| a.total_cmp(b))
    }

    /// Returns the state in which most warps wait, with its share of all samples. Warps that could issue do not wait.
    pub fn first_stall(&self) -> Option<(&str, f64)> {
        self.stall_shares().into_iter().find(|(state, _)| !READY.contains(state))
    }

    /// Returns the share of each state among all samples of warps, the largest first.
    pub fn stall_shares(&self) -> Vec<(&str, f64)> {
        let all: f64 = self.warp_states.values().sum();
        let shares = self.warp_states.iter().filter(|(_, samples)| **samples > 0.0);
        let mut shares: Vec<(&str, f64)> = shares.map(|(state, samples)| (state.as_str(), samples / all)).collect();
        shares.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        shares
    }

    /// Returns the share of the launch for which the mean SM was active: below 1 where SMs wait for the last blocks.
    pub fn sm_active_share(&self) -> Option<f64> {
        Some(self.sm_active_cycles? / self.sm_elapsed_cycles?)
    }
}

/// The counters of a variant on a case, or one sentence on why there are none. A fact about a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Counted {
    /// The iteration that measured the variant.
    pub iteration: IterationId,
    /// The case.
    pub case: CaseName,
    /// The counters, or why there are none.
    pub counters: Result<Counters, String>,
    /// How long it took, in seconds.
    pub wall_s: f64,
}

/// The counters of one call of a baseline's backend on a case, or one sentence on why there are none. A fact about a session.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CountedBaseline {
    /// The case.
    pub case: CaseName,
    /// The baseline's name for the backend.
    pub name: String,
    /// The counters, or why there are none.
    pub counters: Result<Counters, String>,
    /// How long it took, in seconds. Calls that one process makes share its time.
    pub wall_s: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_resource_with_the_fewest_blocks_limits_the_occupancy() {
        let blocks_by = [(Resource::Registers, 4.0), (Resource::SharedMemory, 2.0), (Resource::Warps, 8.0)];
        let mut counters = LaunchCounters { blocks_by: blocks_by.into(), ..LaunchCounters::default() };
        assert_eq!(counters.occupancy_limit(), Some((Resource::SharedMemory, 2.0)));
        counters.blocks_by.clear();
        assert_eq!(counters.occupancy_limit(), None);
    }

    #[test]
    fn stalls_are_shares_of_all_samples_the_largest_first() {
        let states = [("wait", 30.0), ("long_scoreboard", 50.0), ("membar", 0.0), ("selected", 20.0)];
        let warp_states = states.map(|(state, samples)| (state.to_owned(), samples)).into();
        let counters = LaunchCounters { warp_states, ..LaunchCounters::default() };
        assert_eq!(counters.stall_shares(), [("long_scoreboard", 0.5), ("wait", 0.3), ("selected", 0.2)]);
        assert!(LaunchCounters::default().stall_shares().is_empty());
    }

    #[test]
    fn unknown_values_stay_unknown() {
        let counters = LaunchCounters { l2_sectors: Some(2.0), sm_active_cycles: Some(50.0), ..Default::default() };
        assert_eq!(counters.l2_bytes(), Some(64.0));
        assert_eq!(counters.sm_active_share(), None);
    }
}
