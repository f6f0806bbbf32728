//! Kernels that a lucky schedule makes right, and the nearest honest ones.

use virtual_gpu::fault::{Access, Fault, FaultKind, LaunchError};
use virtual_gpu::gpu::Gpu;
use virtual_gpu::{Launch, Loaded, Options, VirtualGpu, ptx};

/// Bytes of the memory that kernels get.
const BYTES: u64 = 8192;

/// A kernel with one parameter, the address of zeros.
struct Kernel {
    gpu: VirtualGpu,
    module: Loaded,
    data: u64,
}

impl Kernel {
    fn new(body: &str) -> Self {
        let text = format!(
            ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 data)\n{{\n\
             .reg .b16 %h<9>;\n.reg .b32 %r<20>;\n.reg .b64 %rd<20>;\n.reg .pred %p<8>;\n\
             .shared .align 16 .b8 s[1024];\nld.param.u64 %rd1, [data];\nmov.u32 %r1, %tid.x;\n\
             mov.u32 %r2, %ctaid.x;\nmov.u32 %r11, %nctaid.x;\nmov.u32 %r3, %ntid.x;\nmad.lo.u32 %r3, %r2, %r3, %r1;\n\
             mul.wide.u32 %rd2, %r3, 4;\nadd.u64 %rd2, %rd1, %rd2;\nmul.wide.u32 %rd3, %r1, 4;\n\
             add.u64 %rd3, %rd1, %rd3;\nshl.b32 %r12, %r1, 2;\nmov.u32 %r13, s;\nadd.u32 %r12, %r12, %r13;\n\
             setp.eq.u32 %p1, %r1, 0;\nsetp.eq.u32 %p2, %r2, 0;\nmov.u32 %r10, 1;\n{body}\nret;\n}}\n"
        );
        let mut gpu = VirtualGpu::new(Gpu::h200());
        let module = gpu.load(ptx::load("k.ptx", &text).unwrap_or_else(|error| panic!("{error}"))).expect("it fits");
        let data = gpu.alloc(BYTES).expect("there is memory");
        gpu.fill(data, BYTES, 0).expect("it is that large");
        Self { gpu, module, data }
    }

    /// Returns the words after a launch in this order.
    fn words(&mut self, blocks: u32, threads: u32, order: Option<u64>) -> Vec<u8> {
        self.gpu.fill(self.data, BYTES, 0).expect("it is that large");
        self.launch(blocks, threads, &Options { order, ..Options::default() }).expect("it is clean");
        self.gpu.read(self.data, BYTES).expect("it is that large")
    }

    fn launch(&self, blocks: u32, threads: u32, options: &Options) -> Result<(), LaunchError> {
        let args = [self.data.to_le_bytes().to_vec()];
        let [grid, block] = [[blocks, 1, 1], [threads, 1, 1]];
        let launch = Launch { grid, block, cluster: [1; 3], dynamic_shared_bytes: 0, args: &args };
        self.gpu.launch(&self.module, "k", &launch, options).map(drop)
    }
}

fn fault(body: &str, blocks: u32, threads: u32) -> Fault {
    // On several threads, two blocks at the same time may miss each other.
    match Kernel::new(body).launch(blocks, threads, &Options { threads: Some(1), ..Options::default() }) {
        Err(LaunchError::Fault(fault)) => *fault,
        other => panic!("it was to fault, got {other:?}: {body}"),
    }
}

fn between_blocks(body: &str, blocks: u32, threads: u32) {
    let fault = fault(body, blocks, threads);
    assert!(matches!(fault.kind, FaultKind::GlobalRace { same_block: false, .. }), "{fault}: {body}");
}

fn between_lanes(body: &str) {
    let fault = fault(body, 1, 32);
    assert!(matches!(fault.kind, FaultKind::LaneRace { .. }), "{fault}: {body}");
}

/// A clean kernel stays clean in every order.
fn is_clean(body: &str, blocks: u32, threads: u32) {
    let mut kernel = Kernel::new(body);
    for order in [None, Some(1), Some(2), Some(3)] {
        let options = Options { order, ..Options::default() };
        if let Err(error) = kernel.launch(blocks, threads, &options) {
            panic!("{error}: {body}");
        }
        kernel.gpu.fill(kernel.data, BYTES, 0).expect("it is that large");
    }
}

/// Every block leaves a part, and the last to take a ticket adds them up.
fn ticket(stored: &str, before: &str, atomic: &str, after: &str) -> String {
    format!(
        "st.global.u32 [%rd2+256], %r3; {stored}
         bar.sync 0;
         @!%p1 bra W;
         {before} {atomic} st.shared.u32 [s], %r4;
         W: bar.sync 0;
         ld.shared.u32 %r4, [s]; setp.ne.u32 %p3, %r4, 3; @%p3 bra E;
         {after} ld.global.u32 %r5, [%rd3+256]; ld.global.u32 %r6, [%rd3+512];
         add.u32 %r5, %r5, %r6; st.global.u32 [%rd3+4096], %r5;
         E:"
    )
}

