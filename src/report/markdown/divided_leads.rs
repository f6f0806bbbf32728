//! What leads of winners consist of: the table of their parts, and sentences on the largest.

use super::breakdown::{OTHER, OTHER_THAN_WAITS, SHOWN};
use super::table::table;
use crate::report::advantage;
use crate::report::breakdown::WAITS;
use crate::report::changes::listed;
use crate::report::contract::{AblatedLead, Advantage, Longer, Report};
use crate::report::format::{NOTHING, percent, times, us};
use crate::report::roofline;

/// The share of all kinds of instructions from which one of them is named in their place.
const MOST_OF_KINDS: f64 = 0.67;

/// The most counts to name for a lead.
const MAX_COUNTS: usize = 2;

/// The role of a committed winner in an [`Advantage`].
const COMMITTED: &str = "committed_winner";

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

    /// Names it. Where waits are a part, they are not in the rest.
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

/// Says how much faster a winner is than the initial kernel, without the full stop. None if that lead was not divided.
pub(in crate::report) fn over_first(report: &Report) -> Option<String> {
    let AblatedLead { case, family, over_family, factor, .. } =
        report.ablated_leads.iter().find(|one| one.over_first)?;
    // As the main table has it.
    let own = report.cases.iter().find(|one| one.case == *case)?;
    let factor = roofline::first_us(own).zip(own.best_us).map_or(*factor, |(first_us, best_us)| first_us / best_us);
    Some(format!("On `{case}`, `{family}` is {} as fast as `{over_family}`, the first kernel", times(factor)))
}

/// Says in which parts the time is that a winner saves over the initial kernel. None if it was not divided.
pub(in crate::report) fn saved(report: &Report) -> Option<String> {
    let lead = report.ablated_leads.iter().find(|lead| lead.over_first)?;
    let Longer { removed, us: most_us } = lead.largest?;
    let share = |part_us: f64| percent(part_us / lead.lead_us);
    let waits = lead.waits_us.filter(|waits_us| *waits_us >= SHOWN * lead.lead_us);
    let waits = waits.map_or_else(String::new, |waits_us| format!("{} were {WAITS}, ", share(waits_us)));
    Some(format!(
        "Of the time that it saves, {} were {}, {waits}and {} were {} (measured by removing them).",
        share(most_us.min(lead.kinds_us)),
        removed.text(),
        share(lead.other_us),
        Part::Other.text(lead.waits_us.is_some()),
    ))
}

/// Says what one winner is faster than, and in which parts of the slower kernel's time its lead is: over a committed winner, or
/// else over another family: the one that saves most time, because a large factor may be of a toy. None if no lead was divided.
pub(in crate::report) fn largest_lead(report: &Report) -> Option<String> {
    let leads = shown(report);
    let is_first = |lead: &&AblatedLead| lead.over_committed == leads[0].over_committed;
    let lead = leads.iter().copied().filter(is_first).max_by(|a, b| a.lead_us.total_cmp(&b.lead_us))?;
    let AblatedLead { case, family, over_family, factor, lead_us, .. } = lead;
    let over = match (lead.over_committed, family == over_family) {
        (true, true) => "the committed configuration of it".to_owned(),
        (true, false) => format!("the committed `{over_family}`"),
        (false, _) => format!("`{over_family}`"),
    };
    let is_explained = advantage(report, lead).is_some_and(|counted| counted.explained);
    let known = if is_explained { "" } else { "; the model does not show that this is why" };
    let differs = differently(report, lead);
    let differs = differs.map(|differs| format!(" The winner {}{known}.", differs.trim_start_matches("it ")));
    let (told, own) = (in_main_tables(report, lead).unwrap_or_else(|| times(*factor)), times(*factor));
    let anew = if told == own { String::new() } else { format!(" ({own} when both are compiled anew)") };
    Some(format!(
        "On `{case}`, `{family}` is {told} as fast as {over}, which takes {} us longer{anew}, mostly for {}.{}",
        us(*lead_us),
        most(lead),
        differs.unwrap_or_default()
    ))
}

/// Names the part in which most of a lead is, and how much longer the slower kernel takes in it.
fn most(lead: &AblatedLead) -> String {
    let part = Part::most(lead);
    let part_us = Part::all(lead).into_iter().find(|(one, _)| *one == part).map_or(0.0, |(_, us)| us);
    // Most of what all kinds cost may be what one costs alone.
    let of_one = lead.largest.filter(|longer| part == Part::Kinds && longer.us >= MOST_OF_KINDS * part_us);
    let text = of_one.map_or_else(|| part.text(lead.waits_us.is_some()), |longer| longer.removed.text());
    format!("{text} ({} us more, measured by removing instructions)", us(part_us))
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
