//! The interpreter: runs one warp until it ends or has to wait.

use super::env::Env;
use super::groups::Groups;
use super::lane_fault::{LaneFault, Origin, Step};
use super::lanes::{LANES, W32, lanes_of, w32, w64};
use super::run::Run;
use super::warp::Warp;
use super::{
    atomics, bulk, cluster_address, compare, complete, copies, global_races, matrix, pack, sync, tensor, warp_ops,
};
use crate::fault::FaultKind;
use crate::program::{BarOp, Instruction, LaneSpecial, Op, Slot};

/// Instructions after which a warp yields: it may spin on memory that another warp is about to write.
const SLICE: u64 = 1 << 16;

/// The same where it may wait for another block.
const SHORT_SLICE: u64 = 1 << 12;

/// The reason why a warp paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pause {
    /// All its lanes have exited.
    Done,
    /// It arrived at a block barrier and waits. Holds the index of the barrier; `pc` is already after it.
    Barrier(u32),
    /// It arrived at a block barrier and continues. Holds the index of the barrier.
    Arrived(u32),
    /// It will execute its current instruction again after a change of state.
    Waiting,
    /// It can continue, but others may run first.
    Slice,
}

/// How a warp continues after an instruction.
enum Next {
    /// With the next instruction.
    Fall,
    /// At the `pc` that the instruction set.
    Jumped,
    /// It pauses; `pc` is set.
    Pause(Pause),
}

/// Runs a warp until it pauses, with the vector width of `G`. `board` is the warp's scoreboard.
pub(crate) fn run<G: Groups>(warp: &mut Warp, env: &mut Env<'_>, board: usize) -> Step<Pause> {
    let run = env.run;
    let instructions = &run.kernel.instructions[..];
    // A warp that often waits never comes to the end of a slice.
    if is_beyond_limit(warp, run) {
        return runaway(warp, run);
    }
    env.slice_end = warp.executed + if run.talks { SHORT_SLICE } else { SLICE };
    loop {
        if warp.is_at_reconvergence() {
            if !warp.resume() {
                return ended(warp, env);
            }
            continue;
        }
        if warp.executed >= env.slice_end {
            return if is_beyond_limit(warp, run) { runaway(warp, run) } else { Ok(Pause::Slice) };
        }
        warp.executed += 1;
        let index = warp.pc;
        env.pc = index;
        // The end of the text is an exit.
        let Some(instruction) = instructions.get(index as usize) else {
            if !warp.exit(warp.active) {
                return ended(warp, env);
            }
            continue;
        };
        let mask = warp.active & warp.predicate_or_not(instruction.guard, instruction.guard_negated);
        let next = if mask == 0 && !matches!(instruction.op, Op::Branch { .. }) {
            Next::Fall
        } else {
            execute::<G>(warp, env, instruction, index, mask)?
        };
        if run.options.counters && !matches!(next, Next::Pause(Pause::Waiting)) {
            env.tally.issue(run, board, index as usize, mask);
        }
        match next {
            Next::Fall => warp.pc += 1,
            Next::Jumped => {}
            Next::Pause(Pause::Done) => return ended(warp, env),
            Next::Pause(pause) => return Ok(pause),
        }
    }
}

/// Returns how a warp ends of which no lane can run: lanes may still wait for others at a `bar.warp.sync`.
#[cold]
fn ended(warp: &Warp, env: &Env<'_>) -> Step<Pause> {
    let Some((active, pc, members)) = warp.gathered() else { return Ok(Pause::Done) };
    let mut fault = LaneFault::of(active, FaultKind::WrongMembers { opcode: "bar.warp.sync", members, active });
    fault.origin = Some(Origin { rank: env.rank, warp: warp.index, pc, lane: fault.lane });
    Err(fault)
}

fn is_beyond_limit(warp: &Warp, run: &Run<'_>) -> bool {
    warp.executed + warp.product_instructions > run.options.instruction_limit
}

#[cold]
fn runaway(warp: &Warp, run: &Run<'_>) -> Step<Pause> {
    let limit = run.options.instruction_limit;
    Err(LaneFault::of(warp.active, FaultKind::Runaway { limit }))
}

