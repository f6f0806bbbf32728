//! Calls of the functions that the system provides: failed assertions and `printf`.

use super::env::Env;
use super::lane_fault::{LaneFault, Step};
use super::lanes::{W32, lanes_of};
use super::warp::Warp;
use crate::fault::FaultKind;
use crate::program::Op;

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
        Op::Print { d, format } => {
            let mut counts = W32::splat(0);
            let (mut last, formats) = (None, env.get64(warp, format));
            for lane in lanes_of(mask) {
                let address = formats.0[lane];
                let count = match last {
                    Some((same, count)) if same == address => count,
                    _ => arguments(env, address, lane)?,
                };
                last = Some((address, count));
                counts.0[lane] = count;
            }
            warp.set32(d, &counts, mask);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Returns the number of arguments that a format names, which is what `printf` returns on the device (CUDA C++
/// programming guide, "Formatted output").
fn arguments(env: &Env<'_>, address: u64, lane: usize) -> Step<u32> {
    let Some(format) = text_at(env, address) else {
        let message = "printf with a format outside global and constant memory".to_owned();
        return Err(LaneFault::at(lane, FaultKind::Unsupported(message)));
    };
    Ok((format.replace("%%", "").matches('%').count()) as u32)
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
