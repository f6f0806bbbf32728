//! The variants over which a case came to its best one: from the first one over those that were the fastest in turn.

use super::pairs::Sample;
use crate::domain::variant::Params;

/// The least factor between two rungs. A smaller one explains nothing.
pub(super) const MIN_STEP: f64 = 1.005;

/// A variant that was the fastest on a case until the next rung.
#[derive(Clone, Copy)]
pub(super) struct Rung<'a> {
    /// Its family.
    pub(super) family: &'a str,
    /// Its configuration.
    pub(super) params: &'a Params,
    /// Its time in microseconds.
    pub(super) us: f64,
    /// Whether it is the committed winner that the session began with.
    pub(super) committed: bool,
}

impl<'a> Rung<'a> {
    fn of(sample: &Sample<'a>, committed: Option<Variant<'_>>) -> Self {
        let (family, params) = (sample.family, sample.params);
        Self { family, params, us: micros(sample), committed: committed == Some((family, params)) }
    }

    fn is(&self, other: &Self) -> bool {
        (self.family, self.params) == (other.family, other.params)
    }
}

/// A variant: its family and its configuration.
pub(super) type Variant<'a> = (&'a str, &'a Params);

/// Returns the rungs of a case from its first variant to its winner. Of those of one family in a row, only the first, the
/// committed winner and the last one are rungs.
pub(super) fn of_case<'a>(
    case: &str,
    (first, winner): (Rung<'a>, Rung<'a>),
    samples: &[Sample<'a>],
    committed: Option<Variant<'_>>,
) -> Vec<Rung<'a>> {
    let mut rungs = vec![first];
    let streaks = streaks(case, winner.us, samples);
    for (place, streak) in streaks.iter().enumerate() {
        let own: Vec<Rung<'_>> = streak.iter().map(|sample| Rung::of(sample, committed)).collect();
        let leads_to_winner = place + 1 == streaks.len() && own[0].family == winner.family;
        let is_last = |place: usize| place + 1 == own.len() && !leads_to_winner;
        for (place, rung) in own.iter().enumerate() {
            let is_faster = rungs.last().is_none_or(|last| last.us / rung.us >= MIN_STEP && !last.is(rung));
            if rung.committed || is_faster && (place == 0 || is_last(place)) {
                rungs.push(*rung);
            }
        }
    }
    if rungs.last().is_some_and(|last| last.us > winner.us) {
        rungs.push(winner);
    }
    rungs
}

/// Returns the variants that were the fastest on a case in the order of the session, those of one family in a row together.
/// Variants that are faster than the best confirmed time lost their confirmation, and are left out.
fn streaks<'a, 's>(case: &str, best_us: f64, samples: &'s [Sample<'a>]) -> Vec<Vec<&'s Sample<'a>>> {
    let mut streaks: Vec<Vec<&Sample<'_>>> = Vec::new();
    for sample in samples.iter().filter(|sample| sample.case == case && micros(sample) > best_us) {
        match streaks.last_mut() {
            Some(streak) if streak.last().is_some_and(|last| sample.ln_ns >= last.ln_ns) => {}
            Some(streak) if streak.first().is_some_and(|first| first.family == sample.family) => streak.push(sample),
            _ => streaks.push(vec![sample]),
        }
    }
    streaks
}

fn micros(sample: &Sample<'_>) -> f64 {
    sample.ln_ns.exp() / 1e3
}
