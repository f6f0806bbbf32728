//! How many of the winners' leads the counts of a virtual GPU explain.

use super::advantage::{MIN_FACTOR, leads};
use super::contract::{Advantage, CountedLead, FamilyTime, Report, Rivals};
use super::format::{counted, fine};
use crate::domain::ids::CaseName;

/// Says for how many of the counted leads the counts account. None without counted leads.
pub(super) fn tally(report: &Report) -> Option<String> {
    let leads = leads(&report.advantages, &report.rival_advantages);
    let explained = leads.iter().filter(|one| one.explained).count();
    // If several are not explained, their number follows from the others.
    let other = leads.iter().find(|one| !one.explained).filter(|_| leads.len() - explained == 1);
    let uncounted = match not_counted(report).len() {
        0 => String::new(),
        1 => "; 1 more was not counted".to_owned(),
        some => format!("; {some} more were not counted"),
    };
    let roles: Vec<&str> = leads.iter().map(|one| counted_as(one, report)).collect();
    match (leads.len(), other) {
        (0, _) => None,
        (1, Some(other)) => {
            Some(format!("What a virtual GPU counted does not explain {}, the only such lead{uncounted}.", why(other)))
        }
        (_, other) => {
            let other = other.map(|other| format!(", but not {}", why(other))).unwrap_or_default();
            let (all, explained) = (leads_over(&roles), self::explained(&leads));
            Some(format!("Of {all} that a virtual GPU counted, its counts explain {explained}{other}{uncounted}."))
        }
    }
}

/// Says the same, but only if the counts do not explain all counted leads.
pub(super) fn tally_of_some(report: &Report) -> Option<String> {
    let leads = leads(&report.advantages, &report.rival_advantages);
    leads.iter().any(|one| !one.explained).then(|| tally(report)).flatten()
}

/// Names a lead: `why ... is 1.02× as fast as ... on ...`.
fn why(lead: &Advantage) -> String {
    format!(
        "why `{}` is {} as fast as `{}` on `{}`",
        lead.after.family,
        fine(lead.factor),
        lead.before.family,
        lead.case
    )
}

fn explained(leads: &[&Advantage]) -> String {
    match leads.iter().filter(|one| one.explained).count() {
        0 => "none".to_owned(),
        some => some.to_string(),
    }
}

/// Says how many leads the counts explain, over what, and why not the others. None without leads.
pub(super) fn tally_with_reasons(report: &Report) -> Option<String> {
    let leads = leads(&report.advantages, &report.rival_advantages);
    let (differs, not_counted) = (leads.iter().filter(|one| !one.explained).count(), not_counted(report));
    let all = leads.len() + not_counted.len();
    let roles = leads.iter().map(|one| counted_as(one, report)).chain(not_counted.iter().map(|one| one.role));
    let (explained, over) = (explained(&leads), over(&roles.collect::<Vec<_>>()));
    let by_hardware = leads.iter().filter(|one| !one.explained && is_shown_by_hardware(one, report)).count();
    let by_hardware = match by_hardware {
        0 => String::new(),
        some => format!(" (hardware counters show {some} of them)"),
    };
    let differs =
        (differs > 0).then(|| format!("for {differs} the model derives another ratio than was measured{by_hardware}"));
    let not_counted = not_counted.len();
    let not_counted = (not_counted > 0).then(|| format!("for {not_counted} not both kernels were counted"));
    let why: Vec<String> = [differs, not_counted].into_iter().flatten().collect();
    let why = if why.is_empty() { String::new() } else { format!("; {}", why.join(", and ")) };
    (all > 0)
        .then(|| format!("The counts explain {explained} of {} of 2% or more ({over}){why}.", counted(all, "lead")))
}

/// Tells whether hardware counters show a lead over a variant.
fn is_shown_by_hardware(lead: &Advantage, report: &Report) -> bool {
    let is_same = |one: &&CountedLead| one.case == lead.case && one.other == lead.before.family;
    report.counted_leads.iter().find(is_same).is_some_and(|one| one.shown)
}

/// Returns what a lead is over. One over the family that the session began with counts as one over that winner.
fn counted_as(lead: &Advantage, report: &Report) -> &'static str {
    let is_same =
        |one: &&Advantage| one.case == lead.case && one.before.family == lead.before.family && one.role != "slowest";
    report.advantages.iter().find(is_same).map_or(lead.role, |one| one.role)
}

