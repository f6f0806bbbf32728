//! Scaled dot-product attention: `softmax(q kᵀ / √D) v`, per batch entry and head. Several heads of queries may share keys and
//! values. Scores may be limited to a window and capped, and a sink may take part of the weight. Batch entries may have keys of
//! different numbers, which may lie in pages.

mod cache;
mod probes;
mod shapes;
mod torch;

use std::ops::Range;

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rayon::prelude::*;

use crate::domain::op::{
    Axis, CheckLimits, DimDefault, DimSpec, Dims, Dtype, FarShape, Op, OptionalDim, Probe, TensorRole, TensorSpec,
    Values, multiplied, spread,
};
use cache::Inputs;

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
pub struct Attention;

const DIMS: [DimSpec; 6] = [
    DimSpec { name: "B", about: "the batch size", range: (1, 1 << 16) },
    DimSpec { name: "H", about: "the number of heads (of queries)", range: (1, 1 << 16) },
    DimSpec { name: "Sq", about: "the number of queries", range: (1, 1 << 20) },
    DimSpec { name: "Sk", about: "the number of keys", range: (1, 1 << 20) },
    DimSpec { name: "D", about: "the head dimension", range: (1, 8192) },
    DimSpec {
        name: "CAUSAL",
        about: "1 for causal attention, where no query sees a later key, and 0 for full",
        range: (0, 1),
    },
];

const OPTIONAL_DIMS: [OptionalDim; 8] = [
    OptionalDim {
        dim: DimSpec { name: "Hkv", about: "the number of heads of keys and values", range: (1, 1 << 16) },
        default: DimDefault::Same("H"),
    },
    OptionalDim {
        dim: DimSpec {
            name: "WINDOW",
            about: "the number of keys that a query sees, with its own, on each side that it sees (0: all)",
            range: (0, 1 << 20),
        },
        default: DimDefault::Fixed(0),
    },
    OptionalDim {
        dim: DimSpec { name: "SOFTCAP", about: "the limit that scores approach (0: none)", range: (0, 1 << 16) },
        default: DimDefault::Fixed(0),
    },
    OptionalDim {
        dim: DimSpec { name: "SINK", about: "1 for a sink, a score of each head without a value", range: (0, 1) },
        default: DimDefault::Fixed(0),
    },
    OptionalDim {
        dim: DimSpec {
            name: "LENGTHS",
            about: "1 if each batch entry has a number of keys of its own, up to Sk (0: each has Sk)",
            range: (0, 1),
        },
        default: DimDefault::Fixed(0),
    },
    OptionalDim {
        dim: DimSpec { name: "SHORTEST", about: "the fewest keys of a batch entry, with LENGTHS", range: (1, 1 << 20) },
        default: DimDefault::Same("Sk"),
    },
    OptionalDim {
        dim: DimSpec { name: "PAGE", about: "the keys of a page (0: keys are not in pages)", range: (0, 1 << 20) },
        default: DimDefault::Fixed(0),
    },
    OptionalDim {
        dim: DimSpec { name: "PAGES", about: "the pages of the cache, used or not (with PAGE)", range: (0, 1 << 24) },
        default: DimDefault::Fixed(0),
    },
];

/// Scaled cases change lengths by whole multiples of this. Tiles of kernels are powers of two up to 256 queries or
/// keys, so the last tile stays as full as it was.
const PERIOD: i64 = 256;

/// Elements of the tensors of a far shape, and the most heads that they may have: a grid has no more blocks along y.
const FAR_ELEMENTS: i64 = 1 << 30;
const FAR_HEADS: i64 = 60_000;

/// The dimensions of a case as fields.
#[derive(Clone, Copy)]
struct Shape {
    /// Heads of queries of all batch entries.
    heads: usize,
    /// Heads of queries of a batch entry.
    heads_of_entry: usize,
    /// Heads of queries that share a head of keys and values.
    ratio: usize,
    sq: usize,
    /// Keys that a batch entry has room for.
    sk: usize,
    /// Keys that it has.
    length: usize,
    d: usize,
    causal: bool,
    /// Keys that a query sees on each side, with its own. None: all.
    window: Option<usize>,
    /// The limit that scores approach. 0: none.
    cap: f64,
}

impl Shape {
    fn of(dims: &Dims) -> Self {
        let at = |name: &str| usize::try_from(dims[name]).expect("validated with the workload");
        Self {
            heads: at("B") * at("H"),
            heads_of_entry: at("H"),
            ratio: usize::try_from(ratio(dims)).unwrap_or(1),
            sq: at("Sq"),
            sk: at("Sk"),
            length: at("Sk"),
            d: at("D"),
            causal: at("CAUSAL") == 1,
            window: dims.get("WINDOW").map(|window| usize::try_from(*window).unwrap_or(usize::MAX)),
            cap: dims.get("SOFTCAP").map_or(0.0, |cap| *cap as f64),
        }
    }

    /// Returns the heads of keys and values of all batch entries.
    fn key_heads(&self) -> usize {
        self.heads / self.ratio
    }

