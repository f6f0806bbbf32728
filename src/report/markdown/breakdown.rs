//! Tables and sentences on what the time of kernels consists of.

use super::table::table;
use crate::domain::ablation::Removed;
use crate::report::contract::{AblatedLead, Breakdown, Case, DiagnosisOf, Report};
use crate::report::format::{NOTHING, counted, either, percent, times, us};
use crate::report::{advantage, changes};

/// The most leads to name.
const MOST: usize = 4;

/// The share from which a column is worth its room.
const SHOWN: f64 = 0.01;

/// Says what the first kernel takes without each kind of instruction. None if it was not ablated.
pub(super) fn first_kernel(report: &Report) -> Option<String> {
    let breakdown = report.first_breakdown.as_ref()?;
    let case = &report.diagnoses.iter().find(|one| one.of == DiagnosisOf::InitialKernel)?.case;
    let all = us(breakdown.us);
    let Some((first, share)) = breakdown.largest().first().copied() else {
        return Some(format!(
            "**What its instructions cost**, measured on `{case}`: no kind of instruction takes 5% of its {all} us."
        ));
    };
    let time = |removed: Removed| breakdown.without.iter().find(|one| one.removed == removed)?.us.map(us);
    let others = Removed::KINDS.into_iter().filter(|removed| *removed != first);
    let others: Vec<String> =
        others.filter_map(|removed| Some(format!("{}, {}", removed.text(), time(removed)?))).collect();
    let others = if others.is_empty() { String::new() } else { format!(" Without {}.", others.join("; without ")) };
    Some(format!(
        "**What its instructions cost**, measured on `{case}` with each kind removed, so that the output is wrong: without \
         {}, it takes {} instead of {all} us, so they cost {} of its time.{others}",
        first.text(),
        time(first).unwrap_or_default(),
        percent(share)
    ))
}

/// Returns what the times of the winners consist of. None if none was ablated.
pub(super) fn winners(report: &Report) -> Option<String> {
    let known: Vec<(&Case, &Breakdown)> =
        report.cases.iter().filter_map(|case| Some((case, case.breakdown.as_ref()?))).collect();
    let is_shown = |removed: &Removed| known.iter().any(|(_, one)| one.share(*removed).is_some_and(|it| it >= SHOWN));
    let kinds: Vec<Removed> = Removed::KINDS.into_iter().filter(is_shown).collect();
    let shown = |share: Option<f64>| share.map_or_else(|| NOTHING.to_owned(), |share| percent(share.max(0.0)));
    let row = |(case, breakdown): &(&Case, &Breakdown)| {
        let family = breakdown.family.clone();
        let kinds = kinds.iter().map(|removed| shown(breakdown.share(*removed)));
        let ends = [shown(breakdown.share(Removed::AllKinds)), shown(breakdown.other())];
        let starts = [case.case.to_string(), family, us(breakdown.us), shown(breakdown.share(Removed::Work))];
        starts.into_iter().chain(kinds).chain(ends).collect::<Vec<_>>()
    };
    let kinds = kinds.iter().map(|removed| format!(">{}", removed.text()));
    let starts = ["case", "winner", ">us", ">launch"].map(str::to_owned);
    let ends = [">all of these", ">other"].map(str::to_owned);
    let headings: Vec<String> = starts.into_iter().chain(kinds).chain(ends).collect();
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    (!known.is_empty()).then(|| table(&headings, &known.iter().map(row).collect::<Vec<_>>()))
}

/// Names the leads that are gone without one kind of instruction, and says how many others are not.
pub(super) fn leads(report: &Report) -> Vec<String> {
    let leads = nearest(report);
    let explained: Vec<&&AblatedLead> = leads.iter().filter(|lead| lead.explained).collect();
    let told = |lead: &&&AblatedLead| {
        let AblatedLead { case, family, over_family, factor, removed, factor_without, .. } = lead;
        let (factor, left) = (advantage::lead_factor(*factor, false), times(factor_without.unwrap_or(1.0)));
        let what = what((*removed)?);
        Some(format!(
            "On `{case}`, `{family}` is {factor} as fast as `{over_family}`. Without their {what}, it would be {left}: the \
             lead is in those."
        ))
    };
    let mut sentences: Vec<String> = explained.iter().take(MOST).filter_map(told).collect();
    let others = listed(explained.iter().skip(MOST).map(|lead| {
        let what = lead.removed.map_or("", what);
        format!("`{}` over `{}` ({}: {what})", lead.case, lead.over_family, times(lead.factor))
    }));
    sentences.extend(others.map(|others| format!("Explained in the same way: {others}.")));
    let open = listed(leads.iter().filter(|lead| !lead.explained).map(|lead| {
        let left = lead.factor_without.map(|left| format!(", {} at least", times(left))).unwrap_or_default();
        format!("`{}` over `{}` ({}{left})", lead.case, lead.over_family, times(lead.factor))
    }));
    sentences.extend(open.map(|open| format!("Leads that no kind of instruction explains by itself: {open}.")));
    sentences
}

