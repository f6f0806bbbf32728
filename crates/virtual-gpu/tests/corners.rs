//! Unusual but legal kernels that were once judged wrongly, and unusual launches and texts that once failed.

use virtual_gpu::fault::{FaultKind, LaunchError};
use virtual_gpu::gpu::Gpu;
use virtual_gpu::{Launch, Options, VirtualGpu, ptx};

/// Returns a kernel with one parameter, the address of 64 words.
fn kernel(body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 data)\n{{\n\
         .reg .b32 %r<20>;\n.reg .b64 %rd<20>;\n.reg .pred %p<8>;\nld.param.u64 %rd1, [data];\n\
         mov.u32 %r1, %tid.x;\n{body}\nret;\n}}\n"
    )
}

/// Runs a kernel and returns its 64 words.
fn run(body: &str, grid: [u32; 3], threads: u32, options: &Options) -> Result<Vec<u8>, LaunchError> {
    let mut gpu = VirtualGpu::new(Gpu::h200());
    let module = gpu.load(ptx::load("k.ptx", &kernel(body)).expect("it loads")).expect("it fits");
    let data = gpu.alloc(256).expect("there is memory");
    gpu.fill(data, 256, 0).expect("it is that large");
    let args = [data.to_le_bytes().to_vec()];
    let launch = Launch { grid, block: [threads, 1, 1], cluster: [1; 3], dynamic_shared_bytes: 0, args: &args };
    gpu.launch(&module, "k", &launch, options)?;
    Ok(gpu.read(data, 256).expect("it is that large"))
}

fn fault(body: &str, threads: u32) -> FaultKind {
    match run(body, [1; 3], threads, &Options::default()) {
        Err(LaunchError::Fault(fault)) => fault.kind,
        other => panic!("it was to fault, got {other:?}"),
    }
}

fn is_clean(body: &str, threads: u32) {
    if let Err(error) = run(body, [1; 3], threads, &Options::default()) {
        panic!("{error}");
    }
}

#[test]
fn polling_for_a_bulk_copy_ends() {
    is_clean(
        ".shared .align 16 .b8 s[64]; .shared .align 8 .b8 m[8];
         mov.u32 %r2, m; mov.u32 %r3, s; setp.ne.u32 %p1, %r1, 0;
         @%p1 bra I;
         mbarrier.init.shared.b64 [%r2], 1;
         I: bar.sync 0;
         @%p1 bra W;
         mbarrier.arrive.expect_tx.shared.b64 %rd2, [%r2], 64;
         cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 64, [%r2];
         W: mov.u32 %r4, 0;
         L: mbarrier.test_wait.parity.shared.b64 %p2, [%r2], %r4;
         @!%p2 bra L;
         ld.shared.u32 %r5, [%r3];",
        64,
    );
}

#[test]
fn a_flag_orders_earlier_writes() {
    is_clean(
        ".shared .align 4 .u32 f; .shared .align 4 .u32 d;
         mov.u32 %r9, 0; setp.eq.u32 %p1, %r1, 0;
         @%p1 st.shared.u32 [f], %r9;
         bar.sync 0;
         setp.ge.u32 %p2, %r1, 32;
         @%p2 bra C;
         mov.u32 %r2, 5; st.shared.u32 [d], %r2; membar.cta;
         mov.u32 %r2, 1; st.volatile.shared.u32 [f], %r2;
         bra E;
         C: ld.volatile.shared.u32 %r3, [f]; setp.eq.u32 %p3, %r3, 0;
         @%p3 bra C;
         ld.shared.u32 %r4, [d];
         E:",
        64,
    );
}

#[test]
fn a_volatile_access_hides_no_race_of_others() {
    let kind = fault(
        ".shared .align 16 .b8 s[512];
         shl.b32 %r3, %r1, 4; and.b32 %r3, %r3, 511; mov.u32 %r4, s; add.u32 %r4, %r4, %r3;
         ld.volatile.global.u32 %r9, [%rd1];
         mov.u32 %r5, 1; setp.ge.u32 %p1, %r1, 32;
         @%p1 bra M;
         stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r4], {%r5, %r5, %r5, %r5};
         bra E;
         M: ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r5, %r6, %r7, %r8}, [%r4];
         E:",
        64,
    );
    assert!(matches!(kind, FaultKind::Race { .. }), "{kind}");
}

#[test]
fn far_shared_addresses_mean_no_other_block() {
    let kind = fault(".shared .align 4 .b8 s[16]; mov.u32 %r2, 16777216; st.shared.u32 [%r2], %r1;", 1);
    assert!(matches!(kind, FaultKind::OutOfBounds { space: "shared", address: 16_777_216, .. }), "{kind}");
    // But a block may address itself as one of the cluster.
    is_clean(
        ".shared .align 4 .b8 s[16]; mov.u32 %r2, s; mapa.shared::cluster.u32 %r3, %r2, 0;
         st.shared::cluster.u32 [%r3], %r1;",
        1,
    );
}

#[test]
fn all_threads_by_number_or_by_default_is_one_barrier() {
    is_clean(
        "setp.lt.u32 %p1, %r1, 32;
         @%p1 bra A;
         bar.sync 1;
         bra B;
         A: bar.sync 1, 64;
         B:",
        64,
    );
}

