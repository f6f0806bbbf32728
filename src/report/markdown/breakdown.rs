//! Tables and sentences on what the time of kernels consists of.

use super::table::table;
use crate::domain::ablation::Removed;
use crate::report::breakdown::WAITS;
use crate::report::changes::listed;
use crate::report::contract::{Breakdown, Case, DiagnosisOf, Report};
use crate::report::format::{NOTHING, counted, either, percent, us};

/// What is left without the kinds of instructions that can be removed.
pub(super) const OTHER: &str = "the rest, such as addresses and synchronisation";

/// What is left without these and without waits.
pub(super) const OTHER_THAN_WAITS: &str = "the rest, such as addresses and conversions";

/// The share from which a column is worth its room.
pub(super) const SHOWN: f64 = 0.01;

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
    let waits_are_known = known.iter().any(|(_, one)| one.waits().is_some());
    let row = |(case, breakdown): &(&Case, &Breakdown)| {
        let family = breakdown.family.clone();
        let kinds = kinds.iter().map(|removed| shown(breakdown.share(*removed)));
        let all = shown(breakdown.share(Removed::AllKinds));
        let waits = waits_are_known.then(|| shown(breakdown.waits()));
        let ends = [all].into_iter().chain(waits).chain([shown(breakdown.other())]);
        let starts = [case.case.to_string(), family, us(breakdown.us), shown(breakdown.share(Removed::Work))];
        starts.into_iter().chain(kinds).chain(ends).collect::<Vec<_>>()
    };
    let kinds = kinds.iter().map(|removed| format!(">{}", removed.text()));
    let starts = ["case", "winner", ">us", ">launch"].map(str::to_owned);
    let waits = waits_are_known.then(|| format!(">{WAITS}"));
    let ends = [">all of these".to_owned()].into_iter().chain(waits).chain([">other".to_owned()]);
    let headings: Vec<String> = starts.into_iter().chain(kinds).chain(ends).collect();
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    (!known.is_empty()).then(|| table(&headings, &known.iter().map(row).collect::<Vec<_>>()))
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
    let told = kinds.iter().enumerate().filter_map(|(at, (removed, shares))| {
        let cases = if at == 0 { counted(shares.len(), "case") } else { shares.len().to_string() };
        Some(format!("{} on {cases} ({})", removed.text(), range(shares)?))
    });
    let told: Vec<String> = told.collect();
    let waits: Vec<f64> = known.iter().filter_map(|one| one.waits()).collect();
    let others: Vec<f64> = known.iter().filter_map(|one| one.other()).collect();
    let launches: Vec<f64> = known.iter().filter_map(|one| one.share(Removed::Work)).collect();
    let all: Vec<f64> = known.iter().filter_map(|one| one.share(Removed::AllKinds)).collect();
    let winners = if known.len() == 1 { "winner's" } else { "winners'" };
    let rest = if waits.is_empty() { OTHER } else { OTHER_THAN_WAITS };
    let told = (!told.is_empty()).then(|| told.join(", "))?;
    let kinds = match range(&all) {
        Some(all) => format!(
            "Loads, arithmetic and stores together take {all} of the {winners} time (measured by removing instructions). The largest \
             single kind is {told}; kinds overlap."
        ),
        None => format!("The largest single kind of instruction is {told}; single kinds overlap."),
    };
    let parts = [("the launch", launches), (WAITS, waits), (rest, others)];
    let parts = parts.iter().filter_map(|(name, shares)| Some(format!("{name} ({})", range(shares)?)));
    let parts = listed(&parts.collect::<Vec<_>>()).map(|parts| format!(" The other parts of the time are {parts}."));
    Some(format!("{kinds}{}", parts.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::super::divided_leads::{largest_lead, leads, most_of_leads, saved};
    use super::*;
    use crate::domain::ids::IterationId;
    use crate::report::contract::{AblatedLead, Longer, Without};
    use crate::report::tests::full::full;
    use crate::report::tests::without;

    fn breakdown(us: f64, shares: &[(Removed, f64)]) -> Breakdown {
        let without = |(removed, share): &(Removed, f64)| Without {
            us: Some(if *removed == Removed::Work { share * us } else { (1.0 - share) * us }),
            ..without((*removed, *share))
        };
        let without = shares.iter().map(without).collect();
        Breakdown { iteration: IterationId(7), family: "tiled".to_owned(), us, without }
    }

    fn lead(case: &str, factor: f64, [launch_us, kinds_us, other_us]: [f64; 3], largest: Longer) -> AblatedLead {
        AblatedLead {
            case: case.into(),
            family: "tiled".to_owned(),
            over: IterationId((10.0 * factor) as i64),
            over_family: "split-k".to_owned(),
            over_first: factor > 4.0,
            over_committed: false,
            factor,
            lead_us: launch_us + kinds_us + other_us,
            launch_us,
            kinds_us,
            waits_us: None,
            other_us,
            largest: Some(largest),
        }
    }

    /// One winner waits for asynchronous work, and the slower kernel of one lead waits longer.
    fn with_waits(mut report: Report) -> Vec<String> {
        let shares = [
            (Removed::Work, 0.1),
            (Removed::TensorProducts, 0.12),
            (Removed::AllKinds, 0.6),
            (Removed::AllKindsAndWaits, 0.85),
        ];
        report.cases[1].breakdown = Some(breakdown(400.0, &shares));
        report.ablated_leads.retain(|lead| !lead.over_committed);
        let [first, slower, ..] = &mut report.ablated_leads[..] else { return Vec::new() };
        for (lead, waits_us) in [(first, 9.0), (slower, 0.7)] {
            (lead.waits_us, lead.other_us) = (Some(waits_us), lead.other_us - waits_us);
        }
        let told = [costs(&report), saved(&report), largest_lead(&report), winners(&report), leads(&report, 9)];
        told.into_iter().chain([most_of_leads(&report)]).flatten().collect()
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
        let longer = |removed, us| Longer { removed, us };
        report.ablated_leads = vec![
            lead(&cases[0], 300.0, [0.1, 70.0, 29.0], longer(Removed::SharedLoads, 69.0)),
            lead(&cases[0], 1.5, [0.0, 0.9, 0.1], longer(Removed::GlobalLoads, 0.7)),
            lead(&cases[1], 1.3, [0.1, -0.4, 0.9], longer(Removed::Barriers, 0.2)),
            lead(&cases[2], 1.2, [0.2, 0.1, 0.05], longer(Removed::Shuffles, 0.1)),
        ];
        let committed = lead(&cases[1], 1.1, [0.0, 0.9, 0.1], longer(Removed::GlobalLoads, 0.7));
        let committed = AblatedLead { over_committed: true, over_family: "tiled".to_owned(), ..committed };
        let sentences = [
            first_kernel(&report),
            costs(&report),
            saved(&report),
            largest_lead(&report),
            winners(&report),
            leads(&report, 9),
            most_of_leads(&report),
        ];
        let mut told: Vec<String> = sentences.into_iter().flatten().collect();
        // Without the first lead, the next one is made up for in part.
        report.ablated_leads.remove(1);
        told.extend(largest_lead(&report));
        // One over a committed winner comes first.
        report.ablated_leads.push(committed);
        told.extend([largest_lead(&report), leads(&report, 2), most_of_leads(&report)].into_iter().flatten());
        insta::assert_snapshot!(told.join("\n"));
        insta::assert_snapshot!(with_waits(report.clone()).join("\n"));
        let page = report.to_markdown().unwrap();
        assert!(
            page.contains("What the winners' instructions cost")
                && page.contains("What the slower kernels spend more on"),
            "{page}"
        );
        assert!(report.to_html().unwrap().contains("What the winners"));
    }
}
