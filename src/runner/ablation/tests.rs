use super::*;
use crate::domain::family::plan::{Arg, Launch, LaunchPlan, TensorMap};
use crate::domain::op::Dtype;

/// Each thread scales a number by an exponential, with a table of factors in shared memory.
const KERNEL: &str = "\
.version 9.0
.target sm_90a
.address_size 64
.visible .entry scale(
	.param .u64 scale_param_0,
	.param .u64 scale_param_1
)
{
	.reg .f32 %f<9>;
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;
	.shared .align 4 .b8 factors[128];
	ld.param.u64 %rd1, [scale_param_0];
	ld.param.u64 %rd2, [scale_param_1];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd3, %r1, 4;
	add.s64 %rd4, %rd1, %rd3;
	ld.global.f32 %f1, [%rd4];
	mov.u32 %r2, factors;
	shl.b32 %r3, %r1, 2;
	add.s32 %r4, %r2, %r3;
	st.shared.f32 [%r4], %f1;
	bar.sync 0;
	ld.shared.f32 %f2, [%r4];
	shfl.sync.bfly.b32 %r5|%p1, %r1, 1, 31, -1;
	ex2.approx.ftz.f32 %f3, %f2;
	add.s64 %rd5, %rd2, %rd3;
	st.global.f32 [%rd5], %f3;
	ret;
}
";

/// Returns a kernel without one kind of instruction.
fn without(ptx: &str, removed: Removed) -> AblatedPtx {
    ablate(ptx, &Parameters::apart()).into_iter().find(|(kind, _)| *kind == removed).unwrap().1
}

/// Returns the lines that differ from the kernel.
fn changed(removed: Removed) -> String {
    let AblatedPtx { ptx, places, diverting, kept, .. } = without(KERNEL, removed);
    let lines = ptx.lines().filter(|line| !KERNEL.lines().any(|other| other == *line)).map(str::trim);
    let counts = format!("{places} removed, {diverting} diverting, {kept} kept");
    std::iter::once(counts.as_str()).chain(lines).collect::<Vec<_>>().join("\n")
}

#[test]
fn each_kind_of_instruction_is_replaced() {
    let all: Vec<String> = Removed::ALL.map(|removed| format!("{}: {}", removed.name(), changed(removed))).into();
    insta::assert_snapshot!(all.join("\n\n"));
}

#[test]
fn a_kernel_that_waits_for_copies_no_longer_expects_their_bytes() {
    let kernel = ".visible .entry copy()\n{\n.reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n\
                  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], %r2;\n\
                  cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1, {%r4, %r5}], [%r1];\n\
                  ret;\n}\n";
    let AblatedPtx { ptx, places, .. } = without(kernel, Removed::GlobalLoads);
    assert_eq!(places, 1);
    assert!(ptx.contains("mbarrier.arrive.shared::cta.b64 _, [%r1];") && !ptx.contains("cp.async"), "{ptx}");
}

#[test]
fn an_index_is_loaded_in_any_case() {
    let kernel =
        KERNEL.replace("[%rd5], %f3;", "[%rd5], %f3;\n\tcvt.rzi.u32.f32 %r6, %f1;\n\tld.shared.f32 %f4, [%r6];");
    let AblatedPtx { places, kept, .. } = without(&kernel, Removed::GlobalLoads);
    assert_eq!((places, kept), (0, 1));
}

/// A kernel with registers, and with what a test needs.
fn kernel(name: &str, body: &str) -> String {
    format!(
        ".visible .entry {name}(.param .u64 {name}_0, .param .u64 {name}_1)\n{{\n.reg .pred %p<9>; .reg .f32 %f<9>; \
         .reg .b32 %r<9>; .reg .b64 %rd<9>; .shared .align 8 .b8 tile[128];\n{body}\nret;\n}}\n"
    )
}

