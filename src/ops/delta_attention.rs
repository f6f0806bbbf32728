//! Linear attention with a delta rule and a gate for each channel, as Kimi Linear has it.

mod probes;

use numerics::delta;
use rayon::prelude::*;

use super::sizes;
use crate::domain::op::{
    Axis, CheckLimits, DimSpec, Dims, Dtype, FarShape, Op, Probe, TensorRole, TensorSpec, Values, multiplied,
};
use crate::error::Error;

/// Kimi delta attention (Kimi Linear, arXiv 2510.26692), without a state before the first token.
///
/// Each head has a state S of `K` rows and `V` columns, zero at first. Token t multiplies row c of S by exp(`g[b,t,h,c]`), adds
/// `beta[b,t,h]` k (v - k^T S)^T to S, with its key k and its values v, and then returns `scale` q^T S in `o[b,t,h]`. So S recalls the
/// values of keys, and a token replaces what is recalled under its own key. The scale is 1 / sqrt(K).
///
/// The tensors are `q[B,T,H,K]`, `k[B,T,H,K]`, `v[B,T,H,V]`, `g[B,T,H,K]` (F32, the logarithms of the decays), `beta[B,T,H]` and
/// `o[B,T,H,V]`. Keys are drawn with a length of about one, as in models, which normalise them.
pub struct DeltaAttention;

const DIMS: [DimSpec; 5] = [
    DimSpec { name: "B", about: "the sequences", range: (1, 1 << 20) },
    DimSpec { name: "T", about: "the tokens of a sequence", range: (1, 1 << 20) },
    DimSpec { name: "H", about: "the heads, each with a state of its own", range: (1, 1 << 10) },
    DimSpec { name: "K", about: "the channels of queries and keys", range: (1, 256) },
    DimSpec { name: "V", about: "the channels of values", range: (1, 256) },
];

/// The range of the gates. The board's are normal with this mean and about this spread, so some of them amplify.
const GATES: Values = Values::Uniform(-0.2, 0.1);

/// Scaled cases shorten sequences by whole multiples of this: kernels take tokens in chunks of a power of two.
const PERIOD: i64 = 128;

/// The most tokens of a far shape.
const FAR_TOKENS: i64 = 40;

/// The sizes of a case.
struct Shape {
    b: usize,
    t: usize,
    h: usize,
    k: usize,
    v: usize,
}

impl Shape {
    fn of(dims: &Dims) -> Self {
        let at = |name: &str| usize::try_from(dims[name]).expect("validated with the workload");
        Self { b: at("B"), t: at("T"), h: at("H"), k: at("K"), v: at("V") }
    }

    /// Returns the place of a token among those of all sequences and heads.
    fn place(&self, batch: usize, token: usize, head: usize) -> usize {
        (batch * self.t + token) * self.h + head
    }

    /// Returns the row of each token that is wanted, computed with the tokens of its head that come before it. The tokens are in order.
    fn head(&self, inputs: &[Vec<f32>], batch: usize, head: usize, wanted: &[usize]) -> Vec<Vec<f64>> {
        let [q, k, v, g, beta] = inputs else { unreachable!("the op has five inputs") };
        let scale = scale(self.k);
        let (mut state, mut recalled) = (vec![0.0; self.k * self.v], vec![0.0; self.v]);
        let mut left = wanted.iter().peekable();
        let mut out = Vec::with_capacity(wanted.len());
        for token in 0..=wanted.last().copied().unwrap_or(0) {
            let place = self.place(batch, token, head);
            let (of_k, of_v) = (place * self.k..(place + 1) * self.k, place * self.v..(place + 1) * self.v);
            let decays: Vec<f64> = g[of_k.clone()].iter().map(|gate| f64::from(*gate).exp()).collect();
            delta::decay_and_recall(&mut state, &decays, &k[of_k.clone()], &mut recalled);
            let strength = f64::from(beta[place]);
            recalled
                .iter_mut()
                .zip(&v[of_v])
                .for_each(|(recalled, v)| *recalled = strength * (f64::from(*v) - *recalled));
            delta::write(&mut state, &k[of_k.clone()], &recalled);
            if left.next_if_eq(&&token).is_some() {
                let mut row = vec![0.0; self.v];
                delta::read(&state, &q[of_k], scale, &mut row);
                out.push(row);
            }
        }
        out
    }
}

fn scale(channels: usize) -> f64 {
    1.0 / (channels as f64).sqrt()
}

