//! Whether the rest of the budget is worth spending.

use std::time::Duration;

use crate::session::meter::Time;
use crate::session::state::SessionState;

/// Variants that must have been timed on each case before the rest is judged.
const MIN_TRIES: u64 = 30;

/// What the rest of the budget is expected to bring.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Forecast {
    /// The expected speed-up over all cases (geometric mean), less 1.
    pub gain: f64,
    /// The rest, in wall time.
    pub left: Duration,
    /// The cost of the rest, in US dollars. None where the device costs nothing.
    pub usd: Option<f64>,
}

impl SessionState {
    /// Forecasts what the rest of the time would gain. None before every case was tried often enough.
    pub(super) fn forecast(&self, time: &Time, left: Duration) -> Option<Forecast> {
        let cases = &self.setup().workload.cases;
        let (elapsed_s, left_s) = (self.meter().elapsed(time).as_secs_f64(), left.as_secs_f64());
        let mut ln_gain = 0.0;
        for case in cases {
            let progress = self.history().progress.get(&case.name)?;
            if progress.tries() < MIN_TRIES {
                return None;
            }
            ln_gain += progress.expected_ln_gain((elapsed_s + left_s) / elapsed_s);
        }
        let usd = self.setup().rate().map(|rate| rate.gpu_usd_per_hour * left_s / 3600.0);
        Some(Forecast { gain: (ln_gain / cases.len() as f64).exp_m1(), left, usd })
    }
}

impl Forecast {
    /// Returns the reason to stop, as a session gives it.
    pub(in crate::session) fn reason(&self, min_gain: f64) -> String {
        let Self { gain, left, usd } = self;
        let saved = humantime::format_duration(Duration::from_secs(left.as_secs()));
        let money = usd.map(|usd| format!(" and ${usd:.2}")).unwrap_or_default();
        let per_usd = usd.filter(|usd| *usd > 0.0).map(|usd| format!(" ({:.1}% per dollar)", gain * 100.0 / usd));
        // Rounded down, because "0.50%, which is less than 0.50%" would be no reason.
        let percent = (gain * 1e4).floor() / 100.0;
        format!(
            "the remaining {saved}{money} are expected to gain {percent:.2}%{}, which is less than {:.2}% (stop.min_gain)",
            per_usd.unwrap_or_default(),
            min_gain * 100.0
        )
    }
}
