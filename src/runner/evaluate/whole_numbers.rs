//! A probe of inputs that hold whole numbers.
//!
//! Random ones are spread evenly over their range, so a counter of a few bits, or a maximum that begins at zero, would not be
//! noticed.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::domain::op::{Change, Probe, TensorSpec, Values};
use crate::ops::draw::log_uniform_count;

/// Runs of the smallest, of the largest and of some other number of the range. Most of them are longer than a row.
pub const WHOLE_NUMBERS: Probe = Probe { name: "runs of equal whole numbers", change: Change::WholeNumbers(fill) };

fn fill(tensor: &TensorSpec, values: &mut [f32], seed: u64) {
    let Values::Integers(from, to) = tensor.values else { return };
    let mut rng = SmallRng::seed_from_u64(seed);
    let slots = tensor.dtype.slots();
    let longest = tensor.elements().max(1);
    let mut rest = values;
    while !rest.is_empty() {
        let length = log_uniform_count(&mut rng, longest) * slots;
        let (run, after) = rest.split_at_mut(length.min(rest.len()));
        let number = match rng.random_range(0..3) {
            0 => from,
            1 => to,
            _ => rng.random_range(from..=to),
        };
        run.chunks_exact_mut(slots).for_each(|element| tensor.dtype.keep(number, element));
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::op::{Dtype, TensorRole};

    #[test]
    fn rows_often_have_only_the_smallest_or_the_largest_number() {
        let (shape, values) = (vec![100, 512], Values::Integers(-128, 127));
        let tensor = TensorSpec { name: "x".to_owned(), dtype: Dtype::I8, shape, role: TensorRole::Input, values };
        let mut found = [0; 2];
        for seed in 0..20 {
            let mut drawn = vec![0.0; tensor.elements()];
            fill(&tensor, &mut drawn, seed);
            assert!(drawn.iter().all(|x| (-128.0..=127.0).contains(x)));
            let is_all = |number: f32| drawn.chunks(512).any(|row| row.iter().all(|x| *x == number));
            found = [found[0] + u32::from(is_all(-128.0)), found[1] + u32::from(is_all(127.0))];
        }
        assert!(found.iter().all(|count| *count > 10), "{found:?}");
    }
}
