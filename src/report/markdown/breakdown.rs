//! Tables and sentences on what the time of kernels consists of.

use super::table::table;
use crate::domain::ablation::Removed;
use crate::report::advantage;
use crate::report::breakdown::WAITS;
use crate::report::changes::listed;
use crate::report::contract::{AblatedLead, Advantage, Breakdown, Case, DiagnosisOf, Longer, Report};
use crate::report::format::{NOTHING, counted, either, percent, times, us};

/// The share of all kinds of instructions from which one of them is named in their place.
const MOST_OF_KINDS: f64 = 0.67;

/// The most counts to name for a lead.
const MAX_COUNTS: usize = 2;

/// The role of a committed winner in an [`Advantage`].
const COMMITTED: &str = "committed_winner";

/// What is left without the kinds of instructions that can be removed.
const OTHER: &str = "other instructions, such as addresses and synchronisation";

/// What is left without these and without waits.
const OTHER_THAN_WAITS: &str = "other instructions, such as addresses and conversions";

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

/// Returns the leads over committed winners and over the next best families, divided into their parts, but at most so many. None
/// if none was divided.
pub(super) fn leads(report: &Report, most: usize) -> Option<String> {
    let told: Vec<&AblatedLead> = shown(report).into_iter().take(most).collect();
    let waits_are_known = waits_are_known(&told);
    let row = |lead: &&AblatedLead| {
        let AblatedLead { case, family, factor, lead_us, launch_us, kinds_us, waits_us, other_us, largest, .. } = lead;
        let largest = largest.map(|longer| format!("{} {}", signed(longer.us), longer.removed.text()));
        let counted = differently(report, lead);
        let waits = waits_are_known.then(|| waits_us.map_or_else(|| NOTHING.to_owned(), signed));
        let starts = [
            case.to_string(),
            family.clone(),
            slower(report, lead),
            format!("{} ({})", signed(*lead_us), times(*factor)),
            signed(*launch_us),
            signed(*kinds_us),
            largest.unwrap_or_else(|| NOTHING.to_owned()),
        ];
        let ends = [signed(*other_us), counted.unwrap_or_else(|| NOTHING.to_owned())];
        starts.into_iter().chain(waits).chain(ends).collect::<Vec<_>>()
    };
    let waits = format!(">{WAITS}");
    let starts =
        ["case", "winner", "slower kernel", ">longer, us", ">launch", ">kinds that can be removed", "most alone"];
    let waits = waits_are_known.then_some(&*waits);
    let headings: Vec<&str> =
        starts.into_iter().chain(waits).chain([">other", "what the winner does differently"]).collect();
    let rows: Vec<Vec<String>> = told.iter().map(row).collect();
    (!rows.is_empty()).then(|| table(&headings, &rows))
}

/// Tells whether the waits for asynchronous work are a part of some lead.
fn waits_are_known(leads: &[&AblatedLead]) -> bool {
    leads.iter().any(|lead| lead.waits_us.is_some())
}

/// Returns how many leads were divided.
pub(super) fn divided(report: &Report) -> usize {
    shown(report).len()
}

/// Returns what a virtual GPU counted for the two kernels of a lead.
fn advantage<'a>(report: &'a Report, lead: &AblatedLead) -> Option<&'a Advantage> {
    let committed = report.advantages.iter().filter(|one| lead.over_committed && one.role == COMMITTED);
    let rivals = report.rival_advantages.iter().filter(|one| is_rival(lead) && one.before.family == lead.over_family);
    committed.chain(rivals).find(|one| one.case == lead.case)
}

/// Says what the winner does differently in the part of the time where most of its lead is. None if no count tells.
fn differently(report: &Report, lead: &AblatedLead) -> Option<String> {
    let counted = advantage(report, lead)?;
    advantage::of_part(counted, report.environment.sms, MAX_COUNTS, Part::most(lead).counts())
}

/// Returns a lead as the tables of cases and families have it: of the run that decided, if both took part. None if it is in
/// neither.
fn in_main_tables(report: &Report, lead: &AblatedLead) -> Option<String> {
    if lead.over_committed {
        let case = report.cases.iter().find(|case| case.case == lead.case)?;
        return case.change.as_ref()?.ratio.map(|ratio| advantage::lead_factor(ratio.estimate, ratio.paired));
    }
    let families = &report.rivals.iter().find(|rivals| rivals.case == lead.case)?.families;
    let next = families.iter().find(|one| one.family == lead.over_family)?;
    Some(advantage::lead_factor(next.us / families.first()?.us, next.in_one_run))
}