/// The compiler keeps zero in the register, as the phase and as what is not loaded.
#[test]
fn data_in_a_register_that_held_a_phase_decides_nothing() {
    let waits = "mov.u32 %r1, 0;\n{ .reg .pred done; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 done, [%r2], %r1; \
                 @!done bra AGAIN; }\n";
    let loads = ["@%p1 bra $L; ld.shared.u32 %r1, [tile]; $L:", "@%p1 ld.shared.u32 %r1, [tile];"];
    for load in loads {
        let AblatedPtx { places, kept, .. } =
            without(&kernel("attend", &format!("{waits}{load} st.global.u32 [%rd1], %r1;")), Removed::SharedLoads);
        assert_eq!((places, kept), (1, 0), "{load}");
    }
    // In a loop, the data is the phase of the next round.
    let again = kernel("attend", &format!("$B:\n{waits}{}\n@%p1 bra $B;", loads[1]).replace("mov.u32 %r1, 0;", ""));
    let AblatedPtx { places, kept, .. } = without(&again, Removed::SharedLoads);
    assert_eq!((places, kept), (0, 1));
}

/// The last block to arrive combines the parts of the others.
const COUNTS: &str = "ld.param.u64 %rd1, [count_0]; ld.param.u64 %rd2, [count_1];\n\
                      atom.global.add.u32 %r1, [%rd1], 1; setp.ne.u32 %p1, %r1, 3; @%p1 ret;\n\
                      ld.shared.f32 %f1, [tile]; st.global.f32 [%rd2], %f1;";

#[test]
fn a_counter_in_global_memory_does_not_keep_other_tensors() {
    let counts = kernel("count", COUNTS);
    let AblatedPtx { places, kept, .. } = without(&counts, Removed::SharedLoads);
    assert_eq!((places, kept), (1, 0));
    let both = ablate(&counts, &Parameters::default())
        .into_iter()
        .find(|(removed, _)| *removed == Removed::SharedLoads)
        .unwrap()
        .1;
    assert_eq!((both.places, both.kept), (0, 1));
}

#[test]
fn what_a_kernel_stores_for_a_condition_in_the_next_one_stays() {
    let stores = kernel("store", "ld.param.u64 %rd1, [store_0]; ld.shared.u32 %r1, [tile]; st.global.u32 [%rd1], %r1;");
    let AblatedPtx { places, kept, .. } = without(&[stores, kernel("count", COUNTS)].concat(), Removed::SharedLoads);
    // The second kernel's own load is free.
    assert_eq!((places, kept), (1, 1));
}

/// A register in inline assembly may have the name that a variable could have.
#[test]
fn a_register_without_a_sign_is_no_variable() {
    let body = "ld.global.u32 %r1, [%rd1]; st.shared.u32 [tile], %r1;\n\
                { .reg .b32 at; mov.b32 at, %r2; ld.shared.u32 %r3, [at]; }\nst.shared.u32 [%r3], %r4;";
    let AblatedPtx { places, kept, .. } = without(&kernel("attend", body), Removed::GlobalLoads);
    assert_eq!((places, kept), (0, 1));
}

/// One thread fetches tiles, and a warp group multiplies and stores them.
const TILES: &str = "mov.u64 %rd1, attend_0; mov.u64 %rd2, mbarriers; cvt.u32.u64 %r1, %rd2;\n\
    mbarrier.init.shared::cta.b64 [%r1], 1;\n\
    mbarrier.init.shared::cta.b64 [%r1+16], 1;\n\
    fence.mbarrier_init.release.cluster;\n\
    bar.sync 0;\n\
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], %r2;\n\
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1, {%r4, %r5}], [%r1];\n\
    { .reg .pred done; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 done, [%r1], 0;\n\
    @!done bra AGAIN; }\n\
    wgmma.fence.sync.aligned;\n\
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, {%r5, %r6, %r7, %r8}, %rd3, p, 1, 1, 1;\n\
    wgmma.commit_group.sync.aligned;\n\
    wgmma.wait_group.sync.aligned 0;\n\
    @%p1 mbarrier.arrive.shared::cta.b64 %rd4, [%r1+16];\n\
    st.shared.f32 [tile], %f1;\n\
    fence.proxy.async.shared::cta;\n\
    bar.sync 1, 128;\n\
    cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r4, %r5}], [%r3];\n\
    cp.async.bulk.commit_group;\n\
    cp.async.bulk.wait_group.read 0;";

