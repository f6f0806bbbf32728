//! The interpreter: runs one warp until it ends or has to wait.

use super::env::{Env, Run, Step, Trouble};
use super::lanes::{W32, W64, lanes_of};
use super::warp::Warp;
use super::{access, alu, atomics, cluster, compare, copies, matrix, pack, sync, transfer, warp_ops};
use crate::fault::FaultKind;
use crate::program::{BarOp, Binary, Instruction, LaneSpecial, Op, Slot, Ternary, Ty, Unary};

/// Instructions after which a warp lets others run: it may spin on memory that another is about to write.
const SLICE: u64 = 1 << 16;

/// Why a warp stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pause {
    /// All its lanes have exited.
    Done,
    /// It arrived at a block barrier and waits: the index of the instruction, which is behind it.
    Barrier(u32),
    /// It arrived at a block barrier and goes on: the index of the instruction.
    Arrived(u32),
    /// It is at an instruction that it will execute again when something has changed.
    Waiting,
    /// Others may run; it can go on.
    Slice,
}

/// What becomes of the warp after an instruction.
enum Next {
    /// The next instruction.
    Fall,
    /// It set its own `pc`.
    Jumped,
    /// It pauses; `pc` is set.
    Pause(Pause),
}

/// Runs a warp until it pauses. `board` is its scoreboard.
///
/// Inlined into functions that differ in their vector width only (`dispatch`).
#[inline(always)]
pub(crate) fn run(warp: &mut Warp, env: &mut Env<'_>, board: usize) -> Step<Pause> {
    let run = env.run;
    let instructions = &run.kernel.instructions[..];
    let slice_end = warp.executed + SLICE;
    loop {
        if warp.is_at_reconvergence() {
            if !warp.resume() {
                return Ok(Pause::Done);
            }
            continue;
        }
        if warp.executed >= slice_end {
            return check_limit(warp, run);
        }
        warp.executed += 1;
        let index = warp.pc;
        // The end of the text is an exit.
        let Some(instruction) = instructions.get(index as usize) else {
            if !warp.exit(warp.active) {
                return Ok(Pause::Done);
            }
            continue;
        };
        let mask = warp.active & warp.predicate_or_not(instruction.guard, instruction.guard_negated);
        let next = if mask == 0 && !matches!(instruction.op, Op::Branch { .. }) {
            Next::Fall
        } else {
            execute(warp, env, instruction, index, mask)?
        };
        if run.options.counters && !matches!(next, Next::Pause(Pause::Waiting)) {
            env.tally.issue(run, board, index as usize, mask);
        }
        match next {
            Next::Fall => warp.pc += 1,
            Next::Jumped => {}
            Next::Pause(pause) => return Ok(pause),
        }
    }
}

#[cold]
fn check_limit(warp: &Warp, run: &Run<'_>) -> Step<Pause> {
    let limit = run.options.instruction_limit;
    if warp.executed > limit { Err(Trouble::of(warp.active, FaultKind::Runaway { limit })) } else { Ok(Pause::Slice) }
}

