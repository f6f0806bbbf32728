//! Instructions that exchange data between the lanes of a warp.

use super::env::Env;
use super::lane_fault::{LaneFault, Step};
use super::lanes::{LANES, W32, lanes_of, mask_where, w32};
use super::warp::Warp;
use crate::counters::AbsentLane;
use crate::fault::FaultKind;
use crate::program::{NONE, Op, ShflMode, Slot, VoteMode};

/// Checks that each lane's member mask names it, and only lanes that execute the instruction or have exited. The halves
/// of a warp may have masks of their own. Then the lanes have waited for each other. Returns the masks.
fn check_members(warp: &Warp, env: &mut Env<'_>, members: Slot, mask: u32, opcode: &'static str) -> Step<W32> {
    let members = *env.get32(warp, members);
    let first = members.0[mask.trailing_zeros() as usize];
    let mut uniform = first & warp.live == mask;
    for lane in 0..LANES {
        uniform &= mask >> lane & 1 == 0 || members.0[lane] == first;
    }
    if uniform || are_groups(&members, mask, warp.live) {
        env.sync_lanes(warp.index);
        return Ok(members);
    }
    Err(LaneFault::of(mask, FaultKind::WrongMembers { opcode, members: first, active: mask }))
}

/// Returns whether the masks divide the lanes into groups, and each lane is in its own group.
#[cold]
fn are_groups(members: &W32, mask: u32, live: u32) -> bool {
    lanes_of(mask).all(|lane| {
        let own = members.0[lane];
        own >> lane & 1 == 1 && own & live & !mask == 0 && lanes_of(own & mask).all(|other| members.0[other] == own)
    })
}

/// Marks a source lane outside the segment; the lane then keeps its own value.
const OUTSIDE: u32 = 1 << 31;

/// The source lane of every lane. `$f` returns it and whether it is inside the segment, from the lane, the operand `b`,
/// the segment mask and the last lane. PTX ISA 9.7.9.6: `c` holds the clamp in bits 0-4 and the segment mask in bits
/// 8-12.
macro_rules! sources {
    ($b:ident, $c:ident, |$lane:ident, $by:ident, $segment:ident, $most:ident| $value:expr) => {
        w32!(index => {
            let $lane = index as u32;
            let ($by, clamp, $segment) = ($b.0[index] & 31, $c.0[index] & 31, $c.0[index] >> 8 & 31);
            let $most = ($lane & $segment | clamp & !$segment) as i32;
            let (from, inside): (i32, bool) = $value;
            if inside { from as u32 & 31 } else { $lane | OUTSIDE }
        })
    };
}

/// `shfl.sync`
#[inline(always)]
pub(crate) fn shfl(warp: &mut Warp, env: &mut Env<'_>, op: &Op, mask: u32) -> Step<()> {
    let &Op::Shfl { mode, d, p, a, b, c, members } = op else { return Ok(()) };
    let members = check_members(warp, env, members, mask, "shfl.sync")?;
    let (a, b, c) = (env.get32(warp, a), env.get32(warp, b), env.get32(warp, c));
    let from = match mode {
        ShflMode::Up => {
            sources!(b, c, |lane, by, _segment, most| (lane as i32 - by as i32, lane as i32 - by as i32 >= most))
        }
        ShflMode::Down => {
            sources!(b, c, |lane, by, _segment, most| (lane as i32 + by as i32, lane as i32 + by as i32 <= most))
        }
        ShflMode::Bfly => sources!(b, c, |lane, by, _segment, most| ((lane ^ by) as i32, (lane ^ by) as i32 <= most)),
        ShflMode::Idx => sources!(b, c, |lane, by, segment, most| {
            let from = (lane & segment | by & !segment) as i32;
            (from, from <= most)
        }),
    };
    let valid = mask_where!(lane => from.0[lane] & OUTSIDE == 0);
    let mut value = w32!(lane => a.0[(from.0[lane] & 31) as usize]);
    // Where every lane takes part, none is absent.
    if members.0[0] & mask != u32::MAX {
        poison_absent(warp, env, (&from, &members, mask), &mut value);
    }
    warp.set32(d, &value, mask);
    warp.set_predicate(p, valid, mask);
    Ok(())
}

/// What a lane gets from one that takes no part, by the parity of the launch's order: NaN in every floating-point type, or a
/// large number. A maximum ignores NaN, and a sum shows both.
const ABSENT: [u32; 2] = [u32::MAX, 0x7b7b_7b7b];

