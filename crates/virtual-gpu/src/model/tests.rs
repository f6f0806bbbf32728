use super::*;
use crate::timing::Times;

/// Blocks of four warps with `slots` issue slots each, half of them multiply-adds, in `cycles` cycles.
fn counters(blocks: u64, slots: u64, cycles: u32) -> Counters {
    let mut counters = Counters { blocks, executed_blocks: 2, warps_per_block: 4, ..Counters::default() };
    counters.static_instructions = 1000;
    counters.hot_instructions = 800;
    for _ in 0..2 {
        counters.issue_slots += 4 * slots;
        counters.partition_slots.iter_mut().for_each(|sum| *sum += slots);
        counters.pipe_cycles[Pipe::Fma as usize] += 2 * slots;
        counters.add_block(Times { in_order: cycles, dataflow: cycles });
    }
    counters
}

fn shape(blocks: u64) -> Shape {
    Shape { blocks, threads: 128, registers: 64, shared_bytes: 16 << 10, cluster_blocks: 1, spill_bytes: 0 }
}

fn time(blocks: u64, slots: u64, cycles: u32) -> Modelled {
    model(&Gpu::h200(), &shape(blocks), &counters(blocks, slots, cycles))
}

#[test]
fn a_kernel_that_does_nothing_costs_its_launch() {
    let empty = model(&Gpu::h200(), &shape(1), &Counters { blocks: 1, ..Counters::default() });
    let rates = Gpu::h200().rates;
    let launch_ns = (rates.launch_s + rates.start_s) * 1e9;
    assert!((empty.time_ns - launch_ns).abs() < 0.1 * launch_ns, "{empty:?}");
    assert_eq!(empty.limiter, Limiter::Launch);
}

#[test]
fn few_warps_are_bound_by_their_latency_and_many_by_the_issue_slots() {
    assert_eq!(time(132, 2_000, 20_000).limiter, Limiter::Latency);
    assert_eq!(time(132 * 80, 5_000, 20_000).limiter, Limiter::Issue);
}

#[test]
fn blocks_of_one_wave_take_as_long_as_one() {
    let (one, wave) = (time(1, 100, 50_000), time(132, 100, 50_000));
    assert!((wave.time_ns / one.time_ns - 1.0).abs() < 0.01, "{one:?} {wave:?}");
}

#[test]
fn one_block_more_than_a_wave_takes_another_wave() {
    let held = u64::from(time(1, 1, 1).blocks_per_multiprocessor);
    let (full, more) = (time(132 * held, 10, 50_000), time(132 * held + 1, 10, 50_000));
    assert!(more.time_ns > 1.8 * full.time_ns - 1e3, "{full:?} {more:?}");
}

#[test]
fn registers_that_crowd_blocks_out_cost_time() {
    let (blocks, gpu) = (132 * 16, Gpu::h200());
    let few = model(&gpu, &Shape { registers: 255, ..shape(blocks) }, &counters(blocks, 1_000, 20_000));
    assert!(few.blocks_per_multiprocessor < time(blocks, 1_000, 20_000).blocks_per_multiprocessor);
    assert!(few.time_ns > 1.5 * time(blocks, 1_000, 20_000).time_ns);
}

#[test]
fn spills_cost_instructions_and_the_freedom_to_reorder() {
    let (gpu, blocks) = (Gpu::h200(), 132);
    let mut counters = counters(blocks, 1_000, 20_000);
    counters.dataflow_cycles /= 4;
    counters.longest_dataflow_cycles /= 4;
    let time = |spill_bytes| model(&gpu, &Shape { spill_bytes, ..shape(blocks) }, &counters).time_ns;
    assert!(time(400) > 1.2 * time(0));
    assert!(time(800) > time(400));
}

#[test]
fn first_warps_that_do_all_the_work_fill_half_of_the_partitions() {
    let (gpu, shape) = (Gpu::h200(), Shape { threads: 64, ..shape(132 * 8) });
    let mut counters = counters(132 * 8, 20_000, 2_000);
    counters.partition_slots = [counters.issue_slots / 2, counters.issue_slots / 2, 0, 0];
    let even = model(&gpu, &shape, &counters).time_ns;
    counters.partition_slots = [counters.issue_slots, 0, 0, 0];
    assert!(model(&gpu, &shape, &counters).time_ns > 1.9 * even);
}

#[test]
fn one_long_block_holds_up_a_wave_and_the_multiprocessors_that_get_its_like() {
    let gpu = Gpu::h200();
    let time = |longest: u64, slots: u64| {
        let mut counters = counters(132 * 4, slots, 10_000);
        counters.longest_in_order_cycles *= longest;
        counters.longest_dataflow_cycles *= longest;
        model(&gpu, &shape(132 * 4), &counters).time_ns
    };
    assert!(time(3, 10) > 2.0 * time(1, 10), "by latency");
    assert!(time(3, 40_000) > 2.0 * time(1, 40_000), "by throughput");
}

#[test]
fn a_working_set_beyond_l2_is_bound_by_memory() {
    let mut counters = counters(10_000, 10, 500);
    counters.footprint_bytes = 4_800_000_000;
    let modelled = model(&Gpu::h200(), &shape(10_000), &counters);
    assert_eq!(modelled.limiter, Limiter::Hbm);
    assert!((modelled.time_ns - 1e6).abs() < 0.1e6, "{modelled:?}");
}

#[test]
fn the_time_grows_with_every_part() {
    let base = time(1_000, 1_000, 10_000).time_ns;
    assert!(time(2_000, 1_000, 10_000).time_ns > base);
    assert!(time(1_000, 2_000, 10_000).time_ns > base);
    assert!(time(1_000, 1_000, 20_000).time_ns > base);
}

#[test]
fn without_its_partial_wave_a_grid_takes_as_long_as_one_that_fills_it() {
    let gpu = Gpu::h200();
    let ns = |blocks, supposition| {
        let modelled = model_supposing(&gpu, &shape(blocks), &counters(blocks, 10, 50_000), supposition);
        modelled.unwrap().time_ns
    };
    let held = u64::from(time(1, 1, 1).blocks_per_multiprocessor);
    let (full, more) = (132 * held, 132 * held + 1);
    assert!(ns(more, Supposition::NoPartialWave) < 1.01 * time(full, 10, 50_000).time_ns);
    assert_eq!(ns(full, Supposition::NoPartialWave), time(full, 10, 50_000).time_ns);
}

#[test]
fn without_its_launch_a_kernel_takes_the_rest() {
    let (gpu, blocks) = (Gpu::h200(), 132);
    let (shape, counters) = (shape(blocks), counters(blocks, 10, 50_000));
    let without = model_supposing(&gpu, &shape, &counters, Supposition::NoLaunch).unwrap().time_ns;
    let launch_ns = (gpu.rates.launch_s + gpu.rates.start_s) * 1e9;
    assert!((model(&gpu, &shape, &counters).time_ns - without - launch_ns).abs() < 1e-6);
}

#[test]
fn data_that_is_not_loaded_needs_no_memory() {
    let mut counters = counters(10_000, 10, 500);
    (counters.footprint_bytes, counters.global_store.bytes) = (4_800_000_000, 0);
    let supposed = counters.supposing(Supposition::NoGlobalLoads);
    assert_eq!(supposed, None, "it was not executed with suppositions");
    counters.supposed = vec![(Supposition::NoGlobalLoads, Counters::default())];
    assert_eq!(counters.supposing(Supposition::NoGlobalLoads).unwrap().footprint_bytes, 0);
}
