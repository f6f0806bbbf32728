//! Loads and stores: from the lanes' addresses to the bytes, with every check on the way.

use super::env::{Env, Step, Trouble};
use super::lanes::{ALL, LANES, W32, W64, lanes_of, mask_where, w32, w64};
use super::tally::Tally;
use super::warp::Warp;
use crate::counters::Traffic;
use crate::fault::{Access, FaultKind};
use crate::memory::global::{Allocation, Place};
use crate::program::{Address, LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, Slot, Space, Ty};

/// Bits of a shared address below the block's rank: 16 MiB, more than any block has.
pub(crate) const RANK_SHIFT: u32 = 24;

/// Most words that a lane loads or stores at once: 32 bytes.
pub(crate) const MAX_WORDS: usize = 8;

/// Bytes that each lane moves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Width {
    /// Bytes of a lane, all elements.
    pub bytes: u32,
    /// 32-bit words that they fill; 1 for less than a word.
    pub words: usize,
}

impl Width {
    #[inline(always)]
    pub fn of(ty: Ty, count: u8) -> Self {
        let bytes = ty.bytes() * u32::from(count);
        // Two or four elements of less than a word are packed in memory and spread over slots in registers.
        Self { bytes, words: bytes.div_ceil(4) as usize }
    }
}

/// Returns the lanes' addresses.
#[inline(always)]
pub(crate) fn addresses(warp: &Warp, env: &Env<'_>, address: &Address) -> W64 {
    let offset = i64::from(address.offset) as u64;
    if address.wide {
        let base = env.get64(warp, address.base);
        w64!(lane => base.0[lane].wrapping_add(offset))
    } else {
        let base = env.get32(warp, address.base);
        // 32-bit shared addresses wrap at 32 bits.
        w64!(lane => u64::from(base.0[lane].wrapping_add(offset as u32)))
    }
}

/// `ld`: loads into the destination slots.
#[inline(always)]
pub(crate) fn load(
    warp: &mut Warp,
    env: &mut Env<'_>,
    (space, ty, count): (Space, Ty, u8),
    d: &[Slot; 8],
    address: &Address,
    mask: u32,
) -> Step<()> {
    let at = addresses(warp, env, address);
    let width = Width::of(ty, count);
    // Most loads are of one word, and clearing eight takes longer than the load.
    if width.words == 1 {
        let mut words = [W32::splat(0); 1];
        read(warp, env, space, &at, mask, width, &mut words)?;
        spread(warp, ty, count, d, &words, mask);
    } else {
        let mut words = [W32::splat(0); MAX_WORDS];
        read(warp, env, space, &at, mask, width, &mut words)?;
        spread(warp, ty, count, d, &words, mask);
    }
    Ok(())
}

/// Puts loaded words into destination slots, extending narrow elements.
#[inline(always)]
fn spread(warp: &mut Warp, ty: Ty, count: u8, d: &[Slot; 8], words: &[W32], mask: u32) {
    for element in 0..usize::from(count) {
        if d[element] == crate::program::NONE {
            continue;
        }
        match ty.bits() {
            32 => warp.r32[d[element] as usize].set(&words[element], mask),
            64 => {
                let (low, high) = (&words[2 * element], &words[2 * element + 1]);
                let value = w64!(lane => u64::from(low.0[lane]) | u64::from(high.0[lane]) << 32);
                warp.r64[d[element] as usize].set(&value, mask);
            }
            16 => {
                let (word, shift) = (&words[element / 2], element as u32 % 2 * 16);
                let value = if ty == Ty::S16 {
                    w32!(lane => (word.0[lane] >> shift) as u16 as i16 as u32)
                } else {
                    w32!(lane => word.0[lane] >> shift & 0xffff)
                };
                warp.r32[d[element] as usize].set(&value, mask);
            }
            _ => {
                let (word, shift) = (&words[element / 4], element as u32 % 4 * 8);
                let value = w32!(lane => {
                    let byte = (word.0[lane] >> shift) as u8;
                    if ty == Ty::S8 { byte as i8 as u32 } else { u32::from(byte) }
                });
                warp.r32[d[element] as usize].set(&value, mask);
            }
        }
    }
}

