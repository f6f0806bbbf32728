//! `cp.async`: copies from global to shared memory that arrive only when they are waited for.
//!
//! The bytes are read and every address is checked when the copy is issued. Shared memory changes when the group is
//! waited for. So a kernel that forgets to wait reads the old contents, as it may on the machine.

use super::access::{self, Width};
use super::env::Env;
use super::lane_fault::{LaneFault, Step};
use super::lanes::{W32, W64, lanes_of, mask_where, w64};
use super::warp::{Copy, Warp};
use crate::fault::Access;
use crate::memory::races::Lane;
use crate::program::{Address, NONE, Slot, Space, Ty};

/// `cp.async`: `source` is the number of bytes read (NONE for all), `ignore` a predicate that zero-fills all (or NONE).
pub(crate) fn issue(
    warp: &mut Warp,
    env: &mut Env<'_>,
    (bytes, source, ignore): (u8, Slot, Slot),
    (shared, global): (&Address, &Address),
    mask: u32,
) -> Step<()> {
    let bytes = u32::from(bytes);
    let (to, from) = (access::addresses(warp, env, shared), access::addresses(warp, env, global));
    let source = if source == NONE { W32::splat(bytes) } else { *env.get32(warp, source) };
    let ignored = if ignore == NONE { 0 } else { warp.predicate(ignore) };
    let taken = |lane: usize| if ignored >> lane & 1 == 1 { 0 } else { source.0[lane].min(bytes) };
    let whole = mask & mask_where!(lane => taken(lane) == bytes);
    let mut words = [W32::splat(0); access::MAX_WORDS];
    let before = env.tally.traffic();
    if whole != 0 {
        access::read(warp, env, Space::Global, &from, whole, Width { bytes, words: bytes as usize / 4 }, &mut words)?;
    }
    for lane in lanes_of(mask & !whole) {
        partial(warp, env, &from, lane, taken(lane), &mut words)?;
    }
    let offsets = check_destinations(warp, env, &to, mask, bytes)?;
    for lane in lanes_of(mask) {
        let data = std::array::from_fn(|word| words[word].0[lane]);
        let memory = &mut env.memories[env.rank];
        access::check_flight(memory, lane, (Access::Write, offsets.0[lane], bytes))?;
        if let Some(flight) = &mut memory.flight {
            flight.begin(true, offsets.0[lane], bytes);
        }
        warp.copies.push(Copy { to: offsets.0[lane], bytes, data, lane: lane as u32, pc: env.pc });
    }
    if env.run.options.counters {
        // One request, however it was split. Its shared side does not count as a store; a GPU's counters omit it, too.
        let delay = env.tally.dynamic.delay;
        env.tally.restore(before);
        let read = mask & mask_where!(lane => taken(lane) > 0);
        if read != 0 {
            let traffic = access::count_global(&mut env.tally, &from, read, bytes);
            env.tally.counters.global_load.add(&traffic);
        }
        env.tally.dynamic.delay = delay;
    }
    Ok(())
}

/// Reads the first `count` bytes of one lane's source, byte by byte; the rest stays zero.
fn partial(warp: &mut Warp, env: &mut Env<'_>, from: &W64, lane: usize, count: u32, words: &mut [W32]) -> Step<()> {
    for byte in 0..count {
        let at = w64!(lane => from.0[lane].wrapping_add(u64::from(byte)));
        let mut one = [W32::splat(0); access::MAX_WORDS];
        access::read(warp, env, Space::Global, &at, 1 << lane, Width::of(Ty::B8, 1), &mut one)?;
        words[byte as usize / 4].0[lane] |= (one[0].0[lane] & 0xff) << (byte % 4 * 8);
    }
    Ok(())
}

/// Checks the destinations like those of a write, without writing.
fn check_destinations(warp: &Warp, env: &Env<'_>, to: &W64, mask: u32, bytes: u32) -> Step<W32> {
    let to = w64!(lane => match to.0[lane] {
        generic if generic >> 40 == crate::program::SHARED_WINDOW >> 40 => generic - crate::program::SHARED_WINDOW,
        address => address,
    });
    let offsets = access::shared_offsets(env, env.rank, &to, mask, bytes, Access::Write)?;
    if let Some(races) = &env.memories[env.rank].races {
        for lane in lanes_of(mask) {
            races
                .check_only((warp.index, lane as Lane), Access::Write, offsets.0[lane], bytes)
                .map_err(|kind| LaneFault::at(lane, kind))?;
        }
    }
    Ok(offsets)
}

/// `cp.async.commit_group`
pub(crate) fn commit(warp: &mut Warp) {
    let copies = std::mem::take(&mut warp.copies);
    warp.groups.push_back(copies);
}

/// `cp.async.wait_group`: completes all but the newest `groups` groups; `wait_all` completes all.
pub(crate) fn wait(warp: &mut Warp, env: &mut Env<'_>, groups: Option<u32>) -> Step<()> {
    let keep = groups.unwrap_or(0) as usize;
    while warp.groups.len() > keep {
        let copies = warp.groups.pop_front().unwrap_or_default();
        arrive(warp.index, env, &copies)?;
    }
    if groups.is_none() {
        let copies = std::mem::take(&mut warp.copies);
        arrive(warp.index, env, &copies)?;
    }
    Ok(())
}

fn arrive(warp: u32, env: &mut Env<'_>, copies: &[Copy]) -> Step<()> {
    let rank = env.rank;
    for copy in copies {
        let memory = &mut env.memories[rank];
        if let Some(flight) = &mut memory.flight {
            flight.end(true, copy.to, copy.bytes);
        }
        if let Some(races) = &mut memory.races {
            races.pc = copy.pc;
            races
                .access((warp, copy.lane as Lane), Access::Write, copy.to, copy.bytes)
                .map_err(|found| LaneFault::at(copy.lane as usize, found))?;
        }
        for (index, &word) in copy.data[..copy.bytes as usize / 4].iter().enumerate() {
            memory.store_word(copy.to + 4 * index as u32, word);
        }
        // Missing fences after these copies are not detected, although they need one, too.
        if let Some(proxies) = &mut memory.proxies {
            proxies.mark_uninitialised(copy.to, copy.bytes);
        }
    }
    Ok(())
}
