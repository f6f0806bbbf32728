//! Linear layers: `y = x wᵀ`, with scales, a bias, an activation and a residual.

mod epilogue;
mod probes;
mod torch;

use numerics::matmul;
use rayon::prelude::*;

use self::epilogue::Epilogue;
pub(super) use self::epilogue::activated;
use super::product::{self, Matrices, Product};
use crate::domain::op::{
    Axis, CheckLimits, DimDefault, DimSpec, Dims, Dtype, FarShape, Op, OptionalDim, Probe, Probed, TensorRole,
    TensorSpec, Values,
};
use crate::error::Error;

/// The product of `x[M,K]` and the transpose of `w[N,K]` into `y[M,N]`, as `torch.nn.functional.linear` computes it: the weights
/// of a model have the terms of a sum in a row.
///
/// What follows the product, in this order: each sum times `x_scale` and `w_scale` (`XSCALE`, `WSCALE`: 1 for one number, 2 for
/// one for each row of x or of w), plus `bias[N]` (`BIAS`), an activation (`ACTIVATION`: 1 for GELU, 2 for GELU by tanh, 3 for
/// SiLU), plus `residual[M,N]` (`RESIDUAL`). With `GATED` = 1, w is `[2,N,K]`: y is the activation of the first product times the
/// second, as in SwiGLU.
///
/// Outputs of 8-bit inputs, bias and residual are BF16, and otherwise as x. Scales are F32.
pub struct Linear;

const DIMS: [DimSpec; 3] = [
    DimSpec { name: "M", about: "the rows of x and y", range: (1, 1 << 20) },
    DimSpec { name: "N", about: "the rows of w and columns of y", range: (1, 1 << 20) },
    DimSpec { name: "K", about: "the columns of x and w, which are summed over", range: (1, 1 << 20) },
];

const fn flag(name: &'static str, about: &'static str, most: i64) -> OptionalDim {
    OptionalDim { dim: DimSpec { name, about, range: (0, most) }, default: DimDefault::Fixed(0) }
}

const OPTIONAL_DIMS: [OptionalDim; 6] = [
    flag("XSCALE", "the scales of x: 1 for one number, 2 for one for each row (0: none)", 2),
    flag("WSCALE", "the scales of w: 1 for one number, 2 for one for each row (0: none)", 2),
    flag("BIAS", "1 for a bias, a number for each column of y", 1),
    flag("ACTIVATION", "the activation: 1 for GELU, 2 for GELU by tanh, 3 for SiLU (0: none)", 3),
    flag("GATED", "1 for two products, the activation of the first times the second, as in SwiGLU", 1),
    flag("RESIDUAL", "1 for a matrix that is added to y", 1),
];

/// Rows that the oracle computes together, and columns. Their parts of x and w stay in the cache.
const BLOCK_ROWS: usize = 32;
const BLOCK_COLUMNS: usize = 64;

/// The part of an activation's input by which it may be off: a few roundings of FP32.
const LOST_OF_ACTIVATION: f64 = 1.0 / (1 << 22) as f64;

/// The dimensions of a case as fields.
struct Shape {
    n: usize,
    k: usize,
    /// Products of a case: 2 if it is gated.
    products: usize,
}

impl Shape {
    fn of(dims: &Dims) -> Self {
        let at = |name: &str| usize::try_from(dims[name]).expect("validated with the workload");
        Self { n: at("N"), k: at("K"), products: products(dims) }
    }
}

fn products(dims: &Dims) -> usize {
    1 + usize::from(dims.contains_key("GATED"))
}

/// Returns the element type of the output, bias and residual.
fn wide(dtype: Dtype) -> Dtype {
    if dtype.bytes() == 1 { Dtype::Bf16 } else { dtype }
}