/// `st`: stores the source slots.
#[inline(always)]
pub(crate) fn store(
    warp: &mut Warp,
    env: &mut Env<'_>,
    (space, ty, count): (Space, Ty, u8),
    s: &[Slot; 8],
    address: &Address,
    mask: u32,
) -> Step<()> {
    let at = addresses(warp, env, address);
    let width = Width::of(ty, count);
    let mut words = [W32::splat(0); MAX_WORDS];
    for (element, &slot) in s[..usize::from(count)].iter().enumerate() {
        match ty.bits() {
            32 => words[element] = *env.get32(warp, slot),
            64 => {
                let value = env.get64(warp, slot);
                words[2 * element] = w32!(lane => value.0[lane] as u32);
                words[2 * element + 1] = w32!(lane => (value.0[lane] >> 32) as u32);
            }
            bits => {
                let value = env.get32(warp, slot);
                let per_word = 32 / bits as usize;
                let shift = (element % per_word) as u32 * bits;
                let word = &mut words[element / per_word];
                let narrow = u32::MAX >> (32 - bits);
                for lane in 0..LANES {
                    word.0[lane] |= (value.0[lane] & narrow) << shift;
                }
            }
        }
    }
    write(warp, env, space, &at, mask, width, &words)
}

/// Splits generic addresses by window and reads each part.
#[inline(always)]
pub(crate) fn read(
    warp: &mut Warp,
    env: &mut Env<'_>,
    space: Space,
    at: &W64,
    mask: u32,
    width: Width,
    words: &mut [W32],
) -> Step<()> {
    match space {
        Space::Global | Space::Const => read_global(env, at, mask, width, words),
        Space::Shared => read_shared(warp.index, env, at, mask, width, words),
        Space::Local => read_local(warp, env, at, mask, width, words),
        Space::Param | Space::SharedCluster | Space::Generic => read_generic(warp, env, space, at, mask, width, words),
    }
}

#[inline(never)]
fn read_generic(
    warp: &mut Warp,
    env: &mut Env<'_>,
    space: Space,
    at: &W64,
    mask: u32,
    width: Width,
    words: &mut [W32],
) -> Step<()> {
    for (window, part, at) in windows(space, at, mask) {
        match window {
            Space::Shared => read_shared(warp.index, env, &at, part, width, words)?,
            Space::Local => read_local(warp, env, &at, part, width, words)?,
            Space::Param => read_param(env, &at, part, width, words)?,
            _ => read_global(env, &at, part, width, words)?,
        }
    }
    Ok(())
}

/// Splits generic addresses by the window that they are in; addresses become relative to it.
fn windows(space: Space, at: &W64, mask: u32) -> impl Iterator<Item = (Space, u32, W64)> {
    let bases = [
        (Space::Shared, SHARED_WINDOW),
        (Space::Local, LOCAL_WINDOW),
        (Space::Param, PARAM_WINDOW),
        (Space::Global, 0),
    ];
    let window_of = move |address: u64| match address >> 40 {
        _ if space == Space::SharedCluster => SHARED_WINDOW,
        top if top == SHARED_WINDOW >> 40 => SHARED_WINDOW,
        top if top == LOCAL_WINDOW >> 40 => LOCAL_WINDOW,
        top if top == PARAM_WINDOW >> 40 => PARAM_WINDOW,
        _ => 0,
    };
    let at = *at;
    bases.into_iter().filter_map(move |(window, base)| {
        let part = mask & mask_where!(lane => window_of(at.0[lane]) == base);
        let relative = if space == Space::SharedCluster { 0 } else { base };
        (part != 0).then(|| (window, part, w64!(lane => at.0[lane].wrapping_sub(relative))))
    })
}

/// Returns whether an active lane's address is not a multiple of `bytes`.
#[inline(always)]
fn first_misaligned(at: &W64, mask: u32, bytes: u32) -> Option<usize> {
    let low = u64::from(bytes) - 1;
    let mut any = 0;
    for lane in 0..LANES {
        any |= if mask >> lane & 1 == 1 { at.0[lane] & low } else { 0 };
    }
    if any == 0 { None } else { lanes_of(mask).find(|&lane| at.0[lane] & low != 0) }
}

