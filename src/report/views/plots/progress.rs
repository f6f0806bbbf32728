//! How the best times developed over the session: how many times as fast as what the session began with.

use super::Figure;
use super::canvas::{Ink, svg};
use super::chart::{Chart, Room};
use super::scale::Axis;
use crate::report::contract::{Progress, Report};
use crate::report::views::format::{duration, times, us};
use crate::report::views::table::Table;

/// Pixels of the wide and of the narrow drawing.
const SIZES: [(u32, u32); 2] = [(560, 300), (368, 190)];

/// The most lines that have a name.
const MAX_NAMED: usize = 4;

/// How a case developed: seconds, and how many times as fast it was as at the beginning.
struct Series<'a> {
    case: &'a str,
    steps: Vec<(f64, f64)>,
}

impl Series<'_> {
    fn last(&self) -> f64 {
        self.steps.last().map_or(1.0, |(_, gain)| *gain)
    }

    /// Returns the gain at a time.
    fn at(&self, seconds: f64) -> f64 {
        self.steps.iter().take_while(|(at_s, _)| *at_s <= seconds).last().map_or(1.0, |(_, gain)| *gain)
    }
}

/// Draws the best times over the session's time. None without a correct variant.
pub(in crate::report::views) fn over_time(report: &Report, source: &str) -> Option<Figure> {
    let mut all: Vec<Series<'_>> = report.progress.iter().filter_map(|one| series(report, one)).collect();
    all.sort_by(|a, b| b.last().total_cmp(&a.last()));
    let last_s = all.iter().flat_map(|one| &one.steps).map(|(at_s, _)| *at_s).fold(0.0, f64::max);
    let end_s = report.session.wall_s.unwrap_or(last_s).max(last_s);
    let (unit, per_s) = if end_s >= 600.0 { ("minutes", 1.0 / 60.0) } else { ("seconds", 1.0) };
    let x = Axis::from_zero([end_s * per_s], unit);
    let y = Axis::log(all.iter().map(Series::last).chain([1.0]), "times as fast as at the beginning");
    let mean = mean(&all);
    let title = format!("Best times over the session: {} as fast as at the beginning, on average", times(mean.last()));
    let draw = |size| {
        svg(size, &title, |area| {
            let chart = Chart::new(area, (&x, &y), Room { left: 46, right: 96 }, None)?;
            for one in &all {
                chart.line(staircase(&one.steps, end_s, per_s), Ink::Muted, 1)?;
            }
            chart.line(staircase(&mean.steps, end_s, per_s), Ink::Ours, 3)?;
            let named = all.iter().filter(|one| one.last() > 1.0).take(MAX_NAMED);
            let average = (all.len() > 1).then_some((mean.last(), "mean", Ink::Ours));
            chart.names(named.map(|one| (one.last(), one.case, Ink::Text)).chain(average).collect())
        })
    };
    let [wide, narrow] = SIZES.map(draw);
    (!all.is_empty()).then(|| Figure {
        id: "best-over-time",
        title: "Best over time".to_owned(),
        caption: "A thin line for each case; the thick one is their geometric mean.".to_owned(),
        source: source.to_owned(),
        wide,
        narrow,
        table: table(&report.progress),
    })
}

/// Returns how a case developed from what the session began with. None without a time.
fn series<'a>(report: &'a Report, progress: &'a Progress) -> Option<Series<'a>> {
    let case = report.cases.iter().find(|case| case.case == progress.case)?;
    let began_us = case.change.as_ref()?.began_us;
    let better = progress.steps.iter().filter(|step| step.us <= began_us);
    let mut steps = vec![(0.0, 1.0)];
    steps.extend(better.map(|step| (step.at_s, began_us / step.us)));
    Some(Series { case: &case.case, steps })
}

/// Returns the geometric mean of all cases at each time at which one of them changed.
fn mean(all: &[Series<'_>]) -> Series<'static> {
    let mut changed: Vec<f64> = all.iter().flat_map(|one| &one.steps).map(|(at_s, _)| *at_s).collect();
    changed.sort_by(f64::total_cmp);
    changed.dedup();
    let at = |seconds: f64| (all.iter().map(|one| one.at(seconds).ln()).sum::<f64>() / all.len() as f64).exp();
    Series { case: "mean", steps: changed.into_iter().map(|at_s| (at_s, at(at_s))).collect() }
}

/// Returns the corners of a line that keeps each value until the next one.
fn staircase(steps: &[(f64, f64)], end_s: f64, per_s: f64) -> Vec<(f64, f64)> {
    let mut corners: Vec<(f64, f64)> = Vec::new();
    for (at_s, gain) in steps {
        corners.extend(corners.last().map(|(_, before)| (at_s * per_s, *before)));
        corners.push((at_s * per_s, *gain));
    }
    corners.extend(corners.last().map(|(_, last)| (end_s * per_s, *last)));
    corners
}

fn table(progress: &[Progress]) -> Table {
    let rows = progress.iter().flat_map(|one| {
        one.steps.iter().map(|step| {
            vec![
                one.case.to_string(),
                step.kind.to_owned(),
                duration(step.at_s),
                us(step.us),
                step.family.clone(),
                step.iteration.to_string(),
            ]
        })
    });
    Table::new(&["Case", "Step", ">After", ">Time (us)", "Family", ">Iteration"], rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{record, report};

    #[test]
    fn each_case_develops_from_what_the_session_began_with_and_the_mean_from_all() {
        let report = report(&record());
        let all: Vec<Series<'_>> = report.progress.iter().filter_map(|one| series(&report, one)).collect();
        assert_eq!(all[0].steps, [(0.0, 1.0), (3.0, 1.0), (6.0, 1.25), (9.0, 1.6)]);
        assert_eq!((all.len(), all[1].last()), (2, 1.0));
        assert!((mean(&all).last() - 1.6_f64.sqrt()).abs() < 1e-9);
        let corners = staircase(&all[0].steps[2..], 20.0, 1.0);
        assert_eq!(corners, [(6.0, 1.25), (9.0, 1.25), (9.0, 1.6), (20.0, 1.6)]);
        let figure = over_time(&report, "measured").unwrap();
        assert!(figure.wide.contains("\nb1h1s128\n") && figure.narrow.contains("\nmean\n"), "{}", figure.wide);
    }
}