const ATOMIC: &str = "atom.global.add.u32 %r4, [%rd1], 1;";
const FENCE: &str = "fence.acq_rel.gpu;";

#[test]
fn a_ticket_needs_a_fence_of_every_writer_or_one_after_the_barrier() {
    for (stored, before, after) in
        [(FENCE, "", FENCE), ("", FENCE, FENCE), ("membar.gl;", "", "membar.gl;"), ("", "fence.sc.sys;", FENCE)]
    {
        is_clean(&ticket(stored, before, ATOMIC, after), 4, 64);
    }
    is_clean(&ticket("", "", "atom.acq_rel.gpu.global.add.u32 %r4, [%rd1], 1;", ""), 4, 64);
    for (stored, before) in [("", ""), ("membar.cta;", ""), ("", "fence.acq_rel.cta;")] {
        between_blocks(&ticket(stored, before, ATOMIC, FENCE), 4, 64);
    }
    between_blocks(&ticket("", "", "atom.acquire.gpu.global.add.u32 %r4, [%rd1], 1;", ""), 4, 64);
}

/// PyTorch had such a reduction, and GPUs have shown it (its pull request 128455). Volatile loads do not look into L1, and
/// no machine stores early.
#[test]
fn the_reader_of_a_ticket_needs_a_fence_unless_its_loads_are_strong() {
    let missing = fault(&ticket(FENCE, "", ATOMIC, ""), 4, 64);
    assert!(matches!(missing.kind, FaultKind::Unacquired { .. }), "{missing}");
    let weak = ticket(FENCE, "", ATOMIC, "");
    is_clean(&weak.replace("ld.global.u32", "ld.volatile.global.u32"), 4, 64);
    is_clean(&weak.replace("ld.global.u32", "ld.relaxed.gpu.global.u32"), 4, 64);
    let resets = "st.global.u32 [%rd3+256], %r4; st.global.u32 [%rd3+512], %r4; mov.u32 %r5, 0; mov.u32 %r6, 0;";
    is_clean(&weak.replace("ld.global.u32 %r5, [%rd3+256]; ld.global.u32 %r6, [%rd3+512];", resets), 4, 64);
    // The fence of one thread is enough, with a barrier behind it.
    is_clean(&ticket(FENCE, "", &format!("{ATOMIC} {FENCE}"), ""), 4, 64);
}

#[test]
fn a_ticket_of_one_warp_needs_a_fence_on_both_sides() {
    let warps = |before: &str, after: &str| {
        format!(
            "st.global.u32 [%rd2+256], %r3; {before} bar.warp.sync 0xffffffff;
             mov.u32 %r4, 0; @%p1 atom.global.add.u32 %r4, [%rd1], 1;
             shfl.sync.idx.b32 %r4, %r4, 0, 31, 0xffffffff;
             setp.ne.u32 %p3, %r4, 3; @%p3 bra E;
             {after} ld.global.u32 %r5, [%rd3+256]; ld.global.cg.u32 %r5, [%rd3+384];
             E:"
        )
    };
    is_clean(&warps(FENCE, FENCE), 4, 32);
    between_blocks(&warps("", FENCE), 4, 32);
    between_blocks(&warps(FENCE, ""), 4, 32);
}

/// Every block adds to what its predecessor published, and publishes the sum.
fn chain(publish: &str, poll: &str) -> String {
    format!(
        "@!%p1 bra E; mov.u32 %r5, 0; @%p2 bra P;
         L: {poll} setp.eq.u32 %p3, %r4, 0; @%p3 bra L; ld.global.u32 %r5, [%rd2+4092];
         P: add.u32 %r5, %r5, %r10; st.global.u32 [%rd2+4096], %r5; {publish}
         E:"
    )
}

#[test]
fn flags_between_blocks_need_release_and_acquire() {
    let store = "st.release.gpu.global.u32 [%rd2+256], %r10;";
    let load = "ld.acquire.gpu.global.u32 %r4, [%rd2+252];";
    let volatile = "membar.gl; st.volatile.global.u32 [%rd2+256], %r10;";
    let polled = "ld.volatile.global.u32 %r4, [%rd2+252]; membar.gl;";
    for (publish, poll) in [(store, load), (volatile, polled), (store, polled), (volatile, load)] {
        is_clean(&chain(publish, poll), 8, 1);
    }
    is_clean(&chain("red.release.gpu.global.add.u32 [%rd2+256], 1;", load), 8, 1);
    let relaxed = "st.relaxed.gpu.global.u32 [%rd2+256], %r10;";
    for (publish, poll) in [
        (relaxed, load),
        ("st.release.cta.global.u32 [%rd2+256], %r10;", load),
        (store, "ld.relaxed.gpu.global.u32 %r4, [%rd2+252];"),
        ("st.global.u32 [%rd2+256], %r10;", load),
    ] {
        between_blocks(&chain(publish, poll), 8, 1);
    }
}

