//! What probably limits the best variants: cases with the same cause in one group.

use super::contract::{Case, Diagnosis, Finding};
use super::format::{either, percent, times};
use super::limiter::{first_cause, unexplained, weight};
use super::merged::{merge, shape};
use crate::domain::ids::IterationId;

/// Cases whose best variants have the same cause of lost time, with the same next step.
pub(super) struct Group<'a> {
    /// The cases with their first causes, the most promising first. No causes where the diagnosis found none that survived.
    pub(super) members: Vec<(&'a Case, Option<&'a Finding>)>,
}

/// Groups all cases that have a time, the most promising cause first: by gain and confidence.
pub(super) fn groups<'a>(cases: &'a [Case], diagnoses: &'a [Diagnosis]) -> Vec<Group<'a>> {
    let timed = cases.iter().filter(|case| case.best_us.is_some());
    let mut known: Vec<(&Case, Option<&Finding>)> = timed.map(|case| (case, first_cause(case, diagnoses))).collect();
    let place = |cause: Option<&Finding>| cause.map_or(-1.0, weight);
    known.sort_by(|a, b| place(b.1).total_cmp(&place(a.1)));
    let mut groups: Vec<(Key<'_>, Group<'_>)> = Vec::new();
    for member in known {
        let key = key(member);
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, group)) => group.members.push(member),
            None => groups.push((key, Group { members: vec![member] })),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// What the cases of a group share: the cause without its figures, what to do about it and the experiment about it.
type Key<'a> = (String, Option<(&'a str, Option<IterationId>)>);

fn key<'a>((case, cause): (&'a Case, Option<&'a Finding>)) -> Key<'a> {
    let limit = case.limited_by.as_deref().unwrap_or_default();
    (shape(limit), cause.map(|cause| (&*cause.next, cause.tested.iteration)))
}

impl<'a> Group<'a> {
    /// Returns the cause with the largest gain, weighted by confidence.
    pub(super) fn first(&self) -> Option<&'a Finding> {
        self.members.first()?.1
    }

    /// Says what limits the cases, with the range of each figure.
    pub(super) fn limit(&self) -> String {
        merge(&self.members.iter().filter_map(|(case, _)| case.limited_by.as_deref()).collect::<Vec<_>>())
    }

    /// Returns the families of the best variants.
    pub(super) fn families(&self) -> Vec<&'a str> {
        let mut families: Vec<&str> = Vec::new();
        for variant in self.members.iter().filter_map(|(case, _)| case.variant.as_ref()) {
            if !families.contains(&&*variant.family) {
                families.push(&variant.family);
            }
        }
        families
    }

    /// Formats the possible gains: `2.36× to 3.08×`. None if no cause has one.
    pub(super) fn gains(&self) -> Option<String> {
        let gains = || self.causes().map(|cause| cause.gain).filter(|gain| *gain > 1.0);
        let (least, most) = gains().reduce(f64::min).zip(gains().reduce(f64::max))?;
        let unknown = match self.causes().count() - gains().count() {
            0 => String::new(),
            some => format!(" or, on {some}, not known"),
        };
        Some(format!("{}{unknown}", either(times(least), times(most))))
    }

    /// Returns the largest possible gain. None if no cause has one.
    pub(super) fn most_to_gain(&self) -> Option<f64> {
        self.causes().map(|cause| cause.gain).filter(|gain| *gain > 1.0).reduce(f64::max)
    }

    /// Formats the share of the time that neither the floor nor the cause explains: `46% to 69%`. None without a floor.
    pub(super) fn unexplained(&self, diagnoses: &[Diagnosis]) -> Option<String> {
        let shares = || self.members.iter().filter_map(|(case, _)| unexplained(case, diagnoses));
        let (least, most) = shares().reduce(f64::min).zip(shares().reduce(f64::max))?;
        Some(either(percent(least), percent(most)))
    }

    /// Formats the share of the time that is left without the launch and all kinds of instructions that can be removed: `25% to
    /// 40%`. None if no case was ablated.
    pub(super) fn others(&self) -> Option<String> {
        let shares = || self.members.iter().filter_map(|(case, _)| case.breakdown.as_ref()?.other());
        let (least, most) = shares().reduce(f64::min).zip(shares().reduce(f64::max))?;
        Some(either(percent(least), percent(most)))
    }

    /// Formats the confidence in the causes: `medium to high`. None without causes.
    pub(super) fn confidence(&self) -> Option<String> {
        let confidence = || self.causes().map(|cause| cause.confidence);
        let (least, most) = confidence().min().zip(confidence().max())?;
        Some(either(least.name().to_owned(), most.name().to_owned()))
    }

    fn causes(&self) -> impl Iterator<Item = &'a Finding> {
        self.members.iter().filter_map(|(_, cause)| *cause)
    }
}

#[cfg(test)]
mod tests {
    use super::super::contract::Finding;
    use super::super::tests::full::full;
    use super::*;
    use crate::domain::finding::Confidence;

    /// The causes of two cases differ in their figures, and that of a third in what to do about it.
    #[test]
    fn cases_with_the_same_cause_and_the_same_next_step_share_a_group() {
        let mut report = full();
        let template = report.diagnoses[0].clone();
        report.diagnoses = Vec::new();
        let figures = [(16, 1.5, "split the keys"), (1, 3.0, "split the keys"), (8, 1.2, "use smaller tiles")];
        for (case, (blocks, gain, next)) in report.cases.iter_mut().zip(figures) {
            case.iteration = Some(template.iteration);
            let cause = format!("the grid has {blocks} block{} on 58 SMs", if blocks == 1 { "" } else { "s" });
            case.limited_by = Some(cause.clone());
            let confidence = if blocks == 1 { Confidence::Medium } else { Confidence::High };
            let one = Finding { cause, gain, confidence, next: next.to_owned(), ..template.findings[0].clone() };
            report.diagnoses.push(Diagnosis { case: case.case.clone(), findings: vec![one], ..template.clone() });
        }
        let groups = groups(&report.cases, &report.diagnoses);
        let told: Vec<String> = groups
            .iter()
            .map(|one| {
                let cases: Vec<&str> = one.members.iter().map(|(case, _)| &*case.case).collect();
                format!("{}: {}, {}, {}", cases.join(" "), one.limit(), one.gains().unwrap(), one.confidence().unwrap())
            })
            .collect();
        insta::assert_snapshot!(told.join("\n"), @"
        b8h8s512 b1h1s128: the grid has 1 to 16 blocks on 58 SMs, 1.50× to 3.00×, medium to high
        b16h8s512: the grid has 8 blocks on 58 SMs, 1.20×, high
        ");
    }
}
