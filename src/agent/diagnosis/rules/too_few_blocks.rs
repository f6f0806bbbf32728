//! A grid with fewer blocks than the device has multiprocessors.
//!
//! gain = time / (fixed + (time - fixed) * blocks / SMs)
//!
//! where `fixed` is the time that the same variant needs at least, whatever the work. More blocks divide only the rest
//! (Amdahl's law). It is the fastest time on a shape whose blocks have less work. Without such a shape, it follows from one
//! on which as many blocks have more work, as if the time grew linearly with the work of a block. Without that, it is the
//! share of launches in the modelled time. Without that, the gain of a short kernel is not known.

use super::{Found, MIN_GAIN, Rule, contradicts, supports};
use crate::agent::diagnosis::subject::{Point, Subject};
use crate::agent::diagnosis::{alike, remedy};
use crate::domain::family::plan::LaunchPlan;
use crate::domain::measurement::floor::{self, Limiter};
use crate::domain::op::Dims;
use crate::domain::proposal::finding::{Confidence, EvidenceSource};
use crate::domain::text::counted::counted;

pub(super) const RULE: Rule = Rule {
    name: "too-few-blocks",
    mechanism: "a multiprocessor without a block has nothing to do, so the others take longer than all together would",
    kernel_change: |_| "divide the work into more and shorter blocks: smaller tiles, or a split of the reduction whose parts are added at the end",
    find,
};

/// SMs for each block from which a grid counts as too small.
const MIN_IDLE: f64 = 1.2;

/// The share of a block's work from which that of another shape counts as much less.
const MUCH_LESS: f64 = 0.75;

/// The multiple of the floor up to which launching and starting may be most of a kernel's time.
const SHORT: f64 = 10.0;

/// How much more work another shape needs to show whether the device was idle.
const GROWTH: f64 = 4.0;

/// The growth of the time from which the device was not idle.
const FLAT: f64 = 1.3;

/// How many times its blocks a grid has room for, from which some division of the work is likely to shorten them. With
/// less room, each block must become nearly as much shorter as there are more of them.
const ROOM: f64 = 4.0;

/// The share of an empty launch up to which the work of a case is one small tile: one multiprocessor needs less at its
/// peak.
const TILE: f64 = 0.01;

/// Tells whether a grid of so many blocks leaves multiprocessors idle.
pub fn leaves_idle(ctas: u64, sms: u32) -> bool {
    f64::from(sms) / ctas.max(1) as f64 >= MIN_IDLE
}

fn find(subject: &Subject<'_>) -> Option<Found> {
    let (ctas, sms) = (subject.plan.ctas(), u64::from(subject.device.sms));
    let idle = 1.0 - ctas as f64 / sms as f64;
    if !leaves_idle(ctas, subject.device.sms) || is_one_tile(subject) {
        return None;
    }
    let blocks_there = counted(ctas as usize, "block");
    let mut evidence = vec![supports(
        EvidenceSource::Launch,
        format!("the largest launch has {blocks_there} for {sms} SMs, so {:.0}% of them are idle", 100.0 * idle),
    )];
    let fixed = fixed(subject);
    let fixed_ns = fixed.as_ref().map_or(0.0, |fixed| fixed.ns);
    let may_be_fixed = fixed.is_none() && subject.headroom() < SHORT;
    evidence.extend(fixed.map(|fixed| contradicts(fixed.source, fixed.because)));
    let gain = subject.time_ns / (fixed_ns + (subject.time_ns - fixed_ns) * (1.0 - idle));
    if gain < MIN_GAIN {
        return None;
    }
    if may_be_fixed {
        let text = "nothing shows how much of this short time more blocks could divide";
        evidence.push(contradicts(EvidenceSource::Times, text.to_owned()));
    }
    let one_block = alike::one_block(subject);
    let is_unsure = one_block.is_some() && (sms as f64) < ROOM * ctas as f64;
    evidence.extend(one_block.map(|(source, text)| {
        contradicts(source, format!("{text}, and more blocks help only if each becomes shorter"))
    }));
    let slower = more_blocks(subject).max_by(|a, b| a.0.total_cmp(&b.0)).filter(|slower| slower.1 >= FLAT);
    let confidence = match &slower {
        Some((work, time, case, source)) => {
            let text = format!(
                "{case} has {work:.0} times the work in as many more blocks, but takes {time:.1} times as long"
            );
            evidence.push(contradicts(*source, text));
            Confidence::Low
        }
        // Nothing shows how much of the time more blocks could divide, or that they would shorten any.
        None if may_be_fixed || is_unsure => Confidence::Low,
        None => Confidence::Medium,
    };
    let is_unknown = may_be_fixed && slower.is_none();
    let busy = |plan: &LaunchPlan| plan.ctas().min(sms) as f64;
    let blocks = |plan: &LaunchPlan| format!("{} instead of {ctas}", counted(plan.ctas() as usize, "block"));
    Some(Found {
        cause: format!("the grid has {blocks_there} on {sms} SMs"),
        evidence,
        confidence,
        gain: if is_unknown { 1.0 } else { gain },
        remedies: remedy::by_plan(subject, busy, blocks),
    })
}