/// Executes one instruction in the lanes of `mask`, which is empty only for branches.
#[inline(always)]
fn execute(warp: &mut Warp, env: &mut Env<'_>, instruction: &Instruction, index: u32, mask: u32) -> Step<Next> {
    let op = &instruction.op;
    match *op {
        Op::Mov { ty, d, a } => mov(warp, env, ty, d, a, mask),
        Op::Unary { op, ty, mods, d, a } => {
            if ty.bits() == 64 {
                let value = alu::unary64(op, ty, mods, env.get64(warp, a));
                if matches!(op, Unary::Popc | Unary::Clz | Unary::Bfind { .. }) {
                    warp.set32(d, &W32::from_fn(|lane| value.0[lane] as u32), mask);
                } else {
                    warp.set64(d, &value, mask);
                }
            } else {
                let value = alu::unary32(op, ty, mods, env.get32(warp, a));
                warp.set32(d, &value, mask);
            }
        }
        Op::Binary { op, ty, mods, d, a, b } => match (op, ty.bits()) {
            (Binary::MulWide, 32) => {
                let value = alu::multiply_wide(ty.is_signed(), env.get32(warp, a), env.get32(warp, b));
                warp.set64(d, &value, mask);
            }
            (Binary::Shl | Binary::Shr, 64) => {
                let value = alu::shift64(op, ty, env.get64(warp, a), env.get32(warp, b));
                warp.set64(d, &value, mask);
            }
            (_, 64) => {
                let value = alu::binary64(op, ty, mods, env.get64(warp, a), env.get64(warp, b));
                warp.set64(d, &value, mask);
            }
            _ => {
                let value = alu::binary32(op, ty, mods, env.get32(warp, a), env.get32(warp, b));
                warp.set32(d, &value, mask);
            }
        },
        Op::Ternary { op, ty, mods, d, a, b, c } => match (op, ty.bits()) {
            (Ternary::MadWide, 32) => {
                let product = alu::multiply_wide(ty.is_signed(), env.get32(warp, a), env.get32(warp, b));
                let c = env.get64(warp, c);
                let value = W64::from_fn(|lane| product.0[lane].wrapping_add(c.0[lane]));
                warp.set64(d, &value, mask);
            }
            (Ternary::Bfe, 64) => {
                let (pos, len) = (env.get32(warp, b), env.get32(warp, c));
                let (pos, len) = (W64::from_fn(|l| pos.0[l].into()), W64::from_fn(|l| len.0[l].into()));
                let value = alu::ternary64(op, ty, mods, env.get64(warp, a), &pos, &len);
                warp.set64(d, &value, mask);
            }
            (_, 64) => {
                let value = alu::ternary64(op, ty, mods, env.get64(warp, a), env.get64(warp, b), env.get64(warp, c));
                warp.set64(d, &value, mask);
            }
            _ => {
                let value = alu::ternary32(op, ty, mods, env.get32(warp, a), env.get32(warp, b), env.get32(warp, c));
                warp.set32(d, &value, mask);
            }
        },
        Op::Setp { .. } => compare::setp(warp, env, op, mask),
        Op::Selp { ty, d, a, b, p } => compare::selp(warp, env, (ty, d, a, b, p), mask),
        Op::Pred { op, d, a, b } => {
            let value = compare::combine_predicates(op, warp.predicate(a), warp.predicate(b));
            warp.set_predicate(d, value, mask);
        }
        Op::Cvt { .. } => compare::cvt(warp, env, op, mask),
        Op::Ld { space, ty, count, ref d, ref addr, volatile, .. } => {
            env.volatile = volatile;
            access::load(warp, env, (space, ty, count), d, addr, mask)?;
        }
        Op::St { space, ty, count, ref s, ref addr, volatile } => {
            env.volatile = volatile;
            access::store(warp, env, (space, ty, count), s, addr, mask)?;
        }
        Op::Shfl { .. } => warp_ops::shfl(warp, env, op, mask)?,
        Op::Mma(ref mma) => matrix::mma(warp, env, mma, mask)?,
        Op::Branch { target, .. } => {
            let diverged = warp.branch(mask, target, instruction.reconverge);
            env.tally.counters.divergent_branches += u64::from(diverged);
            return Ok(Next::Jumped);
        }
        _ => return execute_rare(warp, env, instruction, index, mask),
    }
    Ok(Next::Fall)
}

#[inline(always)]
fn mov(warp: &mut Warp, env: &Env<'_>, ty: Ty, d: Slot, a: Slot, mask: u32) {
    match ty.bits() {
        1 => warp.set_predicate(d, warp.predicate(a), mask),
        64 => {
            let value = *env.get64(warp, a);
            warp.set64(d, &value, mask);
        }
        _ => {
            let value = *env.get32(warp, a);
            warp.set32(d, &value, mask);
        }
    }
}