#[test]
fn unwritten_registers_do_not_depend_on_the_threads_of_the_cpu() {
    let body = "mov.u32 %r2, %ctaid.x; mul.wide.u32 %rd2, %r2, 4; add.s64 %rd1, %rd1, %rd2;
        setp.eq.u32 %p1, %r2, 0;
        @%p1 mov.u32 %r4, 77;
        st.global.u32 [%rd1], %r4;";
    let on = |threads| {
        let options = Options { threads: Some(threads), uninitialised: false, ..Options::default() };
        run(body, [64, 1, 1], 1, &options).expect("it runs")
    };
    assert_eq!(on(1), on(4));
}

#[test]
fn a_prefetch_does_nothing() {
    is_clean("mov.u32 %r2, 64; cp.async.bulk.prefetch.L2.global [%rd1], %r2;", 1);
}

#[test]
fn the_largest_grid_can_be_sampled() {
    let options = Options { sample_blocks: Some(3), ..Options::default() };
    assert!(run("", [i32::MAX as u32, 65535, 65535], 32, &options).is_ok());
}

#[test]
fn sizes_that_no_machine_has_are_refused_by_the_loader() {
    for (body, message) in [
        ("ld.param.u64 %rd2, [data+100];", "beyond the kernel's parameters"),
        (".local .b8 big[1073741824];", "bytes of shared memory, or of local memory"),
    ] {
        let error = ptx::load("k.ptx", &kernel(body)).expect_err(body).to_string();
        assert!(error.contains(message), "{error}");
    }
    for (body, opcode) in [
        ("red.global.min.f64 [%rd1], 0d3FF0000000000000;", "red.global.min.f64"),
        ("atom.global.inc.u64 %rd2, [%rd1], %rd1;", "atom.global.inc.u64"),
        ("ld.global.v8.b64 {%rd2,%rd3,%rd4,%rd5,%rd6,%rd7,%rd8,%rd9}, [%rd1];", "ld.global.v8.b64"),
    ] {
        let module = ptx::load("k.ptx", &kernel(body)).expect(body);
        assert_eq!(module.kernels[0].not_modelled.as_ref().map(|it| &*it.instruction), Some(opcode));
    }
}

#[test]
fn a_fault_of_a_bulk_copy_names_the_issuing_thread() {
    let body = ".shared .align 16 .b8 s[64]; .shared .align 8 .b8 m[8];
         mov.u32 %r2, m; mov.u32 %r3, s; setp.ne.u32 %p1, %r1, 33;
         @%p1 bra I;
         mbarrier.init.shared.b64 [%r2], 1;
         I: bar.sync 0;
         @%p1 bra W;
         mbarrier.arrive.expect_tx.shared.b64 %rd2, [%r2], 64;
         add.s64 %rd1, %rd1, 240;
         cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 64, [%r2];
         W: mov.u32 %r4, 0;
         L: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], %r4;
         @!%p2 bra L;";
    let Err(LaunchError::Fault(fault)) = run(body, [1; 3], 64, &Options::default()) else { panic!("it was to fault") };
    assert!(matches!(fault.kind, FaultKind::OutOfBounds { space: "global", .. }), "{fault}");
    assert!(fault.instruction.contains("cp.async.bulk"), "{fault}");
    assert_eq!(fault.thread, [33, 0, 0]);
}

/// Two stores in two groups. Waiting for all but the newest completes only the first. If the source is then
/// overwritten, the second stores the new data.
#[test]
fn waiting_for_a_bulk_group_leaves_the_newer_ones() {
    let body = |groups: u32| {
        format!(
            ".shared .align 16 .b8 s[32];
             mov.u32 %r2, s; mov.u32 %r3, 16; mov.u32 %r4, 5; mov.u32 %r6, 9; add.u32 %r5, %r2, 16; add.s64 %rd2, %rd1, 16;
             st.shared.v4.u32 [%r2], {{%r4,%r4,%r4,%r4}}; st.shared.v4.u32 [%r5], {{%r4,%r4,%r4,%r4}};
             fence.proxy.async;
             cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], %r3;
             cp.async.bulk.commit_group;
             cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r5], %r3;
             cp.async.bulk.commit_group;
             cp.async.bulk.wait_group.read {groups};
             st.shared.u32 [%r2], %r6; st.shared.u32 [%r5], %r6;"
        )
    };
    let words = |groups| {
        // With the checks, overwriting the second source is a fault.
        let data = run(&body(groups), [1; 3], 1, &Options { races: false, ..Options::default() }).expect("it runs");
        [data[0], data[16]]
    };
    assert_eq!(words(0), [5, 5]);
    assert_eq!(words(1), [5, 9]);
}

#[test]
fn a_full_division_has_the_full_range() {
    let divide = |form: &str| {
        let body = format!("mov.f32 %f1, 0f7F000000; div.{form}.f32 %f2, %f1, %f1; st.global.f32 [%rd1], %f2;");
        let data = run(&format!(".reg .f32 %f<4>; {body}"), [1; 3], 1, &Options::default()).expect("it runs");
        f32::from_le_bytes([data[0], data[1], data[2], data[3]])
    };
    assert_eq!(divide("full"), 1.0);
    // The approximate division gives 0 for so large a divisor (PTX ISA, div).
    assert_eq!(divide("approx"), 0.0);
}
