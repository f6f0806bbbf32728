//! Independent work that runs in sequence inside the blocks, because the grid leaves out a dimension.
//!
//! The project's original V3 kernel looped over batch and head inside the block, so its time grew 17-fold from B = 1 to
//! B = 8 on an idle GPU. The signs hold between two shapes with the same number of blocks: the work and the outputs,
//! which are independent of each other, grow at least fourfold, the time grows with the work, and the blocks leave most
//! of the device idle. Work alone is not a sign: it also grows with the keys of a query, which a block may well process
//! in sequence.
//!
//! gain = min(outputs over those of the smallest shape with the same grid, SMs / blocks)

use super::{Found, MIN_GAIN, Rule, contradicts, supports};
use crate::agent::diagnosis::remedy;
use crate::agent::diagnosis::subject::{Point, Subject};
use crate::domain::proposal::finding::{Confidence, EvidenceSource, Remedy};

pub(super) const RULE: Rule = Rule {
    name: "serialised-grid",
    mechanism: "each block does independent work in sequence while most multiprocessors have nothing to do",
    kernel_change: |_| "give each block its own part of the dimension that is now a loop",
    find,
};

/// How much more work and outputs a shape has to have.
const GROWTH: f64 = 4.0;

fn find(subject: &Subject<'_>) -> Option<Found> {
    let ctas = subject.plan.ctas();
    let sms = u64::from(subject.device.sms);
    if ctas * 2 > sms {
        return None;
    }
    let same_grid = subject.scaling.iter().filter(|point| point.ctas == ctas);
    let grown =
        same_grid.filter_map(|point| Growth::of(subject, point)).max_by(|a, b| a.outputs.total_cmp(&b.outputs))?;
    let gain = grown.outputs.min(sms as f64 / ctas as f64);
    if gain < MIN_GAIN {
        return None;
    }
    let Growth { from, to, work, outputs, time, source } = &grown;
    let sentence = format!(
        "from {from} to {to} the work grows {work:.0}-fold and the time {time:.1}-fold, but the grid stays at {ctas} \
         blocks on {sms} SMs"
    );
    let mut evidence = vec![supports(*source, sentence)];
    if *time > 1.5 * work {
        evidence
            .push(contradicts(*source, format!("the time grows faster than the {outputs:.0}-fold outputs explain")));
    }
    let cover = Remedy {
        text: format!("give every independent output its own block, in a grid that is {outputs:.0} times as large"),
        family: subject.family.to_owned(),
        params: None,
    };
    let others = remedy::by_family(subject, |_| true, "whose grid covers every independent output");
    let remedies = [vec![cover], others].concat();
    Some(Found {
        cause: format!("{ctas} blocks do the independent work of {outputs:.0} times as many outputs in sequence"),
        evidence,
        confidence: Confidence::High,
        gain,
        remedies,
    })
}

/// How a variant grows between two shapes, the subject's case and another.
struct Growth<'a> {
    from: &'a str,
    to: &'a str,
    work: f64,
    outputs: f64,
    time: f64,
    source: EvidenceSource,
}

impl<'a> Growth<'a> {
    fn of(subject: &Subject<'a>, point: &'a Point) -> Option<Self> {
        let case = subject.case;
        let work = subject.flop(&case.dims) / subject.flop(&point.dims);
        let outputs = subject.outputs(&case.dims) / subject.outputs(&point.dims);
        let time = subject.time_ns / point.time_ns;
        let Point { case: other, source, .. } = point;
        let grown = if work >= 1.0 {
            Self { from: other, to: &case.name, work, outputs, time, source: *source }
        } else {
            let (work, outputs, time) = (1.0 / work, 1.0 / outputs, 1.0 / time);
            Self { from: &case.name, to: other, work, outputs, time, source: *source }
        };
        let shows = grown.work >= GROWTH && grown.outputs >= GROWTH && grown.time >= 0.5 * grown.work;
        shows.then_some(grown)
    }
}
