//! Atomics and reductions on global and shared memory.
//!
//! Lanes run one after the other, lowest first. A kernel with atomics on global memory runs its blocks in order on one
//! CPU thread, unless their order cannot matter (`lower/talks.rs`). Its results then do not depend on the number of threads.

use super::access::{self, count_global, count_wavefronts};
use super::cluster_address::{RANK_SHIFT, shared_end};
use super::env::Env;
use super::global_races;
use super::lane_fault::{LaneFault, Step};
use super::lanes::{W32, W64, lanes_of, mask_where, w32};
use super::messages;
use super::warp::Warp;
use crate::fault::{Access, FaultKind};
use crate::numeric as num;
use crate::program::{AtomOp, NONE, Op, SHARED_WINDOW, Semantics, Slot, Space, Strength, Ty};

/// Computes the new value of a 32-bit word or half word of an atomic. `c` is the new value of `cas`.
pub(crate) fn combine32(op: AtomOp, ty: Ty, old: u32, b: u32, c: u32) -> u32 {
    match (op, ty) {
        (AtomOp::Add, Ty::F32) => num::canonical(f32::from_bits(old) + f32::from_bits(b)).to_bits(),
        (AtomOp::Add, Ty::F16x2) => num::both(old, b, |x, y| num::f16_add(x, y, false, false, false)),
        (AtomOp::Add, Ty::Bf16x2) => num::both(old, b, |x, y| num::bf16_add(x, y, false, false, false)),
        (AtomOp::Add, Ty::F16) => num::f16_add(old, b, false, false, false),
        (AtomOp::Add, Ty::Bf16) => num::bf16_add(old, b, false, false, false),
        (AtomOp::Min, Ty::F16) => num::f16_min(old, b, false),
        (AtomOp::Max, Ty::F16) => num::f16_max(old, b, false),
        (AtomOp::Min, Ty::Bf16) => num::bf16_min(old, b, false),
        (AtomOp::Max, Ty::Bf16) => num::bf16_max(old, b, false),
        (AtomOp::Min, Ty::F32) => num::f32_min(f32::from_bits(old), f32::from_bits(b), false).to_bits(),
        (AtomOp::Max, Ty::F32) => num::f32_max(f32::from_bits(old), f32::from_bits(b), false).to_bits(),
        (AtomOp::Min, Ty::S32) => (old as i32).min(b as i32) as u32,
        (AtomOp::Max, Ty::S32) => (old as i32).max(b as i32) as u32,
        (AtomOp::Add, _) => old.wrapping_add(b),
        (AtomOp::Min, _) => old.min(b),
        (AtomOp::Max, _) => old.max(b),
        (AtomOp::And, _) => old & b,
        (AtomOp::Or, _) => old | b,
        (AtomOp::Xor, _) => old ^ b,
        (AtomOp::Exch, _) => b,
        (AtomOp::Cas, _) => {
            if old == b {
                c
            } else {
                old
            }
        }
        (AtomOp::Inc, _) => {
            if old >= b {
                0
            } else {
                old + 1
            }
        }
        (AtomOp::Dec, _) => {
            if old == 0 || old > b {
                b
            } else {
                old - 1
            }
        }
    }
}

/// Computes the new value of a 64-bit word of an atomic.
fn combine64(op: AtomOp, ty: Ty, old: u64, b: u64, c: u64) -> u64 {
    match (op, ty) {
        (AtomOp::Add, Ty::F64) => (f64::from_bits(old) + f64::from_bits(b)).to_bits(),
        (AtomOp::Min, Ty::S64) => (old as i64).min(b as i64) as u64,
        (AtomOp::Max, Ty::S64) => (old as i64).max(b as i64) as u64,
        (AtomOp::Add, _) => old.wrapping_add(b),
        (AtomOp::Min, _) => old.min(b),
        (AtomOp::Max, _) => old.max(b),
        (AtomOp::And, _) => old & b,
        (AtomOp::Or, _) => old | b,
        (AtomOp::Xor, _) => old ^ b,
        (AtomOp::Exch, _) => b,
        (AtomOp::Cas, _) => {
            if old == b {
                c
            } else {
                old
            }
        }
        (AtomOp::Inc | AtomOp::Dec, _) => old,
    }
}

