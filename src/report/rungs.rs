//! The variants over which a case came to its best one: from the first one over those that were the fastest in turn.

use super::pairs::Sample;
use crate::domain::variant::Params;

/// The least factor between two rungs. A smaller one explains nothing.
pub(super) const MIN_STEP: f64 = 1.005;

/// The factor below which a step shares a row with small ones of its family beside it.
const SMALL_STEP: f64 = 1.05;

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
    /// How many variants of its family were the fastest in turn since the rung before, with itself.
    pub(super) variants: usize,
}

impl<'a> Rung<'a> {
    fn of(sample: &Sample<'a>, committed: Option<Variant<'_>>) -> Self {
        let (family, params) = (sample.family, sample.params);
        let committed = committed == Some((family, params));
        Self { family, params, us: micros(sample), committed, variants: 1 }
    }

    fn is(&self, other: &Self) -> bool {
        (self.family, self.params) == (other.family, other.params)
    }
}

/// A variant: its family and its configuration.
pub(super) type Variant<'a> = (&'a str, &'a Params);

/// Returns the rungs of a case from its first variant to its winner. Of those of one family in a row, only the first, the
/// committed winner and the last one are rungs, and small steps are one.
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
        let mut variants = 0;
        for (place, rung) in own.iter().enumerate() {
            variants += 1;
            let is_faster = rungs.last().is_none_or(|last| last.us / rung.us >= MIN_STEP && !last.is(rung));
            if rung.committed || is_faster && (place == 0 || is_last(place)) {
                rungs.push(Rung { variants, ..*rung });
                variants = 0;
            }
        }
    }
    if rungs.last().is_some_and(|last| last.us > winner.us) {
        rungs.push(winner);
    }
    merged(&rungs)
}

/// Merges small steps of one family that follow each other. The last step, that to the committed winner and those to a new
/// family say something of their own.
fn merged<'a>(rungs: &[Rung<'a>]) -> Vec<Rung<'a>> {
    let is_small = |place: usize| {
        let (before, rung) = (&rungs[..place], rungs[place]);
        let is_told = before.iter().all(|one| one.family != rung.family) || place + 1 == rungs.len();
        !is_told && before.last().is_some_and(|last| last.us / rung.us < SMALL_STEP)
    };
    let mut merged: Vec<Rung<'_>> = Vec::new();
    for (place, rung) in rungs.iter().enumerate() {
        let is_small = is_small(place) && is_small(place - 1);
        match merged.last_mut().filter(|last| is_small && last.family == rung.family && !last.committed) {
            Some(last) => *last = Rung { variants: last.variants + rung.variants, ..*rung },
            None => merged.push(*rung),
        }
    }
    merged
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
