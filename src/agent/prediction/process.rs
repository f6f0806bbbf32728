//! A Gaussian process over timed configurations: the expected logarithm of a time, with its standard deviation.
//!
//! The logarithm of a time is modelled as a sum: a part of the case, a part of the family, an effect of each
//! parameter's value, and an interaction of all values. Each part has a prior variance. The effects of a parameter have
//! the variance that its changes had so far, with the manifest's `expect` as a weak prior. Values that are close in the
//! manifest's order have similar effects, and cases have a part of their effects in common. (Rasmussen and Williams,
//! Gaussian Processes for Machine Learning, 2006, chapter 2.)

use std::ops::Range;
use std::sync::LazyLock;

use super::{Built, Question};
use crate::domain::family::{Family, Param};
use crate::domain::history::refuted::ln_speedup;
use crate::domain::history::{Finished, History};
use crate::domain::variant::Params;

/// How many times near the suggestion, and as many near the reference, the process uses. Its cost grows with the cube.
const NEAREST: usize = 64;

/// How many of a family's latest iterations are searched for near ones. A proposal must stay fast in a long session.
const LATEST: usize = 1000;

/// Prior variance of a case's part: times of two cases differ by any factor.
const CASE: f64 = 25.0;

/// Prior variance of a family's part that is the same on all cases.
const FAMILY: f64 = 1.0;

/// Prior variance of a family's part that differs from case to case.
const FAMILY_ON_CASE: f64 = 0.1;

/// The share of the variance of effects and interactions that two cases have in common.
const SHARED_BY_CASES: f64 = 0.7;

/// Variance of the interaction, as a share of the variance of all effects.
const INTERACTION: f64 = 0.15;

/// The number of differing parameters at which the correlation of interactions has fallen to 1/e.
const INTERACTION_RANGE: f64 = 2.0;

/// The distance in a parameter's list of values at which the correlation of effects has fallen to 1/e.
const VALUE_RANGE: f64 = 3.0;

/// Variance of the part of variants with the same code, if the code of the suggestion is known. It was chosen on a session
/// of 150 s on an H100 (2026-11-25, decision 54).
const CODE: f64 = 0.02;

/// Variance of the part of variants with the same launch. Tile sizes, warps and stages act together through the blocks that fit on
/// a multiprocessor, and the parameters' own effects add up. In replays of four sessions (`tests/calibration.rs`; H200 and H100,
/// 2026-11-27), it lowered the CRPS from 0.035 to 0.028 for gemm, and from 0.033, 0.032 and 0.032 to 0.030 for attention. 0.03 to
/// 0.2 hardly differ.
const LAUNCH: f64 = 0.05;

/// Variance of a screened time's logarithm that no parameter explains.
const NOISE: f64 = 0.01 * 0.01;

/// Weight of the prior variances above, in times. The times near a suggestion may spread less or more than these say, and the
/// variance of an expectation is scaled by how much (a Student-t process; Shah, Wilson and Ghahramani, 2014). It was chosen
/// in replays of sessions on H100s (decision 54, 2026-11-27); 2 to 8 hardly differ.
const PRIOR_TIMES: f64 = 4.0;

/// Weight of the manifest's `expect`, in results.
const PRIOR_RESULTS: f64 = 2.0;

/// The largest logarithm of a speed-up that counts for a parameter's variance. A larger slowdown says nothing about
/// ordinary changes.
const MAX_LN_SPEEDUP: f64 = 1.5;

/// A process that is conditioned on the times near a question.
pub(super) struct Process<'a> {
    axes: Vec<Axes<'a>>,
    /// The suggestion.
    asked: Point<'a>,
    points: Vec<Point<'a>>,
    /// The lower triangle of the Cholesky factor of the covariance, row by row.
    factor: Vec<f64>,
    /// The inverse of the covariance times the centred logarithms of the times.
    weights: Vec<f64>,
    /// How far the times spread, compared with the prior variances.
    spread: f64,
    /// The mean that was subtracted from the logarithms.
    centre: f64,
}

