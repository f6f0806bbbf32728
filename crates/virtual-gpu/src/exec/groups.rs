//! Instruction groups of inner loops: one function per group and vector width.
//!
//! With one function for all groups, the compiler would carry dozens of vectors from one instruction to the next.

use super::env::Env;
use super::lane_fault::Step;
use super::lanes::{w32, w64};
use super::warp::Warp;
use super::{access, alu, compare, matrix, warp_ops};
use crate::program::{Binary, Op, Ternary, Unary};

/// The groups, compiled for one vector width.
#[allow(missing_docs)]
pub(crate) trait Groups {
    fn mov(warp: &mut Warp, env: &mut Env<'_>, op: &Op, mask: u32) -> Step<()>;
    fn unary(warp: &mut Warp, env: &mut Env<'_>, op: &Op, mask: u32) -> Step<()>;
    fn binary(warp: &mut Warp, env: &mut Env<'_>, op: &Op, mask: u32) -> Step<()>;
    fn ternary(warp: &mut Warp, env: &mut Env<'_>, op: &Op, mask: u32) -> Step<()>;
    fn setp(warp: &mut Warp, env: &mut Env<'_>, op: &Op, mask: u32) -> Step<()>;
    fn selp(warp: &mut Warp, env: &mut Env<'_>, op: &Op, mask: u32) -> Step<()>;
    fn cvt(warp: &mut Warp, env: &mut Env<'_>, op: &Op, mask: u32) -> Step<()>;
    fn load(warp: &mut Warp, env: &mut Env<'_>, op: &Op, mask: u32) -> Step<()>;
    fn store(warp: &mut Warp, env: &mut Env<'_>, op: &Op, mask: u32) -> Step<()>;
    fn shfl(warp: &mut Warp, env: &mut Env<'_>, op: &Op, mask: u32) -> Step<()>;
    fn mma(warp: &mut Warp, env: &mut Env<'_>, op: &Op, mask: u32) -> Step<()>;
}

/// `mov`
#[inline(always)]
pub(super) fn mov(warp: &mut Warp, env: &mut Env<'_>, op: &Op, mask: u32) -> Step<()> {
    let &Op::Mov { ty, d, a } = op else { return Ok(()) };
    match ty.bits() {
        1 => warp.set_predicate(d, warp.predicate(a), mask),
        64 => {
            let value = *env.get64(warp, a);
            warp.set64(d, &value, mask);
        }
        _ => {
            let value = *env.get32(warp, a);
            warp.set32(d, &value, mask);
        }
    }
    Ok(())
}

/// Operations with one source.
#[inline(always)]
pub(super) fn unary(warp: &mut Warp, env: &mut Env<'_>, op: &Op, mask: u32) -> Step<()> {
    let &Op::Unary { op, ty, mods, d, a } = op else { return Ok(()) };
    if ty.bits() < 64 {
        let value = alu::unary32(op, ty, mods, env.get32(warp, a));
        warp.set32(d, &value, mask);
        return Ok(());
    }
    let value = alu::unary64(op, ty, mods, env.get64(warp, a));
    if matches!(op, Unary::Popc | Unary::Clz | Unary::Bfind { .. }) {
        warp.set32(d, &w32!(lane => value.0[lane] as u32), mask);
    } else {
        warp.set64(d, &value, mask);
    }
    Ok(())
}

/// Operations with two sources.
#[inline(always)]
pub(super) fn binary(warp: &mut Warp, env: &mut Env<'_>, op: &Op, mask: u32) -> Step<()> {
    let &Op::Binary { op, ty, mods, d, a, b } = op else { return Ok(()) };
    let value = match (op, ty.bits()) {
        (Binary::MulWide, 32) => alu::multiply_wide(ty.is_signed(), env.get32(warp, a), env.get32(warp, b)),
        (Binary::Shl | Binary::Shr, 64) => alu::shift64(op, ty, env.get64(warp, a), env.get32(warp, b)),
        (_, 64) => alu::binary64(op, ty, mods, env.get64(warp, a), env.get64(warp, b)),
        _ => {
            let value = alu::binary32(op, ty, mods, env.get32(warp, a), env.get32(warp, b));
            warp.set32(d, &value, mask);
            return Ok(());
        }
    };
    warp.set64(d, &value, mask);
    Ok(())
}

/// Operations with three sources.
#[inline(always)]
pub(super) fn ternary(warp: &mut Warp, env: &mut Env<'_>, op: &Op, mask: u32) -> Step<()> {
    let &Op::Ternary { op, ty, mods, d, a, b, c } = op else { return Ok(()) };
    let value = match (op, ty.bits()) {
        (Ternary::MadWide, 32) => {
            let product = alu::multiply_wide(ty.is_signed(), env.get32(warp, a), env.get32(warp, b));
            let c = env.get64(warp, c);
            w64!(lane => product.0[lane].wrapping_add(c.0[lane]))
        }
        (Ternary::Bfe, 64) => {
            let (pos, len) = (env.get32(warp, b), env.get32(warp, c));
            let (pos, len) = (w64!(lane => pos.0[lane].into()), w64!(lane => len.0[lane].into()));
            alu::ternary64(op, ty, mods, env.get64(warp, a), &pos, &len)
        }
        (_, 64) => alu::ternary64(op, ty, mods, env.get64(warp, a), env.get64(warp, b), env.get64(warp, c)),
        _ => {
            let value = alu::ternary32(op, ty, mods, env.get32(warp, a), env.get32(warp, b), env.get32(warp, c));
            warp.set32(d, &value, mask);
            return Ok(());
        }
    };
    warp.set64(d, &value, mask);
    Ok(())
}

/// `setp`
#[inline(always)]
pub(super) fn setp(warp: &mut Warp, env: &mut Env<'_>, op: &Op, mask: u32) -> Step<()> {
    compare::setp(warp, env, op, mask);
    Ok(())
}

/// `selp`
#[inline(always)]
pub(super) fn selp(warp: &mut Warp, env: &mut Env<'_>, op: &Op, mask: u32) -> Step<()> {
    let &Op::Selp { ty, d, a, b, p } = op else { return Ok(()) };
    compare::selp(warp, env, (ty, d, a, b, p), mask);
    Ok(())
}

/// `cvt`
#[inline(always)]
pub(super) fn cvt(warp: &mut Warp, env: &mut Env<'_>, op: &Op, mask: u32) -> Step<()> {
    compare::cvt(warp, env, op, mask);
    Ok(())
}

/// `ld`
#[inline(always)]
pub(super) fn load(warp: &mut Warp, env: &mut Env<'_>, op: &Op, mask: u32) -> Step<()> {
    let Op::Ld { space, ty, count, d, addr, semantics, read_only } = op else { return Ok(()) };
    if semantics.is_strong() {
        return access::strong(warp, env, (*space, *semantics, false), addr, mask, |warp, env| {
            access::load(warp, env, (*space, *ty, *count), d, addr, mask)
        });
    }
    env.read_only = *read_only;
    let loaded = access::load(warp, env, (*space, *ty, *count), d, addr, mask);
    env.read_only = false;
    loaded
}

/// `st`
#[inline(always)]
pub(super) fn store(warp: &mut Warp, env: &mut Env<'_>, op: &Op, mask: u32) -> Step<()> {
    let Op::St { space, ty, count, s, addr, semantics } = op else { return Ok(()) };
    if semantics.is_strong() {
        return access::strong(warp, env, (*space, *semantics, true), addr, mask, |warp, env| {
            access::store(warp, env, (*space, *ty, *count), s, addr, mask)
        });
    }
    access::store(warp, env, (*space, *ty, *count), s, addr, mask)
}

/// `shfl.sync`
#[inline(always)]
pub(super) fn shfl(warp: &mut Warp, env: &mut Env<'_>, op: &Op, mask: u32) -> Step<()> {
    warp_ops::shfl(warp, env, op, mask)
}

/// `mma.sync`
#[inline(always)]
pub(super) fn mma(warp: &mut Warp, env: &mut Env<'_>, op: &Op, mask: u32) -> Step<()> {
    let Op::Mma(mma) = op else { return Ok(()) };
    matrix::mma(warp, env, mma, mask)
}
