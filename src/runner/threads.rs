//! Loops over elements: on the calling thread if they are short, on all cores if they are long.
//!
//! While a session runs, compilers fill all cores, so other threads have to wait for one (docs/measuring).

use rayon::prelude::*;

/// The elements from which other threads are woken. One core compares so many with an oracle in 6 to 11 ms. Other values were
/// not tried on a machine with a GPU.
const MIN_ELEMENTS: usize = 1 << 21;

/// Returns what a function returns for each of `count` places, which have so many `elements` in all.
pub fn map<T: Send>(count: usize, elements: usize, of: impl Fn(usize) -> T + Sync + Send) -> Vec<T> {
    if elements < MIN_ELEMENTS { (0..count).map(of).collect() } else { (0..count).into_par_iter().map(of).collect() }
}

/// Tells whether a function holds of each of `count` places, which have so many `elements` in all.
pub fn all(count: usize, elements: usize, is: impl Fn(usize) -> bool + Sync + Send) -> bool {
    if elements < MIN_ELEMENTS { (0..count).all(is) } else { (0..count).into_par_iter().all(is) }
}

/// Has a function fill each chunk of so many values. The last chunk may be shorter.
pub fn fill<T: Send>(values: &mut [T], chunk: usize, with: impl Fn(usize, &mut [T]) + Sync + Send) {
    if values.len() < MIN_ELEMENTS {
        values.chunks_mut(chunk).enumerate().for_each(|(place, values)| with(place, values));
    } else {
        values.par_chunks_mut(chunk).enumerate().for_each(|(place, values)| with(place, values));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_loops_visit_each_place_once() {
        for elements in [1000, MIN_ELEMENTS] {
            let count = elements.div_ceil(300);
            let mut values = vec![0; elements];
            fill(&mut values, 300, |place, values| values.iter_mut().for_each(|value| *value += place + 1));
            assert_eq!(map(count, elements, |place| values[300 * place]), (1..=count).collect::<Vec<_>>());
            assert!(all(count, elements, |place| values[300 * place..]
                .iter()
                .take(300)
                .all(|value| *value == place + 1)));
            assert!(!all(count, elements, |place| place + 1 < count));
        }
    }
}
