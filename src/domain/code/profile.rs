//! The counts of a virtual GPU that executed a plan. The modelled time follows from these counts.

mod cause;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::domain::op::{Dims, show_dims};
use crate::domain::text::counted::counted;

pub use cause::{Cause, Without};

/// The counts of a plan, launch by launch. They cover the blocks that were executed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// One profile for each launch of the plan, in order.
    pub launches: Vec<LaunchProfile>,
    /// The smaller dimensions on which the output was checked; none if the case itself was executed.
    pub checked_on: Option<Dims>,
}

/// The counts of one launch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LaunchProfile {
    /// The kernel's name.
    pub kernel: String,
    /// The modelled time of the launch in nanoseconds.
    pub modelled_ns: f64,
    /// What bounds that time, such as `shared`.
    pub limiter: String,
    /// The modelled time of each part alone in nanoseconds, by the names of the limiters. The parts overlap.
    #[serde(default)]
    pub parts_ns: BTreeMap<String, f64>,
    /// The modelled time without each cause of lost time; empty unless an explanation was asked for.
    #[serde(default)]
    pub without: Vec<Without>,
    /// Blocks of the grid.
    pub blocks: u64,
    /// Blocks that were executed and counted.
    pub executed_blocks: u64,
    /// Blocks that fit on one multiprocessor together.
    pub blocks_per_sm: u32,
    /// Threads of a block.
    #[serde(default)]
    pub threads_per_block: u32,
    /// Issue slots of a block's busiest warp over those of its average warp: 1 is balanced. 0 if it was not counted.
    #[serde(default)]
    pub busiest_warp: f64,
    /// Warp instructions.
    pub warp_instructions: u64,
    /// Issue slots: machine instructions, as estimated from PTX. 0 if they were not counted.
    #[serde(default)]
    pub issue_slots: u64,
    /// The part of them that 64-bit integer instructions and integer divisions take, which mostly compute indices.
    #[serde(default)]
    pub index_slots: u64,
    /// Loads from global memory as warp instructions. 0 if they were not counted.
    #[serde(default)]
    pub global_load_requests: u64,
    /// Active lanes of a warp instruction, on average: 32 is best.
    pub active_lanes: f64,
    /// Conditional branches that a warp executed.
    pub branches: u64,
    /// Conditional branches whose lanes went both ways.
    pub divergent_branches: u64,
    /// Floating-point operations.
    #[serde(default)]
    pub flop: u64,
    /// The part of them that tensor cores did.
    #[serde(default)]
    pub flop_tensor: u64,
    /// Atomics on global memory, as warp instructions.
    #[serde(default)]
    pub atomics: u64,
    /// Rows of the output that were compared with the oracle although only a sample of the blocks was executed; none
    /// where the output of a sample says nothing.
    #[serde(default)]
    pub rows_compared: Option<usize>,
    /// 32-byte sectors loaded from global memory.
    pub global_loads: Units,
    /// 32-byte sectors of loads from global memory that missed the block's L1, so L2 delivered them.
    #[serde(default)]
    pub sectors_l2: u64,
    /// Bytes that lanes and bulk copies loaded from global memory, scaled up to the whole grid.
    #[serde(default)]
    pub global_load_bytes: u64,
    /// Distinct bytes of global memory that the whole grid touches, in sectors; an estimate if blocks were sampled.
    #[serde(default)]
    pub footprint_bytes: u64,
    /// 32-byte sectors stored to global memory.
    pub global_stores: Units,
    /// Wavefronts of shared memory, loads and stores together. Those beyond the ideal are bank conflicts.
    pub shared: Units,
    /// Sectors of local memory, loads and stores together. They are for arrays that did not fit registers; PTX knows no
    /// spills.
    pub local: Units,
}

/// Units of memory traffic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Units {
    /// Units that were moved.
    pub moved: u64,
    /// Units that a perfect layout would have moved for the same bytes.
    pub ideal: u64,
}

