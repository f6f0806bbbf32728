//! Small kernels, each with one of the Hopper instructions that warp-specialised kernels consist of.
//!
//! The conformance set covers copies and products in every layout, with an H200's results.

use virtual_gpu::fault::{FaultKind, LaunchError};
use virtual_gpu::gpu::Gpu;
use virtual_gpu::{Element, Fill, Launch, Options, Swizzle, TensorMap, VirtualGpu, ptx};

/// Words of the input and of the output.
const WORDS: usize = 512;

/// The tensor: the input as rows of 16 words.
const COLUMNS: u64 = 16;

/// Runs a kernel of one block or one cluster and returns its output. The kernel knows the addresses of the input
/// (`%rd1`), which counts from 0, and of the output (`%rd2`), which is zero. It also knows tensor maps of both (`%rd3`,
/// `%rd4`) with boxes of 4 rows, and its thread (`%r1`).
fn run(body: &str, threads: u32, cluster: u32) -> Result<Vec<u32>, LaunchError> {
    let text = format!(
        ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 in, .param .u64 out, \
         .param .align 64 .b8 from[128], .param .align 64 .b8 to[128])\n{{\n\
         .reg .b32 %r<40>; .reg .f32 %f<80>; .reg .b64 %rd<20>; .reg .pred %p<8>; .reg .b16 %rs<4>;\n\
         .shared .align 128 .b8 tile[1024]; .shared .align 8 .b64 full; .shared .align 8 .b64 empty;\n\
         ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out];\n\
         mov.b64 %rd3, from; cvta.param.u64 %rd3, %rd3; mov.b64 %rd4, to; cvta.param.u64 %rd4, %rd4;\n\
         mov.u32 %r1, %tid.x;\n{body}\nret;\n}}\n"
    );
    let mut gpu = VirtualGpu::new(Gpu::h200());
    let module = gpu.load(ptx::load("k.ptx", &text).unwrap_or_else(|error| panic!("{error}"))).unwrap();
    let bytes = 4 * WORDS as u64;
    let [input, output] = [gpu.alloc(bytes).unwrap(), gpu.alloc(bytes).unwrap()];
    gpu.write(input, &(0..WORDS as u32).flat_map(u32::to_le_bytes).collect::<Vec<_>>()).unwrap();
    gpu.fill(output, bytes, 0).unwrap();
    let map = |address| TensorMap {
        element: Element::U32,
        address,
        dims: vec![COLUMNS, WORDS as u64 / COLUMNS],
        strides: vec![4 * COLUMNS],
        box_dims: vec![16, 4],
        element_strides: Vec::new(),
        swizzle: Swizzle::None,
        fill: Fill::Zeros,
    };
    let maps = [input, output].map(|address| map(address).encode().unwrap().to_vec());
    let args = [&[input, output].map(|address| address.to_le_bytes().to_vec())[..], &maps].concat();
    let (grid, block, cluster) = ([cluster, 1, 1], [threads, 1, 1], [cluster, 1, 1]);
    let launch = Launch { grid, block, cluster, dynamic_shared_bytes: 0, args: &args };
    gpu.launch(&module, "k", &launch, &Options::default())?;
    Ok(gpu.read(output, bytes).unwrap().chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect())
}

fn gives(body: &str, threads: u32) -> Vec<u32> {
    run(body, threads, 1).unwrap_or_else(|error| panic!("{error}"))
}

fn fault(body: &str, threads: u32) -> FaultKind {
    match run(body, threads, 1) {
        Err(LaunchError::Fault(fault)) => fault.kind,
        other => panic!("it was to fault, got {other:?}"),
    }
}

/// Stores `%r9` as this thread's word of the output.
const GIVE: &str = "mad.wide.u32 %rd9, %r1, 4, %rd2; st.global.u32 [%rd9], %r9;";

/// Thread 0 makes the mbarriers: `full` with one arrival, `empty` with 128. Every thread has their addresses and that
/// of the tile.
const BARRIERS: &str = "
    mov.u32 %r2, full; mov.u32 %r3, empty; mov.u32 %r4, tile; setp.ne.u32 %p1, %r1, 0;
    @%p1 bra MADE;
    mbarrier.init.shared::cta.b64 [%r2], 1;
    mbarrier.init.shared::cta.b64 [%r3], 128;
    fence.mbarrier_init.release.cluster;
    MADE: bar.sync 0;";