#[test]
fn equal_values_may_be_stored_in_any_order() {
    is_clean("st.global.u32 [%rd3], %r1;", 8, 64);
    is_clean("st.global.u32 [%rd1], %r10;", 8, 64);
    is_clean("st.global.u32 [%rd1], %r10; ld.global.u32 %r4, [%rd1];", 8, 64);
    between_blocks("st.global.u32 [%rd3], %r2;", 2, 32);
    is_clean("st.shared.u32 [s], %r10; bar.sync 0; ld.shared.u32 %r4, [s];", 1, 64);
}

#[test]
fn neighbours_in_one_word_are_apart() {
    let halves = "mul.wide.u32 %rd4, %r3, 2; add.u64 %rd4, %rd1, %rd4; mov.u16 %h1, 1; st.global.u16 [%rd4], %h1;
                  ld.global.u16 %h2, [%rd4];";
    is_clean(halves, 7, 1);
}

#[test]
fn counters_need_no_fence_and_no_plain_store() {
    let last = |reset: &str| {
        format!(
            "@!%p1 bra E; atom.global.add.u32 %r4, [%rd1], 1; atom.global.add.u32 %r5, [%rd1+4], 1;
             setp.ne.u32 %p3, %r5, 7; @%p3 bra E; {reset} E:"
        )
    };
    let zero = "mov.u32 %r6, 0; st.global.u32 [%rd1], %r6; st.global.u32 [%rd1+4], %r6;";
    is_clean(&last(zero), 8, 32);
    between_blocks("@%p2 st.global.u32 [%rd1], %r10; @!%p2 red.global.add.u32 [%rd1], 1;", 4, 1);
    is_clean("red.global.add.u32 [%rd3], 1;", 4, 64);
    between_blocks("@!%p2 ld.global.u32 %r4, [%rd3]; red.global.add.u32 [%rd3], 1;", 4, 64);
}

/// Reads the word of the same thread in the next block, and then writes its own.
fn shift(between: &str) -> String {
    format!("ld.global.u32 %r5, [%rd2+384]; {between}\nst.global.u32 [%rd2+256], %r3;")
}

/// All blocks arrive, and wait for each other. Thread 0 of each fences as told.
fn grid_barrier(before: &str, after: &str) -> String {
    format!(
        "bar.sync 0; @!%p1 bra W; {before} red.global.add.u32 [%rd1], 1;
         L: ld.volatile.global.u32 %r4, [%rd1]; setp.lt.u32 %p3, %r4, %r11; @%p3 bra L;
         {after} W: bar.sync 0;"
    )
}

/// In the order of the grid, no block reads what another has written.
#[test]
fn a_block_may_not_write_what_another_has_read() {
    let early = |body: &str| {
        let fault = fault(body, 4, 32);
        let FaultKind::GlobalRace { access, other_access, other_block, same_block: false, .. } = fault.kind else {
            panic!("{fault}: {body}")
        };
        assert_eq!((access, other_access), (Access::Write, Access::Read), "{body}");
        (fault.instruction, fault.block[0], other_block[0])
    };
    assert_eq!(early(&shift("")), ("st.global.u32 [%rd2+256], %r3;".to_owned(), 1, 0));
    // A barrier of the block orders nothing, and a fence alone does not either.
    early(&shift("bar.sync 0;"));
    early(&shift(FENCE));
    // Many have read, and one of them writes.
    let last = "ld.global.u32 %r5, [%rd1+256]; setp.eq.u32 %p4, %r2, 3; @!%p4 bra E; @!%p1 bra E;
                st.global.u32 [%rd1+256], %r10; E:";
    assert_eq!(early(last).2, 0);
    // Asynchronous copies read, too.
    early("cp.async.ca.shared.global [%r12], [%rd2+384], 4; cp.async.wait_all; st.global.u32 [%rd2+256], %r3;");
    // The address of the store is only known when it is loaded.
    let loaded = "st.global.u64 [%rd1+4096], %rd1; ld.global.u64 %rd5, [%rd1+4096]; add.u64 %rd5, %rd5, 256;";
    early(&format!(
        "{loaded} ld.global.u32 %r5, [%rd2+384]; mad.wide.u32 %rd5, %r3, 4, %rd5; st.global.u32 [%rd5], %r3;"
    ));
}

#[test]
fn a_block_may_write_what_others_have_read_before_it_learnt_so() {
    let barrier = |before: &str, after: &str| shift(&grid_barrier(before, after));
    is_clean(&barrier(FENCE, FENCE), 4, 32);
    // The barrier of the block is enough on this side: no machine writes early.
    is_clean(&barrier(FENCE, ""), 4, 32);
    between_blocks(&barrier("", FENCE), 4, 32);
    // A block of the second phase has read as well, without a barrier behind it.
    let again = format!("{} ld.global.u32 %r6, [%rd2+384]; st.global.u32 [%rd2+256], %r3;", grid_barrier(FENCE, FENCE));
    between_blocks(&format!("ld.global.u32 %r5, [%rd2+384]; {again}"), 4, 32);
}

