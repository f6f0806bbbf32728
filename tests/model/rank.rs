//! Measures how well one list of numbers ranks another.

/// Returns Spearman's rank correlation of two lists; equal numbers share their average rank.
pub fn spearman(a: &[f64], b: &[f64]) -> f64 {
    let (a, b) = (ranks(a), ranks(b));
    let mean = (a.len() as f64 - 1.0) / 2.0;
    let covariance = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| (x - mean) * (y - mean)).sum::<f64>();
    covariance(&a, &b) / (covariance(&a, &a) * covariance(&b, &b)).sqrt()
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let below = |value: f64| values.iter().filter(|other| **other < value).count() as f64;
    let equal = |value: f64| values.iter().filter(|other| **other == value).count() as f64;
    values.iter().map(|value| below(*value) + (equal(*value) - 1.0) / 2.0).collect()
}

/// Returns how much slower the best of the first `n` by `modelled` is than the best of all; 0 if they are the same.
pub fn regret(modelled: &[f64], measured: &[f64], n: usize) -> f64 {
    let mut order: Vec<usize> = (0..modelled.len()).collect();
    order.sort_by(|a, b| modelled[*a].total_cmp(&modelled[*b]));
    let least = |indices: &mut dyn Iterator<Item = usize>| indices.map(|i| measured[i]).fold(f64::INFINITY, f64::min);
    least(&mut order.iter().copied().take(n)) / least(&mut (0..measured.len())) - 1.0
}

/// Returns the median.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn ranks_agree_disagree_and_tie() {
    assert_eq!(spearman(&[1.0, 2.0, 3.0], &[10.0, 20.0, 90.0]), 1.0);
    assert_eq!(spearman(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]), -1.0);
    assert!((spearman(&[1.0, 1.0, 2.0], &[1.0, 2.0, 3.0]) - 0.866).abs() < 1e-3);
}

#[test]
fn regret_considers_the_models_first_choices() {
    assert_eq!(regret(&[1.0, 2.0, 3.0], &[30.0, 20.0, 10.0], 2), 1.0);
    assert_eq!(regret(&[1.0, 2.0, 3.0], &[30.0, 20.0, 10.0], 3), 0.0);
}