impl Units {
    /// Returns the moved units over the ideal; `None` where there was no traffic.
    pub fn excess(self) -> Option<f64> {
        (self.moved > 0).then(|| self.moved as f64 / self.ideal.max(1) as f64)
    }

    fn plus(self, other: Self) -> Self {
        Self { moved: self.moved + other.moved, ideal: self.ideal + other.ideal }
    }
}

impl Profile {
    /// Returns the modelled time of the whole plan in nanoseconds. Its launches run one after the other on one stream.
    pub fn modelled_ns(&self) -> f64 {
        self.launches.iter().map(|launch| launch.modelled_ns).sum()
    }

    /// Returns the launch that takes longest.
    pub fn longest(&self) -> Option<&LaunchProfile> {
        self.launches.iter().max_by(|a, b| a.modelled_ns.total_cmp(&b.modelled_ns))
    }

    /// Returns the modelled time of the whole plan without a cause of lost time, in nanoseconds; `None` unless an
    /// explanation was asked for.
    pub fn ns_without(&self, cause: Cause) -> Option<f64> {
        self.launches.iter().map(|launch| launch.ns_without(cause)).sum()
    }

    /// Tells whether the counts come from a sample of the blocks.
    pub fn is_sampled(&self) -> bool {
        self.launches.iter().any(|launch| launch.executed_blocks < launch.blocks)
    }

    /// Describes the shortcuts of the execution; none if it executed every block of the case itself.
    pub fn shortcuts(&self) -> Option<String> {
        let blocks = self.launches.iter().filter(|launch| launch.executed_blocks < launch.blocks).map(|launch| {
            let compared =
                launch.rows_compared.map(|rows| format!(", {} of their output compared", counted(rows, "row")));
            let (executed, compared) = (launch.executed_blocks, compared.unwrap_or_default());
            format!("{}: {executed} of {} blocks counted{compared}", launch.kernel, launch.blocks)
        });
        let checked = self.checked_on.iter().map(|dims| format!("checked on {}", show_dims(dims)));
        let notes: Vec<String> = blocks.chain(checked).collect();
        (!notes.is_empty()).then(|| notes.join("; "))
    }
}

impl LaunchProfile {
    /// Returns the sectors of global memory, loads and stores together.
    pub fn global(&self) -> Units {
        self.global_loads.plus(self.global_stores)
    }

    /// Returns the modelled time without a cause of lost time, in nanoseconds; `None` unless an explanation was asked
    /// for.
    pub fn ns_without(&self, cause: Cause) -> Option<f64> {
        self.without.iter().find(|without| without.cause == cause).map(|without| without.ns)
    }

    /// Returns how often each byte of global memory that the launch touches is loaded, on average; `None` if it was not
    /// counted.
    pub fn redundancy(&self) -> Option<f64> {
        (self.footprint_bytes > 0).then(|| self.global_load_bytes as f64 / self.footprint_bytes as f64)
    }

    /// Returns the bytes that L2 delivered to loads of the whole grid; 0 if they were not counted.
    pub fn l2_load_bytes(&self) -> f64 {
        32.0 * self.sectors_l2 as f64 * self.blocks as f64 / self.executed_blocks.max(1) as f64
    }

    /// Returns how many bytes a lane loads from global memory with one instruction, on average; `None` if that was not counted.
    pub fn bytes_per_load(&self) -> Option<f64> {
        let requests = self.global_load_requests as f64 * self.blocks as f64 / self.executed_blocks.max(1) as f64;
        (requests > 0.0).then(|| self.global_load_bytes as f64 / (32.0 * requests))
    }

    /// Returns the share of the machine instructions that compute indices; `None` if that was not counted.
    pub fn index_share(&self) -> Option<f64> {
        (self.issue_slots > 0).then(|| (self.index_slots as f64 / self.issue_slots as f64).min(1.0))
    }

