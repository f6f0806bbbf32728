//! A row of scaled dot-product attention in float64.

/// Returns the scores of a query of `d` elements with the first `visible` keys.
pub fn scores(q: &[f32], k: &[f32], d: usize, visible: usize) -> Vec<f64> {
    let scale = 1.0 / (d as f64).sqrt();
    k.chunks_exact(d).take(visible).map(|key| dot(q, key) * scale).collect()
}

/// Returns the weights of scores, relative to the largest weight, and their sum.
pub fn weights(scores: &[f64]) -> (Vec<f64>, f64) {
    let highest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = scores.iter().map(|score| (score - highest).exp()).collect();
    let total = weights.iter().sum();
    (weights, total)
}

/// Adds the output of a query that sees the first `visible` of its head's keys and values to `out`.
pub fn row(q: &[f32], k: &[f32], v: &[f32], visible: usize, out: &mut [f64]) {
    let d = out.len();
    let (weights, total) = weights(&scores(q, k, d, visible));
    for (weight, value) in weights.iter().zip(v.chunks_exact(d)) {
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