#[test]
fn reads_that_no_write_can_disturb_are_no_race() {
    // A block's own words, and those of another place.
    is_clean("ld.global.u32 %r5, [%rd2]; add.u32 %r5, %r5, 1; st.global.u32 [%rd2], %r5;", 4, 32);
    is_clean("ld.global.u32 %r5, [%rd2+384]; add.u32 %r5, %r5, 1; st.global.u32 [%rd2+4096], %r5;", 4, 32);
    // The value stays the same.
    let same = Kernel::new("@%p2 ld.global.u32 %r5, [%rd3]; mov.u32 %r6, 0; @!%p2 st.global.u32 [%rd3], %r6;");
    same.launch(2, 32, &Options { threads: Some(1), ..Options::default() }).expect("zeros stay zeros");
    // What others update by atomics is read at any time, for an exchange that fails if it is old.
    is_clean(
        "ld.global.u32 %r5, [%rd1]; L: add.u32 %r6, %r5, 1; atom.global.cas.b32 %r7, [%rd1], %r5, %r6;
         setp.ne.u32 %p3, %r7, %r5; mov.u32 %r5, %r7; @%p3 bra L;",
        4,
        1,
    );
    // The next launch may write what this one has read.
    let kernel = Kernel::new("@%p2 ld.global.u32 %r5, [%rd3+128]; @!%p2 st.global.u32 [%rd2+128], %r3;");
    kernel.launch(1, 32, &Options::default()).expect("it reads");
    kernel.launch(3, 32, &Options::default()).expect("others write elsewhere");
}

#[test]
fn the_next_launch_sees_everything() {
    let kernel = Kernel::new("st.global.u32 [%rd2], %r2; ");
    for _ in 0..600 {
        kernel.launch(4, 32, &Options::default()).expect("the launches are in order");
    }
}

#[test]
fn warps_of_a_block_need_a_barrier_for_global_memory_too() {
    let exchange = |barrier: &str| {
        format!(
            "st.global.u32 [%rd3], %r1; {barrier} xor.b32 %r4, %r1, 32; mul.wide.u32 %rd4, %r4, 4;
                 add.u64 %rd4, %rd1, %rd4; ld.global.u32 %r5, [%rd4];"
        )
    };
    is_clean(&exchange("bar.sync 0;"), 1, 64);
    for barrier in ["", "bar.warp.sync 0xffffffff;"] {
        let fault = fault(&exchange(barrier), 1, 64);
        assert!(matches!(fault.kind, FaultKind::GlobalRace { same_block: true, .. }), "{fault}");
    }
}

#[test]
fn lanes_need_to_wait_for_each_other() {
    let shared = |sync: &str, volatile: &str| {
        format!("st{volatile}.shared.u32 [%r12], %r1; {sync} xor.b32 %r4, %r12, 4; ld{volatile}.shared.u32 %r5, [%r4];")
    };
    let all = "0xffffffff";
    for sync in [
        format!("bar.warp.sync {all};"),
        format!("shfl.sync.idx.b32 %r6, %r1, 0, 31, {all};"),
        format!("vote.sync.any.pred %p4, %p1, {all};"),
        "bar.sync 0;".to_owned(),
    ] {
        is_clean(&shared(&sync, ""), 1, 32);
    }
    between_lanes(&shared("", ""));
    between_lanes(&shared("membar.gl;", ""));
    between_lanes(&shared("", ".volatile"));
    // A warp that has diverged and come together has not waited.
    between_lanes(&shared("@%p1 bra J; add.u32 %r6, %r6, 1; J:", ""));
    let overwrite = |sync: &str| {
        format!(
            "st.shared.u32 [%r12], %r1; bar.warp.sync {all}; xor.b32 %r4, %r12, 4; ld.shared.u32 %r5, [%r4];
                 {sync} st.shared.u32 [%r12], %r5;"
        )
    };
    is_clean(&overwrite(&format!("bar.warp.sync {all};")), 1, 32);
    between_lanes(&overwrite(""));
    let global =
        |sync: &str| format!("st.global.u32 [%rd3], %r1; {sync} xor.b64 %rd4, %rd3, 4; ld.global.u32 %r5, [%rd4];");
    is_clean(&global(&format!("bar.warp.sync {all};")), 1, 32);
    between_lanes(&global(""));
}