    /// Returns the place of the first element of the keys, or of the values, that a head of queries uses, where they are not in pages.
    fn keys_of(&self, head: usize) -> usize {
        head / self.ratio * self.sk * self.d
    }

    /// Returns the same with so many keys.
    fn with(self, length: usize) -> Self {
        Self { length, ..self }
    }

    /// Returns the keys that query `i` sees.
    fn visible(&self, i: usize) -> Range<usize> {
        // Below 0 if there are more queries than keys: the first of them see none.
        let position = (i + self.length) as i64 - self.sq as i64;
        let end = match self.window {
            _ if self.causal => position + 1,
            Some(window) => position.saturating_add(window as i64),
            None => self.length as i64,
        };
        let end = end.clamp(0, self.length as i64);
        let begin = self.window.map_or(0, |window| (position + 1).saturating_sub(window as i64).clamp(0, end));
        begin as usize..end as usize
    }

    /// Returns the keys that some query sees.
    fn seen(&self) -> Range<usize> {
        self.visible(0).start..self.visible(self.sq - 1).end
    }

    /// Returns the queries that see a key, which some query sees.
    fn queries_of(&self, j: usize) -> Range<usize> {
        let query = |position: usize| position.saturating_add(self.sq).saturating_sub(self.length).min(self.sq);
        let first = match self.window {
            _ if self.causal => query(j),
            Some(window) => query((j + 1).saturating_sub(window)),
            None => 0,
        };
        first..self.window.map_or(self.sq, |window| query(j.saturating_add(window)))
    }

    /// Returns the pairs of queries and keys of a head that see each other.
    fn pairs(&self) -> usize {
        (0..self.sq).map(|i| self.visible(i).len()).sum()
    }
}

/// Returns how many pages batch entries have room for. 0 if keys are not in pages.
fn places(dims: &Dims) -> i64 {
    dims.get("PAGE").map_or(0, |page| dims["B"] * (dims["Sk"] / page.max(&1)))
}

/// Returns the fewest keys of a batch entry.
fn shortest(dims: &Dims) -> i64 {
    dims.get("SHORTEST").copied().unwrap_or(dims["Sk"])
}

/// Returns how many keys each batch entry has, in any order.
fn lengths(dims: &Dims) -> Vec<usize> {
    let (entries, sk) = (usize::try_from(dims["B"]).unwrap_or(0), dims["Sk"]);
    spread(shortest(dims), sk, entries).map(|length| usize::try_from(length).unwrap_or(0)).collect()
}

