//! Grids of one variant whose blocks have as much work each. If a larger one takes about as long, the time is that of one
//! block.

use super::subject::{Point, Subject};
use crate::domain::finding::EvidenceSource;

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
        shape: format!("`{}`", subject.case.name),
    };
    let mut grids = vec![own];
    for point in subject.scaling.iter().filter(|point| is_alike(subject, point)) {
        if grids.iter().all(|grid| grid.ctas != point.ctas) {
            let Point { time_ns: ns, ctas, source, .. } = *point;
            grids.push(Grid { ctas, ns, source, shape: subject.named(point) });
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
struct Grid {
    ctas: u64,
    ns: f64,
    source: EvidenceSource,
    /// The case or the experiment, in words.
    shape: String,
}

fn text(grids: &[Grid]) -> String {
    let time = |ns: f64| if ns < 1e5 { format!("{:.2}", ns / 1e3) } else { format!("{:.0}", ns / 1e3) };
    format!(
        "grids of {} blocks ({}), each block with as much work, take {} us, so the time is that of one block",
        listed(grids.iter().map(|grid| grid.ctas.to_string())),
        listed(grids.iter().map(|grid| grid.shape.clone())),
        listed(grids.iter().map(|grid| time(grid.ns)))
    )
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