#[cold]
fn misaligned(lane: usize, access: Access, space: &'static str, at: &W64, bytes: u32) -> Box<Trouble> {
    Trouble::at(lane, FaultKind::Misaligned { access, space, address: at.0[lane], bytes })
}

/// Finds the allocation of the first lane of `mask` and the lanes that are in it too.
#[inline(always)]
pub(crate) fn group<'g>(
    env: &mut Env<'g>,
    at: &W64,
    mask: u32,
    bytes: u32,
    access: Access,
) -> Step<(&'g Allocation, u32)> {
    let first = mask.trailing_zeros() as usize;
    let memory = env.run.memory;
    if !memory.is_inside(env.tally.allocation, at.0[first], bytes) {
        env.tally.allocation = locate(env, at.0[first], bytes, access).map_err(|kind| Trouble::at(first, kind))?;
    }
    let allocation = memory.allocation(env.tally.allocation);
    let inside = mask & mask_where!(lane => allocation.contains(at.0[lane], bytes));
    Ok((allocation, inside))
}

#[cold]
fn locate(env: &Env<'_>, address: u64, bytes: u32, access: Access) -> Result<usize, FaultKind> {
    match env.run.memory.find(address) {
        Place::Inside(index) if env.run.memory.allocation(index).contains(address, bytes) => Ok(index),
        Place::Inside(_) => {
            let detail = "it ends past the allocation".to_owned();
            Err(FaultKind::OutOfBounds { access, space: "global", address, bytes, detail })
        }
        Place::Freed => Err(FaultKind::UseAfterFree { access, address, bytes }),
        Place::Outside(detail) => Err(FaultKind::OutOfBounds { access, space: "global", address, bytes, detail }),
    }
}

#[inline(always)]
fn read_global(env: &mut Env<'_>, at: &W64, mask: u32, width: Width, words: &mut [W32]) -> Step<()> {
    if let Some(lane) = first_misaligned(at, mask, width.bytes) {
        return Err(misaligned(lane, Access::Read, "global", at, width.bytes));
    }
    let mut rest = mask;
    while rest != 0 {
        let (allocation, part) = group(env, at, rest, width.bytes, Access::Read)?;
        rest &= !part;
        let first = at.0[part.trailing_zeros() as usize];
        let safe = w64!(lane => if part >> lane & 1 == 1 { at.0[lane] } else { first });
        if env.run.options.uninitialised {
            let bad = mask_where!(lane => !allocation.is_initialised(safe.0[lane], width.bytes));
            if bad != 0 {
                let lane = bad.trailing_zeros() as usize;
                let kind = FaultKind::Uninitialised { space: "global", address: safe.0[lane], bytes: width.bytes };
                return Err(Trouble::at(lane, kind));
            }
        }
        for (index, word) in words[..width.words].iter_mut().enumerate() {
            let value = w32!(lane => allocation.load_word(safe.0[lane] + 4 * index as u64));
            word.set(&value, part);
        }
        shift_down(&mut words[0], &w32!(lane => safe.0[lane] as u32), width, part);
        if env.run.options.counters {
            touch(allocation, &safe, part);
        }
    }
    if env.run.options.counters {
        let traffic = count_global(env.tally, at, mask, width.bytes);
        env.tally.counters.global_load.add(&traffic);
        env.tally.delay = env.tally.load_through_l1(at, mask, env.run.gpu.latencies.l1_miss());
    }
    Ok(())
}

#[inline(always)]
fn write_global(env: &mut Env<'_>, at: &W64, mask: u32, width: Width, words: &[W32]) -> Step<()> {
    if let Some(lane) = first_misaligned(at, mask, width.bytes) {
        return Err(misaligned(lane, Access::Write, "global", at, width.bytes));
    }
    let mut rest = mask;
    while rest != 0 {
        let (allocation, part) = group(env, at, rest, width.bytes, Access::Write)?;
        rest &= !part;
        for lane in lanes_of(part) {
            let address = at.0[lane];
            if width.bytes < 4 {
                let shift = address % 4 * 8;
                let narrow = u32::MAX >> (32 - 8 * width.bytes);
                allocation.store_bits(address, words[0].0[lane] << shift, narrow << shift);
            } else {
                for (index, word) in words[..width.words].iter().enumerate() {
                    allocation.store_word(address + 4 * index as u64, word.0[lane]);
                }
            }
            allocation.set_initialised(address, width.bytes);
        }
        if env.run.options.counters {
            touch(allocation, at, part);
        }
    }
    if env.run.options.counters {
        let traffic = count_global(env.tally, at, mask, width.bytes);
        env.tally.counters.global_store.add(&traffic);
    }
    Ok(())
}

