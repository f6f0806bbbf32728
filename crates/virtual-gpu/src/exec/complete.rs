//! Executes the issued bulk copies.
//!
//! Copies are executed as late as possible: when a warp waits for them, or when no warp of the cluster can continue
//! without them. So a kernel that forgets to wait reads the old contents.

use super::access::{self, Width};
use super::atomics;
use super::cluster_address::shared_at;
use super::env::Env;
use super::lane_fault::{LaneFault, Step};
use super::lanes::{W32, w64};
use super::move_tile::move_tile;
use super::transfer::{End, Moved, Transfer};
use super::warp::Warp;
use crate::fault::FaultKind;
use crate::memory::order::Clock;
use crate::memory::races::APART;
use crate::program::{AtomOp, Space, Ty};

/// Executes the oldest copy. Returns false if there is none.
pub(crate) fn complete_next(env: &mut Env<'_>, warps: &mut [Warp]) -> Step<bool> {
    let Some(transfer) = env.transfers.pop_front() else { return Ok(false) };
    complete(env, warps, &transfer)?;
    Ok(true)
}

/// `cp.async.bulk.wait_group`: executes the warp's copies to global memory except those of its newest `groups` groups.
/// A group belongs to a thread. Here a warp's threads count as one, because only one of them issues such copies.
pub(crate) fn wait(env: &mut Env<'_>, warp: &mut Warp, groups: u32) -> Step<()> {
    let (rank, index, closed) = (env.rank, warp.index, warp.bulk_groups.saturating_sub(groups));
    complete_stores(env, warp, |transfer| transfer.rank == rank && transfer.warp == index && transfer.group < closed)
}

/// Executes the copies to global memory that are `wanted`, oldest first.
pub(crate) fn complete_stores(env: &mut Env<'_>, warp: &mut Warp, wanted: impl Fn(&Transfer) -> bool) -> Step<()> {
    while let Some(index) = env.transfers.iter().position(|transfer| transfer.is_store() && wanted(transfer)) {
        if let Some(transfer) = env.transfers.remove(index) {
            complete(env, std::slice::from_mut(warp), &transfer)?;
        }
    }
    Ok(())
}

/// Returns the fault of the oldest copy that nothing waited for when its cluster ended.
pub(crate) fn abandoned(env: &Env<'_>) -> Option<Box<LaneFault>> {
    let transfer = env.transfers.front().filter(|_| env.run.options.races)?;
    let mut fault = LaneFault::at(0, FaultKind::Abandoned { writes: !transfer.is_store() });
    fault.origin = Some(transfer.origin);
    Some(fault)
}

fn complete(env: &mut Env<'_>, warps: &mut [Warp], transfer: &Transfer) -> Step<()> {
    do_transfer(env, warps, transfer).map_err(|mut fault| {
        fault.origin = Some(transfer.origin);
        fault
    })
}

fn do_transfer(env: &mut Env<'_>, warps: &mut [Warp], transfer: &Transfer) -> Step<()> {
    transfer.uses(|writes, rank, offset, bytes| {
        if let Some(flight) = env.memories.get_mut(rank).and_then(|memory| memory.flight.as_mut()) {
            flight.end(writes, offset, bytes);
        }
    });
    let rank = std::mem::replace(&mut env.rank, transfer.rank);
    let pc = std::mem::replace(&mut env.pc, transfer.origin.pc);
    let result = move_bytes(env, &mut warps[0], transfer);
    (env.rank, env.pc) = (rank, pc);
    result?;
    // A warp that waits for the mbarrier is ordered after the copy. Here it is also ordered after everything that the
    // issuing warp has done by now, which the machine does not promise. A race may be missed, but false races are
    // impossible.
    let (mut clock, mut far) = (Clock::default(), Clock::default());
    if let Some(races) = &mut env.memories[transfer.rank].races {
        races.order.release(transfer.warp, &mut clock);
        races.order.release_far(transfer.warp, &mut far);
    }
    for &(rank, offset) in &transfer.mbarriers {
        let Some(barrier) = env.mbarriers.get_mut(rank).and_then(|barriers| barriers.get_mut(&offset)) else {
            let message = format!("a bulk copy completes on shared address {offset:#x}, which is not an mbarrier");
            return Err(LaneFault::at(0, FaultKind::Invalid(message)));
        };
        barrier.complete_bytes(transfer.bytes);
        barrier.clock.join(if rank == transfer.rank { &clock } else { &far });
    }
    Ok(())
}

/// Moves the bytes as a warp would, 32 lanes of 16 bytes at a time, so that every check of an access applies.
fn move_bytes(env: &mut Env<'_>, warp: &mut Warp, transfer: &Transfer) -> Step<()> {
    // The accesses count for the warp that issued the copy.
    let index = std::mem::replace(&mut warp.index, transfer.warp);
    // No load or store makes these accesses.
    let before = env.tally.traffic();
    let l2_sectors = env.tally.counters.l2_sectors;
    env.asynchronous = Some(transfer.asked);
    env.lanes = Some(APART);
    let result = match &transfer.moved {
        Moved::Line { from, to, reduce } => move_line(env, warp, (*from, to), *reduce, transfer.bytes),
        Moved::Tile(tile) => move_tile(env, warp, tile),
    };
    env.asynchronous = None;
    env.lanes = None;
    warp.index = index;
    env.tally.restore(before);
    if !env.run.options.counters {
        return result;
    }
    let counters = &mut env.tally.counters;
    counters.bulk_l2_sectors += counters.l2_sectors - l2_sectors;
    counters.bulk_load_bytes += if transfer.is_load() { u64::from(transfer.bytes) } else { 0 };
    counters.bulk_store_bytes += if transfer.is_store() { u64::from(transfer.bytes) } else { 0 };
    result
}

fn move_line(
    env: &mut Env<'_>,
    warp: &mut Warp,
    (from, to): (End, &[End]),
    reduce: Option<(AtomOp, Ty)>,
    bytes: u32,
) -> Step<()> {
    let width = Width::of(Ty::B32, 4);
    for first in (0..bytes).step_by(16 * 32) {
        let lanes = ((bytes - first) / 16).min(32);
        let mask = u32::MAX >> (32 - lanes);
        let at = |env: &Env<'_>, end: End| {
            let (space, base) = match end {
                End::Global(address) => (Space::Global, address),
                End::Shared(rank, offset) => shared_at(env, rank, offset),
            };
            (space, w64!(lane => base + u64::from(first) + 16 * lane as u64))
        };
        let mut words = [W32::splat(0); access::MAX_WORDS];
        let (space, at_from) = at(env, from);
        access::read(warp, env, space, &at_from, mask, width, &mut words)?;
        for &end in to {
            let (space, at_to) = at(env, end);
            match reduce {
                None => access::write(warp, env, space, &at_to, mask, width, &words)?,
                Some(reduce) => atomics::reduce_chunks(warp.index, env, reduce, &at_to, mask, &words)?,
            }
        }
    }
    Ok(())
}