/// Since Volta, the lanes of a warp may come to `__syncwarp` from different places.
#[test]
fn lanes_on_different_paths_wait_for_each_other() {
    // Odd lanes read what even lanes write, and then write what these read.
    let paths = |even: &str, odd: &str| {
        format!(
            "and.b32 %r4, %r1, 1; setp.eq.u32 %p3, %r4, 0; xor.b32 %r4, %r12, 4; @%p3 bra EVEN;
             {odd} ld.shared.u32 %r5, [%r4]; st.shared.u32 [%r12], %r5; bar.warp.sync 0xffffffff; bra JOIN;
             EVEN: add.u32 %r6, %r1, 100; st.shared.u32 [%r12], %r6; {even}
             bar.warp.sync 0xffffffff; ld.shared.u32 %r5, [%r4];
             JOIN: st.global.u32 [%rd3], %r5;"
        )
    };
    let sync = "bar.warp.sync 0xffffffff;";
    let words = Kernel::new(&paths(sync, sync)).words(1, 32, None);
    let word = |lane: usize| u32::from_le_bytes(words[4 * lane..][..4].try_into().expect("four bytes"));
    assert!((0..32).all(|lane| word(lane) == 100 + (lane as u32 & !1)));
    // Lanes that have ended are not waited for.
    is_clean(&format!("@%p1 ret; and.b32 %r4, %r1, 1; setp.eq.u32 %p3, %r4, 0; @%p3 ret; {sync}"), 1, 32);
    is_clean(&format!("setp.lt.u32 %p3, %r1, 16; @%p3 bra WAIT; add.u32 %r4, %r1, 1; exit; WAIT: {sync}"), 1, 32);
    // Those that have met at another place before are, but no longer come.
    let fault = fault(&format!("setp.lt.u32 %p3, %r1, 16; @!%p3 bra AFTER; {sync} AFTER: {sync}"), 1, 32);
    assert!(matches!(fault.kind, FaultKind::WrongMembers { opcode: "bar.warp.sync", active: 0xffff, .. }), "{fault}");
}

/// As `cooperative_groups::tiled_partition<16>` does.
#[test]
fn halves_of_a_warp_may_act_on_their_own() {
    let body = "and.b32 %r4, %r1, 16; mov.u32 %r5, 65535; shl.b32 %r5, %r5, %r4; bar.warp.sync %r5;
                setp.eq.u32 %p3, %r1, 17; vote.sync.ballot.b32 %r6, %p3, %r5; redux.sync.add.u32 %r7, %r1, %r5;
                elect.sync %r8|%p4, %r5; add.u32 %r6, %r6, %r7; add.u32 %r6, %r6, %r8; st.global.u32 [%rd3], %r6;";
    let words = Kernel::new(body).words(1, 32, None);
    let word = |lane: usize| u32::from_le_bytes(words[4 * lane..][..4].try_into().expect("four bytes"));
    assert_eq!((word(0), word(15), word(16), word(31)), (120, 120, (1 << 17) + 376 + 16, (1 << 17) + 376 + 16));
}

#[test]
fn rows_of_ldmatrix_come_from_other_lanes() {
    let rows = |sync: &str| {
        format!(
            "shl.b32 %r4, %r1, 4; add.u32 %r4, %r4, %r13; st.shared.v4.u32 [%r4], {{%r1, %r1, %r1, %r1}}; {sync}
                 ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r5, %r6, %r7, %r8}}, [%r4];
                 st.shared.u32 [%r12], %r5;"
        )
    };
    is_clean(&rows("bar.warp.sync 0xffffffff;"), 1, 32);
    between_lanes(&rows(""));
}

#[test]
fn lanes_that_store_to_one_address_must_store_the_same() {
    is_clean("st.shared.u32 [s], %r10; bar.warp.sync 0xffffffff; ld.shared.u32 %r4, [s];", 1, 32);
    between_lanes("st.shared.u32 [s], %r1;");
    between_lanes("st.global.u32 [%rd1], %r1;");
}