#[test]
fn what_waits_for_copies_and_products_goes_with_them() {
    let AblatedPtx { ptx, places, diverting, kept, .. } = without(&kernel("attend", TILES), Removed::AllKindsAndWaits);
    insta::assert_snapshot!(ptx);
    assert_eq!((places, diverting, kept), (17, 0, 0));
    // Without them, all kinds keep the block barriers that publish the mbarriers.
    let AblatedPtx { places, kept, .. } = without(&kernel("attend", TILES), Removed::AllKinds);
    assert_eq!((places, kept), (3, 2));
}

/// What is sent still has to arrive, and the other block must not have ended.
#[test]
fn all_waits_stay_if_some_asynchronous_work_does() {
    let sends = [
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%r3], %f1, [%r1];",
        "st.shared::cluster.f32 [%r3], %f1;",
        "mapa.u64 %rd5, %rd2, 1;",
    ];
    for sends in sends {
        let AblatedPtx { places, kept, .. } =
            without(&kernel("attend", &[TILES, sends].concat()), Removed::AllKindsAndWaits);
        assert_eq!((places, kept), (0, 14), "{sends}");
    }
    // Without waits, there is nothing to remove beside all kinds.
    let AblatedPtx { ptx, places, kept, .. } = without(KERNEL, Removed::AllKindsAndWaits);
    assert_eq!((ptx.as_str(), places, kept), (KERNEL, 0, 0));
}

/// The number of the next tile is in shared memory. Without its mbarriers, a thread would read it too early.
#[test]
fn the_waits_for_the_number_of_a_tile_stay() {
    let next = "shl.b32 %r2, %r6, 3; add.s32 %r3, %r2, %r1; add.s32 %r4, %r3, 32; add.s32 %r5, %r3, 48;\n\
                $L:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%r5], %r7;\n@!%p2 bra $L; st.shared.u32 [number], %r8;\n\
                mbarrier.arrive.shared::cta.b64 _, [%r1+32];\n\
                $M:\nmbarrier.try_wait.parity.shared::cta.b64 %p3, [%r4], %r7;\n@!%p3 bra $M; ld.shared.u32 %r6, [number];\n\
                mbarrier.arrive.shared::cta.b64 _, [%r5];\n\
                setp.lt.s32 %p4, %r6, 9; @%p4 bra $L;";
    let kernel = kernel("attend", &TILES.replace("bar.sync 0;", &format!("bar.sync 0;\n{next}")));
    let AblatedPtx { ptx, kept, .. } = without(&kernel, Removed::AllKindsAndWaits);
    let synchronises = |line: &&str| ["mbarrier.", "bar.", "wait_group"].iter().any(|part| line.contains(part));
    let left: Vec<&str> = ptx.lines().filter(synchronises).map(str::trim).collect();
    insta::assert_snapshot!(left.join("\n"));
    assert_eq!(kept, 9);
    // Where such an mbarrier is, must be known.
    let unknown = kernel.replace("add.s32 %r5, %r3, 48;", "not.b32 %r5, %r3;");
    let AblatedPtx { places, .. } = without(&unknown, Removed::AllKindsAndWaits);
    assert_eq!(places, 0);
}

/// Two loads from lines of their own, one of which is unrolled.
const LOADS: &str = "mov.u32 %r2, 1;\n@%p1 mov.u32 %r2, 2;\nld.global.u32 %r3, [%rd1];\nld.global.u32 %r4, [%rd2];\n\
                     ld.global.u32 %r5, [%rd2+4];\nadd.s32 %r6, %r3, %r4;\nadd.s32 %r7, %r6, %r5;\nadd.s32 %r8, %r7, %r2;\n\
                     st.global.u32 [%rd1], %r8;";

