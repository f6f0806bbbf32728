//! Matrix fragments: `ldmatrix`, `stmatrix` and `mma.sync`.

use super::access::{self, Width};
use super::env::Env;
use super::lane_fault::{LaneFault, Step};
use super::lanes::{LANES, W32, W64, w32};
use super::warp::Warp;
use crate::fault::FaultKind;
use crate::memory::races::TOGETHER;
use crate::numeric as num;
use crate::program::{Address, Mma, NONE, Slot, Space, Ty};

/// Rows of 16 bytes, as named by each address of `ldmatrix`.
const ROW: (Ty, u8) = (Ty::B32, 4);

pub(crate) fn whole_warp(warp: &Warp, mask: u32, opcode: &'static str) -> Step<()> {
    if mask == warp.live && mask == u32::MAX {
        return Ok(());
    }
    Err(LaneFault::of(mask, FaultKind::WrongMembers { opcode, members: u32::MAX, active: mask }))
}

/// `ldmatrix`: lane 8m + r holds the address of row r of matrix m. Lane 4r + c gets elements 2c, 2c + 1 of row r, or of
/// column r when transposed (PTX ISA 9.7.14.5.15).
pub(crate) fn load_matrix(
    warp: &mut Warp,
    env: &mut Env<'_>,
    (count, transpose, d): (u8, bool, &[Slot; 4]),
    address: &Address,
    mask: u32,
) -> Step<()> {
    whole_warp(warp, mask, "ldmatrix")?;
    let at = access::addresses(warp, env, address);
    let lanes = u32::MAX >> (32 - 8 * u32::from(count));
    let mut words = [W32::splat(0); access::MAX_WORDS];
    env.lanes = Some(TOGETHER);
    let read = access::read(warp, env, Space::Shared, &at, lanes, Width::of(ROW.0, ROW.1), &mut words);
    env.lanes = None;
    read?;
    for (matrix, &slot) in d[..usize::from(count)].iter().enumerate() {
        let value = w32!(lane => {
            let (row, pair) = (lane / 4, lane % 4);
            if transpose {
                let element = |r: usize| words[row / 2].0[8 * matrix + r] >> (row % 2 * 16) & 0xffff;
                element(2 * pair) | element(2 * pair + 1) << 16
            } else {
                words[pair].0[8 * matrix + row]
            }
        });
        warp.set32(slot, &value, mask);
    }
    Ok(())
}

/// `stmatrix`: the reverse.
pub(crate) fn store_matrix(
    warp: &mut Warp,
    env: &mut Env<'_>,
    (count, transpose, s): (u8, bool, &[Slot; 4]),
    address: &Address,
    mask: u32,
) -> Step<()> {
    whole_warp(warp, mask, "stmatrix")?;
    let at = access::addresses(warp, env, address);
    let lanes = u32::MAX >> (32 - 8 * u32::from(count));
    let mut words = [W32::splat(0); access::MAX_WORDS];
    for (matrix, &slot) in s[..usize::from(count)].iter().enumerate() {
        let value = *env.get32(warp, slot);
        for lane in 0..LANES {
            let (row, pair) = (lane / 4, lane % 4);
            if transpose {
                for half in 0..2 {
                    let bits = value.0[lane] >> (16 * half) & 0xffff;
                    words[row / 2].0[8 * matrix + 2 * pair + half] |= bits << (row % 2 * 16);
                }
            } else {
                words[pair].0[8 * matrix + row] = value.0[lane];
            }
        }
    }
    env.lanes = Some(TOGETHER);
    let written = access::write(warp, env, Space::Shared, &at, lanes, Width::of(ROW.0, ROW.1), &words);
    env.lanes = None;
    written
}

