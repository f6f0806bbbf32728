//! Tensor copies (`cp.async.bulk.tensor`), tiled mode: a box of a tensor to or from shared memory.
//!
//! They are queued and done as other bulk copies are. A box lies in shared memory row by row, its innermost dimension
//! contiguous, with the map's swizzle on top; what is outside of the tensor is loaded as zero and not stored.

use super::access::{self, Width};
use super::env::{Env, Step, Trouble};
use super::lanes::{LANES, W32, W64, lanes_of, w64};
use super::transfer::{Moved, new_transfer, receivers, shared_at, shared_end, told};
use super::warp::Warp;
use crate::fault::FaultKind;
use crate::program::{BulkTensor, LOCAL_WINDOW, SHARED_WINDOW, Space, Ty};
use crate::tensor_map::TensorMap;

/// Bytes that a tile's shared address must be a multiple of (PTX ISA, cp.async.bulk.tensor).
const TILE_ALIGNMENT: u64 = 128;

/// What the first coordinate must be.
const CHUNKS: &str = "a tensor copy begins at a multiple of 16 bytes in a row";

/// A box of a tensor and where it is in shared memory.
#[derive(Debug)]
pub(crate) struct Tile {
    map: TensorMap,
    /// Of the box's first element, innermost first.
    coordinates: [i64; 5],
    /// Whether global memory is the source.
    pub load: bool,
    /// The blocks: the receivers of a load, the one source of a store.
    ranks: Vec<usize>,
    /// The offset in their shared memory.
    offset: u32,
}

/// Queues a copy for every active lane.
pub(crate) fn issue(warp: &mut Warp, env: &mut Env<'_>, copy: &BulkTensor, mask: u32) -> Step<()> {
    if copy.reduce.is_some() {
        return Err(Trouble::of(mask, FaultKind::Unsupported("cp.reduce.async.bulk.tensor".to_owned())));
    }
    if copy.prefetch {
        return Ok(());
    }
    let invalid = |lane, message| Trouble::at(lane, FaultKind::Invalid(message));
    let (maps, shared) = (access::addresses(warp, env, &copy.map), access::addresses(warp, env, &copy.shared));
    for lane in lanes_of(mask) {
        let map = read_map(warp, env, maps.0[lane], lane)?;
        let dims = usize::from(copy.dims);
        if map.dims.len() != dims {
            let message = format!("a copy of {dims} dimensions by a tensor map of {}", map.dims.len());
            return Err(invalid(lane, message));
        }
        if !shared.0[lane].is_multiple_of(TILE_ALIGNMENT) {
            let message = format!("cp.async.bulk.tensor needs a shared address that is a multiple of {TILE_ALIGNMENT}");
            return Err(invalid(lane, message));
        }
        let mut coordinates = [0; 5];
        for (to, &slot) in coordinates[..dims].iter_mut().zip(&copy.coordinates) {
            *to = i64::from(env.get32(warp, slot).0[lane] as i32);
        }
        // An H200 calls it an illegal instruction otherwise; the PTX ISA does not say so.
        if coordinates[0] * i64::from(map.element_bytes) % 16 != 0 {
            return Err(invalid(lane, format!("a first coordinate of {}: {CHUNKS}", coordinates[0])));
        }
        // The same holds of stores that begin before the tensor.
        if let Some(before) = coordinates.iter().find(|&&coordinate| coordinate < 0 && !copy.load) {
            return Err(invalid(lane, format!("a coordinate of {before}: a tensor store begins inside or behind")));
        }
        let (rank, offset) = shared_end(env, shared.0[lane]);
        let ranks = if copy.load { receivers(warp, env, copy.multicast, rank, lane) } else { vec![rank] };
        let mbarriers = if copy.load {
            let barrier = shared_end(env, access::addresses(warp, env, &copy.mbarrier).0[lane]);
            told(copy.multicast, &ranks, barrier)
        } else {
            Vec::new()
        };
        // All of the box counts, also what is outside of the tensor.
        let bytes = map.box_bytes();
        let tile = Tile { map, coordinates, load: copy.load, ranks, offset };
        let mut transfer = new_transfer((warp, lane), env, Moved::Tile(tile), bytes);
        transfer.mbarriers = mbarriers;
        env.transfers.push_back(transfer);
    }
    Ok(())
}

/// Reads the tensor map at a generic address.
fn read_map(warp: &mut Warp, env: &mut Env<'_>, address: u64, lane: usize) -> Step<TensorMap> {
    let invalid = |message: String| Trouble::at(lane, FaultKind::Invalid(message));
    if [SHARED_WINDOW >> 40, LOCAL_WINDOW >> 40].contains(&(address >> 40)) {
        return Err(invalid("a tensor map must be a parameter or in global memory".to_owned()));
    }
    if !address.is_multiple_of(64) {
        return Err(invalid(format!("the tensor map's address {address:#x} must be a multiple of 64")));
    }
    // Through a cache of its own: nothing is counted.
    let before = env.tally.traffic();
    let at = w64!(chunk => address + 16 * chunk as u64);
    let mut words = [W32::splat(0); access::MAX_WORDS];
    let read = access::read(warp, env, Space::Generic, &at, 0xff, Width::of(Ty::B32, 4), &mut words);
    env.tally.restore(before);
    read.map_err(|trouble| Trouble::at(lane, trouble.kind))?;
    let mut bytes = [0; 128];
    for (index, four) in bytes.chunks_exact_mut(4).enumerate() {
        four.copy_from_slice(&words[index % 4].0[index / 4].to_le_bytes());
    }
    TensorMap::decode(&bytes).map_err(|message| invalid(format!("at the tensor map's address {address:#x}: {message}")))
}

