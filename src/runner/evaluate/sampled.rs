//! Checks a sample of a case's blocks: whether they do the case's work, and whether their output is right.
//!
//! A case that is too large to execute is checked on a scaled one. A kernel may still behave differently on the case
//! itself, and skip heads that the scaled case does not have. The sample that is executed for its counts reveals this.
//! Its floating-point operations, extrapolated, must cover the case. It must write as many elements as its share of the
//! blocks should write, and they must be right.

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::index::sample;
use rayon::prelude::*;

use super::Ended;
use super::setup::Setup;
use crate::domain::code::profile::{LaunchProfile, Profile};
use crate::domain::measurement::check::Check;
use crate::domain::op::{Dtype, TensorRole, TensorSpec};
use crate::runner::device::Device;
use crate::runner::inputs;
use crate::runner::outputs::{Output, Outputs, POISON};

/// The least share of the case's floating-point work that a kernel does, by extrapolation from the sample.
const MIN_WORK_SHARE: f64 = 0.6;

/// The least share of the output that a sample writes, relative to its share of the blocks. The last blocks of a grid
/// may have less to do.
const MIN_WRITTEN_SHARE: f64 = 0.6;

/// Rows to compare at random places. The smallest cases that are sampled have hundreds.
const ROWS: usize = 16;

/// Rows to compare at the beginning and at the end of what was written of each output.
const ROWS_AT_ENDS: usize = 2;

/// How much more than in a whole row the error may be in the written part of one.
pub(super) const PART_OF_A_ROW: f64 = 2.0;

/// Checks the work of the sampled blocks on inputs with these values, and records in the profile how many rows were
/// compared.
pub(super) fn check(
    setup: &Setup<'_>,
    device: &mut dyn Device,
    values: &[Vec<f32>],
    profile: &mut Profile,
) -> Result<(), Ended> {
    check_work(setup, profile)?;
    // A device that models its times has only the first set.
    let output = setup.sets.output(device, &setup.problem, 0).map_err(|fault| setup.ended(fault))?;
    let before = before(setup, values);
    check_written(setup, (&output, &before), values, profile)?;
    let earlier = profile.launches.split_last().map_or(&[][..], |(_, earlier)| earlier);
    // The last launch of several may read what blocks outside of the sample would have written.
    if earlier.iter().all(|launch| launch.executed_blocks == launch.blocks) {
        let rows = compare(setup, (&output, &before), values)?;
        if let Some(last) = profile.launches.last_mut() {
            last.rows_compared = Some(rows);
        }
    }
    Ok(())
}

fn check_work(setup: &Setup<'_>, profile: &Profile) -> Result<(), Ended> {
    let needed = setup.problem.op.flop(setup.problem.dims);
    // An op that only moves data has nothing to count here.
    if needed == 0.0 {
        return Ok(());
    }
    let done: f64 = profile.launches.iter().map(|launch| launch.flop as f64 / share(launch)).sum();
    let work = done / needed;
    if work >= MIN_WORK_SHARE {
        return Ok(());
    }
    let message = format!(
        "the executed sample of its blocks does {:.0}% of the case's floating-point operations; at least {:.0}% are \
         needed",
        100.0 * work,
        100.0 * MIN_WORK_SHARE
    );
    Err(setup.cheated(Check::Floor, message))
}

/// Returns the bytes of the outputs before the execution: poison, or the initial values of what is updated in place.
fn before(setup: &Setup<'_>, values: &[Vec<f32>]) -> Vec<u8> {
    let (inputs, outputs) = (setup.problem.inputs(), setup.problem.outputs());
    let of_output = |output: TensorSpec| match inputs.iter().position(|input| input.name == output.name) {
        Some(place) => inputs::encode(&values[place], output.dtype),
        None => vec![POISON; output.bytes()],
    };
    outputs.into_iter().flat_map(of_output).collect()
}

/// Returns which share of the elements of an output the oracle changes, from some of its rows.
fn changed_share(setup: &Setup<'_>, of: &Output, before: &[u8], values: &[Vec<f32>]) -> Result<f64, Ended> {
    let problem = setup.problem;
    let mut rng = SmallRng::seed_from_u64(setup.seed);
    let mut rows = sample(&mut rng, of.rows.len(), ROWS.min(of.rows.len())).into_vec();
    rows.sort_unstable();
    rows.iter_mut().for_each(|row| *row += of.rows.start);
    let oracle = problem.op.oracle(problem.dims, values, &rows).map_err(Ended::Oracle)?;
    let was: Vec<f64> = rows.iter().flat_map(|row| of.values_of(*row, before)).collect();
    let is_other = |(after, before): &(&f64, &f64)| match of.dtype.is_integer() {
        true => !of.dtype.is_same(**after, **before),
        false => f64::from(of.dtype.rounded(**after as f32)) != **before,
    };
    Ok(oracle.iter().zip(&was).filter(is_other).count() as f64 / was.len().max(1) as f64)
}

