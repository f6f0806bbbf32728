//! The values of the `FAULT` argument: what a kernel under test does wrong on the fake device.

use crate::domain::family::plan::{Arg, LaunchPlan, ScalarValue};

pub const WRONG: i32 = 1;
pub const CRASH: i32 = 2;
pub const UNWRITTEN: i32 = 3;
pub const HANG: i32 = 4;
pub const WORKER_ABORT: i32 = 5;
pub const NOT_A_NUMBER: i32 = 6;
/// Correct in its first execution only.
pub const WRONG_LATER: i32 = 7;
pub const WRITES_BESIDE: i32 = 8;
pub const WRITES_INPUTS: i32 = 9;
pub const NOT_REPEATABLE: i32 = 10;
/// Skips outputs that it has computed before.
pub const CACHED: i32 = 11;
/// Overflows on large inputs.
pub const WRONG_ON_PROBES: i32 = 12;
/// Correct only on the first shape that it gets.
pub const WRONG_ON_HIDDEN: i32 = 13;
pub const SLOW_ON_HELD_OUT: i32 = 14;
/// Does nothing in every second execution.
pub const SKIPS: i32 = 15;
/// Correct only on the first and the last of the inputs that it executes on in turns.
pub const RIGHT_AT_ENDS: i32 = 16;
/// Overwrites its inputs, but only once it has executed so often that it is being timed.
pub const WRITES_INPUTS_LATER: i32 = 17;
/// Writes out of its output's bounds while it is being timed.
pub const WRITES_BESIDE_LATER: i32 = 18;
/// Repeats its first output forever, after so many executions that only a comparison reaches them.
pub const SKIPS_LATER: i32 = 19;
/// Writes into the workspaces of other kernels while it is being timed. The others are then correct only for the first
/// inputs that they had.
pub const WRITES_OTHER_WORKSPACES: i32 = 20;

/// Honest, but takes long if its inputs were just written: it waits for each load, and they come from memory.
pub const SLOW_FROM_MEMORY: i32 = 21;

/// Returns the plan's `FAULT` argument, or 0.
pub fn of(plan: &LaunchPlan) -> i32 {
    let scalars = plan.launches.iter().flat_map(|launch| &launch.args).filter_map(|arg| match arg {
        Arg::Scalar(scalar) if scalar.name == "FAULT" => Some(scalar.value),
        _ => None,
    });
    scalars.filter_map(|value| if let ScalarValue::I32(value) = value { Some(value) } else { None }).next().unwrap_or(0)
}