/// Executes one instruction in the lanes of `mask`, which is empty only for branches.
#[inline(always)]
fn execute<G: Groups>(
    warp: &mut Warp,
    env: &mut Env<'_>,
    instruction: &Instruction,
    index: u32,
    mask: u32,
) -> Step<Next> {
    let op = &instruction.op;
    match *op {
        Op::Mov { .. } => G::mov(warp, env, op, mask)?,
        Op::Unary { .. } => G::unary(warp, env, op, mask)?,
        Op::Binary { .. } => G::binary(warp, env, op, mask)?,
        Op::Ternary { .. } => G::ternary(warp, env, op, mask)?,
        Op::Setp { .. } => G::setp(warp, env, op, mask)?,
        Op::Selp { .. } => G::selp(warp, env, op, mask)?,
        Op::Cvt { .. } => G::cvt(warp, env, op, mask)?,
        Op::Ld { .. } => G::load(warp, env, op, mask)?,
        Op::St { .. } => G::store(warp, env, op, mask)?,
        Op::Shfl { .. } => G::shfl(warp, env, op, mask)?,
        Op::Mma(ref mma) => {
            warp.product_instructions += mma.multiply_adds() / LANES as u64;
            G::mma(warp, env, op, mask)?;
        }
        Op::Pred { op, d, a, b } => {
            let value = compare::combine_predicates(op, warp.predicate(a), warp.predicate(b));
            warp.set_predicate(d, value, mask);
        }
        Op::Branch { target, .. } => {
            let diverged = warp.branch(mask, target, instruction.reconverge);
            env.tally.counters.divergent_branches += u64::from(diverged);
            return Ok(Next::Jumped);
        }
        _ => return execute_rare(warp, env, instruction, index, mask),
    }
    Ok(Next::Fall)
}

