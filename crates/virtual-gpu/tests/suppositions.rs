//! Kernels that lose their time to one cause each: without it they are fast, and without another they are not.

use virtual_gpu::counters::Counters;
use virtual_gpu::gpu::Gpu;
use virtual_gpu::model::{Shape, model, model_supposing};
use virtual_gpu::timing::Supposition;
use virtual_gpu::{Launch, Options, VirtualGpu, ptx};

/// Bytes of the buffer that the kernels get.
const BYTES: u64 = 1 << 20;

/// A kernel that was executed with every supposition.
struct Executed {
    shape: Shape,
    counters: Counters,
    /// The buffer's contents afterwards.
    bytes: Vec<u8>,
}

/// Executes a kernel whose `body` runs 64 times. `%r1` is the thread, `%rd1` the address of the buffer, `%r9` the
/// number of the pass.
fn executed(blocks: u32, threads: u32, body: &str, suppose: bool) -> Executed {
    in_clusters(1, blocks, threads, body, suppose)
}

fn in_clusters(cluster: u32, blocks: u32, threads: u32, body: &str, suppose: bool) -> Executed {
    let text = format!(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 data)\n{{\n\
         .reg .b32 %r<30>;\n.reg .b64 %rd<30>;\n.reg .f32 %f<30>;\n.reg .pred %p<8>;\n\
         .shared .align 16 .b8 tile[4096];\n.local .align 16 .b8 stack[64];\n\
         ld.param.u64 %rd1, [data];\nmov.u32 %r1, %tid.x;\nmov.f32 %f1, 0f3f800000;\nmov.u32 %r9, 0;\n\
         L:\n{body}\nadd.u32 %r9, %r9, 1;\nsetp.lt.u32 %p1, %r9, 64;\n@%p1 bra L;\n\
         mul.wide.u32 %rd9, %r1, 4;\nadd.s64 %rd9, %rd1, %rd9;\nst.global.f32 [%rd9], %f1;\nret;\n}}\n"
    );
    let mut gpu = VirtualGpu::new(Gpu::h200());
    let module = gpu.load(ptx::load("k.ptx", &text).expect("it loads")).expect("it fits");
    let data = gpu.alloc(BYTES).expect("there is memory");
    gpu.fill(data, BYTES, 0).expect("it is that large");
    let args = [data.to_le_bytes().to_vec()];
    let block = [threads, 1, 1];
    let launch = Launch { grid: [blocks, 1, 1], block, cluster: [cluster, 1, 1], dynamic_shared_bytes: 0, args: &args };
    let options = Options { suppose, races: false, uninitialised: false, ..Options::default() };
    let counters = gpu.launch(&module, "k", &launch, &options).expect("it runs");
    let shape = Shape { blocks: blocks.into(), threads, registers: 32, shared_bytes: 4096, ..Shape::default() };
    Executed { shape, counters, bytes: gpu.read(data, BYTES).expect("it is that large") }
}

fn one_warp(body: &str) -> Executed {
    executed(1, 32, body, true)
}

impl Executed {
    /// Returns its modelled time without the overhead of a launch, in nanoseconds.
    fn actual_ns(&self) -> f64 {
        model(&Gpu::h200(), &self.shape, &self.counters).time_ns - launch_ns()
    }

    /// Returns the same under a supposition.
    fn ns(&self, supposition: Supposition) -> f64 {
        let supposed = model_supposing(&Gpu::h200(), &self.shape, &self.counters, supposition);
        supposed.expect("it was supposed").time_ns - launch_ns()
    }

    /// Asserts that this is where the time goes, and that none of `others` is.
    fn loses_most_to(&self, cause: Supposition, others: &[Supposition]) {
        let share = |supposition| self.ns(supposition) / self.actual_ns();
        assert!(share(cause) < 0.5, "{cause:?}: {:.2}", share(cause));
        for &other in others {
            assert!(share(other) > 0.8, "{other:?}: {:.2}", share(other));
        }
    }
}

fn launch_ns() -> f64 {
    let rates = Gpu::h200().rates;
    (rates.launch_s + rates.start_s) * 1e9
}

fn is_about(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() < 1e-6
}

/// Loads from shared memory whose lanes are `stride` words apart.
fn shared_loads(stride: u32) -> Executed {
    one_warp(&format!(
        "mov.u32 %r2, tile; mul.lo.u32 %r3, %r1, {}; add.u32 %r2, %r2, %r3;
         ld.shared.f32 %f2, [%r2]; add.f32 %f1, %f1, %f2;",
        4 * stride
    ))
}