/// Marks the sectors of the lanes of `mask`, which are inside the allocation, as touched.
#[inline(always)]
fn touch(allocation: &Allocation, at: &W64, mask: u32) {
    let mut last = u64::MAX;
    for lane in lanes_of(mask) {
        let sector = at.0[lane] / 32;
        if sector != last {
            allocation.touch(at.0[lane]);
            last = sector;
        }
    }
}

/// Counts the 32-byte sectors of one access and how many its bytes would fill; notes the lines that keep the pipe busy.
pub(crate) fn count_global(tally: &mut Tally, at: &W64, mask: u32, bytes: u32) -> Traffic {
    let asked = u64::from(mask.count_ones()) * u64::from(bytes);
    let sectors = distinct(at, mask, 5);
    tally.occupied = distinct(at, mask, 7) as u32 - 1;
    Traffic { requests: 1, units: sectors, ideal_units: sectors.min(asked.div_ceil(32)), bytes: asked }
}

/// Counts distinct addresses without their low `shift` bits.
fn distinct(at: &W64, mask: u32, shift: u32) -> u64 {
    let (mut distinct, mut ordered, mut last) = (0, true, None);
    for lane in lanes_of(mask) {
        let unit = at.0[lane] >> shift;
        if last != Some(unit) {
            ordered &= last < Some(unit);
            distinct += 1;
            last = Some(unit);
        }
    }
    if ordered {
        return distinct;
    }
    let mut units = at.0.map(|address| address >> shift);
    let mut count = 0;
    for lane in lanes_of(mask) {
        units[count] = at.0[lane] >> shift;
        count += 1;
    }
    units[..count].sort_unstable();
    1 + units[..count].windows(2).filter(|pair| pair[0] != pair[1]).count() as u64
}

/// Returns the block and the offset that shared addresses of the lanes of `mask` mean. All must be in one block.
#[inline(always)]
fn shared_block(env: &Env<'_>, at: &W64, mask: u32) -> (usize, u32) {
    let first = mask.trailing_zeros() as usize;
    let tag = at.0[first] >> RANK_SHIFT;
    if tag == 0 {
        return (env.rank, mask);
    }
    (tag as usize - 1, mask & mask_where!(lane => at.0[lane] >> RANK_SHIFT == tag))
}

#[cold]
pub(crate) fn shared_out_of_bounds(env: &Env<'_>, rank: usize, access: Access, address: u64, bytes: u32) -> FaultKind {
    let detail = match env.memories.get(rank) {
        Some(memory) => format!("the block has {} bytes", memory.bytes()),
        None => format!("the cluster has {} blocks", env.memories.len()),
    };
    FaultKind::OutOfBounds { access, space: "shared", address, bytes, detail }
}

/// Checks bounds and alignment of shared accesses of the lanes of `mask`, and returns their offsets.
#[inline(always)]
pub(crate) fn shared_offsets(env: &Env<'_>, rank: usize, at: &W64, mask: u32, bytes: u32, access: Access) -> Step<W32> {
    let size = env.memories.get(rank).map_or(0, |memory| memory.bytes());
    let own = rank == env.rank;
    let first = at.0[mask.trailing_zeros() as usize];
    let within =
        |address: u64| if own && address >> RANK_SHIFT == 0 { address } else { address & ((1 << RANK_SHIFT) - 1) };
    let most = u64::from(size).wrapping_sub(u64::from(bytes));
    let mut farthest = 0;
    for lane in 0..LANES {
        let address = if mask >> lane & 1 == 1 { at.0[lane] } else { first };
        farthest = within(address).max(farthest);
    }
    if farthest > most || size < bytes {
        let outside = |&lane: &usize| size < bytes || within(at.0[lane]) > most;
        let lane = lanes_of(mask).find(outside).unwrap_or(0);
        return Err(Trouble::at(lane, shared_out_of_bounds(env, rank, access, at.0[lane], bytes)));
    }
    if let Some(lane) = first_misaligned(at, mask, bytes) {
        return Err(misaligned(lane, access, "shared", at, bytes));
    }
    Ok(w32!(lane => within(if mask >> lane & 1 == 1 { at.0[lane] } else { first }) as u32))
}

