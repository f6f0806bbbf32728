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
        if pages < least || (pages > 0 && least == 0) {
            return Err(format!("PAGES = {pages} must be B * Sk / PAGE = {least} at least, and 0 without PAGE"));
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
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::seq::SliceRandom;
    use rand::{Rng, SeedableRng};

    fn dims(b: i64, h: i64, sq: i64, sk: i64, d: i64, causal: i64) -> Dims {
        [("B", b), ("H", h), ("Sq", sq), ("Sk", sk), ("D", d), ("CAUSAL", causal)]
            .map(|(name, value)| (name.to_owned(), value))
            .into_iter()
            .collect()
    }

    /// The same, with so many heads of keys and values.
    fn shared(dims: Dims, key_heads: i64) -> Dims {
        dims.into_iter().chain([("Hkv".to_owned(), key_heads)]).collect()
    }

    /// The same, with a window, a cap and a sink; 0 is none.
    fn scored(dims: Dims, window: i64, cap: i64, sink: i64) -> Dims {
        let scores = [("WINDOW", window), ("SOFTCAP", cap), ("SINK", sink)].into_iter().filter(|(_, value)| *value > 0);
        dims.into_iter().chain(scores.map(|(name, value)| (name.to_owned(), value))).collect()
    }

    /// The same, with lengths and pages; 0 is none.
    fn ragged(dims: Dims, least: i64, page: i64) -> Dims {
        let of_cache = [
            ("LENGTHS", 1),
            ("SHORTEST", if least < dims["Sk"] { least } else { 0 }),
            ("PAGE", page),
            ("PAGES", if page > 0 { dims["B"] * dims["Sk"] / page + 1 } else { 0 }),
        ]
        .into_iter()
        .filter(|(_, value)| *value > 0);
        dims.into_iter().chain(of_cache.map(|(name, value)| (name.to_owned(), value))).collect()
    }

    /// Draws inputs.
    pub(super) fn drawn(dims: &Dims, rng: &mut SmallRng) -> Vec<Vec<f32>> {
        let draw = |tensor: TensorSpec| -> Vec<f32> {
            let Values::Spread(from, to) = tensor.values else {
                return (0..tensor.elements()).map(|_| rng.random_range(-3.0..3.0)).collect();
            };
            let mut numbers: Vec<i64> = spread(from, to, tensor.elements()).collect();
            numbers.shuffle(rng);
            let mut values = vec![0.0; numbers.len()];
            values.iter_mut().zip(numbers).for_each(|(value, number)| {
                tensor.dtype.keep(number, std::slice::from_mut(value));
            });
            values
        };
        Attention.inputs(dims, Dtype::F32).into_iter().map(draw).collect()
    }

    /// A second implementation. It follows the definition, with the online softmax of Milakov and Gimelshein instead of
    /// two passes. It shares neither code nor algorithm with the oracle.
    fn online(dims: &Dims, inputs: &[Vec<f32>]) -> Vec<f64> {
        let at = |name: &str| dims[name] as usize;
        let (heads, sq, sk, d) = (at("B") * at("H"), at("Sq"), at("Sk"), at("D"));
        let key_heads = dims.get("Hkv").map_or(at("H"), |heads| *heads as usize);
        let optional = |name: &str| dims.get(name).map(|value| *value as f64);
        let names: Vec<String> = Attention.tensors(dims, Dtype::F32).into_iter().map(|tensor| tensor.name).collect();
        let input = |name: &str| names.iter().position(|it| it == name).map(|place| &inputs[place]);
        let number = |name: &str, place: usize| input(name).map(|it| Dtype::I32.kept(&it[place..=place]) as usize);
        let mut out = vec![0.0; heads * sq * d];
        for head in 0..heads {
            let (entry, key_head) = (head / at("H"), head % at("H") * key_heads / at("H"));
            let length = number("lengths", entry).unwrap_or(sk);
            let row_of = |j: usize| match dims.get("PAGE").map(|page| *page as usize) {
                None => (entry * key_heads + key_head) * sk + j,
                Some(page) => {
                    let number = number("page_table", entry * (sk / page) + j / page).unwrap();
                    (number * page + j % page) * key_heads + key_head
                }
            };
            for i in 0..sq {
                let (mut highest, mut total) = (f64::NEG_INFINITY, 0.0);
                if optional("SINK").is_some() {
                    (highest, total) = (f64::from(input("sink").unwrap()[head % at("H")]), 1.0);
                }
                let row = &mut out[(head * sq + i) * d..(head * sq + i + 1) * d];
                for j in 0..length {
                    let ahead = j as f64 - (i + length) as f64 + sq as f64;
                    if at("CAUSAL") == 1 && ahead > 0.0
                        || optional("WINDOW").is_some_and(|window| ahead.abs() >= window)
                    {
                        continue;
                    }
                    let mut score = 0.0;
                    for c in 0..d {
                        score +=
                            f64::from(inputs[0][(head * sq + i) * d + c]) * f64::from(inputs[1][row_of(j) * d + c]);
                    }
                    score /= (d as f64).sqrt();
                    if let Some(cap) = optional("SOFTCAP") {
                        score = cap * (score / cap).tanh();
                    }
                    let new_highest = f64::max(highest, score);
                    let (keep, weight) = ((highest - new_highest).exp(), (score - new_highest).exp());
                    total = total * keep + weight;
                    for c in 0..d {
                        row[c] = row[c] * keep + weight * f64::from(inputs[2][row_of(j) * d + c]);
                    }
                    highest = new_highest;
                }
                if total > 0.0 {
                    row.iter_mut().for_each(|value| *value /= total);
                }
            }
        }
        out
    }

    #[test]
    fn the_oracle_agrees_with_a_second_implementation() {
        let mut rng = SmallRng::seed_from_u64(7);
        for case in [
            dims(1, 1, 4, 4, 4, 1),
            dims(2, 3, 33, 33, 20, 1),
            dims(1, 2, 5, 17, 9, 1),
            dims(2, 1, 1, 65, 64, 0),
            shared(dims(2, 6, 9, 17, 8, 1), 2),
            shared(dims(2, 4, 3, 5, 8, 0), 1),
            scored(dims(2, 2, 9, 17, 8, 1), 4, 0, 0),
            scored(dims(1, 2, 20, 33, 8, 0), 5, 0, 1),
            scored(dims(2, 3, 7, 7, 8, 1), 1, 2, 1),
            scored(shared(dims(2, 6, 9, 17, 8, 0), 2), 0, 3, 1),
            ragged(dims(3, 2, 4, 20, 8, 1), 4, 0),
            ragged(scored(shared(dims(3, 4, 1, 24, 8, 1), 2), 5, 3, 1), 1, 8),
            ragged(shared(dims(2, 6, 3, 12, 8, 0), 2), 12, 4),
        ] {
            let mut inputs = drawn(&case, &mut rng);
            if case.contains_key("LENGTHS") {
                // One batch entry has fewer keys than queries.
                Dtype::I32.keep(1, &mut inputs[3][..1]);
            }
            let rows: Vec<usize> = (0..(case["B"] * case["H"] * case["Sq"]) as usize).collect();
            let oracle = Attention.oracle(&case, &inputs, &rows).unwrap();
            for (a, b) in oracle.iter().zip(online(&case, &inputs)) {
                assert!((a - b).abs() < 1e-12, "{a} and {b} differ in {case:?}");
            }
        }
    }

    #[test]
    fn chosen_rows_are_the_rows_of_the_whole() {
        let case = dims(2, 2, 6, 6, 8, 1);
        let inputs: Vec<Vec<f32>> = (0..3).map(|t| (0..192).map(|i| ((i * 7 + t) % 11) as f32).collect()).collect();
        let whole = Attention.oracle(&case, &inputs, &(0..24).collect::<Vec<_>>()).unwrap();
        let some = Attention.oracle(&case, &inputs, &[23, 0, 7]).unwrap();
        assert_eq!(some, [&whole[184..192], &whole[0..8], &whole[56..64]].concat());
    }

    #[test]
    fn scaled_cases_are_smaller_and_leave_the_last_tile_as_full() {
        let scaled = Attention.scaled(&dims(4, 1, 4097, 8192, 64, 0));
        let lengths: Vec<_> = scaled.iter().map(|d| (d["B"], d["H"], d["Sq"], d["Sk"])).collect();
        assert_eq!(lengths[0], (2, 1, 257, 256));
        assert_eq!(lengths[4], (2, 1, 4097, 4096));
        // A single query stays a single query, and a small case has no smaller one.
        assert_eq!(Attention.scaled(&dims(1, 32, 1, 1000, 128, 0))[0]["Sq"], 1);
        assert!(Attention.scaled(&dims(2, 2, 100, 200, 64, 1)).is_empty());
    }

    #[test]
    fn hidden_shapes_are_valid_and_no_more_work_than_allowed() {
        let little = CheckLimits { flop: 2e7, bytes: 4e6 };
        let cases = [
            dims(8, 8, 128, 128, 64, 1),
            dims(1, 1, 4, 4, 4, 1),
            dims(2, 2, 100, 50, 64, 0),
            dims(1, 32, 1, 8192, 128, 0),
            dims(1, 1, 1, 1, 8, 1),
            shared(dims(2, 8, 128, 128, 64, 1), 2),
            shared(dims(16, 32, 1, 4096, 128, 0), 8),
            scored(dims(2, 8, 128, 128, 64, 1), 32, 50, 1),
            scored(dims(2, 8, 100, 128, 64, 0), 200, 0, 0),
            ragged(shared(dims(8, 8, 1, 256, 64, 0), 2), 20, 16),
            ragged(dims(4, 2, 5, 100, 64, 1), 100, 0),
        ];
        for case in cases {
            assert_ne!(
                Attention.hidden(&case, little, 7),
                Attention.hidden(&case, little, 8),
                "other shapes each time"
            );
            for other in (0..50).flat_map(|seed| Attention.hidden(&case, little, seed)) {
                Attention.check(&other).unwrap();
                assert!(other != case, "{other:?}");
                assert_ne!(other.get("Hkv"), other.get("H"), "a default is left out: {other:?}");
                assert!(Attention.flop(&other) <= little.flop.max(2.0 * Attention.flop(&case)), "{other:?}");
                assert!(case["Sq"] > 1 || other["Sq"] == 1, "{other:?}");
            }
        }
    }

    /// Some hidden shapes have windows, caps and sinks of their own. Those of the case are kept for shapes longer than its window.
    #[test]
    fn hidden_shapes_have_windows_at_both_ends() {
        let case = scored(dims(1, 2, 1024, 1024, 64, 1), 512, 50, 1);
        let large = CheckLimits { flop: 4e9, bytes: 1e8 };
        let all: Vec<Dims> = (0..9).flat_map(|seed| Attention.hidden(&case, large, seed)).collect();
        let some = |what: &str, is: &dyn Fn(&Dims, i64) -> bool| {
            assert!(all.iter().any(|dims| is(dims, dims.get("WINDOW").copied().unwrap_or(0))), "{what}");
        };
        some("none", &|_, window| window == 0);
        some("one key", &|_, window| window == 1);
        some("all keys", &|dims, window| window == dims["Sk"]);
        some("a part of the keys", &|dims, window| window > 1 && window < dims["Sk"] / 2);
        some("no cap", &|dims, _| !dims.contains_key("SOFTCAP"));
        some("no sink", &|dims, _| !dims.contains_key("SINK"));
        some("a little more than the case's window", &|dims, window| window == 512 && (513..612).contains(&dims["Sk"]));
        some("another cap", &|dims, _| dims.get("SOFTCAP").is_some_and(|cap| *cap != 50));
    }

    /// The keys of a query and the queries of a key are one relation.
    #[test]
    fn a_query_sees_the_keys_that_it_is_a_query_of() {
        for case in [
            dims(1, 1, 7, 12, 8, 1),
            dims(1, 1, 9, 4, 8, 0),
            scored(dims(1, 1, 7, 12, 8, 1), 3, 0, 0),
            scored(dims(1, 1, 7, 12, 8, 0), 3, 0, 0),
            scored(dims(1, 1, 5, 5, 8, 0), 9, 0, 0),
        ] {
            let shape = Shape::of(&case);
            for j in 0..shape.sk {
                let of_key: Vec<usize> = (0..shape.sq).filter(|i| shape.visible(*i).contains(&j)).collect();
                assert_eq!(of_key.is_empty(), !shape.seen().contains(&j), "{case:?}, key {j}");
                if !of_key.is_empty() {
                    assert_eq!(of_key, shape.queries_of(j).collect::<Vec<_>>(), "{case:?}, key {j}");
                }
            }
        }
    }

    /// Three batch entries of other ratios were too much work for a virtual GPU, so a kernel that lost the key of a last tile of one row
    /// was called right.
    #[test]
    fn one_hidden_shape_has_one_row_more_and_little_work() {
        let limits = CheckLimits { flop: 1e7, bytes: 2e6 };
        for case in [shared(dims(1, 8, 256, 256, 64, 1), 2), shared(dims(2, 32, 256, 256, 128, 1), 8)] {
            for seed in 0..20 {
                let all = Attention.hidden(&case, limits, seed);
                assert!(all[..8].iter().any(|other| other["Sq"] == 257 && other["Sk"] == 257), "{all:?}");
            }
        }
    }

    /// The shapes of a few seeds include odd ones, ones of every divisibility that kernels depend on, many heads, and
    /// more rows than 16 bits can index.
    #[test]
    fn hidden_shapes_vary_parity_divisibility_heads_and_size() {
        let large = CheckLimits { flop: 4e9, bytes: 1e8 };
        let case = dims(1, 1, 64, 64, 64, 1);
        let all: Vec<Dims> = (0..5).flat_map(|seed| Attention.hidden(&case, large, seed)).collect();
        let some = |what: &str, is: &dyn Fn(&Dims) -> bool| assert!(all.iter().any(is), "{what}");
        some("an odd length", &|d| d["Sq"] % 2 == 1 && d["Sk"] % 2 == 1);
        for factor in [2, 8, 16, 64] {
            some("a multiple and no larger one", &|d| d["Sk"] % factor == 0 && d["Sk"] / factor % 2 == 1);
        }
        some("more keys than queries", &|d| d["Sk"] > d["Sq"] && d["Sq"] > 1);
        some("a single query", &|d| d["Sq"] == 1);
        some("an odd batch", &|d| d["B"] % 2 == 1 && d["B"] > 4);
        some("more keys than FP16 counts", &|d| d["Sk"] > 2048);
        some("a short head", &|d| d["Sk"] < 32);
        some("another head dimension", &|d| d["D"] != 64);
        some("no mask", &|d| d["CAUSAL"] == 0);
        some("many heads", &|d| d["B"] * d["H"] > 40);
        some("more rows than 16 bits count", &|d| d["B"] * d["H"] * d["Sk"] > 1 << 16);
        some("more elements in a head than 16 bits count", &|d| d["Sk"] * d["D"] > 1 << 16);
    }

    /// FlashAttention's convention: 4·B·H·S²·D, half of it (plus the diagonal) when causal.
    /// Decoding with a window was taken for a cheat: it took less time than reading all keys.
    #[test]
    fn keys_that_no_query_sees_need_not_be_read() {
        let bytes = |dims: &Dims| Attention.bytes(dims, Dtype::Bf16);
        let decoding = shared(dims(8, 32, 1, 16384, 128, 1), 8);
        let in_window = scored(decoding.clone(), 4096, 0, 0);
        let of_keys = 2.0 * 2.0 * f64::from(8 * 8 * (16384 - 4096) * 128);
        assert_eq!(bytes(&decoding) - bytes(&in_window), of_keys);
        let (prefill, with_window) = (dims(1, 2, 512, 512, 64, 1), scored(dims(1, 2, 512, 512, 64, 1), 64, 0, 0));
        assert_eq!(bytes(&prefill), bytes(&with_window), "some query sees each key");
    }

    #[test]
    fn the_work_is_counted_by_visible_pairs() {
        assert_eq!(Attention.flop(&dims(8, 8, 128, 128, 64, 0)), 4.0 * 64.0 * 128.0 * 128.0 * 64.0);
        assert_eq!(Attention.flop(&dims(8, 8, 128, 128, 64, 1)), 4.0 * 64.0 * (128.0 * 129.0 / 2.0) * 64.0);
    }
}
