//! Moves a box of a tensor between global and shared memory.

use super::access::{self, Width};
use super::atomics;
use super::cluster_address::shared_at;
use super::env::Env;
use super::lane_fault::Step;
use super::lanes::{LANES, W32, W64, lanes_of, w64};
use super::tile::{Chunks, Tile};
use super::warp::Warp;
use crate::program::{Space, Ty};

/// Moves a box, one 16-byte chunk per lane at a time. Chunks that leave the tensor move element by element.
pub(crate) fn move_tile(env: &mut Env<'_>, warp: &mut Warp, tile: &Tile) -> Step<()> {
    let bytes = tile.map.element.bytes();
    let element = Width { bytes, words: bytes.div_ceil(4) as usize };
    for first in (0..tile.map.box_bytes() / 16).step_by(LANES) {
        let chunks = tile.chunks(first);
        if tile.load {
            load_chunks(env, warp, tile, &chunks, element)?;
        } else {
            store_chunks(env, warp, tile, &chunks)?;
        }
    }
    Ok(())
}

fn load_chunks(env: &mut Env<'_>, warp: &mut Warp, tile: &Tile, chunks: &Chunks, element: Width) -> Step<()> {
    let chunk = Width::of(Ty::B32, 4);
    let mut words = [W32::splat(0); access::MAX_WORDS];
    if chunks.whole != 0 {
        access::read(warp, env, Space::Global, &chunks.global, chunks.whole, chunk, &mut words)?;
    }
    for index in 0..16 / element.bytes {
        let mask = chunks.partial(&tile.map, index);
        if mask != 0 {
            let plus = index * element.bytes;
            let mut part = [W32::splat(0); access::MAX_WORDS];
            access::read(warp, env, Space::Global, &chunks.global(plus), mask, element, &mut part)?;
            let narrow = if element.bytes < 4 { (1 << (8 * element.bytes)) - 1 } else { u32::MAX };
            for (to, from) in words[plus as usize / 4..].iter_mut().zip(&part[..element.words]) {
                lanes_of(mask).for_each(|lane| to.0[lane] |= (from.0[lane] & narrow) << (plus % 4 * 8));
            }
        }
    }
    for &rank in &tile.ranks {
        let (space, to) = shared_chunks(env, chunks, rank);
        access::write(warp, env, space, &to, chunks.mask, chunk, &words)?;
    }
    Ok(())
}

/// Stores whole chunks, or combines them with what is there. If a chunk leaves the tensor, the machine also stores the part beyond (conformance,
/// `store128`).
fn store_chunks(env: &mut Env<'_>, warp: &mut Warp, tile: &Tile, chunks: &Chunks) -> Step<()> {
    let mask = chunks.begun(&tile.map);
    if mask == 0 {
        return Ok(());
    }
    let width = Width::of(Ty::B32, 4);
    let mut words = [W32::splat(0); access::MAX_WORDS];
    let (space, from) = shared_chunks(env, chunks, tile.ranks[0]);
    access::read(warp, env, space, &from, mask, width, &mut words)?;
    let to = chunks.global(0);
    match tile.reduce {
        None => access::write(warp, env, Space::Global, &to, mask, width, &words),
        Some(reduce) => atomics::reduce_chunks(warp.index, env, reduce, &to, mask, &words),
    }
}

/// Returns the space and the addresses of the chunks in a block's shared memory.
fn shared_chunks(env: &Env<'_>, chunks: &Chunks, rank: usize) -> (Space, W64) {
    let (space, base) = shared_at(env, rank, 0);
    (space, w64!(lane => base | u64::from(chunks.offset[lane])))
}
