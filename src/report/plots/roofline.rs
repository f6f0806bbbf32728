//! How near each case comes to the ceilings of the device.

use std::collections::BTreeMap;

use plotters::style::text_anchor::HPos;

use super::canvas::{Ink, cut, svg};
use super::chart::{Chart, Room, Shape};
use super::scale::{Axis, mark};
use super::{Figure, Panel};
use crate::report::contract::{Case, Report, Roofline};
use crate::report::format::percent;
use crate::report::table::Table;

/// Pixels of the wide and of the narrow drawing.
const SIZES: [(u32, u32); 2] = [(760, 400), (360, 320)];

/// A case with a rate.
struct Point<'a> {
    number: usize,
    case: &'a Case,
    roofline: &'a Roofline,
    flop_per_s: f64,
    baseline_flop_per_s: Option<f64>,
}

/// Draws the roofline. None if no case has a time and known ceilings.
pub(in crate::report) fn roofline(report: &Report, source: &str) -> Option<Figure> {
    let points: Vec<Point<'_>> = report.cases.iter().filter_map(point).enumerate().map(numbered).collect();
    let peak = points.iter().find_map(|one| Some(one.flop_per_s / one.roofline.share_of_arithmetic?))?;
    // Cases whose data is in L2 have another ceiling than those that read memory.
    let slopes: BTreeMap<&str, f64> =
        points.iter().map(|one| (one.roofline.bytes_from, peak / one.roofline.ridge)).collect();
    let intensities = || points.iter().map(|one| one.roofline.intensity);
    let ridges = points.iter().map(|one| one.roofline.ridge);
    let rates = points.iter().flat_map(|one| [Some(one.flop_per_s), one.baseline_flop_per_s]).flatten();
    let x = Axis::log(intensities().chain(ridges), "FLOP per byte (each byte once), log scale");
    let y = Axis::log(rates.chain([peak * 1.3]), "FLOP/s, log scale");
    let draw = |size: (u32, u32)| {
        let title = "Roofline: the rate of each case, below the ceilings of the device";
        svg(size, title, |area| {
            let chart = Chart::new(area, (&x, &y), Room { left: 54, right: 16 }, None)?;
            for (from, bandwidth) in &slopes {
                let ridge = peak / bandwidth;
                let lowest = (y.from / bandwidth).max(x.from);
                chart.line([(lowest, lowest * bandwidth), (ridge, peak)], Ink::Bound, 2)?;
                let middle = (lowest * ridge).sqrt();
                chart.label((middle, middle * bandwidth), (-6, -8), (Ink::Bound, HPos::Right), from)?;
            }
            let first_ridge = slopes.values().map(|bandwidth| peak / bandwidth).fold(f64::INFINITY, f64::min);
            chart.line([(first_ridge, peak), (x.to, peak)], Ink::Bound, 2)?;
            chart.label((x.to, peak), (-4, -8), (Ink::Bound, HPos::Right), "arithmetic")?;
            for one in &points {
                let intensity = one.roofline.intensity;
                if let Some(rate) = one.baseline_flop_per_s {
                    chart.point((intensity, rate), (0, 0), Ink::Baseline, Shape::Triangle)?;
                }
                chart.point((intensity, one.flop_per_s), (0, 0), Ink::Ours, Shape::Dot)?;
            }
            for (one, place) in spread(&points) {
                let at = (one.roofline.intensity, one.flop_per_s);
                chart.label(at, place, (Ink::Text, HPos::Left), &one.number.to_string())?;
            }
            Ok(())
        })
    };
    let [wide, narrow] = SIZES.map(draw);
    Some(Figure {
        id: "roofline",
        title: "Roofline".to_owned(),
        caption: "The rate of each best variant (numbered dots) over its arithmetic intensity, below the device's ceilings. \
                  Triangles are the best baselines. FLOP and bytes are the least that the case needs. The table has the \
                  numbers. A dot far below both ceilings waits for something else, such as the launch."
            .to_owned(),
        source: source.to_owned(),
        panels: vec![Panel::at_two_widths(wide, narrow)],
        table: table(&points),
    })
}

fn point(case: &Case) -> Option<(&Case, &Roofline, f64)> {
    let roofline = case.roofline.as_ref()?;
    Some((case, roofline, roofline.flop_per_s.filter(|rate| *rate > 0.0 && roofline.intensity > 0.0)?))
}

fn numbered<'a>((place, (case, roofline, flop_per_s)): (usize, (&'a Case, &'a Roofline, f64))) -> Point<'a> {
    let baseline = case.baseline.as_ref().filter(|baseline| !baseline.is_initial_kernel && baseline.us > 0.0);
    let baseline_flop_per_s = baseline.map(|baseline| roofline.flop / baseline.us * 1e6);
    Point { number: place + 1, case, roofline, flop_per_s, baseline_flop_per_s }
}

/// Returns where the number of each point goes, in pixels. Neighbours alternate between the two sides.
fn spread<'a, 'b>(points: &'b [Point<'a>]) -> impl Iterator<Item = (&'b Point<'a>, (i32, i32))> {
    points.iter().map(|one| (one, if one.number % 2 == 1 { (7, -6) } else { (7, 8) }))
}

fn table(points: &[Point<'_>]) -> Table {
    let share = |share: Option<f64>| share.map(percent).unwrap_or_default();
    let row = |one: &Point<'_>| {
        vec![
            one.number.to_string(),
            cut(&one.case.case, 60),
            mark(one.roofline.intensity),
            mark(one.flop_per_s),
            share(one.roofline.share_of_arithmetic),
            share(one.roofline.share_of_bandwidth),
            one.roofline.bytes_from.to_owned(),
            one.roofline.floor_limiter.to_owned(),
        ]
    };
    let headings =
        [">Number", "Case", ">FLOP/byte", ">FLOP/s", ">Of arithmetic", ">Of bandwidth", "Bytes from", "Floor set by"];
    Table::new(&headings, points.iter().map(row))
}