/// Executes what is not in an inner loop, or takes so long that a call does not matter.
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
        Op::Atom { .. } => atomics::atom(warp, env, op, mask)?,
        Op::Vote { .. } => warp_ops::vote(warp, env, op, mask)?,
        Op::Match { .. } => warp_ops::match_lanes(warp, env, op, mask)?,
        Op::Redux { .. } => warp_ops::redux(warp, env, op, mask)?,
        Op::ActiveMask { d } => warp.set32(d, &W32::splat(mask), mask),
        Op::Elect { d, p, members } => warp_ops::elect(warp, env, (d, p, members), mask)?,
        Op::WarpSync { members } => warp_ops::warp_sync(warp, env, members, mask)?,
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
        Op::Bulk { ref op, ref to, ref from, bytes } => transfer::issue(warp, env, op, (to, from), bytes, mask)?,
        Op::BulkWait { .. } => transfer::complete_stores(env, warp)?,
        Op::Mapa { .. } | Op::GetCtaRank { .. } => cluster::execute_address(warp, env, op, mask),
        Op::Mbarrier { ref op, ref addr } => {
            if !sync::mbarrier(warp, env, op, addr, mask)? {
                return Ok(Next::Pause(Pause::Waiting));
            }
        }
        Op::ClusterArrive => warp.cluster_arrivals += 1,
        Op::ClusterWait => {
            if !env.has_cluster_arrived(warp.cluster_arrivals) {
                return Ok(Next::Pause(Pause::Waiting));
            }
        }
        Op::Bar { op, aligned, .. } => return barrier(warp, op, aligned, index, mask),
        Op::BranchIndexed { index: selector, ref targets } => {
            branch_indexed(warp, env, (selector, targets), instruction.reconverge, mask)?;
            return Ok(Next::Jumped);
        }
        Op::Exit => return Ok(exit(warp, mask)),
        Op::Trap => return Err(Trouble::of(mask, FaultKind::Trap)),
        Op::Fence | Op::Nop | Op::BulkCommit | Op::WgmmaFence | Op::WgmmaCommit | Op::WgmmaWait { .. } => {}
        Op::BulkTensor(_) => return Err(unsupported(mask, "cp.async.bulk.tensor")),
        Op::Wgmma(_) => return Err(unsupported(mask, "wgmma.mma_async")),
        // Done by `execute`.
        Op::Mov { .. } | Op::Unary { .. } | Op::Binary { .. } | Op::Ternary { .. } | Op::Setp { .. } => {}
        Op::Selp { .. } | Op::Pred { .. } | Op::Cvt { .. } | Op::Ld { .. } | Op::St { .. } => {}
        Op::Shfl { .. } | Op::Mma(_) | Op::Branch { .. } => {}
    }
    Ok(Next::Fall)
}

fn unsupported(mask: u32, name: &str) -> Box<Trouble> {
    Trouble::of(mask, FaultKind::Unsupported(name.to_owned()))
}

fn exit(warp: &mut Warp, mask: u32) -> Next {
    if warp.exit(mask) { Next::Jumped } else { Next::Pause(Pause::Done) }
}

/// Goes to a barrier: the block decides when the warp continues.
fn barrier(warp: &mut Warp, op: BarOp, aligned: bool, index: u32, mask: u32) -> Step<Next> {
    if mask != warp.live {
        let (active, live) = (mask.count_ones(), warp.live.count_ones());
        if !aligned {
            return Err(unsupported(mask, "barrier in divergent code without .aligned"));
        }
        return Err(Trouble::of(mask, FaultKind::DivergentBarrier { active, live }));
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
            return Err(Trouble::at(lane, FaultKind::Invalid(message)));
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
    let [x, y, _] = env.run.launch.block;
    let thread = |lane: usize| warp.first_thread + lane as u32;
    let value = |lane: usize| -> u64 {
        match which {
            LaneSpecial::ThreadIndex(0) => (thread(lane) % x).into(),
            LaneSpecial::ThreadIndex(1) => (thread(lane) / x % y).into(),
            LaneSpecial::ThreadIndex(_) => (thread(lane) / (x * y)).into(),
            LaneSpecial::LaneId => lane as u64,
            LaneSpecial::WarpId => warp.index.into(),
            LaneSpecial::LaneMaskEq => 1 << lane,
            LaneSpecial::LaneMaskLe => (2u64 << lane) - 1,
            LaneSpecial::LaneMaskLt => (1u64 << lane) - 1,
            LaneSpecial::LaneMaskGe => u64::from(u32::MAX << lane),
            LaneSpecial::LaneMaskGt => u64::from(u32::MAX << lane) & !(1 << lane),
            LaneSpecial::Clock | LaneSpecial::Clock64 | LaneSpecial::GlobalTimer => warp.executed,
        }
    };
    if wide {
        warp.set64(d, &W64::from_fn(value), mask);
    } else {
        warp.set32(d, &W32::from_fn(|lane| value(lane) as u32), mask);
    }
}
