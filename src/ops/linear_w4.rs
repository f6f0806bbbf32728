//! Linear layers with weights of 4 bits: `y = x wᵀ`, where w is dequantised on the way.

mod probes;

use numerics::matmul;
use rayon::prelude::*;

use super::product;
use crate::domain::op::{
    Axis, CheckLimits, DimDefault, DimSpec, Dims, Dtype, FarShape, Op, OptionalDim, Probe, TensorRole, TensorSpec,
    Values,
};
use crate::error::{Error, error};

/// The product of `x[M,K]` and weights of 4 bits into `y[M,N]`, as weight-only quantisation of language models has it (W4A16).
///
/// The weight of term k and column n is `(q - zeros[k / GROUP, n]) * scales[k / GROUP, n]`, with whole numbers q from 0 to 15.
/// `w[K / 2, N]` has two of them in a byte: that of the even k in the lower half. Scales and zero points have the dtype of x.
/// Zero points need not be whole.
///
/// `LAYOUT` = 1 is that of GPTQ (AutoGPTQ, `qweight` and `qzeros`): a word of 32 bits has the numbers of eight terms of a column, the
/// first in its lowest bits, so w is `[K / 8, N, 4]` in bytes. Zero points have 4 bits, too, those of eight columns in a word, and are
/// one more than these bits say.
pub struct LinearW4;

const DIMS: [DimSpec; 3] = [
    DimSpec { name: "M", about: "the rows of x and y", range: (1, 1 << 20) },
    DimSpec { name: "N", about: "the columns of w and y", range: (1, 1 << 20) },
    DimSpec { name: "K", about: "the columns of x, which are summed over: a multiple of GROUP", range: (2, 1 << 20) },
];

const OPTIONAL_DIMS: [OptionalDim; 2] = [
    OptionalDim {
        dim: DimSpec { name: "GROUP", about: "the terms that share a scale and a zero point", range: (2, 1 << 20) },
        default: DimDefault::Fixed(128),
    },
    OptionalDim {
        dim: DimSpec { name: "LAYOUT", about: "1 for weights and zero points as in GPTQ", range: (0, 1) },
        default: DimDefault::Fixed(0),
    },
];

/// Columns that the oracle computes together. Their weights stay in the cache.
const BLOCK_COLUMNS: usize = 16;

/// How much further than rounding each weight to the dtype a kernel may be off: it may round `q - zero`, and then the product.
const ROUNDINGS: f64 = 2.0;

/// The dimensions of a case as fields.
struct Shape {
    n: usize,
    k: usize,
    group: usize,
    is_gptq: bool,
}

impl Shape {
    fn of(dims: &Dims) -> Self {
        let at = |name: &str| usize::try_from(dims[name]).expect("validated with the workload");
        let group = usize::try_from(group(dims)).expect("validated with the workload");
        Self { n: at("N"), k: at("K"), group, is_gptq: dims.contains_key("LAYOUT") }
    }
}

/// Returns the terms that share a scale.
fn group(dims: &Dims) -> i64 {
    dims.get("GROUP").copied().unwrap_or(128)
}

/// Makes the terms of a sum a multiple of a group, at least one, and the columns whole words where they must be.
fn in_groups(mut dims: Dims) -> Dims {
    let group = group(&dims);
    dims["K"] = (dims["K"] / group).max(1) * group;
    if dims.contains_key("LAYOUT") {
        dims["N"] = (dims["N"] + 7) / 8 * 8;
    }
    dims
}