#[test]
fn a_random_order_reveals_dependence_on_the_order() {
    let dependent = [
        // Sums of floats.
        ".reg .f32 %f<2>; cvt.rn.f32.u32 %f1, %r3; mul.f32 %f1, %f1, 0f3DCCCCCD; red.global.add.f32 [%rd1], %f1;",
        // The order of arrival.
        "@!%p1 bra E; atom.global.add.u32 %r4, [%rd1], 1; st.global.u32 [%rd2+4], %r4; E:",
        // A counter whose load and store are not one, and a maximum whose exchange is not tried again.
        "@!%p1 bra E; ld.volatile.global.u32 %r4, [%rd1]; add.u32 %r4, %r4, 1; st.volatile.global.u32 [%rd1], %r4; E:",
        "@!%p1 bra E; ld.volatile.global.u32 %r4, [%rd1]; setp.gt.u32 %p3, %r2, %r4; @!%p3 bra E;
         atom.global.cas.b32 %r5, [%rd1], %r4, %r2; E:",
        // A lock whose test and set are not one.
        "@!%p1 bra E; L: ld.volatile.global.u32 %r4, [%rd1]; setp.ne.u32 %p3, %r4, 0; @%p3 bra L;
         st.volatile.global.u32 [%rd1], %r10; membar.gl; ld.volatile.global.u32 %r5, [%rd1+4]; add.u32 %r5, %r5, 1;
         st.volatile.global.u32 [%rd1+4], %r5; membar.gl; mov.u32 %r6, 0; st.volatile.global.u32 [%rd1], %r6; E:",
        // The place on the machine, and the launch.
        "mov.u32 %r4, %smid; st.global.u32 [%rd2], %r4;",
        "mov.u32 %r4, %warpid; st.global.u32 [%rd2], %r4;",
        "mov.u64 %rd4, %clock64; st.global.u64 [%rd1], %rd4;",
        "mov.u64 %rd4, %globaltimer; @!%p2 bra E; @!%p1 bra E; st.global.u64 [%rd1], %rd4; E:",
    ];
    for body in dependent {
        let (blocks, threads) = if body.contains("clock") { (1, 1) } else { (16, 64) };
        let mut kernel = Kernel::new(body);
        let first = kernel.words(blocks, threads, Some(1));
        let changes = (2..20).any(|seed| kernel.words(blocks, threads, Some(seed)) != first);
        assert!(changes, "{body}");
    }
    let mut gridid = Kernel::new("mov.u64 %rd4, %gridid; st.global.u64 [%rd1], %rd4;");
    assert_ne!(gridid.words(1, 1, None), gridid.words(1, 1, None));
    let independent = [
        "red.global.add.u32 [%rd3], %r3;",
        "@!%p1 bra E; ld.volatile.global.u32 %r4, [%rd1]; L: mov.u32 %r5, %r4; add.u32 %r6, %r5, 1;
         atom.global.cas.b32 %r4, [%rd1], %r5, %r6; setp.ne.u32 %p3, %r4, %r5; @%p3 bra L; E:",
        "@!%p1 bra E; mov.u32 %r7, 0; L: atom.global.cas.b32 %r4, [%rd1], %r7, %r10; setp.ne.u32 %p3, %r4, 0; @%p3 bra L;
         membar.gl; ld.volatile.global.u32 %r5, [%rd1+4]; add.u32 %r5, %r5, 1; st.volatile.global.u32 [%rd1+4], %r5; membar.gl;
         atom.global.exch.b32 %r8, [%rd1], %r7; E:",
    ];
    for body in independent {
        let mut kernel = Kernel::new(body);
        let expected = kernel.words(16, 64, None);
        assert!((0..10).all(|seed| kernel.words(16, 64, Some(seed)) == expected), "{body}");
    }
}

#[test]
fn blocks_that_fit_may_wait_for_each_other() {
    let barrier = "st.global.u32 [%rd2+256], %r3; membar.gl; bar.sync 0;
         @!%p1 bra W;
         red.global.add.u32 [%rd1], 1;
         L: ld.volatile.global.u32 %r4, [%rd1]; setp.lt.u32 %p3, %r4, %r11; @%p3 bra L;
         W: membar.gl; bar.sync 0;
         ld.global.u32 %r5, [%rd3+256];";
    is_clean(barrier, 24, 64);
    let kernel = Kernel::new(barrier);
    let options = Options { instruction_limit: 1_000_000, ..Options::default() };
    let Err(LaunchError::Fault(fault)) = kernel.launch(2000, 1024, &options) else { panic!("it was to wait") };
    assert!(matches!(fault.kind, FaultKind::Runaway { .. } | FaultKind::OutOfBounds { .. }), "{fault}");
}

#[test]
fn memory_of_a_copy_in_flight_must_not_be_accessed() {
    let in_flight = |body: &str, writes: bool| {
        let fault = fault(body, 1, 32);
        assert!(matches!(fault.kind, FaultKind::InFlight { writes: found, .. } if found == writes), "{fault}: {body}");
    };
    let copy = "shl.b32 %r4, %r1, 2; st.shared.u32 [%r12], %r1;
                cp.async.ca.shared.global [%r12], [%rd3], 4; cp.async.commit_group;";
    is_clean(&format!("{copy} cp.async.wait_group 0; ld.shared.u32 %r5, [%r12];"), 1, 32);
    in_flight(&format!("{copy} ld.shared.u32 %r5, [%r12]; cp.async.wait_group 0;"), true);
    in_flight(&format!("{copy} st.shared.u32 [%r12], %r1; cp.async.wait_group 0;"), true);
    in_flight(&format!("{copy} cp.async.wait_group 1; ld.shared.u32 %r5, [%r12];"), true);
    // The copies of other lanes need a __syncwarp, too.
    between_lanes(&format!("{copy} cp.async.wait_group 0; xor.b32 %r6, %r12, 4; ld.shared.u32 %r5, [%r6];"));

    let bulk = |parity: u32, wait: &str| {
        format!(
            ".shared .align 8 .b8 m[8]; mov.u32 %r4, m; mov.u32 %r6, {parity}; @!%p1 bra E;
             mbarrier.init.shared.b64 [%r4], 1; mbarrier.arrive.expect_tx.shared.b64 %rd4, [%r4], 64;
             cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r13], [%rd1], 64, [%r4];
             {wait} ld.shared.u32 %r5, [%r13+32]; E:"
        )
    };
    let wait = "L: mbarrier.try_wait.parity.shared.b64 %p3, [%r4], %r6; @!%p3 bra L;";
    is_clean(&bulk(0, wait), 1, 32);
    in_flight(&bulk(1, wait), true);
    in_flight(&bulk(0, ""), true);
}

