//! Races in global memory: between blocks, between the warps of a block, and between the lanes of a warp.
//!
//! See [`crate::memory::order`] for what orders accesses. Stores of the value that is already there are not races.

use std::sync::{MutexGuard, PoisonError};

use super::env::Env;
use super::lane_fault::{LaneFault, Step};
use super::lanes::{W32, W64, lanes_of};
use super::run::Run;
use crate::fault::{Access, FaultKind, Found};
use crate::memory::accesses::Accessed;
use crate::memory::flags::Flags;
use crate::memory::global::Allocation;
use crate::memory::order::Ordered;
use crate::memory::races::{APART, Lane, Races, TOGETHER, lane_race};
use crate::program::{AtomOp, Op};

/// An access to global memory that is checked.
#[derive(Debug, Clone, Copy)]
struct Checked {
    access: Access,
    /// Warp in the block.
    warp: u32,
    lane: Lane,
    /// Whether other blocks may race with it if theirs is strong, too.
    strong: bool,
}

/// Returns the flags of the launch.
pub(crate) fn flags<'a>(run: &'a Run<'_>) -> MutexGuard<'a, Flags> {
    run.flags.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Checks an access of the lanes of `mask` to what the previous launch wrote, if this launch may overlap with it.
#[inline(always)]
pub(crate) fn depends(
    env: &Env<'_>,
    access: Access,
    allocation: &Allocation,
    at: &W64,
    mask: u32,
    bytes: u32,
) -> Step<()> {
    match env.run.overlapped {
        Some(previous) if env.run.options.races && !env.waited[env.rank] => {
            check_previous((access, previous), allocation, at, mask, bytes)
        }
        _ => Ok(()),
    }
}

#[inline(never)]
fn check_previous(
    (access, previous): (Access, u64),
    allocation: &Allocation,
    at: &W64,
    mask: u32,
    bytes: u32,
) -> Step<()> {
    let Some(shift) = allocation.writers.shift_of(previous) else { return Ok(()) };
    for lane in lanes_of(mask) {
        let address = at.0[lane];
        let offset = address - allocation.base;
        let written = |granule| allocation.writers.get(granule, previous).is_some();
        if (offset >> shift..=(offset + u64::from(bytes) - 1) >> shift).any(written) {
            return Err(LaneFault::at(lane, FaultKind::Undepended { address, access }));
        }
    }
    Ok(())
}

/// Checks and records a load of the lanes of `mask`, which are inside the allocation of the tally.
#[inline(always)]
pub(crate) fn read(env: &mut Env<'_>, warp: u32, allocation: &Allocation, at: &W64, mask: u32, bytes: u32) -> Step<()> {
    if env.run.options.races {
        if allocation.writers.is_of(env.run.number) {
            check_reads(env, warp, allocation, at, mask, bytes)?;
        }
        if env.run.may_write(env.tally.allocation) {
            note_reads(env, warp, allocation, at, mask, bytes);
        }
    }
    Ok(())
}

/// Records reads that other blocks may race with. Strong reads are left out: most poll, and then a write is expected.
#[inline(never)]
fn note_reads(env: &mut Env<'_>, warp: u32, allocation: &Allocation, at: &W64, mask: u32, bytes: u32) {
    let run = env.run;
    let Some(races) = env.memories[env.rank].races.as_mut().filter(|_| !env.semantics.is_strong()) else { return };
    races.order.used = true;
    let order = &races.order;
    let warps = u64::from(run.warps);
    let own = u64::from(order.block) * warps + u64::from(warp);
    let read = Accessed { warp: own, lane: APART, strong: false, several: false, time: order.now, pc: env.pc };
    let mut last = None;
    for lane in lanes_of(mask) {
        let address = at.0[lane];
        if last.replace(address) == Some(address) {
            continue;
        }
        for granule in granules(run, allocation, address, bytes) {
            let replaces = allocation.readers.get(granule, run.number).is_none_or(|before| {
                let (block, other) = ((before.warp / warps) as u32, (before.warp % warps) as u32);
                if block == order.block {
                    before.warp != own || before.time != order.now
                } else {
                    run.talks && order.is_ordered_far(warp, (block, other), before.time) == Ordered::Yes
                }
            });
            if replaces {
                allocation.readers.set((granule, run.global_shift), run.number, read, allocation.bytes);
            }
        }
    }
}

/// Checks a weak store against the reads of other blocks. Atomics and other strong writes are exempt: a plain load before
/// a loop of `atomicCAS` may return any value.
fn check_readers(
    env: &Env<'_>,
    races: &Races,
    warp: u32,
    allocation: &Allocation,
    (address, bytes): (u64, u32),
) -> Result<(), Found> {
    let run = env.run;
    if !allocation.readers.is_of(run.number) || env.semantics.is_strong() {
        return Ok(());
    }
    let (warps, order) = (u64::from(run.warps), &races.order);
    for granule in granules(run, allocation, address, bytes) {
        let Some(read) = allocation.readers.get(granule, run.number) else { continue };
        let (block, other) = ((read.warp / warps) as u32, (read.warp % warps) as u32);
        // No machine writes early, so a barrier is enough of a fence.
        let ordered = block == order.block || order.is_ordered_far(warp, (block, other), read.time) != Ordered::No;
        if ordered || run.talks && flags(run).is_full() {
            continue;
        }
        let other_block = run.block_at(block);
        let (access, other_access, same_block) = (Access::Write, Access::Read, false);
        let kind = FaultKind::GlobalRace { address, access, other_access, same_block, other_block, other_warp: other };
        return Err(kind.after(read.pc));
    }
    Ok(())
}

#[inline(never)]
fn check_reads(env: &Env<'_>, warp: u32, allocation: &Allocation, at: &W64, mask: u32, bytes: u32) -> Step<()> {
    let Some(races) = &env.memories[env.rank].races else { return Ok(()) };
    let mut last = None;
    for lane in lanes_of(mask) {
        let address = at.0[lane];
        if last.replace(address) == Some(address) {
            continue;
        }
        let strong = env.semantics.is_strong() && env.semantics.wide;
        let checked = Checked { access: Access::Read, warp, lane: env.lane(lane), strong };
        for granule in granules(env.run, allocation, address, bytes) {
            if let Some(written) = allocation.writers.get(granule, env.run.number) {
                if env.read_only {
                    return Err(LaneFault::at(lane, read_only(env.run, written, address)));
                }
                check(env.run, races, checked, written, address).map_err(|kind| LaneFault::at(lane, kind))?;
            }
        }
    }
    Ok(())
}

/// Returns the fault of a load through the read-only path.
#[cold]
fn read_only(run: &Run<'_>, written: Accessed, address: u64) -> Found {
    let warps = u64::from(run.warps);
    let (other_block, other_warp) = (run.block_at((written.warp / warps) as u32), (written.warp % warps) as u32);
    FaultKind::ReadOnly { address, other_block, other_warp }.after(written.pc)
}

/// Checks a store of one lane, before it happens. `words` is what it stores. Returns whether others stored the same.
#[inline(never)]
pub(crate) fn check_write(
    env: &Env<'_>,
    warp: u32,
    (allocation, lane): (&Allocation, usize),
    address: u64,
    bytes: u32,
    words: &[W32],
) -> Step<bool> {
    let Some(races) = &env.memories[env.rank].races else { return Ok(false) };
    let found = check_writers(env, races, (warp, lane), allocation, (address, bytes));
    let found = found.and_then(|()| check_readers(env, races, warp, allocation, (address, bytes)));
    match found {
        Ok(()) => Ok(false),
        Err(_) if is_same(allocation, address, bytes, lane, words) => Ok(true),
        Err(kind) => Err(LaneFault::at(lane, kind)),
    }
}

/// Checks a store of one lane against earlier writes.
#[inline(always)]
fn check_writers(
    env: &Env<'_>,
    races: &Races,
    (warp, lane): (u32, usize),
    allocation: &Allocation,
    (address, bytes): (u64, u32),
) -> Result<(), Found> {
    if !allocation.writers.is_of(env.run.number) {
        return Ok(());
    }
    let strong = env.semantics.is_strong() && env.semantics.wide;
    let checked = Checked { access: Access::Write, warp, lane: env.lane(lane), strong };
    for granule in granules(env.run, allocation, address, bytes) {
        if let Some(written) = allocation.writers.get(granule, env.run.number) {
            check(env.run, races, checked, written, address)?;
        }
    }
    Ok(())
}

/// Checks an atomic of one lane.
pub(crate) fn check_atomic(
    env: &Env<'_>,
    warp: u32,
    (allocation, lane): (&Allocation, usize),
    address: u64,
    bytes: u32,
) -> Step<()> {
    let Some(races) = &env.memories[env.rank].races else { return Ok(()) };
    let checked = Checked { access: Access::Atomic, warp, lane: env.lane(lane), strong: env.semantics.wide };
    for granule in granules(env.run, allocation, address, bytes) {
        if let Some(written) = allocation.writers.get(granule, env.run.number) {
            check(env.run, races, checked, written, address).map_err(|kind| LaneFault::at(lane, kind))?;
        }
    }
    Ok(())
}

/// Records a write of one lane, after it has happened.
#[inline(always)]
pub(crate) fn note(
    env: &mut Env<'_>,
    warp: u32,
    (allocation, lane): (&Allocation, usize),
    address: u64,
    bytes: u32,
    several: bool,
) {
    let (by, pc) = (env.lane(lane), env.pc);
    let strong = env.semantics.is_strong() && env.semantics.wide;
    let Some(races) = &mut env.memories[env.rank].races else { return };
    races.order.used = true;
    let time = if strong { env.strong } else { races.order.now };
    let warp = u64::from(races.order.block) * u64::from(env.run.warps) + u64::from(warp);
    let written = Accessed { warp, lane: by, strong, several, time, pc };
    for granule in granules(env.run, allocation, address, bytes) {
        allocation.writers.set((granule, env.run.global_shift), env.run.number, written, allocation.bytes);
    }
}

#[inline(always)]
fn granules(run: &Run<'_>, allocation: &Allocation, address: u64, bytes: u32) -> std::ops::RangeInclusive<u64> {
    let offset = address - allocation.base;
    offset >> run.global_shift..=(offset + u64::from(bytes) - 1) >> run.global_shift
}

fn check(run: &Run<'_>, races: &Races, by: Checked, written: Accessed, address: u64) -> Result<(), Found> {
    let Checked { access, warp, lane, strong } = by;
    let warps = u64::from(run.warps);
    let (block, other) = ((written.warp / warps) as u32, (written.warp % warps) as u32);
    let order = &races.order;
    if written.strong && strong || written.several && access == Access::Read {
        return Ok(());
    }
    let other_access = if written.strong { Access::Atomic } else { Access::Write };
    if block == order.block {
        // Strong accesses are not timed by the block. Within a block, they are rarely wrong.
        if written.strong {
            return Ok(());
        }
        if other == warp {
            let apart = lane != APART && written.lane != APART && (lane != written.lane || lane == TOGETHER);
            return if apart && !order.is_synced(warp, written.time) {
                Err(lane_race("global", address, (access, lane), (other_access, written.lane)).after(written.pc))
            } else {
                Ok(())
            };
        }
    }
    let is_weak_load = access == Access::Read && !strong;
    let dependence = match (block == order.block, written.strong) {
        (true, _) if order.is_ordered(warp, other, written.time) => Ordered::Yes,
        (true, _) => Ordered::No,
        (false, true) => order.is_ordered_strong(warp, written.time),
        (false, false) => order.is_ordered_far(warp, (block, other), written.time),
    };
    // A loop that exchanges a value if it is still there may begin with any, also where the exchange has an address of its own.
    let needs_fence = is_weak_load && !is_exchange(run, written);
    let by_barrier = dependence == Ordered::ByBarrier && needs_fence;
    let ordered = dependence != Ordered::No && !by_barrier;
    if ordered || run.talks && flags(run).is_full() {
        return Ok(());
    }
    let other_block = run.block_at(block);
    if by_barrier {
        return Err(FaultKind::Unacquired { address, other_block, other_warp: other }.after(written.pc));
    }
    let same_block = block == order.block;
    Err(FaultKind::GlobalRace { address, access, other_access, same_block, other_block, other_warp: other }
        .after(written.pc))
}

/// Returns whether a write was a comparison and exchange.
fn is_exchange(run: &Run<'_>, written: Accessed) -> bool {
    let instruction = run.kernel.instructions.get(written.pc as usize);
    instruction.is_some_and(|instruction| matches!(instruction.op, Op::Atom { op: AtomOp::Cas, .. }))
}

/// Returns whether a lane stores what is already there.
fn is_same(allocation: &Allocation, address: u64, bytes: u32, lane: usize, words: &[W32]) -> bool {
    if bytes < 4 {
        let mask = u32::MAX >> (32 - 8 * bytes);
        return (allocation.load_word(address) >> (address % 4 * 8) ^ words[0].0[lane]) & mask == 0;
    }
    (0..bytes / 4).all(|word| allocation.load_word(address + 4 * u64::from(word)) == words[word as usize].0[lane])
}

/// The effects of a strong access before it happens: it releases, and it is counted.
pub(crate) fn begin_strong(env: &mut Env<'_>, warp: u32, writes: bool) {
    if !env.run.talks {
        // No block learns that another has added to a sum.
        env.strong = 1;
        return;
    }
    let run = env.run;
    let Some(races) = &mut env.memories[env.rank].races else { return };
    let mut flags = flags(run);
    if env.semantics.releases() {
        races.order.fence(warp, &flags);
    }
    if writes {
        env.strong = flags.count();
    }
}

/// The effects of a strong access of the lanes of `mask` after it has happened: it publishes, and it acquires.
pub(crate) fn end_strong(env: &mut Env<'_>, warp: u32, at: &W64, mask: u32, (reads, writes): (bool, bool)) {
    let run = env.run;
    let Some(races) = &mut env.memories[env.rank].races else { return };
    races.order.order_by_flag(warp, reads, writes);
    if !run.talks || !env.semantics.wide {
        return;
    }
    let mut flags = flags(run);
    let mut last = None;
    for lane in lanes_of(mask) {
        let address = at.0[lane];
        if last.replace(address) == Some(address) {
            continue;
        }
        if reads {
            races.order.read_flag(warp, address, &flags);
        }
        if writes {
            races.order.write_flag(warp, address, reads || env.atomic, &mut flags);
        }
    }
    if env.semantics.acquires() {
        races.order.learn(warp, &flags);
    }
}