/// Says what the slower kernel of a lead is.
fn slower(report: &Report, lead: &AblatedLead) -> String {
    let family = &lead.over_family;
    let is_next = over_rivals(report).iter().any(|rival| rival.case == lead.case && rival.over == lead.over);
    match (lead.over_committed, is_next) {
        (true, true) => format!("{family} (the committed winner, and the next best family)"),
        (true, false) => format!("{family} (the committed winner)"),
        (false, _) => format!("{family} (the next best family)"),
    }
}

/// Formats a difference in microseconds with its sign.
fn signed(difference_us: f64) -> String {
    let sign = if difference_us < 0.0 { "-" } else { "+" };
    format!("{sign}{}", us(difference_us.abs()))
}

/// Says in which part most of each lead is. None if none was divided.
pub(super) fn most_of_leads(report: &Report) -> Option<String> {
    let leads = shown(report);
    let name = |lead: &AblatedLead| match lead.over_committed {
        true => format!("`{}` (over the committed winner)", lead.case),
        false => format!("`{}`", lead.case),
    };
    let waits_are_known = waits_are_known(&leads);
    let told = [Part::Kinds, Part::Waits, Part::Other, Part::Launch].into_iter().filter_map(|part| {
        let of_part = leads.iter().filter(|lead| Part::most(lead) == part);
        let cases: Vec<String> = of_part.map(|lead| name(lead)).collect();
        Some(format!("{} on {}", part.text(waits_are_known), listed(&cases)?))
    });
    let told: Vec<String> = told.collect();
    let exceeds = |lead: &&&AblatedLead| Part::all(lead).iter().any(|(_, us)| *us > lead.lead_us);
    let made_up = match leads.iter().filter(exceeds).count() {
        0 => String::new(),
        some if some == leads.len() => " The winner gives a part of that back elsewhere.".to_owned(),
        some => format!(" In {some} of these {}, the winner gives a part of that back elsewhere.", leads.len()),
    };
    (!told.is_empty()).then(|| format!("Most of the extra time is in {}.{made_up}", told.join("; in ")))
}

/// A part of a lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Launch,
    Kinds,
    Waits,
    Other,
}

impl Part {
    /// Returns the parts of a lead that are known, with their times.
    fn all(lead: &AblatedLead) -> Vec<(Self, f64)> {
        let waits = lead.waits_us.map(|us| (Self::Waits, us));
        let known = [(Self::Launch, lead.launch_us), (Self::Kinds, lead.kinds_us)];
        known.into_iter().chain(waits).chain([(Self::Other, lead.other_us)]).collect()
    }

    /// Returns the largest part of a lead.
    fn most(lead: &AblatedLead) -> Self {
        Self::all(lead).into_iter().max_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(Self::Other, |(part, _)| part)
    }

    /// Returns the names of the counts that may account for it.
    fn counts(self) -> &'static [&'static str] {
        match self {
            Self::Launch => &["blocks", "launches"],
            Self::Kinds => &["tensor_share", "shared_wavefronts", "global_load_bytes", "warp_instructions"],
            Self::Waits | Self::Other => &["warp_instructions", "blocks", "launches"],
        }
    }

    /// Names it. Where waits are a part, they are not among the other instructions.
    fn text(self, waits_are_known: bool) -> &'static str {
        match self {
            Self::Launch => "the launch",
            Self::Kinds => "loads, products and the other kinds that can be removed",
            Self::Waits => WAITS,
            Self::Other if waits_are_known => OTHER_THAN_WAITS,
            Self::Other => OTHER,
        }
    }
}

/// Says in which parts the time is that a winner saves over the initial kernel. None if it was not divided.
pub(in crate::report) fn saved(report: &Report) -> Option<String> {
    let lead = report.ablated_leads.iter().find(|lead| lead.over_first)?;
    let Longer { removed, us: most_us } = lead.largest?;
    let share = |part_us: f64| percent(part_us / lead.lead_us);
    let waits = lead.waits_us.filter(|waits_us| *waits_us >= SHOWN * lead.lead_us);
    let waits = waits.map_or_else(String::new, |waits_us| format!("{} were {WAITS}, ", share(waits_us)));
    Some(format!(
        "Of the {} us that it saves, {} were {}, {waits}and {} were {} (measured without them).",
        us(lead.lead_us),
        share(most_us.min(lead.kinds_us)),
        removed.text(),
        share(lead.other_us),
        Part::Other.text(lead.waits_us.is_some()),
    ))
}