#[test]
fn a_block_may_not_end_while_a_bulk_copy_uses_its_shared_memory() {
    let store = |end: &str| {
        format!(
            "st.shared.v4.u32 [%r13], {{%r1, %r1, %r1, %r1}}; fence.proxy.async.shared::cta;
             cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r13], 16; {end}"
        )
    };
    let committed = "cp.async.bulk.commit_group;";
    is_clean(&store(&format!("{committed} cp.async.bulk.wait_group.read 0;")), 1, 1);
    is_clean(&store(&format!("{committed} cp.async.bulk.wait_group 0; st.shared.u32 [%r13], %r1;")), 1, 1);
    for end in [committed, "cp.async.bulk.wait_group 0;"] {
        let fault = fault(&store(end), 1, 1);
        assert!(matches!(fault.kind, FaultKind::Abandoned { writes: false }), "{fault}: {end}");
    }
    let fault = fault(&store(&format!("{committed} st.shared.u32 [%r13], %r1; cp.async.bulk.wait_group 0;")), 1, 1);
    assert!(matches!(fault.kind, FaultKind::InFlight { writes: false, .. }), "{fault}");
}

#[test]
fn an_overlapping_launch_waits_before_it_reads() {
    let overlaps = Options { overlaps: true, ..Options::default() };
    let kernel = |wait: &str| {
        Kernel::new(&format!("{wait} ld.global.u32 %r4, [%rd2]; add.u32 %r4, %r4, 1; st.global.u32 [%rd2], %r4;"))
    };
    let waits = kernel("griddepcontrol.wait;");
    let forgets = kernel("griddepcontrol.launch_dependents;");
    for kernel in [&waits, &forgets] {
        kernel.launch(2, 32, &Options::default()).expect("it has no predecessor");
    }
    waits.launch(2, 32, &overlaps).expect("it waits");
    let Err(LaunchError::Fault(fault)) = forgets.launch(2, 32, &overlaps) else { panic!("it was to fault") };
    assert!(matches!(fault.kind, FaultKind::Undepended { access: Access::Read, .. }), "{fault}");
}

/// NVRTC 13.0 lets a machine convert to an 8-bit integer here. PTX says that the low byte of the half is stored.
#[test]
fn an_f16_is_stored_byte_by_byte_as_ptx_says() {
    let mut kernel = Kernel::new(
        ".reg .f32 %f<2>; mov.f32 %f1, 0f40490FDB; cvt.rn.f16.f32 %h1, %f1; st.global.u8 [%rd1], %h1;
         shr.u16 %h2, %h1, 8; st.global.u8 [%rd1+1], %h2;",
    );
    let expected = half::f16::from_f32(std::f32::consts::PI).to_le_bytes();
    assert_eq!(kernel.words(1, 1, None)[..2], expected);
}

/// The sum of a warp's numbers, of which the last 16 lanes have exited or take no part.
#[test]
fn lanes_that_take_no_part_in_a_shuffle_give_poison() {
    let exchange = |members: &str, offset: u32| {
        format!(
            "setp.ge.u32 %p3, %r1, 16; @%p3 bra E;
             shfl.sync.down.b32 %r4, %r10, {offset}, 31, {members}; st.global.u32 [%rd3+64], %r4;
             E:"
        )
    };
    let word = |kernel: &mut Kernel, order: Option<u64>, lane: usize| {
        let bytes = kernel.words(1, 32, order);
        u32::from_le_bytes(bytes[64 + 4 * lane..][..4].try_into().unwrap())
    };
    let mut short = Kernel::new(&exchange("0xffff", 8));
    assert_eq!([word(&mut short, None, 7), word(&mut short, None, 8)], [1, u32::MAX]);
    assert_ne!(word(&mut short, Some(1), 8), u32::MAX, "a maximum would ignore NaN");
    let options = Options { counters: false, ..Options::default() };
    let noted = |kernel: &Kernel| {
        let args = [kernel.data.to_le_bytes().to_vec()];
        let launch = Launch { grid: [1; 3], block: [32, 1, 1], cluster: [1; 3], dynamic_shared_bytes: 0, args: &args };
        kernel.gpu.launch(&kernel.module, "k", &launch, &options).expect("it is clean").absent_lane
    };
    let absent = noted(&short).expect("lanes 16 to 23 take no part");
    assert_eq!((absent.lane, absent.source), (8, 16));
    let whole = Kernel::new("shfl.sync.down.b32 %r4, %r10, 8, 31, 0xffffffff; st.global.u32 [%rd3+64], %r4;");
    assert_eq!(noted(&whole), None);
}

