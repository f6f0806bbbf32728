//! Checks a shape whose offsets in bytes do not fit 32 bits, or whose grid has stopped growing.
//!
//! The tensors would take gigabytes. A virtual GPU stores only their beginnings and ends, where the first and the last indices
//! of a dimension are, and executes only the blocks at the edges of the grid. What they write there must be right. An offset
//! that overflows leads out of bounds, or from the end to the beginning.
//!
//! The op may not say that the indices are independent of each other. Then the oracle must show it: indices between the windows
//! that hold zeros, as they do on the virtual GPU, must change nothing.
//!
//! What a workspace holds may come from blocks that were not executed. Then no output is compared, and of several launches only
//! the first is executed.

use std::collections::HashMap;
use std::ops::Range;

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::index::sample;

use super::Ended;
use super::data::draw;
use super::ended;
use super::sampled::{PART_OF_A_ROW, error_of};
use crate::domain::family::plan::{Initial, Workspace};
use crate::domain::measurement::check::Check;
use crate::domain::measurement::evaluation::Outcome;
use crate::domain::op::{Dims, Dtype, TensorSpec};
use crate::domain::workload::Tolerance;
use crate::runner::device::{Buffer, Device, Fault, Model, Module, Problem, Work};
use crate::runner::inputs;
use crate::runner::messages::FarCase;
use crate::runner::outputs::{Output, Outputs, POISON};

/// The most rows to compare.
const ROWS: usize = 64;

/// What such shapes show.
const HINT: &str = "does an offset in bytes overflow 32 bits, or an index the 24 bits of a float?";

/// How much of an output's largest number may be lost when the oracle computes a part of it alone. A library may add in another
/// order then.
const ORACLE_ROUNDING: f64 = 1e-6;

/// Blocks at the end of a grid, if the last one writes nothing at the end of the output. A grid may be rounded up.
const LAST_BLOCKS: u32 = 64;

/// A workspace of more bytes is stored at its ends only.
const WHOLE_WORKSPACE_BYTES: usize = 64 << 20;

/// Bytes that are stored at either end of such a workspace.
const WORKSPACE_WINDOW_BYTES: usize = 8 << 20;

/// A variant on a far shape.
pub(super) struct FarCheck<'a> {
    pub problem: Problem<'a>,
    pub far: &'a FarCase,
    pub module: Module,
    pub tolerance: &'a Tolerance,
    pub seed: u64,
}

