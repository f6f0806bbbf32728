//! The metrics that optloop requests from `ncu`, and where their values go.
//!
//! The names are those of Nsight Compute's own sections, which docs/counters.md lists with what they showed on kernels
//! whose counts are known. The list is short, because each pass runs the kernel again.

use crate::domain::code::counters::{LaunchCounters, Resource};

/// Stores a metric's value.
type SetCounter = fn(&mut LaunchCounters, f64);

/// Metrics with a field of their own.
pub(super) const METRICS: [(&str, SetCounter); 34] = [
    ("gpu__time_duration.sum", |c, v| c.time_ns = Some(v)),
    ("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed", |c, v| c.tensor_pct = Some(v)),
    ("sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_elapsed", |c, v| c.fma_pct = Some(v)),
    ("sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_elapsed", |c, v| c.xu_pct = Some(v)),
    ("smsp__inst_executed.sum", |c, v| c.instructions = Some(v)),
    ("smsp__issue_active.avg.pct_of_peak_sustained_active", |c, v| c.issue_pct = Some(v)),
    ("dram__bytes.sum.pct_of_peak_sustained_elapsed", |c, v| c.dram_pct = Some(v)),
    ("dram__bytes_read.sum", |c, v| c.dram_read_bytes = Some(v)),
    ("dram__bytes_write.sum", |c, v| c.dram_write_bytes = Some(v)),
    ("lts__t_sectors.avg.pct_of_peak_sustained_elapsed", |c, v| c.l2_pct = Some(v)),
    ("lts__t_sectors_srcunit_tex.sum", |c, v| c.l2_sectors = Some(v)),
    ("l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed", |c, v| c.l1_pct = Some(v)),
    ("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", |c, v| c.shared_wavefronts = Some(v)),
    ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", |c, v| c.shared_conflicts = Some(v)),
    ("l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio", |c, v| c.load_sectors = Some(v)),
    ("l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio", |c, v| c.store_sectors = Some(v)),
    ("l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum", |c, v| c.local_load_sectors = Some(v)),
    ("l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum", |c, v| c.local_store_sectors = Some(v)),
    ("sm__warps_active.avg.pct_of_peak_sustained_active", |c, v| c.occupancy_pct = Some(v)),
    ("sm__maximum_warps_per_active_cycle_pct", |c, v| c.theoretical_occupancy_pct = Some(v)),
    ("launch__occupancy_limit_registers", |c, v| limit(c, Resource::Registers, v)),
    ("launch__occupancy_limit_shared_mem", |c, v| limit(c, Resource::SharedMemory, v)),
    ("launch__occupancy_limit_warps", |c, v| limit(c, Resource::Warps, v)),
    ("launch__occupancy_limit_blocks", |c, v| limit(c, Resource::Blocks, v)),
    ("launch__occupancy_limit_barriers", |c, v| limit(c, Resource::Barriers, v)),
    ("launch__registers_per_thread", |c, v| c.registers = Some(v)),
    ("launch__shared_mem_per_block", |c, v| c.shared_bytes = Some(v)),
    ("launch__waves_per_multiprocessor", |c, v| c.waves = Some(v)),
    ("smsp__thread_inst_executed_per_inst_executed.ratio", |c, v| c.active_threads = Some(v)),
    ("sm__cycles_active.avg", |c, v| c.sm_active_cycles = Some(v)),
    ("sm__cycles_active.min", |c, v| c.sm_active_cycles_min = Some(v)),
    ("sm__cycles_active.max", |c, v| c.sm_active_cycles_max = Some(v)),
    ("sm__cycles_elapsed.max", |c, v| c.sm_elapsed_cycles = Some(v)),
    (PASSES, |c, v| c.passes = Some(v)),
];

/// What `ncu` reports by itself: the number of its passes.
const PASSES: &str = "profiler__replayer_passes";

fn limit(counters: &mut LaunchCounters, resource: Resource, blocks: f64) {
    counters.blocks_by.insert(resource, blocks);
}

/// The beginning of the metrics that sample the states of warps. One pass takes the samples of all states.
pub(super) const STATE_PREFIX: &str = "smsp__pcsamp_warps_issue_stalled_";

/// The states. On Hopper, `warpgroup_arrive` is the wait before a `wgmma`, and `barrier` includes the wait for its result.
const STATES: [&str; 19] = [
    "barrier",
    "branch_resolving",
    "dispatch_stall",
    "drain",
    "imc_miss",
    "lg_throttle",
    "long_scoreboard",
    "math_pipe_throttle",
    "membar",
    "mio_throttle",
    "misc",
    "no_instructions",
    "not_selected",
    "selected",
    "short_scoreboard",
    "sleeping",
    "tex_throttle",
    "wait",
    "warpgroup_arrive",
];

/// Returns the value of `--metrics`.
pub(super) fn metric_names() -> String {
    let fields = METRICS.iter().map(|(name, _)| (*name).to_owned()).filter(|name| name != PASSES);
    fields.chain(STATES.iter().map(|state| format!("{STATE_PREFIX}{state}"))).collect::<Vec<_>>().join(",")
}

/// Stores the value of a metric. An unknown metric is ignored, because `ncu` reports more than was requested.
pub(super) fn put(counters: &mut LaunchCounters, metric: &str, value: f64) {
    if let Some(state) = metric.strip_prefix(STATE_PREFIX).filter(|state| STATES.contains(state)) {
        counters.warp_states.insert(state.to_owned(), value);
    } else if let Some((_, put)) = METRICS.iter().find(|(name, _)| *name == metric) {
        put(counters, value);
    }
}