fn check_written(
    setup: &Setup<'_>,
    (output, before): (&[u8], &[u8]),
    values: &[Vec<f32>],
    profile: &Profile,
) -> Result<(), Ended> {
    // If the last block to arrive writes the output, a sample may write nothing.
    if profile.launches.iter().any(|launch| launch.atomics > 0) {
        return Ok(());
    }
    let executed = profile.launches.iter().map(share).fold(1.0, f64::min);
    let outputs = outputs(setup);
    let written_share = |of: &Output| {
        let size = of.dtype.bytes();
        let elements = |bytes| <[u8]>::par_chunks_exact(bytes, size);
        let pairs = elements(&output[of.bytes.clone()]).zip(elements(&before[of.bytes.clone()]));
        let written = pairs.with_min_len(4096).filter(|(after, before)| after != before).count();
        written as f64 / (of.bytes.len() / size) as f64
    };
    let mut written = 1.0_f64;
    for (of, tensor) in outputs.iter().zip(setup.problem.outputs()) {
        // What is updated in place may keep some of its values, and whole numbers may have the bytes of what was not
        // written.
        let most = match tensor.role {
            TensorRole::InPlace => changed_share(setup, of, before, values)?,
            _ if of.dtype.is_integer() => continue,
            _ => 1.0,
        };
        if most > 0.0 {
            written = written.min(written_share(of) / most);
        }
    }
    if written >= MIN_WRITTEN_SHARE * executed {
        return Ok(());
    }
    let message = format!(
        "{:.1}% of its blocks were executed, and they wrote {:.1}% of the output; at least {:.1}% are needed",
        100.0 * executed,
        100.0 * written,
        100.0 * MIN_WRITTEN_SHARE * executed
    );
    Err(setup.wrong(Check::Written, message))
}

/// Compares the written elements of some rows with the oracle. Returns the number of rows.
fn compare(setup: &Setup<'_>, (output, before): (&[u8], &[u8]), values: &[Vec<f32>]) -> Result<usize, Ended> {
    let problem = setup.problem;
    let outputs = outputs(setup);
    let is_touched = |row: &usize| {
        let (_, of) = outputs.of_row(*row);
        of.bytes_of(*row, output) != of.bytes_of(*row, before)
    };
    let touched: Vec<usize> = (0..outputs.rows()).into_par_iter().filter(is_touched).collect();
    let mut rng = SmallRng::seed_from_u64(setup.seed);
    let chosen = sample(&mut rng, touched.len(), ROWS.min(touched.len()));
    let mut rows: Vec<usize> = chosen.into_iter().map(|place| touched[place]).collect();
    for touched in touched.chunk_by(|a, b| outputs.of_row(*a).0 == outputs.of_row(*b).0) {
        rows.extend(touched.iter().take(ROWS_AT_ENDS).chain(touched.iter().rev().take(ROWS_AT_ENDS)));
    }
    rows.sort_unstable();
    rows.dedup();
    let oracle = problem.op.oracle(problem.dims, values, &rows).map_err(Ended::Oracle)?;
    let mut oracle = &oracle[..];
    for &row in &rows {
        let (_, of) = outputs.of_row(row);
        let (expected, rest) = oracle.split_at(of.row_len);
        oracle = rest;
        let error = error_of([output, before].map(|bytes| of.bytes_of(row, bytes)), expected, of);
        // Whole numbers that are computed from whole numbers must be equal.
        let is_exact = of.dtype.is_integer() && problem.inputs().iter().all(|input| input.dtype.is_integer());
        let most = if is_exact { 0.0 } else { PART_OF_A_ROW * setup.tolerance.worst_row };
        // Written so that a NaN fails.
        let within = error <= most;
        if !within {
            let message = format!(
                "on the case itself, relative error {error:.2e} in row {row}, in what a sample of its blocks wrote \
                 (tolerance {most:.0e})"
            );
            return Err(setup.wrong(Check::Accuracy, message));
        }
    }
    Ok(rows.len())
}

/// Returns the error of the written elements of a row, relative to as many typical ones.
pub(super) fn error_of([row, before]: [&[u8]; 2], oracle: &[f64], output: &Output) -> f64 {
    let dtype = output.dtype;
    let values = dtype.decode_exactly(row);
    let typical = output.squared_scale(oracle.iter().map(|it| dtype.number(*it))) / oracle.len() as f64;
    let bytes = row.chunks_exact(dtype.bytes()).zip(before.chunks_exact(dtype.bytes()));
    let (mut squared, mut count) = (0.0, 0);
    for (_, (value, oracle)) in bytes.zip(values.iter().zip(oracle)).filter(|((after, before), _)| after != before) {
        let difference = (dtype.number(*value) - dtype.number(*oracle)).abs();
        // Integers beyond 2^53 differ by one at least, too.
        let is_other = dtype == Dtype::I64 && !dtype.is_same(*value, *oracle);
        squared += if is_other { difference.max(1.0) } else { difference }.powi(2);
        count += 1;
    }
    if squared == 0.0 { 0.0 } else { (squared / (typical * f64::from(count))).sqrt() }
}

fn outputs(setup: &Setup<'_>) -> Outputs {
    Outputs::of(setup.problem.op, setup.problem.dims, setup.problem.dtype)
}

fn share(launch: &LaunchProfile) -> f64 {
    launch.executed_blocks as f64 / launch.blocks.max(1) as f64
}
