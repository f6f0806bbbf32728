//! Linear layers of experts: each has some rows of x, and weights of its own.

mod probes;

use std::ops::Range;

use numerics::matmul;
use rayon::prelude::*;

use super::linear::activated;
use super::sizes::{self, PERIODS};
use crate::domain::op::{
    Axis, CheckLimits, DimDefault, DimSpec, Dims, Dtype, Op, OptionalDim, Probe, TensorRole, TensorSpec, Values,
    multiplied, runs,
};
use crate::error::{Error, error};

/// The products of the rows of `x[M,K]` and the weights of their experts into `y[M,N]`, as a mixture of experts has them, with the
/// rows in the order of the experts.
///
/// Expert e has the rows from `offsets[e]` to `offsets[e + 1]` of x and y. It may have none. Its weights are `w[e]` of
/// `w[EXPERTS,N,K]` or, with `LAYOUT` = 1, of `w[EXPERTS,K,N]`. An activation follows (`ACTIVATION`: 1 for GELU, 2 for GELU by
/// tanh, 3 for SiLU). With `GATED` = 1, there is a second tensor of weights, `w_up`: y is the activation of the first product
/// times the second, as in SwiGLU.
///
/// The numbers of rows of experts lie at equal distances from `SHORTEST` (0) on, in random order.
pub struct GroupedLinear;

const DIMS: [DimSpec; 4] = [
    DimSpec { name: "M", about: "the rows of x and y, of all experts", range: (1, 1 << 20) },
    DimSpec { name: "N", about: "the columns of y", range: (1, 1 << 20) },
    DimSpec { name: "K", about: "the columns of x, which are summed over", range: (1, 1 << 20) },
    DimSpec { name: "EXPERTS", about: "the experts, each with weights of its own", range: (1, 1 << 12) },
];

const fn optional(name: &'static str, about: &'static str, most: i64) -> OptionalDim {
    OptionalDim { dim: DimSpec { name, about, range: (0, most) }, default: DimDefault::Fixed(0) }
}

const OPTIONAL_DIMS: [OptionalDim; 4] = [
    optional("LAYOUT", "1 for weights w[EXPERTS,K,N] instead of w[EXPERTS,N,K]", 1),
    optional("ACTIVATION", "the activation: 1 for GELU, 2 for GELU by tanh, 3 for SiLU (0: none)", 3),
    optional("GATED", "1 for two products, the activation of the first times the second, as in SwiGLU", 1),
    optional("SHORTEST", "the fewest rows of an expert", 1 << 20),
];

/// Rows that the oracle computes together, and columns. Their parts of x and w stay in the cache.
const BLOCK_ROWS: usize = 32;
const BLOCK_COLUMNS: usize = 64;

/// The part of an activation's input by which it may be off: a few roundings of FP32.
const LOST_OF_ACTIVATION: f64 = 1.0 / (1 << 22) as f64;

/// The most rows, columns, terms and experts of a hidden shape.
const MAX_HIDDEN: [(&str, i64); 4] = [("M", 700), ("N", 520), ("K", 520), ("EXPERTS", 40)];

/// The dimensions of a case as fields.
struct Shape {
    m: usize,
    n: usize,
    k: usize,
    experts: usize,
    /// Weights have the terms of a sum beside each other, and not the columns.
    has_terms_in_rows: bool,
    activation: i64,
}

impl Shape {
    fn of(dims: &Dims) -> Self {
        let at = |name: &str| usize::try_from(dims[name]).expect("validated with the workload");
        Self {
            m: at("M"),
            n: at("N"),
            k: at("K"),
            experts: at("EXPERTS"),
            has_terms_in_rows: !dims.contains_key("LAYOUT"),
            activation: dims.get("ACTIVATION").copied().unwrap_or(0),
        }
    }

    /// Returns where the weight of an expert's column and term lies.
    fn place(&self, expert: usize, column: usize, term: usize) -> usize {
        if self.has_terms_in_rows {
            (expert * self.n + column) * self.k + term
        } else {
            (expert * self.k + term) * self.n + column
        }
    }

    /// Returns the products of rows of x and columns of an expert's weights, one row after the other.
    fn block(&self, x: &[f32], w: &[f32], expert: usize, rows: &[usize], columns: Range<usize>) -> Vec<f64> {
        let w = &w[expert * self.n * self.k..][..self.n * self.k];
        if self.has_terms_in_rows {
            matmul::block_of_rows(x, w, self.k, rows, columns)
        } else {
            matmul::block(x, w, (self.n, self.k), rows, columns)
        }
    }
}