/// Poisons what lanes get from others that do not execute the shuffle, or are no members of their group. PTX leaves those
/// values undefined. A kernel may discard them, so this is no fault by itself.
#[cold]
#[inline(never)]
fn poison_absent(warp: &Warp, env: &mut Env<'_>, (from, members, mask): (&W32, &W32, u32), value: &mut W32) {
    let poison = ABSENT[(env.run.options.order.unwrap_or_default() % 2) as usize];
    for lane in lanes_of(mask) {
        let source = from.0[lane] & 31;
        if mask & members.0[lane] & 1 << source == 0 {
            value.0[lane] = poison;
            let line = env.run.kernel.instructions.get(warp.pc as usize).map_or(0, |instruction| instruction.line);
            let counters = &mut env.tally.counters;
            counters.absent_lane.get_or_insert(AbsentLane { line, lane: lane as u8, source: source as u8 });
        }
    }
}

/// `vote.sync`
pub(crate) fn vote(warp: &mut Warp, env: &mut Env<'_>, op: &Op, mask: u32) -> Step<()> {
    let &Op::Vote { mode, d, p, p_negated, members } = op else { return Ok(()) };
    let members = check_members(warp, env, members, mask, "vote.sync")?;
    let votes = warp.predicate_or_not(p, p_negated) & mask;
    let own = w32!(lane => votes & members.0[lane]);
    let all = mask_where!(lane => own.0[lane] == members.0[lane] & mask);
    let any = mask_where!(lane => own.0[lane] != 0);
    match mode {
        VoteMode::Ballot => warp.set32(d, &own, mask),
        VoteMode::All => warp.set_predicate(d, all, mask),
        VoteMode::Any => warp.set_predicate(d, any, mask),
        VoteMode::Uni => warp.set_predicate(d, all | !any, mask),
    }
    Ok(())
}

/// `match.any.sync` and `match.all.sync`
pub(crate) fn match_lanes(warp: &mut Warp, env: &mut Env<'_>, op: &Op, mask: u32) -> Step<()> {
    let &Op::Match { all, ty, d, p, a, members } = op else { return Ok(()) };
    let members = check_members(warp, env, members, mask, "match.sync")?;
    let values: [u64; LANES] = if ty.bits() == 64 { env.get64(warp, a).0 } else { env.get32(warp, a).0.map(u64::from) };
    let same = w32!(lane => mask & members.0[lane] & mask_where!(other => values[other] == values[lane]));
    if all {
        let agree = mask_where!(lane => same.0[lane] == mask & members.0[lane]);
        warp.set32(d, &w32!(lane => if agree >> lane & 1 == 1 { same.0[lane] } else { 0 }), mask);
        warp.set_predicate(p, agree, mask);
    } else {
        warp.set32(d, &same, mask);
    }
    Ok(())
}

/// `redux.sync`
pub(crate) fn redux(warp: &mut Warp, env: &mut Env<'_>, op: &Op, mask: u32) -> Step<()> {
    let &Op::Redux { op, ty, d, a, members } = op else { return Ok(()) };
    let members = check_members(warp, env, members, mask, "redux.sync")?;
    let a = *env.get32(warp, a);
    let reduce =
        |group| lanes_of(group).map(|lane| a.0[lane]).reduce(|x, y| super::atomics::combine32(op, ty, x, y, 0));
    let first = mask & members.0[mask.trailing_zeros() as usize];
    if first == mask {
        warp.set32(d, &W32::splat(reduce(mask).unwrap_or(0)), mask);
    } else {
        warp.set32(d, &w32!(lane => reduce(mask & members.0[lane]).unwrap_or(0)), mask);
    }
    Ok(())
}

/// `elect.sync`: the lowest member is elected.
pub(crate) fn elect(warp: &mut Warp, env: &mut Env<'_>, (d, p, members): (Slot, Slot, Slot), mask: u32) -> Step<()> {
    let members = check_members(warp, env, members, mask, "elect.sync")?;
    let leader = w32!(lane => (members.0[lane] & mask).trailing_zeros());
    if d != NONE {
        warp.set32(d, &leader, mask);
    }
    warp.set_predicate(p, mask_where!(lane => leader.0[lane] == lane as u32), mask);
    Ok(())
}

/// `bar.warp.sync`. Lanes run in lock step here, so most have nothing to wait for. Those on different paths wait for
/// each other. Returns false if no lane of the warp can run.
pub(crate) fn warp_sync(warp: &mut Warp, env: &mut Env<'_>, members: Slot, mask: u32) -> Step<bool> {
    let wanted = env.get32(warp, members).0;
    let first = wanted[mask.trailing_zeros() as usize];
    let others = first & warp.live & !warp.active != 0;
    if others && mask == warp.active && mask & !first == 0 && lanes_of(mask).all(|lane| wanted[lane] == first) {
        if warp.gather(first) {
            env.sync_lanes(warp.index);
        }
        return Ok(warp.active != 0);
    }
    check_members(warp, env, members, mask, "bar.warp.sync")?;
    warp.pc += 1;
    Ok(true)
}
