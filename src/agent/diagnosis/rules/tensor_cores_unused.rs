//! Products on the FMA pipes that tensor cores would do.
//!
//! gain = 1 / (1 - products * (1 - FMA peak / tensor peak)), where products = 1 - time without products / time
//!
//! If the FMA pipes finish the work in the time that memory needs anyway, as for a softmax, there is no finding.

use super::{Found, MIN_GAIN, Rule, contradicts, modelled, supports, without};
use crate::agent::diagnosis::remedy;
use crate::agent::diagnosis::subject::Subject;
use crate::domain::code::profile::Cause;
use crate::domain::family::Family;
use crate::domain::measurement::floor;
use crate::domain::proposal::finding::{Confidence, EvidenceSource, Remedy};

pub(super) const RULE: Rule = Rule {
    name: "tensor-cores-unused",
    mechanism: "the FMA pipes do a sixteenth or less of the products that tensor cores do in the same time",
    kernel_change: |_| "compute its products with mma or wgmma instructions",
    find,
};

fn find(subject: &Subject<'_>) -> Option<Found> {
    let (dtype, compute) = (subject.workload.dtype, subject.workload.compute);
    let fma_share = compute.fma_share(dtype)?;
    if subject.uses_tensor_cores()? {
        return None;
    }
    let (flop, peak) = (subject.flop(&subject.case.dims), subject.device.peaks.flops(dtype, compute));
    if flop / (peak * fma_share) * 1e9 <= floor::transfers_ns(subject.workload, subject.case, subject.device) {
        return None;
    }
    let flops = flop / subject.time_ns * 1e9;
    let mut evidence =
        vec![supports(EvidenceSource::Compiler, "no kernel has an instruction for tensor cores".to_owned())];
    let share = format!("{:.2} of {:.0} TFLOP/s", flops / 1e12, peak / 1e12);
    let modelled_gain = subject.gain_without(Cause::Products);
    // Without counters, only the FMA peak tells how much of the time the products may take.
    let products = match modelled_gain {
        Some(gain) => 1.0 - 1.0 / gain,
        None => (flops / (peak * fma_share)).min(1.0),
    };
    let gain = subject.gain_of_share(products * (1.0 - fma_share));
    if gain < MIN_GAIN {
        return None;
    }
    evidence.push(supports(EvidenceSource::Times, format!("it reaches {share}")));
    evidence.extend(modelled_gain.map(|gain| without("any product", gain)));
    let remedies = remedy::by_family(subject, uses_tensor_cores, "which multiplies on tensor cores");
    let excluded = remedy::excluded(subject, uses_tensor_cores);
    let none_fits = remedies.is_empty();
    evidence.extend(excluded.iter().map(|reason| contradicts(EvidenceSource::Launch, reason.clone())));
    let new_kernel = || Remedy {
        text: format!("no family with tensor cores takes {}: it needs a new kernel", subject.case.name),
        family: subject.family.to_owned(),
        params: None,
    };
    Some(Found {
        cause: "the products run on the FMA pipes, and the tensor cores are idle".to_owned(),
        evidence,
        confidence: if modelled_gain.is_some() { modelled(subject) } else { Confidence::Low },
        gain,
        remedies: if none_fits { vec![new_kernel()] } else { remedies },
    })
}

/// Tells whether a family's template has instructions for tensor cores.
fn uses_tensor_cores(family: &Family) -> bool {
    ["mma.sync", "wgmma", "nvcuda::wmma"].into_iter().any(|instruction| family.template.contains(instruction))
}
