//! What each option of a choice has gained so far, and what it has cost.

use std::collections::HashMap;
use std::hash::Hash;

/// The share of the past that remains after each attempt. Its half-life is about 35 attempts: what gained early may be
/// spent by now.
const KEPT: f64 = 0.98;

/// Gains and costs of options, such as proposers or cases. Gains have any unit that adds up, and costs are seconds of the
/// device.
pub(super) struct Yields<K> {
    of: HashMap<K, Yield>,
    all: Yield,
    /// The attempts for which an option is taken to gain as much as all do on average. The first gain of a session is
    /// often luck.
    trust: f64,
}

#[derive(Default, Clone, Copy)]
struct Yield {
    gain: f64,
    cost: f64,
    attempts: f64,
}

impl<K: Eq + Hash + Clone> Yields<K> {
    /// Starts without a past. Each option is taken to gain as much as all do on average for `trust` attempts.
    pub fn new(trust: f64) -> Self {
        Self { of: HashMap::new(), all: Yield::default(), trust }
    }

    /// Records the result of an attempt.
    pub fn record(&mut self, option: &K, gain: f64, cost: f64) {
        for past in self.of.values_mut().chain([&mut self.all]) {
            past.gain *= KEPT;
            past.cost *= KEPT;
            past.attempts *= KEPT;
        }
        let own = self.of.entry(option.clone()).or_default();
        for past in [own, &mut self.all] {
            past.gain += gain;
            past.cost += cost;
            past.attempts += 1.0;
        }
    }

    /// Returns the gain per second of an option, as a multiple of the gain per second of all. 1 for an unknown option.
    /// Below 1 for every option that costs time while none gains.
    pub fn factor(&self, option: &K) -> f64 {
        let (own, all) = (self.of.get(option).copied().unwrap_or_default(), self.all);
        if all.attempts <= 0.0 || all.cost <= 0.0 {
            return 1.0;
        }
        let trusted_cost = self.trust * all.cost / all.attempts;
        let gained = if all.gain > 0.0 { own.gain * all.cost / all.gain } else { 0.0 };
        (trusted_cost + gained) / (trusted_cost + own.cost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_that_gains_more_per_second_gets_more() {
        let mut yields = Yields::new(8.0);
        assert_eq!(yields.factor(&"a"), 1.0);
        for _ in 0..10 {
            yields.record(&"a", 0.1, 1.0);
            yields.record(&"b", 0.1, 3.0);
        }
        assert!(yields.factor(&"a") > 1.2 && yields.factor(&"b") < 0.9);
        assert_eq!(yields.factor(&"new"), 1.0);
    }

    #[test]
    fn an_option_that_is_spent_gives_way_to_the_others() {
        let mut yields = Yields::new(8.0);
        (0..5).for_each(|_| yields.record(&"a", 0.1, 1.0));
        let before = yields.factor(&"a");
        for _ in 0..60 {
            yields.record(&"a", 0.0, 1.0);
            yields.record(&"b", 0.02, 1.0);
        }
        assert!(yields.factor(&"a") < 0.5 * yields.factor(&"b"), "{before} {}", yields.factor(&"a"));
    }
}
