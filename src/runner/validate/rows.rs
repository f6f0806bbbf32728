//! The rows of an output that are compared with the oracle.

use rand::Rng;
use rand::seq::index::sample;

/// The fewest rows to compare with the oracle.
pub(super) const MIN_ROWS: usize = 64;

/// The fewest rows to compare where the output must only be told from that of other inputs. Each row of 8,192 columns over 8,192
/// terms takes 0.13 GFLOP in float64.
pub(super) const FEW_ROWS: usize = 8;

/// The most elements to compare there, unless the fewest rows have more.
pub(super) const FEW_ELEMENTS: usize = 1 << 13;

/// The most elements to compare in a screening run, unless the fewest rows have more: a thousand rows of 64. Reading and comparing
/// ten million of them took longer than timing a kernel of 50 us (H200, 2026-11-29, `attention-fp16-models`).
pub(super) const SOME_ELEMENTS: usize = 1 << 16;

/// Chooses `wanted` of `count` rows at random in rising order, always with the first and the last.
pub(super) fn choose_rows(count: usize, wanted: usize, rng: &mut impl Rng) -> Vec<usize> {
    if wanted >= count {
        return (0..count).collect();
    }
    let mut rows = sample(rng, count, wanted).into_vec();
    rows.extend([0, count - 1]);
    rows.sort_unstable();
    rows.dedup();
    rows
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    use super::*;

    #[test]
    fn a_sample_of_rows_has_the_first_and_the_last() {
        let rows = choose_rows(10_000, 100, &mut SmallRng::seed_from_u64(5));
        assert!(rows.len() >= 100 && rows[0] == 0 && rows[rows.len() - 1] == 9_999);
        assert_eq!(choose_rows(10, 100, &mut SmallRng::seed_from_u64(5)).len(), 10);
    }
}
