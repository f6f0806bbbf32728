//! Machines with the noise of real ones, for tests of the rules. Everything is seeded.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, StandardNormal};

/// Returns how often a test repeats something random: `few` times in the gate, and `all` times in scripts/nightly.
pub fn repeats<T>(few: T, all: T) -> T {
    if std::env::var_os("OPTLOOP_TESTS").is_some_and(|which| which == "all") { all } else { few }
}

/// Duration of a sample in nanoseconds. It matters only for the clock that reads it.
pub const SAMPLE_NS: f64 = 200_000.0;

/// The noise of a machine. Each field is 0 by default.
#[derive(Debug, Clone, Copy, Default)]
pub struct Noise {
    /// Standard deviation of a sample, as a share of the sample.
    pub white: f64,
    /// By what share samples get slower over a thousand of them, as clocks sink.
    pub drift: f64,
    /// Share of samples that take 5 to 50 times as long.
    pub outliers: f64,
    /// By what share the slower of two clock states is slower. The state changes every 300 samples on average.
    pub modes: f64,
    /// Step of the clock that reads a sample, in nanoseconds.
    pub tick_ns: f64,
}

impl Noise {
    /// A quiet machine: graph replays on a GPU that runs nothing else.
    pub const WHITE: Self = Self { white: 0.005, drift: 0.0, outliers: 0.0, modes: 0.0, tick_ns: 0.0 };
    /// The clocks sink by 3% over the 1,500 samples of a comparison of three.
    pub const DRIFT: Self = Self { drift: 0.02, ..Self::WHITE };
    /// One sample in a hundred is far off.
    pub const OUTLIERS: Self = Self { outliers: 0.01, ..Self::WHITE };
    /// The clock has two states, 8% apart.
    pub const BIMODAL: Self = Self { modes: 0.08, ..Self::WHITE };
    /// The timer has steps of half a microsecond.
    pub const QUANTISED: Self = Self { tick_ns: 500.0, ..Self::WHITE };
    /// All of these at once.
    pub const ALL: Self = Self { white: 0.005, drift: 0.02, outliers: 0.01, modes: 0.08, tick_ns: 500.0 };

    /// Every kind of noise, with a name for messages of failing tests.
    pub const KINDS: [(&str, Self); 6] = [
        ("white", Self::WHITE),
        ("drift", Self::DRIFT),
        ("outliers", Self::OUTLIERS),
        ("bimodal", Self::BIMODAL),
        ("quantised", Self::QUANTISED),
        ("all", Self::ALL),
    ];
}

/// A machine that takes samples with noise.
pub struct Machine {
    noise: Noise,
    rng: SmallRng,
    taken: usize,
    slow: bool,
}

impl Machine {
    /// Makes a machine.
    pub fn new(noise: Noise, seed: u64) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let slow = rng.random_bool(0.5);
        Self { noise, rng, taken: 0, slow }
    }

    /// Takes one sample of a kernel that takes `ns` without noise.
    pub fn sample(&mut self, ns: f64) -> f64 {
        let Noise { white, drift, outliers, modes, tick_ns } = self.noise;
        self.slow ^= self.rng.random_bool(1.0 / 300.0);
        let normal: f64 = StandardNormal.sample(&mut self.rng);
        let mut factor = (1.0 + white * normal) * (1.0 + drift * self.taken as f64 / 1000.0);
        if self.slow {
            factor *= 1.0 + modes;
        }
        if self.rng.random_bool(outliers) {
            factor *= self.rng.random_range(5.0..50.0);
        }
        self.taken += 1;
        if tick_ns > 0.0 {
            factor = (factor * SAMPLE_NS / tick_ns).round() * tick_ns / SAMPLE_NS;
        }
        ns * factor
    }

    /// Takes many samples of one kernel.
    pub fn samples(&mut self, ns: f64, count: usize) -> Vec<f64> {
        (0..count).map(|_| self.sample(ns)).collect()
    }
}
