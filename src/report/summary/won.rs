//! What won, and why it beats the first kernel, the baselines and the next best family.

use super::joined;
use crate::domain::device::TimeSource;
use crate::domain::ids::CaseName;
use crate::domain::origin::Change;
use crate::report::changes::{listed, named};
use crate::report::contract::{Advantage, Beaten, Report, WinningFamily};
use crate::report::format::{counted, fine, on_cases, times};
use crate::report::markdown::{beaten, divided_leads, paths};
use crate::report::{advantage, baseline_kernels, counted_lead_text, counted_leads, fixed_time, tally};

/// The most families to explain. The others are only named.
const MAX_EXPLAINED: usize = 2;

/// The gain of a step from which it is named.
const MIN_STEP: f64 = 1.1;

/// The most ties to name. More are counted.
const MAX_TIES: usize = 3;

/// What counts of a virtual GPU are.
const VIRTUAL_GPU: &str = "counted by a virtual GPU, which executes the same code on the CPU";

/// The most counts to name for a winner.
const MAX_REASONS: usize = 2;

/// Names the families of the best variants, the most frequent first, and what the largest gain over a committed winner came from.
pub(super) fn winners(report: &Report) -> Option<String> {
    let several = report.winning_families.len() > 1;
    let told = report.winning_families.iter().enumerate().map(|(at, family)| {
        let idea = if at < MAX_EXPLAINED { idea(family) } else { String::new() };
        match (several, at) {
            (false, _) => format!("`{}`{idea}", family.name),
            (true, 0) => format!("`{}`{idea} on {}", family.name, counted(family.cases as usize, "case")),
            (true, _) => format!("`{}`{idea} on {}", family.name, family.cases),
        }
    });
    let told: Vec<String> = told.collect();
    let words = (!told.is_empty()).then(|| format!("{}.", told.join(", ")))?;
    joined([Some(words), near_ties(report), largest_step(report), over_committed(report)])
}

/// Says what a family does, in the words of its manifest.
fn idea(family: &WinningFamily) -> String {
    format!(" ({})", family.about.trim_end_matches('.'))
}

/// Names the families that are as good as the winners, or counts their cases, so that the choice between them matters little.
fn near_ties(report: &Report) -> Option<String> {
    let ties: Vec<(&CaseName, &str)> = advantage::near_ties(&report.rivals).collect();
    let mut families: Vec<&str> = ties.iter().map(|(_, family)| *family).collect();
    families.sort_unstable();
    families.dedup();
    let named = families.iter().map(|family| {
        let cases = ties.iter().filter(|(_, other)| other == family).map(|(case, _)| format!("`{case}`"));
        Some(format!("`{family}` on {}", listed(&cases.collect::<Vec<_>>())?))
    });
    match ties.len() {
        0 => None,
        1..=MAX_TIES => Some(format!(
            "Within 2% of the winner {} {}, so the choice of the family matters little there.",
            if families.len() == 1 { "is" } else { "are" },
            listed(&named.collect::<Option<Vec<_>>>()?)?
        )),
        some => Some(format!(
            "{} another family is as good (within 2%), so the choice matters little there.",
            on_cases(some, report.rivals.len())
        )),
    }
}

/// Says which change of parameters gained most on the path to a winner. None without a path.
fn largest_step(report: &Report) -> Option<String> {
    let path = paths::of_winner(report)?;
    let most = path.steps.iter().max_by(|a, b| a.gain.total_cmp(&b.gain)).filter(|step| step.gain >= MIN_STEP)?;
    let about = |change: &Change| report.parameters.about(&path.family, &change.parameter);
    let changes: Vec<String> = most.changes.iter().map(|change| named(change, None, about(change))).collect();
    let (case, family, gain) = (&path.case, &path.family, times(most.gain));
    Some(format!("Of the parameters of `{family}`, {} gained most on `{case}` ({gain}).", listed(&changes)?))
}

/// Says what the largest gain over a committed winner came from, and what the counts of a virtual GPU say of it.
fn over_committed(report: &Report) -> Option<String> {
    let gain = |beaten: &Beaten| beaten.ratio.map_or(1.0, |ratio| ratio.estimate);
    let most = report.beaten.iter().max_by(|a, b| gain(a).total_cmp(&gain(b))).filter(|most| gain(most) > 1.0)?;
    let what = beaten::what_beat_it(report, most);
    let counts = report.advantages.iter().find(|one| one.role == "committed_winner" && one.case == most.case);
    let gone = most.cause.as_ref().filter(|_| most.is_gone == Some(true)).map(|cause| &cause.cause);
    let why = match (counts, gone) {
        (Some(counts), _) if counts.explained => {
            format!(": {}", advantage::in_short(counts, report.environment.sms, MAX_REASONS))
        }
        (_, Some(cause)) => {
            format!(". A cause that probably limited the committed `{}` ({cause}) is gone", most.family)
        }
        (Some(_), None) => "; the counts do not show why".to_owned(),
        (None, None) => String::new(),
    };
    let (gain, case) = (fine(gain(most)), &most.case);
    let which = if report.beaten.len() == 1 { "only" } else { "largest" };
    Some(format!("The {which} gain over a committed winner, {gain} on `{case}`, came from {what}{why}."))
}

/// Says what is known of why the winners are faster than the baselines.
pub(super) fn why_ahead(report: &Report) -> Option<String> {
    let counted = counted_lead_text::over_baselines(&report.counted_leads);
    joined([baseline_kernels::in_summary(report), counted.or_else(|| fixed_time::sentence(report))])
}

