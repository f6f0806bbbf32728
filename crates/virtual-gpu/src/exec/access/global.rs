//! Global memory: bounds by allocation, written bytes, sectors and lines.

use super::{Width, first_misaligned, misaligned, shift_down};
use crate::counters::Traffic;
use crate::exec::env::Env;
use crate::exec::global_races;
use crate::exec::lane_fault::{LaneFault, Step};
use crate::exec::lanes::{W32, W64, lanes_of, mask_where, w32, w64};
use crate::exec::messages;
use crate::exec::tally::Tally;
use crate::fault::{Access, FaultKind};
use crate::memory::global::{Allocation, Place};
use crate::timing::LINE_BYTES;

/// Finds the allocation of the first lane of `mask` and the lanes that are also in it.
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
        env.tally.allocation = locate(env, at.0[first], bytes, access).map_err(|kind| LaneFault::at(first, kind))?;
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
pub(super) fn read(warp: u32, env: &mut Env<'_>, at: &W64, mask: u32, width: Width, words: &mut [W32]) -> Step<()> {
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
                return Err(LaneFault::at(lane, kind));
            }
        }
        global_races::depends(env, Access::Read, allocation, &safe, part, width.bytes)?;
        global_races::read(env, warp, allocation, &safe, part, width.bytes)?;
        for (index, word) in words[..width.words].iter_mut().enumerate() {
            let value = w32!(lane => allocation.load_word(safe.0[lane] + 4 * index as u64));
            word.set(&value, part);
        }
        messages::load(env, warp, allocation, &safe, part, width.words, words);
        shift_down(&mut words[0], &w32!(lane => safe.0[lane] as u32), width, part);
        if env.run.options.counters {
            touch(allocation, &safe, part);
        }
    }
    if env.run.options.counters {
        let traffic = count(&mut env.tally, at, mask, width.bytes);
        env.tally.counters.global_load.add(&traffic);
        env.tally.dynamic.delay = env.tally.load_through_l1(at, mask, env.run.gpu.latencies.l1_miss());
    }
    Ok(())
}

#[inline(always)]
pub(super) fn write(warp: u32, env: &mut Env<'_>, at: &W64, mask: u32, width: Width, words: &[W32]) -> Step<()> {
    if let Some(lane) = first_misaligned(at, mask, width.bytes) {
        return Err(misaligned(lane, Access::Write, "global", at, width.bytes));
    }
    let races = env.run.options.races;
    env.wrote = true;
    let mut rest = mask;
    while rest != 0 {
        let (allocation, part) = group(env, at, rest, width.bytes, Access::Write)?;
        rest &= !part;
        global_races::depends(env, Access::Write, allocation, at, part, width.bytes)?;
        for lane in lanes_of(part) {
            let address = at.0[lane];
            let several =
                races && global_races::check_write(env, warp, (allocation, lane), address, width.bytes, words)?;
            if width.bytes < 4 {
                let shift = address % 4 * 8;
                let narrow = u32::MAX >> (32 - 8 * width.bytes);
                allocation.store_bits(address, words[0].0[lane] << shift, narrow << shift);
            } else {
                for (index, word) in words[..width.words].iter().enumerate() {
                    messages::store(env, warp, allocation, address + 4 * index as u64, word.0[lane]);
                    allocation.store_word(address + 4 * index as u64, word.0[lane]);
                }
            }
            allocation.set_initialised(address, width.bytes);
            if races {
                global_races::note(env, warp, (allocation, lane), address, width.bytes, several);
            }
        }
        if env.run.options.counters {
            touch(allocation, at, part);
        }
    }
    if env.run.options.counters {
        let traffic = count(&mut env.tally, at, mask, width.bytes);
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

/// Counts the 32-byte sectors of one access and the sectors that its bytes would fill. Records the lines that occupy
/// the pipe.
pub(crate) fn count(tally: &mut Tally, at: &W64, mask: u32, bytes: u32) -> Traffic {
    let asked = u64::from(mask.count_ones()) * u64::from(bytes);
    let sectors = distinct(at, mask, 5);
    let lines = distinct(at, mask, 7) as u32;
    tally.dynamic.occupied = lines - 1;
    tally.dynamic.scattered = lines.saturating_sub(asked.div_ceil(LINE_BYTES) as u32);
    Traffic { requests: 1, units: sectors, ideal_units: sectors.min(asked.div_ceil(32)), bytes: asked }
}

/// Counts distinct addresses, ignoring their low `shift` bits.
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