#[test]
fn the_instructions_of_one_line_are_removed_alone() {
    let loads = kernel("load", LOADS);
    let all = without(&loads, Removed::GlobalLoads);
    // The join of two values in SSA form is no instruction.
    assert_eq!((all.numbers.as_slice(), all.is_divisible), (&[2, 3, 4][..], true));
    let ptx = ablate_some(&loads, &Parameters::apart(), &[(Removed::GlobalLoads, &[3, 4])]).remove(0);
    let body: Vec<&str> = ptx.lines().skip(3).take_while(|line| !line.starts_with("ret")).collect();
    insta::assert_snapshot!(body.join("\n"));
    assert_eq!(ablate_some(&loads, &Parameters::apart(), &[(Removed::GlobalLoads, &[2, 3, 4])]), [all.ptx]);
}

/// Makes a plan that launches `attend` with tensor maps, whose boxes have so many rows of 64 numbers.
fn plan(rows: &[u32]) -> LaunchPlan {
    let map = |rows: &u32| {
        Arg::TensorMap(TensorMap {
            name: "map".to_owned(),
            tensor: "k".to_owned(),
            dtype: Dtype::F16,
            sizes: vec![64, 4096],
            stride_bytes: vec![128],
            box_sizes: vec![64, *rows],
            swizzle_bytes: 128,
        })
    };
    let launch = Launch {
        kernel: "attend".to_owned(),
        grid: [1; 3],
        block: [128, 1, 1],
        shared_bytes: 0,
        cluster: None,
        programmatic: false,
        args: rows.iter().map(map).collect(),
    };
    LaunchPlan { launches: vec![launch], ..LaunchPlan::default() }
}

/// One mbarrier expects the bytes of three copies.
const COPIES: &str = "mov.b64 %rd1, attend_param_0; cvta.param.u64 %rd2, %rd1; mov.b64 %rd3, attend_param_1;\n\
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], %r2;\n\
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd2, {%r4, %r5}], [%r1];\n\
    @%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd3, {%r4, %r5}], [%r1];\n\
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd4], %r6, [%r1];";

#[test]
fn the_bytes_of_a_copy_that_is_removed_alone_arrive_at_once() {
    let kernel = kernel("attend", COPIES);
    let parameters = Parameters::of(&plan(&[32, 16]));
    let all = &ablate(&kernel, &parameters).into_iter().find(|(kind, _)| *kind == Removed::GlobalLoads).unwrap().1;
    assert_eq!((all.places, all.is_divisible), (3, true));
    let some: Vec<(Removed, &[usize])> = all.numbers.chunks(1).map(|number| (Removed::GlobalLoads, number)).collect();
    let alone = ablate_some(&kernel, &parameters, &some);
    let of_copies = |ptx: &String| ptx.lines().filter(|line| line.contains("_tx")).collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!(alone.iter().map(of_copies).collect::<Vec<_>>().join("\n\n"));

    let is_divisible = |kernel: &str, parameters: &Parameters| {
        ablate(kernel, parameters).into_iter().any(|(kind, all)| kind == Removed::GlobalLoads && all.is_divisible)
    };
    // The box of the second map is not known, or another launch has another one.
    assert!(!is_divisible(&kernel, &Parameters::of(&plan(&[32]))));
    let mut two = plan(&[32, 16]);
    two.launches.extend(plan(&[32, 8]).launches);
    assert!(!is_divisible(&kernel, &Parameters::of(&two)));
    // These bytes arrive in several blocks.
    let multicast =
        kernel.replace("bytes [%r3], [%rd4], %r6, [%r1];", "bytes.multicast::cluster [%r3], [%rd4], %r6, [%r1], %rs1;");
    assert!(!is_divisible(&multicast, &parameters));
}

/// It is not known how many bytes the copies have.
#[test]
fn what_can_only_go_together_is_not_divisible() {
    let tiles = kernel("attend", TILES);
    let is_divisible = |removed| without(&tiles, removed).is_divisible;
    assert!(!is_divisible(Removed::GlobalLoads) && !is_divisible(Removed::TensorProducts));
    assert!(is_divisible(Removed::GlobalStores));
    let waits = without(&tiles, Removed::AllKindsAndWaits);
    // Nothing waits on the copies, the product, and what initialises, arrives or orders.
    assert_eq!((waits.places, waits.numbers.len()), (17, 5));
}