/// Loads from global memory whose lanes are `lane` bytes apart, and whose passes are `pass` bytes apart.
fn global_loads(lane: u32, pass: u32) -> Executed {
    one_warp(&format!(
        "mul.lo.u32 %r2, %r1, {lane}; mad.lo.u32 %r2, %r9, {pass}, %r2; cvt.u64.u32 %rd2, %r2;
         add.s64 %rd2, %rd1, %rd2; ld.global.f32 %f2, [%rd2]; add.f32 %f1, %f1, %f2;"
    ))
}

#[test]
fn without_its_conflicts_a_load_takes_as_long_as_one_that_has_none() {
    let (conflicts, clean) = (shared_loads(32), shared_loads(1));
    assert!(conflicts.actual_ns() > 1.5 * clean.actual_ns());
    assert!(is_about(conflicts.ns(Supposition::NoBankConflicts), clean.actual_ns()));
    assert!(is_about(clean.ns(Supposition::NoBankConflicts), clean.actual_ns()), "it has none to lose");
    conflicts.loses_most_to(Supposition::NoSharedAccess, &[Supposition::NoProducts, Supposition::NoGlobalLoads]);
}

#[test]
fn without_its_scatter_a_load_takes_as_long_as_a_contiguous_one() {
    let (scattered, contiguous) = (global_loads(128, 4096), global_loads(4, 4096));
    assert!(scattered.actual_ns() > 1.04 * contiguous.actual_ns());
    assert!(is_about(scattered.ns(Supposition::NoScatteredAccess), contiguous.actual_ns()));
    assert!(is_about(contiguous.ns(Supposition::NoScatteredAccess), contiguous.actual_ns()));
    let supposed = scattered.counters.supposing(Supposition::NoScatteredAccess).expect("it was supposed");
    assert_eq!(supposed.l2_sectors, contiguous.counters.l2_sectors);
}

/// The scattered sectors of a column are used up by the next columns, so L2 delivers nothing twice.
#[test]
fn columns_of_a_row_lose_no_sectors_to_scatter() {
    let columns = global_loads(256, 4);
    let supposed = columns.counters.supposing(Supposition::NoScatteredAccess).expect("it was supposed");
    assert_eq!(supposed.l2_sectors, columns.counters.l2_sectors);
}

#[test]
fn without_misses_loads_of_new_data_take_as_long_as_those_of_old_data() {
    let (new, old) = (global_loads(4, 128), global_loads(4, 0));
    assert!(new.actual_ns() > 1.5 * old.actual_ns());
    assert!(is_about(new.ns(Supposition::NoCacheMisses), old.ns(Supposition::NoCacheMisses)));
    assert!(old.ns(Supposition::NoCacheMisses) > 0.9 * old.actual_ns(), "only its first load misses");
    new.loses_most_to(Supposition::NoGlobalLoads, &[Supposition::NoProducts, Supposition::NoSharedAccess]);
}

#[test]
fn products_and_special_functions_are_distinguished() {
    let others = [Supposition::NoGlobalLoads, Supposition::NoSharedAccess, Supposition::NoBarriers];
    let products = one_warp(&"fma.rn.f32 %f1, %f1, %f1, %f1;\n".repeat(32));
    products.loses_most_to(Supposition::NoProducts, &[&others[..], &[Supposition::NoExponentials]].concat());
    let functions = one_warp(&"ex2.approx.ftz.f32 %f1, %f1;\n".repeat(32));
    functions.loses_most_to(Supposition::NoExponentials, &[&others[..], &[Supposition::NoProducts]].concat());
}

/// In every pass, the warp in whose turn it is works, and then both meet.
#[test]
fn warps_that_take_turns_wait_at_barriers() {
    let work = "fma.rn.f32 %f1, %f1, %f1, %f1;\n".repeat(64);
    let turn = |turn: &str| {
        let body = format!(
            "shr.u32 %r2, %r1, 5; {turn} setp.ne.u32 %p2, %r2, %r3; @%p2 bra W;\n{work}
             W: bar.sync 0;"
        );
        executed(1, 64, &body, true)
    };
    let alternate = turn("and.b32 %r3, %r9, 1;");
    alternate.loses_most_to(Supposition::NoProducts, &[Supposition::NoGlobalLoads, Supposition::NoSpills]);
    assert!(alternate.ns(Supposition::NoBarriers) < 0.6 * alternate.actual_ns());
    assert!(alternate.ns(Supposition::NoIdleWarps) < 0.7 * alternate.actual_ns());
    // If the first warp does all the work, it never waits, but it could share.
    let first = turn("mov.u32 %r3, 0;");
    assert!(first.ns(Supposition::NoBarriers) > 0.8 * first.actual_ns());
    assert!(first.ns(Supposition::NoIdleWarps) < 0.7 * first.actual_ns());
    assert!(first.counters.busiest_warp() > 1.7, "{}", first.counters.busiest_warp());
    assert!(alternate.counters.busiest_warp() < 1.1, "{}", alternate.counters.busiest_warp());
}

