//! A ratio of two times.

use serde::Serialize;

/// A time over the best variant's. Above 1, the best variant is faster.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ratio {
    /// The estimate.
    pub estimate: f64,
    /// Lower end of its 95% interval. Null if a side that was timed alone has too few samples.
    pub lo: Option<f64>,
    /// Upper end.
    pub hi: Option<f64>,
    /// Whether one run sampled both in turns. If not, changes of the machine in between are in the estimate and not in
    /// the interval.
    pub paired: bool,
}
