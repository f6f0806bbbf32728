//! A forest of extremely randomised trees over the configurations of one family on one case: the expected target of a
//! configuration, and how far the trees disagree.
//!
//! Each tree sees every observation and splits at random places of random features (Geurts et al., Extremely Randomized
//! Trees, 2006). Besides the parameters, the features are the products and quotients of any two: the number of threads
//! is a product of two parameters, and no single one of them tells it.

use rand::Rng;
use rand::rngs::SmallRng;

/// Trees of a forest. More trees make the same choices in more time.
const TREES: usize = 20;

/// The share of the features that a split chooses from.
const TRIED_SHARE: f64 = 0.3;

/// Added to the variance of a forest, in squared standard deviations of the times. Trees that agree may still be wrong.
const DOUBT: f64 = 0.01;

/// The deepest split. Only observations that are nearly equal need so many.
const MAX_DEPTH: usize = 24;

/// Trees that know their observations.
pub(super) struct Forest {
    trees: Vec<Vec<Node>>,
}

/// A node of a tree.
enum Node {
    /// Points whose feature is below the cut go left, to the next node. The others go to `right`.
    Split { feature: usize, cut: f64, right: usize },
    /// The mean target.
    Leaf(f64),
}

impl Forest {
    /// Grows a forest on features, one row for each observation, and targets. `smoothing` observations of the mean
    /// target are added to each leaf.
    pub fn grow(features: &[&[f64]], targets: &[f64], smoothing: f64, rng: &mut SmallRng) -> Self {
        let mean = targets.iter().sum::<f64>() / targets.len().max(1) as f64;
        let known = Known { features, targets, mean, smoothing };
        let grow = |_| {
            let mut tree = Vec::new();
            let mut rows: Vec<usize> = (0..targets.len()).collect();
            branch(&mut tree, &known, &mut rows, 0, rng);
            tree
        };
        Self { trees: (0..TREES).map(grow).collect() }
    }

    /// Returns the expected target of a configuration and its standard deviation.
    pub fn expect(&self, features: &[f64]) -> (f64, f64) {
        let (mut sum, mut squares) = (0.0, 0.0);
        for tree in &self.trees {
            let target = leaf(tree, features);
            sum += target;
            squares += target * target;
        }
        let count = self.trees.len() as f64;
        let mean = sum / count;
        (mean, ((squares / count - mean * mean).max(0.0) + DOUBT).sqrt())
    }
}

fn leaf(tree: &[Node], features: &[f64]) -> f64 {
    let mut place = 0;
    loop {
        match tree[place] {
            Node::Leaf(mean) => return mean,
            Node::Split { feature, cut, right } => place = if features[feature] < cut { place + 1 } else { right },
        }
    }
}

/// The observations that a forest grows on.
struct Known<'a> {
    features: &'a [&'a [f64]],
    targets: &'a [f64],
    mean: f64,
    smoothing: f64,
}

/// Adds the node of some rows to a tree, and all below it.
fn branch(tree: &mut Vec<Node>, known: &Known<'_>, rows: &mut [usize], depth: usize, rng: &mut SmallRng) {
    let Known { features, targets, mean, smoothing } = *known;
    let differ = rows.iter().any(|row| targets[*row] != targets[rows[0]]);
    let split = if differ && depth < MAX_DEPTH { best_split(features, targets, rows, rng) } else { None };
    let Some((feature, cut)) = split else {
        let sum: f64 = rows.iter().map(|row| targets[*row]).sum();
        tree.push(Node::Leaf((sum + smoothing * mean) / (rows.len() as f64 + smoothing)));
        return;
    };
    let mut left = 0;
    for place in 0..rows.len() {
        if features[rows[place]][feature] < cut {
            rows.swap(left, place);
            left += 1;
        }
    }
    let here = tree.len();
    tree.push(Node::Split { feature, cut, right: 0 });
    let (below, above) = rows.split_at_mut(left);
    branch(tree, known, below, depth + 1, rng);
    let next = tree.len();
    if let Node::Split { right, .. } = &mut tree[here] {
        *right = next;
    }
    branch(tree, known, above, depth + 1, rng);
}

/// Returns the best of some random splits: the feature and the cut that leave the least variance. None if the rows do
/// not differ.
fn best_split(features: &[&[f64]], targets: &[f64], rows: &[usize], rng: &mut SmallRng) -> Option<(usize, f64)> {
    let count = features.first().map_or(0, |row| row.len());
    if rows.len() < 2 || count == 0 {
        return None;
    }
    let mut best: Option<(f64, usize, f64)> = None;
    for _ in 0..(count as f64 * TRIED_SHARE).ceil() as usize {
        let feature = rng.random_range(0..count);
        let (mut lo, mut hi) = (f64::INFINITY, f64::NEG_INFINITY);
        for row in rows {
            lo = lo.min(features[*row][feature]);
            hi = hi.max(features[*row][feature]);
        }
        if lo >= hi {
            continue;
        }
        // Above the lowest value, so that neither side is empty.
        let cut = hi - (hi - lo) * rng.random::<f64>();
        let explained = explained(features, targets, rows, (feature, cut));
        if best.is_none_or(|(most, ..)| explained > most) {
            best = Some((explained, feature, cut));
        }
    }
    best.map(|(_, feature, cut)| (feature, cut)).filter(|(feature, cut)| {
        let below = rows.iter().filter(|row| features[**row][*feature] < *cut).count();
        0 < below && below < rows.len()
    })
}

/// Returns the part of the squares that the means of both sides of a split account for.
fn explained(features: &[&[f64]], targets: &[f64], rows: &[usize], (feature, cut): (usize, f64)) -> f64 {
    let (mut below, mut above) = ((0.0, 0.0), (0.0, 0.0));
    for row in rows {
        let side = if features[*row][feature] < cut { &mut below } else { &mut above };
        *side = (side.0 + targets[*row], side.1 + 1.0);
    }
    let part = |(sum, count): (f64, f64)| if count > 0.0 { sum * sum / count } else { 0.0 };
    part(below) + part(above)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn a_forest_knows_its_observations_and_is_unsure_between_them() {
        let mut rng = SmallRng::seed_from_u64(1);
        let rows: Vec<Vec<f64>> = (0..8).map(|x| vec![f64::from(x)]).collect();
        let features: Vec<&[f64]> = rows.iter().map(Vec::as_slice).collect();
        let targets: Vec<f64> = rows.iter().map(|row| if row[0] < 4.0 { -1.0 } else { 1.0 }).collect();
        let forest = Forest::grow(&features, &targets, 0.0, &mut rng);
        assert_eq!(forest.expect(&[1.0]).0, -1.0);
        assert_eq!(forest.expect(&[6.0]).0, 1.0);
        assert!(forest.expect(&[3.5]).1 > 2.0 * forest.expect(&[1.0]).1);
    }

    #[test]
    fn equal_observations_make_one_leaf() {
        let row = vec![2.0, 3.0];
        let forest = Forest::grow(&[&row, &row], &[1.0, 2.0], 0.0, &mut SmallRng::seed_from_u64(1));
        assert_eq!(forest.expect(&row).0, 1.5);
    }
}
