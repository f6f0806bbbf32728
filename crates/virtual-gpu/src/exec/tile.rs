//! A box of a tensor in shared memory, and the address of each of its chunks.
//!
//! A box lies in shared memory row by row, with its innermost dimension contiguous and the map's swizzle applied.
//! Elements outside the tensor are loaded as zero and not stored.

use super::lanes::{LANES, W64, lanes_of, w64};
use crate::program::{AtomOp, Ty};
use crate::tensor_map::TensorMap;

/// A box of a tensor and its place in shared memory.
#[derive(Debug)]
pub(crate) struct Tile {
    /// The tensor.
    pub map: TensorMap,
    /// Coordinates of the box's first element, innermost first.
    pub coordinates: [i64; 5],
    /// Whether global memory is the source.
    pub load: bool,
    /// How elements of a store are combined with those in global memory; None to replace them.
    pub reduce: Option<(AtomOp, Ty)>,
    /// The blocks: the receivers of a load, or the one source of a store.
    pub ranks: Vec<usize>,
    /// The offset in the blocks' shared memory.
    pub offset: u32,
}

/// 32 chunks of a box, one per lane.
#[derive(Debug)]
pub(crate) struct Chunks {
    /// Lanes that have a chunk.
    pub mask: u32,
    /// Those lanes whose elements are all inside the tensor, at an address that is a multiple of 16.
    pub whole: u32,
    /// Global address of the first element; unmapped if it is outside.
    pub global: W64,
    /// Distance of the first element from the tensor's first column.
    column: [i64; LANES],
    /// Whether the chunk's row is inside, per lane.
    row_inside: u32,
    /// Addresses in shared memory.
    pub offset: [u32; LANES],
}

impl Tile {
    /// Finds the 32 chunks from the `first`-th on.
    pub fn chunks(&self, first: u32) -> Chunks {
        let map = &self.map;
        let per_row = map.box_dims[0] * map.element.bytes() / 16;
        let elements = i64::from(16 / map.element.bytes());
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
                // Far outside the tensor this wraps; the value is then unused.
                rows_in = rows_in.wrapping_add(at.wrapping_mul(map.strides[axis - 1] as i64));
            }
            let column = self.coordinates[0] + i64::from(chunk % per_row) * elements;
            let address =
                map.address.wrapping_add_signed(rows_in.wrapping_add(column * i64::from(map.element.bytes())));
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
    /// Returns the lanes whose chunk moves element by element and whose `index`-th element is inside.
    pub fn partial(&self, map: &TensorMap, index: u32) -> u32 {
        let inside = |&lane: &usize| (0..map.dims[0] as i64).contains(&(self.column[lane] + i64::from(index)));
        lanes_of(self.mask & self.row_inside & !self.whole).filter(inside).fold(0, |mask, lane| mask | 1 << lane)
    }

    /// Returns the lanes whose chunk begins inside the tensor.
    pub fn begun(&self, map: &TensorMap) -> u32 {
        let begins = |&lane: &usize| (0..map.dims[0] as i64).contains(&self.column[lane]);
        lanes_of(self.mask & self.row_inside).filter(begins).fold(0, |mask, lane| mask | 1 << lane)
    }

    /// Returns the global addresses, `plus` bytes into each chunk.
    pub fn global(&self, plus: u32) -> W64 {
        w64!(lane => self.global.0[lane].wrapping_add(plus.into()))
    }
}