/// 32 chunks of a box, a lane each.
struct Chunks {
    /// Lanes that have one.
    mask: u32,
    /// Of these, whose elements are all inside of the tensor, at an address that is a multiple of 16.
    whole: u32,
    /// Global address of the first element; nothing is there if it is outside.
    global: W64,
    /// How far in from the tensor's first column the first element is.
    column: [i64; LANES],
    /// Whether the chunk's row is inside, per lane.
    row_inside: u32,
    /// Where they are in shared memory.
    offset: [u32; LANES],
}

impl Tile {
    /// Finds the 32 chunks from the `first`-th on.
    fn chunks(&self, first: u32) -> Chunks {
        let map = &self.map;
        let per_row = map.box_dims[0] * map.element_bytes / 16;
        let elements = i64::from(16 / map.element_bytes);
        let mut chunks =
            Chunks { mask: 0, whole: 0, global: W64::splat(0), column: [0; LANES], row_inside: 0, offset: [0; LANES] };
        let count = (map.box_bytes() / 16 - first).min(LANES as u32);
        for lane in 0..count as usize {
            let chunk = first + lane as u32;
            let (mut row, mut inside, mut rows_in) = (chunk / per_row, true, 0_i64);
            for axis in 1..map.dims.len() {
                let at = self.coordinates[axis] + i64::from(row % map.box_dims[axis]);
                row /= map.box_dims[axis];
                inside &= (0..map.dims[axis] as i64).contains(&at);
                // Far outside this wraps, and is not used.
                rows_in = rows_in.wrapping_add(at.wrapping_mul(map.strides[axis - 1] as i64));
            }
            let column = self.coordinates[0] + i64::from(chunk % per_row) * elements;
            let address = map.address.wrapping_add_signed(rows_in.wrapping_add(column * i64::from(map.element_bytes)));
            let all = inside && column >= 0 && column + elements <= map.dims[0] as i64 && address.is_multiple_of(16);
            chunks.mask |= 1 << lane;
            chunks.whole |= u32::from(all) << lane;
            chunks.row_inside |= u32::from(inside) << lane;
            chunks.global.0[lane] = address;
            chunks.column[lane] = column;
            chunks.offset[lane] = map.swizzle.apply(self.offset + 16 * chunk);
        }
        chunks
    }
}

impl Chunks {
    /// Returns the lanes whose chunk is to be moved element by element, and of whose the `index`-th is inside.
    fn partial(&self, map: &TensorMap, index: u32) -> u32 {
        let inside = |&lane: &usize| (0..map.dims[0] as i64).contains(&(self.column[lane] + i64::from(index)));
        lanes_of(self.mask & self.row_inside & !self.whole).filter(inside).fold(0, |mask, lane| mask | 1 << lane)
    }

    /// Returns the lanes whose chunk begins inside.
    fn begun(&self, map: &TensorMap) -> u32 {
        let begins = |&lane: &usize| (0..map.dims[0] as i64).contains(&self.column[lane]);
        lanes_of(self.mask & self.row_inside).filter(begins).fold(0, |mask, lane| mask | 1 << lane)
    }

    /// Returns the space and the addresses in a block's shared memory, `plus` bytes into each chunk.
    fn shared(&self, env: &Env<'_>, rank: usize, plus: u32) -> (Space, W64) {
        let (space, base) = shared_at(env, rank, 0);
        (space, w64!(lane => base | u64::from(self.offset[lane] + plus)))
    }

    /// Returns the global addresses, `plus` bytes into each chunk.
    fn global(&self, plus: u32) -> W64 {
        w64!(lane => self.global.0[lane].wrapping_add(plus.into()))
    }
}

/// Moves a box, a chunk of 16 bytes per lane at a time; element by element where it leaves the tensor.
pub(crate) fn move_tile(env: &mut Env<'_>, warp: &mut Warp, tile: &Tile) -> Step<()> {
    let bytes = tile.map.element_bytes;
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
        let (space, to) = chunks.shared(env, rank, 0);
        access::write(warp, env, space, &to, chunks.mask, chunk, &words)?;
    }
    Ok(())
}

/// Stores whole chunks: of one that leaves the tensor the machine stores what is beyond, too (conformance, `store128`).
fn store_chunks(env: &mut Env<'_>, warp: &mut Warp, tile: &Tile, chunks: &Chunks) -> Step<()> {
    let mask = chunks.begun(&tile.map);
    if mask == 0 {
        return Ok(());
    }
    let width = Width::of(Ty::B32, 4);
    let mut words = [W32::splat(0); access::MAX_WORDS];
    let (space, from) = chunks.shared(env, tile.ranks[0], 0);
    access::read(warp, env, space, &from, mask, width, &mut words)?;
    access::write(warp, env, Space::Global, &chunks.global(0), mask, width, &words)
}