/// Executes instructions that are not in inner loops, or so slow that a call does not matter.
#[inline(never)]
fn execute_rare(warp: &mut Warp, env: &mut Env<'_>, instruction: &Instruction, index: u32, mask: u32) -> Step<Next> {
    let op = &instruction.op;
    match *op {
        Op::Special { d, wide, which } => special(warp, env, (d, wide, which), mask),
        Op::Pack { .. } | Op::Unpack { .. } => pack::execute(warp, env, op, mask),
        Op::Bfi { .. } | Op::Carry { .. } | Op::MadCarry { .. } => pack::execute(warp, env, op, mask),
        Op::Set { .. } => compare::set(warp, env, op, mask),
        Op::Slct { .. } => compare::slct(warp, env, op, mask),
        Op::IsSpace { space, d, a } => compare::is_space(warp, env, space, d, a, mask),
        Op::Atom { .. } => {
            atomics::atom(warp, env, op, mask)?;
            if env.draws.has_drawn() {
                warp.pc += 1;
                return Ok(Next::Pause(Pause::Slice));
            }
        }
        Op::Vote { .. } => warp_ops::vote(warp, env, op, mask)?,
        Op::Match { .. } => warp_ops::match_lanes(warp, env, op, mask)?,
        Op::Redux { .. } => warp_ops::redux(warp, env, op, mask)?,
        Op::ActiveMask { d } => warp.set32(d, &W32::splat(mask), mask),
        Op::Elect { d, p, members } => warp_ops::elect(warp, env, (d, p, members), mask)?,
        Op::WarpSync { members } => {
            if !warp_ops::warp_sync(warp, env, members, mask)? {
                return Ok(Next::Pause(Pause::Done));
            }
            return Ok(Next::Jumped);
        }
        Op::LdMatrix { count, transpose, ref d, ref addr } => {
            matrix::load_matrix(warp, env, (count, transpose, d), addr, mask)?;
        }
        Op::StMatrix { count, transpose, ref s, ref addr } => {
            matrix::store_matrix(warp, env, (count, transpose, s), addr, mask)?;
        }
        Op::CpAsync { bytes, source_bytes, ignore, ref shared, ref global } => {
            copies::issue(warp, env, (bytes, source_bytes, ignore), (shared, global), mask)?;
        }
        Op::CpAsyncCommit => copies::commit(warp),
        Op::CpAsyncWait { groups } => copies::wait(warp, env, groups)?,
        Op::CpAsyncMbarrierArrive { ref addr, noinc } => sync::arrive_after_copies(warp, env, addr, noinc, mask)?,
        Op::Bulk { ref op, ref to, ref from, bytes } => bulk::issue(warp, env, op, (to, from), bytes, mask)?,
        Op::BulkCommit => warp.bulk_groups += 1,
        Op::BulkWait { groups, .. } => complete::wait(env, warp, groups)?,
        Op::Mapa { .. } | Op::GetCtaRank { .. } => cluster_address::execute(warp, env, op, mask),
        Op::Mbarrier { ref op, ref addr } => {
            if !sync::mbarrier(warp, env, op, addr, mask)? {
                return Ok(Next::Pause(Pause::Waiting));
            }
        }
        Op::ClusterArrive | Op::ClusterWait if mask != warp.live => {
            return Err(unmodelled(mask, "barrier.cluster by a part of a warp"));
        }
        Op::ClusterArrive => {
            warp.cluster_arrivals += 1;
            env.tally.arrive_at_cluster(env.place(warp), warp.cluster_arrivals);
            if let Some(races) = &mut env.memories[env.rank].races {
                races.release_to_cluster(warp.index);
                races.order.release_far(warp.index, &mut env.across);
            }
        }
        Op::ClusterWait => {
            if !env.has_cluster_arrived(warp.cluster_arrivals) {
                return Ok(Next::Pause(Pause::Waiting));
            }
            let latency = env.run.gpu.latencies.cluster_barrier(env.run.warps);
            env.tally.pass_cluster(env.place(warp), warp.cluster_arrivals, latency);
            if let Some(races) = &mut env.memories[env.rank].races {
                races.acquire_from_cluster(warp.index);
                races.order.acquire(warp.index, &env.across);
            }
        }
        Op::Bar { op, aligned, .. } => return barrier(warp, op, aligned, index, mask),
        Op::BranchIndexed { index: selector, ref targets } => {
            branch_indexed(warp, env, (selector, targets), instruction.reconverge, mask)?;
            return Ok(Next::Jumped);
        }
        Op::Exit => return Ok(exit(warp, mask)),
        Op::Trap => return Err(LaneFault::of(mask, FaultKind::Trap)),
        Op::TooDeep { deepest } => {
            return Err(unmodelled(mask, &format!("a function that calls itself more than {deepest} times")));
        }
        Op::Assert { .. } | Op::Print { .. } | Op::Malloc { .. } | Op::Free { .. } => {
            super::call::execute(warp, env, op, mask)?
        }
        Op::Fence { asynchronous: true, .. } => {
            if let Some(proxies) = &mut env.memories[env.rank].proxies {
                proxies.fence(warp.index);
            }
        }
        Op::Fence { wide: true, .. } => {
            if let Some(races) = env.memories[env.rank].races.as_mut().filter(|_| env.run.talks) {
                races.order.fence(warp.index, &global_races::flags(env.run));
            }
        }
        Op::GridWait => env.waited[env.rank] = true,
        Op::Fence { .. } | Op::Nop | Op::WgmmaFence => {}
        Op::BulkTensor(ref copy) => tensor::issue(warp, env, copy, mask)?,
        Op::Wgmma(ref wgmma) => {
            if !super::wgmma::issue(warp, env, wgmma, mask)? {
                return Ok(Next::Pause(Pause::Waiting));
            }
            warp.product_instructions += wgmma.multiply_adds() / LANES as u64;
        }
        Op::WgmmaCommit => warp.products.commit(),
        Op::WgmmaWait { groups } => super::wgmma::wait(warp, env, groups),
        // `execute` handles these.
        Op::Mov { .. } | Op::Unary { .. } | Op::Binary { .. } | Op::Ternary { .. } | Op::Setp { .. } => {}
        Op::Selp { .. } | Op::Pred { .. } | Op::Cvt { .. } | Op::Ld { .. } | Op::St { .. } => {}
        Op::Shfl { .. } | Op::Mma(_) | Op::Branch { .. } => {}
    }
    Ok(Next::Fall)
}

