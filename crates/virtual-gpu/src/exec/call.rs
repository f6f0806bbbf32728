//! Calls of the functions that the system provides: failed assertions, `printf`, and the heap of the device.

use super::env::Env;
use super::lane_fault::{LaneFault, Step};
use super::lanes::{W32, W64, lanes_of};
use super::print::printed;
use super::warp::Warp;
use crate::fault::FaultKind;
use crate::memory::heap::{HeapError, SPAN_BYTES};
use crate::program::{Op, Slot};

/// The longest text that is read, in bytes.
const LONGEST: u64 = 4096;

/// Executes a call.
pub(crate) fn execute(warp: &mut Warp, env: &mut Env<'_>, op: &Op, mask: u32) -> Step<()> {
    match *op {
        Op::Assert { message, file, line, function } => {
            let lane = mask.trailing_zeros() as usize;
            let text = |slot| text_at(env, env.get64(warp, slot).0[lane]).unwrap_or_else(|| "?".to_owned());
            let (message, file, function) = (text(message), text(file), text(function));
            let line = env.get32(warp, line).0[lane];
            Err(LaneFault::at(lane, FaultKind::Assertion { message, file, line, function }))
        }
        Op::Print { d, format, arguments } => print(warp, env, (d, format, arguments), mask),
        Op::Malloc { d, bytes } => {
            let mut addresses = W64::splat(0);
            let bytes = *env.get64(warp, bytes);
            for lane in lanes_of(mask) {
                addresses.0[lane] = allocate(env, bytes.0[lane]).map_err(|kind| LaneFault::at(lane, kind))?;
            }
            warp.set64(d, &addresses, mask);
            Ok(())
        }
        Op::Free { address } => {
            let addresses = *env.get64(warp, address);
            lanes_of(mask).try_for_each(|lane| free(env, addresses.0[lane]).map_err(|kind| LaneFault::at(lane, kind)))
        }
        _ => Ok(()),
    }
}

fn allocate(env: &Env<'_>, bytes: u64) -> Result<u64, FaultKind> {
    let Some(heap) = env.run.heap else { return Ok(0) };
    match heap.allocate(bytes) {
        Err(HeapError::NoAddresses) => {
            Err(FaultKind::NotModelled(format!("malloc of more than {SPAN_BYTES} bytes in all")))
        }
        allocated => Ok(allocated.unwrap_or(0)),
    }
}

fn free(env: &Env<'_>, address: u64) -> Result<(), FaultKind> {
    let freed = env.run.heap.and_then(|heap| heap.free(address));
    match freed {
        Some(bytes) => env.run.memory.mark_uninitialised(address, bytes).map_err(FaultKind::Invalid),
        None if address == 0 => Ok(()),
        None => Err(FaultKind::Invalid(format!("free of {address:#x}, which is no allocation of malloc"))),
    }
}

/// `printf` returns the number of its arguments on the device (CUDA C++ programming guide, "Formatted output").
fn print(warp: &mut Warp, env: &mut Env<'_>, (d, format, arguments): (Slot, Slot, Slot), mask: u32) -> Step<()> {
    let mut counts = W32::splat(0);
    let (mut last, formats, arguments) = (None, *env.get64(warp, format), *env.get64(warp, arguments));
    let mut all = String::new();
    for lane in lanes_of(mask) {
        let address = formats.0[lane];
        let format = match last.take() {
            Some((same, format)) if same == address => format,
            _ => text_at(env, address).ok_or_else(|| {
                let message = "printf with a format outside global and constant memory".to_owned();
                LaneFault::at(lane, FaultKind::NotModelled(message))
            })?,
        };
        let (text, count) = printed((warp, lane), &format, arguments.0[lane], |text| text_at(env, text));
        all.push_str(&text);
        last = Some((address, format));
        counts.0[lane] = count;
    }
    env.tally.counters.print(env.blocks[env.rank], &all);
    warp.set32(d, &counts, mask);
    Ok(())
}

/// Returns the text at a generic address, if it is in global or constant memory. Such texts are constants, so the reads
/// are neither counted nor checked.
fn text_at(env: &Env<'_>, address: u64) -> Option<String> {
    let byte = |at: u64| env.run.memory.read(address.checked_add(at)?, 1).ok()?.first().copied();
    let mut bytes = Vec::new();
    for at in 0..LONGEST {
        match byte(at)? {
            0 => break,
            byte => bytes.push(byte),
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
