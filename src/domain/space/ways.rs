//! The changes of one or two parameters that could make room for a value, the smallest first. They are made one at a time:
//! a space with thousands of values has millions of them, and few are asked for.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Another value of a parameter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct OtherValue {
    /// How far it is away.
    pub far: f64,
    /// The place of the parameter in the manifest.
    pub parameter: usize,
    /// The value.
    pub value: i64,
}

/// Other values of one or of two parameters, in the order of their distances' sums. At equal distance, one changed
/// parameter comes before two, and what comes first in the manifest before the rest.
pub(super) struct Ways {
    /// The values, the nearest first, with their places in the manifest's order.
    values: Vec<(OtherValue, usize)>,
    /// For each value, where the run of values of the same parameter ends.
    run_end: Vec<usize>,
    /// How many values were returned alone.
    alone: usize,
    /// The next pair of each value with a later one.
    pairs: BinaryHeap<Reverse<Pair>>,
}

/// Two values, by their places among the sorted ones.
#[derive(Debug, PartialEq)]
struct Pair {
    far: f64,
    /// Their places in the manifest's order, the lower first.
    places: (usize, usize),
    first: usize,
    second: usize,
}

impl Eq for Pair {}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Pair {
    fn cmp(&self, other: &Self) -> Ordering {
        self.far.total_cmp(&other.far).then(self.places.cmp(&other.places))
    }
}

impl Ways {
    /// Makes the changes from all other values, in the manifest's order.
    pub fn of(values: impl Iterator<Item = OtherValue>) -> Self {
        let mut values: Vec<(OtherValue, usize)> = values.enumerate().map(|(place, value)| (value, place)).collect();
        values.sort_by(|(a, _), (b, _)| a.far.total_cmp(&b.far));
        let mut run_end = vec![values.len(); values.len()];
        for at in (1..values.len()).rev() {
            let is_same = values[at - 1].0.parameter == values[at].0.parameter;
            run_end[at - 1] = if is_same { run_end[at] } else { at };
        }
        let mut ways = Self { values, run_end, alone: 0, pairs: BinaryHeap::new() };
        ways.pairs = (0..ways.values.len()).filter_map(|first| ways.pair(first, first).map(Reverse)).collect();
        ways
    }

    /// Returns the next pair of a value with one of another parameter.
    fn pair(&self, first: usize, after: usize) -> Option<Pair> {
        let next = after + 1;
        let (a, a_place) = self.values[first];
        let second = if self.values.get(next)?.0.parameter == a.parameter { self.run_end[next] } else { next };
        let (b, b_place) = *self.values.get(second)?;
        let places = (a_place.min(b_place), a_place.max(b_place));
        Some(Pair { far: a.far + b.far, places, first, second })
    }
}

impl Iterator for Ways {
    type Item = Vec<OtherValue>;

    fn next(&mut self) -> Option<Self::Item> {
        let alone = self.values.get(self.alone).map(|(value, _)| *value);
        match (alone, self.pairs.peek()) {
            (Some(value), pair) if pair.is_none_or(|Reverse(pair)| value.far.total_cmp(&pair.far).is_le()) => {
                self.alone += 1;
                Some(vec![value])
            }
            _ => {
                let Reverse(pair) = self.pairs.pop()?;
                self.pairs.extend(self.pair(pair.first, pair.second).map(Reverse));
                Some(vec![self.values[pair.first].0, self.values[pair.second].0])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order is that of sorting all of them, without making all of them.
    #[test]
    fn changes_come_in_the_order_of_their_distances() {
        let shares = [[0.5, 0.25, 0.25], [0.1, 0.2, 0.3], [0.25, 0.25, 0.75], [0.1, 0.1, 0.1]];
        let values = || {
            let of_one = |(parameter, shares): (usize, &[f64; 3])| {
                (0..3).zip(*shares).map(move |(value, far)| OtherValue { far, parameter, value }).collect::<Vec<_>>()
            };
            shares.iter().enumerate().flat_map(of_one).collect::<Vec<_>>()
        };
        let all = values();
        let mut sorted: Vec<Vec<OtherValue>> = all.iter().map(|value| vec![*value]).collect();
        for (place, first) in all.iter().enumerate() {
            let others = all[place + 1..].iter().filter(|second| second.parameter != first.parameter);
            sorted.extend(others.map(|second| vec![*first, *second]));
        }
        sorted.sort_by(|a, b| far(a).total_cmp(&far(b)));
        let lazily = Ways::of(values().into_iter()).map(|mut way| {
            way.sort_by_key(|value| value.parameter);
            way
        });
        assert_eq!(lazily.collect::<Vec<_>>(), sorted);
    }

    fn far(way: &[OtherValue]) -> f64 {
        way.iter().map(|value| value.far).sum()
    }

    /// All pairs of these would take terabytes.
    #[test]
    fn a_million_values_take_no_more_memory_than_the_values() {
        let values = (0..1_000_000).map(|at| OtherValue { far: f64::from(at), parameter: at as usize % 2, value: 0 });
        let mut ways = Ways::of(values);
        assert_eq!(ways.by_ref().take(600).count(), 600);
        assert!(ways.pairs.len() <= 1_000_000);
    }
}