/// Says what is known of why baselines are faster than winners.
pub(super) fn why_behind(report: &Report) -> Option<String> {
    counted_lead_text::of_baselines(&report.counted_leads)
}

/// Says why a winner is faster than the first kernel: what a virtual GPU counted, if that explains it, or else where the time was.
pub(super) fn over_first(report: &Report) -> Option<String> {
    let Some(first) = report.first_advantage.as_ref().filter(|first| first.explained) else {
        return Some(format!("{}. {}", divided_leads::over_first(report)?, divided_leads::saved(report)?));
    };
    let why = |one: &Advantage| {
        let why = advantage::in_short(one, report.environment.sms, MAX_REASONS);
        format!("On `{}`, `{}` {}", one.case, one.after.family, why.trim_start_matches("it "))
    };
    let derived = |one: &Advantage| match report.session.time_source {
        TimeSource::Modelled => String::new(),
        _ => format!("{} derived, {} measured", times(one.modelled_factor), advantage::factor(one)),
    };
    let others = of_other_families(report, first);
    if others.is_empty() {
        let derived = match report.session.time_source {
            TimeSource::Modelled => String::new(),
            _ => format!(
                "; its model derives {}, and {} was measured",
                times(first.modelled_factor),
                advantage::factor(first)
            ),
        };
        return Some(format!("{} ({VIRTUAL_GPU}{derived}).", why(first)));
    }
    let item = |one: &Advantage| match &*derived(one) {
        "" => format!("\n  - {}.", why(one)),
        derived => format!("\n  - {} ({derived}).", why(one)),
    };
    let items: String = std::iter::once(first).chain(others).map(item).collect();
    Some(format!(
        "This was {VIRTUAL_GPU}. In parentheses are the factor that its model derives from the counts, and the measured one:{items}"
    ))
}

/// Returns the largest lead over the first kernel of each other family that wins, if the counts explain it.
fn of_other_families<'a>(report: &'a Report, first: &Advantage) -> Vec<&'a Advantage> {
    let explained = report.advantages.iter().filter(|one| one.role == "first_variant" && one.explained);
    let mut largest: Vec<&Advantage> = Vec::new();
    for one in explained.filter(|one| one.after.family != first.after.family) {
        match largest.iter_mut().find(|known| known.after.family == one.after.family) {
            Some(known) if one.factor > known.factor => *known = one,
            Some(_) => {}
            None => largest.push(one),
        }
    }
    largest.truncate(MAX_EXPLAINED);
    largest
}

/// Says why one winner is faster than a committed winner or the next best family: what the largest lead consists of, or else
/// which counts explain one, and how many they explain if that is not all. Hardware counters may show one more.
pub(super) fn over_rival(report: &Report) -> Option<String> {
    let shown = counted_leads::largest_over_a_variant(&report.counted_leads);
    let by_hardware = shown.map(counted_lead_text::in_short);
    // What hardware counted comes before what a virtual GPU counted of the same lead.
    let is_shown =
        |one: &Advantage| shown.is_some_and(|shown| shown.case == one.case && shown.other == one.before.family);
    let counted = || {
        let committed = report.advantages.iter().filter(|one| one.role == "committed_winner");
        let leads = committed.chain(advantage::leads(&[], &report.rival_advantages));
        let explained = leads.filter(|one| one.explained && !is_shown(one));
        // The longest one is the least of a toy.
        let explained = explained.max_by(|a, b| a.after.us.total_cmp(&b.after.us));
        let told = explained
            .map(|one| format!("{}: {}.", advantage::lead(one), advantage::in_short(one, report.environment.sms, 1)));
        match told {
            Some(told) => joined([Some(told), tally::tally_of_some(report)]),
            None if by_hardware.is_some() => None,
            None => tally::tally(report),
        }
    };
    joined([divided_leads::largest_lead(report).or_else(counted), by_hardware])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::profile::tests::launch;
    use crate::domain::profile::{LaunchProfile, Profile};
    use crate::report::tests::{record, report};

    /// The first kernel took 80 us on `b1h1s128`, and the winner 50 us.
    #[test]
    fn the_lead_over_the_first_kernel_is_told_of_each_family_that_wins() {
        let mut record = record();
        let profile = |change: &dyn Fn(&mut LaunchProfile)| {
            let mut one = launch("attend", 1000.0);
            change(&mut one);
            Some(Profile { launches: vec![one], checked_on: None })
        };
        record.iterations[0].measurements[0].explanation = profile(&|_| {});
        record.iterations[2].measurements[0].explanation = profile(&|launch| {
            launch.modelled_ns = 600.0;
            launch.warp_instructions /= 20;
        });
        let mut report = report(&record);
        report.first_advantage = Some(report.advantages[0].clone());
        let alone = over_first(&report).unwrap();
        let mut other = report.advantages[0].clone();
        (other.case, other.after.family) = ("b8h8s512".into(), "split-k".to_owned());
        let slower = Advantage { case: "b16h8s512".into(), factor: 1.1, ..other.clone() };
        report.advantages.extend([slower, other]);
        insta::assert_snapshot!([alone, over_first(&report).unwrap()].join("\n"), @"
        On `b1h1s128`, `tiled` executes 20 times fewer instructions (counted by a virtual GPU, which executes the same code on the CPU; its model derives 1.67×, and 1.60× was measured).
        This was counted by a virtual GPU, which executes the same code on the CPU. In parentheses are the factor that its model derives from the counts, and the measured one:
          - On `b1h1s128`, `tiled` executes 20 times fewer instructions (1.67× derived, 1.60× measured).
          - On `b8h8s512`, `split-k` executes 20 times fewer instructions (1.67× derived, 1.60× measured).
        ");
    }
}