fn unmodelled(mask: u32, name: &str) -> Box<LaneFault> {
    LaneFault::of(mask, FaultKind::NotModelled(name.to_owned()))
}

fn exit(warp: &mut Warp, mask: u32) -> Next {
    if warp.exit(mask) { Next::Jumped } else { Next::Pause(Pause::Done) }
}

/// Arrives at a barrier. The block decides when the warp continues.
fn barrier(warp: &mut Warp, op: BarOp, aligned: bool, index: u32, mask: u32) -> Step<Next> {
    if mask != warp.live {
        let (active, live) = (mask.count_ones(), warp.live.count_ones());
        if !aligned {
            return Err(unmodelled(mask, "barrier in divergent code without .aligned"));
        }
        return Err(LaneFault::of(mask, FaultKind::DivergentBarrier { active, live }));
    }
    warp.pc += 1;
    Ok(Next::Pause(if op == BarOp::Arrive { Pause::Arrived(index) } else { Pause::Barrier(index) }))
}

fn branch_indexed(
    warp: &mut Warp,
    env: &Env<'_>,
    (selector, targets): (Slot, &[u32]),
    reconverge: u32,
    mask: u32,
) -> Step<()> {
    let selector = *env.get32(warp, selector);
    let mut paths: Vec<(u32, u32)> = Vec::new();
    for lane in lanes_of(mask) {
        let Some(&target) = targets.get(selector.0[lane] as usize) else {
            let message = format!("brx.idx with index {} of {} targets", selector.0[lane], targets.len());
            return Err(LaneFault::at(lane, FaultKind::Invalid(message)));
        };
        match paths.iter_mut().find(|path| path.1 == target) {
            Some(path) => path.0 |= 1 << lane,
            None => paths.push((1 << lane, target)),
        }
    }
    let rest = warp.active & !mask;
    if rest != 0 {
        paths.push((rest, warp.pc + 1));
    }
    match paths[..] {
        [(_, target)] => warp.pc = target,
        _ => warp.diverge(&paths, reconverge),
    }
    Ok(())
}

fn special(warp: &mut Warp, env: &Env<'_>, (d, wide, which): (Slot, bool, LaneSpecial), mask: u32) {
    let run = env.run;
    let [x, y, _] = run.launch.block;
    // With a random order, a block's warps are anywhere on their multiprocessor, and so is its clock.
    let chance = if matches!(which, LaneSpecial::ThreadIndex(_)) { 0 } else { run.chance(env.block()) };
    let slots = u64::from(run.gpu.max_threads_per_multiprocessor / 32 / run.warps.max(1)).max(1);
    let slot = chance % slots;
    let thread = |lane: usize| warp.first_thread + lane as u32;
    let value = |lane: usize| -> u64 {
        match which {
            LaneSpecial::ThreadIndex(0) => (thread(lane) % x).into(),
            LaneSpecial::ThreadIndex(1) => (thread(lane) / x % y).into(),
            LaneSpecial::ThreadIndex(_) => (thread(lane) / (x * y)).into(),
            LaneSpecial::LaneId => lane as u64,
            LaneSpecial::WarpId => u64::from(warp.index) + slot * u64::from(run.warps),
            LaneSpecial::LaneMaskEq => 1 << lane,
            LaneSpecial::LaneMaskLe => (2u64 << lane) - 1,
            LaneSpecial::LaneMaskLt => (1u64 << lane) - 1,
            LaneSpecial::LaneMaskGe => u64::from(u32::MAX << lane),
            LaneSpecial::LaneMaskGt => u64::from(u32::MAX << lane) & !(1 << lane),
            LaneSpecial::Clock | LaneSpecial::Clock64 => warp.executed + chance % (1 << 40),
            LaneSpecial::GlobalTimer => warp.executed + (run.launches << 20) + chance % (1 << 20),
        }
    };
    if wide {
        warp.set64(d, &w64!(lane => value(lane)), mask);
    } else {
        warp.set32(d, &w32!(lane => value(lane) as u32), mask);
    }
}
