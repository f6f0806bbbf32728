//! The loader on PTX texts: the lowered programs, and the errors for unknown texts.

use proptest::prelude::*;
use virtual_gpu::program::{AT_EXIT, Kernel, Module, Op, Origin};
use virtual_gpu::ptx::{PtxError, load};

const SAMPLES: [&str; 4] = [
    include_str!("ptx/nested.ptx"),
    include_str!("ptx/attention.ptx"),
    include_str!("ptx/ampere.ptx"),
    include_str!("ptx/hopper.ptx"),
];

/// A module with one kernel of this body, which has registers of every file.
fn text(body: &str) -> String {
    format!(
        ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 out, .param .u32 n, .param .s8 c)\n{{\n\
         .reg .pred %p<9>; .reg .b16 %rs<9>; .reg .b32 %r<99>; .reg .f32 %f<99>; .reg .b64 %rd<99>;\n{body}\nret;\n}}\n"
    )
}

fn module(body: &str) -> Module {
    load("k.ptx", &text(body)).unwrap()
}

fn kernel(body: &str) -> Kernel {
    module(body).kernels.remove(0)
}

fn refused(body: &str) -> String {
    load("k.ptx", &text(body)).unwrap_err().to_string()
}

/// Returns the instruction because of which a kernel of this body is not modelled, with its line.
fn not_modelled(body: &str) -> String {
    let not_modelled = kernel(body).not_modelled.expect("it is refused");
    format!("{}: {}", not_modelled.line, not_modelled.instruction)
}

/// Returns the branches of a kernel in readable form, by their index.
fn branches(kernel: &Kernel) -> Vec<(usize, u32)> {
    let all = kernel.instructions.iter().enumerate();
    let branches = all.filter(|(_, it)| matches!(it.op, Op::Branch { .. } | Op::BranchIndexed { .. }));
    branches.map(|(index, it)| (index, it.reconverge)).collect()
}

#[test]
fn output_of_the_compiler_is_loaded() {
    for sample in SAMPLES {
        let module = load("sample.ptx", sample).unwrap();
        assert_eq!(module.target, "sm_90a");
        assert!(!module.kernels.is_empty());
    }
}

