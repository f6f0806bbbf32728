//! Grids of one variant whose blocks have as much work each. If a larger one takes about as long, the time is that of one
//! block.

use super::subject::{Point, Subject};
use crate::domain::op::Dims;
use crate::domain::proposal::finding::EvidenceSource;

/// How many more blocks the largest grid needs to show that.
const GROWTH: f64 = 4.0;

/// The largest growth of the time that shows it.
const FLAT: f64 = 1.3;

/// The difference of the work of two blocks up to which it counts as the same.
const SAME: f64 = 0.1;

/// Says that the time is that of one block, if times of the session show it, with their source.
pub(super) fn one_block(subject: &Subject<'_>) -> Option<(EvidenceSource, String)> {
    let own = Grid {
        ctas: subject.plan.ctas(),
        ns: subject.time_ns,
        source: EvidenceSource::Times,
        case: &subject.case.name,
        dims: &subject.case.dims,
    };
    let mut grids = vec![own];
    for point in subject.scaling.iter().filter(|point| is_alike(subject, point)) {
        if grids.iter().all(|grid| grid.ctas != point.ctas) {
            let Point { case, dims, time_ns: ns, ctas, source } = point;
            grids.push(Grid { ctas: *ctas, ns: *ns, source: *source, case, dims });
        }
    }
    grids.sort_by_key(|grid| grid.ctas);
    let (fewest, most) = (grids.first()?.ctas, grids.last()?.ctas);
    let times = || grids.iter().map(|grid| grid.ns);
    let (least_ns, most_ns) = times().reduce(f64::min).zip(times().reduce(f64::max))?;
    let shows = most as f64 >= GROWTH * fewest as f64 && most_ns < FLAT * least_ns;
    let source = grids.iter().map(|grid| grid.source).min()?;
    shows.then(|| (source, text(&grids)))
}

/// A grid of the variant, with its time.
struct Grid<'a> {
    ctas: u64,
    ns: f64,
    source: EvidenceSource,
    /// The name of the case, or of the experiment.
    case: &'a str,
    dims: &'a Dims,
}

fn text(grids: &[Grid<'_>]) -> String {
    let time = |ns: f64| if ns < 1e5 { format!("{:.2}", ns / 1e3) } else { format!("{:.0}", ns / 1e3) };
    format!(
        "grids of {} blocks ({}), each block with as much work, take {} us, so the time is that of one block",
        listed(grids.iter().map(|grid| grid.ctas.to_string())),
        shapes(grids),
        listed(grids.iter().map(|grid| time(grid.ns)))
    )
}

/// Names the cases, or the sizes in which the shapes differ if not all are cases: `the same shape with H = 4, 8 and 16`.
fn shapes(grids: &[Grid<'_>]) -> String {
    if grids.iter().all(|grid| grid.source != EvidenceSource::Experiment) {
        return listed(grids.iter().map(|grid| grid.case.to_string()));
    }
    let differs = |name: &&String| grids.iter().any(|grid| grid.dims.get(*name) != grids[0].dims.get(*name));
    let names: Vec<&String> = grids[0].dims.keys().filter(differs).collect();
    let size = |grid: &Grid<'_>, name: &str| grid.dims.get(name).map_or_else(String::new, i64::to_string);
    if let [name] = *names {
        return format!("the same shape with {name} = {}", listed(grids.iter().map(|grid| size(grid, name))));
    }
    let sizes = |grid| listed(names.iter().map(|name| format!("{name} = {}", size(grid, name))));
    let each: Vec<String> = grids.iter().map(sizes).collect();
    format!("the same shape with {}", each.join("; with "))
}

/// Tells whether the blocks of a shape have as much work as those of the case, and each has a multiprocessor of its own.
fn is_alike(subject: &Subject<'_>, point: &Point) -> bool {
    let work = subject.flop(&point.dims) / subject.flop(&subject.case.dims);
    let blocks = point.ctas as f64 / subject.plan.ctas().max(1) as f64;
    (work / blocks - 1.0).abs() < SAME && point.ctas <= u64::from(subject.device.sms)
}

fn listed(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    match items.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => items.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_that_are_no_cases_are_named_by_the_sizes_in_which_they_differ() {
        let told = |sizes: &[(i64, i64)], source| {
            let dims =
                |(b, h): &(i64, i64)| Dims::from_iter([("B", *b), ("H", *h), ("D", 64)].map(|(n, s)| (n.into(), s)));
            let dims: Vec<Dims> = sizes.iter().map(dims).collect();
            let grid = |dims| Grid { ctas: 8, ns: 1e3, source, case: "b1h8s512", dims };
            shapes(&dims.iter().map(grid).collect::<Vec<_>>())
        };
        use EvidenceSource::{Experiment, Times};
        insta::assert_snapshot!([
            told(&[(1, 4), (1, 8), (1, 16)], Experiment),
            told(&[(1, 4), (2, 4)], Experiment),
            told(&[(1, 4), (2, 8)], Experiment),
            told(&[(1, 4)], Times),
        ].join("\n"), @"
        the same shape with H = 4, 8 and 16
        the same shape with B = 1 and 2
        the same shape with B = 1 and H = 4; with B = 2 and H = 8
        b1h8s512
        ");
    }
}
