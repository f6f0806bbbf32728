//! Reads of shared memory by the product of a warpgroup.

use std::ops::Range;

use super::shared::{check_flight, offsets_of};
use crate::exec::env::Env;
use crate::exec::lane_fault::{LaneFault, Step};
use crate::exec::lanes::{LANES, lanes_of, w64};
use crate::fault::{Access, FaultKind, Found};
use crate::memory::proxies::Moment;

/// Bytes of a chunk.
const CHUNK: u32 = 16;

/// Reads chunks of 16 bytes at these shared addresses, for these warps of one warpgroup. The tensor cores read for all
/// of them at once and without a load, so nothing is counted.
pub(crate) fn read(env: &mut Env<'_>, warps: &Range<u32>, addresses: &[u32]) -> Step<Vec<[u32; 4]>> {
    let mut chunks = Vec::with_capacity(addresses.len());
    for part in addresses.chunks(LANES) {
        let at = w64!(lane => u64::from(part[lane.min(part.len() - 1)]));
        let mask = u32::MAX >> (LANES - part.len());
        let offsets = offsets_of(env, env.rank, &at, mask, CHUNK, Access::Read)?;
        for lane in lanes_of(mask) {
            check(env, warps, offsets.0[lane]).map_err(|kind| LaneFault::at(lane, kind))?;
            let memory = &env.memories[env.rank];
            chunks.push(std::array::from_fn(|word| memory.load_word(offsets.0[lane] + 4 * word as u32)));
        }
    }
    Ok(chunks)
}

/// Checks and records the read of a chunk.
fn check(env: &mut Env<'_>, warps: &Range<u32>, offset: u32) -> Result<(), Found> {
    let (uninitialised, pc) = (env.run.options.uninitialised, env.pc);
    let memory = &mut env.memories[env.rank];
    check_flight(memory, 0, (Access::Read, offset, CHUNK)).map_err(|fault| fault.kind)?;
    if uninitialised && !memory.is_initialised(offset, CHUNK) {
        return Err(FaultKind::Uninitialised { space: "shared", address: offset.into(), bytes: CHUNK }.into());
    }
    if let Some(races) = &mut memory.races {
        races.pc = pc;
        races.read_by_product(warps.clone(), offset, CHUNK)?;
    }
    let Some(proxies) = &memory.proxies else { return Ok(()) };
    for warp in warps.clone() {
        if let Some((writer, pc)) = proxies.untold(warp, Moment::MAX, offset, CHUNK) {
            return Err(FaultKind::Unfenced { address: offset.into(), warp, writer }.after(pc));
        }
    }
    Ok(())
}
