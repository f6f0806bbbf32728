//! `wgmma.mma_async`: the product of a warpgroup, computed warp by warp when it is issued.
//!
//! Each of the four warps owns 16 of the 64 rows. Per 8 columns its part is an `mma.sync` of the same type. This file
//! only finds the operands in shared memory (PTX ISA 9.7.15.5.1, the layouts) and distributes them as that
//! instruction's fragments. Every row of A and column of B has 32 bytes of K, eight words.

use super::access::{self, Width};
use super::env::Env;
use super::lane_fault::{LaneFault, Step};
use super::lanes::{LANES, W32, w64};
use super::matrix::{fp8_kinds, whole_warp};
use super::warp::Warp;
use crate::fault::FaultKind;
use crate::memory::proxies::Moment;
use crate::memory::races::APART;
use crate::numeric::{self as num, Lanes};
use crate::program::{NONE, Slot, Space, Ty, Wgmma};

/// Words of K in a row of A or a column of B.
type Words = [u32; 8];

/// A matrix in shared memory, as described by its descriptor (PTX ISA 9.7.15.5.1.2).
#[derive(Debug, Clone, Copy)]
struct Matrix {
    start: u32,
    leading: u32,
    stride: u32,
    /// Number of 16-byte chunks that the swizzle permutes: 8, 4 or 2, or 1 for none.
    chunks: u32,
}

impl Matrix {
    fn new(descriptor: u64) -> Result<Self, String> {
        let field = |shift: u32| ((descriptor >> shift) as u32 & 0x3fff) << 4;
        if descriptor >> 49 & 7 != 0 {
            return Err("a wgmma descriptor with a base offset".to_owned());
        }
        let chunks = [1, 8, 4, 2][(descriptor >> 62) as usize];
        Ok(Self { start: field(0), leading: field(16), stride: field(32), chunks })
    }

    /// Returns the address of the `chunk`-th 16 bytes of K of a row, where K is contiguous.
    fn along_k(&self, row: u32, chunk: u32) -> u32 {
        let (group, within) = (row / 8, row % 8);
        let step = if self.chunks == 1 { self.leading } else { 16 };
        self.swizzled(self.start + group * self.stride + within * self.chunks * 16 + chunk * step)
    }

    /// Returns the address of the `chunk`-th 8 rows of an element of K, where the rows are contiguous.
    fn across_k(&self, k: u32, chunk: u32) -> u32 {
        let (group, within) = (k / 8, k % 8);
        if self.chunks == 1 {
            return self.start + chunk * self.stride + group * self.leading + within * 16;
        }
        let (outer, inner) = (chunk / self.chunks, chunk % self.chunks);
        self.swizzled(self.start + outer * self.leading + group * self.stride + within * self.chunks * 16 + inner * 16)
    }

    /// Returns an address with its chunk's index XORed with the index of its 128-byte row.
    fn swizzled(&self, address: u32) -> u32 {
        address ^ ((address >> 7 & (self.chunks - 1)) << 4)
    }
}

/// Reads chunks of 16 bytes at these shared addresses.
fn fetch(warp: &mut Warp, env: &mut Env<'_>, addresses: &[u32]) -> Step<Vec<[u32; 4]>> {
    // The tensor cores read for the whole group at once, without a load, so nothing is counted.
    let before = env.tally.traffic();
    let mut chunks = Vec::with_capacity(addresses.len());
    for part in addresses.chunks(LANES) {
        let at = w64!(lane => u64::from(part[lane.min(part.len() - 1)]));
        let mask = u32::MAX >> (LANES - part.len());
        let mut words = [W32::splat(0); access::MAX_WORDS];
        env.asynchronous = Some(Moment::MAX);
        env.lanes = Some(APART);
        let read = access::read(warp, env, Space::Shared, &at, mask, Width::of(Ty::B32, 4), &mut words);
        env.asynchronous = None;
        env.lanes = None;
        read?;
        chunks.extend((0..part.len()).map(|lane| std::array::from_fn(|word| words[word].0[lane])));
    }
    env.tally.restore(before);
    Ok(chunks)
}