impl Op for DeltaAttention {
    fn name(&self) -> &'static str {
        "delta-attention"
    }

    fn dims(&self) -> &'static [DimSpec] {
        &DIMS
    }

    fn is_sequential(&self, dim: &str) -> bool {
        dim == "T"
    }

    fn check(&self, dims: &Dims) -> Result<(), Error> {
        let tokens = ["B", "T", "H"].iter().fold(1_i64, |all, name| all.saturating_mul(dims[*name]));
        if tokens.saturating_mul(dims["K"].max(dims["V"])) > i64::from(i32::MAX) {
            return Err(Error::new("a tensor has more than 2^31 elements; reduce B, T or H"));
        }
        Ok(())
    }

    fn tensors(&self, dims: &Dims, dtype: Dtype) -> Vec<TensorSpec> {
        let Shape { b, t, h, k, v } = Shape::of(dims);
        let tensor = |name: &str, dtype: Dtype, channels: Option<usize>, values: Values| TensorSpec {
            name: name.to_owned(),
            dtype,
            shape: [b, t, h].into_iter().chain(channels).collect(),
            role: if name == "o" { TensorRole::Output } else { TensorRole::Input },
            values,
        };
        let unit = Values::Scaled(scale(k) as f32);
        vec![
            tensor("q", dtype, Some(k), unit),
            tensor("k", dtype, Some(k), unit),
            tensor("v", dtype, Some(v), Values::Normal),
            tensor("g", Dtype::F32, Some(k), GATES),
            tensor("beta", dtype, None, Values::Uniform(0.0, 1.0)),
            tensor("o", dtype, Some(v), Values::Normal),
        ]
    }

    fn scalars(&self, dims: &Dims) -> Vec<(&'static str, f64)> {
        vec![("scale", scale(Shape::of(dims).k))]
    }

    /// Counts what is recalled, written and read of the state, and neither the decay nor what a chunked kernel does in addition.
    fn flop(&self, dims: &Dims) -> f64 {
        6.0 * ["B", "T", "H", "K", "V"].iter().map(|name| dims[*name] as f64).product::<f64>()
    }

    fn scaled(&self, dims: &Dims) -> Vec<Dims> {
        let scaled = |periods: i64| {
            let mut scaled = dims.clone();
            scaled["T"] = dims["T"].min(dims["T"] % PERIOD + periods * PERIOD);
            scaled["H"] = dims["H"].min(2 * periods);
            scaled["B"] = dims["B"].min(2);
            scaled
        };
        sizes::scaled(dims, [1, 2, 4, 8], scaled)
    }

    fn resized(&self, dims: &Dims, axis: Axis, factor: f64) -> Option<Dims> {
        match axis {
            Axis::Independent => multiplied(dims, "H", factor),
            Axis::Sequential => multiplied(dims, "T", factor),
        }
    }

    fn probes(&self) -> &'static [Probe] {
        &probes::PROBES
    }

    fn hidden(&self, dims: &Dims, least: CheckLimits, seed: u64) -> Vec<Dims> {
        sizes::within_limits(self, dims, least, probes::hidden(dims, seed))
    }

    fn far(&self, dims: &Dims, dtype: Dtype) -> Option<FarShape> {
        let mut far = dims.clone();
        far["T"] = dims["T"].min(FAR_TOKENS);
        far["H"] = 1;
        FarShape::along(self, &far, "B", dtype)
    }

    /// The rows of a head are computed together, because each needs all tokens before it.
    fn oracle(&self, dims: &Dims, inputs: &[Vec<f32>], rows: &[usize]) -> Result<Vec<f64>, Error> {
        let shape = Shape::of(dims);
        let of_row = |row: usize| (row / shape.h / shape.t, row % shape.h, row / shape.h % shape.t);
        let mut places: Vec<usize> = (0..rows.len()).collect();
        places.sort_by_key(|at| of_row(rows[*at]));
        let heads: Vec<&[usize]> = places
            .chunk_by(|a, b| {
                let ((a, x, _), (b, y, _)) = (of_row(rows[*a]), of_row(rows[*b]));
                (a, x) == (b, y)
            })
            .collect();
        let computed: Vec<Vec<Vec<f64>>> = heads
            .par_iter()
            .map(|places| {
                let (batch, head, _) = of_row(rows[places[0]]);
                let mut tokens: Vec<usize> = places.iter().map(|at| of_row(rows[*at]).2).collect();
                tokens.dedup();
                shape.head(inputs, batch, head, &tokens)
            })
            .collect();
        let mut out = vec![0.0; rows.len() * shape.v];
        for (places, computed) in heads.iter().zip(&computed) {
            let mut at = 0;
            for (i, place) in places.iter().enumerate() {
                // A row may be wanted twice.
                at += usize::from(i > 0 && rows[*place] != rows[places[i - 1]]);
                out[place * shape.v..][..shape.v].copy_from_slice(&computed[at]);
            }
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests;
