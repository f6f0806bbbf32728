//! Values of a block's constants.

use super::env::Constants;
use super::lanes::{W32, W64};
use super::run::Run;
use crate::program::{BlockSpecial, Constant, PARAM_WINDOW};

/// Fills in the constants for the block with this grid index and this rank in its cluster.
pub(crate) fn fill(constants: &mut Constants, run: &Run<'_>, block: [u32; 3], rank: u32) {
    let value = |constant: &Constant| value_of(constant, run, block, rank);
    constants.c32.clear();
    constants.c32.extend(run.kernel.constants32.iter().map(|constant| W32::splat(value(constant) as u32)));
    constants.c64.clear();
    constants.c64.extend(run.kernel.constants64.iter().map(|constant| W64::splat(value(constant))));
}

fn value_of(constant: &Constant, run: &Run<'_>, block: [u32; 3], rank: u32) -> u64 {
    match *constant {
        Constant::Bits(bits) => bits,
        Constant::Param { offset, bytes, signed } => param(run, offset as usize, usize::from(bytes), signed),
        Constant::ParamAddress(offset) => PARAM_WINDOW + u64::from(offset),
        Constant::Global(index, addend) => run.globals[index as usize].wrapping_add(i64::from(addend) as u64),
        Constant::Shared(offset) => offset.into(),
        Constant::DynamicShared(offset) => u64::from(run.dynamic_offset) + u64::from(offset),
        // Relative to the thread's memory; only generic addresses include the window.
        Constant::Local(offset) => offset.into(),
        Constant::Special(special) => special_of(special, run, block, rank).into(),
    }
}

fn param(run: &Run<'_>, offset: usize, bytes: usize, signed: bool) -> u64 {
    let mut eight = [0; 8];
    eight[..bytes].copy_from_slice(&run.params[offset..offset + bytes]);
    let value = u64::from_le_bytes(eight);
    let unused = 64 - 8 * bytes as u32;
    if signed { (((value << unused) as i64) >> unused) as u64 } else { value }
}

fn special_of(special: BlockSpecial, run: &Run<'_>, block: [u32; 3], rank: u32) -> u32 {
    let launch = run.launch;
    let axis = |axis: u8| usize::from(axis);
    let [x, y, _] = launch.cluster;
    let in_cluster = [rank % x, rank / x % y, rank / (x * y)];
    let [gx, gy] = [u64::from(launch.grid[0]), u64::from(launch.grid[1])];
    let linear = u64::from(block[0]) + gx * (u64::from(block[1]) + gy * u64::from(block[2]));
    match special {
        BlockSpecial::BlockDim(a) => launch.block[axis(a)],
        BlockSpecial::BlockIndex(a) => block[axis(a)],
        BlockSpecial::GridDim(a) => launch.grid[axis(a)],
        BlockSpecial::ClusterIndex(a) => block[axis(a)] / launch.cluster[axis(a)],
        BlockSpecial::ClusterGridDim(a) => launch.grid[axis(a)] / launch.cluster[axis(a)],
        BlockSpecial::ClusterBlockIndex(a) => in_cluster[axis(a)],
        BlockSpecial::ClusterDim(a) => launch.cluster[axis(a)],
        BlockSpecial::ClusterRank => rank,
        BlockSpecial::ClusterSize => run.cluster_blocks,
        BlockSpecial::Multiprocessor => run.multiprocessor_of(linear),
        BlockSpecial::Multiprocessors => run.gpu.multiprocessors,
        BlockSpecial::Warps => run.warps,
        BlockSpecial::GridId => run.launches as u32 + 1,
        BlockSpecial::DynamicSharedBytes => launch.dynamic_shared_bytes,
        BlockSpecial::TotalSharedBytes => run.shared_bytes,
        BlockSpecial::GridWorkspace { high } => (run.workspace >> if high { 32 } else { 0 }) as u32,
        BlockSpecial::Zero => 0,
    }
}
