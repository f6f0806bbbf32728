//! Local memory of each thread, and the parameters.

use super::{Width, misaligned};
use crate::counters::Traffic;
use crate::exec::env::Env;
use crate::exec::lane_fault::{LaneFault, Step};
use crate::exec::lanes::{LANES, W32, W64, lanes_of};
use crate::exec::warp::Warp;
use crate::fault::{Access, FaultKind};

fn index_of(warp: &Warp, at: &W64, lane: usize, bytes: u32, access: Access) -> Step<usize> {
    let address = at.0[lane];
    let size = warp.local_written.len() as u64 * 4;
    if address.checked_add(u64::from(bytes)).is_none_or(|end| end > size) {
        let detail = format!("the thread has {size} bytes");
        let kind = FaultKind::OutOfBounds { access, space: "local", address, bytes, detail };
        return Err(LaneFault::at(lane, kind));
    }
    if !address.is_multiple_of(u64::from(bytes)) {
        return Err(misaligned(lane, access, "local", at, bytes));
    }
    Ok((address / 4) as usize)
}

pub(super) fn read(
    warp: &mut Warp,
    env: &mut Env<'_>,
    at: &W64,
    mask: u32,
    width: Width,
    words: &mut [W32],
) -> Step<()> {
    for lane in lanes_of(mask) {
        let index = index_of(warp, at, lane, width.bytes, Access::Read)?;
        for word in 0..width.words {
            if env.run.options.uninitialised && warp.local_written[index + word] >> lane & 1 == 0 {
                let kind = FaultKind::Uninitialised { space: "local", address: at.0[lane], bytes: width.bytes };
                return Err(LaneFault::at(lane, kind));
            }
            words[word].0[lane] = warp.local[(index + word) * LANES + lane];
        }
        if width.bytes < 4 {
            words[0].0[lane] >>= at.0[lane] % 4 * 8;
        }
    }
    count_local(env, mask, width);
    Ok(())
}

pub(super) fn write(warp: &mut Warp, env: &mut Env<'_>, at: &W64, mask: u32, width: Width, words: &[W32]) -> Step<()> {
    for lane in lanes_of(mask) {
        let index = index_of(warp, at, lane, width.bytes, Access::Write)?;
        for word in 0..width.words {
            let to = &mut warp.local[(index + word) * LANES + lane];
            if width.bytes < 4 {
                let shift = at.0[lane] % 4 * 8;
                let narrow = u32::MAX >> (32 - 8 * width.bytes) << shift;
                *to = *to & !narrow | words[0].0[lane] << shift & narrow;
            } else {
                *to = words[word].0[lane];
            }
            // Tracked per word: a compiler that stores one byte of a local array stores the others too.
            warp.local_written[index + word] |= 1 << lane;
        }
    }
    count_local(env, mask, width);
    Ok(())
}

/// Local memory is interleaved by lane, so the same word of all lanes is one line of 128 bytes.
fn count_local(env: &mut Env<'_>, mask: u32, width: Width) {
    if env.run.options.counters {
        let bytes = u64::from(mask.count_ones()) * u64::from(width.bytes);
        let units = bytes.div_ceil(32);
        env.tally.counters.local.add(&Traffic { requests: 1, units, ideal_units: units, bytes });
    }
}

pub(super) fn read_param(env: &mut Env<'_>, at: &W64, mask: u32, width: Width, words: &mut [W32]) -> Step<()> {
    for lane in lanes_of(mask) {
        let from = at.0[lane] as usize;
        if !from.is_multiple_of(width.bytes as usize) {
            return Err(misaligned(lane, Access::Read, "param", at, width.bytes));
        }
        let Some(bytes) = env.run.params.get(from..from.saturating_add(width.bytes as usize)) else {
            let detail = format!("the parameters have {} bytes", env.run.params.len());
            let (address, bytes) = (at.0[lane], width.bytes);
            let kind = FaultKind::OutOfBounds { access: Access::Read, space: "param", address, bytes, detail };
            return Err(LaneFault::at(lane, kind));
        };
        for (word, chunk) in bytes.chunks(4).enumerate() {
            let mut four = [0; 4];
            four[..chunk.len()].copy_from_slice(chunk);
            words[word].0[lane] = u32::from_le_bytes(four);
        }
    }
    Ok(())
}
