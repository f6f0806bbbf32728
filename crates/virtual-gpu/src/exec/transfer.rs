//! Bulk copies (`cp.async.bulk`): issued by one thread, done later by the machine.
//!
//! Here they are done as late as possible: when no warp of the cluster can go on without them, or when they are waited
//! for. So a kernel that forgets to wait reads what was there before.

use super::access::{self, RANK_SHIFT, Width};
use super::atomics;
use super::env::{Env, Step, Trouble};
use super::lanes::{W32, w64};
use super::warp::Warp;
use crate::fault::FaultKind;
use crate::memory::races::{self, Clock};
use crate::program::{Address, AtomOp, BulkOp, SHARED_WINDOW, Slot, Space, Ty};

/// Where a copy's bytes come from or go to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    /// A global address.
    Global(u64),
    /// An offset in the shared memory of a block of the cluster.
    Shared(usize, u32),
}

/// A bulk copy that is under way.
#[derive(Debug)]
pub(crate) struct Transfer {
    /// Source.
    pub from: End,
    /// Destinations.
    pub to: Vec<End>,
    /// Bytes, a multiple of 16.
    pub bytes: u32,
    /// The mbarriers to tell, one per destination: block and offset.
    pub mbarriers: Vec<(usize, u32)>,
    /// The warp that issued it, in its block.
    pub warp: u32,
    /// The block that issued it.
    pub rank: usize,
    /// How elements are combined with those that are there, if they do not replace them.
    pub reduce: Option<(AtomOp, Ty)>,
}

/// Returns the block and offset that a shared address (generic, cluster or own) means.
pub(crate) fn shared_end(env: &Env<'_>, address: u64) -> (usize, u32) {
    let address = if address >> 40 == SHARED_WINDOW >> 40 { address - SHARED_WINDOW } else { address };
    let tag = (address >> RANK_SHIFT) as usize;
    let offset = (address & ((1 << RANK_SHIFT) - 1)) as u32;
    (if tag == 0 { env.rank } else { tag - 1 }, offset)
}

/// `cp.async.bulk`: queues a copy for every active lane.
pub(crate) fn issue(
    warp: &Warp,
    env: &mut Env<'_>,
    op: &BulkOp,
    (to, from): (&Address, &Address),
    bytes: Slot,
    mask: u32,
) -> Step<()> {
    let (to, from) = (access::addresses(warp, env, to), access::addresses(warp, env, from));
    let bytes = *env.get32(warp, bytes);
    for lane in super::lanes::lanes_of(mask) {
        let size = bytes.0[lane];
        if !size.is_multiple_of(16) || !from.0[lane].is_multiple_of(16) || !to.0[lane].is_multiple_of(16) {
            let message = "cp.async.bulk needs addresses and sizes that are multiples of 16".to_owned();
            return Err(Trouble::at(lane, FaultKind::Invalid(message)));
        }
        let transfer = match op {
            BulkOp::Prefetch => continue,
            &BulkOp::ReduceToGlobal { op, ty } => {
                let (rank, offset) = shared_end(env, from.0[lane]);
                let to = vec![End::Global(to.0[lane])];
                let transfer = new_transfer(warp, env, End::Shared(rank, offset), to, size);
                Transfer { reduce: Some((op, ty)), ..transfer }
            }
            BulkOp::SharedToGlobal => {
                let (rank, offset) = shared_end(env, from.0[lane]);
                new_transfer(warp, env, End::Shared(rank, offset), vec![End::Global(to.0[lane])], size)
            }
            BulkOp::SharedToShared { mbarrier } => {
                let (rank, offset) = shared_end(env, from.0[lane]);
                let target = shared_end(env, to.0[lane]);
                let mut transfer =
                    new_transfer(warp, env, End::Shared(rank, offset), vec![End::Shared(target.0, target.1)], size);
                transfer.mbarriers = vec![shared_end(env, access::addresses(warp, env, mbarrier).0[lane])];
                transfer
            }
            BulkOp::GlobalToShared { mbarrier, multicast } => {
                let target = shared_end(env, to.0[lane]);
                let barrier = shared_end(env, access::addresses(warp, env, mbarrier).0[lane]);
                let ranks = receivers(warp, env, *multicast, target.0, lane);
                let ends = ranks.iter().map(|&rank| End::Shared(rank, target.1)).collect();
                let mut transfer = new_transfer(warp, env, End::Global(from.0[lane]), ends, size);
                let told = |&rank: &usize| if ranks.len() == 1 { barrier } else { (rank, barrier.1) };
                transfer.mbarriers = ranks.iter().map(told).collect();
                transfer
            }
        };
        env.transfers.push_back(transfer);
    }
    Ok(())
}

