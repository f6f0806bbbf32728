//! Products of warpgroups in a ring of two tiles: one warp fills them, and four multiply. A tile may be filled again once
//! a product has read it, which only `wgmma.wait_group` tells.

use virtual_gpu::fault::{Access, Fault, FaultKind, LaunchError};
use virtual_gpu::gpu::Gpu;
use virtual_gpu::{Launch, Options, VirtualGpu, ptx};

/// Tiles that go through the ring.
const TILES: u32 = 6;

/// A tile of B: 16 x 8 halves.
const TILE_BYTES: u64 = 256;

/// The product of A, which is ones, and a tile of B: 8 columns, of which a thread has two in two rows.
const MULTIPLY: &str = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, \
    {%r20, %r20, %r20, %r20}, %rd5, %p4, 1, 1, 0;";
const FENCE: &str = "wgmma.fence.sync.aligned;";
const COMMIT: &str = "wgmma.commit_group.sync.aligned;";
const WAIT: &str = "wgmma.wait_group.sync.aligned 0;";
const WAIT_BUT_ONE: &str = "wgmma.wait_group.sync.aligned 1;";
/// One thread of the four warps tells that the tile of this round may be filled again.
const ARRIVE: &str = "@%p1 mbarrier.arrive.shared::cta.b64 _, [%r9];";
/// The same for the tile of the round before.
const ARRIVE_BEFORE: &str = "setp.gt.and.u32 %p5, %r10, 0, %p1; xor.b32 %r16, %r9, 8;
    @%p5 mbarrier.arrive.shared::cta.b64 _, [%r16];";

/// Element `k` of column `n` of a tile.
fn element(tile: u32, n: u32, k: u32) -> u32 {
    tile + n + k % 2
}

/// A kernel with the ring. Warp 4 fills; `round` is what the other warps do in a round when the tile is there: its number
/// is `%r10`, its descriptor `%rd5`, and `%r9` the mbarrier that tells that it is free. `%p4` is false in round 0 only,
/// `%p1` holds in thread 0, `%r1` is the thread.
fn ring(round: &str) -> String {
    format!(
        ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 in, .param .u64 out)\n{{\n\
         .reg .b32 %r<40>; .reg .f32 %f<8>; .reg .b64 %rd<20>; .reg .pred %p<9>;\n\
         .shared .align 128 .b8 tiles[512]; .shared .align 8 .b64 full[2]; .shared .align 8 .b64 empty[2];\n\
         ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; mov.u32 %r1, %tid.x;\n\
         mov.u32 %r2, full; mov.u32 %r3, empty; mov.u32 %r4, tiles; mov.u32 %r10, 0; setp.eq.u32 %p1, %r1, 0;\n\
         @%p1 mbarrier.init.shared::cta.b64 [%r2], 1; @%p1 mbarrier.init.shared::cta.b64 [%r2+8], 1;\n\
         @%p1 mbarrier.init.shared::cta.b64 [%r3], 1; @%p1 mbarrier.init.shared::cta.b64 [%r3+8], 1;\n\
         fence.mbarrier_init.release.cluster; bar.sync 0;\n\
         setp.ge.u32 %p2, %r1, 128;\n@%p2 bra FILL;\n\
         mov.u32 %r20, 0x3c003c00;\n\
         TAKE: and.b32 %r5, %r10, 1; shr.u32 %r6, %r10, 1; and.b32 %r6, %r6, 1; shl.b32 %r7, %r5, 3;\n\
         add.u32 %r8, %r2, %r7; add.u32 %r9, %r3, %r7;\n\
         FULL: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r8], %r6;\n@!%p3 bra FULL;\n\
         setp.ne.u32 %p4, %r10, 0; shl.b32 %r11, %r5, 8; add.u32 %r11, %r11, %r4; shr.u32 %r12, %r11, 4;\n\
         cvt.u64.u32 %rd5, %r12; or.b64 %rd5, %rd5, {:#x};\n\
         {round}\n\
         add.u32 %r10, %r10, 1; setp.lt.u32 %p3, %r10, {TILES};\n@%p3 bra TAKE;\n\
         {WAIT}\n\
         setp.gt.u32 %p3, %r1, 3;\n@%p3 bra END;\n\
         mad.wide.u32 %rd9, %r1, 8, %rd2; st.global.v2.f32 [%rd9], {{%f0, %f1}}; bra END;\n\
         FILL: setp.ne.u32 %p3, %r1, 128;\n@%p3 bra END;\n\
         NEXT: and.b32 %r5, %r10, 1; shr.u32 %r6, %r10, 1; and.b32 %r6, %r6, 1; xor.b32 %r6, %r6, 1;\n\
         shl.b32 %r7, %r5, 3; add.u32 %r8, %r2, %r7; add.u32 %r9, %r3, %r7;\n\
         EMPTY: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r9], %r6;\n@!%p3 bra EMPTY;\n\
         shl.b32 %r11, %r5, 8; add.u32 %r11, %r11, %r4; mad.wide.u32 %rd6, %r10, {TILE_BYTES}, %rd1;\n\
         mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r8], {TILE_BYTES};\n\
         cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r11], [%rd6], {TILE_BYTES}, [%r8];\n\
         add.u32 %r10, %r10, 1; setp.lt.u32 %p3, %r10, {TILES};\n@%p3 bra NEXT;\n\
         END: ret;\n}}\n",
        // No swizzle: 128 bytes from the first eight rows of K to the others. There are only eight columns.
        (128_u64 >> 4) << 16 | (256 >> 4) << 32,
    )
}