/// Names the largest lead that is gone without one kind of instruction, and says how many there are. None without any.
pub(in crate::report) fn largest_lead(report: &Report) -> Option<String> {
    let first = nearest(report).into_iter().find(|lead| lead.explained);
    let told = first.and_then(|lead| {
        let (factor, left) = (times(lead.factor), times(lead.factor_without?));
        let (case, family, over, what) = (&lead.case, &lead.family, &lead.over_family, what(lead.removed?));
        Some(format!("On `{case}`, `{family}` is {factor} as fast as `{over}`, and without their {what} {left}. "))
    });
    Some(format!("{}{}", told.unwrap_or_default(), tally(report)?))
}

/// Names the most expensive kind of instruction of the first kernel. None if it was not ablated, or if none stands out.
pub(in crate::report) fn first_cost(report: &Report) -> Option<String> {
    let (removed, share) = report.first_breakdown.as_ref()?.largest().first().copied()?;
    Some(format!(" Its {} take {} of its time (measured without them).", removed.text(), percent(share)))
}

/// Returns the words for what was removed.
fn what(removed: Removed) -> &'static str {
    if removed == Removed::Work { "launches" } else { removed.text() }
}

/// Says how many leads ablations explain. None without any.
fn tally(report: &Report) -> Option<String> {
    let leads = nearest(report);
    let explained = leads.iter().filter(|lead| lead.explained).count();
    let all = counted(leads.len(), "lead");
    (!leads.is_empty()).then(|| {
        format!(
            "Of {all} that were measured without each kind of instruction, {explained} are gone without one of them."
        )
    })
}

/// Returns the lead over the fastest other family of each case, the largest first.
fn nearest(report: &Report) -> Vec<&AblatedLead> {
    let is_smallest = |lead: &&AblatedLead| {
        let others = report.ablated_leads.iter().filter(|other| other.case == lead.case);
        others.map(|other| other.factor).fold(f64::INFINITY, f64::min) >= lead.factor
    };
    report.ablated_leads.iter().filter(is_smallest).collect()
}

fn listed(items: impl Iterator<Item = String>) -> Option<String> {
    changes::listed(&items.collect::<Vec<_>>())
}

/// Says which kinds of instructions cost the winners most, with the range of their shares. None if none was ablated.
pub(in crate::report) fn costs(report: &Report) -> Option<String> {
    let known: Vec<&Breakdown> = report.cases.iter().filter_map(|case| case.breakdown.as_ref()).collect();
    let mut kinds: Vec<(Removed, Vec<f64>)> = Vec::new();
    for (removed, share) in known.iter().filter_map(|one| one.largest().first().copied()) {
        match kinds.iter_mut().find(|(known, _)| *known == removed) {
            Some((_, shares)) => shares.push(share),
            None => kinds.push((removed, vec![share])),
        }
    }
    kinds.sort_by_key(|(_, shares)| std::cmp::Reverse(shares.len()));
    let range = |shares: &[f64]| {
        let (least, most) = shares.iter().copied().reduce(f64::min).zip(shares.iter().copied().reduce(f64::max))?;
        Some(either(percent(least), percent(most)))
    };
    let told = kinds.iter().filter_map(|(removed, shares)| {
        Some(format!("{} on {} ({} of the time)", removed.text(), shares.len(), range(shares)?))
    });
    let told: Vec<String> = told.collect();
    let others: Vec<f64> = known.iter().filter_map(|one| one.other()).collect();
    let others =
        range(&others).map(|range| format!("; other arithmetic and addresses take {range}")).unwrap_or_default();
    let cases = counted(known.len(), "winner");
    (!told.is_empty()).then(|| {
        format!(
            "Of {cases} measured without each kind of instruction, the largest cost is {}{others}.",
            told.join(", ")
        )
    })
}
