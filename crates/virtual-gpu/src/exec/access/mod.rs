//! Loads and stores: from the lanes' addresses to the bytes, with every check.

mod banks;
mod global;
mod private;
mod product;
mod shared;

pub(crate) use banks::count_wavefronts;
pub(crate) use global::{count as count_global, group};
pub(crate) use product::read as read_for_product;
pub(crate) use shared::{
    check as check_shared, check_flight, offsets_of as shared_offsets, out_of_bounds as shared_out_of_bounds,
};

use super::env::Env;
use super::global_races;
use super::lane_fault::{LaneFault, Step};
use super::lanes::{LANES, W32, W64, lanes_of, mask_where, w32, w64};
use super::warp::Warp;
use crate::fault::{Access, FaultKind};
use crate::program::{Address, LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, Semantics, Slot, Space, Ty};

/// Maximum words that a lane loads or stores at once: 32 bytes.
pub(crate) const MAX_WORDS: usize = 8;

/// Size of each lane's access.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Width {
    /// Bytes of a lane, all elements.
    pub bytes: u32,
    /// 32-bit words that these bytes fill; 1 for less than a word.
    pub words: usize,
}

impl Width {
    #[inline(always)]
    pub fn of(ty: Ty, count: u8) -> Self {
        let bytes = ty.bytes() * u32::from(count);
        // Two or four elements smaller than a word are packed in memory and spread over slots in registers.
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

/// Makes an access that is not weak: it may order others. `writes` tells a store from a load.
#[inline(never)]
pub(crate) fn strong<'a>(
    warp: &mut Warp,
    env: &mut Env<'a>,
    (space, semantics, writes): (Space, Semantics, bool),
    address: &Address,
    mask: u32,
    access: impl FnOnce(&mut Warp, &mut Env<'a>) -> Step<()>,
) -> Step<()> {
    let at = addresses(warp, env, address);
    let global = match space {
        Space::Global => mask,
        Space::Generic => mask & mask_where!(lane => at.0[lane] >> 40 < SHARED_WINDOW >> 40),
        _ => 0,
    };
    env.semantics = semantics;
    env.polled |= global != 0;
    if global != 0 {
        global_races::begin_strong(env, warp.index, writes);
    }
    let done = access(warp, env);
    if global != 0 {
        global_races::end_strong(env, warp.index, &at, global, (!writes, writes));
        env.note_strong();
    }
    env.semantics = Semantics::WEAK;
    done
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
    // Most loads are one word, and clearing eight takes longer than the load.
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

/// Writes loaded words to destination slots, extending narrow elements.
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
        Space::Global | Space::Const => global::read(warp.index, env, at, mask, width, words),
        Space::Shared => shared::read(warp.index, env, at, mask, width, words),
        Space::Local => private::read(warp, env, at, mask, width, words),
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
            Space::Shared => shared::read(warp.index, env, &at, part, width, words)?,
            Space::Local => private::read(warp, env, &at, part, width, words)?,
            Space::Param => private::read_param(env, &at, part, width, words)?,
            _ => global::read(warp.index, env, &at, part, width, words)?,
        }
    }
    Ok(())
}

/// Splits generic addresses by window and makes them relative to their window.
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
        Space::Global => global::write(warp.index, env, at, mask, width, words),
        Space::Shared => shared::write(warp.index, env, at, mask, width, words),
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
        return private::write(warp, env, at, mask, width, words);
    }
    for (window, part, at) in windows(space, at, mask) {
        match window {
            Space::Shared => shared::write(warp.index, env, &at, part, width, words)?,
            Space::Local => private::write(warp, env, &at, part, width, words)?,
            Space::Param => {
                let lane = part.trailing_zeros() as usize;
                return Err(LaneFault::at(lane, FaultKind::Invalid("store to a parameter".to_owned())));
            }
            _ => global::write(warp.index, env, &at, part, width, words)?,
        }
    }
    Ok(())
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
fn misaligned(lane: usize, access: Access, space: &'static str, at: &W64, bytes: u32) -> Box<LaneFault> {
    LaneFault::at(lane, FaultKind::Misaligned { access, space, address: at.0[lane], bytes })
}

/// Moves a value smaller than a word from its place in the word to the low end.
#[inline(always)]
fn shift_down(word: &mut W32, offsets: &W32, width: Width, mask: u32) {
    if width.bytes < 4 {
        let value = w32!(lane => word.0[lane] >> (offsets.0[lane] % 4 * 8));
        word.set(&value, mask);
    }
}