/// Returns how many heads of queries share a head of keys and values.
fn ratio(dims: &Dims) -> i64 {
    dims.get("Hkv").map_or(1, |key_heads| dims["H"] / key_heads)
}

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

    fn check(&self, dims: &Dims) -> Result<(), String> {
        if dims["CAUSAL"] == 1 && dims["Sq"] > dims["Sk"] {
            return Err("causal attention needs Sq <= Sk, or the first queries have no keys".to_owned());
        }
        if let Some(key_heads) = dims.get("Hkv").filter(|key_heads| dims["H"] % **key_heads != 0) {
            return Err(format!("H = {} must be a multiple of Hkv = {key_heads}", dims["H"]));
        }
        if dims.contains_key("WINDOW") && dims["Sq"] > dims["Sk"] {
            return Err("a window needs Sq <= Sk, or the first queries have no keys".to_owned());
        }
        let shortest = shortest(dims);
        if !dims.contains_key("LENGTHS") && dims.contains_key("SHORTEST") {
            return Err(format!("SHORTEST = {shortest} needs LENGTHS = 1"));
        }
        if shortest > dims["Sk"] {
            return Err(format!("SHORTEST = {shortest} must not be more than Sk = {}", dims["Sk"]));
        }
        if (dims["CAUSAL"] == 1 || dims.contains_key("WINDOW")) && dims["Sq"] > shortest {
            return Err(format!("SHORTEST = {shortest} must be Sq = {} at least, or queries have no keys", dims["Sq"]));
        }
        if let Some(page) = dims.get("PAGE") {
            if !dims.contains_key("LENGTHS") {
                return Err("PAGE needs LENGTHS = 1: a cache in pages has the lengths of its batch entries".to_owned());
            }
            if dims["Sk"] % page != 0 {
                return Err(format!("Sk = {} must be a multiple of PAGE = {page}", dims["Sk"]));
            }
        }
        let (pages, least) = (dims.get("PAGES").copied().unwrap_or(0), places(dims));
        if pages > 0 && !dims.contains_key("PAGE") {
            return Err(format!("PAGES = {pages} needs PAGE, the keys of a page"));
        }
        if pages < least {
            return Err(format!(
                "PAGES = {pages} must be B * Sk / PAGE = {least} at least, so that each page has one place"
            ));
        }
        let key_heads = if dims.contains_key("Hkv") { "Hkv" } else { "H" };
        let elements = |names: [&str; 4]| names.into_iter().map(|name| dims[name] as f64).product::<f64>();
        let keys = match dims.contains_key("PAGE") {
            true => elements(["PAGES", "PAGE", key_heads, "D"]),
            false => elements(["B", key_heads, "Sk", "D"]),
        };
        if elements(["B", "H", "Sq", "D"]).max(keys) > f64::from(i32::MAX) {
            return Err("a tensor has more than 2^31 elements; reduce B, H, S or D".to_owned());
        }
        Ok(())
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
        let (queries, pages) = ([entries, heads, at("Sq"), at("D")], dims.get("PAGE").map(|_| at("Sk") / at("PAGE")));
        let keys = match pages {
            Some(_) => [at("PAGES"), at("PAGE"), key_heads, at("D")],
            None => [entries, key_heads, at("Sk"), at("D")],
        };
        let mut all = vec![input("q", &queries), input("k", &keys), input("v", &keys)];
        all.extend(
            dims.get("LENGTHS").map(|_| indices("lengths", &[entries], Values::Spread(shortest(dims), dims["Sk"]))),
        );
        all.extend(pages.map(|pages| {
            // No page has two places.
            indices("page_table", &[entries, pages], Values::Spread(0, dims["PAGES"] - 1))
        }));
        all.extend(dims.contains_key("SINK").then(|| input("sink", &[heads])));
        all.push(tensor("o", &queries, TensorRole::Output));
        all
    }

    fn optional_tensors(&self) -> &'static [&'static str] {
        &["lengths", "page_table", "sink"]
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
            "k" | "v" => {
                let seen: usize = lengths(dims).into_iter().map(|length| shape.with(length).seen().len()).sum();
                seen * (shape.heads_of_entry / shape.ratio) * shape.d
            }
            _ => tensor.elements(),
        }
    }

    /// Batch entries and heads are independent of each other, so two of each reveal a wrong index. Lengths keep their
    /// remainder by the tile sizes.
    fn scaled(&self, dims: &Dims) -> Vec<Dims> {
        let scaled = |periods: i64| {
            let mut scaled = dims.clone();
            scaled["B"] = dims["B"].min(2);
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
        let mut all: Vec<Dims> = [1, 2, 4, 8, 16].map(scaled).into();
        all.dedup();
        all.retain(|scaled| scaled != dims);
        all
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
            Axis::Independent if dims.contains_key("Hkv") => multiplied(dims, "B", factor),
            Axis::Independent => multiplied(dims, "H", factor).or_else(|| multiplied(dims, "B", factor)),
            Axis::Sequential if dims.contains_key("WINDOW") || dims.contains_key("LENGTHS") => None,
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
        if dims.contains_key("LENGTHS") {
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

    /// A kernel on tensor cores rounds its weights to FP16, relative to the row's largest weight. Half of the smallest
    /// subnormal is lost at most, or gained. In FP32, weights below the smallest normal number may be lost.
    /// The sum of a score loses bits, and the exponential turns its absolute error into a relative one.
    fn intermediate_rounding(&self, dims: &Dims, dtype: Dtype, inputs: &[Vec<f32>], rows: &[usize]) -> Vec<f64> {
        let shape = Shape::of(dims);
        let inputs = Inputs::of(dims, inputs);
        let of_score = (shape.d as f64).sqrt() / f64::from(1 << 24);
        let rounding = |weight: f64, score: f64, typical: f64| match dtype {
            Dtype::F16 => 2.0_f64.powi(-25),
            _ => weight * (score.abs() + typical) * of_score + f64::from(f32::MIN_POSITIVE),
        };
        let of_row = |&row: &usize| {
            let (scores, values) = inputs.scores_and_values(row);
            let (weights, total) = numerics::attention::weights(&scores, inputs.sink(row));
            // An error in the largest scores changes the sum of weights, and so every weight.
            let typical = weights.iter().zip(&scores).map(|(weight, score)| weight * score.abs()).sum::<f64>() / total;
            let off: Vec<f64> =
                weights.iter().zip(&scores).map(|(weight, score)| rounding(*weight, *score, typical)).collect();
            let sums = numerics::attention::absolute_sums(&off, &values, shape.d);
            // Products of weights and values may be lost, too, if they are that small.
            let lost = f64::from(f32::MIN_POSITIVE) * weights.len() as f64 * (shape.d as f64).sqrt();
            let off = (sums.iter().map(|sum| sum * sum).sum::<f64>().sqrt() + lost) / total;
            // Nothing is allowed where NaN or infinity is expected.
            if off.is_finite() { off } else { 0.0 }
        };
        rows.par_iter().map(of_row).collect()
    }

    fn oracle(&self, dims: &Dims, inputs: &[Vec<f32>], rows: &[usize]) -> Result<Vec<f64>, String> {
        let inputs = Inputs::of(dims, inputs);
        let d = inputs.shape.d;
        let mut out = vec![0.0; rows.len() * d];
        out.par_chunks_mut(d).zip(rows).for_each(|(out, &row)| {
            let (scores, values) = inputs.scores_and_values(row);
            let (weights, total) = numerics::attention::weights(&scores, inputs.sink(row));
            numerics::attention::add_values(&weights, total, &values, out);
        });
        Ok(out)
    }
}

#[cfg(test)]
mod tests;
