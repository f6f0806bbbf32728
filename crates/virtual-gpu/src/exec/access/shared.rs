//! Shared memory of the block, or of another block of its cluster.

use super::{Width, count_wavefronts, first_misaligned, misaligned, shift_down};
use crate::counters::Traffic;
use crate::exec::cluster_address::RANK_SHIFT;
use crate::exec::env::Env;
use crate::exec::lane_fault::{LaneFault, Step};
use crate::exec::lanes::{LANES, W32, W64, lanes_of, mask_where, w32};
use crate::fault::{Access, FaultKind};
use crate::memory::SharedMemory;
use crate::memory::proxies::Moment;
use crate::memory::races::Lane;

/// Returns the block that owns the first lane's shared address, and the lanes of `mask` whose addresses it also owns.
#[inline(always)]
fn block_of(env: &Env<'_>, at: &W64, mask: u32) -> (usize, u32) {
    // Without a cluster, an address cannot belong to another block.
    if env.memories.len() == 1 {
        return (env.rank, mask);
    }
    let first = mask.trailing_zeros() as usize;
    let tag = at.0[first] >> RANK_SHIFT;
    let rank = if tag == 0 { env.rank } else { tag as usize - 1 };
    (rank, mask & mask_where!(lane => at.0[lane] >> RANK_SHIFT == tag))
}

#[cold]
pub(crate) fn out_of_bounds(env: &Env<'_>, rank: usize, access: Access, address: u64, bytes: u32) -> FaultKind {
    let detail = match env.memories.get(rank) {
        Some(memory) => format!("the block has {} bytes", memory.bytes()),
        None => format!("the cluster has {} blocks", env.memories.len()),
    };
    FaultKind::OutOfBounds { access, space: "shared", address, bytes, detail }
}

/// Checks bounds and alignment of shared accesses of the lanes of `mask`, and returns their offsets.
#[inline(always)]
pub(crate) fn offsets_of(env: &Env<'_>, rank: usize, at: &W64, mask: u32, bytes: u32, access: Access) -> Step<W32> {
    let size = env.memories.get(rank).map_or(0, |memory| memory.bytes());
    let alone = env.memories.len() == 1;
    let first = at.0[mask.trailing_zeros() as usize];
    let within = |address: u64| if alone { address } else { address & ((1 << RANK_SHIFT) - 1) };
    let most = u64::from(size).saturating_sub(u64::from(bytes));
    let mut farthest = 0;
    for lane in 0..LANES {
        let address = if mask >> lane & 1 == 1 { at.0[lane] } else { first };
        farthest = within(address).max(farthest);
    }
    if farthest > most || size < bytes {
        let outside = |&lane: &usize| size < bytes || within(at.0[lane]) > most;
        let lane = lanes_of(mask).find(outside).unwrap_or(0);
        return Err(LaneFault::at(lane, out_of_bounds(env, rank, access, at.0[lane], bytes)));
    }
    if let Some(lane) = first_misaligned(at, mask, bytes) {
        return Err(misaligned(lane, access, "shared", at, bytes));
    }
    Ok(w32!(lane => within(if mask >> lane & 1 == 1 { at.0[lane] } else { first }) as u32))
}

/// Loads a word per lane. If all lanes request the same word, it is read once.
#[inline(always)]
fn gather(offsets: &W32, plus: u32, load: impl Fn(u32) -> u32) -> W32 {
    let first = offsets.0[0];
    let mut differ = 0;
    for lane in 0..LANES {
        differ |= offsets.0[lane] ^ first;
    }
    if differ == 0 {
        return W32::splat(load(first + plus));
    }
    w32!(lane => load(offsets.0[lane] + plus))
}

/// Records how long an access to the memory of a block of the cluster takes.
#[inline(always)]
fn occupy(env: &mut Env<'_>, rank: usize, traffic: &Traffic) {
    if rank == env.rank {
        env.tally.occupy_shared(traffic);
    } else {
        env.tally.occupy_remote(traffic, &env.run.gpu.latencies);
    }
}