/// Block 0 stores data, and then a flag. The others wait for the flag and load the data, all by strong accesses.
fn message(fence: &str, publish: &str, poll: &str) -> String {
    format!(
        "@!%p1 bra E; mov.u32 %r6, 7; @!%p2 bra W;
         st.volatile.global.u32 [%rd1+256], %r6; {fence} {publish} bra E;
         W: {poll} setp.eq.u32 %p3, %r4, 0; @%p3 bra W;
         ld.volatile.global.u32 %r5, [%rd1+256];
         st.global.u32 [%rd2+512], %r5;
         E:"
    )
}

#[test]
fn a_message_by_strong_stores_needs_a_fence_of_the_writer() {
    let flag = "st.volatile.global.u32 [%rd1+128], %r10;";
    let count = "red.global.add.u32 [%rd1+128], 1;";
    let (load, add) = ("ld.volatile.global.u32 %r4, [%rd1+128];", "atom.global.or.b32 %r4, [%rd1+128], 0;");
    let exchange = "atom.global.exch.b32 %r5, [%rd1+256], %r6;";
    // The data may be of atomics, too.
    let stores = |body: &str| [body.to_owned(), body.replace("st.volatile.global.u32 [%rd1+256], %r6;", exchange)];
    for (publish, poll) in [(flag, load), (count, load), (count, add), (flag, add)] {
        for body in ["", "membar.cta;"].iter().flat_map(|fence| stores(&message(fence, publish, poll))) {
            let fault = fault(&body, 4, 32);
            let place = (&fault.instruction[..], fault.block[0]);
            assert!(matches!(fault.kind, FaultKind::Unpublished { other_block: [0, 0, 0], .. }), "{fault}: {body}");
            assert_eq!(place, ("ld.volatile.global.u32 %r5, [%rd1+256];", 1), "{fault}: {body}");
        }
        stores(&message("membar.gl;", publish, poll)).iter().for_each(|body| is_clean(body, 4, 32));
    }
    // Who has seen the data before the flag does not see older ones afterwards.
    let first = "V: ld.volatile.global.u32 %r5, [%rd1+256]; setp.ne.u32 %p3, %r5, 7; @%p3 bra V; W:";
    is_clean(&message("", flag, load).replace("W: ld", &format!("{first} ld")).replacen("bra W", "bra V", 1), 4, 32);
    is_clean(&message("", "st.release.gpu.global.u32 [%rd1+128], %r10;", load), 4, 32);
    // Who finds the old data polls again, so each word may be a message of its own.
    let polled = message("", flag, load)
        .replace("st.global.u32 [%rd2+512]", "setp.ne.u32 %p3, %r5, 7; @%p3 bra W; st.global.u32 [%rd2+512]");
    is_clean(&polled, 4, 32);
    let mut kernel = Kernel::new(&polled);
    let words = kernel.words(4, 32, None);
    assert_eq!(&words[512 + 128..][..4], 7u32.to_le_bytes());
}

/// A plain load may find an old line in L1, in the thread that has read the flag as well as behind a barrier.
#[test]
fn a_plain_load_after_a_flag_needs_a_fence_of_the_reader() {
    let (flag, exchange) = ("st.volatile.global.u32 [%rd1+128], %r10;", "atom.global.exch.b32 %r5, [%rd1+128], %r10;");
    let (load, add) = ("ld.volatile.global.u32 %r4, [%rd1+128];", "atom.global.or.b32 %r4, [%rd1+128], 0;");
    for (publish, poll) in [(flag, load), (exchange, load), (flag, add), (exchange, add)] {
        let plain = |poll: &str| {
            message("membar.gl;", publish, poll).replace("ld.volatile.global.u32 %r5, ", "ld.global.u32 %r5, ")
        };
        let fault = fault(&plain(poll), 4, 32);
        assert!(matches!(fault.kind, FaultKind::Unacquired { other_block: [0, 0, 0], .. }), "{fault}");
        is_clean(&plain(&format!("{poll} membar.gl;")), 4, 32);
    }
    let acquired =
        message("", "st.release.gpu.global.u32 [%rd1+128], %r10;", "ld.acquire.gpu.global.u32 %r4, [%rd1+128];");
    is_clean(&acquired.replace("ld.volatile.global.u32 %r5, ", "ld.global.u32 %r5, "), 4, 32);
}

#[test]
fn what_a_launch_writes_may_not_be_read_through_the_read_only_path() {
    let body = "st.global.u32 [%rd2+256], %r3; ld.global.nc.u32 %r5, [%rd2+256];";
    let fault = fault(body, 1, 32);
    assert!(matches!(fault.kind, FaultKind::ReadOnly { .. }), "{fault}");
    is_clean(&body.replace("[%rd2+256], %r3", "[%rd2+512], %r3"), 2, 32);
    is_clean(&body.replace(".nc", ""), 2, 32);
}