/// Runs a ring on one block and returns the first row of the sum of the products.
fn run(text: &str, threads: u32, order: Option<u64>) -> Result<Vec<f32>, LaunchError> {
    let mut gpu = VirtualGpu::new(Gpu::h200());
    let module = gpu.load(ptx::load("k.ptx", text).unwrap_or_else(|error| panic!("{error}"))).unwrap();
    let [input, output] = [TILE_BYTES * u64::from(TILES), 32].map(|bytes| gpu.alloc(bytes).unwrap());
    let halves = (0..TILES * 128).flat_map(|index| {
        let (tile, within) = (index / 128, index % 128);
        let (n, k) = (within % 64 / 8, within / 64 * 8 + within % 8);
        half::f16::from_f32(element(tile, n, k) as f32).to_le_bytes()
    });
    gpu.write(input, &halves.collect::<Vec<_>>()).unwrap();
    let args = [input, output].map(|address| address.to_le_bytes().to_vec());
    let launch = Launch { grid: [1; 3], block: [threads, 1, 1], cluster: [1; 3], dynamic_shared_bytes: 0, args: &args };
    gpu.launch(&module, "k", &launch, &Options { order, ..Options::default() })?;
    let bytes = gpu.read(output, 32).unwrap();
    Ok(bytes.chunks(4).map(|word| f32::from_le_bytes(word.try_into().unwrap())).collect())
}

/// Checks that the rounds are clean in several orders, and that every tile was multiplied.
fn is_clean(round: &str) {
    let sum = |n| (0..TILES).map(|tile| (0..16).map(|k| element(tile, n, k)).sum::<u32>()).sum::<u32>() as f32;
    for order in [None, Some(1), Some(2), Some(3), Some(4)] {
        let row = run(&ring(round), 160, order).unwrap_or_else(|error| panic!("{error}: {round}"));
        assert_eq!(row, (0..8).map(sum).collect::<Vec<_>>(), "order {order:?}: {round}");
    }
}

fn fault(text: &str, threads: u32, order: Option<u64>) -> Fault {
    match run(text, threads, order) {
        Err(LaunchError::Fault(fault)) => *fault,
        other => panic!("it was to fault, got {other:?}: {text}"),
    }
}

/// Checks that in every order the copy into a tile is found to race with a product that may still read it.
fn is_early(round: &str) {
    for order in [None, Some(1), Some(2), Some(3), Some(4)] {
        let fault = fault(&ring(round), 160, order);
        let FaultKind::ProductRace { access: Access::Write, warp: 4, group: [0, 3], .. } = fault.kind else {
            panic!("{fault}: {round}")
        };
        assert!(fault.instruction.starts_with("cp.async.bulk.shared"), "{fault}: {round}");
    }
}

#[test]
fn one_arrival_of_a_warpgroup_frees_a_tile_after_the_wait() {
    is_clean(&format!("{FENCE} {MULTIPLY} {COMMIT} {WAIT} {ARRIVE}"));
    is_early(&format!("{FENCE} {MULTIPLY} {COMMIT} {ARRIVE}"));
    is_early(&format!("{FENCE} {MULTIPLY} {COMMIT} {ARRIVE} {WAIT}"));
    is_early(&format!("{FENCE} {MULTIPLY} {WAIT} {COMMIT} {ARRIVE}"));
}

#[test]
fn a_tile_is_free_when_no_group_that_reads_it_is_left() {
    is_clean(&format!("{FENCE} {MULTIPLY} {COMMIT} {WAIT_BUT_ONE} {ARRIVE_BEFORE}"));
    is_early(&format!("{FENCE} {MULTIPLY} {COMMIT} {WAIT_BUT_ONE} {ARRIVE}"));
    is_early(&format!("{FENCE} {MULTIPLY} {COMMIT} wgmma.wait_group.sync.aligned 2; {ARRIVE_BEFORE}"));
    // Two groups a round.
    is_clean(&format!("{FENCE} {MULTIPLY} {COMMIT} {COMMIT} wgmma.wait_group.sync.aligned 2; {ARRIVE_BEFORE}"));
    is_clean(&format!("{FENCE} {MULTIPLY} {COMMIT} {COMMIT} {WAIT_BUT_ONE} {ARRIVE}"));
}

