//! The self-check of a device: tests that it still allocates, copies and launches correctly.

use std::collections::HashMap;

use super::{Buffer, Device, Fault, Work};
use crate::domain::code::artifact::Artifact;
use crate::domain::device::TimeSource;
use crate::domain::family::plan::{Arg, Initial, Launch, LaunchPlan, Scalar, ScalarValue, Workspace};
use crate::error::{Result, error};

/// The name of the self-check's kernel. Devices that execute nothing recognise it by this name.
pub(in crate::runner) const KERNEL: &str = "self_check";

/// The CUDA source of the self-check's kernel.
pub(in crate::runner) const SOURCE: &str = include_str!("../../../kernels/self_check.cu");

/// Elements on a device that measures times: 4 MiB each way, with blocks for every slot of every multiprocessor.
const ELEMENTS: u32 = 1 << 20;

/// Elements on a device that computes on the CPU. With so few, request to reply takes 0.7 ms on the fake device and 2.0
/// ms on the virtual H200. (Two cores of an x86_64 CPU, 2026-11-21, `strace -f -ttt optloop start`.)
const FEW_ELEMENTS: u32 = 1 << 12;

const THREADS: u32 = 256;

/// Runs the self-check. The error says what is wrong with the device.
pub(in crate::runner) fn run(device: &mut dyn Device, artifact: &Artifact) -> Result<()> {
    let elements = match device.info().time_source() {
        TimeSource::Measured => ELEMENTS,
        TimeSource::Modelled | TimeSource::Recorded => FEW_ELEMENTS,
    };
    // The salt differs in every process, so that an earlier check's result left in memory does not pass for this one's.
    let salt = std::process::id().wrapping_mul(0x6b43_a9b5);
    let from: Vec<u32> = (0..elements).map(|index| index.rotate_left(7) ^ salt).collect();
    let to = launched(device, artifact, &from).map_err(|fault| error!("its self-check fails: {fault}"))?;
    let wrong = (0..).zip(&from).zip(&to).find(|((index, from), to)| expected(*index, **from) != **to);
    match wrong {
        None if to.len() == from.len() => Ok(()),
        None => Err(error!("its self-check returned {} of {elements} elements", to.len())),
        Some(((index, from), found)) => {
            let expected = expected(index, *from);
            Err(error!("its self-check computed {found:#x} at element {index} of {elements} instead of {expected:#x}"))
        }
    }
}

/// Copies the input to the device, launches the kernel, and returns the output.
fn launched(device: &mut dyn Device, artifact: &Artifact, from: &[u32]) -> Result<Vec<u32>, Fault> {
    let bytes: Vec<u8> = from.iter().flat_map(|element| element.to_le_bytes()).collect();
    let module = device.load(artifact)?;
    let buffers = [device.alloc(bytes.len())?, device.alloc(bytes.len())?];
    device.write(buffers[0], &bytes)?;
    device.poison(buffers[1], 0xff)?;
    let named: HashMap<String, Buffer> = [("from".to_owned(), buffers[0]), ("to".to_owned(), buffers[1])].into();
    let plan = plan(from.len());
    device.launch(&Work { module, plan: &plan, buffers: &named, restores: &[], problem: None })?;
    let found = device.read(buffers[1])?;
    for buffer in buffers {
        device.free(buffer)?;
    }
    device.unload(module)?;
    Ok(decode(&found))
}

fn plan(elements: usize) -> LaunchPlan {
    let elements = elements as u32;
    let workspace = |name: &str| Arg::Workspace(name.to_owned());
    let number = Scalar { name: "elements".to_owned(), value: ScalarValue::I32(elements.cast_signed()) };
    let launch = Launch {
        kernel: KERNEL.to_owned(),
        grid: [elements.div_ceil(THREADS), 1, 1],
        block: [THREADS, 1, 1],
        shared_bytes: 0,
        cluster: None,
        programmatic: false,
        args: vec![workspace("from"), workspace("to"), Arg::Scalar(number)],
    };
    LaunchPlan { launches: vec![launch], ..LaunchPlan::default() }
}

/// Returns a plan that launches the kernel on memory of its own.
pub(in crate::runner) fn own_plan() -> LaunchPlan {
    let bytes = ELEMENTS as usize * size_of::<u32>();
    let workspace = |name: &str| Workspace { name: name.to_owned(), bytes, initial: Initial::Zero };
    LaunchPlan { workspaces: ["from", "to"].map(workspace).into(), ..plan(ELEMENTS as usize) }
}

/// Computes the kernel's result for one element.
fn expected(index: u32, from: u32) -> u32 {
    let x = from ^ index.wrapping_mul(0x9e37_79b9);
    let x = (x ^ (x >> 16)).wrapping_mul(0x85eb_ca6b);
    let x = (x ^ (x >> 13)).wrapping_mul(0xc2b2_ae35);
    x ^ (x >> 16)
}

/// Computes the kernel's result for a whole buffer, for a device that executes nothing.
pub(super) fn expected_bytes(from: &[u8]) -> Vec<u8> {
    (0..).zip(decode(from)).flat_map(|(index, from)| expected(index, from).to_le_bytes()).collect()
}

fn decode(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect()
}
