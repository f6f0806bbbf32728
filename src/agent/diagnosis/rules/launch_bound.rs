//! Launches that take a large part of the time.
//!
//! gain = time / (time - (launches - 1) * launch time)
//!
//! One launch is needed in any case, so a kernel of one launch gains nothing.

use super::{Found, Rule, contradicts, supports};
use crate::agent::diagnosis::remedy;
use crate::agent::diagnosis::subject::Subject;
use crate::domain::proposal::finding::{Confidence, EvidenceSource, Remedy};
use crate::domain::text::counted::counted;

pub(super) const RULE: Rule = Rule {
    name: "launch-bound",
    mechanism: "starting a kernel takes a fixed time in which no block works",
    kernel_change: |_| "fuse launches, or let the next kernel start while the last one ends (programmatic dependent launch)",
    find,
};

/// The share of the launches in the time, from which they count.
const SHARE: f64 = 0.2;

fn find(subject: &Subject<'_>) -> Option<Found> {
    let launches = subject.plan.launches.len().max(1);
    let each_ns = subject.device.peaks.launch_ns;
    let share = launches as f64 * each_ns / subject.time_ns;
    if share < SHARE {
        return None;
    }
    let gain = subject.gain_of_share((launches - 1) as f64 * each_ns / subject.time_ns);
    let mut evidence = vec![supports(
        EvidenceSource::Launch,
        format!(
            "an empty kernel takes {:.2} us, and {} {} {:.0}% of the {:.2} us",
            each_ns / 1e3,
            counted(launches, "launch"),
            if launches == 1 { "takes" } else { "take" },
            100.0 * share,
            subject.time_ns / 1e3
        ),
    )];
    if launches == 1 {
        let text = "one launch is needed in any case; only a caller that overlaps it with other work gains".to_owned();
        evidence.push(contradicts(EvidenceSource::Launch, text));
    }
    let fuse = |launches| Remedy {
        text: format!("do the work of the {launches} launches in one"),
        family: subject.family.to_owned(),
        params: None,
    };
    let mut remedies = remedy::by_plan(
        subject,
        |plan| -(plan.launches.len() as f64),
        |plan| format!("{} instead of {launches}", counted(plan.launches.len(), "launch")),
    );
    if launches > 1 {
        remedies.push(fuse(launches));
    }
    Some(Found {
        cause: match launches {
            1 => format!("an empty launch takes {:.0}% of the time", 100.0 * share.min(1.0)),
            several => format!("{several} empty launches take {:.0}% of the time", 100.0 * share.min(1.0)),
        },
        evidence,
        confidence: if launches > 1 { Confidence::High } else { Confidence::Low },
        gain,
        remedies,
    })
}