/// Counts leads by what they are over, without what there are none over.
fn by_role(roles: &[&str]) -> Vec<(usize, &'static str)> {
    let kinds = [
        ("rival", "another family"),
        ("committed_winner", "a committed winner"),
        ("first_variant", "the first kernel"),
    ];
    let counts = kinds.map(|(role, what)| (roles.iter().filter(|one| **one == role).count(), what));
    counts.into_iter().filter(|(count, _)| *count > 0).collect()
}

/// Says over what the winners lead: `9 over another family, 4 over a committed winner`.
fn over(roles: &[&str]) -> String {
    let told = by_role(roles).into_iter().map(|(count, what)| format!("{count} over {what}"));
    told.collect::<Vec<_>>().join(", ")
}

/// Counts leads by what they are over: `3 leads over another family`, or `13 leads (9 over another family, 4 over a committed
/// winner)`.
fn leads_over(roles: &[&str]) -> String {
    let all = counted(roles.len(), "lead");
    match &*by_role(roles) {
        [(_, what)] => format!("{all} over {what}"),
        _ => format!("{all} ({})", over(roles)),
    }
}

/// A lead that is not explained, because the virtual GPU has not counted both kernels.
pub(super) struct NotCounted<'a> {
    /// The case.
    pub(super) case: &'a CaseName,
    /// What the lead is over, as in [`Advantage`].
    pub(super) role: &'static str,
}

/// Returns the leads over what the session began with and over other families whose kernels were not both counted.
pub(super) fn not_counted(report: &Report) -> Vec<NotCounted<'_>> {
    // Without a virtual GPU, nothing is counted.
    let is_counted = !report.advantages.is_empty() || !report.rival_advantages.is_empty();
    let over_began = report.cases.iter().filter(|_| is_counted).filter_map(|case| {
        let change = case.change.as_ref().filter(|change| change.improved)?;
        let is_lead = change.ratio.is_some_and(|ratio| ratio.estimate >= MIN_FACTOR);
        let is_counted = report.advantages.iter().any(|one| one.case == case.case && one.role == change.began_with);
        (is_lead && !is_counted).then_some(NotCounted { case: &case.case, role: change.began_with })
    });
    let is_compared = |case: &CaseName| report.rival_advantages.iter().any(|one| one.case == *case);
    // A lead over the family of the committed winner is one over that winner.
    let is_began = |case: &CaseName, next: &FamilyTime| {
        report.beaten.iter().any(|one| one.case == *case && one.family == next.family)
    };
    let over_rivals = report.rivals.iter().filter_map(|Rivals { case, families }| match &**families {
        [own, next, ..] if next.us >= MIN_FACTOR * own.us && !is_compared(case) && !is_began(case, next) => {
            Some(NotCounted { case, role: "rival" })
        }
        _ => None,
    });
    over_began.chain(over_rivals).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{found, iteration, record, report};
    use super::*;
    use crate::domain::evaluation::Outcome;
    use crate::domain::ids::IterationId;
    use crate::domain::profile::Profile;
    use crate::domain::profile::tests::launch;
    use crate::domain::verdict::Verdict;

    #[test]
    fn leads_are_counted_by_what_explains_them() {
        let mut record = record();
        let profile = || Some(Profile { launches: vec![launch("attend", 1000.0)], checked_on: None });
        record.iterations[2].measurements[0].explanation = profile();
        let mut other = found("b1h1s128", 60.0, Verdict::Regressed, None, None);
        other.explanation = profile();
        let mut rival = iteration(IterationId(6), 48, None, Outcome::Measured, vec![other]);
        rival.family = "split-k".to_owned();
        record.iterations.push(rival);
        let mut report = report(&record);
        let told = |report: &Report| tally(report).unwrap();
        let alone = told(&report);
        let lead = report.rival_advantages[0].clone();
        let on = |case: &str, explained| Advantage { case: case.into(), explained, ..lead.clone() };
        report.rival_advantages.push(on("b8h8s512", true));
        let two = told(&report);
        report.rival_advantages.push(on("b16h8s512", false));
        insta::assert_snapshot!([alone, two, told(&report)].join("\n"), @"
        What a virtual GPU counted does not explain why `tiled` is 1.20× as fast as `split-k` on `b1h1s128`, the only such lead; 1 more was not counted.
        Of 2 leads over another family that a virtual GPU counted, its counts explain 1, but not why `tiled` is 1.20× as fast as `split-k` on `b1h1s128`; 1 more was not counted.
        Of 3 leads over another family that a virtual GPU counted, its counts explain 1; 1 more was not counted.
        ");
    }
}