#[inline(always)]
pub(super) fn read(warp: u32, env: &mut Env<'_>, at: &W64, mask: u32, width: Width, words: &mut [W32]) -> Step<()> {
    let mut rest = mask;
    while rest != 0 {
        let (rank, part) = block_of(env, at, rest);
        rest &= !part;
        let offsets = offsets_of(env, rank, at, part, width.bytes, Access::Read)?;
        let checks = &env.run.options;
        if checks.uninitialised || checks.races {
            check(warp, env, rank, &offsets, part, width.bytes, Access::Read)?;
        }
        if let Some(asked) = env.asynchronous
            && rank == env.rank
        {
            check_proxy((warp, asked), env, &offsets, part, width.bytes)?;
        }
        let memory = &env.memories[rank];
        for (index, word) in words[..width.words].iter_mut().enumerate() {
            let value = gather(&offsets, 4 * index as u32, |offset| memory.load_word(offset));
            word.set(&value, part);
        }
        shift_down(&mut words[0], &offsets, width, part);
        if env.run.options.counters {
            let traffic = count_wavefronts(&offsets, part, width.bytes, Access::Read);
            occupy(env, rank, &traffic);
            env.tally.counters.shared_load.add(&traffic);
        }
    }
    Ok(())
}

#[inline(always)]
pub(super) fn write(warp: u32, env: &mut Env<'_>, at: &W64, mask: u32, width: Width, words: &[W32]) -> Step<()> {
    let mut rest = mask;
    let (by, volatile) = (env.lanes, env.semantics.is_strong());
    while rest != 0 {
        let (rank, part) = block_of(env, at, rest);
        rest &= !part;
        let offsets = offsets_of(env, rank, at, part, width.bytes, Access::Write)?;
        let races = env.run.options.races && rank == env.rank;
        let watched = env.run.options.races && env.asynchronous.is_none();
        let memory = &mut env.memories[rank];
        if let Some(races) = &mut memory.races {
            races.pc = env.pc;
        }
        for lane in lanes_of(part) {
            let offset = offsets.0[lane];
            if watched {
                check_flight(memory, lane, (Access::Write, offset, width.bytes))?;
            }
            if races {
                check_write(
                    (warp, by.unwrap_or(lane as Lane)),
                    memory,
                    volatile,
                    (offset, width.bytes),
                    (words, lane),
                )?;
            }
            if width.bytes < 4 {
                let shift = offset % 4 * 8;
                let narrow = u32::MAX >> (32 - 8 * width.bytes);
                memory.store_bits(offset, words[0].0[lane] << shift, narrow << shift);
            } else {
                for (index, word) in words[..width.words].iter().enumerate() {
                    memory.store_word(offset + 4 * index as u32, word.0[lane]);
                }
            }
        }
        if let Some(races) = memory.races.as_mut().filter(|_| races && volatile) {
            races.order.order_by_flag(warp, false, true);
        }
        note_proxy(warp, env, rank, &offsets, part, width.bytes);
        if env.run.options.counters {
            let traffic = count_wavefronts(&offsets, part, width.bytes, Access::Write);
            occupy(env, rank, &traffic);
            env.tally.counters.shared_store.add(&traffic);
        }
    }
    Ok(())
}

/// Checks for missing proxy fences before the asynchronous proxy reads the block's own memory.
#[inline(never)]
fn check_proxy((warp, asked): (u32, Moment), env: &mut Env<'_>, offsets: &W32, mask: u32, bytes: u32) -> Step<()> {
    let Some(proxies) = &mut env.memories[env.rank].proxies else { return Ok(()) };
    for lane in lanes_of(mask) {
        let offset = offsets.0[lane];
        if let Some((writer, pc)) = proxies.untold(warp, asked, offset, bytes) {
            let kind = FaultKind::Unfenced { address: offset.into(), warp, writer };
            return Err(LaneFault::at(lane, kind.after(pc)));
        }
    }
    Ok(())
}

