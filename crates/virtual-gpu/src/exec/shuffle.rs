//! Random orders, determined by a seed.

/// A pseudo-random sequence (SplitMix64).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shuffle(u64);

impl Shuffle {
    /// Makes a sequence from a seed and a place.
    pub fn new(seed: u64, place: u64) -> Self {
        let mut shuffle = Self(seed);
        shuffle.0 = shuffle.next() ^ place;
        shuffle
    }

    /// Returns the next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ bits >> 31
    }

    /// Returns a number below `count`.
    pub fn below(&mut self, count: usize) -> usize {
        (self.next() % count.max(1) as u64) as usize
    }

    /// Puts items in random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in (1..items.len()).rev() {
            items.swap(index, self.below(index + 1));
        }
    }
}

/// An order of blocks that run side by side: index `i` runs as number `(i * step + first) % count`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Permutation {
    step: u64,
    first: u64,
    count: u64,
}

impl Permutation {
    /// Makes a random order, or the order of the grid.
    pub fn new(seed: Option<u64>, count: u64) -> Self {
        let Some(seed) = seed.filter(|_| count > 0) else { return Self { step: 1, first: 0, count } };
        let mut shuffle = Shuffle::new(seed, count);
        let (mut step, first) = (shuffle.next() % count, shuffle.next() % count);
        while greatest_divisor(step, count) != 1 {
            step = (step + 1) % count.max(2);
        }
        Self { step, first, count }
    }

    /// Returns the index that runs as this number.
    pub fn get(&self, number: u64) -> u64 {
        if number >= self.count {
            return number;
        }
        let wide = u128::from(number) * u128::from(self.step) + u128::from(self.first);
        (wide % u128::from(self.count)) as u64
    }
}

fn greatest_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_has_one_turn() {
        for (seed, count) in [(None, 5), (Some(1), 1), (Some(2), 2), (Some(3), 97), (Some(4), 1000)] {
            let order = Permutation::new(seed, count);
            let mut blocks: Vec<u64> = (0..count).map(|number| order.get(number)).collect();
            assert!(count < 10 || blocks.is_sorted() == seed.is_none());
            blocks.sort_unstable();
            assert!(blocks.into_iter().eq(0..count), "{seed:?}, {count}");
        }
    }
}