/// The warp that waits tells for all four, and a warp that has not waited tells for none.
#[test]
fn the_warp_that_arrives_must_have_waited() {
    let only = |warp: u32, then: &str| {
        format!(
            "{FENCE} {MULTIPLY} {COMMIT} shr.u32 %r17, %r1, 5; setp.ne.u32 %p6, %r17, {warp};\n\
             @%p6 bra OVER;\n{then}\nOVER:"
        )
    };
    is_clean(&only(0, &format!("{WAIT} {ARRIVE}")));
    is_clean(&only(3, &format!("{WAIT} setp.eq.u32 %p1, %r1, 96; {ARRIVE}")));
    is_early(&format!("{} {ARRIVE}", only(3, WAIT)));
    // A barrier after the wait orders the other warps, too; one before it does not.
    is_clean(&format!("{} bar.sync 1, 128; {ARRIVE}", only(3, WAIT)));
    is_early(&format!("{FENCE} {MULTIPLY} {COMMIT} bar.sync 1, 128; {ARRIVE} {WAIT}"));
}

/// A warp of the group may overwrite an operand itself once it has waited.
#[test]
fn an_operand_may_be_overwritten_after_the_wait() {
    let overwrite = "mov.u32 %r17, 1; @%p1 st.shared.u32 [%r11], %r17;";
    let again = "bar.sync 1, 128; @%p1 fence.proxy.async.shared::cta;";
    is_clean(&format!("{FENCE} {MULTIPLY} {COMMIT} {WAIT} {overwrite} {again} {ARRIVE}"));
    let early = fault(&ring(&format!("{FENCE} {MULTIPLY} {COMMIT} {overwrite} {WAIT} {again} {ARRIVE}")), 160, None);
    assert!(matches!(early.kind, FaultKind::ProductRace { warp: 0, group: [0, 3], .. }), "{early}");
    assert!(early.to_string().contains("wgmma.wait_group"), "{early}");
}

/// Not only the warp that issues last must know that the tile is there.
#[test]
fn every_warp_must_have_waited_for_the_tile() {
    let only_one = ring(&format!("{FENCE} {MULTIPLY} {COMMIT} {WAIT} {ARRIVE}"))
        .replace("FULL: mbarrier", "shr.u32 %r17, %r1, 5; setp.ne.u32 %p7, %r17, 1;\n@%p7 bra OVER;\nFULL: mbarrier");
    let only_one = only_one.replace("@!%p3 bra FULL;\n", "@!%p3 bra FULL;\nOVER:");
    for order in [None, Some(1), Some(2)] {
        let kind = fault(&only_one, 160, order).kind;
        assert!(
            matches!(kind, FaultKind::Race { access: Access::Read, .. } | FaultKind::InFlight { writes: true, .. }),
            "{kind}"
        );
    }
}

#[test]
fn a_warpgroup_multiplies_as_one() {
    // Nobody fills a tile for these three.
    let three = ring(&format!("{FENCE} {MULTIPLY} {COMMIT} {WAIT}"))
        .replace("@!%p3 bra FULL;", "")
        .replace("FULL: mbarrier.try", "mbarrier.test");
    let kind = fault(&three, 96, None).kind;
    assert!(matches!(&kind, FaultKind::Invalid(message) if message.contains("3 warps")), "{kind}");
    let one_differs = "shr.u32 %r17, %r1, 5; setp.eq.u32 %p6, %r17, 2;";
    let descriptors = format!("{one_differs} @%p6 add.u64 %rd5, %rd5, 1; {FENCE} {MULTIPLY} {COMMIT} {WAIT} {ARRIVE}");
    let kind = fault(&ring(&descriptors), 160, None).kind;
    assert!(matches!(&kind, FaultKind::Invalid(message) if message.contains("descriptors")), "{kind}");
    let instructions = format!(
        "{one_differs} {FENCE}\n@%p6 bra OTHER;\n{MULTIPLY}\nbra BOTH;\nOTHER: {MULTIPLY}\nBOTH: {COMMIT} {WAIT} {ARRIVE}"
    );
    let kind = fault(&ring(&instructions), 160, None).kind;
    assert!(matches!(&kind, FaultKind::Invalid(message) if message.contains("instructions")), "{kind}");
    // A warp that leaves the others alone.
    let absent = format!("{one_differs}\n@%p6 bra BOTH;\n{FENCE} {MULTIPLY} {COMMIT} {WAIT} {ARRIVE}\nBOTH:");
    let kind = fault(&ring(&absent), 160, None).kind;
    assert!(matches!(kind, FaultKind::Deadlock { .. }), "{kind}");
}
