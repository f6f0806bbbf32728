//! Bulk copies (`cp.async.bulk`): one thread issues them, and the machine executes them later.

use super::access;
use super::cluster_address::shared_end;
use super::env::Env;
use super::lane_fault::{LaneFault, Origin, Step};
use super::transfer::{End, Moved, Transfer};
use super::warp::Warp;
use crate::fault::{Access, FaultKind};
use crate::memory::proxies::Proxies;
use crate::memory::races::APART;
use crate::program::{Address, BulkOp, Slot};

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
            return Err(LaneFault::at(lane, FaultKind::Invalid(message)));
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
        queue(env, transfer)?;
    }
    Ok(())
}

/// Returns the blocks that receive a copy: those of the multicast mask, or that of the address.
pub(crate) fn receivers(warp: &Warp, env: &Env<'_>, multicast: Slot, rank: usize, lane: usize) -> Vec<usize> {
    if multicast == crate::program::NONE {
        return vec![rank];
    }
    let mask = env.get32(warp, multicast).0[lane];
    (0..16).filter(|bit| mask >> bit & 1 == 1).collect()
}

/// Returns the mbarriers to signal: the given one, or with a multicast every receiver's own at the same offset.
pub(crate) fn told(multicast: Slot, ranks: &[usize], barrier: (usize, u32)) -> Vec<(usize, u32)> {
    if multicast == crate::program::NONE {
        return vec![barrier];
    }
    ranks.iter().map(|&rank| (rank, barrier.1)).collect()
}

/// Queues a copy. Its shared memory is in use from now on, so earlier accesses to it must be ordered before: by the time
/// the copy is executed here, its warp may have waited for them.
pub(crate) fn queue(env: &mut Env<'_>, transfer: Transfer) -> Step<()> {
    let mut found = Ok(());
    transfer.uses(|writes, rank, offset, bytes| {
        let memory = &env.memories[env.rank];
        let inside = rank == env.rank && bytes > 0 && offset.saturating_add(bytes) <= memory.bytes();
        if let Some(races) = memory.races.as_ref().filter(|_| inside && found.is_ok()) {
            let access = if writes { Access::Write } else { Access::Read };
            found = races.check_only((transfer.warp, APART), access, offset, bytes);
        }
    });
    found.map_err(|kind| LaneFault::at(transfer.origin.lane, kind))?;
    transfer.uses(|writes, rank, offset, bytes| {
        if let Some(flight) = env.memories.get_mut(rank).and_then(|memory| memory.flight.as_mut()) {
            flight.begin(writes, offset, bytes);
        }
    });
    env.transfers.push_back(transfer);
    Ok(())
}

/// Makes a copy that a lane issues now. It does not signal an mbarrier yet.
pub(crate) fn new_transfer((warp, lane): (&Warp, usize), env: &mut Env<'_>, moved: Moved, bytes: u32) -> Transfer {
    let origin = Origin { rank: env.rank, warp: warp.index, pc: warp.pc, lane };
    let asked = env.memories[env.rank].proxies.as_mut().map_or(0, Proxies::ask);
    let (rank, group) = (env.rank, warp.bulk_groups);
    Transfer { moved, bytes, mbarriers: Vec::new(), warp: warp.index, rank, group, asked, origin }
}