    /// Returns the share of conditional branches whose lanes went both ways.
    pub fn divergence(&self) -> f64 {
        self.divergent_branches as f64 / self.branches.max(1) as f64
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A launch that takes `modelled_ns` and has the worst bank conflicts.
    pub(crate) fn launch(kernel: &str, modelled_ns: f64) -> LaunchProfile {
        LaunchProfile {
            kernel: kernel.to_owned(),
            modelled_ns,
            limiter: "shared".to_owned(),
            parts_ns: BTreeMap::from([("shared".to_owned(), modelled_ns), ("launch".to_owned(), 0.1 * modelled_ns)]),
            without: Vec::new(),
            blocks: 256,
            executed_blocks: 256,
            blocks_per_sm: 4,
            threads_per_block: 128,
            busiest_warp: 1.0,
            warp_instructions: 10_000,
            issue_slots: 12_000,
            index_slots: 1_000,
            global_load_requests: 0,
            active_lanes: 31.5,
            branches: 100,
            divergent_branches: 5,
            flop: 1_000_000,
            flop_tensor: 0,
            atomics: 0,
            rows_compared: None,
            global_loads: Units { moved: 1000, ideal: 1000 },
            sectors_l2: 800,
            global_load_bytes: 32_000,
            footprint_bytes: 16_000,
            global_stores: Units { moved: 500, ideal: 250 },
            shared: Units { moved: 32_000, ideal: 1000 },
            local: Units::default(),
        }
    }

    #[test]
    fn a_plan_takes_the_time_of_its_launches_and_its_longest_one_explains_it() {
        let profile = Profile { launches: vec![launch("attend", 900.0), launch("combine", 100.0)], checked_on: None };
        assert_eq!(profile.modelled_ns(), 1000.0);
        let longest = profile.longest().unwrap();
        assert_eq!((longest.kernel.as_str(), longest.shared.excess()), ("attend", Some(32.0)));
        assert_eq!((longest.global().excess(), longest.local.excess()), (Some(1.2), None));
        assert_eq!(profile.shortcuts(), None);
    }

    #[test]
    fn a_plan_without_a_cause_is_its_launches_without_it() {
        let without = |ns, share| Vec::from([Without { cause: Cause::BankConflicts, ns: ns * share }]);
        let explained = |ns, share| LaunchProfile { without: without(ns, share), ..launch("attend", ns) };
        let mut profile = Profile { launches: vec![explained(900.0, 0.5), explained(100.0, 1.0)], checked_on: None };
        assert_eq!(profile.ns_without(Cause::BankConflicts), Some(550.0));
        assert_eq!(profile.ns_without(Cause::Launch), None);
        profile.launches[0].without.clear();
        assert_eq!(profile.ns_without(Cause::BankConflicts), None, "one launch is not explained");
    }

    #[test]
    fn a_profile_of_an_earlier_version_is_read() {
        let mut json = serde_json::to_value(launch("attend", 900.0)).unwrap();
        let new = ["parts_ns", "without", "threads_per_block", "busiest_warp", "flop_tensor", "sectors_l2"];
        for field in new.into_iter().chain(["global_load_bytes", "footprint_bytes"]) {
            json.as_object_mut().unwrap().remove(field).unwrap();
        }
        let read: LaunchProfile = serde_json::from_value(json).unwrap();
        assert_eq!((read.modelled_ns, read.redundancy(), read.ns_without(Cause::Launch)), (900.0, None, None));
        assert_eq!(launch("attend", 900.0).redundancy(), Some(2.0));
    }

    #[test]
    fn what_was_not_executed_is_said() {
        let sampled = LaunchProfile { executed_blocks: 64, ..launch("attend", 900.0) };
        let dims = [("B", 2), ("Sq", 256)].map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
        let profile = Profile { launches: vec![sampled], checked_on: Some(dims) };
        assert!(profile.is_sampled());
        insta::assert_snapshot!(profile.shortcuts().unwrap(), @"attend: 64 of 256 blocks counted; checked on B=2 Sq=256");
    }
}