impl FarCheck<'_> {
    /// Runs the check. Returns whether anything was compared. A kernel that does not run, or not to its end, proves nothing: its
    /// grid may be too large, or its blocks may do the work of many.
    pub fn run(&self, device: &mut dyn Device) -> Result<bool, Ended> {
        let Some(device) = device.as_model() else { return Ok(false) };
        // The edges of a preparation are not what the edges of a launch read.
        if !self.far.planned.plan.preparation.is_empty() {
            return Ok(false);
        }
        // What the windows hold is a problem of its own.
        let dims = self.with_indices(2);
        let windows = Problem { dims: &dims, ..self.problem };
        let values = draw(&windows, self.seed);
        if self.far.is_assumed && !self.is_independent(&windows, &values) {
            return Ok(false);
        }
        let mut own = Vec::new();
        let checked = self.run_with(device, &windows, &values, &mut own);
        let freed = own.into_iter().try_for_each(|buffer| device.free(buffer));
        let checked = checked?;
        freed.map_err(|fault| self.ended(fault))?;
        Ok(checked)
    }

    /// Returns the sizes with as many indices as some windows.
    fn with_indices(&self, windows: i64) -> Dims {
        let mut dims = self.problem.dims.clone();
        dims.insert(self.far.dim.clone(), windows * self.far.window);
        dims
    }

    /// Returns whether the oracle computes the same of the windows alone as with zeros between them. An oracle that fails on these
    /// does not.
    fn is_independent(&self, windows: &Problem<'_>, values: &[Vec<f32>]) -> bool {
        let dims = self.with_indices(4);
        let wider = Problem { dims: &dims, ..self.problem };
        let tensors = windows.inputs().into_iter().zip(wider.inputs()).zip(values);
        let spread = tensors.map(|((own, wide), values)| {
            let more = (wide.elements() - own.elements()) * own.dtype.slots();
            let (first, last) = values.split_at(if more == 0 { values.len() } else { values.len() / 2 });
            [first, &vec![0.0; more], last].concat()
        });
        let spread: Vec<Vec<f32>> = spread.collect();
        let all = |problem: &Problem<'_>, values: &[Vec<f32>]| {
            let rows: Vec<usize> = (0..Outputs::of(problem.op, problem.dims, problem.dtype).rows()).collect();
            problem.op.oracle(problem.dims, values, &rows)
        };
        let (Ok(alone), Ok(within)) = (all(windows, values), all(&wider, &spread)) else { return false };
        let (mut alone, mut within) = (&alone[..], &within[..]);
        windows.outputs().into_iter().zip(wider.outputs()).all(|(own, wide)| {
            let (own_values, wide_values);
            (own_values, alone) = alone.split_at(own.elements());
            (wide_values, within) = within.split_at(wide.elements());
            let (first, last) = own_values.split_at(own.elements() / 2);
            let end = &wide_values[wide.elements() - last.len()..];
            are_alike(own.dtype, first, &wide_values[..first.len()]) && are_alike(own.dtype, last, end)
        })
    }

    fn run_with(
        &self,
        device: &mut dyn Model,
        windows: &Problem<'_>,
        values: &[Vec<f32>],
        own: &mut Vec<Buffer>,
    ) -> Result<bool, Ended> {
        let buffers = self.allocate(device, windows, values, own).map_err(|fault| self.ended(fault))?;
        let mut plan = self.far.planned.plan.clone();
        let is_compared = plan.workspaces.is_empty();
        if !is_compared {
            plan.launches.truncate(1);
        }
        let work = Work { module: self.module, plan: &plan, buffers: &buffers, restores: &[], problem: None };
        let Some(mut written) = self.written(device, windows, &work, None)? else { return Ok(false) };
        let ends = |written: &[u8]| ends_written(windows, written);
        if self.far.ends_last && ends(&written) == [true, false] {
            // The last blocks of a grid may have nothing to do.
            let Some(mut more) = self.written(device, windows, &work, Some(LAST_BLOCKS))? else { return Ok(false) };
            if ends(&more) == [true, false] && self.far.is_capped {
                // Blocks that do the work of several may take it in any order.
                let Some(all) = self.written(device, windows, &work, Some(u32::MAX))? else { return Ok(false) };
                more = all;
            }
            if ends(&more) == [true, false] {
                let message = if self.far.is_capped {
                    "the last rows are not written: does each block go on, where the grid has its largest size?"
                        .to_owned()
                } else {
                    format!("the last blocks do not write the last rows: {HINT}")
                };
                return Err(self.wrong(Check::Written, message));
            }
            written = more;
        }
        if is_compared { self.compare(windows, values, &written) } else { Ok(false) }
    }

    /// Executes some blocks, and reads what is in the windows of the outputs. None if the kernel does not run, or not to its end.
    fn written(
        &self,
        device: &mut dyn Model,
        windows: &Problem<'_>,
        work: &Work<'_>,
        last: Option<u32>,
    ) -> Result<Option<Vec<u8>>, Ended> {
        match device.launch_edges(work, last) {
            Ok(()) => {}
            Err(Fault::Refused(_) | Fault::NotModelled(_) | Fault::TimedOut(_) | Fault::TooLong(_)) => return Ok(None),
            Err(fault) => return Err(self.ended(fault)),
        }
        let mut written = Vec::new();
        for (output, far) in windows.outputs().iter().zip(self.problem.outputs()) {
            let read = device.read_parts(work.buffers[&far.name], &windows_of(output, &far));
            written.extend(read.map_err(|fault| self.ended(fault))?);
        }
        Ok(Some(written))
    }

    /// Allocates the buffers, and fills their windows.
    fn allocate(
        &self,
        device: &mut dyn Model,
        windows: &Problem<'_>,
        values: &[Vec<f32>],
        own: &mut Vec<Buffer>,
    ) -> Result<HashMap<String, Buffer>, Fault> {
        let mut buffers = HashMap::new();
        let mut values = values.iter();
        for (tensor, far) in windows.tensors().iter().zip(self.problem.tensors()) {
            let parts = windows_of(tensor, &far);
            let is_whole = parts.len() == 1;
            let buffer = device.alloc_hollow(far.bytes(), if is_whole { far.bytes() } else { parts[0].len() })?;
            own.push(buffer);
            let bytes = if tensor.role.is_read() {
                values.next().map(|values| inputs::encode(values, tensor.dtype))
            } else {
                None
            };
            let mut rest = bytes.as_deref();
            for part in parts {
                match rest {
                    Some(bytes) => {
                        let (first, others) = bytes.split_at(part.len());
                        device.write_part(buffer, part.start, first)?;
                        rest = Some(others);
                    }
                    None => device.poison_part(buffer, part)?,
                }
            }
            buffers.insert(far.name, buffer);
        }
        for Workspace { name, bytes, initial } in &self.far.planned.plan.workspaces {
            let window = if *bytes > WHOLE_WORKSPACE_BYTES { WORKSPACE_WINDOW_BYTES } else { *bytes };
            let buffer = device.alloc_hollow((*bytes).max(1), window)?;
            own.push(buffer);
            buffers.insert(name.clone(), buffer);
            if *initial == Initial::Undefined && window == *bytes {
                device.poison_part(buffer, 0..*bytes)?;
            }
        }
        Ok(buffers)
    }

    /// Compares what was written in the windows with the oracle. Returns whether anything was.
    fn compare(&self, windows: &Problem<'_>, values: &[Vec<f32>], written: &[u8]) -> Result<bool, Ended> {
        let outputs = Outputs::of(windows.op, windows.dims, windows.dtype);
        let of_row = |row: usize| -> (&Output, &[u8]) {
            let (_, output) = outputs.of_row(row);
            (output, output.bytes_of(row, written))
        };
        let is_written = |row: &usize| of_row(*row).1.iter().any(is_other);
        let all: Vec<usize> = (0..outputs.rows()).filter(is_written).collect();
        let mut rng = SmallRng::seed_from_u64(self.seed);
        let chosen = sample(&mut rng, all.len(), ROWS.min(all.len()));
        let mut rows: Vec<usize> = chosen.into_iter().map(|place| all[place]).collect();
        rows.extend(all.first().into_iter().chain(all.last()));
        rows.sort_unstable();
        rows.dedup();
        if rows.is_empty() {
            return Ok(false);
        }
        let oracle = windows.op.oracle(windows.dims, values, &rows).map_err(Ended::Oracle)?;
        let mut oracle = &oracle[..];
        for row in rows {
            let (output, bytes) = of_row(row);
            let (expected, rest) = oracle.split_at(output.row_len);
            oracle = rest;
            let error = error_of([bytes, &vec![POISON; bytes.len()]], expected, output);
            // Written so that a NaN fails.
            let within = error <= PART_OF_A_ROW * self.tolerance.worst_row;
            if !within {
                let message = format!(
                    "relative error {error:.2e} in a row at the {} of the output, of which only the first and the last blocks \
                     were executed: {HINT}",
                    if (row - output.rows.start) * 2 < output.rows.len() { "beginning" } else { "end" }
                );
                return Err(self.wrong(Check::Accuracy, message));
            }
        }
        Ok(true)
    }

    fn wrong(&self, check: Check, message: String) -> Ended {
        Ended::Outcome(Outcome::Wrong { case: self.far.planned.case.name.clone(), check, message })
    }

    fn ended(&self, fault: Fault) -> Ended {
        let fault = match fault {
            Fault::Crashed { message, line } => Fault::Crashed { message: format!("{message}: {HINT}"), line },
            other => other,
        };
        ended(&self.far.planned.case.name, fault)
    }
}