impl Op for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn dims(&self) -> &'static [DimSpec] {
        &DIMS
    }

    fn optional_dims(&self) -> &'static [OptionalDim] {
        &OPTIONAL_DIMS
    }

    fn dtypes(&self) -> &'static [Dtype] {
        &[Dtype::F16, Dtype::Bf16, Dtype::F32, Dtype::E4m3]
    }

    fn check(&self, dims: &Dims) -> Result<(), Error> {
        let of_w = dims["K"].saturating_mul(products(dims) as i64);
        let most = [("M", dims["K"]), ("N", of_w), ("M", dims["N"])];
        if most.into_iter().any(|(rows, columns)| dims[rows].saturating_mul(columns) > i64::from(i32::MAX)) {
            return Err(Error::new("a tensor has more than 2^31 elements; reduce M, N or K"));
        }
        Ok(())
    }

    fn tensors(&self, dims: &Dims, dtype: Dtype) -> Vec<TensorSpec> {
        let at = |name: &str| usize::try_from(dims[name]).expect("validated with the workload");
        let (m, n, k, products, out) = (at("M"), at("N"), at("K"), products(dims), wide(dtype));
        // Sums of about one, as in models: an activation is not the same on all of them.
        let of_weight = 1.0 / (k as f32).sqrt();
        let input = |name: &str, dtype: Dtype, shape: &[usize], values: Values| TensorSpec {
            name: name.to_owned(),
            dtype,
            shape: shape.to_vec(),
            role: TensorRole::Input,
            values,
        };
        let of_all = |rows: &[usize]| if products == 2 { [&[2], rows].concat() } else { rows.to_vec() };
        let scales = |flag: &str, name: &str, rows: &[usize], about: f32| {
            let values = Values::Uniform(0.5 * about, 1.5 * about);
            dims.get(flag).map(|kind| input(name, Dtype::F32, if *kind == 2 { rows } else { &[1] }, values))
        };
        // The numbers of 8-bit weights fill their range; their scales make them small.
        let is_scaled = dtype.bytes() == 1;
        let of_w = if is_scaled { Values::Normal } else { Values::Scaled(of_weight) };
        let mut all = vec![input("x", dtype, &[m, k], Values::Normal), input("w", dtype, &of_all(&[n, k]), of_w)];
        all.extend(scales("XSCALE", "x_scale", &[m], 1.0));
        all.extend(scales("WSCALE", "w_scale", &of_all(&[n]), if is_scaled { of_weight } else { 1.0 }));
        all.extend(dims.get("BIAS").map(|_| input("bias", out, &of_all(&[n]), Values::Normal)));
        all.extend(dims.get("RESIDUAL").map(|_| input("residual", out, &[m, n], Values::Normal)));
        all.push(TensorSpec { role: TensorRole::Output, ..input("y", out, &[m, n], Values::Normal) });
        all
    }

    fn optional_tensors(&self) -> &'static [&'static str] {
        &["x_scale", "w_scale", "bias", "residual"]
    }

    fn weights(&self) -> &'static [&'static str] {
        &["w", "w_scale", "bias"]
    }

    fn torch(&self, optional: &[&str]) -> Option<String> {
        Some(torch::expression(optional))
    }

    fn scalars(&self, _dims: &Dims) -> Vec<(&'static str, f64)> {
        Vec::new()
    }

    /// Counts the products, and not what follows them.
    fn flop(&self, dims: &Dims) -> f64 {
        ["M", "N", "K"].iter().map(|name| dims[*name] as f64).product::<f64>() * 2.0 * products(dims) as f64
    }

    fn scaled(&self, dims: &Dims) -> Vec<Dims> {
        product::scaled(dims)
    }

    fn resized(&self, dims: &Dims, axis: Axis, factor: f64) -> Option<Dims> {
        product::resized(dims, axis, factor)
    }

    fn probes(&self) -> &'static [Probe] {
        &probes::PROBES
    }

    fn hidden(&self, dims: &Dims, least: CheckLimits, seed: u64) -> Vec<Dims> {
        product::hidden(self, dims, least, seed)
    }

    fn far(&self, dims: &Dims, dtype: Dtype) -> Option<FarShape> {
        product::far(self, dims, dtype)
    }

    /// GELU and SiLU of large negative numbers are the small difference of large ones, or below the smallest number. An
    /// accurate kernel may lose them.
    fn intermediate_rounding(&self, dims: &Dims, _dtype: Dtype, inputs: &[Vec<f32>], rows: &[usize]) -> Vec<f64> {
        if !dims.contains_key("ACTIVATION") {
            return vec![0.0; rows.len()];
        }
        let epilogue = Epilogue::of(dims, inputs);
        let off = values(dims, inputs, rows, &|at, sum, second| {
            LOST_OF_ACTIVATION * epilogue.input_magnitude(at, sum, second)
        });
        let of_row = |row: &[f64]| {
            let off = row.iter().map(|off| off * off).sum::<f64>().sqrt();
            // Nothing is allowed where NaN or infinity is expected.
            if off.is_finite() { off } else { 0.0 }
        };
        off.chunks_exact(Shape::of(dims).n).map(of_row).collect()
    }

    fn oracle(&self, dims: &Dims, inputs: &[Vec<f32>], rows: &[usize]) -> Result<Vec<f64>, Error> {
        let epilogue = Epilogue::of(dims, inputs);
        Ok(values(dims, inputs, rows, &|at, sum, second| epilogue.value(at, sum, second)))
    }
}