#[test]
fn local_memory_and_spilled_registers_count_as_spills() {
    let local = one_warp("st.local.f32 [stack], %f1; ld.local.f32 %f1, [stack+4]; ld.local.f32 %f2, [stack];");
    assert!(local.ns(Supposition::NoSpills) < 0.7 * local.actual_ns());
    let mut products = one_warp(&"fma.rn.f32 %f1, %f1, %f1, %f1;\n".repeat(32));
    let unspilled = products.actual_ns();
    products.shape.spill_bytes = 400;
    assert!(products.actual_ns() > 1.1 * unspilled);
    assert!(is_about(products.ns(Supposition::NoSpills), unspilled));
}

#[test]
fn one_long_block_among_short_ones_is_uneven() {
    let work = "fma.rn.f32 %f1, %f1, %f1, %f1;\n".repeat(64);
    let body = format!("mov.u32 %r2, %ctaid.x; setp.ne.u32 %p2, %r2, 0; @%p2 bra W;\n{work}\nW:");
    let uneven = executed(64, 32, &body, true);
    assert!(uneven.ns(Supposition::NoUnevenBlocks) < 0.5 * uneven.actual_ns());
    let even = executed(64, 32, &work, true);
    assert!(is_about(even.ns(Supposition::NoUnevenBlocks), even.actual_ns()));
}

#[test]
fn supposing_changes_neither_results_nor_counters() {
    let body = "mul.wide.u32 %rd2, %r1, 4; add.s64 %rd2, %rd1, %rd2; ld.global.f32 %f2, [%rd2+256];
                add.f32 %f1, %f1, %f2; bar.sync 0;";
    let (plain, supposing) = (executed(4, 64, body, false), executed(4, 64, body, true));
    assert_eq!(plain.bytes, supposing.bytes);
    assert_eq!(plain.counters, Counters { supposed: Vec::new(), ..supposing.counters.clone() });
    assert_eq!(plain.counters.supposing(Supposition::NoBarriers), None, "it was not requested");
    for supposition in Supposition::ALL {
        assert!(supposing.ns(supposition) <= supposing.actual_ns(), "{supposition:?}");
    }
}

/// Prices measured on an H200 (docs/measuring/cluster.cu): cycles of a step of a dependent chain.
#[test]
fn blocks_of_a_cluster_pay_for_what_they_do_together() {
    let cycles = |cluster, threads, body: &str| {
        let executed = in_clusters(cluster, cluster, threads, body, false);
        executed.actual_ns() * Gpu::h200().clock_hz / 1e9 / 64.0
    };
    let load = |other| {
        let body = format!(
            "mov.u32 %r5, %cluster_ctarank;\nxor.b32 %r5, %r5, {other};\nmov.u32 %r2, tile;\n\
             mapa.shared::cluster.u32 %r3, %r2, %r5;\nadd.u32 %r3, %r3, %r4;\n\
             ld.shared::cluster.u32 %r4, [%r3];\nand.b32 %r4, %r4, 0;"
        );
        cycles(2, 32, &body)
    };
    let (own, remote) = (load(0), load(1));
    assert!((150.0..250.0).contains(&(remote - own)), "{own:.0} and {remote:.0}: measured 174 more");
    let barrier = |cluster, threads| cycles(cluster, threads, "barrier.cluster.arrive;\nbarrier.cluster.wait;");
    for (threads, measured) in [(32, 346.0), (128, 363.0), (256, 380.0), (512, 489.0), (1024, 737.0)] {
        let modelled = barrier(2, threads);
        assert!(
            (0.8..1.25).contains(&(modelled / measured)),
            "{threads} threads: {modelled:.0}, measured {measured:.0}"
        );
    }
}
