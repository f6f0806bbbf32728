//! Symmetric linear systems, and the covariance of a Gaussian process.

/// The covariance of two points under Matérn 5/2, in units of the variance. The lengths of the dimensions come as their inverses
/// (Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, equation 4.17).
pub fn matern(inverse: &[f64], a: &[f64], b: &[f64]) -> f64 {
    let square: f64 = a.iter().zip(b).zip(inverse).map(|((a, b), inverse)| ((a - b) * inverse).powi(2)).sum();
    let scaled = (5.0 * square).sqrt();
    (1.0 + scaled + scaled * scaled / 3.0) * (-scaled).exp()
}

/// Returns the lower triangle of the points' covariances, with `noise` added to the diagonal.
pub fn covariances(inverse: &[f64], points: &[Vec<f64>], noise: f64) -> Vec<Vec<f64>> {
    let row = |(i, point): (usize, &Vec<f64>)| {
        let mut row: Vec<f64> = points[..=i].iter().map(|other| matern(inverse, point, other)).collect();
        row[i] += noise;
        row
    };
    points.iter().enumerate().map(row).collect()
}

/// Replaces the lower triangle of a symmetric matrix by its Cholesky factor. None if the matrix is not definite.
pub fn cholesky(mut rows: Vec<Vec<f64>>) -> Option<Vec<Vec<f64>>> {
    for i in 0..rows.len() {
        let (above, below) = rows.split_at_mut(i);
        let row = &mut below[0];
        for j in 0..i {
            row[j] = (row[j] - dot(&row[..j], &above[j][..j])) / above[j][j];
        }
        let pivot = row[i] - dot(&row[..i], &row[..i]);
        row[i] = (pivot > 0.0).then(|| pivot.sqrt())?;
    }
    Some(rows)
}

/// Solves `L x = b`.
pub fn solve(lower: &[Vec<f64>], mut b: Vec<f64>) -> Vec<f64> {
    for i in 0..b.len() {
        b[i] = (b[i] - dot(&lower[i][..i], &b[..i])) / lower[i][i];
    }
    b
}

/// Solves `transpose(L) x = b`.
pub fn solve_transposed(lower: &[Vec<f64>], mut b: Vec<f64>) -> Vec<f64> {
    for i in (0..b.len()).rev() {
        b[i] /= lower[i][i];
        let x = b[i];
        for (value, l) in b[..i].iter_mut().zip(&lower[i][..i]) {
            *value -= l * x;
        }
    }
    b
}

/// What a Gaussian process knows.
pub struct Process<'a> {
    /// The inverse of each length.
    pub inverse: &'a [f64],
    /// The observed points.
    pub points: &'a [Vec<f64>],
    /// The lower triangle of the Cholesky factor of their covariance.
    pub cholesky: &'a [Vec<f64>],
    /// The covariance's inverse times the targets.
    pub weights: &'a [f64],
}

/// Points whose expectations are computed together: what they need fits into the processor's nearest cache.
pub const TOGETHER: usize = 32;

impl Process<'_> {
    /// Returns the expected target of each of at most [`TOGETHER`] points, and the share of its variance that the observations
    /// explain.
    pub fn expect(&self, points: &[&[f64]]) -> Vec<(f64, f64)> {
        let mut means = [0.0; TOGETHER];
        let mut explained = [0.0; TOGETHER];
        // Row by row of the factor's inverse times the covariances, for all points.
        let mut solved: Vec<[f64; TOGETHER]> = Vec::with_capacity(self.cholesky.len());
        for ((known, row), weight) in self.points.iter().zip(self.cholesky).zip(self.weights) {
            let mut near = [0.0; TOGETHER];
            near.iter_mut().zip(points).for_each(|(near, point)| *near = matern(self.inverse, known, point));
            means.iter_mut().zip(&near).for_each(|(mean, near)| *mean += near * weight);
            for (l, above) in row.iter().zip(&solved) {
                near.iter_mut().zip(above).for_each(|(near, above)| *near -= l * above);
            }
            let pivot = row[solved.len()];
            for (near, explained) in near.iter_mut().zip(&mut explained) {
                *near /= pivot;
                *explained += *near * *near;
            }
            solved.push(near);
        }
        means.into_iter().zip(explained).take(points.len()).collect()
    }
}

/// Returns the scalar product. Eight sums at once, because the processor can add them side by side.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (eights_a, eights_b) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f64 = eights_a.remainder().iter().zip(eights_b.remainder()).map(|(a, b)| a * b).sum();
    let mut sums = [0.0; 8];
    for (a, b) in eights_a.zip(eights_b) {
        sums.iter_mut().zip(a.iter().zip(b)).for_each(|(sum, (a, b))| *sum += a * b);
    }
    rest + sums.iter().sum::<f64>()
}