/// Records a store that needs a proxy fence, or one that the asynchronous proxy made. Stores to other blocks are not
/// recorded.
#[inline(always)]
fn note_proxy(warp: u32, env: &mut Env<'_>, rank: usize, offsets: &W32, mask: u32, bytes: u32) {
    let (own, asynchronous, pc) = (rank == env.rank, env.asynchronous, env.pc);
    let Some(proxies) = &mut env.memories[rank].proxies else { return };
    for lane in lanes_of(mask) {
        if own && asynchronous.is_none() {
            proxies.write((warp, pc), offsets.0[lane], bytes);
        } else {
            proxies.mark_uninitialised(offsets.0[lane], bytes);
        }
    }
}

/// Checks that no asynchronous copy is in flight where a lane accesses memory.
#[inline(always)]
pub(crate) fn check_flight(memory: &SharedMemory, lane: usize, at: (Access, u32, u32)) -> Step<()> {
    let (access, offset, bytes) = at;
    match memory.flight.as_ref().and_then(|flight| flight.meets(access, offset, bytes)) {
        Some(writes) => Err(LaneFault::at(lane, FaultKind::InFlight { address: offset.into(), access, writes })),
        None => Ok(()),
    }
}

/// Checks and records a store of one lane for races, before it happens. Storing the value that is already there is not
/// a race.
#[inline(always)]
fn check_write(
    by: (u32, Lane),
    memory: &mut SharedMemory,
    volatile: bool,
    (offset, bytes): (u32, u32),
    (words, lane): (&[W32], usize),
) -> Step<()> {
    let Some(races) = &mut memory.races else { return Ok(()) };
    let checked = if volatile {
        races.volatile(by, Access::Write, offset, bytes)
    } else {
        races.access(by, Access::Write, offset, bytes)
    };
    if let Err(kind) = checked {
        if !memory.holds(offset, bytes, |word| words[word].0[lane]) {
            return Err(LaneFault::at(lane, kind));
        }
        if let Some(races) = &mut memory.races {
            races.note_same(by, offset, bytes);
        }
    }
    Ok(())
}

/// Checks an access to shared memory for races and uninitialised reads. Races are only detected within a block.
#[inline(never)]
pub(crate) fn check(
    warp: u32,
    env: &mut Env<'_>,
    rank: usize,
    offsets: &W32,
    mask: u32,
    bytes: u32,
    access: Access,
) -> Step<()> {
    let own = rank == env.rank;
    let (uninitialised, volatile) =
        (env.run.options.uninitialised, env.semantics.is_strong() && access != Access::Atomic);
    let by = env.lanes;
    // Asynchronous accesses are the copies themselves.
    let watched = env.asynchronous.is_none();
    let memory = &mut env.memories[rank];
    if let Some(races) = &mut memory.races {
        races.pc = env.pc;
    }
    let mut last = None;
    for lane in lanes_of(mask) {
        let offset = offsets.0[lane];
        // Broadcasts are common, and the second lane's check would have the same result.
        if last == Some(offset) {
            if let Some(races) = memory.races.as_mut().filter(|_| own && access == Access::Read && by.is_none()) {
                races.read_by_several(warp, offset, bytes);
            }
            continue;
        }
        last = Some(offset);
        if watched {
            check_flight(memory, lane, (access, offset, bytes))?;
        }
        if access == Access::Read && uninitialised && !memory.is_initialised(offset, bytes) {
            let kind = FaultKind::Uninitialised { space: "shared", address: u64::from(offset), bytes };
            return Err(LaneFault::at(lane, kind));
        }
        if let Some(races) = memory.races.as_mut().filter(|_| own) {
            let by = (warp, by.unwrap_or(lane as Lane));
            let checked = if volatile {
                races.volatile(by, access, offset, bytes)
            } else {
                races.access(by, access, offset, bytes)
            };
            checked.map_err(|kind| LaneFault::at(lane, kind))?;
        }
    }
    if let Some(races) = memory.races.as_mut().filter(|_| own && (volatile || access == Access::Atomic)) {
        races.order.order_by_flag(warp, true, access != Access::Read);
    }
    Ok(())
}
