//! Bulk copies (`cp.async.bulk`): issued by one thread, done later by the machine.
//!
//! Here they are done as late as possible: when no warp of the cluster can go on without them, or when they are waited
//! for. So a kernel that forgets to wait reads what was there before.

use super::access::{self, RANK_SHIFT, Width};
use super::atomics;
use super::env::{Env, Origin, Step, Trouble};
use super::lanes::{W32, w64};
use super::tensor::{self, Tile};
use super::warp::Warp;
use crate::fault::FaultKind;
use crate::memory::proxies::{Moment, Proxies};
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

/// What a bulk copy moves.
#[derive(Debug)]
pub(crate) enum Moved {
    /// Bytes that follow one another, a multiple of 16.
    Line {
        /// Source.
        from: End,
        /// Destinations.
        to: Vec<End>,
        /// How elements are combined with those that are there, if they do not replace them.
        reduce: Option<(AtomOp, Ty)>,
    },
    /// A box of a tensor.
    Tile(Tile),
}

/// A bulk copy that is under way.
#[derive(Debug)]
pub(crate) struct Transfer {
    /// What it moves.
    pub moved: Moved,
    /// Bytes that count at the mbarriers.
    pub bytes: u32,
    /// The mbarriers to tell, one per destination: block and offset.
    pub mbarriers: Vec<(usize, u32)>,
    /// The warp that issued it, in its block.
    pub warp: u32,
    /// The block that issued it.
    pub rank: usize,
    /// The bulk group of its warp that it belongs to, if it goes to global memory.
    pub group: u32,
    /// When it was issued, for what was not fenced by then.
    pub asked: Moment,
    /// Where it was issued, for what goes wrong later.
    pub origin: Origin,
}

impl Transfer {
    /// Returns whether its destination is global memory.
    fn is_store(&self) -> bool {
        match &self.moved {
            Moved::Line { to, .. } => matches!(to[..], [End::Global(_)]),
            Moved::Tile(tile) => !tile.load,
        }
    }
}