/// Says what one winner is faster than, and in which parts of the slower kernel's time its lead is: over a committed winner, or
/// else over another family. None if no lead was divided.
pub(in crate::report) fn largest_lead(report: &Report) -> Option<String> {
    let lead = shown(report).into_iter().next()?;
    let AblatedLead { case, family, over_family, factor, lead_us, launch_us, kinds_us, waits_us, other_us, .. } = lead;
    let over = match (lead.over_committed, family == over_family) {
        (true, true) => "the committed configuration of it".to_owned(),
        (true, false) => format!("the committed `{over_family}`"),
        (false, _) => format!("`{over_family}`"),
    };
    let part = Part::most(lead);
    let text = part.text(waits_us.is_some());
    let (most_us, what) = match (part, &lead.largest) {
        (Part::Launch, _) => (*launch_us, text),
        (Part::Waits, _) => (waits_us.unwrap_or_default(), text),
        (Part::Other, _) => (*other_us, text),
        // Most of what all kinds cost may be what one costs alone.
        (Part::Kinds, Some(longer)) if longer.us >= MOST_OF_KINDS * kinds_us => (longer.us, longer.removed.text()),
        (Part::Kinds, _) => (*kinds_us, "loads, products and other kinds that hide each other"),
    };
    let most = if most_us > *lead_us {
        format!(": {} us more for {what}, and {} us less for the rest", us(most_us), us(most_us - lead_us))
    } else {
        format!(", {} of it for {what}", percent(most_us / lead_us))
    };
    let differs =
        differently(report, lead).map(|differs| format!(" The winner {}.", differs.trim_start_matches("it ")));
    let (told, own) = (in_main_tables(report, lead).unwrap_or_else(|| times(*factor)), times(*factor));
    let anew = if told == own { String::new() } else { format!(" ({own} when both are compiled anew)") };
    Some(format!(
        "On `{case}`, `{family}` is {told} as fast as {over}. The slower kernel takes {} us longer{anew}{most} (measured by \
         removing instructions).{}",
        us(*lead_us),
        differs.unwrap_or_default()
    ))
}

/// Names the most expensive kind of instruction of the first kernel. None if it was not ablated, or if none stands out.
pub(in crate::report) fn first_cost(report: &Report) -> Option<String> {
    let (removed, share) = report.first_breakdown.as_ref()?.largest().first().copied()?;
    Some(format!(" Its {} take {} of its time (measured without them).", removed.text(), percent(share)))
}

/// Returns the leads over committed winners, then those over the fastest other family of each case, the largest first.
fn shown(report: &Report) -> Vec<&AblatedLead> {
    let committed = report.ablated_leads.iter().filter(|lead| lead.over_committed);
    let rivals = over_rivals(report).into_iter().filter(|lead| !lead.over_committed);
    committed.chain(rivals).collect()
}

/// Returns the lead over the fastest other family of each case, the largest first.
fn over_rivals(report: &Report) -> Vec<&AblatedLead> {
    let of_rivals = || report.ablated_leads.iter().filter(|lead| is_rival(lead));
    let is_smallest = |lead: &&AblatedLead| {
        let others = of_rivals().filter(|other| other.case == lead.case);
        others.map(|other| other.factor).fold(f64::INFINITY, f64::min) >= lead.factor
    };
    of_rivals().filter(is_smallest).collect()
}

/// Tells whether a lead is over a kernel of another family that is not the first one.
fn is_rival(lead: &AblatedLead) -> bool {
    !lead.over_first && lead.over_family != lead.family
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
    let waits: Vec<f64> = known.iter().filter_map(|one| one.waits()).collect();
    let others: Vec<f64> = known.iter().filter_map(|one| one.other()).collect();
    let launches: Vec<f64> = known.iter().filter_map(|one| one.share(Removed::Work)).collect();
    let launch = range(&launches).map(|launch| format!(" the launch takes {launch} of the time,"));
    let others = range(&others).map(|others| match range(&waits) {
        None => format!(" {OTHER}, {others};"),
        Some(waits) => format!(" {WAITS} {waits}, and {OTHER_THAN_WAITS}, {others};"),
    });
    let cases = counted(known.len(), "winner");
    (!told.is_empty()).then(|| {
        format!(
            "Of {cases} measured without each kind of instruction,{}{} of the kinds that can be removed, the most expensive is {}.",
            launch.unwrap_or_default(),
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
            first_cost(&report),
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
