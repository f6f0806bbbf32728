//! A row of scaled dot-product attention in float64.

/// Returns the scores of a query of `d` elements with keys. With a `cap` c above 0, a score s becomes c tanh(s / c).
pub fn scores(q: &[f32], k: &[f32], d: usize, cap: f64) -> Vec<f64> {
    let scale = 1.0 / (d as f64).sqrt();
    let score = |key: &[f32]| dot(q, key) * scale;
    if cap > 0.0 {
        k.chunks_exact(d).map(|key| cap * (score(key) / cap).tanh()).collect()
    } else {
        k.chunks_exact(d).map(score).collect()
    }
}

/// Returns the weights of scores, relative to the largest weight, and their sum. A `sink` is one more score, whose weight counts in
/// the sum only.
pub fn weights(scores: &[f64], sink: Option<f64>) -> (Vec<f64>, f64) {
    let highest = scores.iter().copied().chain(sink).fold(f64::NEG_INFINITY, f64::max);
    let weight = |score: f64| (score - highest).exp();
    let weights: Vec<f64> = scores.iter().copied().map(weight).collect();
    let total = weights.iter().copied().chain(sink.map(weight)).sum();
    (weights, total)
}

/// Returns the logarithm of the sum of the exponentials of scores, with that of a `sink`. Minus infinity for none.
pub fn log_sum(scores: &[f64], sink: Option<f64>) -> f64 {
    let all = || scores.iter().copied().chain(sink);
    if all().all(|score| score == f64::NEG_INFINITY) {
        return f64::NEG_INFINITY;
    }
    let highest = all().fold(f64::NEG_INFINITY, f64::max);
    highest + all().map(|score| (score - highest).exp()).sum::<f64>().ln()
}

/// Adds the values times their weights, divided by the sum of weights, to `out`.
pub fn add_values(weights: &[f64], total: f64, v: &[f32], out: &mut [f64]) {
    for (weight, value) in weights.iter().zip(v.chunks_exact(out.len())) {
        let weight = weight / total;
        for (out, value) in out.iter_mut().zip(value) {
            *out += weight * f64::from(*value);
        }
    }
}

/// Returns the sums of the values' absolute elements, each value times its factor.
pub fn absolute_sums(factors: &[f64], v: &[f32], d: usize) -> Vec<f64> {
    let mut sums = vec![0.0; d];
    for (factor, value) in factors.iter().zip(v.chunks_exact(d)) {
        sums.iter_mut().zip(value).for_each(|(sum, value)| *sum += factor * f64::from(value.abs()));
    }
    sums
}

/// Computes a dot product in float64. The eight strands let the compiler use vector instructions.
fn dot(a: &[f32], b: &[f32]) -> f64 {
    let mut strands = [0.0_f64; 8];
    let (a_chunks, b_chunks) = (a.chunks_exact(8), b.chunks_exact(8));
    let tail: f64 =
        a_chunks.remainder().iter().zip(b_chunks.remainder()).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
    for (a, b) in a_chunks.zip(b_chunks) {
        for lane in 0..8 {
            strands[lane] += f64::from(a[lane]) * f64::from(b[lane]);
        }
    }
    strands.iter().sum::<f64>() + tail
}
