//! mbarrier instructions.

use super::access;
use super::cluster_address::shared_end;
use super::copies;
use super::env::Env;
use super::lane_fault::Step;
use super::lanes::{W64, lanes_of, w32};
use super::mbarrier::{Mbarrier, invalid};
use super::warp::Warp;
use crate::program::{Address, MbarrierOp, NONE, Slot};

/// Executes an mbarrier instruction in the lanes of `mask`. Returns false if it must wait and run again.
pub(crate) fn mbarrier(
    warp: &mut Warp,
    env: &mut Env<'_>,
    op: &MbarrierOp,
    address: &Address,
    mask: u32,
) -> Step<bool> {
    if let &MbarrierOp::PendingCount { d, state } = op {
        let state = env.get64(warp, state);
        let value = w32!(lane => Mbarrier::pending_of(state.0[lane]));
        warp.set32(d, &value, mask);
        return Ok(true);
    }
    let at = access::addresses(warp, env, address);
    match *op {
        MbarrierOp::WaitState { d, state, blocking } => {
            let state = *env.get64(warp, state);
            wait(warp, env, (&at, d, blocking), mask, |barrier, lane| barrier.has_passed(state.0[lane]))
        }
        MbarrierOp::WaitParity { d, parity, blocking } => {
            let parity = *env.get32(warp, parity);
            wait(warp, env, (&at, d, blocking), mask, |barrier, lane| barrier.has_passed_parity(parity.0[lane]))
        }
        _ => {
            for lane in lanes_of(mask) {
                change(warp, env, op, at.0[lane], lane)?;
            }
            Ok(true)
        }
    }
}

/// Executes an instruction that changes an mbarrier, for one lane.
fn change(warp: &mut Warp, env: &mut Env<'_>, op: &MbarrierOp, address: u64, lane: usize) -> Step<()> {
    let (rank, offset) = shared_end(env, address);
    if !offset.is_multiple_of(8) {
        return Err(invalid(lane, format!("mbarrier at shared address {offset:#x}, which is not a multiple of 8")));
    }
    let number = |env: &Env<'_>, slot: Slot, absent: u32| {
        if slot == NONE { absent } else { env.get32(warp, slot).0[lane] }
    };
    let Some(memory) = env.memories.get_mut(rank).filter(|memory| offset.saturating_add(8) <= memory.bytes()) else {
        return Err(invalid(lane, format!("mbarrier at shared address {offset:#x}, outside the block's memory")));
    };
    if let MbarrierOp::Init { count } = *op {
        // On the machine the mbarrier is in these eight bytes. Zeros keep reads of them from returning
        // garbage.
        memory.store_word(offset, 0);
        memory.store_word(offset + 4, 0);
        let barrier = Mbarrier::new(number(env, count, 0)).map_err(|message| invalid(lane, message))?;
        env.mbarriers[rank].insert(offset, barrier);
        return Ok(());
    }
    if let MbarrierOp::Inval = *op {
        env.mbarriers[rank].remove(&offset);
        return Ok(());
    }
    let (tx, count) = match *op {
        MbarrierOp::ExpectTx { tx } | MbarrierOp::CompleteTx { tx } => (number(env, tx, 0), 0),
        MbarrierOp::Arrive { count, tx, .. } => (number(env, tx, 0), number(env, count, 1)),
        _ => (0, 0),
    };
    let own = rank == env.rank;
    let Some(barrier) = env.mbarriers[rank].get_mut(&offset) else {
        return Err(invalid(lane, format!("no mbarrier was initialised at shared address {offset:#x}")));
    };
    match *op {
        MbarrierOp::ExpectTx { .. } => barrier.expect_bytes(tx),
        MbarrierOp::CompleteTx { .. } => {
            // As for bulk copies, a warp that waits is ordered after the stores of the arriving warp.
            if let Some(races) = &mut env.memories[env.rank].races {
                races.order.publish(warp.index, own, &mut barrier.clock);
            }
            barrier.complete_bytes(tx);
        }
        MbarrierOp::Arrive { state, drop, .. } => {
            let before = barrier.state();
            barrier.expect_bytes(tx);
            if let Some(races) = &mut env.memories[env.rank].races {
                races.order.publish(warp.index, own, &mut barrier.clock);
            }
            let arrived = if drop { barrier.drop_arrivals(count) } else { barrier.arrive(count) };
            arrived.map_err(|message| invalid(lane, message))?;
            warp.set64(state, &W64::splat(before), 1 << lane);
        }
        _ => {}
    }
    Ok(())
}

/// Waits for a phase. The warp continues once all lanes have passed. A `test_wait` returns its answer at once.
fn wait(
    warp: &mut Warp,
    env: &mut Env<'_>,
    (at, d, blocking): (&W64, Slot, bool),
    mask: u32,
    passed: impl Fn(&Mbarrier, usize) -> bool,
) -> Step<bool> {
    let mut result = 0;
    for lane in lanes_of(mask) {
        let (rank, offset) = shared_end(env, at.0[lane]);
        let Some(barrier) = env.mbarriers.get(rank).and_then(|barriers| barriers.get(&offset)) else {
            return Err(invalid(lane, format!("no mbarrier was initialised at shared address {offset:#x}")));
        };
        if passed(barrier, lane) {
            result |= 1 << lane;
            if rank == env.rank
                && let Some(races) = &mut env.memories[rank].races
            {
                races.order.sync(warp.index);
                races.order.acquire(warp.index, &barrier.clock);
            }
        }
    }
    // `try_wait` may return false after a time chosen by the machine. Here it returns when it is true.
    if result != mask && blocking {
        return Ok(false);
    }
    warp.set_predicate(d, result, mask);
    Ok(true)
}

/// `cp.async.mbarrier.arrive`: arrives once the lane's copies have completed, which they do now at the latest.
pub(crate) fn arrive_after_copies(
    warp: &mut Warp,
    env: &mut Env<'_>,
    address: &Address,
    noinc: bool,
    mask: u32,
) -> Step<()> {
    copies::wait(warp, env, None)?;
    let at = access::addresses(warp, env, address);
    for lane in lanes_of(mask) {
        let (rank, offset) = shared_end(env, at.0[lane]);
        let own = rank == env.rank;
        let Some(barrier) = env.mbarriers.get_mut(rank).and_then(|barriers| barriers.get_mut(&offset)) else {
            return Err(invalid(lane, format!("no mbarrier was initialised at shared address {offset:#x}")));
        };
        if let Some(races) = &mut env.memories[env.rank].races {
            races.order.publish(warp.index, own, &mut barrier.clock);
        }
        if !noinc {
            barrier.expect_arrival();
        }
        barrier.arrive(1).map_err(|message| invalid(lane, message))?;
    }
    Ok(())
}
