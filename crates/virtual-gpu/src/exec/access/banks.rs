//! Bank conflicts: how many passes over the banks of shared memory an access takes.

use crate::counters::Traffic;
use crate::exec::lanes::{ALL, LANES, W32, lanes_of};
use crate::fault::Access;

/// Counts the wavefronts of one access to shared memory: passes over its 32 banks of 4 bytes.
///
/// Lanes of 4 bytes or less go together, of 8 in two halves, of 16 in four quarters, and lanes that ask for the same word
/// share it. Of wide loads two groups go together if every lane asks for the same as its neighbour, or every lane for the
/// same as the one two further on. So an H200 counts in conformance/kernels/banks.ptx; no document of NVIDIA's says it.
#[inline(always)]
pub(crate) fn count_wavefronts(offsets: &W32, mask: u32, bytes: u32, access: Access) -> Traffic {
    let asked = u64::from(mask.count_ones()) * u64::from(bytes);
    let units = if bytes <= 4 && mask == ALL && is_compact(offsets) {
        1
    } else {
        wavefronts_slow(offsets, mask, bytes, access)
    };
    Traffic { requests: 1, units, ideal_units: asked.div_ceil(128).min(units), bytes: asked }
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

#[inline(never)]
fn wavefronts_slow(offsets: &W32, mask: u32, bytes: u32, access: Access) -> u64 {
    // Lanes move chunks: a word, or two or four neighbouring ones, that lie in as many neighbouring banks.
    let chunk_bytes = bytes.next_power_of_two().clamp(4, 16);
    let banks = 128 / chunk_bytes as usize;
    let chunks = offsets.0.map(|offset| offset / chunk_bytes);
    let pairs = |apart: usize| {
        lanes_of(mask).all(|lane| mask >> (lane ^ apart) & 1 == 0 || chunks[lane] == chunks[lane ^ apart])
    };
    let together = access == Access::Read && banks < LANES && (pairs(1) || pairs(2));
    let group = if together { 2 * banks } else { banks };
    let mut total = 0;
    for first in (0..LANES).step_by(group) {
        let lanes = mask & ((((1u64 << group) - 1) as u32) << first);
        if lanes != 0 {
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