/// `atom` and `red`
pub(crate) fn atom(warp: &mut Warp, env: &mut Env<'_>, op: &Op, mask: u32) -> Step<()> {
    let Op::Atom { space, semantics, op, ty, d, addr, b, c } = op else { return Ok(()) };
    let (ty, bytes) = (*ty, ty.bytes());
    let at = access::addresses(warp, env, addr);
    let wide = ty.bits() == 64;
    let operand = |slot, lane: usize| match (slot == NONE, wide) {
        (true, _) => 0,
        (false, true) => env.get64(warp, slot).0[lane],
        (false, false) => u64::from(env.get32(warp, slot).0[lane]),
    };
    let mut operands: [(u64, u64); 32] = std::array::from_fn(|lane| (operand(*b, lane), operand(*c, lane)));
    if env.run.options.counters && mask.is_power_of_two() && is_counted(*space, *op, ty, *d) {
        let lane = mask.trailing_zeros() as usize;
        if operands[lane].0 == 1 {
            operands[lane].0 = env.draws.step(env.rank, at.0[lane], env.run.stands_for);
        }
    }
    let update = |lane: usize, old: u64| {
        let (b, c) = operands[lane];
        if wide { combine64(*op, ty, old, b, c) } else { u64::from(combine32(*op, ty, old as u32, b as u32, c as u32)) }
    };
    env.polled |= !matches!(space, Space::Shared | Space::SharedCluster);
    let (mut old, mut shared) = ([0; 32], 0);
    let mut flags = 0;
    if !matches!(space, Space::Shared | Space::SharedCluster) && env.run.options.races {
        flags = mask & mask_where!(lane => at.0[lane] >> 40 < SHARED_WINDOW >> 40);
        (env.semantics, env.atomic) = (*semantics, true);
        global_races::begin_strong(env, warp.index, true);
    }
    for lane in lanes_of(mask) {
        let address = at.0[lane];
        let is_shared = match space {
            Space::Shared | Space::SharedCluster => true,
            Space::Generic => address >> 40 == SHARED_WINDOW >> 40,
            _ => false,
        };
        if !address.is_multiple_of(u64::from(bytes)) {
            let space = if is_shared { "shared" } else { "global" };
            return Err(LaneFault::at(lane, FaultKind::Misaligned { access: Access::Atomic, space, address, bytes }));
        }
        old[lane] = if is_shared {
            shared |= 1 << lane;
            update_shared(warp.index, env, lane, address, bytes, |value| update(lane, value))?
        } else {
            update_global(warp.index, env, lane, address, bytes, |value| update(lane, value))?
        };
    }
    if flags != 0 {
        global_races::end_strong(env, warp.index, &at, flags, (*d != NONE, true));
    }
    (env.semantics, env.atomic) = (Semantics::WEAK, false);
    if mask & !shared != 0 {
        env.note_strong();
    }
    count(env, &at, (mask, shared), bytes);
    if *d != NONE {
        if wide {
            warp.set64(*d, &W64(old), mask);
        } else {
            warp.set32(*d, &W32(old.map(|value| value as u32)), mask);
        }
    }
    Ok(())
}

/// Returns whether an atomic adds to an integer in global memory, and its result is used.
fn is_counted(space: Space, op: AtomOp, ty: Ty, result: Slot) -> bool {
    let integer = matches!(ty, Ty::U32 | Ty::S32 | Ty::U64 | Ty::S64);
    space == Space::Global && op == AtomOp::Add && integer && result != NONE
}

/// Combines 16 bytes per lane with those in global memory, element by element: `cp.reduce.async.bulk`.
pub(crate) fn reduce_chunks(
    warp: u32,
    env: &mut Env<'_>,
    (op, ty): (AtomOp, Ty),
    to: &W64,
    mask: u32,
    words: &[W32],
) -> Step<()> {
    env.semantics = Semantics { strength: Strength::Relaxed, wide: true };
    let reduced = reduce(warp, env, (op, ty), to, mask, words);
    env.semantics = Semantics::WEAK;
    reduced
}

fn reduce(warp: u32, env: &mut Env<'_>, (op, ty): (AtomOp, Ty), to: &W64, mask: u32, words: &[W32]) -> Step<()> {
    let bytes = ty.bytes();
    for lane in lanes_of(mask) {
        for at in (0..16_u32).step_by(bytes as usize) {
            let word = |index: usize| u64::from(words[index].0[lane]);
            let index = at as usize / 4;
            let value = match bytes {
                8 => word(index) | word(index + 1) << 32,
                4 => word(index),
                _ => word(index) >> (at % 4 * 8) & 0xffff,
            };
            let update = |old: u64| match bytes {
                8 => combine64(op, ty, old, value, 0),
                _ => u64::from(combine32(op, ty, old as u32, value as u32, 0)),
            };
            update_global(warp, env, lane, to.0[lane] + u64::from(at), bytes, update)?;
        }
    }
    Ok(())
}