/// Tells whether only the model says how much of the time more blocks divide.
pub(in crate::agent::diagnosis) fn divides_by_model(subject: &Subject<'_>) -> bool {
    fixed(subject).is_some_and(|fixed| fixed.source == EvidenceSource::VirtualCounters)
}

/// Tells whether one multiprocessor computes the case at its peak in next to no time. No division of such a case among
/// more blocks makes it faster.
fn is_one_tile(subject: &Subject<'_>) -> bool {
    let Subject { workload, case, device, .. } = *subject;
    let limits = floor::limits((workload.op, workload.dtype, workload.compute), &case.dims, case.regime, device);
    let busy_ns =
        limits.iter().filter(|(limiter, _)| *limiter != Limiter::Launch).map(|(_, ns)| *ns).fold(0.0, f64::max);
    busy_ns * f64::from(device.sms) < TILE * device.peaks.launch_ns
}

/// The part of the time that more blocks do not shorten.
struct Fixed {
    ns: f64,
    because: String,
    source: EvidenceSource,
}

fn fixed(subject: &Subject<'_>) -> Option<Fixed> {
    with_less_work(subject).or_else(|| with_more_work(subject)).or_else(|| by_model(subject))
}

/// Returns the work of a block on a shape.
fn per_block(subject: &Subject<'_>, dims: &Dims, ctas: u64) -> f64 {
    subject.flop(dims) / ctas.max(1) as f64
}

/// Takes the fastest time among shapes whose blocks have much less work each. None if all take as long as the case. A shape
/// with fewer blocks of the same work says nothing: each of them takes its time.
fn with_less_work(subject: &Subject<'_>) -> Option<Fixed> {
    let own = per_block(subject, &subject.case.dims, subject.plan.ctas());
    let less = subject.scaling.iter().filter(|point| {
        per_block(subject, &point.dims, point.ctas) <= MUCH_LESS * own && point.time_ns < subject.time_ns
    });
    let point = less.min_by(|a, b| a.time_ns.total_cmp(&b.time_ns))?;
    let because = format!(
        "{} has {} times less work and takes {:.0}% of this time, so up to that much may be a part that more blocks do not \
         shorten",
        subject.named(point),
        times(subject.flop(&subject.case.dims) / subject.flop(&point.dims)),
        100.0 * point.time_ns / subject.time_ns
    );
    Some(Fixed { ns: point.time_ns, because, source: point.source })
}

/// Extrapolates from the shape on which as many blocks have the most work each.
fn with_more_work(subject: &Subject<'_>) -> Option<Fixed> {
    let own = per_block(subject, &subject.case.dims, subject.plan.ctas());
    let work = |point: &Point| per_block(subject, &point.dims, point.ctas) / own;
    let alike = subject.scaling.iter().filter(|point| point.ctas == subject.plan.ctas());
    let more = alike.filter(|point| work(point) >= 1.0 / MUCH_LESS);
    let point = more.max_by(|a, b| work(a).total_cmp(&work(b)))?;
    let following_ns = (point.time_ns - subject.time_ns) / (work(point) - 1.0);
    let ns = (subject.time_ns - following_ns).clamp(0.0, subject.time_ns);
    let because = format!(
        "on {}, as many blocks have {} times the work and take {:.2} times as long, so about {:.0}% of the time does not \
         depend on the work of a block, and more blocks do not shorten it",
        subject.named(point),
        times(work(point)),
        point.time_ns / subject.time_ns,
        100.0 * ns / subject.time_ns
    );
    Some(Fixed { ns, because, source: point.source })
}

/// Takes what the model attributes to the launches.
fn by_model(subject: &Subject<'_>) -> Option<Fixed> {
    let share = subject.part("launch")?;
    let because = format!(
        "the model attributes {:.0}% of the time to launching and starting the kernel, which more blocks do not shorten",
        100.0 * share
    );
    Some(Fixed { ns: share * subject.time_ns, because, source: EvidenceSource::VirtualCounters })
}

/// Formats how many times more or less work there is.
fn times(times: f64) -> String {
    if times < 10.0 { format!("{times:.1}") } else { format!("{times:.0}") }
}

/// Returns the shapes with more blocks and as much more work: the factors of work and time, the name and the source.
fn more_blocks(subject: &Subject<'_>) -> impl Iterator<Item = (f64, f64, String, EvidenceSource)> {
    let ctas = subject.plan.ctas() as f64;
    subject.scaling.iter().filter_map(move |point| {
        let work = subject.flop(&point.dims) / subject.flop(&subject.case.dims);
        let blocks = point.ctas as f64 / ctas;
        let each_alike = (work / blocks - 1.0).abs() < 0.1;
        let fits = point.ctas <= u64::from(subject.device.sms);
        let shows = work >= GROWTH && each_alike && fits;
        shows.then(|| (work, point.time_ns / subject.time_ns, subject.named(point), point.source))
    })
}