/// The expected logarithm of a time.
pub(super) struct Expected {
    /// The expected logarithm of nanoseconds.
    pub mean: f64,
    /// Its standard deviation.
    pub sd: f64,
}

/// The parameters of a family: the prior variance of each one's effects.
struct Axes<'a> {
    family: &'a Family,
    variances: Vec<f64>,
}

/// A configuration on a case.
struct Point<'a> {
    /// Place of its family's axes.
    family: usize,
    case: &'a str,
    /// Place of each value in its parameter's list.
    places: Vec<usize>,
    /// Its code and its launches, where the question says what it compiled to.
    built: Option<Built>,
    ln_ns: f64,
}

impl<'a> Process<'a> {
    /// Conditions a process on the times that are most informative about a question. None if the suggestion's family
    /// was never timed.
    pub fn near(history: &'a History, families: &'a [Family], question: &Question<'a>) -> Option<Self> {
        let mut axes: Vec<Axes<'a>> = Vec::new();
        let mut of_family = |name: &str| {
            let known = axes.iter().position(|axes| axes.family.name == name);
            known.or_else(|| {
                let family = families.iter().find(|family| family.name == name)?;
                axes.push(Axes::of(history, family));
                Some(axes.len() - 1)
            })
        };
        let own = of_family(&question.family.name)?;
        let of_reference = of_family(&question.reference.family)?;
        let point = |family: usize, params, ns: f64| {
            let places = axes[family].places(params)?;
            Some(Point { family, case: question.case, places, built: None, ln_ns: ns.ln() })
        };
        let asked = Point { built: question.built, ..point(own, question.params, 1.0)? };
        let time = question.reference.times.iter().find(|time| time.case == question.case)?;
        let reference = point(of_reference, &question.reference.params, time.median_ns)?;
        let reference = Point { built: question.comparable(question.reference, time), ..reference };
        let mut points = nearest(history, &axes[own], &asked, question);
        if points.is_empty() {
            return None;
        }
        let around_reference = nearest(history, &axes[of_reference], &reference, question);
        for (key, point) in around_reference {
            if !points.iter().any(|(other, _)| *other == key) {
                points.push((key, point));
            }
        }
        let points: Vec<Point<'_>> = points.into_iter().map(|(_, point)| point).collect();
        let centre = reference.ln_ns;
        let (mut factor, mut weights) = (Vec::new(), Vec::new());
        for (row, point) in points.iter().enumerate() {
            let mut covariances: Vec<f64> = points[..row].iter().map(|other| covariance(&axes, point, other)).collect();
            covariances.push(covariance(&axes, point, point) + NOISE);
            extend_factor(&mut factor, covariances);
            weights.push(point.ln_ns - centre);
        }
        solve_lower(&factor, &mut weights);
        let squares: f64 = weights.iter().map(|weight| weight * weight).sum();
        let spread = (PRIOR_TIMES + squares) / (PRIOR_TIMES + points.len() as f64);
        solve_upper(&factor, &mut weights);
        Some(Self { axes, asked, points, factor, weights, spread, centre })
    }

    /// Returns the expected logarithm of the suggestion's time.
    pub fn ln_time(&self) -> Expected {
        let with_asked = |point: &Point<'_>| covariance(&self.axes, point, &self.asked);
        let mut covariances: Vec<f64> = self.points.iter().map(with_asked).collect();
        let mean = self.centre + covariances.iter().zip(&self.weights).map(|(k, weight)| k * weight).sum::<f64>();
        let prior = with_asked(&self.asked) + NOISE;
        solve_lower(&self.factor, &mut covariances);
        let explained: f64 = covariances.iter().map(|value| value * value).sum();
        Expected { mean, sd: (self.spread * (prior - explained).max(2.0 * NOISE)).sqrt() }
    }
}

