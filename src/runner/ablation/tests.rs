use super::*;

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
    ablate(ptx, true).into_iter().find(|(kind, _)| *kind == removed).unwrap().1
}

/// Returns the lines that differ from the kernel.
fn changed(removed: Removed) -> String {
    let AblatedPtx { ptx, places, diverting, kept } = without(KERNEL, removed);
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
    let both = ablate(&counts, false).into_iter().find(|(removed, _)| *removed == Removed::SharedLoads).unwrap().1;
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