/// Returns whether anything is written in the first and in the last window of the outputs.
fn ends_written(windows: &Problem<'_>, written: &[u8]) -> [bool; 2] {
    let mut ends = [false; 2];
    for output in Outputs::of(windows.op, windows.dims, windows.dtype).iter() {
        let bytes = &written[output.bytes.clone()];
        let (first, last) = bytes.split_at(bytes.len() / 2);
        ends = [ends[0] || first.iter().any(is_other), ends[1] || last.iter().any(is_other)];
    }
    ends
}

/// Returns whether an oracle gave the same numbers twice, but for rounding.
fn are_alike(dtype: Dtype, a: &[f64], b: &[f64]) -> bool {
    let most = a.iter().map(|x| dtype.number(*x).abs()).fold(0.0, f64::max);
    let is_like = |(a, b): (&f64, &f64)| {
        let is_near = !dtype.is_integer() && (a - b).abs() <= ORACLE_ROUNDING * most;
        is_near || dtype.is_same(*a, *b) || a.is_nan() && b.is_nan()
    };
    a.iter().zip(b).all(is_like)
}

/// Returns whether a byte is not poison.
fn is_other(byte: &u8) -> bool {
    *byte != POISON
}

/// Returns which bytes of a far tensor are in the windows: all of them, or as many at either end as the tensor of the windows
/// has together.
fn windows_of(windows: &TensorSpec, far: &TensorSpec) -> Vec<Range<usize>> {
    if windows.bytes() == far.bytes() {
        return std::iter::once(0..far.bytes()).collect();
    }
    let half = windows.bytes() / 2;
    vec![0..half, far.bytes() - half..far.bytes()]
}