impl<'a> Axes<'a> {
    /// Learns the variance of each parameter's effects from the changes of it that were tried.
    fn of(history: &History, family: &'a Family) -> Self {
        let mut sums: Vec<(f64, f64)> =
            family.params.values().map(|param| (PRIOR_RESULTS * param.expect[1].ln().powi(2), PRIOR_RESULTS)).collect();
        let of_family = history.finished.iter().rev().filter(|finished| finished.family == family.name);
        for finished in of_family.take(LATEST) {
            let changes = finished.rationale.origin.changes();
            let Some(ln) = (!changes.is_empty()).then(|| ln_speedup(history, finished)).flatten() else { continue };
            let share = 1.0 / changes.len() as f64;
            for change in changes {
                let Some((place, _, param)) = family.params.get_full(&change.parameter) else { continue };
                let at = |value: i64| param.values.iter().position(|other| *other == value).unwrap_or(0);
                // Two values whose effects have a correlation of r differ with 2 (1 - r) of the variance.
                let spread = 2.0 * (1.0 - alike(at(change.from), at(change.to)));
                let (sum, count) = &mut sums[place];
                *sum += share * share * ln.clamp(-MAX_LN_SPEEDUP, MAX_LN_SPEEDUP).powi(2) / spread.max(0.1);
                *count += share;
            }
        }
        let variances = sums.into_iter().map(|(sum, count)| (sum / count).max(1e-5)).collect();
        Self { family, variances }
    }

    /// Returns the place of each value in its parameter's list. None if the family has other parameters or values.
    fn places(&self, params: &Params) -> Option<Vec<usize>> {
        let mut places = Vec::with_capacity(self.variances.len());
        self.find_places(params, &mut places).then_some(places)
    }

    /// Does the same with a list that was used before. Returns whether all places were found.
    fn find_places(&self, params: &Params, places: &mut Vec<usize>) -> bool {
        places.clear();
        let mut in_order = params.iter();
        let place = |(name, param): (&String, &Param)| {
            // Values are in the manifest's order, so that hardly any name needs to be looked up.
            let next = in_order.next().filter(|(other, _)| *other == name).map(|(_, value)| value);
            let value = next.or_else(|| params.get(name))?;
            param.values.iter().position(|other| other == value)
        };
        places.extend(self.family.params.iter().map_while(place));
        places.len() == self.variances.len()
    }

    /// Returns how far two configurations are apart: the variance of the difference of their effects.
    fn distance(&self, one: &[usize], other: &[usize]) -> f64 {
        let parts = one.iter().zip(other).zip(&self.variances);
        parts.map(|((a, b), variance)| variance * (1.0 - alike(*a, *b))).sum()
    }
}

