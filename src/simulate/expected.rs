//! What random search without replacement reaches, computed exactly: the baseline of the score.

use crate::spaces::RecordedSpace;

/// The lower quartile, the median and the upper quartile.
pub(super) type Quartiles = [f64; 3];

/// The distribution of the best time that random search has found after each number of evaluations.
///
/// A configuration that fails counts as the slowest one that works.
pub struct Expected {
    /// All times in nanoseconds, in increasing order.
    pub(super) times_ns: Vec<f64>,
    /// The expected best time in nanoseconds, after 1, 2, 3... evaluations.
    pub(super) mean_ns: Vec<f64>,
    pub(super) quartiles_ns: Vec<Quartiles>,
}

impl Expected {
    /// Computes the distribution for up to `evaluations` evaluations.
    pub fn of(space: &RecordedSpace, evaluations: usize) -> Self {
        let mut times_ns = space.sorted_times_ns();
        let slowest_ns = times_ns[times_ns.len() - 1];
        times_ns.resize(space.configurations.len(), slowest_ns);
        let (mut mean_ns, mut quartiles_ns) = (Vec::new(), Vec::new());
        for draws in 1..=evaluations.min(times_ns.len()) {
            let (mean, quartiles) = after(&times_ns, draws);
            mean_ns.push(mean);
            quartiles_ns.push(quartiles);
        }
        Self { times_ns, mean_ns, quartiles_ns }
    }

    /// Returns the expected best time in nanoseconds after 1, 2, 3... evaluations, up to the size of the space.
    pub fn mean_ns(&self) -> &[f64] {
        &self.mean_ns
    }

    /// Returns the slowest time in nanoseconds, which stands for that of a failure.
    pub fn slowest_ns(&self) -> f64 {
        self.times_ns[self.times_ns.len() - 1]
    }
}

/// Returns the mean and the quartiles of the best of `draws` different times.
fn after(times_ns: &[f64], draws: usize) -> (f64, Quartiles) {
    let (mut mean, mut quartiles) = (0.0, [times_ns[times_ns.len() - 1]; 3]);
    let mut open = [0.25, 0.5, 0.75].into_iter().enumerate().peekable();
    let survival: Vec<f64> = survival(times_ns.len(), draws).collect();
    for (rank, time_ns) in times_ns.iter().enumerate() {
        mean += time_ns * (survival[rank] - survival[rank + 1]);
        while let Some((place, _)) = open.next_if(|(_, share)| 1.0 - survival[rank + 1] >= *share) {
            quartiles[place] = *time_ns;
        }
    }
    (mean, quartiles)
}

/// Returns the probability that none of the best 0, 1, 2... of `count` configurations is among `draws` different ones.
pub(super) fn survival(count: usize, draws: usize) -> impl Iterator<Item = f64> {
    let next = move |(rank, probability): (usize, f64)| {
        let left = (count - rank) as f64;
        (rank + 1, probability * (left - draws as f64).max(0.0) / left)
    };
    let all = std::iter::successors(Some((0, 1.0)), move |state| (state.0 < count).then(|| next(*state)));
    all.map(|(_, probability)| probability)
}
