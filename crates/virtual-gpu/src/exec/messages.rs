//! Messages between blocks whose writer has no fence: a strong store or an atomic of data, and then a flag.
//!
//! Strong accesses do not race, so their order alone does not tell data from a flag that is polled. But without a fence,
//! a machine may show the flag before the data. So a block that has seen the flag first loads the old data. If it polls,
//! it loads them again. If not, it has used data that may be old, which is a fault.

use std::sync::{MutexGuard, PoisonError};

use super::env::Env;
use super::global_races;
use super::lane_fault::{LaneFault, Origin};
use super::lanes::{W32, W64, lanes_of};
use super::run::Run;
use super::stale::Stale;
use crate::fault::FaultKind;
use crate::memory::global::Allocation;
use crate::memory::messages::{Messages, Store};

/// Returns whether the current access may be of a message.
#[inline(always)]
fn concerns(env: &Env<'_>) -> bool {
    env.run.talks && env.run.options.races && env.semantics.is_strong() && env.semantics.wide
}

fn messages<'a>(run: &'a Run<'_>) -> MutexGuard<'a, Messages> {
    run.messages.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records a store of a word, before it happens.
#[inline(always)]
pub(crate) fn store(env: &mut Env<'_>, warp: u32, allocation: &Allocation, address: u64, word: u32) {
    if concerns(env) {
        record(env, warp, (address, allocation.load_word(address)), word);
    }
}

#[inline(never)]
fn record(env: &mut Env<'_>, warp: u32, (address, before): (u64, u32), word: u32) {
    let Some(races) = &mut env.memories[env.rank].races else { return };
    let (block, time, pc) = (races.order.block, races.order.now, env.pc);
    let store = Store { before, block, warp, pc, time, count: env.strong, is_atomic: false };
    let mut messages = messages(env.run);
    if before == word {
        messages.forget(address);
    } else {
        messages.store(address, store);
    }
}

/// Returns the words at which an atomic on up to eight bytes is looked at, with their values: none where blocks do not talk.
pub(crate) fn words(env: &Env<'_>, allocation: &Allocation, address: u64, bytes: u32) -> [Option<(u64, u32)>; 2] {
    let talks = env.run.talks && env.run.options.races;
    let word = |index: u64| {
        let address = (address & !3) + 4 * index;
        (talks && index < u64::from(bytes.div_ceil(4))).then(|| (address, allocation.load_word(address)))
    };
    [word(0), word(1)]
}

/// Records an atomic on words that had these values, after it has happened. A reduction is taken to see what is there, too.
pub(crate) fn atomic(env: &mut Env<'_>, warp: u32, allocation: &Allocation, words: [Option<(u64, u32)>; 2]) {
    let (rank, count, pc, wide) = (env.rank, env.strong, env.pc, env.semantics.wide);
    for (address, before) in words.into_iter().flatten() {
        let Some(races) = &mut env.memories[rank].races else { return };
        let mut messages = messages(env.run);
        env.stale.retain(|stale| (stale.origin.rank, stale.origin.warp, stale.address) != (rank, warp, address));
        messages.reach(address);
        races.order.heard.note_changes(address, &messages);
        let (block, time) = (races.order.block, races.order.now);
        let store = Store { before, block, warp, pc, time, count, is_atomic: true };
        let is_changed = wide && allocation.load_word(address) != before;
        messages.atomic(address, (block, count), is_changed.then_some(store));
    }
}

/// Puts old data in the place of what the lanes of `mask` have loaded, `count` words each, where the machine may.
#[inline(always)]
pub(crate) fn load(
    env: &mut Env<'_>,
    warp: u32,
    allocation: &Allocation,
    at: &W64,
    mask: u32,
    count: usize,
    words: &mut [W32],
) {
    if concerns(env) {
        replace(env, warp, allocation, at, mask, count, words);
    }
}

#[inline(never)]
fn replace(
    env: &mut Env<'_>,
    warp: u32,
    allocation: &Allocation,
    at: &W64,
    mask: u32,
    count: usize,
    words: &mut [W32],
) {
    let (rank, run) = (env.rank, env.run);
    let mut messages = messages(run);
    let Some(races) = &mut env.memories[rank].races else { return };
    let address_of = |lane: usize, index: usize| (at.0[lane] & !3) + 4 * index as u64;
    let is_own = |stale: &Stale| (stale.origin.rank, stale.origin.warp) == (rank, warp);
    let is_loaded =
        |address: u64| lanes_of(mask).any(|lane| (0..count).any(|index| address_of(lane, index) == address));
    env.stale.retain(|stale| !is_own(stale) || !is_loaded(stale.address));
    // What a block sees now is older than every store that is still to come.
    if messages.is_empty() {
        return;
    }
    let known = env.stale.len();
    for (lane, index) in lanes_of(mask).flat_map(|lane| (0..count).map(move |index| (lane, index))) {
        let address = address_of(lane, index);
        let Some(store) = messages.get(address) else { continue };
        if !races.order.heard.is_after(address, store) {
            races.order.heard.note_word(address, store);
            continue;
        }
        let other = (store.block, store.warp);
        let is_safe = store.block == races.order.block
            || races.order.is_ordered_for_strong(warp, other, store.time, &global_races::flags(run));
        if !is_safe {
            words[index].0[lane] = store.before;
            let origin = Origin { rank, warp, pc: env.pc, lane };
            env.stale.push(Stale {
                address,
                origin,
                other_block: store.block,
                other_warp: store.warp,
                other_pc: store.pc,
            });
        }
    }
    // The next load finds the new data.
    env.stale[known..].iter().for_each(|stale| messages.forget(stale.address));
    let warps = u64::from(run.warps);
    for lane in lanes_of(mask) {
        let address = address_of(lane, 0);
        races.order.heard.note_changes(address, &messages);
        if let Some(written) = allocation.writers.get((at.0[lane] - allocation.base) >> run.global_shift, run.number)
            && written.strong
            && !env.stale.iter().any(|stale| is_own(stale) && stale.address == address)
        {
            races.order.heard.note((written.warp / warps) as u32, written.time);
        }
    }
}

/// Returns the fault of a cluster that has ended without another load of old data.
pub(crate) fn unpublished(env: &Env<'_>) -> Option<Box<LaneFault>> {
    let stale = env.stale.first()?;
    let other_block = env.run.block_at(stale.other_block);
    let kind = FaultKind::Unpublished { address: stale.address, other_block, other_warp: stale.other_warp };
    let mut fault = LaneFault::at(stale.origin.lane, kind.after(stale.other_pc));
    fault.origin = Some(stale.origin);
    Some(fault)
}
