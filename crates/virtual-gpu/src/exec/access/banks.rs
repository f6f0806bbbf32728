//! Bank conflicts: the number of passes over the banks of shared memory that an access takes.

use crate::counters::Traffic;
use crate::exec::lanes::{ALL, LANES, W32, lanes_of, w32};
use crate::fault::Access;

/// Counts the wavefronts of one access to shared memory: passes over its 32 banks of 4 bytes.
///
/// Lanes of 4 bytes or less go together, of 8 bytes in two halves, of 16 in four quarters. Lanes that request the same
/// word share it. Two groups of a wide load go together if every lane requests the same as its neighbour. The same
/// holds for the lane two further on. An H200 counts this way in conformance/kernels/banks.ptx; NVIDIA does not
/// document it.
#[inline(always)]
pub(crate) fn count_wavefronts(offsets: &W32, mask: u32, bytes: u32, access: Access) -> Traffic {
    let asked = u64::from(mask.count_ones()) * u64::from(bytes);
    // Lanes move chunks: one word, or two or four neighbouring words in as many neighbouring banks.
    let chunk_bytes = bytes.next_power_of_two().clamp(4, 16);
    let banks = 128 / chunk_bytes as usize;
    let shift = chunk_bytes.trailing_zeros();
    let chunks = w32!(lane => offsets.0[lane] >> shift);
    let together =
        access == Access::Read && banks < LANES && (is_paired(&chunks, mask, 1) || is_paired(&chunks, mask, 2));
    let group = if together { 2 * banks } else { banks };
    let mut passes = 0;
    for first in (0..LANES).step_by(group) {
        let lanes = mask & ((((1u64 << group) - 1) as u32) << first);
        if lanes != 0 {
            // Chunks that are closer together than the number of banks cannot share a bank.
            let is_narrow = mask == ALL && span(&chunks.0[first..first + group]) < banks as u32;
            passes += if is_narrow { 1 } else { conflicts(&chunks, lanes, banks) };
        }
    }
    // Wider accesses take as many passes of 16 bytes.
    let units = passes * u64::from(bytes.div_ceil(16));
    Traffic { requests: 1, units, ideal_units: asked.div_ceil(128).min(units), bytes: asked }
}

/// Returns whether every active lane requests the same as the lane `apart` of it, if that lane is active.
#[inline(always)]
fn is_paired(chunks: &W32, mask: u32, apart: usize) -> bool {
    let mut differ = 0;
    for lane in 0..LANES {
        let both = mask >> lane & mask >> (lane ^ apart) & 1;
        differ |= (chunks.0[lane] ^ chunks.0[lane ^ apart]) & 0u32.wrapping_sub(both);
    }
    differ == 0
}

/// Returns the difference between the lowest and the highest.
#[inline(always)]
fn span(chunks: &[u32]) -> u32 {
    let (mut low, mut high) = (u32::MAX, 0);
    for &chunk in chunks {
        low = low.min(chunk);
        high = high.max(chunk);
    }
    high - low
}

/// Returns the largest number of distinct chunks that the lanes of `mask` request from one bank.
#[inline(never)]
fn conflicts(chunks: &W32, mask: u32, banks: usize) -> u64 {
    let mut first = [u32::MAX; 32];
    let mut counts = [0u8; 32];
    // Chunks beyond the first of their bank. There are few, unless all chunks conflict.
    let mut others = [0u32; LANES];
    let mut other_count = 0;
    for lane in lanes_of(mask) {
        let chunk = chunks.0[lane];
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
