//! What a kernel under test can do wrong on the fake device: the values of its `FAULT` argument.

use crate::domain::plan::{Arg, LaunchPlan, ScalarValue};

pub const WRONG: i32 = 1;
pub const CRASH: i32 = 2;
pub const UNWRITTEN: i32 = 3;
pub const HANG: i32 = 4;
pub const DEATH: i32 = 5;
pub const NOT_A_NUMBER: i32 = 6;
/// Right in its first execution only.
pub const WRONG_LATER: i32 = 7;
pub const WRITES_BESIDE: i32 = 8;
pub const WRITES_INPUTS: i32 = 9;
pub const NOT_REPEATABLE: i32 = 10;
/// Computes nothing for an output that it computed once.
pub const CACHED: i32 = 11;
/// Overflows where inputs are large.
pub const WRONG_ON_PROBES: i32 = 12;
/// Computes nothing right but the first shape that it meets.
pub const WRONG_ON_HIDDEN: i32 = 13;
pub const SLOW_ON_HELD_OUT: i32 = 14;
/// Does nothing in every other execution.
pub const SKIPS: i32 = 15;
/// Right on the first and the last of what it executes on in turns.
pub const RIGHT_AT_ENDS: i32 = 16;
/// Writes over its inputs, but not before it has executed so often that it is being timed.
pub const WRITES_INPUTS_LATER: i32 = 17;
/// Writes beside its output when it is being timed.
pub const WRITES_BESIDE_LATER: i32 = 18;
/// Gives its first output for ever when it has executed so often that nobody but a comparison gets there.
pub const GIVES_UP: i32 = 19;
/// Writes into the workspaces of the others, when it is being timed: they are right on what they know, and on nothing else.
pub const STRAYS: i32 = 20;

/// Returns the plan's `FAULT` argument, or 0.
pub fn of(plan: &LaunchPlan) -> i32 {
    let scalars = plan.launches.iter().flat_map(|launch| &launch.args).filter_map(|arg| match arg {
        Arg::Scalar(scalar) if scalar.name == "FAULT" => Some(scalar.value),
        _ => None,
    });
    scalars.filter_map(|value| if let ScalarValue::I32(value) = value { Some(value) } else { None }).next().unwrap_or(0)
}
