//! What the session's own times say about the causes that the rules found. Its pairs of variants are experiments, and count more than
//! any estimate.

use super::subject::Subject;
use crate::domain::code::profile::Profile;
use crate::domain::history::tested::{self, Removal, Trial};
use crate::domain::proposal::finding::{CauseStatus, Confidence, Evidence, EvidenceSource, Finding, Remedy};
use crate::domain::proposal::origin::Change;
use crate::domain::space::Space;
use crate::domain::variant::Params;

/// The rule whose cause more blocks remove.
const TOO_FEW_BLOCKS: &str = "too-few-blocks";

/// How many times the blocks of the variant another grid needs, to show what more blocks gain.
const MORE_BLOCKS: f64 = 1.5;

/// The share of a cause that a change may leave, to count as an experiment without it.
const MOST_LEFT: f64 = 1.0 / 3.0;

/// How much slower than the variant it may be. One that is slower still differs in more than its blocks.
const ALIKE: f64 = 1.25;

/// Tells how much of the cause of a rule counts show, and from how much on the rule finds it. None for causes of which counts alone
/// say nothing.
type Amount = fn(&str, &Profile) -> Option<(f64, f64)>;

/// Judges the findings by the trials of the subject's case, and orders them: what experiments confirmed first, what they refuted
/// last.
pub(super) fn believe(subject: &Subject<'_>, findings: &mut [Finding], amount: Amount) {
    for found in findings.iter_mut() {
        let rule = found.rule;
        found.tested =
            tested::judge(found, subject.trials, &|with, without| removal(subject, (rule, amount), with, without));
    }
    let mut tests: Vec<_> = findings.iter_mut().map(|found| (found.rule, &mut found.tested)).collect();
    tested::tell_apart(&mut tests);
    for found in findings.iter_mut() {
        adjust(subject, found);
        if found.rule == TOO_FEW_BLOCKS {
            answer_by_blocks(subject, found);
        }
    }
    findings.sort_by(|one, other| {
        rank(one).cmp(&rank(other)).then_with(|| {
            let weight = |found: &Finding| match rank(found) {
                0 | 1 => found.tested.speedup.unwrap_or(1.0),
                _ => found.weight(),
            };
            weight(other).total_cmp(&weight(one))
        })
    });
}

/// Tells whether a change of one parameter removes the cause of a rule: by the counts of both variants, else by the manifest.
fn removal(subject: &Subject<'_>, (rule, amount): (&str, Amount), with: &Trial<'_>, without: &Trial<'_>) -> Removal {
    let counted = |trial: &Trial<'_>| trial.profile.and_then(|profile| amount(rule, profile));
    let change = Change::between(with.params, without.params);
    let is_stated = || {
        let (family, _) = subject.configuration.filter(|(family, _)| family.name == with.family)?;
        let [Change { parameter, from, to }] = &*change else { return None };
        Some(family.params.get(parameter)?.helps.get(rule)?.leads(*from, *to))
    };
    match (counted(with), counted(without)) {
        (Some((with, least)), Some((without, _))) if with >= least && without <= MOST_LEFT * with => Removal::Counted,
        (Some(_), Some(_)) => Removal::None,
        _ if is_stated() == Some(true) => Removal::Stated,
        _ => Removal::None,
    }
}

/// Takes over what experiments showed: the gain, the confidence, and the parameter that removes the cause.
fn adjust(subject: &Subject<'_>, found: &mut Finding) {
    let (Some(iteration), Some(speedup)) = (found.tested.iteration, found.tested.speedup) else { return };
    let changed: Vec<String> =
        found.tested.changes.iter().map(|one| format!("{} {} to {}", one.parameter, one.from, one.to)).collect();
    let what = if changed.is_empty() { "another family".to_owned() } else { changed.join(" with ") };
    let pairs = match found.tested.pairs {
        1 => format!("iteration {iteration}"),
        pairs => format!("the median of {pairs} pairs, iteration {iteration}"),
    };
    let is_refuted = found.tested.status == CauseStatus::NotConfirmed;
    let text = format!("{what}: {speedup:.2} times as fast ({pairs})");
    found.evidence.insert(0, Evidence { source: EvidenceSource::Experiment, supports: !is_refuted, text });
    match found.tested.status {
        CauseStatus::Confirmed => found.confidence = Confidence::High,
        CauseStatus::NotConfirmed => found.confidence = Confidence::Low,
        _ => {}
    }
    if found.tested.counted {
        found.gain = speedup.clamp(1.0, subject.headroom());
    }
    if !is_refuted && let [change] = &*found.tested.changes {
        let named = remedy(subject, change);
        found.remedies.retain(|one| named.as_ref().is_none_or(|named| one.params != named.params));
        drop(found.remedies.splice(0..0, named));
    }
}

/// Returns the subject with a change. None if that is no configuration of its family.
fn remedy(subject: &Subject<'_>, Change { parameter, from, to }: &Change) -> Option<Remedy> {
    let (family, own) = subject.configuration.filter(|(_, own)| own.get(parameter) == Some(from))?;
    let mut params: Params = own.clone();
    params.insert(parameter.clone(), *to);
    let Subject { workload, case, device, .. } = *subject;
    let space = Space { family, case, dtype: workload.dtype, device };
    let about = family.params.get(parameter).map(|one| one.about.as_str()).filter(|about| !about.is_empty());
    let about = about.map(|about| format!(": {about}")).unwrap_or_default();
    let text = format!("set {parameter} from {from} to {to}{about}");
    space.contains(&params).unwrap_or(false).then(|| Remedy { text, family: family.name.clone(), params: Some(params) })
}

/// Lowers the confidence in too few blocks where another family already has more of them and is not faster: what more blocks gain was
/// measured then.
fn answer_by_blocks(subject: &Subject<'_>, found: &mut Finding) {
    let own = subject.plan.ctas() as f64;
    let has_more = |one: &&Trial<'_>| {
        let blocks = one.ctas.is_some_and(|blocks| blocks as f64 >= MORE_BLOCKS * own);
        blocks && one.family != subject.family && one.ns <= ALIKE * subject.time_ns
    };
    let Some(other) = subject.trials.iter().filter(has_more).min_by(|a, b| a.ns.total_cmp(&b.ns)) else { return };
    let blocks = other.ctas.unwrap_or_default();
    let text = format!(
        "{} already divides this case into {blocks} blocks, and takes {:.2} times as long, so more blocks alone gain little",
        other.family,
        other.ns / subject.time_ns
    );
    found.evidence.push(Evidence { source: EvidenceSource::Times, supports: false, text });
    found.confidence = Confidence::Low;
}

/// Ranks causes by what experiments have shown.
fn rank(found: &Finding) -> u8 {
    match found.tested.status {
        CauseStatus::Confirmed => 0,
        CauseStatus::Supported => 1,
        CauseStatus::Inconclusive => 2,
        CauseStatus::NotTested | CauseStatus::NoExperiment => 3,
        CauseStatus::NotConfirmed => 4,
    }
}