/// Loads a word per lane; lanes that all ask for the same get it at once.
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

/// Moves what is less than a word, at its place in the word, to the low end.
#[inline(always)]
fn shift_down(word: &mut W32, offsets: &W32, width: Width, mask: u32) {
    if width.bytes < 4 {
        let value = w32!(lane => word.0[lane] >> (offsets.0[lane] % 4 * 8));
        word.set(&value, mask);
    }
}

#[inline(always)]
fn read_shared(warp: u32, env: &mut Env<'_>, at: &W64, mask: u32, width: Width, words: &mut [W32]) -> Step<()> {
    let mut rest = mask;
    while rest != 0 {
        let (rank, part) = shared_block(env, at, rest);
        rest &= !part;
        let offsets = shared_offsets(env, rank, at, part, width.bytes, Access::Read)?;
        let checks = &env.run.options;
        if checks.uninitialised || checks.races {
            check_shared(warp, env, rank, &offsets, part, width.bytes, Access::Read)?;
        }
        let memory = &env.memories[rank];
        for (index, word) in words[..width.words].iter_mut().enumerate() {
            let value = gather(&offsets, 4 * index as u32, |offset| memory.load_word(offset));
            word.set(&value, part);
        }
        shift_down(&mut words[0], &offsets, width, part);
        if env.run.options.counters {
            let traffic = count_wavefronts(&offsets, part, width.bytes);
            env.tally.occupied = (traffic.units - 1) as u32;
            env.tally.counters.shared_load.add(&traffic);
        }
    }
    Ok(())
}

