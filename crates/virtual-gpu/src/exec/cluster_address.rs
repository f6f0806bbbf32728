//! Addresses in the shared memories of a cluster's blocks: the block's rank plus one is stored above the offset. An
//! address without a rank is in the block's own memory.

use super::env::Env;
use super::lanes::{w32, w64};
use super::warp::Warp;
use crate::program::{Op, SHARED_WINDOW, Space};

/// Bits of a shared address below the block's rank: 16 MiB, more than any block has.
pub(crate) const RANK_SHIFT: u32 = 24;

/// Returns the block and offset of a shared address (generic, cluster or own).
pub(crate) fn shared_end(env: &Env<'_>, address: u64) -> (usize, u32) {
    let address = if address >> 40 == SHARED_WINDOW >> 40 { address - SHARED_WINDOW } else { address };
    // Without a cluster, an address cannot belong to another block.
    if env.memories.len() == 1 {
        return (env.rank, u32::try_from(address).unwrap_or(u32::MAX));
    }
    let tag = (address >> RANK_SHIFT) as usize;
    let offset = (address & ((1 << RANK_SHIFT) - 1)) as u32;
    (if tag == 0 { env.rank } else { tag - 1 }, offset)
}

/// Returns the space and the address in it of an offset in a block's shared memory.
pub(crate) fn shared_at(env: &Env<'_>, rank: usize, offset: u32) -> (Space, u64) {
    if rank == env.rank {
        (Space::Shared, u64::from(offset))
    } else {
        (Space::SharedCluster, (rank as u64 + 1) << RANK_SHIFT | u64::from(offset))
    }
}

/// `mapa` and `getctarank`: the addresses of a cluster's shared memories.
pub(crate) fn execute(warp: &mut Warp, env: &Env<'_>, op: &Op, mask: u32) {
    match *op {
        Op::Mapa { wide, generic, d, a, rank } => {
            let ranks = env.get32(warp, rank);
            let window = if generic { SHARED_WINDOW } else { 0 };
            let map = |address: u64, rank: u32| {
                let offset = address.wrapping_sub(window) & ((1 << RANK_SHIFT) - 1);
                // The address of the own block stays unchanged.
                let tag = if rank as usize == env.rank { 0 } else { u64::from(rank) + 1 };
                window + (tag << RANK_SHIFT | offset)
            };
            if wide {
                let a = env.get64(warp, a);
                let value = w64!(lane => map(a.0[lane].max(window), ranks.0[lane]));
                warp.set64(d, &value, mask);
            } else {
                let a = env.get32(warp, a);
                let value = w32!(lane => map(a.0[lane].into(), ranks.0[lane]) as u32);
                warp.set32(d, &value, mask);
            }
        }
        Op::GetCtaRank { wide, generic, d, a } => {
            let window = if generic { SHARED_WINDOW } else { 0 };
            let rank_of = |address: u64| match (address.max(window) - window) >> RANK_SHIFT {
                0 => env.rank as u32,
                tag => tag as u32 - 1,
            };
            let value = if wide {
                let a = env.get64(warp, a);
                w32!(lane => rank_of(a.0[lane]))
            } else {
                let a = env.get32(warp, a);
                w32!(lane => rank_of(a.0[lane].into()))
            };
            warp.set32(d, &value, mask);
        }
        _ => {}
    }
}
