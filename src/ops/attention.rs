//! Scaled dot-product attention: `softmax(q kᵀ / √D) v`, per batch entry and head. Several heads of queries may share keys and
//! values. Scores may be limited to a window and capped, and a sink may take part of the weight. Batch entries may have keys of
//! different numbers, which may lie in pages.

mod cache;
mod dims;
mod oracle;
mod order;
mod probes;
mod shape;
mod shapes;
mod torch;

use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::sizes::{self, PERIODS};
use crate::domain::op::{
    Axis, CheckLimits, DimSpec, Dims, Dtype, FarShape, Op, OptionalDim, Probe, TensorRole, TensorSpec, Values,
    multiplied,
};
use crate::error::Error;
use dims::{DIMS, OPTIONAL_DIMS};
use shape::{Shape, lengths, places, ratio, shortest};

/// Attention over `q[B,H,Sq,D]`, `k[B,Hkv,Sk,D]`, `v[B,Hkv,Sk,D]` into `o[B,H,Sq,D]`. Head `h` of the queries uses head
/// `h / (H / Hkv)` of the keys and values.
///
/// The last query stands beside the last key: query `i` has position `p = i + (Sk - Sq)`. With `CAUSAL` = 1, it sees the keys
/// `j <= p`. With `WINDOW` = w > 0, it sees those with `|j - p| < w` of them: itself and w - 1 earlier ones if causal, as in Mistral
/// and Gemma 2. `SOFTCAP` = c > 0 turns a score s into `c tanh(s / c)` (Gemma 2). With `SINK` = 1, `sink[H]` is one more score of each
/// row of a head, without a value (gpt-oss).
///
/// With `LENGTHS` = 1, batch entry b has `lengths[b]` keys of at most Sk, and what lies behind them means nothing. The last query
/// stands beside the last of these. Lengths are drawn at equal distances from `SHORTEST` to Sk. A query that sees no key gives 0.
/// With `PAGE` = s > 0, keys and values are `[PAGES,s,Hkv,D]`, as in vLLM and FlashInfer, and key j of batch entry b is row j % s of the
/// page `page_table[b, j / s]`.
///
/// With `VARLEN` = 1, batch entries are sequences of tokens that follow each other: the tensors are `q[Sq,H,D]`, `k[Sk,Hkv,D]`,
/// `v[Sk,Hkv,D]` and `o[Sq,H,D]` with Sq = Sk, and sequence b is the tokens from `cu_seqlens[b]` to `cu_seqlens[b + 1]`, as in
/// FlashAttention. Lengths are drawn at equal distances from `SHORTEST` on. A sequence may have no token.
///
/// With `LSE` = 1, `lse[B,H,Sq]` (`lse[Sq,H]` with `VARLEN`) is the natural logarithm of the sum of the exponentials of a row's scores, with that of its sink, in
/// FP32: the weight of a key is `exp(score - lse)`. It is minus infinity for a query that sees no key and has no sink.
pub struct Attention;

/// Scaled cases change lengths by whole multiples of this. Tiles of kernels are powers of two up to 256 queries or
/// keys, so the last tile stays as full as it was.
const PERIOD: i64 = 256;

/// Elements of the tensors of a far shape, and the most heads that they may have: a grid has no more blocks along y.
const FAR_ELEMENTS: i64 = 1 << 30;
const FAR_HEADS: i64 = 60_000;

