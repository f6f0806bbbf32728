//! A grid with fewer blocks than the device has multiprocessors.
//!
//! gain = SMs / blocks

use super::{Found, LEAST_GAIN, Rule, contradicts, supports};
use crate::agent::diagnosis::remedy;
use crate::agent::diagnosis::subject::Subject;
use crate::domain::finding::{Confidence, Source};
use crate::domain::plan::LaunchPlan;

pub(super) const RULE: Rule = Rule {
    name: "too-few-blocks",
    mechanism: "a multiprocessor without a block has nothing to do, so the others take longer than all together would",
    find,
};

/// How much more work another shape needs to show whether the device was idle.
const GROWTH: f64 = 4.0;

/// The most that the time may grow meanwhile.
const FLAT: f64 = 1.3;

fn find(subject: &Subject<'_>) -> Option<Found> {
    let (ctas, sms) = (subject.plan.ctas(), u64::from(subject.device.sms));
    let gain = sms as f64 / ctas.max(1) as f64;
    if gain < LEAST_GAIN.max(1.2) {
        return None;
    }
    let mut evidence = vec![supports(
        Source::Launch,
        format!("the largest launch has {ctas} blocks for {sms} SMs, so {:.0}% of them are idle", 100.0 - 100.0 / gain),
    )];
    let flat = more_blocks(subject).max_by(|a, b| a.0.total_cmp(&b.0));
    let confidence = match &flat {
        Some((work, time, case, source)) if *time < FLAT => {
            let text = format!(
                "{case} has {work:.0} times the work in as many more blocks, and takes {time:.2} times as long"
            );
            evidence.push(supports(*source, text));
            Confidence::High
        }
        Some((work, time, case, source)) => {
            let text = format!(
                "{case} has {work:.0} times the work in as many more blocks, but takes {time:.1} times as long"
            );
            evidence.push(contradicts(*source, text));
            Confidence::Low
        }
        None => Confidence::Medium,
    };
    let busy = |plan: &LaunchPlan| plan.ctas().min(sms) as f64;
    let blocks = |plan: &LaunchPlan| format!("{} blocks instead of {ctas}", plan.ctas());
    Some(Found {
        cause: format!("the grid has {ctas} block{} on {sms} SMs", if ctas == 1 { "" } else { "s" }),
        evidence,
        confidence,
        gain,
        remedies: remedy::by_plan(subject, busy, blocks),
    })
}

/// Returns the shapes with more blocks and as much more work: the factors of work and time, the name and the source.
fn more_blocks<'a>(subject: &'a Subject<'_>) -> impl Iterator<Item = (f64, f64, &'a str, Source)> {
    let ctas = subject.plan.ctas() as f64;
    subject.scaling.iter().filter_map(move |point| {
        let work = subject.flop(&point.dims) / subject.flop(&subject.case.dims);
        let blocks = point.ctas as f64 / ctas;
        let each_alike = (work / blocks - 1.0).abs() < 0.1;
        let fits = point.ctas <= u64::from(subject.device.sms);
        let shows = work >= GROWTH && each_alike && fits;
        shows.then(|| (work, point.time_ns / subject.time_ns, point.case.as_str(), point.source))
    })
}