fn shortest(dims: &Dims) -> i64 {
    dims.get("SHORTEST").copied().unwrap_or(0)
}

fn products(dims: &Dims) -> usize {
    1 + usize::from(dims.contains_key("GATED"))
}

impl Op for GroupedLinear {
    fn name(&self) -> &'static str {
        "grouped-linear"
    }

    fn dims(&self) -> &'static [DimSpec] {
        &DIMS
    }

    fn optional_dims(&self) -> &'static [OptionalDim] {
        &OPTIONAL_DIMS
    }

    fn check(&self, dims: &Dims) -> Result<(), Error> {
        let of_w = dims["K"].saturating_mul(dims["EXPERTS"]);
        let most = [("M", dims["K"]), ("N", of_w), ("M", dims["N"])];
        if most.into_iter().any(|(rows, columns)| dims[rows].saturating_mul(columns) > i64::from(i32::MAX)) {
            return Err(Error::new("a tensor has more than 2^31 elements; reduce M, N, K or EXPERTS"));
        }
        let (shortest, experts, rows) = (shortest(dims), dims["EXPERTS"], dims["M"]);
        if shortest.saturating_mul(experts) > rows {
            return Err(error!("{experts} experts with SHORTEST = {shortest} rows have more than M = {rows}"));
        }
        Ok(())
    }

    fn tensors(&self, dims: &Dims, dtype: Dtype) -> Vec<TensorSpec> {
        let Shape { m, n, k, experts, has_terms_in_rows, .. } = Shape::of(dims);
        let tensor = |name: &str, dtype: Dtype, shape: &[usize], role: TensorRole, values: Values| TensorSpec {
            name: name.to_owned(),
            dtype,
            shape: shape.to_vec(),
            role,
            values,
        };
        // Sums of about one, as in models: an activation is not the same on all of them.
        let of_w = Values::Scaled(1.0 / (k as f32).sqrt());
        let weights = if has_terms_in_rows { [experts, n, k] } else { [experts, k, n] };
        let borders = Values::Borders(shortest(dims), dims["M"]);
        let input = TensorRole::Input;
        let mut all = vec![
            tensor("x", dtype, &[m, k], input, Values::Normal),
            tensor("offsets", Dtype::I32, &[experts + 1], input, borders),
            tensor("w", dtype, &weights, input, of_w),
        ];
        all.extend((products(dims) == 2).then(|| tensor("w_up", dtype, &weights, input, of_w)));
        all.push(tensor("y", dtype, &[m, n], TensorRole::Output, Values::Normal));
        all
    }

    fn optional_tensors(&self) -> &'static [&'static str] {
        &["w_up"]
    }

    fn weights(&self) -> &'static [&'static str] {
        &["w", "w_up"]
    }

    fn torch(&self, optional: &[&str]) -> Option<String> {
        let has = |name: &str| optional.contains(&name);
        let layout = if has("LAYOUT") { "(lambda v: v if LAYOUT else v.t())" } else { "(lambda v: v.t())" };
        let product = |of: &str| format!("x[begin:end].float() @ {layout}({of}[e]).float()");
        let activation =
            "{0: lambda y: y, 1: F.gelu, 2: lambda y: F.gelu(y, approximate='tanh'), 3: F.silu}[ACTIVATION]";
        let first = if has("ACTIVATION") { format!("{activation}({})", product("w")) } else { product("w") };
        let value = if has("GATED") { format!("({first}) * ({})", product("w_up")) } else { first };
        let bounds = "enumerate(zip(offsets.tolist()[:-1], offsets.tolist()[1:]))";
        Some(format!("torch.cat([{value} for e, (begin, end) in {bounds}]).to(x.dtype)"))
    }

    fn scalars(&self, _dims: &Dims) -> Vec<(&'static str, f64)> {
        Vec::new()
    }

    /// Counts the products, and not what follows them.
    fn flop(&self, dims: &Dims) -> f64 {
        ["M", "N", "K"].iter().map(|name| dims[*name] as f64).product::<f64>() * 2.0 * products(dims) as f64
    }

    /// The weights of an expert without rows are not needed.
    fn needed_elements(&self, dims: &Dims, tensor: &TensorSpec) -> usize {
        let Shape { n, k, experts, .. } = Shape::of(dims);
        match &*tensor.name {
            "w" | "w_up" => {
                n * k * runs(shortest(dims), dims["M"], experts).into_iter().filter(|rows| *rows > 0).count()
            }
            _ => tensor.elements(),
        }
    }

    /// Every dimension keeps its remainder by the tile sizes.
    fn scaled(&self, dims: &Dims) -> Vec<Dims> {
        let scaled = |periods: i64| {
            let mut scaled = dims.clone();
            for (name, period) in [("M", 256), ("N", 256), ("K", 512), ("EXPERTS", 2)] {
                scaled[name] = dims[name].min(dims[name] % period + periods * period);
            }
            if let Some(least) = dims.get("SHORTEST") {
                let most = scaled["M"] / scaled["EXPERTS"];
                scaled["SHORTEST"] = (least * scaled["M"] / dims["M"]).clamp(0, most);
            }
            scaled
        };
        sizes::scaled(dims, PERIODS, scaled)
    }

    fn resized(&self, dims: &Dims, axis: Axis, factor: f64) -> Option<Dims> {
        match axis {
            Axis::Independent => multiplied(dims, "N", factor),
            Axis::Sequential => multiplied(dims, "K", factor),
        }
    }

    fn probes(&self) -> &'static [Probe] {
        &probes::PROBES
    }

    fn hidden(&self, dims: &Dims, least: CheckLimits, seed: u64) -> Vec<Dims> {
        sizes::within_limits(self, dims, least, probes::hidden(dims, &MAX_HIDDEN, seed))
    }

    /// An activation of large negative numbers is the small difference of large ones. An accurate kernel may lose it.
    fn intermediate_rounding(&self, dims: &Dims, _dtype: Dtype, inputs: &[Vec<f32>], rows: &[usize]) -> Vec<f64> {
        if !dims.contains_key("ACTIVATION") {
            return vec![0.0; rows.len()];
        }
        let off = values(dims, inputs, rows, |sum, second| LOST_OF_ACTIVATION * (sum * second.unwrap_or(1.0)).abs());
        let of_row = |row: &[f64]| {
            let off = row.iter().map(|off| off * off).sum::<f64>().sqrt();
            // Nothing is allowed where NaN or infinity is expected.
            if off.is_finite() { off } else { 0.0 }
        };
        off.chunks_exact(Shape::of(dims).n).map(of_row).collect()
    }

    fn oracle(&self, dims: &Dims, inputs: &[Vec<f32>], rows: &[usize]) -> Result<Vec<f64>, Error> {
        let activation = Shape::of(dims).activation;
        Ok(values(dims, inputs, rows, |sum, second| activated(activation, sum) * second.unwrap_or(1.0)))
    }
}