#[inline(always)]
fn write_shared(warp: u32, env: &mut Env<'_>, at: &W64, mask: u32, width: Width, words: &[W32]) -> Step<()> {
    let mut rest = mask;
    while rest != 0 {
        let (rank, part) = shared_block(env, at, rest);
        rest &= !part;
        let offsets = shared_offsets(env, rank, at, part, width.bytes, Access::Write)?;
        if env.run.options.races {
            check_shared(warp, env, rank, &offsets, part, width.bytes, Access::Write)?;
        }
        let memory = &mut env.memories[rank];
        for lane in lanes_of(part) {
            let offset = offsets.0[lane];
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
        if env.run.options.counters {
            let traffic = count_wavefronts(&offsets, part, width.bytes);
            env.tally.occupied = (traffic.units - 1) as u32;
            env.tally.counters.shared_store.add(&traffic);
        }
    }
    Ok(())
}

/// Looks for races and uninitialised reads in an access to shared memory. Races are only kept within a block.
#[inline(never)]
pub(crate) fn check_shared(
    warp: u32,
    env: &mut Env<'_>,
    rank: usize,
    offsets: &W32,
    mask: u32,
    bytes: u32,
    access: Access,
) -> Step<()> {
    let own = rank == env.rank;
    let (uninitialised, volatile) = (env.run.options.uninitialised, env.volatile && access != Access::Atomic);
    let memory = &mut env.memories[rank];
    let mut last = None;
    for lane in lanes_of(mask) {
        let offset = offsets.0[lane];
        // Broadcasts are common, and the second lane's check would say the same.
        if last == Some(offset) {
            continue;
        }
        last = Some(offset);
        if access == Access::Read && uninitialised && !memory.is_initialised(offset, bytes) {
            let kind = FaultKind::Uninitialised { space: "shared", address: u64::from(offset), bytes };
            return Err(Trouble::at(lane, kind));
        }
        if let Some(races) = memory.races.as_mut().filter(|_| own && !volatile) {
            races.access(warp, access, offset, bytes).map_err(|kind| Trouble::at(lane, kind))?;
        }
    }
    Ok(())
}

/// Counts the wavefronts of one access to shared memory: passes over its 32 banks of 4 bytes.
///
/// Lanes of 4 bytes or less go together, of 8 in two halves, of 16 in four quarters; lanes that ask for the same word
/// share it.
#[inline(always)]
pub(crate) fn count_wavefronts(offsets: &W32, mask: u32, bytes: u32) -> Traffic {
    let lanes = u64::from(mask.count_ones());
    let asked = lanes * u64::from(bytes);
    let ideal = asked.div_ceil(128);
    let done = |units| Traffic { requests: 1, units, ideal_units: ideal.min(units), bytes: asked };
    if bytes <= 4 && mask == ALL && is_compact(offsets) {
        return done(1);
    }
    if is_same(offsets) {
        return done(u64::from(bytes.div_ceil(16)));
    }
    done(wavefronts_slow(offsets, mask, bytes))
}

/// Returns whether neighbouring lanes are in the same or in the next word, all within 32 words: one pass for sure.
#[inline(always)]
fn is_compact(offsets: &W32) -> bool {
    let mut steps = 0;
    for lane in 1..LANES {
        steps |= (offsets.0[lane] / 4).wrapping_sub(offsets.0[lane - 1] / 4) & !1;
    }
    steps == 0
}

/// Returns whether all lanes ask for the same: one pass, too. Lanes that are not active ask for what an active one does.
#[inline(always)]
fn is_same(offsets: &W32) -> bool {
    let mut differ = 0;
    for lane in 1..LANES {
        differ |= offsets.0[lane] ^ offsets.0[0];
    }
    differ == 0
}

#[inline(never)]
fn wavefronts_slow(offsets: &W32, mask: u32, bytes: u32) -> u64 {
    // Lanes move chunks: a word, or two or four neighbouring ones, that lie in as many neighbouring banks.
    let chunk_bytes = bytes.next_power_of_two().clamp(4, 16);
    let banks = 128 / chunk_bytes as usize;
    let chunks = offsets.0.map(|offset| offset / chunk_bytes);
    let mut total = 0;
    for first in (0..LANES).step_by(banks) {
        let lanes = mask & ((((1u64 << banks) - 1) as u32) << first);
        // A group that asks for what the one before asked for rides along.
        let rides = first > 0 && lanes_of(lanes).all(|lane| chunks[lane] == chunks[lane - banks]);
        if lanes != 0 && !rides {
            total += conflicts(&chunks, lanes, banks);
        }
    }
    // Wider ones take as many turns of 16 bytes.
    total * u64::from(bytes.div_ceil(16))
}

/// Returns the most distinct chunks that the lanes of `mask` want from one bank.
fn conflicts(chunks: &[u32; LANES], mask: u32, banks: usize) -> u64 {
    let mut first = [u32::MAX; 32];
    let mut counts = [0u8; 32];
    // Chunks beyond the first of their bank: few, unless there is nothing but conflicts.
    let mut others = [0u32; LANES];
    let mut other_count = 0;
    for lane in lanes_of(mask) {
        let chunk = chunks[lane];
        let bank = chunk as usize % banks;
        if counts[bank] == 0 {
            first[bank] = chunk;
            counts[bank] = 1;
        } else if first[bank] != chunk && !others[..other_count].contains(&chunk) {
            others[other_count] = chunk;
            other_count += 1;
            counts[bank] += 1;
        }
    }
    counts.into_iter().max().unwrap_or(0).into()
}

fn local_index(warp: &Warp, at: &W64, lane: usize, bytes: u32, access: Access) -> Step<usize> {
    let address = at.0[lane];
    let size = warp.local_written.len() as u64 * 4;
    if address + u64::from(bytes) > size {
        let detail = format!("the thread has {size} bytes");
        let kind = FaultKind::OutOfBounds { access, space: "local", address, bytes, detail };
        return Err(Trouble::at(lane, kind));
    }
    if !address.is_multiple_of(u64::from(bytes)) {
        return Err(misaligned(lane, access, "local", at, bytes));
    }
    Ok((address / 4) as usize)
}

fn read_local(warp: &mut Warp, env: &mut Env<'_>, at: &W64, mask: u32, width: Width, words: &mut [W32]) -> Step<()> {
    for lane in lanes_of(mask) {
        let index = local_index(warp, at, lane, width.bytes, Access::Read)?;
        for word in 0..width.words {
            if env.run.options.uninitialised && warp.local_written[index + word] >> lane & 1 == 0 {
                let kind = FaultKind::Uninitialised { space: "local", address: at.0[lane], bytes: width.bytes };
                return Err(Trouble::at(lane, kind));
            }
            words[word].0[lane] = warp.local[(index + word) * LANES + lane];
        }
        if width.bytes < 4 {
            words[0].0[lane] >>= at.0[lane] % 4 * 8;
        }
    }
    count_local(env, mask, width);
    Ok(())
}

fn write_local(warp: &mut Warp, env: &mut Env<'_>, at: &W64, mask: u32, width: Width, words: &[W32]) -> Step<()> {
    for lane in lanes_of(mask) {
        let index = local_index(warp, at, lane, width.bytes, Access::Write)?;
        for word in 0..width.words {
            let to = &mut warp.local[(index + word) * LANES + lane];
            if width.bytes < 4 {
                let shift = at.0[lane] % 4 * 8;
                let narrow = u32::MAX >> (32 - 8 * width.bytes) << shift;
                *to = *to & !narrow | words[0].0[lane] << shift & narrow;
            } else {
                *to = words[word].0[lane];
            }
            // Kept per word: a compiler that stores a byte of a local array stores the others too.
            warp.local_written[index + word] |= 1 << lane;
        }
    }
    count_local(env, mask, width);
    Ok(())
}

/// Local memory is interleaved by lane: the same word of all lanes is one line of 128 bytes.
fn count_local(env: &mut Env<'_>, mask: u32, width: Width) {
    if env.run.options.counters {
        let bytes = u64::from(mask.count_ones()) * u64::from(width.bytes);
        let units = bytes.div_ceil(32);
        env.tally.counters.local.add(&Traffic { requests: 1, units, ideal_units: units, bytes });
    }
}

fn read_param(env: &mut Env<'_>, at: &W64, mask: u32, width: Width, words: &mut [W32]) -> Step<()> {
    for lane in lanes_of(mask) {
        let from = at.0[lane] as usize;
        let Some(bytes) = env.run.params.get(from..from + width.bytes as usize) else {
            let detail = format!("the parameters have {} bytes", env.run.params.len());
            let (address, bytes) = (at.0[lane], width.bytes);
            let kind = FaultKind::OutOfBounds { access: Access::Read, space: "param", address, bytes, detail };
            return Err(Trouble::at(lane, kind));
        };
        for (word, chunk) in bytes.chunks(4).enumerate() {
            let mut four = [0; 4];
            four[..chunk.len()].copy_from_slice(chunk);
            words[word].0[lane] = u32::from_le_bytes(four);
        }
    }
    Ok(())
}

/// Splits generic addresses by window and writes each part.
#[inline(always)]
pub(crate) fn write(
    warp: &mut Warp,
    env: &mut Env<'_>,
    space: Space,
    at: &W64,
    mask: u32,
    width: Width,
    words: &[W32],
) -> Step<()> {
    match space {
        Space::Global => write_global(env, at, mask, width, words),
        Space::Shared => write_shared(warp.index, env, at, mask, width, words),
        _ => write_generic(warp, env, space, at, mask, width, words),
    }
}

#[inline(never)]
fn write_generic(
    warp: &mut Warp,
    env: &mut Env<'_>,
    space: Space,
    at: &W64,
    mask: u32,
    width: Width,
    words: &[W32],
) -> Step<()> {
    if space == Space::Local {
        return write_local(warp, env, at, mask, width, words);
    }
    for (window, part, at) in windows(space, at, mask) {
        match window {
            Space::Shared => write_shared(warp.index, env, &at, part, width, words)?,
            Space::Local => write_local(warp, env, &at, part, width, words)?,
            Space::Param => {
                let lane = part.trailing_zeros() as usize;
                return Err(Trouble::at(lane, FaultKind::Invalid("store to a parameter".to_owned())));
            }
            _ => write_global(env, &at, part, width, words)?,
        }
    }
    Ok(())
}