/// Returns the times of a family that are nearest to a point, at most `NEAREST`, each with the place of its iteration
/// and case.
fn nearest<'a>(
    history: &'a History,
    axes: &Axes<'a>,
    to: &Point<'_>,
    question: &Question<'_>,
) -> Vec<((usize, usize), Point<'a>)> {
    let total: f64 = axes.variances.iter().sum();
    let elsewhere = (1.0 - SHARED_BY_CASES) * total + FAMILY_ON_CASE;
    let (mut near, mut places): (Vec<(f64, usize, usize)>, _) = (Vec::new(), Vec::new());
    let of_family = history.finished.iter().enumerate().rev().filter(|(_, one)| one.family == axes.family.name);
    for (place, finished) in of_family.take(LATEST) {
        if !axes.find_places(&finished.params, &mut places) {
            continue;
        }
        let distance = axes.distance(&places, &to.places);
        for at in times(finished, question, places == to.places) {
            let time = &finished.times[at];
            let away = if time.case == question.case { 0.0 } else { elsewhere };
            let built = question.comparable(finished, time);
            let of_code = CODE + LAUNCH - of_built(built.as_ref(), to.built.as_ref());
            near.push((distance + away + of_code, place, at));
        }
    }
    let last = near.len().min(NEAREST);
    if near.len() > NEAREST {
        near.select_nth_unstable_by(NEAREST, |a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    }
    near.truncate(last);
    let point = |(_, place, at): (f64, usize, usize)| {
        let (finished, time) = (&history.finished[place], &history.finished[place].times[at]);
        let (built, places) = (question.comparable(finished, time), axes.places(&finished.params)?);
        Some(((place, at), Point { family: to.family, case: &time.case, places, built, ln_ns: time.median_ns.ln() }))
    };
    near.into_iter().filter_map(point).collect()
}

/// Returns the indices of the times of an iteration to use: the one on the case, else its first. If it has the
/// configuration in question, all of them.
fn times(finished: &Finished, question: &Question<'_>, is_same: bool) -> Range<usize> {
    let here = finished.times.iter().position(|time| time.case == question.case);
    match here {
        Some(here) => here..here + 1,
        None if is_same || finished.params == question.reference.params => 0..finished.times.len(),
        None => 0..finished.times.len().min(1),
    }
}

/// The correlations of nearby values. A prediction needs a hundred thousand of them.
static ALIKE: LazyLock<[f64; 64]> = LazyLock::new(|| std::array::from_fn(alike_at));

/// Returns the correlation of the effects of two values, by their places in the manifest.
fn alike(one: usize, other: usize) -> f64 {
    let apart = one.abs_diff(other);
    ALIKE.get(apart).copied().unwrap_or_else(|| alike_at(apart))
}

fn alike_at(apart: usize) -> f64 {
    (-(apart as f64) / VALUE_RANGE).exp()
}

/// Returns the prior covariance of the logarithms of two times.
fn covariance(axes: &[Axes<'_>], one: &Point<'_>, other: &Point<'_>) -> f64 {
    let same_case = one.case == other.case;
    let case = if same_case { CASE } else { 0.0 };
    if one.family != other.family {
        return case;
    }
    let family = FAMILY + if same_case { FAMILY_ON_CASE } else { 0.0 };
    let (mut effects, mut total, mut differing) = (0.0, 0.0, 0.0);
    for ((a, b), variance) in one.places.iter().zip(&other.places).zip(&axes[one.family].variances) {
        let alike = if a == b { 1.0 } else { alike(*a, *b) };
        effects += variance * alike;
        total += variance;
        differing += 1.0 - alike;
    }
    let interaction = INTERACTION * total * (-differing / INTERACTION_RANGE).exp();
    let built = of_built(one.built.as_ref(), other.built.as_ref());
    case + family + (effects + interaction + built) * if same_case { 1.0 } else { SHARED_BY_CASES }
}

/// Returns the covariance that comes from the code and the launches of two variants: none if those of one are not known.
fn of_built(one: Option<&Built>, other: Option<&Built>) -> f64 {
    let covariance = |(one, other): (&Built, &Built)| {
        CODE * one.alike(other) + LAUNCH * one.alike_in_launch(other).unwrap_or_default()
    };
    one.zip(other).map_or(0.0, covariance)
}

/// Appends a row to a Cholesky factor: the covariances of a new point with the earlier ones, and its own variance.
fn extend_factor(factor: &mut Vec<f64>, mut row: Vec<f64>) {
    let last = row.len() - 1;
    for column in 0..=last {
        let start = column * (column + 1) / 2;
        let above: f64 = if column == last {
            row[..last].iter().map(|value| value * value).sum()
        } else {
            factor[start..start + column].iter().zip(&row).map(|(a, b)| a * b).sum()
        };
        let rest = row[column] - above;
        row[column] = if column == last { rest.max(1e-12).sqrt() } else { rest / factor[start + column] };
    }
    factor.extend(row);
}

/// Solves `L x = b` in place.
fn solve_lower(factor: &[f64], values: &mut [f64]) {
    for row in 0..values.len() {
        let start = row * (row + 1) / 2;
        let sum: f64 = factor[start..start + row].iter().zip(&values[..row]).map(|(a, b)| a * b).sum();
        values[row] = (values[row] - sum) / factor[start + row];
    }
}

/// Solves `Lᵀ x = b` in place.
fn solve_upper(factor: &[f64], values: &mut [f64]) {
    for row in (0..values.len()).rev() {
        let start = row * (row + 1) / 2;
        values[row] /= factor[start + row];
        let value = values[row];
        for (column, entry) in values[..row].iter_mut().enumerate() {
            *entry -= factor[start + column] * value;
        }
    }
}
