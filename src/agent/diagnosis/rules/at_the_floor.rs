//! A variant that is near the floor of its case, so that little is left to gain.
//!
//! gain = time / floor, where the floor is the largest of FLOP / peak, bytes / bandwidth and a launch

use super::{Found, Rule, supports};
use crate::agent::diagnosis::subject::Subject;
use crate::domain::measurement::floor::Limiter;
use crate::domain::proposal::finding::{Confidence, EvidenceSource};

pub(super) const RULE: Rule = Rule {
    name: "at-the-floor",
    mechanism: "the device does the work that every correct kernel needs, at nearly the rate that it can",
    kernel_change: |_| "skip work or bytes that the result does not need",
    find,
};

/// The time over the floor, up to which a variant counts as near it.
const NEAR: f64 = 1.5;

fn find(subject: &Subject<'_>) -> Option<Found> {
    let floor = subject.floor();
    let headroom = subject.headroom();
    if headroom > NEAR {
        return None;
    }
    let (op, dims) = (subject.workload.op, &subject.case.dims);
    let (flop, bytes) = (op.flop(dims), op.bytes(dims, subject.workload.dtype));
    let peaks = &subject.device.peaks;
    let ridge = peaks.flops(subject.workload.dtype, subject.workload.compute) / peaks.memory_bytes_per_s;
    let limit = match floor.limiter {
        Limiter::Arithmetic => "the arithmetic peak",
        Limiter::Memory => "the memory bandwidth",
        Limiter::L2 => "the bandwidth of L2",
        Limiter::Launch => "the time of an empty launch",
    };
    Some(Found {
        cause: format!("the time is {headroom:.2} times the floor, which {limit} sets"),
        evidence: vec![
            supports(
                EvidenceSource::Launch,
                format!("the floor is {:.3} us, the time {:.3} us", floor.ns / 1e3, subject.time_ns / 1e3),
            ),
            supports(
                EvidenceSource::Launch,
                format!("it does {:.0} FLOP per byte; the device balances at {ridge:.0}", flop / bytes),
            ),
        ],
        confidence: Confidence::High,
        gain: headroom,
        remedies: Vec::new(),
    })
}