/// Computes an element of the output from its row and column, the sum of its products, and that of a gated layer's second product.
type Value<'a> = &'a (dyn Fn((usize, usize), f64, Option<f64>) -> f64 + Sync);

/// Returns values for some rows of the output.
fn values(dims: &Dims, inputs: &[Vec<f32>], rows: &[usize], value: Value<'_>) -> Vec<f64> {
    let Shape { n, k, products } = Shape::of(dims);
    let [x, w, ..] = inputs else { panic!("linear has two inputs at least, not {}", inputs.len()) };
    let mut out = vec![0.0; rows.len() * n];
    out.par_chunks_mut(BLOCK_ROWS * n).zip(rows.par_chunks(BLOCK_ROWS)).for_each(|(out, rows)| {
        let block = |first: usize| -> Vec<f64> {
            let columns = first..n.min(first + BLOCK_COLUMNS);
            let sums = |product: usize| {
                matmul::block_of_rows(x, w, k, rows, columns.start + product * n..columns.end + product * n)
            };
            let sums: Vec<Vec<f64>> = (0..products).map(sums).collect();
            let of_all = rows.iter().flat_map(|row| columns.clone().map(move |column| (*row, column)));
            let at = |(i, place)| value(place, sums[0][i], sums.get(1).map(|sums| sums[i]));
            of_all.enumerate().map(at).collect()
        };
        let blocks: Vec<Vec<f64>> = (0..n).into_par_iter().step_by(BLOCK_COLUMNS).map(block).collect();
        for (i, block) in blocks.iter().enumerate() {
            let (first, width) = (i * BLOCK_COLUMNS, block.len() / rows.len());
            for (out, values) in out.chunks_exact_mut(n).zip(block.chunks_exact(width)) {
                out[first..first + width].copy_from_slice(values);
            }
        }
    });
    out
}

impl Product for Linear {
    /// The rows of w become the columns of the second matrix, and return.
    fn change(dims: &Dims, inputs: &mut [Vec<f32>], change: impl FnOnce(&mut Matrices<'_>) -> Probed) -> Probed {
        let Shape { n, k, products } = Shape::of(dims);
        let n = n * products;
        let [x, w, ..] = inputs else { return Probed::default() };
        let m = x.len() / k;
        let mut b: Vec<f32> = (0..k).flat_map(|i| (0..n).map(move |j| (i, j))).map(|(i, j)| w[j * k + i]).collect();
        let probed = change(&mut Matrices { a: x, b: &mut b, k, n, m });
        w.iter_mut().enumerate().for_each(|(at, x)| *x = b[at % k * n + at / k]);
        probed
    }
}

#[cfg(test)]
mod tests;