/// Returns the blocks that receive a copy: those of the multicast mask, or the one of the address.
pub(crate) fn receivers(warp: &Warp, env: &Env<'_>, multicast: Slot, rank: usize, lane: usize) -> Vec<usize> {
    if multicast == crate::program::NONE {
        return vec![rank];
    }
    let mask = env.get32(warp, multicast).0[lane];
    (0..16).filter(|bit| mask >> bit & 1 == 1).collect()
}

fn new_transfer(warp: &Warp, env: &Env<'_>, from: End, to: Vec<End>, bytes: u32) -> Transfer {
    Transfer { from, to, bytes, mbarriers: Vec::new(), warp: warp.index, rank: env.rank, reduce: None }
}

/// Does the oldest copy. Returns false if there is none.
pub(crate) fn complete_next(env: &mut Env<'_>, warps: &mut [Warp]) -> Step<bool> {
    let Some(transfer) = env.transfers.pop_front() else { return Ok(false) };
    complete(env, warps, &transfer)?;
    Ok(true)
}

/// Does every copy whose destination is global memory.
pub(crate) fn complete_stores(env: &mut Env<'_>, warp: &mut Warp) -> Step<()> {
    while let Some(index) = env.transfers.iter().position(|transfer| matches!(transfer.to[..], [End::Global(_)])) {
        if let Some(transfer) = env.transfers.remove(index) {
            complete(env, std::slice::from_mut(warp), &transfer)?;
        }
    }
    Ok(())
}

fn complete(env: &mut Env<'_>, warps: &mut [Warp], transfer: &Transfer) -> Step<()> {
    let rank = std::mem::replace(&mut env.rank, transfer.rank);
    let result = move_bytes(env, &mut warps[0], transfer);
    env.rank = rank;
    result?;
    // Whoever waits for the mbarrier is ordered after the copy. That it is then ordered after all that the issuing warp has
    // done by now is more than the machine promises: a race may be missed here, none is made up.
    let mut clock = Clock::default();
    if let Some(races) = &mut env.memories[transfer.rank].races {
        races.release(transfer.warp, &mut clock);
    }
    for &(rank, offset) in &transfer.mbarriers {
        let Some(barrier) = env.mbarriers.get_mut(rank).and_then(|barriers| barriers.get_mut(&offset)) else {
            let message = format!("a bulk copy completes on shared address {offset:#x}, which is no mbarrier");
            return Err(Trouble::at(0, FaultKind::Invalid(message)));
        };
        barrier.complete_bytes(transfer.bytes);
        if rank == transfer.rank {
            races::join(&mut barrier.clock, &clock);
        }
    }
    Ok(())
}

/// Moves the bytes as a warp would, 32 lanes of 16 bytes at a time, so that every check of an access applies.
fn move_bytes(env: &mut Env<'_>, warp: &mut Warp, transfer: &Transfer) -> Step<()> {
    let width = Width::of(Ty::B32, 4);
    // Accesses are those of the warp that issued the copy.
    let index = std::mem::replace(&mut warp.index, transfer.warp);
    let mut result = Ok(());
    'all: for first in (0..transfer.bytes).step_by(16 * 32) {
        let lanes = ((transfer.bytes - first) / 16).min(32);
        let mask = u32::MAX >> (32 - lanes);
        let at = |end: End| {
            let (space, base) = match end {
                End::Global(address) => (Space::Global, address),
                End::Shared(rank, offset) if rank == transfer.rank => (Space::Shared, u64::from(offset)),
                End::Shared(rank, offset) => {
                    (Space::SharedCluster, (rank as u64 + 1) << RANK_SHIFT | u64::from(offset))
                }
            };
            (space, w64!(lane => base + u64::from(first) + 16 * lane as u64))
        };
        let mut words = [W32::splat(0); access::MAX_WORDS];
        let (space, from) = at(transfer.from);
        result = access::read(warp, env, space, &from, mask, width, &mut words);
        for &end in &transfer.to {
            if result.is_err() {
                break 'all;
            }
            let (space, to) = at(end);
            result = match transfer.reduce {
                None => access::write(warp, env, space, &to, mask, width, &words),
                Some(reduce) => atomics::reduce_chunks(env, reduce, &to, mask, &words),
            };
        }
    }
    warp.index = index;
    result
}
