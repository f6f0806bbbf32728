//! Gains that follow only from the model of the virtual GPU. They are not known where the model's time is far from the
//! measured one: what it says of a part of a wrong time is no estimate. An ablation that allows the gain keeps it.

use super::subject::Subject;
use crate::domain::device::TimeSource;
use crate::domain::proposal::finding::{Evidence, EvidenceSource};

/// By what factor the model's time may be off, either way.
const MOST_OFF: f64 = 1.25;

/// Says by how much the model is off, as evidence against a gain that follows from it. None where the model is near the
/// measured time, and where times are modelled themselves.
pub(super) fn off(subject: &Subject<'_>) -> Option<Evidence> {
    let profile = subject.profile.filter(|_| subject.device.time_source() != TimeSource::Modelled)?;
    let (modelled_ns, measured_ns) = (profile.modelled_ns(), subject.time_ns);
    let factor = (modelled_ns / measured_ns).max(measured_ns / modelled_ns);
    let chain_ns = profile.longest()?.parts_ns.get("latency").copied().unwrap_or_default();
    let [modelled, measured, chain] = [modelled_ns, measured_ns, chain_ns].map(|ns| format!("{:.3} us", ns / 1e3));
    let is_impossible = chain_ns > measured_ns;
    let chain = if is_impossible { format!("; the chain alone would take {chain}") } else { String::new() };
    (factor > MOST_OFF || is_impossible).then(|| Evidence {
        source: EvidenceSource::VirtualCounters,
        supports: false,
        text: format!(
            "the model takes {modelled} for the kernel, which takes {measured} ({factor:.2} times off{chain}), so its figures \
             alone show no gain"
        ),
    })
}