/// Counts the accesses of the lanes of `mask`. Those of `shared` went to shared memory.
fn count(env: &mut Env<'_>, at: &W64, (mask, shared): (u32, u32), bytes: u32) {
    if !env.run.options.counters {
        return;
    }
    if shared != 0 {
        let offsets = w32!(lane => at.0[lane] as u32 & ((1 << RANK_SHIFT) - 1));
        let traffic = count_wavefronts(&offsets, shared, bytes, Access::Atomic);
        env.tally.occupy_shared(&traffic);
        env.tally.counters.shared_store.add(&traffic);
    }
    if mask & !shared != 0 {
        let traffic = count_global(&mut env.tally, at, mask & !shared, bytes);
        env.tally.counters.atomics.add(&traffic);
    }
}

fn update_global(
    warp: u32,
    env: &mut Env<'_>,
    lane: usize,
    address: u64,
    bytes: u32,
    f: impl Fn(u64) -> u64,
) -> Step<u64> {
    let at = W64::splat(address);
    let (allocation, _) = access::group(env, &at, 1 << lane, bytes, Access::Atomic)?;
    if env.run.options.uninitialised && !allocation.is_initialised(address, bytes) {
        return Err(LaneFault::at(lane, FaultKind::Uninitialised { space: "global", address, bytes }));
    }
    if env.run.options.races {
        global_races::check_atomic(env, warp, (allocation, lane), address, bytes)?;
    }
    allocation.set_initialised(address, bytes);
    if env.run.options.counters {
        allocation.touch(address);
    }
    let words = messages::words(env, allocation, address, bytes);
    // A block that polls by atomics changes nothing.
    let changed = std::cell::Cell::new(false);
    let f = |old| {
        let new = f(old);
        changed.set(changed.get() || new != old);
        new
    };
    let old = match bytes {
        4 => u64::from(allocation.update_word(address, |old| f(u64::from(old)) as u32)),
        8 => {
            // Kernels with global atomics of 64 bits run on one thread, so two halves form one consistent value.
            let old = u64::from(allocation.load_word(address)) | u64::from(allocation.load_word(address + 4)) << 32;
            let new = f(old);
            allocation.store_word(address, new as u32);
            allocation.store_word(address + 4, (new >> 32) as u32);
            old
        }
        _ => {
            let shift = address % 4 * 8;
            let word = allocation.load_word(address);
            let old = u64::from(word >> shift & 0xffff);
            allocation.store_bits(address, (f(old) as u32) << shift, 0xffff << shift);
            old
        }
    };
    env.wrote |= changed.get();
    if env.run.options.races {
        messages::atomic(env, warp, allocation, words);
        global_races::note(env, warp, (allocation, lane), address, bytes, false);
    }
    Ok(old)
}

fn update_shared(
    warp: u32,
    env: &mut Env<'_>,
    lane: usize,
    address: u64,
    bytes: u32,
    f: impl Fn(u64) -> u64,
) -> Step<u64> {
    let (rank, offset) = shared_end(env, address);
    let size = env.memories.get(rank).map_or(0, |memory| memory.bytes());
    if offset.saturating_add(bytes) > size {
        let kind = access::shared_out_of_bounds(env, rank, Access::Atomic, address, bytes);
        return Err(LaneFault::at(lane, kind));
    }
    let offsets = W32::splat(offset);
    if env.run.options.uninitialised && !env.memories[rank].is_initialised(offset, bytes) {
        let kind = FaultKind::Uninitialised { space: "shared", address: u64::from(offset), bytes };
        return Err(LaneFault::at(lane, kind));
    }
    if env.run.options.races {
        access::check_shared(warp, env, rank, &offsets, 1 << lane, bytes, Access::Atomic)?;
    }
    let memory = &mut env.memories[rank];
    Ok(match bytes {
        8 => {
            let old = u64::from(memory.load_word(offset)) | u64::from(memory.load_word(offset + 4)) << 32;
            let new = f(old);
            memory.store_word(offset, new as u32);
            memory.store_word(offset + 4, (new >> 32) as u32);
            old
        }
        4 => {
            let old = memory.load_word(offset);
            memory.store_word(offset, f(u64::from(old)) as u32);
            u64::from(old)
        }
        _ => {
            let shift = offset % 4 * 8;
            let old = u64::from(memory.load_word(offset) >> shift & 0xffff);
            memory.store_bits(offset, (f(old) as u32) << shift, 0xffff << shift);
            old
        }
    })
}