#[test]
fn a_programmatic_launch_and_a_change_of_registers_change_nothing_else() {
    let body = "griddepcontrol.wait; mov.u32 %r9, 7; setp.ge.u32 %p1, %r1, 128;
        @%p1 bra MORE;
        setmaxnreg.dec.sync.aligned.u32 40;
        bra GO;
        MORE: setmaxnreg.inc.sync.aligned.u32 232;
        GO: add.u32 %r9, %r9, %r1; griddepcontrol.launch_dependents;";
    let output = gives(&format!("{body}{GIVE}"), 256);
    assert!((0..256).all(|thread| output[thread] == 7 + thread as u32));
}

#[test]
fn one_lane_of_those_that_are_named_is_elected() {
    let output = gives(
        &format!(
            "setp.lt.u32 %p1, %r1, 5; mov.u32 %r9, 0;
             @%p1 bra GIVE;
             elect.sync %r5|%p2, 0xffffffe0;
             selp.u32 %r9, 1, 0, %p2; shl.b32 %r5, %r5, 1; or.b32 %r9, %r9, %r5;
             GIVE: {GIVE}"
        ),
        32,
    );
    let elected = output[5..32].iter().filter(|word| *word & 1 == 1).count();
    assert_eq!(elected, 1);
    assert!(output[..5].iter().all(|word| *word == 0) && output[5..32].iter().all(|word| word >> 1 == 5), "{output:?}");
}

/// One warp fills and four warps consume. `full` and `empty` alternate, and the filler is never more than one tile
/// ahead.
#[test]
fn a_ring_of_one_tile_goes_round() {
    let output = gives(
        &format!(
            "{BARRIERS}
             mov.u32 %r10, 0; mov.u32 %r9, 0; setp.ge.u32 %p1, %r1, 128;
             @%p1 bra FILL;
             TAKE: and.b32 %r11, %r10, 1;
             FULL: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p2, [%r2], %r11, 1000;
             @!%p2 bra FULL;
             and.b32 %r12, %r1, 63; shl.b32 %r12, %r12, 2; add.u32 %r12, %r12, %r4; ld.shared.u32 %r13, [%r12];
             add.u32 %r9, %r9, %r13;
             mbarrier.arrive.release.cta.shared::cta.b64 _, [%r3];
             add.u32 %r10, %r10, 1; setp.lt.u32 %p2, %r10, 8;
             @%p2 bra TAKE;
             {GIVE} bra END;
             FILL: setp.ne.u32 %p3, %r1, 128;
             @%p3 bra END;
             NEXT: and.b32 %r11, %r10, 1; xor.b32 %r11, %r11, 1;
             EMPTY: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], %r11;
             @!%p2 bra EMPTY;
             shl.b32 %r14, %r10, 2; mov.u32 %r15, 0;
             mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 256;
             cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r4], [%rd3, {{%r15, %r14}}], [%r2];
             add.u32 %r10, %r10, 1; setp.lt.u32 %p2, %r10, 8;
             @%p2 bra NEXT;
             END:"
        ),
        160,
    );
    // Word i of eight tiles of 64: i, i + 64, ...
    assert!((0..128).all(|thread| output[thread] == (0..8).map(|tile| thread as u32 % 64 + 64 * tile).sum::<u32>()));
}

/// The two warpgroups are not the whole block: the extra warp has nothing to do.
#[test]
fn named_barriers_order_one_warpgroup_after_another() {
    let body = |arrive: &str| {
        format!(
            "mov.u32 %r4, tile; and.b32 %r5, %r1, 127; shl.b32 %r6, %r5, 2; add.u32 %r6, %r6, %r4; setp.ge.u32 %p1, %r1, 128;
             mov.u32 %r9, 0; setp.ge.u32 %p2, %r1, 256;
             @%p2 bra END;
             @%p1 bra TAKE;
             add.u32 %r7, %r5, 1; st.shared.u32 [%r6], %r7; {arrive} bra END;
             TAKE: bar.sync 3, 256; ld.shared.u32 %r9, [%r6];
             END: {GIVE}"
        )
    };
    let output = gives(&body("bar.arrive 3, 256;"), 288);
    assert!((128..256).all(|thread| output[thread] == thread as u32 - 127));
    let kind = fault(&body("bar.arrive 4, 256;"), 288);
    assert!(matches!(kind, FaultKind::Deadlock { .. }), "{kind}");
}

#[test]
fn hints_for_the_caches_and_prefetches_change_no_copy() {
    let policies = [
        "createpolicy.fractional.L2::evict_first.b64 %rd5, 1.0;",
        "createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %rd5, 0.5;",
        "mov.b64 %rd5, 0x14F0000000000000;",
    ];
    for policy in policies {
        let output = gives(
            &format!(
                "{BARRIERS} {policy}
                 mov.u32 %r10, 0; mov.u32 %r11, 8;
                 @%p1 bra WAIT;
                 prefetch.tensormap [%rd3]; prefetch.param.tensormap [from];
                 cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd3, {{%r10, %r11}}];
                 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 256;
                 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint
                     [%r4], [%rd3, {{%r10, %r11}}], [%r2], %rd5;
                 WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
                 @!%p2 bra WAIT;
                 bar.sync 0;
                 @%p1 bra END;
                 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group.L2::cache_hint [%rd4, {{%r10, %r10}}], [%r4], %rd5;
                 cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
                 END:"
            ),
            64,
        );
        assert!((0..64).all(|word| output[word] == 128 + word as u32), "{policy}");
    }
}

