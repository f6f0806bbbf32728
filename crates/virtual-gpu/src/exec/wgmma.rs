//! `wgmma.mma_async`: the product of a warpgroup, executed when the last of its four warps issues it.
//!
//! It reads shared memory for all four warps, and these reads last until a warp has waited for the product
//! (`wgmma.wait_group`). So one warp that has waited may release the operands for all four, and one that has not
//! releases nothing.
//!
//! Each of the four warps owns 16 of the 64 rows. Per 8 columns its part is an `mma.sync` of the same type. This file
//! only finds the operands in shared memory (PTX ISA 9.7.15.5.1, the layouts) and distributes them as that
//! instruction's fragments. Every row of A and column of B has 32 bytes of K, eight words.

use std::ops::Range;

use super::access;
use super::env::Env;
use super::lane_fault::{LaneFault, Step};
use super::lanes::{LANES, W32};
use super::matrix::{fp8_kinds, whole_warp};
use super::warp::Warp;
use super::warpgroup::{Issued, Product, Warpgroup, Words};
use crate::fault::FaultKind;
use crate::memory::order::GROUP;
use crate::numeric::{self as num, Lanes};
use crate::program::{NONE, Ty, Wgmma};

/// Returns what a warp is about to issue.
fn issued(warp: &Warp, env: &Env<'_>, wgmma: &Wgmma) -> Issued {
    let descriptor = |slot| env.get64(warp, slot).0[0];
    let a = (wgmma.a_desc != NONE).then(|| descriptor(wgmma.a_desc));
    Issued { pc: warp.pc, a, b: descriptor(wgmma.b_desc) }
}

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