impl Op for LinearW4 {
    fn name(&self) -> &'static str {
        "linear-w4"
    }

    fn dims(&self) -> &'static [DimSpec] {
        &DIMS
    }

    fn optional_dims(&self) -> &'static [OptionalDim] {
        &OPTIONAL_DIMS
    }

    fn dtypes(&self) -> &'static [Dtype] {
        &[Dtype::F16, Dtype::Bf16]
    }

    fn check(&self, dims: &Dims) -> Result<(), Error> {
        let most = [("M", "K"), ("K", "N"), ("M", "N")].map(|(rows, columns)| dims[rows].saturating_mul(dims[columns]));
        if most.into_iter().any(|elements| elements > i64::from(i32::MAX)) {
            return Err(Error::new("a tensor has more than 2^31 elements; reduce M, N or K"));
        }
        let group = group(dims);
        if group % 2 > 0 || dims["K"] % group > 0 {
            return Err(error!("K must be a multiple of GROUP ({group}), and GROUP must be even"));
        }
        if dims.contains_key("LAYOUT") && (group % 8 > 0 || dims["N"] % 8 > 0) {
            return Err(error!("with LAYOUT = 1, N and GROUP ({group}) must be multiples of 8"));
        }
        Ok(())
    }

    fn tensors(&self, dims: &Dims, dtype: Dtype) -> Vec<TensorSpec> {
        let at = |name: &str| usize::try_from(dims[name]).expect("validated with the workload");
        let Shape { n, k, group, is_gptq } = Shape::of(dims);
        let (m, groups) = (at("M"), k / group);
        let tensor = |name: &str, dtype: Dtype, shape: &[usize], role: TensorRole, values: Values| TensorSpec {
            name: name.to_owned(),
            dtype,
            shape: shape.to_vec(),
            role,
            values,
        };
        // Sums of about one, as in models: the numbers of 4 bits have a deviation of 4.6.
        let of_weight = 1.0 / (4.6 * (k as f32).sqrt());
        let input = TensorRole::Input;
        let bytes = Values::Integers(0, 255);
        let (w, zeros) = if is_gptq {
            let zeros = tensor("zeros", Dtype::U8, &[groups, n / 8, 4], input, bytes);
            (tensor("w", Dtype::U8, &[k / 8, n, 4], input, bytes), zeros)
        } else {
            let zeros = tensor("zeros", dtype, &[groups, n], input, Values::Uniform(4.0, 11.0));
            (tensor("w", Dtype::U8, &[k / 2, n], input, bytes), zeros)
        };
        vec![
            tensor("x", dtype, &[m, k], input, Values::Normal),
            w,
            tensor("scales", dtype, &[groups, n], input, Values::Uniform(0.5 * of_weight, 1.5 * of_weight)),
            zeros,
            tensor("y", dtype, &[m, n], TensorRole::Output, Values::Normal),
        ]
    }

    fn weights(&self) -> &'static [&'static str] {
        &["w", "scales", "zeros"]
    }

    fn torch(&self, optional: &[&str]) -> Option<String> {
        let (mut numbers, mut zeros) =
            ("torch.stack((w & 15, w >> 4), dim=1).reshape(K, N)".to_owned(), "zeros".to_owned());
        if optional.contains(&"LAYOUT") {
            let gptq = "torch.stack((w & 15, w >> 4), dim=3).permute(0, 2, 3, 1).reshape(K, N)";
            numbers = format!("({gptq} if LAYOUT else {numbers})");
            zeros = "(torch.stack((zeros & 15, zeros >> 4), dim=3).reshape(-1, N) + 1 if LAYOUT else zeros)".to_owned();
        }
        let spread = |of: &str| format!("{of}.float().repeat_interleave(K // scales.shape[0], dim=0)");
        let weights = format!("(({numbers}.float() - {}) * {})", spread(&zeros), spread("scales"));
        Some(format!("(x.float() @ {weights}).to(x.dtype)"))
    }

    fn scalars(&self, _dims: &Dims) -> Vec<(&'static str, f64)> {
        Vec::new()
    }

    /// Counts the products, and not what dequantises the weights.
    fn flop(&self, dims: &Dims) -> f64 {
        ["M", "N", "K"].iter().map(|name| dims[*name] as f64).product::<f64>() * 2.0
    }

    fn scaled(&self, dims: &Dims) -> Vec<Dims> {
        product::scaled(dims).into_iter().map(in_groups).filter(|scaled| scaled != dims).collect()
    }

    fn resized(&self, dims: &Dims, axis: Axis, factor: f64) -> Option<Dims> {
        product::resized(dims, axis, factor).map(in_groups).filter(|resized| resized != dims)
    }

    fn probes(&self) -> &'static [Probe] {
        &probes::PROBES
    }

    fn hidden(&self, dims: &Dims, least: CheckLimits, seed: u64) -> Vec<Dims> {
        let mut all: Vec<Dims> = product::hidden(self, dims, least, seed).into_iter().map(in_groups).collect();
        all.retain(|other| other != dims);
        all
    }

    fn far(&self, dims: &Dims, dtype: Dtype) -> Option<FarShape> {
        let far = product::far(self, dims, dtype)?;
        (far.dims["K"] % group(dims) == 0).then_some(far)
    }

    /// A kernel may round each weight to the dtype before it multiplies, as PyTorch does.
    fn intermediate_rounding(&self, dims: &Dims, dtype: Dtype, inputs: &[Vec<f32>], rows: &[usize]) -> Vec<f64> {
        let off = values(dims, inputs, rows, |weight| f64::from(dtype.rounded(weight as f32)) - weight);
        let of_row = |row: &[f64]| {
            let off = ROUNDINGS * row.iter().map(|off| off * off).sum::<f64>().sqrt();
            // Nothing is allowed where NaN or infinity is expected.
            if off.is_finite() { off } else { 0.0 }
        };
        off.chunks_exact(Shape::of(dims).n).map(of_row).collect()
    }

    fn oracle(&self, dims: &Dims, inputs: &[Vec<f32>], rows: &[usize]) -> Result<Vec<f64>, Error> {
        Ok(values(dims, inputs, rows, |weight| weight))
    }
}

