//! Inputs and sizes of layers of experts that a workload does not name.

use std::sync::LazyLock;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::{GroupedLinear, Shape, products};
use crate::domain::op::{Change, Dims, Dtype, Probe, Probed, TensorSpec, Values};
use crate::ops::product::{self, Matrices, Product};

/// Every probe: those of all products, and one of the rows of experts.
pub static PROBES: LazyLock<Vec<Probe>> = LazyLock::new(|| {
    let own = [Probe {
        name: "experts with none or all of the rows",
        change: Change::Contents { is_of: has_borders, fill: uneven },
    }];
    product::probes::<GroupedLinear>().into_iter().chain(own).collect()
});

/// The most weights that probes change. Others keep what they have, and x alone is changed.
const MOST_WEIGHTS: usize = 1 << 24;

impl Product for GroupedLinear {
    /// The columns of all experts lie beside each other in the second matrix.
    fn change(dims: &Dims, inputs: &mut [Vec<f32>], change: impl FnOnce(&mut Matrices<'_>) -> Probed) -> Probed {
        let shape = Shape::of(dims);
        let [x, weights @ ..] = inputs else { return Probed::default() };
        let (k, m) = (shape.k, x.len() / shape.k);
        let columns = shape.experts * shape.n;
        let n = columns * products(dims);
        if n * k > MOST_WEIGHTS {
            return change(&mut Matrices { a: x, b: &mut vec![1.0; k], k, n: 1, m });
        }
        let place = |column: usize, term: usize| {
            let of_one = column % columns;
            (column / columns, shape.place(of_one / shape.n, of_one % shape.n, term))
        };
        let mut b = vec![0.0; n * k];
        for (at, number) in b.iter_mut().enumerate() {
            let (product, from) = place(at % n, at / n);
            *number = weights[product][from];
        }
        let probed = change(&mut Matrices { a: x, b: &mut b, k, n, m });
        for (at, number) in b.iter().enumerate() {
            let (product, to) = place(at % n, at / n);
            weights[product][to] = *number;
        }
        probed
    }
}

fn has_borders(tensor: &TensorSpec) -> bool {
    matches!(tensor.values, Values::Borders(..))
}

/// One expert has all rows, or the rows are divided at random places, so that some experts have none.
fn uneven(tensor: &TensorSpec, values: &mut [f32], seed: u64) {
    let Values::Borders(_, total) = tensor.values else { return };
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut borders: Vec<i64> = if rng.random() {
        let owner = rng.random_range(1..values.len());
        (0..values.len()).map(|border| if border < owner { 0 } else { total }).collect()
    } else {
        (0..values.len()).map(|_| rng.random_range(0..=total)).collect()
    };
    borders.sort_unstable();
    borders[0] = 0;
    if let Some(last) = borders.last_mut() {
        *last = total;
    }
    values.iter_mut().zip(borders).for_each(|(value, border)| Dtype::I32.keep(border, std::slice::from_mut(value)));
}

/// Draws sizes that no workload names: odd ones and multiples of small numbers, with fewer rows than experts, and with many.
pub fn hidden(dims: &Dims, most: &[(&str, i64)], seed: u64) -> Vec<Dims> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let of_one = |factor: i64, rng: &mut SmallRng| {
        let mut other = dims.clone();
        for (name, most) in most {
            let most = dims[*name].min(*most).max(16);
            let factor = if matches!(*name, "N" | "K") { factor } else { 1 };
            other[*name] = (rng.random_range(1..=(most / factor).max(1))) * factor;
        }
        if let Some(least) = other.get("SHORTEST") {
            let least = *least;
            other["SHORTEST"] = rng.random_range(0..=least.min(other["M"] / other["EXPERTS"]));
        }
        other
    };
    let factors = [8, 64, 1, 16, 8, 32, 8, 2, 8, 128];
    let mut all: Vec<Dims> = factors.into_iter().map(|factor| of_one(factor, &mut rng)).collect();
    // More rows for each expert than a tile has, and a last tile with one row.
    let mut long = of_one(8, &mut rng);
    long["M"] = 2 * 257;
    long["EXPERTS"] = 2;
    if long.contains_key("SHORTEST") {
        long["SHORTEST"] = 257;
    }
    all.insert(0, long);
    all
}