/// Reads `count` rows from `first` on (for B: columns), each with its eight words of K.
fn rows(
    warp: &mut Warp,
    env: &mut Env<'_>,
    descriptor: Slot,
    transpose: bool,
    (first, count): (u32, u32),
) -> Step<Vec<Words>> {
    let descriptor = env.get64(warp, descriptor).0[0];
    let matrix = Matrix::new(descriptor).map_err(|message| LaneFault::at(0, FaultKind::Unsupported(message)))?;
    if !transpose {
        let addresses: Vec<u32> = (0..2 * count).map(|index| matrix.along_k(first + index / 2, index % 2)).collect();
        let chunks = fetch(warp, env, &addresses)?;
        return Ok(chunks.chunks(2).map(|pair| std::array::from_fn(|word| pair[word / 4][word % 4])).collect());
    }
    // Only for 16-bit elements; 16 of them make a row of K.
    let groups = count / 8;
    let addresses: Vec<u32> =
        (0..16 * groups).map(|index| matrix.across_k(index / groups, first / 8 + index % groups)).collect();
    let chunks = fetch(warp, env, &addresses)?;
    let element = |row: u32, k: u32| {
        let chunk = &chunks[(k * groups + row / 8) as usize];
        chunk[(row % 8 / 2) as usize] >> (row % 2 * 16) & 0xffff
    };
    let word = |row: u32, word: u32| element(row, 2 * word) | element(row, 2 * word + 1) << 16;
    Ok((0..count).map(|row| std::array::from_fn(|index| word(row, index as u32))).collect())
}

/// Distributes eight rows to the lanes as one register of a fragment: lane 4g + t gets word t of row g.
fn fragment(rows: &[Words], first_word: usize, flip: u32) -> Lanes {
    std::array::from_fn(|lane| rows[lane / 4][first_word + lane % 4] ^ flip)
}

/// Executes the product for one warp.
pub(crate) fn multiply(warp: &mut Warp, env: &mut Env<'_>, wgmma: &Wgmma, mask: u32) -> Step<()> {
    whole_warp(warp, mask, "wgmma.mma_async")?;
    let sign = match wgmma.a_ty {
        Ty::Tf32 => 0x8000_0000,
        Ty::E4m3 | Ty::E5m2 => 0x8080_8080,
        _ => 0x8000_8000,
    };
    let flip = |negate: bool| if negate { sign } else { 0 };
    let flip_a = flip(wgmma.negate_a);
    let a: [Lanes; 4] = if wgmma.a_desc == NONE {
        wgmma.a.map(|slot| env.get32(warp, slot).0.map(|word| word ^ flip_a))
    } else {
        let first = warp.index % 4 * 16;
        let rows = rows(warp, env, wgmma.a_desc, wgmma.transpose_a, (first, 16))?;
        [(0, 0), (8, 0), (0, 4), (8, 4)].map(|(row, word)| fragment(&rows[row..], word, flip_a))
    };
    let columns = rows(warp, env, wgmma.b_desc, wgmma.transpose_b, (0, u32::from(wgmma.n)))?;
    let adds = warp.predicate(wgmma.scale_d) & 1 == 1;
    let flip_b = flip(wgmma.negate_b);
    let registers = if wgmma.d_ty == Ty::F16 { 2 } else { 4 };
    for (columns, slots) in columns.chunks(8).zip(wgmma.d.chunks(registers)) {
        let b = [0, 4].map(|word| fragment(columns, word, flip_b));
        let old = |index: usize| {
            let slot = slots.get(index).filter(|_| adds);
            slot.map_or([0; LANES], |&slot| env.get32(warp, slot).0)
        };
        let c = [old(0), old(1), old(2), old(3)];
        let d = product(wgmma, &a, &b, &c)?;
        for (&slot, value) in slots.iter().zip(d) {
            warp.set32(slot, &W32(value), mask);
        }
    }
    Ok(())
}

/// Multiplies 16 rows by 8 columns.
fn product(wgmma: &Wgmma, a: &[Lanes; 4], b: &[Lanes; 2], c: &[Lanes; 4]) -> Step<[Lanes; 4]> {
    Ok(match (wgmma.a_ty, wgmma.d_ty) {
        (Ty::F16 | Ty::Bf16, Ty::F32) => num::mma_m16n8k16_f16(a, b, c, wgmma.a_ty == Ty::Bf16),
        (Ty::F16, Ty::F16) => super::matrix::pad(num::mma_m16n8k16_f16_f16(a, b, &[c[0], c[1]])),
        (Ty::Tf32, _) => num::mma_m16n8k8_tf32(a, b, c),
        (Ty::S8 | Ty::U8, _) => {
            let signed = wgmma.a_ty == Ty::S8;
            num::mma_m16n8k32_i8(a, b, c, signed, signed)
        }
        (Ty::E4m3 | Ty::E5m2, Ty::F32) => num::mma_m16n8k32_f8(a, b, c, fp8_kinds(wgmma.a_ty, wgmma.b_ty)),
        (Ty::E4m3 | Ty::E5m2, Ty::F16) => {
            super::matrix::pad(num::mma_m16n8k32_f8_f16(a, b, &[c[0], c[1]], fp8_kinds(wgmma.a_ty, wgmma.b_ty)))
        }
        (ty, _) => return Err(LaneFault::at(0, FaultKind::Unsupported(format!("wgmma.mma_async of {ty:?}")))),
    })
}