impl Op for Attention {
    fn name(&self) -> &'static str {
        "attention"
    }

    fn dims(&self) -> &'static [DimSpec] {
        &DIMS
    }

    fn optional_dims(&self) -> &'static [OptionalDim] {
        &OPTIONAL_DIMS
    }

    fn check(&self, dims: &Dims) -> Result<(), Error> {
        dims::check(dims)
    }

    fn tensors(&self, dims: &Dims, dtype: Dtype) -> Vec<TensorSpec> {
        let at = |name: &str| usize::try_from(dims[name]).expect("validated with the workload");
        let (entries, heads, key_heads) = (at("B"), at("H"), dims.get("Hkv").map_or_else(|| at("H"), |_| at("Hkv")));
        let tensor = |name: &str, shape: &[usize], role: TensorRole| TensorSpec {
            name: name.to_owned(),
            dtype,
            shape: shape.to_vec(),
            role,
            values: Values::Normal,
        };
        let input = |name: &str, shape: &[usize]| tensor(name, shape, TensorRole::Input);
        let indices = |name: &str, shape: &[usize], values: Values| TensorSpec {
            dtype: Dtype::I32,
            values,
            ..input(name, shape)
        };
        let (is_packed, pages) = (dims.contains_key("VARLEN"), dims.get("PAGE").map(|_| at("Sk") / at("PAGE")));
        let (queries, keys) = match pages {
            _ if is_packed => (vec![at("Sq"), heads, at("D")], vec![at("Sk"), key_heads, at("D")]),
            Some(_) => (vec![entries, heads, at("Sq"), at("D")], vec![at("PAGES"), at("PAGE"), key_heads, at("D")]),
            None => (vec![entries, heads, at("Sq"), at("D")], vec![entries, key_heads, at("Sk"), at("D")]),
        };
        let mut all = vec![input("q", &queries)];
        match (dims.get("KV"), &keys[..]) {
            (Some(_), [rows @ .., d]) => all.push(input("kv", &[rows, &[2 * d]].concat())),
            _ => all.extend([input("k", &keys), input("v", &keys)]),
        }
        let borders = || Values::Borders(shortest(dims), dims["Sk"]);
        all.extend(is_packed.then(|| indices("cu_seqlens", &[entries + 1], borders())));
        all.extend(
            dims.get("LENGTHS").map(|_| indices("lengths", &[entries], Values::Spread(shortest(dims), dims["Sk"]))),
        );
        all.extend(pages.map(|pages| {
            // No page has two places.
            indices("page_table", &[entries, pages], Values::Spread(0, dims["PAGES"] - 1))
        }));
        all.extend(dims.contains_key("SINK").then(|| input("sink", &[heads])));
        all.push(tensor("o", &queries, TensorRole::Output));
        all.extend(dims.get("LSE").map(|_| TensorSpec {
            dtype: Dtype::F32,
            ..tensor("lse", &queries[..queries.len() - 1], TensorRole::Output)
        }));
        all
    }

    fn optional_tensors(&self) -> &'static [&'static str] {
        &["k", "v", "kv", "cu_seqlens", "lengths", "page_table", "sink", "lse"]
    }

    fn torch(&self, optional: &[&str]) -> Option<String> {
        Some(torch::expression(optional))
    }

    fn scalars(&self, dims: &Dims) -> Vec<(&'static str, f64)> {
        vec![("scale", 1.0 / (dims["D"] as f64).sqrt())]
    }

    /// Counts the two matrix products over the visible pairs, as FlashAttention's authors do: `4 · pairs · D`.
    fn flop(&self, dims: &Dims) -> f64 {
        let shape = Shape::of(dims);
        let mut lengths = lengths(dims);
        lengths.sort_unstable();
        let pairs = |of_one: &[usize]| of_one.len() * shape.with(of_one[0]).pairs();
        let pairs: usize = lengths.chunk_by(|a, b| a == b).map(pairs).sum();
        4.0 * (shape.heads_of_entry * pairs * shape.d) as f64
    }

    /// No query sees the keys before the first window, nor what is behind the length of a batch entry.
    fn needed_elements(&self, dims: &Dims, tensor: &TensorSpec) -> usize {
        let shape = Shape::of(dims);
        match &*tensor.name {
            "k" | "v" | "kv" => {
                let seen: usize = lengths(dims).into_iter().map(|length| shape.with(length).seen().len()).sum();
                seen * (shape.heads_of_entry / shape.ratio) * tensor.row_len()
            }
            _ => tensor.elements(),
        }
    }

    /// Batch entries and heads are independent of each other, so two of each reveal a wrong index. Lengths keep their
    /// remainder by the tile sizes.
    fn scaled(&self, dims: &Dims) -> Vec<Dims> {
        let scaled = |periods: i64| {
            let mut scaled = dims.clone();
            // A packed sequence between two others has a border on either side.
            scaled["B"] = dims["B"].min(if dims.contains_key("VARLEN") { 3 } else { 2 });
            shapes::set_key_heads(&mut scaled, dims.get("Hkv").unwrap_or(&dims["H"]).min(&2), ratio(dims));
            for name in ["Sq", "Sk"] {
                scaled[name] = dims[name].min(dims[name] % PERIOD + periods * PERIOD);
            }
            if let Some(window) = scaled.get_mut("WINDOW") {
                // As many tiles begin within the window as lie before it.
                *window = (*window).min(*window % PERIOD + periods * PERIOD / 2);
            }
            if let Some(least) = dims.get("SHORTEST") {
                // As long a part of the longest one.
                scaled["SHORTEST"] = (least * scaled["Sk"] / dims["Sk"]).max(1);
            }
            if let Some(pages) = dims.get("PAGES") {
                // A few that no batch entry has, if there were any.
                scaled["PAGES"] = places(&scaled) + (pages - places(dims)).min(2);
            }
            scaled
        };
        sizes::scaled(dims, PERIODS, scaled)
    }

    fn is_logarithm(&self, output: &str) -> bool {
        output == "lse"
    }

    /// Heads or batch entries are independent. A query takes its keys one after the other; in causal attention the
    /// further keys lie before the first query, so the mean query sees more than `factor` times as many.
    fn resized(&self, dims: &Dims, axis: Axis, factor: f64) -> Option<Dims> {
        match axis {
            Axis::Independent if dims.contains_key("PAGES") => {
                let mut resized = multiplied(dims, "B", factor)?;
                resized["PAGES"] = places(&resized) + dims["PAGES"] - places(dims);
                Some(resized)
            }
            Axis::Independent if dims.contains_key("VARLEN") => {
                ["B", "Sq", "Sk"].into_iter().try_fold(dims.clone(), |dims, name| multiplied(&dims, name, factor))
            }
            Axis::Independent if dims.contains_key("Hkv") => multiplied(dims, "B", factor),
            Axis::Independent => multiplied(dims, "H", factor).or_else(|| multiplied(dims, "B", factor)),
            Axis::Sequential if ["WINDOW", "LENGTHS", "VARLEN"].iter().any(|name| dims.contains_key(*name)) => None,
            Axis::Sequential => multiplied(dims, "Sk", factor),
        }
    }

    fn probes(&self) -> &'static [Probe] {
        &probes::PROBES
    }

    fn hidden(&self, dims: &Dims, least: CheckLimits, seed: u64) -> Vec<Dims> {
        let mut all = shapes::hidden(dims, &mut SmallRng::seed_from_u64(seed));
        // The ratio of sizes does not depend on the dtype.
        let bytes = |dims: &Dims| self.tensors(dims, Dtype::F32).iter().map(TensorSpec::bytes).sum::<usize>() as f64;
        let most = least.of_hidden(self.flop(dims), bytes(dims));
        all.retain(|other| other != dims && self.flop(other) <= most.flop && bytes(other) <= most.bytes);
        all
    }

    /// Many batch entries of two heads, with sequences so long that a grid has room for all heads. Keys in pages are not in the
    /// order of batch entries.
    fn far(&self, dims: &Dims, dtype: Dtype) -> Option<FarShape> {
        if dims.contains_key("LENGTHS") || dims.contains_key("VARLEN") {
            return None;
        }
        let mut far = dims.clone();
        match dims.get("Hkv") {
            Some(_) => shapes::set_key_heads(&mut far, &1, ratio(dims)),
            None => far["H"] = dims["H"].min(2),
        }
        let keys = (FAR_ELEMENTS / (FAR_HEADS * dims["D"].max(1)) / PERIOD + 1) * PERIOD;
        far["Sk"] = dims["Sk"].min(2 * PERIOD).max(keys);
        far["Sq"] = if dims["Sq"] == dims["Sk"] { far["Sk"] } else { dims["Sq"].min(far["Sk"]) };
        FarShape::along(self, &far, "B", dtype)
    }

    fn intermediate_rounding(&self, dims: &Dims, dtype: Dtype, inputs: &[Vec<f32>], rows: &[usize]) -> Vec<f64> {
        oracle::intermediate_rounding(dims, dtype, &cache::separate(dims, inputs), rows)
    }

    fn oracle(&self, dims: &Dims, inputs: &[Vec<f32>], rows: &[usize]) -> Result<Vec<f64>, Error> {
        Ok(oracle::oracle(dims, &cache::separate(dims, inputs), rows))
    }
}

#[cfg(test)]
mod tests;
