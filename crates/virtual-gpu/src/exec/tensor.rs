//! Tensor copies (`cp.async.bulk.tensor`), tiled mode: a box of a tensor to or from shared memory. They are queued like
//! other bulk copies.

use super::access::{self, Width};
use super::bulk::{new_transfer, queue, receivers, told};
use super::cluster_address::shared_end;
use super::env::Env;
use super::lane_fault::{LaneFault, Step};
use super::lanes::{W32, lanes_of, w64};
use super::tile::Tile;
use super::transfer::Moved;
use super::warp::Warp;
use crate::fault::FaultKind;
use crate::program::{AtomOp, BulkTensor, LOCAL_WINDOW, SHARED_WINDOW, Space, Ty};
use crate::tensor_map::{Element, TensorMap};

/// Required alignment of a tile's shared address, in bytes (PTX ISA, cp.async.bulk.tensor).
const TILE_ALIGNMENT: u64 = 128;

/// The rule for the first coordinate.
const CHUNKS: &str = "a tensor copy begins at a multiple of 16 bytes in a row";

/// Queues a copy for every active lane.
pub(crate) fn issue(warp: &mut Warp, env: &mut Env<'_>, copy: &BulkTensor, mask: u32) -> Step<()> {
    if copy.prefetch {
        return Ok(());
    }
    let invalid = |lane, message| LaneFault::at(lane, FaultKind::Invalid(message));
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
        // Otherwise an H200 reports an illegal instruction; the PTX ISA does not say so.
        if coordinates[0] * i64::from(map.element.bytes()) % 16 != 0 {
            return Err(invalid(lane, format!("a first coordinate of {}: {CHUNKS}", coordinates[0])));
        }
        // The same holds for stores that begin before the tensor.
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
        // The whole box counts, including elements outside the tensor.
        let bytes = map.box_bytes();
        let reduce = match copy.reduce {
            Some(op) => Some((op, reduced_type(op, map.element).map_err(|message| invalid(lane, message))?)),
            None => None,
        };
        let tile = Tile { map, coordinates, load: copy.load, reduce, ranks, offset };
        let mut transfer = new_transfer((warp, lane), env, Moved::Tile(tile), bytes);
        transfer.mbarriers = mbarriers;
        queue(env, transfer)?;
    }
    Ok(())
}

/// Returns the type in which elements are combined. The error says that there is no such reduction (PTX ISA,
/// cp.reduce.async.bulk.tensor).
fn reduced_type(op: AtomOp, element: Element) -> Result<Ty, String> {
    let ty = match (op, element.ty()) {
        (AtomOp::And | AtomOp::Or | AtomOp::Xor, Ty::U32 | Ty::S32) => Ty::B32,
        (AtomOp::And | AtomOp::Or | AtomOp::Xor, Ty::U64 | Ty::S64) => Ty::B64,
        (_, ty) => ty,
    };
    if op.takes(ty, true) { Ok(ty) } else { Err(format!("a tensor of {element:?} has no reduction by {op:?}")) }
}

/// Reads the tensor map at a generic address.
fn read_map(warp: &mut Warp, env: &mut Env<'_>, address: u64, lane: usize) -> Step<TensorMap> {
    let invalid = |message: String| LaneFault::at(lane, FaultKind::Invalid(message));
    if [SHARED_WINDOW >> 40, LOCAL_WINDOW >> 40].contains(&(address >> 40)) {
        return Err(invalid("a tensor map must be a parameter or in global memory".to_owned()));
    }
    if !address.is_multiple_of(64) {
        return Err(invalid(format!("the tensor map's address {address:#x} must be a multiple of 64")));
    }
    // The machine reads it through a separate cache, so nothing is counted.
    let before = env.tally.traffic();
    let at = w64!(chunk => address + 16 * chunk as u64);
    let mut words = [W32::splat(0); access::MAX_WORDS];
    let read = access::read(warp, env, Space::Generic, &at, 0xff, Width::of(Ty::B32, 4), &mut words);
    env.tally.restore(before);
    read.map_err(|fault| LaneFault::at(lane, fault.kind))?;
    let mut bytes = [0; 128];
    for (index, four) in bytes.chunks_exact_mut(4).enumerate() {
        four.copy_from_slice(&words[index % 4].0[index / 4].to_le_bytes());
    }
    TensorMap::decode(&bytes).map_err(|message| invalid(format!("at the tensor map's address {address:#x}: {message}")))
}