/// Returns values for some rows of the output, from the sum of each element's products, and that of a gated layer's second one.
fn values(dims: &Dims, inputs: &[Vec<f32>], rows: &[usize], of: impl Fn(f64, Option<f64>) -> f64 + Sync) -> Vec<f64> {
    let shape = Shape::of(dims);
    let (x, weights) = (&inputs[0], &inputs[2..]);
    let ends: Vec<i64> = inputs[1][1..].iter().map(|end| Dtype::I32.kept(std::slice::from_ref(end))).collect();
    // The rows of an expert need the same weights.
    let expert = |row: usize| ends.partition_point(|end| *end <= row as i64);
    let mut places: Vec<usize> = (0..rows.len()).collect();
    places.sort_by_key(|place| expert(rows[*place]));
    let of_experts = places.chunk_by(|a, b| expert(rows[*a]) == expert(rows[*b]));
    let columns = || (0..shape.n).step_by(BLOCK_COLUMNS).map(|first| first..shape.n.min(first + BLOCK_COLUMNS));
    let blocks: Vec<_> = of_experts
        .flat_map(|places| places.chunks(BLOCK_ROWS))
        .flat_map(|places| columns().map(move |columns| (places, columns)))
        .collect();
    let computed: Vec<Vec<f64>> = blocks
        .par_iter()
        .map(|(places, columns)| {
            let of_block: Vec<usize> = places.iter().map(|place| rows[*place]).collect();
            let expert = expert(of_block[0]);
            let sums = |w: &Vec<f32>| shape.block(x, w, expert, &of_block, columns.clone());
            let sums: Vec<Vec<f64>> = weights.iter().map(sums).collect();
            (0..sums[0].len()).map(|i| of(sums[0][i], sums.get(1).map(|sums| sums[i]))).collect()
        })
        .collect();
    let mut out = vec![0.0; rows.len() * shape.n];
    for ((places, columns), values) in blocks.iter().zip(&computed) {
        for (place, values) in places.iter().zip(values.chunks_exact(columns.len())) {
            out[place * shape.n..][columns.clone()].copy_from_slice(values);
        }
    }
    out
}

#[cfg(test)]
mod tests;