/// A store has read its tile once `wait_group.read` returns. Only then may the tile be written again.
#[test]
fn a_tile_may_be_reused_when_its_store_has_read_it() {
    let body = |wait: &str| {
        format!(
            "{BARRIERS}
             shl.b32 %r5, %r1, 2; add.u32 %r5, %r5, %r4; add.u32 %r6, %r1, 100; st.shared.u32 [%r5], %r6;
             fence.proxy.async.shared::cta; bar.sync 0;
             mov.u32 %r10, 0;
             @%p1 bra AGAIN;
             cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd4, {{%r10, %r10}}], [%r4];
             cp.async.bulk.commit_group; {wait}
             AGAIN: bar.sync 0; mov.u32 %r7, 5; st.shared.u32 [%r5], %r7;"
        )
    };
    let output = gives(&body("cp.async.bulk.wait_group.read 0;"), 64);
    assert!((0..64).all(|word| output[word] == 100 + word as u32));
    let kind = fault(&body(""), 64);
    assert!(matches!(kind, FaultKind::InFlight { writes: false, .. }), "{kind}");
}

/// Two reductions of the same tile add to what is there twice. The operation depends on the map's type: `inc` is for unsigned words.
#[test]
fn a_tensor_reduction_combines_a_tile_with_the_tensor() {
    let body = |op: &str| {
        let reduce = format!(
            "cp.reduce.async.bulk.tensor.2d.global.shared::cta.{op}.tile.bulk_group [%rd4, {{%r10, %r10}}], [%r4];
             cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
        );
        format!(
            "{BARRIERS}
             shl.b32 %r5, %r1, 2; add.u32 %r5, %r5, %r4; add.u32 %r6, %r1, 100; st.shared.u32 [%r5], %r6;
             fence.proxy.async.shared::cta; bar.sync 0;
             mov.u32 %r10, 0;
             @%p1 bra END;
             {reduce} {reduce}
             END:"
        )
    };
    let output = gives(&body("add"), 64);
    assert!((0..64).all(|word| output[word] == 200 + 2 * word as u32), "{output:?}");
    let output = gives(&body("max"), 64);
    assert!((0..64).all(|word| output[word] == 100 + word as u32), "{output:?}");
    assert_eq!(gives(&body("inc"), 64)[..64], [2; 64]);
    assert!(run(&body("cas"), 64, 1).is_err());
}

/// A store must be made visible to the copy engine by a fence, from the storing thread or the copying one.
#[test]
fn a_copy_of_stored_data_needs_a_fence() {
    let body = |by_all: &str, by_one: &str| {
        format!(
            "{BARRIERS}
             shl.b32 %r5, %r1, 2; add.u32 %r5, %r5, %r4; st.shared.u32 [%r5], %r1;
             {by_all} bar.sync 0; mov.u32 %r10, 0;
             @%p1 bra END;
             {by_one}
             cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd4, {{%r10, %r10}}], [%r4];
             cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
             END:"
        )
    };
    let fence = "fence.proxy.async.shared::cta;";
    for told in [body(fence, ""), body("", fence), body("fence.proxy.async;", "")] {
        assert!((0..64).all(|word| gives(&told, 64)[word] == word as u32), "{told}");
    }
    // Other fences, or a fence of an unrelated warp, are not enough.
    for untold in [body("", ""), body("fence.acq_rel.cta;", ""), body("fence.proxy.async.global;", "membar.cta;")] {
        let kind = fault(&untold, 64);
        assert!(matches!(kind, FaultKind::Unfenced { warp: 0, writer: 0, .. }), "{kind}");
    }
    let kind = fault(&body(&format!("setp.lt.u32 %p3, %r1, 32;\n@%p3 {fence}"), ""), 64);
    assert_eq!(kind, FaultKind::Unfenced { address: 128, warp: 0, writer: 1 });
}

