//! Tables and sentences on what the time of kernels consists of.

use super::table::table;
use crate::domain::ablation::Removed;
use crate::report::changes;
use crate::report::contract::{AblatedLead, Breakdown, Case, DiagnosisOf, Report};
use crate::report::format::{NOTHING, counted, either, percent, times, us};

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

/// Says which kinds of instructions the leads are in, and names those that none explains.
pub(super) fn leads(report: &Report) -> Vec<String> {
    let leads = nearest(report);
    let explained: Vec<&&AblatedLead> = leads.iter().filter(|lead| lead.explained).collect();
    let mut sentences: Vec<String> = explained.iter().take(MOST).map(|lead| format!("{}.", told(lead))).collect();
    let others = listed(explained.iter().skip(MOST).map(|lead| {
        let (share, what) = (percent(lead.share.unwrap_or_default()), what(lead.removed));
        format!("`{}` over `{}` ({}; {share} {what})", lead.case, lead.over_family, times(lead.factor))
    }));
    sentences.extend(others.map(|others| format!("Explained in the same way: {others}.")));
    let open = listed(leads.iter().filter(|lead| !lead.explained).map(|lead| {
        // A share above the whole lead is made up for by other kinds.
        let part = lead.share.filter(|share| (0.0..1.0).contains(share));
        let most = part.map(|share| format!("; {} {}", percent(share), what(lead.removed))).unwrap_or_default();
        format!("`{}` over `{}` ({}{most})", lead.case, lead.over_family, times(lead.factor))
    }));
    sentences.extend(open.map(|open| format!("No kind of instruction explains most of the lead on {open}.")));
    sentences
}

/// Says what a lead is in: `On case, one is 1.13x as fast as another (0.34 us). 92% of that is in loads`.
fn told(lead: &AblatedLead) -> String {
    let AblatedLead { case, family, over_family, factor, lead_us, removed, share, .. } = lead;
    let (factor, share) = (times(*factor), percent(share.unwrap_or_default()));
    format!(
        "On `{case}`, `{family}` is {factor} as fast as `{over_family}`, which takes {} us longer, {share} of it for {}",
        us(*lead_us),
        what(*removed)
    )
}

/// Names the largest lead that a kind of instruction explains, and says how many there are. None without ablated leads.
pub(in crate::report) fn largest_lead(report: &Report) -> Option<String> {
    let first = nearest(report).into_iter().find(|lead| lead.explained);
    let first = first.map(|lead| format!("{} (measured without them). ", told(lead))).unwrap_or_default();
    Some(format!("{first}{}", tally(report)?))
}

/// Names the most expensive kind of instruction of the first kernel. None if it was not ablated, or if none stands out.
pub(in crate::report) fn first_cost(report: &Report) -> Option<String> {
    let (removed, share) = report.first_breakdown.as_ref()?.largest().first().copied()?;
    Some(format!(" Its {} take {} of its time (measured without them).", removed.text(), percent(share)))
}

/// Returns the words for what a lead is in.
fn what(removed: Option<Removed>) -> &'static str {
    match removed {
        None => "other arithmetic, addresses and synchronisation",
        Some(Removed::Work) => "the launch",
        Some(Removed::AllKinds) => "loads, products and other kinds that hide each other",
        Some(removed) => removed.text(),
    }
}

/// Says how many leads ablations explain. None without any.
fn tally(report: &Report) -> Option<String> {
    let leads = nearest(report);
    let explained = leads.iter().filter(|lead| lead.explained).count();
    let all = counted(leads.len(), "ablated lead");
    (!leads.is_empty()).then(|| format!("Instructions explain most of {explained} of {all} over the next best family."))
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
    let told = kinds
        .iter()
        .filter_map(|(removed, shares)| Some(format!("{} on {} ({})", removed.text(), shares.len(), range(shares)?)));
    let told: Vec<String> = told.collect();
    let others: Vec<f64> = known.iter().filter_map(|one| one.other()).collect();
    let others = range(&others).map(|range| format!(" other arithmetic and addresses take {range} of the time;"));
    let cases = counted(known.len(), "winner");
    (!told.is_empty()).then(|| {
        format!(
            "Of {cases} measured without each kind of instruction,{} of the kinds that can be removed, the most expensive is {}.",
            others.unwrap_or_default(),
            told.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::IterationId;
    use crate::report::contract::Without;
    use crate::report::tests::full::full;

    fn breakdown(us: f64, shares: &[(Removed, f64)]) -> Breakdown {
        let without = |(removed, share): &(Removed, f64)| Without {
            removed: *removed,
            us: Some(if *removed == Removed::Work { share * us } else { (1.0 - share) * us }),
            share: Some(*share),
            places: 4,
            diverting: 0,
            kept: 0,
            problem: None,
        };
        let without = shares.iter().map(without).collect();
        Breakdown { iteration: IterationId(7), family: "tiled".to_owned(), us, without }
    }

    fn lead(case: &str, factor: f64, removed: Option<Removed>, share: f64) -> AblatedLead {
        AblatedLead {
            case: case.into(),
            family: "tiled".to_owned(),
            over: IterationId(3),
            over_family: "split-k".to_owned(),
            factor,
            lead_us: factor - 1.0,
            removed,
            share: Some(share),
            explained: share > 0.6,
        }
    }

    #[test]
    fn costs_and_leads_are_told() {
        let mut report = full();
        assert!(first_kernel(&report).is_none() && winners(&report).is_none() && costs(&report).is_none());
        let loads = [(Removed::Work, 0.1), (Removed::GlobalLoads, 0.3), (Removed::Barriers, 0.002)];
        report.first_breakdown = Some(breakdown(80.0, &loads));
        report.diagnoses[0].of = DiagnosisOf::InitialKernel;
        let all = [(Removed::Work, 0.2), (Removed::GlobalLoads, 0.25), (Removed::AllKinds, 0.4)];
        report.cases[0].breakdown = Some(breakdown(50.0, &all));
        let hidden = [(Removed::Work, 0.1), (Removed::TensorProducts, 0.12), (Removed::AllKinds, 0.6)];
        report.cases[1].breakdown = Some(breakdown(400.0, &hidden));
        let cases: Vec<String> = report.cases.iter().map(|case| case.case.to_string()).collect();
        report.ablated_leads = vec![
            lead(&cases[0], 1.5, Some(Removed::GlobalLoads), 0.9),
            lead(&cases[1], 1.3, None, 1.0),
            lead(&cases[2], 1.2, Some(Removed::Shuffles), 0.2),
        ];
        let sentences =
            [first_kernel(&report), first_cost(&report), costs(&report), largest_lead(&report), winners(&report)];
        let told: Vec<String> = sentences.into_iter().flatten().chain(leads(&report)).collect();
        insta::assert_snapshot!(told.join("\n"));
        let page = report.to_markdown().unwrap();
        assert!(
            page.contains("What the winners' instructions cost") && page.contains("Where its lead comes from"),
            "{page}"
        );
        assert!(report.to_html().unwrap().contains("What the winners"));
    }
}
