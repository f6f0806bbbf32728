//! What the pictures of a report show, from a session's record.

mod distributions;
mod lineage;
mod progress;

pub(super) use distributions::of as distributions;
pub(super) use lineage::of as lineages;
pub(super) use progress::of as progress;

/// Chooses at most `most` values evenly, with the first and the last one.
fn evenly<T: Copy>(values: &[T], most: usize) -> Vec<T> {
    if values.len() <= most || most < 2 {
        return values[..values.len().min(most)].to_vec();
    }
    let last = values.len() - 1;
    (0..most).map(|place| values[(place * last) / (most - 1)]).collect()
}

/// Some of many values, chosen evenly without keeping the others.
struct Thinned<T> {
    kept: Vec<T>,
    /// One of so many values is kept.
    every: u64,
    /// How many values there were.
    count: u64,
    most: usize,
}

impl<T: Copy> Thinned<T> {
    fn new(most: usize) -> Self {
        Self { kept: Vec::new(), every: 1, count: 0, most }
    }

    fn push(&mut self, value: T) {
        if self.count.is_multiple_of(self.every) {
            self.kept.push(value);
        }
        self.count += 1;
        if self.kept.len() > 2 * self.most {
            let mut place = 0;
            self.kept.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            self.every *= 2;
        }
    }

    /// Returns at most as many values as asked for, in their order.
    fn some(&self) -> Vec<T> {
        evenly(&self.kept, self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_are_chosen_evenly_with_both_ends() {
        let values: Vec<u32> = (0..1001).collect();
        assert_eq!(evenly(&values, 5), [0, 250, 500, 750, 1000]);
        assert_eq!(evenly(&values[..3], 5), [0, 1, 2]);
        assert_eq!(evenly(&values[..0], 5), [0_u32; 0]);
        assert_eq!(evenly(&values, 1), [0]);
    }

    #[test]
    fn a_million_values_are_thinned_on_the_way() {
        let mut thinned = Thinned::new(4);
        (0..1_000_000_u32).for_each(|value| thinned.push(value));
        let some = thinned.some();
        assert_eq!((thinned.count, some.len(), some[0]), (1_000_000, 4, 0));
        assert!(thinned.kept.len() <= 8 && some[3] > 800_000 && some.is_sorted(), "{some:?}");
        let mut few = Thinned::new(4);
        (0..3).for_each(|value| few.push(value));
        assert_eq!(few.some(), [0, 1, 2]);
    }
}