/// `mma.sync`
#[inline(always)]
pub(crate) fn mma(warp: &mut Warp, env: &Env<'_>, mma: &Mma, mask: u32) -> Step<()> {
    whole_warp(warp, mask, "mma.sync")?;
    if mma.a_ty == Ty::F64 {
        return mma_f64(warp, env, mma);
    }
    let get = |slot: Slot| if slot == NONE { [0; LANES] } else { env.get32(warp, slot).0 };
    let (a, b, c) = (mma.a.map(get), mma.b.map(get), mma.c.map(get));
    let is_signed = |ty: Ty| ty == Ty::S8;
    let bf16 = mma.a_ty == Ty::Bf16;
    let kinds = fp8_kinds(mma.a_ty, mma.b_ty);
    let d = match (mma.a_ty, mma.c_ty, mma.k) {
        (Ty::F16 | Ty::Bf16, Ty::F32, 16) => num::mma_m16n8k16_f16(&a, &b, &c, bf16),
        (Ty::F16 | Ty::Bf16, Ty::F32, 8) => num::mma_m16n8k8_f16(&[a[0], a[1]], &[b[0]], &c, bf16),
        (Ty::F16, Ty::F16, 16) => pad(num::mma_m16n8k16_f16_f16(&a, &b, &[c[0], c[1]])),
        (Ty::F16, Ty::F16, 8) => pad(num::mma_m16n8k8_f16_f16(&[a[0], a[1]], &[b[0]], &[c[0], c[1]])),
        (Ty::Tf32, Ty::F32, 8) => num::mma_m16n8k8_tf32(&a, &b, &c),
        (Ty::Tf32, Ty::F32, 4) => num::mma_m16n8k4_tf32(&[a[0], a[1]], &[b[0]], &c),
        (Ty::S4 | Ty::U4 | Ty::S8 | Ty::U8, Ty::S32, _) if mma.m == 8 || mma.a_ty.bits() == 4 => {
            let (a_count, steps) = (usize::from(mma.m) / 8, usize::from(mma.k) * mma.a_ty.bits() as usize / 128);
            let elements = [mma.a_ty, mma.b_ty].map(|ty| num::Elements { bits: ty.bits(), signed: ty.is_signed() });
            num::mma_integers(&a[..a_count * steps], &b[..steps], &c, elements)
        }
        (Ty::S8 | Ty::U8, Ty::S32, 16) => {
            num::mma_m16n8k16_i8(&[a[0], a[1]], &[b[0]], &c, is_signed(mma.a_ty), is_signed(mma.b_ty))
        }
        (Ty::S8 | Ty::U8, Ty::S32, 32) => num::mma_m16n8k32_i8(&a, &b, &c, is_signed(mma.a_ty), is_signed(mma.b_ty)),
        (a_ty, Ty::F32, 32) if a_ty.is_fp8() => num::mma_m16n8k32_f8(&a, &b, &c, kinds),
        (a_ty, Ty::F32, 16) if a_ty.is_fp8() => num::mma_m16n8k16_f8(&[a[0], a[1]], &[b[0]], &c, kinds),
        (a_ty, Ty::F16, 32) if a_ty.is_fp8() => pad(num::mma_m16n8k32_f8_f16(&a, &b, &[c[0], c[1]], kinds)),
        (a_ty, Ty::F16, 16) if a_ty.is_fp8() => {
            pad(num::mma_m16n8k16_f8_f16(&[a[0], a[1]], &[b[0]], &[c[0], c[1]], kinds))
        }
        _ => {
            let name = format!("mma.sync.m{}n{}k{} of {:?}", mma.m, mma.n, mma.k, mma.a_ty);
            return Err(LaneFault::at(0, FaultKind::NotModelled(name)));
        }
    };
    for (&slot, value) in mma.d.iter().zip(d) {
        if slot != NONE {
            warp.set32(slot, &W32(value), mask);
        }
    }
    Ok(())
}

/// Returns the formats of A and B; for other types they are without meaning.
pub(crate) fn fp8_kinds(a: Ty, b: Ty) -> [num::Fp8; 2] {
    [a, b].map(|ty| if ty == Ty::E5m2 { num::Fp8::E5m2 } else { num::Fp8::E4m3 })
}

pub(crate) fn pad(two: [num::Lanes; 2]) -> [num::Lanes; 4] {
    [two[0], two[1], [0; LANES], [0; LANES]]
}

/// Products of f64 are made of those of 8 x 4 by 4 x 8: for each eight rows, one after the other for each four of k.
fn mma_f64(warp: &mut Warp, env: &Env<'_>, mma: &Mma) -> Step<()> {
    let get = |slot: Slot| env.get64(warp, slot).0;
    let halves = usize::from(mma.m) / 8;
    let mut d = Vec::new();
    for half in 0..halves {
        let mut sums = [get(mma.c[2 * half]), get(mma.c[2 * half + 1])];
        for step in 0..usize::from(mma.k) / 4 {
            sums = num::mma_m8n8k4_f64(&get(mma.a[step * halves + half]), &get(mma.b[step]), &sums);
        }
        d.extend(sums);
    }
    for (&slot, value) in mma.d.iter().zip(d) {
        warp.set64(slot, &W64(value), u32::MAX);
    }
    Ok(())
}