#[test]
fn a_loop_with_an_early_return_in_its_lowered_form() {
    let module = load("nested.ptx", SAMPLES[0]).unwrap();
    insta::assert_snapshot!(module.kernels[0].to_string(), @"
    nested: 7 r, 3 w, 1 p
       0  mov.u64 w0 <- param[0..8]
       1  mov.u64 w1 <- param[8..16]
       2  mov.u32 r0 <- param[16..20]
       3  mov.u64 w1 <- w1
       4  special.ThreadIndex(0) r1 <-
       5  setp.ge.s32 p0 <- r1 r0
       6  @p0 bra 72 meet 7
       7  not.b32 r2 <- r1
       8  add.s32 r2 <- r2 r0
       9  shr.u32 r3 <- r2 3
      10  add.s32 r3 <- r3 1
      11  and.b32 r3 <- r3 3
      12  setp.eq.s32 p0 <- r3 0
      13  mov.f32 r4 <- 0
      14  mov.u32 r5 <- r1
      15  @p0 bra 29 meet 29
      16  mulwide.s32 w2 <- r1 4
      17  add.s64 w2 <- w1 w2
      18  mov.f32 r4 <- 0
      19  mov.u32 r5 <- r1
      20  ld.global.f32 r6 <- w2
      21  setp.gt.f32 p0 <- r6 0
      22  selp.f32 r6 <- r6 0xc0000000 p0
      23  add.f32 r4 <- r4 r6
      24  add.s32 r5 <- r5 8
      25  add.s64 w2 <- w2 32
      26  add.s32 r3 <- r3 0xffffffff
      27  setp.ne.s32 p0 <- r3 0
      28  @p0 bra 20 meet 29
      29  setp.lt.u32 p0 <- r2 24
      30  @p0 bra 54 meet 54
      31  mulwide.s32 w2 <- r5 4
      32  add.s64 w1 <- w1 w2
      33  add.s64 w1 <- w1 64
      34  ld.global.f32 r2 <- w1 -64
      35  setp.gt.f32 p0 <- r2 0
      36  selp.f32 r2 <- r2 0xc0000000 p0
      37  add.f32 r2 <- r4 r2
      38  ld.global.f32 r3 <- w1 -32
      39  setp.gt.f32 p0 <- r3 0
      40  selp.f32 r3 <- r3 0xc0000000 p0
      41  add.f32 r2 <- r2 r3
      42  ld.global.f32 r3 <- w1
      43  setp.gt.f32 p0 <- r3 0
      44  selp.f32 r3 <- r3 0xc0000000 p0
      45  add.f32 r2 <- r2 r3
      46  ld.global.f32 r3 <- w1 +32
      47  setp.gt.f32 p0 <- r3 0
      48  selp.f32 r3 <- r3 0xc0000000 p0
      49  add.f32 r4 <- r2 r3
      50  add.s64 w1 <- w1 128
      51  add.s32 r5 <- r5 32
      52  setp.lt.s32 p0 <- r5 r0
      53  @p0 bra 34 meet 54
      54  setp.lt.s32 p0 <- r1 8
      55  @p0 bra 57 meet 61
      56  bra 61
      57  mulwide.s32 w1 <- r1 4
      58  mov.u64 w2 <- Shared(0)
      59  add.s64 w1 <- w2 w1
      60  st.shared.f32 r4 w1
      61  bar.sync.aligned 0
      62  shl.b32 r0 <- r1 2
      63  cvt.u64.u32 w1 <- r0
      64  and.b64 w1 <- w1 28
      65  mov.u64 w2 <- Shared(0)
      66  add.s64 w1 <- w2 w1
      67  ld.shared.f32 r0 <- w1
      68  mov.u64 w0 <- w0
      69  mulwide.s32 w1 <- r1 4
      70  add.s64 w0 <- w0 w1
      71  st.global.f32 r0 w0
      72  exit
    ");
}

#[test]
fn both_sides_of_an_if_meet_behind_it() {
    let kernel = kernel(
        "ld.param.u32 %r1, [n]; setp.gt.s32 %p1, %r1, 3; @%p1 bra THEN;\n\
         add.s32 %r2, %r1, 1; bra.uni END;\nTHEN: add.s32 %r2, %r1, 2;\nEND: ld.param.u64 %rd1, [out]; st.global.u32 [%rd1], %r2;",
    );
    assert_eq!(branches(&kernel), [(2, 6), (4, AT_EXIT)]);
}

#[test]
fn an_if_in_a_loop_in_an_if() {
    let kernel = kernel(
        "setp.gt.s32 %p1, %r1, 3; @%p1 bra END;\nLOOP: setp.eq.s32 %p2, %r2, %r1; @%p2 bra SKIP; add.s32 %r3, %r3, 1;\n\
         SKIP: add.s32 %r2, %r2, 1; setp.lt.s32 %p3, %r2, 9; @%p3 bra LOOP;\nEND: st.global.u32 [%rd1], %r3;",
    );
    assert_eq!(branches(&kernel), [(1, 8), (3, 5), (7, 8)]);
}

#[test]
fn lanes_that_return_early_are_not_waited_for() {
    // Otherwise only some of the warp would reach the barrier.
    let early = kernel("setp.gt.s32 %p1, %r1, 3; @%p1 bra END; bar.sync 0; st.global.u32 [%rd1], %r3;\nEND:");
    assert_eq!(branches(&early), [(1, 2)]);
    let inner = kernel(
        "setp.gt.s32 %p1, %r1, 3; @!%p1 bra B; setp.gt.s32 %p2, %r2, 3; @%p2 bra END; add.s32 %r3, %r3, 1;\n\
         B: bar.sync 0; st.global.u32 [%rd1], %r3;\nEND:",
    );
    assert_eq!(branches(&inner), [(1, 5), (3, 4)]);
}

#[test]
fn a_switch_meets_behind_its_cases() {
    let kernel = kernel(
        "brx.idx %r1, CASES;\nCASES: .branchtargets A, B, C;\nA: mov.u32 %r2, 1; bra END;\nB: mov.u32 %r2, 2; bra END;\n\
         C: mov.u32 %r2, 3;\nEND: st.global.u32 [%rd1], %r2;",
    );
    assert_eq!(branches(&kernel)[0], (0, 6));
}

#[test]
fn scopes_have_their_own_registers_and_labels() {
    let kernel = kernel(
        "mov.u32 %r1, 7;\n{ .reg .b32 %r1; mov.u32 %r1, 8; L: add.s32 %r1, %r1, 1; bra M; M: }\n\
         { L: st.global.u32 [%rd1], %r1; }",
    );
    insta::assert_snapshot!(kernel, @"
    k: 2 r, 1 w, 0 p
       0  mov.u32 r0 <- 7
       1  mov.u32 r1 <- 8
       2  add.s32 r1 <- r1 1
       3  bra 4
       4  st.global.u32 r0 w0
       5  exit
    ");
}

#[test]
fn a_carry_chain_goes_through_a_predicate() {
    let kernel = kernel(
        "add.cc.u32 %r3, %r1, %r2; addc.cc.u32 %r4, %r1, %r2; addc.u32 %r5, 0, 0;\n\
         sub.cc.u64 %rd3, %rd1, %rd2; subc.u64 %rd4, %rd1, %rd2; mad.lo.cc.u32 %r6, %r1, %r2, %r3; madc.hi.u32 %r7, %r1, %r2, %r4;",
    );
    insta::assert_snapshot!(kernel, @"
    k: 5 r, 3 w, 1 p
       0  add.carry.u32 r0 p0 <- r1 r2
       1  add.carry.u32 r3 p0 <- r1 r2 p0
       2  add.carry.u32 r4 <- 0 0 p0
       3  sub.carry.u64 w2 p0 <- w0 w1
       4  sub.carry.u64 w0 <- w0 w1 p0
       5  mad.lo.carry.u32 r4 p0 <- r1 r2 r0
       6  mad.hi.carry.u32 r0 <- r1 r2 r3 p0
       7  exit
    ");
}

#[test]
fn values_are_extended_to_registers_wider_than_their_type() {
    let kernel = kernel(
        "ld.param.u64 %rd1, [out]; ld.param.s8 %r1, [c]; ld.param.s8 %rs1, [c]; ld.global.s8 %rs2, [%rd1]; ld.global.s32 %rd2, [%rd1+4];\n\
         ld.global.s16 %r2, [%rd1]; cvt.s8.s32 %r3, %r2; cvt.u16.u64 %rs3, %rd2; st.global.u8 [%rd1], %rd2;",
    );
    insta::assert_snapshot!(kernel, @"
    k: 1 r, 2 w, 0 p
       0  mov.u64 w0 <- param[0..8]
       1  mov.b32 r0 <- param[12..13 signed]
       2  mov.b16 r0 <- param[12..13]
       3  cvt.s16.s8 r0 <- r0
       4  ld.global.s8 r0 <- w0
       5  cvt.s16.s8 r0 <- r0
       6  ld.global.s32 r0 <- w0 +4
       7  cvt.s64.s32 w1 <- r0
       8  ld.global.s16 r0 <- w0
       9  cvt.s8.s32 r0 <- r0
      10  cvt.s32.s8 r0 <- r0
      11  cvt.u16.u64 r0 <- w1
      12  cvt.u32.u64 r0 <- w1
      13  st.global.u8 r0 w0
      14  exit
    ");
}

#[test]
fn addresses_of_every_space() {
    let kernel = kernel(
        ".shared .align 16 .b8 tile[64]; .shared .align 8 .b8 bar[8]; .local .align 8 .b8 depot[24];\n\
         mov.u64 %rd1, bar; cvta.shared.u64 %rd2, %rd1; cvta.to.shared.u64 %rd3, %rd2; cvta.local.u64 %rd4, %rd5; mov.u32 %r1, tile;\n\
         mov.u64 %rd6, depot; st.local.u32 [%rd6+4], %r1; st.shared.u32 [tile+8], %r1; mov.b64 %rd7, c; ld.param.u8 %rs1, [%rd7]; ld.u32 %r2, [bar];",
    );
    assert_eq!((kernel.static_shared_bytes, kernel.local_bytes, kernel.dynamic_align), (72, 24, 16));
    insta::assert_snapshot!(kernel, @"
    k: 1 r, 2 w, 0 p
       0  mov.u64 w1 <- Shared(64)
       1  add.u64 w1 <- w1 0x710000000000
       2  sub.u64 w1 <- w1 0x710000000000
       3  add.u64 w0 <- w0 0x720000000000
       4  mov.u32 r0 <- Shared(0)
       5  mov.u64 w0 <- Local(0)
       6  st.local.u32 r0 w0 +4
       7  st.shared.u32 r0 Shared(0) +8
       8  mov.b64 w0 <- ParamAddress(12)
       9  ld.param.u8 r0 <- w0
      10  ld.shared.u32 r0 <- Shared(64)
      11  exit
    ");
}

#[test]
fn a_store_may_not_overwrite_its_own_address_while_it_loads() {
    let kernel = kernel("ld.shared.v2.u32 {%r1, %r2}, [%r1]; st.shared.v2.u32 [%r3], {%r1, %r2};");
    insta::assert_snapshot!(kernel, @"
    k: 4 r, 0 w, 0 p
       0  mov.b32 r2 <- r0
       1  ld.shared.v2.u32 r0 r3 <- r2
       2  st.shared.v2.u32 r0 r3 r1
       3  exit
    ");
}

#[test]
fn globals_have_their_contents_and_know_each_other() {
    let text = ".version 9.0\n.target sm_90a\n.address_size 64\n.global .align 4 .u32 a[2][2] = {{1}, {3, 4}};\n\
                .const .align 8 .f64 half = 0d3FE0000000000000;\n.global .align 8 .u64 p[3] = {a+4, generic(half), 7};\n\
                .global .align 1 .b8 name[4] = {79, 75};\n";
    let globals = load("g.ptx", text).unwrap().globals;
    assert_eq!(globals[0].initial, [1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0]);
    assert_eq!(globals[1].initial, 0.5_f64.to_le_bytes());
    assert_eq!(globals[2].addresses, [(0, 0, 4), (8, 1, 0)]);
    assert_eq!(globals[2].initial[16], 7);
    assert_eq!(globals[3].initial, b"OK\0\0");
}

#[test]
fn parameters_are_aligned_as_they_ask() {
    let text = ".version 9.0\n.target sm_90a\n.address_size 64\n.entry k(.param .u32 a, .param .align 64 .b8 map[128], \
                .param .u64 .ptr .global .align 16 x)\n.reqntid 128, 2\n.reqnctapercluster 2\n.explicitcluster\n{ ret; }\n";
    let kernel = load("k.ptx", text).unwrap().kernels.remove(0);
    let places: Vec<(u32, u32)> = kernel.params.iter().map(|param| (param.offset, param.bytes)).collect();
    assert_eq!(places, [(0, 4), (64, 128), (192, 8)]);
    assert_eq!((kernel.required_block, kernel.required_cluster), (Some([128, 2, 1]), Some([2, 1, 1])));
}

#[test]
fn unknown_keys_are_named_with_their_line() {
    for opcode in [
        "foo.bar.u32",
        "mad.strange.lo.s32",
        "prmt.b32.f4e",
        "shfl.up.b32",
        "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.s8.f32",
        "mma.sync.aligned.m16n8k32.row.col.s32.e4m3.e4m3.s32",
        "cvt.rn.f16.e4m3",
        "wmma.load.a.sync.aligned.row.m8n8k128.b1",
        "st.async.u32",
        "cvt.rs.f16x2.f32",
        "cvt.rn.satfinite.f16x2.f32",
        "setp.lo.s32",
    ] {
        let body = format!("add.s32 %r1, %r2, %r3;\n{opcode} %r1, %r2, %r3, %r4;");
        assert_eq!(not_modelled(&body), format!("8: {opcode}"));
    }
    assert_eq!(not_modelled("mov.u32 %r1, %pm3;"), "7: mov.u32 %pm3");
    for call in ["call.uni f;", "call.uni (%r1), f, (%r2, 5);", "call (%r1), f, (%r2), p;"] {
        let opcode = call.split(' ').next().unwrap_or_default();
        assert_eq!(not_modelled(call), format!("7: {opcode} f"));
    }
}

#[test]
fn a_failed_assertion_ends_its_path() {
    let kernel = kernel(
        "{ .param .b64 a; .param .b32 b; st.param.b64 [a+0], %rd1; st.param.b32 [b], 7;
         call.uni __assertfail, (a, a, b, a, 1); }",
    );
    insta::assert_snapshot!(kernel, @"
    k: 1 r, 1 w, 0 p
       0  mov.b64 w0 <- w0
       1  mov.b32 r0 <- 7
       2  assert w0 w0 w0 r0
       3  trap
       4  exit
    ");
}

/// Each call has parameters of its own, although the compiler gives them the same names.
#[test]
fn values_go_to_and_from_calls_in_registers() {
    let call = |format: &str, result: &str| {
        format!(
            "{{ .param .b64 param0; .param .b64 param1; .param .b32 retval0; st.param.b64 [param0+0], {format};
             st.param.b64 [param1+0], 0; call.uni (retval0), vprintf, (param0, param1);
             ld.param.b32 {result}, [retval0+0]; }}\n"
        )
    };
    insta::assert_snapshot!(kernel(&(call("%rd1", "%r1") + &call("%rd2", "%r2"))), @"
    k: 1 r, 3 w, 0 p
       0  mov.b64 w0 <- w0
       1  mov.b64 w2 <- 0
       2  print r0 <- w0 w2
       3  mov.b32 r0 <- r0
       4  mov.b64 w0 <- w1
       5  mov.b64 w1 <- 0
       6  print r0 <- w0 w1
       7  mov.b32 r0 <- r0
       8  exit
    ");
}

/// Reads are recorded only where a launch may write, so this must name every place.
#[test]
fn addresses_of_stores_come_from_parameters_and_variables() {
    let text = |body: &str| {
        format!(
            ".version 9.0\n.target sm_90a\n.address_size 64\n.global .align 4 .b8 g[64];\n\
             .visible .entry k(.param .u64 a, .param .u32 n, .param .u64 b, .param .align 64 .b8 map[128])\n{{\n\
             .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<3>; .shared .align 128 .b8 s[256];\n\
             ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u32 %r1, [n];\n{body}\nret;\n}}\n"
        )
    };
    let written = |body: &str| load("k.ptx", &text(body)).unwrap().kernels.remove(0).writes_to;
    let [a, n, b] = [0, 8, 16].map(Origin::Param);
    assert_eq!(written("ld.global.u32 %r2, [%rd1]; st.global.u32 [%rd2], %r2;"), Some(vec![b]));
    assert_eq!(written("ld.global.u32 %r2, [%rd1]; st.shared.u32 [s], %r2;"), Some(vec![]));
    assert_eq!(written("mad.wide.u32 %rd3, %r1, 4, %rd1; red.global.add.u32 [%rd3], 1;"), Some(vec![a, n]));
    assert_eq!(written("setp.eq.u32 %p1, %r1, 0; selp.b64 %rd3, %rd1, %rd2, %p1; st.u8 [%rd3], 0;"), Some(vec![a, b]));
    // Through registers that change on the way, and halves of an address.
    assert_eq!(written("mov.b64 %rd3, %rd2; L: st.global.u32 [%rd3], 0; mov.b64 %rd3, %rd1; bra L;"), Some(vec![a, b]));
    assert_eq!(written("mov.b64 {%r2, %r3}, %rd2; mov.b64 %rd3, {%r2, %r3}; st.global.u32 [%rd3], 0;"), Some(vec![b]));
    assert_eq!(written("st.global.u32 [g+4], 0;"), Some(vec![Origin::Global(0)]));
    let store = "mov.u32 %r2, s; cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%rd3, {%r1}], [%r2];";
    assert_eq!(
        written(&format!("mov.b64 %rd3, map; cvta.param.u64 %rd3, %rd3; {store}")),
        Some(vec![Origin::TensorMap(24 + 40)])
    );
    // An address that is loaded may be any.
    assert_eq!(written("ld.global.u64 %rd3, [%rd1]; st.global.u32 [%rd3], 0;"), None);
    assert_eq!(written("ld.global.v2.u64 {%rd3, %rd4}, [%rd1]; add.u64 %rd4, %rd4, %rd2; st.u32 [%rd4], 0;"), None);
}

#[test]
fn tests_of_floats_are_comparisons() {
    let kernel = kernel("testp.notanumber.f32 %p1, %f1; testp.finite.f32 %p2, %f1;");
    insta::assert_snapshot!(kernel, @"
    k: 1 r, 0 w, 1 p
       0  setp.nan.f32 p0 <- r0 r0
       1  abs.f32 r0 <- r0
       2  setp.lt.f32 p0 <- r0 0x7f800000
       3  exit
    ");
}

#[test]
fn mistakes_are_said_with_their_line() {
    assert_eq!(refused("add.s32 %r1, %q2, 1;"), "k.ptx:7: `%q2` is not declared");
    assert_eq!(refused("add.s32 %r1, %rd2, 1;"), "k.ptx:7: `%rd2` has 64 bits, not 32");
    assert_eq!(refused("bra NOWHERE;"), "k.ptx:7: label `NOWHERE` is not declared");
    assert_eq!(refused("add.s32 %r1, %r2;"), "k.ptx:7: 3 operands expected, 2 found");
    assert_eq!(refused("mov.f32 %f1, 1;"), "k.ptx:7: an operand that is no F32");
}

#[test]
fn sizes_are_bounded() {
    assert!(refused(".reg .b32 %x<4000000000>;").contains("registers"));
    assert!(refused(".shared .b8 huge[4000000000];").contains("bytes"));
    assert!(refused(&"{".repeat(100_000)).contains("nested too deep"));
    let deep = format!("mov.u32 %r1, {}1;", "(".repeat(100_000));
    assert!(refused(&deep).contains("nested too deep"));
    let long = format!("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{}%r1}}, [%r2];", "%r1, ".repeat(70_000));
    assert!(refused(&long).contains("too many parts"));
    assert!(matches!(load("none.ptx", ""), Err(PtxError { line: 1, .. })));
}

#[test]
fn thousands_of_registers_need_few_slots() {
    let mut body = ".reg .f32 %g<9000>;\n".to_owned();
    for index in 0..8000 {
        body += &format!("fma.rn.f32 %g{}, %g{}, %g{}, 0f3F800000;\n", index + 32, index + 16, index);
    }
    body += "st.global.f32 [%rd1], %g8031;";
    let kernel = kernel(&body);
    assert!(kernel.slots32 <= 33, "{} slots", kernel.slots32);
    let attention = load("attention.ptx", SAMPLES[1]).unwrap().kernels.remove(0);
    assert!(attention.slots32 < 64, "{} slots", attention.slots32);
}

/// A change of a text: its kind, place and source.
fn changes() -> impl Strategy<Value = (usize, Vec<(u8, prop::sample::Index, prop::sample::Index)>)> {
    (
        0..SAMPLES.len(),
        prop::collection::vec((0..7_u8, any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..6),
    )
}

/// Deletes, doubles or replaces a line (kinds 0 to 2) or a token (3 to 5), or cuts the text (6).
fn change(text: &str, kind: u8, at: prop::sample::Index, from: prop::sample::Index) -> String {
    if text.is_empty() {
        return String::new();
    }
    if kind == 6 {
        return text.chars().take(at.index(text.len())).collect();
    }
    let mut parts = if kind < 3 { text.split_inclusive('\n').collect() } else { tokens(text) };
    let (to, from) = (at.index(parts.len()), from.index(parts.len()));
    match kind % 3 {
        0 => {
            parts.remove(to);
        }
        1 => parts.insert(to, parts[from]),
        _ => parts[to] = parts[from],
    }
    parts.concat()
}

/// Splits at every boundary between words and the rest. Modifiers of opcodes are separate words.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut start = 0;
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'%' | b'_' | b'$');
    for end in 1..=text.len() {
        let bytes = text.as_bytes();
        if end == text.len() || !is_word(bytes[end]) || !is_word(bytes[end - 1]) {
            tokens.push(&text[start..end]);
            start = end;
        }
    }
    tokens
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn no_text_makes_it_panic((sample, changes) in changes()) {
        let mut text = SAMPLES[sample].to_owned();
        for (kind, at, from) in changes {
            text = change(&text, kind, at, from);
        }
        let _ = load("changed.ptx", &text);
    }
}
