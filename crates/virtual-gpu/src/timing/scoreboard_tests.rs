use super::*;
use crate::gpu::Gpu;
use crate::program::{
    Address, Binary, CONSTANT, Instruction, Kernel, Mods, NONE, Op, Semantics, Slot, Space, TRUE, Ternary, Ty, Unary,
};

fn kernel(ops: Vec<Op>) -> Kernel {
    let line = |op| Instruction { op, guard: TRUE, guard_negated: false, reconverge: 0, line: 1 };
    Kernel {
        name: "k".into(),
        params: Vec::new(),
        param_bytes: 0,
        instructions: ops.into_iter().map(line).collect(),
        constants32: Vec::new(),
        constants64: Vec::new(),
        slots32: 16,
        slots64: 16,
        predicates: 4,
        static_shared_bytes: 0,
        dynamic_align: 16,
        local_bytes: 0,
        max_threads: None,
        required_block: None,
        required_cluster: None,
        writes_to: None,
        talks: false,
        not_modelled: None,
    }
}

fn add(d: Slot, a: Slot, b: Slot) -> Op {
    Op::Binary { op: Binary::Add, ty: Ty::F32, mods: Mods::default(), d, a, b }
}

fn load(d: Slot, base: Slot) -> Op {
    let mut registers = [NONE; 8];
    registers[0] = d;
    let addr = Address { base, wide: true, offset: 0 };
    Op::Ld {
        space: Space::Shared,
        ty: Ty::F32,
        count: 1,
        read_only: false,
        semantics: Semantics::WEAK,
        d: registers,
        addr,
    }
}

fn run(ops: Vec<Op>) -> Times {
    let kernel = kernel(ops);
    let mut board = Scoreboard::new(Layout::of(&kernel));
    for prepared in Prepared::all(&kernel, &Gpu::h200()) {
        board.issue(&prepared, 0, 0);
    }
    board.now()
}

#[test]
fn a_chain_takes_its_latencies_in_any_order() {
    let times = run(vec![add(0, 0, 1), add(0, 0, 1), add(0, 0, 1)]);
    assert_eq!(times, Times { in_order: 12, dataflow: 12 });
}

#[test]
fn independent_instructions_issue_one_by_one() {
    let times = run((0..8).map(|d| add(d, 8, 9)).collect());
    assert_eq!(times.in_order, 7 + 4);
    assert_eq!(times.dataflow, 8, "all could start at once, but they are eight issue slots");
}

#[test]
fn the_dataflow_lets_a_late_load_start_early() {
    let late = run(vec![load(0, 0), add(1, 0, 0), load(2, 0), add(3, 2, 2)]);
    assert_eq!(late.in_order, 29 + 1 + 29 + 4, "the second load issues after the first addition");
    assert_eq!(late.dataflow, 29 + 4);
}

#[test]
fn a_pipe_serves_one_warp_instruction_at_a_time() {
    let ex2 = |d| Op::Unary { op: Unary::Ex2, ty: Ty::F32, mods: Mods { ftz: true, ..Mods::default() }, d, a: 8 };
    let times = run((0..4).map(ex2).collect());
    assert_eq!(times.in_order, 3 * 8 + 18);
    assert_eq!(times.dataflow, 4 * 8);
}

#[test]
fn moves_are_free_and_constants_are_ready() {
    let moves = (0..4).map(|d| Op::Mov { ty: Ty::B32, d, a: CONSTANT }).collect();
    assert_eq!(run(moves), Times::default());
}

#[test]
fn files_do_not_alias() {
    let wide = Op::Binary { op: Binary::Add, ty: Ty::U64, mods: Mods::default(), d: 0, a: 0, b: 0 };
    let times = run(vec![wide, add(1, 0, 0)]);
    assert_eq!(times.in_order, 8, "the addition of 32 bits does not wait for the 64-bit slot 0");
}

#[test]
fn a_barrier_joins_warps_and_keeps_later_loads_behind() {
    let kernel = kernel(vec![load(0, 0)]);
    let loads = Prepared::all(&kernel, &Gpu::h200());
    let mut early = Scoreboard::new(Layout::of(&kernel));
    early.issue(&loads[0], 0, 0);
    early.barrier(Times { in_order: 500, dataflow: 400 });
    early.issue(&loads[0], 3, 200);
    assert_eq!(early.now(), Times { in_order: 500 + 29 + 203, dataflow: 400 + 29 + 203 });
}

#[test]
fn a_group_of_copies_is_waited_for() {
    let shared = Address { base: 0, wide: false, offset: 0 };
    let global = Address { base: 0, wide: true, offset: 0 };
    let copy = || Op::CpAsync { bytes: 16, source_bytes: NONE, ignore: NONE, shared, global };
    let groups = |n| Op::CpAsyncWait { groups: Some(n) };
    let first = vec![copy(), Op::CpAsyncCommit, copy(), Op::CpAsyncCommit];
    let one = run([first.clone(), vec![groups(1), add(0, 1, 2)]].concat());
    let both = run([first, vec![groups(0), add(0, 1, 2)]].concat());
    assert_eq!(one.in_order, 40 + 4);
    assert_eq!(both.in_order, 41 + 4);
}

#[test]
fn totals_survive_barriers() {
    let kernel = kernel(vec![load(0, 0), add(1, 2, 3)]);
    let mut board = Scoreboard::new(Layout::of(&kernel));
    for _ in 0..3 {
        Prepared::all(&kernel, &Gpu::h200()).iter().for_each(|prepared| board.issue(prepared, 1, 0));
        board.barrier(board.arrive());
    }
    let totals = board.totals();
    assert_eq!(totals.issue_slots, 6);
    assert_eq!(totals.pipe_cycles[Pipe::Lsu as usize], 6, "a second wavefront each time");
}

#[test]
fn multiply_adds_read_three_registers() {
    let fma = Op::Ternary { op: Ternary::Mad, ty: Ty::F32, mods: Mods::default(), d: 3, a: 0, b: 1, c: 2 };
    assert_eq!(run(vec![add(2, 4, 5), fma]).in_order, 8);
}

#[test]
#[ignore = "a measurement: cargo test --release -p virtual-gpu -- --ignored --nocapture issue_costs"]
fn issue_costs_a_few_nanoseconds() {
    let fma = |d: Slot| Op::Ternary { op: Ternary::Mad, ty: Ty::F32, mods: Mods::default(), d, a: d + 1, b: 9, c: d };
    let kernel = kernel((0..8).flat_map(|d| [fma(d), load(d + 1, 0)]).collect());
    let prepared = Prepared::all(&kernel, &Gpu::h200());
    let mut board = Scoreboard::new(Layout::of(&kernel));
    let (start, rounds) = (std::time::Instant::now(), 1_000_000);
    for _ in 0..rounds {
        prepared.iter().for_each(|prepared| board.issue(prepared, 0, 0));
    }
    let issued = rounds * prepared.len();
    println!("{:.2} ns per instruction, at {:?}", start.elapsed().as_nanos() as f64 / issued as f64, board.now());
}