/// Reads `count` rows from `first` on (for B: columns), each with its eight words of K, for these warps.
fn rows(
    env: &mut Env<'_>,
    (descriptor, transpose): (u64, bool),
    (first, count): (u32, u32),
    warps: &Range<u32>,
) -> Step<Vec<Words>> {
    let matrix = Matrix::new(descriptor).map_err(|message| LaneFault::at(0, FaultKind::NotModelled(message)))?;
    if !transpose {
        let addresses: Vec<u32> = (0..2 * count).map(|index| matrix.along_k(first + index / 2, index % 2)).collect();
        let chunks = access::read_for_product(env, warps, &addresses)?;
        return Ok(chunks.chunks(2).map(|pair| std::array::from_fn(|word| pair[word / 4][word % 4])).collect());
    }
    // Only for 16-bit elements; 16 of them make a row of K.
    let groups = count / 8;
    let addresses: Vec<u32> =
        (0..16 * groups).map(|index| matrix.across_k(index / groups, first / 8 + index % groups)).collect();
    let chunks = access::read_for_product(env, warps, &addresses)?;
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

/// `wgmma.mma_async`: issues a warp's part of a product. Returns false if the warp must wait for the others of its
/// warpgroup, and issue it again.
///
/// The machine lets a warp continue, but only `wgmma.wait_group` lets it use the result. PTX from NVRTC moves the
/// accumulators from register to register before that, so a warp gets its part when all four have issued theirs.
pub(crate) fn issue(warp: &mut Warp, env: &mut Env<'_>, wgmma: &Wgmma, mask: u32) -> Step<bool> {
    whole_warp(warp, mask, "wgmma.mma_async")?;
    let (group, member) = ((warp.index / GROUP) as usize, (warp.index % GROUP) as usize);
    let rank = env.rank;
    if !env.warpgroups[rank][group].takes[member] {
        let here = issued(warp, env, wgmma);
        env.warpgroups[rank][group].issued[member] = Some(here);
        if !everyone_issued(env, group, member)? {
            return Ok(false);
        }
        let product = read_operands(env, wgmma, here, group as u32 * GROUP)?;
        let group = &mut env.warpgroups[rank][group];
        *group = Warpgroup { issued: [None; GROUP as usize], takes: [true; GROUP as usize], product };
    }
    env.warpgroups[rank][group].takes[member] = false;
    let product = &env.warpgroups[rank][group].product;
    warp.products.last = product.time;
    multiply(warp, env, wgmma, product)?;
    Ok(true)
}

/// Returns whether all warps of a warpgroup have issued the product that `member` has just issued. All of them must
/// issue the same.
fn everyone_issued(env: &Env<'_>, group: usize, member: usize) -> Step<bool> {
    let invalid = |message: String| Err(LaneFault::at(0, FaultKind::Invalid(message)));
    let first = group as u32 * GROUP;
    if first + GROUP > env.run.warps {
        let warps = env.run.warps - first;
        return invalid(format!("wgmma.mma_async by a warpgroup of {warps} warps; it needs 4"));
    }
    let issued = &env.warpgroups[env.rank][group].issued;
    let (warp, own) = (first + member as u32, issued[member]);
    for (other, theirs) in (first..).zip(issued) {
        if let (Some(theirs), Some(own)) = (theirs, &own) {
            let differs = if theirs.pc != own.pc { "instructions" } else { "matrix descriptors" };
            if theirs != own {
                return invalid(format!(
                    "warps {other} and {warp} issue wgmma.mma_async with different {differs}; a warpgroup's must agree"
                ));
            }
        }
    }
    Ok(issued.iter().all(Option::is_some))
}

/// Reads a product's operands in shared memory, for all four warps from `first` on.
fn read_operands(env: &mut Env<'_>, wgmma: &Wgmma, issued: Issued, first: u32) -> Step<Product> {
    let mut a = Vec::new();
    if let Some(descriptor) = issued.a {
        // Each warp's tensor core reads its own 16 rows.
        for warp in first..first + GROUP {
            let rows = rows(env, (descriptor, wgmma.transpose_a), (warp % GROUP * 16, 16), &(warp..warp + 1))?;
            a.extend(rows);
        }
    }
    let columns = (0, u32::from(wgmma.n));
    let b = rows(env, (issued.b, wgmma.transpose_b), columns, &(first..first + GROUP))?;
    let races = env.memories[env.rank].races.as_mut();
    Ok(Product { a, b, time: races.map_or(0, |races| races.order.end_product()) })
}

/// `wgmma.wait_group`: orders the warp after the products of all but the newest `groups` committed groups.
pub(crate) fn wait(warp: &mut Warp, env: &mut Env<'_>, groups: u32) {
    let time = warp.products.wait(groups as usize);
    if let (Some(time), Some(races)) = (time, &mut env.memories[env.rank].races) {
        races.await_products(warp.index, time);
    }
}

/// Computes one warp's 16 rows.
fn multiply(warp: &mut Warp, env: &Env<'_>, wgmma: &Wgmma, product: &Product) -> Step<()> {
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
        let rows = &product.a[(warp.index % GROUP * 16) as usize..];
        [(0, 0), (8, 0), (0, 4), (8, 4)].map(|(row, word)| fragment(&rows[row..], word, flip_a))
    };
    let adds = warp.predicate(wgmma.scale_d) & 1 == 1;
    let flip_b = flip(wgmma.negate_b);
    let registers = if wgmma.d_ty == Ty::F16 { 2 } else { 4 };
    for (columns, slots) in product.b.chunks(8).zip(wgmma.d.chunks(registers)) {
        let b = [0, 4].map(|word| fragment(columns, word, flip_b));
        let old = |index: usize| {
            let slot = slots.get(index).filter(|_| adds);
            slot.map_or([0; LANES], |&slot| env.get32(warp, slot).0)
        };
        let c = [old(0), old(1), old(2), old(3)];
        let d = multiply_block(wgmma, &a, &b, &c)?;
        for (&slot, value) in slots.iter().zip(d) {
            warp.set32(slot, &W32(value), u32::MAX);
        }
    }
    Ok(())
}

/// Multiplies 16 rows by 8 columns.
fn multiply_block(wgmma: &Wgmma, a: &[Lanes; 4], b: &[Lanes; 2], c: &[Lanes; 4]) -> Step<[Lanes; 4]> {
    Ok(match (wgmma.a_ty, wgmma.d_ty) {
        (Ty::F16 | Ty::Bf16, Ty::F32) => num::mma_m16n8k16_f16(a, b, c, wgmma.a_ty == Ty::Bf16),
        (Ty::F16, Ty::F16) => super::matrix::pad(num::mma_m16n8k16_f16_f16(a, b, &[c[0], c[1]])),
        (Ty::Tf32, _) => num::mma_m16n8k8_tf32(a, b, c),
        (Ty::S8 | Ty::U8, _) => {
            let signed = wgmma.a_ty == Ty::S8;
            num::mma_m16n8k32_i8(a, b, c, signed, signed)
        }
        (Ty::E4m3 | Ty::E5m2, Ty::F32) => num::mma_m16n8k32_f8_hopper(a, b, c, fp8_kinds(wgmma.a_ty, wgmma.b_ty)),
        (Ty::E4m3 | Ty::E5m2, Ty::F16) => {
            super::matrix::pad(num::mma_m16n8k32_f8_f16(a, b, &[c[0], c[1]], fp8_kinds(wgmma.a_ty, wgmma.b_ty)))
        }
        (ty, _) => return Err(LaneFault::at(0, FaultKind::NotModelled(format!("wgmma.mma_async of {ty:?}")))),
    })
}