/// Returns the block and offset that a shared address (generic, cluster or own) means.
pub(crate) fn shared_end(env: &Env<'_>, address: u64) -> (usize, u32) {
    let address = if address >> 40 == SHARED_WINDOW >> 40 { address - SHARED_WINDOW } else { address };
    // Without a cluster there is no other block that an address could mean.
    if env.memories.len() == 1 {
        return (env.rank, u32::try_from(address).unwrap_or(u32::MAX));
    }
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
    if *op == BulkOp::Prefetch {
        return Ok(());
    }
    let (to, from) = (access::addresses(warp, env, to), access::addresses(warp, env, from));
    let bytes = *env.get32(warp, bytes);
    for lane in super::lanes::lanes_of(mask) {
        let size = bytes.0[lane];
        if !size.is_multiple_of(16) || !from.0[lane].is_multiple_of(16) || !to.0[lane].is_multiple_of(16) {
            let message = "cp.async.bulk needs addresses and sizes that are multiples of 16".to_owned();
            return Err(Trouble::at(lane, FaultKind::Invalid(message)));
        }
        let transfer = match op {
            BulkOp::Prefetch => return Ok(()),
            &BulkOp::ReduceToGlobal { op, ty } => {
                let (rank, offset) = shared_end(env, from.0[lane]);
                let (from, to) = (End::Shared(rank, offset), vec![End::Global(to.0[lane])]);
                new_transfer((warp, lane), env, Moved::Line { from, to, reduce: Some((op, ty)) }, size)
            }
            BulkOp::SharedToGlobal => {
                let (rank, offset) = shared_end(env, from.0[lane]);
                let (from, to) = (End::Shared(rank, offset), vec![End::Global(to.0[lane])]);
                new_transfer((warp, lane), env, Moved::Line { from, to, reduce: None }, size)
            }
            BulkOp::SharedToShared { mbarrier } => {
                let (rank, offset) = shared_end(env, from.0[lane]);
                let target = shared_end(env, to.0[lane]);
                let (from, to) = (End::Shared(rank, offset), vec![End::Shared(target.0, target.1)]);
                let mut transfer = new_transfer((warp, lane), env, Moved::Line { from, to, reduce: None }, size);
                transfer.mbarriers = vec![shared_end(env, access::addresses(warp, env, mbarrier).0[lane])];
                transfer
            }
            BulkOp::GlobalToShared { mbarrier, multicast } => {
                let target = shared_end(env, to.0[lane]);
                let barrier = shared_end(env, access::addresses(warp, env, mbarrier).0[lane]);
                let ranks = receivers(warp, env, *multicast, target.0, lane);
                let to = ranks.iter().map(|&rank| End::Shared(rank, target.1)).collect();
                let moved = Moved::Line { from: End::Global(from.0[lane]), to, reduce: None };
                let mut transfer = new_transfer((warp, lane), env, moved, size);
                transfer.mbarriers = told(*multicast, &ranks, barrier);
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

/// Returns the mbarriers to tell: the one given, or with a multicast every receiver's own at the same offset.
pub(crate) fn told(multicast: Slot, ranks: &[usize], barrier: (usize, u32)) -> Vec<(usize, u32)> {
    if multicast == crate::program::NONE {
        return vec![barrier];
    }
    ranks.iter().map(|&rank| (rank, barrier.1)).collect()
}

pub(crate) fn new_transfer((warp, lane): (&Warp, usize), env: &mut Env<'_>, moved: Moved, bytes: u32) -> Transfer {
    let origin = Origin { rank: env.rank, warp: warp.index, pc: warp.pc, lane };
    let asked = env.memories[env.rank].proxies.as_mut().map_or(0, Proxies::ask);
    let (rank, group) = (env.rank, warp.bulk_groups);
    Transfer { moved, bytes, mbarriers: Vec::new(), warp: warp.index, rank, group, asked, origin }
}

/// Does the oldest copy. Returns false if there is none.
pub(crate) fn complete_next(env: &mut Env<'_>, warps: &mut [Warp]) -> Step<bool> {
    let Some(transfer) = env.transfers.pop_front() else { return Ok(false) };
    complete(env, warps, &transfer)?;
    Ok(true)
}

/// `cp.async.bulk.wait_group`: does the warp's copies to global memory but for those of its newest `groups` groups. A group
/// belongs to a thread; here its warp's threads are taken as one, since one of them issues such copies.
pub(crate) fn wait(env: &mut Env<'_>, warp: &mut Warp, groups: u32) -> Step<()> {
    let (rank, index, closed) = (env.rank, warp.index, warp.bulk_groups.saturating_sub(groups));
    complete_stores(env, warp, |transfer| transfer.rank == rank && transfer.warp == index && transfer.group < closed)
}

/// Does the copies to global memory that are `wanted`, oldest first.
pub(crate) fn complete_stores(env: &mut Env<'_>, warp: &mut Warp, wanted: impl Fn(&Transfer) -> bool) -> Step<()> {
    while let Some(index) = env.transfers.iter().position(|transfer| transfer.is_store() && wanted(transfer)) {
        if let Some(transfer) = env.transfers.remove(index) {
            complete(env, std::slice::from_mut(warp), &transfer)?;
        }
    }
    Ok(())
}

fn complete(env: &mut Env<'_>, warps: &mut [Warp], transfer: &Transfer) -> Step<()> {
    do_transfer(env, warps, transfer).map_err(|mut trouble| {
        trouble.origin = Some(transfer.origin);
        trouble
    })
}

fn do_transfer(env: &mut Env<'_>, warps: &mut [Warp], transfer: &Transfer) -> Step<()> {
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
    // Accesses are those of the warp that issued the copy.
    let index = std::mem::replace(&mut warp.index, transfer.warp);
    // No load or store does it.
    let before = env.tally.traffic();
    env.asynchronous = Some(transfer.asked);
    let result = match &transfer.moved {
        Moved::Line { from, to, reduce } => move_line(env, warp, (*from, to), *reduce, transfer.bytes),
        Moved::Tile(tile) => tensor::move_tile(env, warp, tile),
    };
    env.asynchronous = None;
    warp.index = index;
    env.tally.restore(before);
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
                Some(reduce) => atomics::reduce_chunks(env, reduce, &at_to, mask, &words)?,
            }
        }
    }
    Ok(())
}

/// Returns the space and the address in it of an offset in a block's shared memory.
pub(crate) fn shared_at(env: &Env<'_>, rank: usize, offset: u32) -> (Space, u64) {
    if rank == env.rank {
        (Space::Shared, u64::from(offset))
    } else {
        (Space::SharedCluster, (rank as u64 + 1) << RANK_SHIFT | u64::from(offset))
    }
}