/// Each of two blocks loads half of a tile for both, and signals the other when it has consumed the tile.
#[test]
fn a_cluster_shares_loads_and_tells_both() {
    let output = run(
        &format!(
            "{BARRIERS}
             mov.u32 %r20, %cluster_ctarank; xor.b32 %r21, %r20, 1; mov.u32 %r10, 0; mov.u16 %rs1, 3;
             @%p1 bra READY;
             mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 512;
             READY: barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
             shl.b32 %r11, %r20, 2; shl.b32 %r12, %r20, 8; add.u32 %r12, %r12, %r4;
             @%p1 bra WAIT;
             cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster
                 [%r12], [%rd3, {{%r10, %r11}}], [%r2], %rs1;
             WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r2], 0;
             @!%p2 bra WAIT;
             shl.b32 %r5, %r1, 2; add.u32 %r5, %r5, %r4; ld.shared.u32 %r9, [%r5];
             mapa.shared::cluster.u32 %r6, %r3, %r21; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6];
             TAKEN: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r3], 0;
             @!%p2 bra TAKEN;
             mad.lo.u32 %r1, %r20, 128, %r1; {GIVE}
             barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;"
        ),
        128,
        2,
    )
    .unwrap_or_else(|error| panic!("{error}"));
    assert!((0..256).all(|thread| output[thread] == thread as u32 % 128));
}

/// Multiplies A from registers, 64 x 16 of ones, by B, 16 x 128. B's columns are contiguous, in two halves of 128 bytes
/// of swizzle each, like attention's values. Every column of the product is the sum of B's column.
#[test]
fn probabilities_times_values_go_over_both_halves_of_the_columns() {
    let registers = (0..64).map(|index| format!("%f{index}")).collect::<Vec<_>>().join(", ");
    // A thread has two neighbours of every eight columns of row t / 4, and the same of row t / 4 + 8.
    let gives: String = (0..16)
        .map(|eight| format!("st.global.v2.f32 [%rd9+{}], {{%f{}, %f{}}};", 32 * eight, 4 * eight, 4 * eight + 1))
        .collect();
    let body = |fence: &str| {
        format!(
        ".shared .align 1024 .b8 values[4096];
         mov.u32 %r4, values; mov.u32 %r10, 0;
         // Thread t writes 32 bytes: chunks 2t and 2t + 1 of 256, of half t / 64, row t / 4 % 16, columns (t % 4) * 16
         // on.
         shr.u32 %r11, %r1, 2; and.b32 %r11, %r11, 15; shr.u32 %r12, %r1, 6; and.b32 %r13, %r1, 3; shl.b32 %r13, %r13, 1;
         CHUNK: and.b32 %r14, %r11, 7; add.u32 %r15, %r13, %r10; xor.b32 %r14, %r14, %r15;
         shl.b32 %r14, %r14, 4; shl.b32 %r16, %r11, 7; add.u32 %r14, %r14, %r16; shl.b32 %r16, %r12, 11; add.u32 %r14, %r14, %r16;
         add.u32 %r14, %r14, %r4;
         // Its eight columns hold (row == 3 ? chunk + 8 * half : 0), as halves.
         shl.b32 %r17, %r12, 3; add.u32 %r17, %r17, %r15; cvt.rn.f16.u32 %rs1, %r17; mov.b32 %r18, {{%rs1, %rs1}};
         setp.ne.u32 %p1, %r11, 3; selp.b32 %r18, 0, %r18, %p1;
         st.shared.v4.b32 [%r14], {{%r18, %r18, %r18, %r18}};
         add.u32 %r10, %r10, 1; setp.lt.u32 %p1, %r10, 2;
         @%p1 bra CHUNK;
         {fence} bar.sync 0;
         mov.u32 %r20, 0x3c003c00; wgmma.fence.sync.aligned;
         // Start, 2048 bytes from half to half, 1024 bytes from 8 rows to the next, 128 bytes of swizzle.
         cvt.u64.u32 %rd5, %r4; shr.u64 %rd5, %rd5, 4; or.b64 %rd5, %rd5, {:#x}; setp.eq.u32 %p2, %r4, -1;
         wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {{{registers}}}, {{%r20, %r20, %r20, %r20}}, %rd5, %p2, 1, 1, 1;
         wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
         setp.gt.u32 %p1, %r1, 3;
         @%p1 bra END;
         mad.wide.u32 %rd9, %r1, 8, %rd2; {gives}
         END:",
        1_u64 << 62 | (1024 >> 4) << 32 | (2048 >> 4) << 16
        )
    };
    let output = gives_floats(&body("fence.proxy.async.shared::cta;"));
    let kind = fault(&body(""), 128);
    assert!(matches!(kind, FaultKind::Unfenced { .. }), "{kind}");
    assert!((0..128).all(|column| output[column] == (column / 8) as f32), "{:?}", &output[..128]);
}

fn gives_floats(body: &str) -> Vec<f32> {
    gives(body, 128).into_iter().map(f32::from_bits).collect()
}