/// Returns values for some rows of the output, with a function of each weight in its place.
fn values(dims: &Dims, inputs: &[Vec<f32>], rows: &[usize], of: impl Fn(f64) -> f64 + Sync) -> Vec<f64> {
    let Shape { n, k, .. } = Shape::of(dims);
    let x = &inputs[0];
    let block = |first: usize| -> Vec<Vec<f64>> {
        let columns = first..n.min(first + BLOCK_COLUMNS);
        let weights: Vec<Vec<f64>> = columns.map(|column| column_of_weights(dims, inputs, column, &of)).collect();
        let sums = |row: &usize| weights.iter().map(|w| matmul::dot_of_rows(&x[row * k..][..k], w)).collect();
        rows.iter().map(sums).collect()
    };
    let blocks: Vec<Vec<Vec<f64>>> = (0..n).into_par_iter().step_by(BLOCK_COLUMNS).map(block).collect();
    (0..rows.len()).flat_map(|row| blocks.iter().flat_map(move |block| block[row].iter().copied())).collect()
}

/// Returns the weights of a column, one for each term.
fn column_of_weights(dims: &Dims, inputs: &[Vec<f32>], column: usize, of: &impl Fn(f64) -> f64) -> Vec<f64> {
    let Shape { n, k, group, is_gptq } = Shape::of(dims);
    let [_, w, scales, zeros] = inputs else { panic!("linear-w4 has four inputs, not {}", inputs.len()) };
    let weight = |term: usize| {
        let of_group = term / group * n + column;
        let byte = if is_gptq { (term / 8 * n + column) * 4 + term % 8 / 2 } else { term / 2 * n + column };
        let q = half_of(w[byte], term);
        let zero =
            if is_gptq { f64::from(half_of(zeros[of_group / 2], column) + 1) } else { f64::from(zeros[of_group]) };
        of((f64::from(q) - zero) * f64::from(scales[of_group]))
    };
    (0..k).map(weight).collect()
}

/// Returns the lower half of a byte for even places, and the upper one for odd ones.
fn half_of(byte: f32, place: usize) -> u8 {
    byte as u8 >> (place % 2 * 4) & 15
}

#[cfg(test)]
mod tests;
