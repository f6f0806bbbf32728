//! The tables of a report that explain its figures.

use super::sentences;
use super::table::{shown, table};
use crate::domain::finding::Confidence;
use crate::domain::tested::CauseStatus;
use crate::report::changes::listed;
use crate::report::contract::{
    Advantage, Case, Change, Choice, Diagnosis, FamilyTime, Finding, Ladder, LadderStep, LeftBehind, PhaseCost, Phases,
    Ratio, Report, Rivals, Roofline, Scaling, ScalingPoint, ScalingTime,
};
use crate::report::format::{NOTHING, common_prefix, duration, gain, of_two_runs, percent, times, us, usd};
use crate::report::limits::{self, Group};
use crate::report::{advantage, limiter, measuring, price};

/// The most families to name beside the winner's.
const MAX_RIVALS: usize = 3;

/// Returns the main table: what each case was, what it is, and what limits it.
pub(super) fn cases(report: &Report) -> String {
    let source = report.session.time_source;
    let families: Vec<&str> = report.cases.iter().filter_map(|case| Some(&*case.variant.as_ref()?.family)).collect();
    let prefix = common_prefix(&families);
    let row = |case: &Case| {
        let change = case.change.as_ref();
        let unconfirmed = if case.best_us.is_some() && !case.confirmed { " (not confirmed)" } else { "" };
        let baseline = case.baseline.as_ref().filter(|baseline| !baseline.is_initial_kernel);
        vec![
            case.case.to_string(),
            shown(change.map(|change| in_row(case, change.ratio, change.began_us)), us),
            format!("{}{unconfirmed}", shown(case.best_us, us)),
            match change {
                Some(change) if is_same(change) => "the same kernel".to_owned(),
                Some(Change { tied: true, ratio: Some(ratio), .. }) if !ratio.paired => {
                    format!("{} (two runs: within their noise)", of_two_runs(ratio.estimate))
                }
                _ => measuring::ratio(change.and_then(|change| change.ratio), source),
            },
            case.variant.as_ref().map_or_else(|| NOTHING.to_owned(), |one| one.family[prefix.len()..].to_owned()),
            baseline.map_or_else(
                || NOTHING.to_owned(),
                |one| format!("{} ({})", us(in_row(case, case.ratio_to_baseline, one.us)), one.name),
            ),
            baseline.map_or_else(|| NOTHING.to_owned(), |_| measuring::ratio(case.ratio_to_baseline, source)),
            floor(case),
            limiter::in_shares(case, &report.diagnoses).unwrap_or_else(|| NOTHING.to_owned()),
        ]
    };
    let winner = if prefix.is_empty() { "winner".to_owned() } else { format!("winner (`{prefix}…`)") };
    let headings = [
        "case",
        ">before",
        ">now",
        ">before / now",
        &winner,
        ">fastest baseline",
        ">baseline / ours",
        ">floor",
        "what probably limits it",
    ];
    table(&headings, &report.cases.iter().map(row).collect::<Vec<_>>())
}

/// Returns the time that the best variant is compared with, so that a row agrees with its ratio: where both took turns in
/// one run, it is the time now times the ratio of that run. Otherwise it is the time of a run of its own.
fn in_row(case: &Case, ratio: Option<Ratio>, alone_us: f64) -> f64 {
    let ratio = ratio.filter(|ratio| ratio.paired).map(|ratio| ratio.estimate);
    ratio.zip(case.best_us).map_or(alone_us, |(ratio, best_us)| ratio * best_us)
}

/// Tells whether a case ended with the kernel that it began with. The two times of one kernel differ, because they come
/// from two runs.
fn is_same(change: &Change) -> bool {
    !change.improved && change.ratio.is_some_and(|ratio| ratio.paired && ratio.estimate == 1.0)
}

/// Formats a floor with the limit that sets it.
fn floor(case: &Case) -> String {
    let limiter = case.roofline.as_ref().map(|roofline| format!(" ({})", roofline.floor_limiter)).unwrap_or_default();
    format!("{}{limiter}", shown(case.floor_us, us))
}

/// Returns the table of rooflines.
pub(super) fn roofline(report: &Report) -> String {
    let row = |case: &Case, roofline: &Roofline| {
        vec![
            case.case.to_string(),
            amount(roofline.flop),
            amount(roofline.bytes),
            format!("{:.1}", roofline.intensity),
            format!("{:.0} ({})", roofline.ridge, roofline.bytes_from),
            if roofline.side == "arithmetic" { "compute-bound" } else { "memory-bound" }.to_owned(),
            format!("{} ({})", shown(roofline.flop_per_s, amount), shown(roofline.share_of_arithmetic, percent)),
            format!("{} ({})", shown(roofline.bytes_per_s, amount), shown(roofline.share_of_bandwidth, percent)),
            floor(case),
            shown(roofline.times_of_floor, times),
        ]
    };
    let headings = [
        "case",
        ">FLOP",
        ">least bytes",
        ">FLOP/byte",
        ">ridge",
        "by its roofline",
        ">FLOP/s (of ceiling)",
        ">bytes/s (of ceiling)",
        ">floor (limiter)",
        ">now / floor",
    ];
    let known = report.cases.iter().filter_map(|case| Some(row(case, case.roofline.as_ref()?)));
    table(&headings, &known.collect::<Vec<_>>())
}

/// Formats an amount with a decimal prefix: `1.2 G`.
fn amount(amount: f64) -> String {
    let prefixes = [(1e15, " P"), (1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")];
    let (scale, prefix) = prefixes.into_iter().find(|(scale, _)| amount >= *scale).unwrap_or((1.0, ""));
    format!("{:.3}{prefix}", amount / scale)
}

/// Returns a scaling table, with a column for each size.
pub(super) fn scaling(scaling: &Scaling) -> String {
    let points = &scaling.points;
    let mut headings = vec![scaling.varies.clone()];
    headings.extend(points.iter().map(|point| format!(">{}", point.value)));
    type Time = fn(&ScalingPoint) -> Option<ScalingTime>;
    let line = |name: String, of: &dyn Fn(&ScalingPoint) -> String| {
        let mut row = vec![name];
        row.extend(points.iter().map(of));
        row
    };
    let mut rows = vec![line("work".to_owned(), &|point| times(point.work))];
    let kernels: [(&str, Time); 2] = [("first kernel", |point| point.first), ("best", |point| point.best)];
    for (name, of) in kernels {
        rows.push(line(format!("{name}, us"), &|point| shown(of(point).map(|time| time.us), us)));
        let unit = format!("{name}, us for each of {}", scaling.varies);
        rows.push(line(unit, &|point| shown(of(point).map(|time| time.us_per_unit), |us| format!("{us:.4}"))));
        let blocks = |point: &ScalingPoint| {
            shown(of(point).and_then(|time| time.blocks).map(|n| n as f64), |n| format!("{n:.0}"))
        };
        rows.push(line(format!("{name}, blocks"), &blocks));
    }
    table(&headings.iter().map(String::as_str).collect::<Vec<_>>(), &rows)
}

/// Returns the steps from the first kernel to the winner of a case.
pub(super) fn ladder(report: &Report, ladder: &Ladder) -> String {
    let mut rows: Vec<Vec<String>> = ladder.steps.iter().map(step).collect();
    if let [first, _, .., last] = &*ladder.steps {
        let whole = format!("{} us to {} us", us(first.us), us(last.us));
        rows.push(vec!["**all steps**".to_owned(), NOTHING.to_owned(), times(first.us / last.us), whole]);
    }
    let left = left(report, ladder).unwrap_or_default();
    rows.extend(ladder.floor_us.map(|floor| vec!["floor".to_owned(), us(floor), NOTHING.to_owned(), left]));
    table(&["step", ">us", ">factor", "mechanism"], &rows)
}

/// Returns the row of a step. A switch to another family says what is left of it over the best variant of the one before.
fn step(step: &LadderStep) -> Vec<String> {
    let committed = if step.committed { " (the committed winner)" } else { "" };
    let left = step.left_behind.as_ref().map(|LeftBehind { family, us: best_us, factor }| {
        let (factor, best) = (of_two_runs(*factor), us(*best_us));
        format!("{factor} over the best `{family}` of the session ({best} us), which was tuned later.")
    });
    let idea = step.mechanism.trim_end_matches('.');
    let mechanism = left.map_or_else(|| step.mechanism.clone(), |left| format!("{idea}. {left}"));
    vec![format!("{}{committed}", step.what), us(step.us), shown(step.factor, of_two_runs), mechanism]
}

/// Says how far the winner of a ladder is from its floor, and how much of that its cause accounts for, if that is known.
fn left(report: &Report, ladder: &Ladder) -> Option<String> {
    let left = ladder.steps.last()?.us / ladder.floor_us?;
    let case = report.cases.iter().find(|case| case.case == ladder.case);
    let cause = case.and_then(|case| limiter::first_cause(case, &report.diagnoses));
    // What the time consists of was measured, or else a cause may account for some of it.
    let measured = case.and_then(|case| case.breakdown.as_ref()).map(|breakdown| format!(": {}", breakdown.in_words()));
    let accounted = match (measured, cause.filter(|cause| cause.gain > 1.0 && cause.rule != "at-the-floor")) {
        (Some(measured), _) => measured,
        (None, Some(cause)) => {
            let rest = left / cause.gain;
            let open =
                if rest < 1.02 { String::new() } else { format!("; the other {} are not explained", times(rest)) };
            let low = if cause.confidence == Confidence::Low { " (low confidence)" } else { "" };
            format!(". The cause found ({}) accounts for {}{low}{open}", cause.cause, times(cause.gain))
        }
        (None, None) => String::new(),
    };
    Some(format!("{} is left{accounted}", times(left)))
}

/// Returns what the winner of each case won against: the next best families, with their times over its own.
pub(super) fn rivals(rivals: &[&Rivals]) -> Option<String> {
    let row = |Rivals { case, families }: &&Rivals| {
        let (winner, others) = families.split_first()?;
        let lead = |one: &FamilyTime| advantage::lead_factor(one.us / winner.us, one.in_one_run);
        // What took turns with the winner may seem faster, within the noise of that run.
        let tie = |one: &FamilyTime| if one.us < winner.us { ", a tie" } else { "" };
        let other = |one: &FamilyTime| format!("`{}` {} ({}{})", one.family, us(one.us), lead(one), tie(one));
        let others: Vec<String> = others.iter().take(MAX_RIVALS).map(other).collect();
        Some(vec![case.to_string(), format!("`{}`", winner.family), us(winner.us), others.join(", ")])
    };
    let rows: Vec<_> = rivals.iter().filter_map(row).collect();
    (!rows.is_empty()).then(|| table(&["case", "winner's family", ">us", "the next best families"], &rows))
}

/// Returns the counts of the winner of a case and of slower variants, each with its name.
pub(super) fn advantage(slower: &[(&str, &Advantage)]) -> Option<String> {
    let (_, first) = slower.first()?;
    let headings = slower.iter().map(|(name, _)| format!(">{name}"));
    let headings =
        headings.chain([">winner".to_owned()]).chain(slower.iter().map(|(name, _)| format!(">{name} / winner")));
    let headings: Vec<String> = [String::new()].into_iter().chain(headings).collect();
    let row = |what: &str, before: &dyn Fn(&Advantage) -> String, after: String, by: &dyn Fn(&Advantage) -> String| {
        let before = slower.iter().map(|(_, one)| before(one));
        let by = slower.iter().map(|(_, one)| by(one));
        [what.to_owned()].into_iter().chain(before).chain([after]).chain(by).collect::<Vec<String>>()
    };
    let mut rows = vec![
        row("time, us", &|one| us(one.before.us), us(first.after.us), &advantage::factor),
        row("the same by the model", &|one| us(one.before.modelled_us), us(first.after.modelled_us), &|one| {
            times(one.modelled_factor)
        }),
    ];
    rows.extend(first.counts.iter().enumerate().map(|(place, count)| {
        let (what, show): (&str, fn(f64) -> String) = match count.name {
            "warp_instructions" => ("warp instructions", amount),
            "shared_wavefronts" if !count.comparable => {
                ("wavefronts of shared memory (those of `wgmma` are not counted)", amount)
            }
            "shared_wavefronts" => ("wavefronts of shared memory", amount),
            "global_load_bytes" => ("bytes loaded from global memory", amount),
            "chain_ns" => ("longest chain of dependent instructions, us (modelled)", |ns| us(ns / 1e3)),
            "tensor_share" => ("arithmetic on tensor cores", percent),
            "blocks" => ("blocks of the largest launch", whole),
            _ => ("launches", whole),
        };
        let factor = |one: &Advantage| {
            let factor = if count.name.ends_with("share") { None } else { one.counts[place].factor() };
            shown(factor, times)
        };
        row(what, &|one| show(one.counts[place].before), show(count.after), &factor)
    }));
    Some(table(&headings.iter().map(String::as_str).collect::<Vec<_>>(), &rows))
}

fn whole(count: f64) -> String {
    format!("{count:.0}")
}

/// The column of the options that has their prices.
const PRICE: usize = 3;

/// Returns the options.
pub(super) fn options(report: &Report) -> String {
    let new_kernel = report.options.iter().find(|option| option.recommended && option.kind == "new_kernel");
    let pays = new_kernel.and_then(|option| price::pays_from_hours(report, option));
    let row = |option: &Choice| {
        let what = match (option.recommended, option.then) {
            (true, _) => match &pays {
                Some(hours) => format!("**{}** (recommended from {hours} GPU hours on)", option.what),
                None => format!("**{}** (recommended)", option.what),
            },
            _ if option.kind == "stop" && pays.is_some() => format!("**{}** (recommended with fewer)", option.what),
            (_, true) => format!("{} (recommended after that)", option.what),
            _ => option.what.clone(),
        };
        let minutes = option.minutes.map(|minutes| duration(minutes * 60.0));
        let cost = match (minutes, option.usd) {
            (None, _) => "not known".to_owned(),
            (Some(minutes), Some(dollars)) if option.kind == "new_kernel" => {
                format!("{}; then a session: {minutes}, {}", price::writing(report, option), usd(dollars))
            }
            (Some(minutes), Some(dollars)) => format!("{minutes}, {}", usd(dollars)),
            (Some(minutes), None) => minutes,
        };
        let over_all = match (option.expected, option.most) {
            (Some(expected), None) => format!("{expected:.3}×"),
            (Some(expected), Some(most)) => format!("{expected:.3}× if it becomes faster, at most {most:.3}×"),
            (None, Some(most)) => format!("at most {most:.3}×"),
            (None, None) => "not known".to_owned(),
        };
        // The reason says it.
        let over_all = if option.gain.starts_with("not known") { NOTHING.to_owned() } else { over_all };
        vec![what, over_all, option.gain.clone(), cost, option.risk.clone()]
    };
    let over_all = match report.cases.len() {
        1 => "gain".to_owned(),
        _ => "gain, all cases".to_owned(),
    };
    let headings = ["option", &over_all, "why", "cost", "risk"];
    let rows: Vec<Vec<String>> = report.options.iter().map(row).collect();
    // A long price is told once.
    let is_told = |place: usize| place > 0 && rows[place][PRICE] == rows[place - 1][PRICE];
    let shortened = |(place, row): (usize, &Vec<String>)| {
        let mut row = row.clone();
        if is_told(place) {
            "the same".clone_into(&mut row[PRICE]);
        }
        row
    };
    table(&headings, &rows.iter().enumerate().map(shortened).collect::<Vec<_>>())
}

/// Returns time and cost by phase, with their sum.
pub(super) fn phases(phases: &Phases) -> String {
    let seconds = |seconds: f64| format!("{seconds:.1} s");
    let mut rows: Vec<Vec<String>> = phases
        .rows
        .iter()
        .map(|row| {
            vec![row.name.to_owned(), seconds(row.seconds), percent(row.share), usd(row.usd), row.gained.clone()]
        })
        .collect();
    let sum = |of: fn(&PhaseCost) -> f64| phases.rows.iter().map(of).sum::<f64>();
    let total = [seconds(sum(|row| row.seconds)), percent(sum(|row| row.share)), usd(sum(|row| row.usd))];
    let total = total.map(|figure| format!("**{figure}**"));
    rows.push([vec!["**whole session**".to_owned()], total.to_vec(), vec![String::new()]].concat());
    table(&["phase", ">wall time", ">share", ">$", "result"], &rows)
}

/// Returns what limits the best variants of all cases, the first cause of each. Cases with the same cause and the same next
/// step share a row.
pub(super) fn causes(report: &Report) -> String {
    let is_ablated = report.cases.iter().any(|case| case.breakdown.is_some());
    let open = |group: &Group<'_>| if is_ablated { group.others() } else { group.unexplained(&report.diagnoses) };
    let row = |group: &Group<'_>| {
        let cases: Vec<String> = group.members.iter().map(|(case, _)| case.case.to_string()).collect();
        let possible = match (group.gains(), group.first()) {
            (_, None) => NOTHING.to_owned(),
            (Some(gains), _) => format!("{gains}, {}", group.confidence().unwrap_or_default()),
            (None, Some(finding)) if finding.next.starts_with("nothing") => "none".to_owned(),
            (None, Some(finding)) => gain(finding.gain),
        };
        let tested = group.members.first().and_then(|(case, finding)| {
            let family = &case.variant.as_ref()?.family;
            Some(sentences::experiment(report, (family, &case.case), finding.as_ref()?))
        });
        vec![
            cases.join(", "),
            group.families().join(", "),
            group.limit(),
            possible,
            open(group).unwrap_or_else(|| NOTHING.to_owned()),
            tested.or_else(|| refuted(report, group)).unwrap_or_else(|| NOTHING.to_owned()),
            group.first().map_or_else(|| without_cause(report, group), next),
        ]
    };
    let headings = [
        "cases",
        "best variants",
        "what probably limits them",
        "possible gain, confidence",
        if is_ablated { "the rest" } else { "not explained" },
        "experiment",
        "next",
    ];
    table(&headings, &limits::groups(&report.cases, &report.diagnoses).iter().map(row).collect::<Vec<_>>())
}

/// Says what remains to be done about a cause. That no parameter removes it, the experiment's column says.
fn next(finding: &Finding) -> String {
    finding.next.trim_start_matches("none of its parameters removes it; ").to_owned()
}

/// Names the rules whose causes experiments refuted, if those are all causes of a group of cases.
fn refuted(report: &Report, group: &Group<'_>) -> Option<String> {
    let mut rules: Vec<String> = Vec::new();
    for rule in found(report, group).map(|one| format!("`{}`", one.rule)) {
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    let is_refuted = ruled_out(report, group) == RuledOut::Refuted;
    Some(format!("tested, refuted: {}", listed(&rules).filter(|_| is_refuted)?))
}

/// Returns what rules found in the best variants of a group of cases.
fn found<'a>(report: &'a Report, group: &Group<'_>) -> impl Iterator<Item = &'a Finding> {
    let is_of_group = |one: &&Diagnosis| group.members.iter().any(|(case, _)| limiter::is_about(one, case));
    report.diagnoses.iter().filter(is_of_group).flat_map(|one| &one.findings)
}

/// Says what is known of a group of cases without a cause.
fn without_cause(report: &Report, group: &Group<'_>) -> String {
    match ruled_out(report, group) {
        RuledOut::Refuted => "not known: experiments refuted all causes that rules found",
        RuledOut::Negligible => "not known: the causes that rules found account for next to nothing",
        RuledOut::NoneFound => "no rule found a cause",
    }
    .to_owned()
}

/// Why a group of cases has no cause.
#[derive(PartialEq)]
enum RuledOut {
    /// Experiments refuted all that rules found.
    Refuted,
    /// What rules found accounts for next to nothing.
    Negligible,
    /// Rules found none.
    NoneFound,
}

fn ruled_out(report: &Report, group: &Group<'_>) -> RuledOut {
    match found(report, group).all(|one| one.tested.status == CauseStatus::NotConfirmed) {
        true if found(report, group).count() == 0 => RuledOut::NoneFound,
        true => RuledOut::Refuted,
        false => RuledOut::Negligible,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_a_prefix() {
        assert_eq!([amount(4.2e6), amount(9.89e14), amount(512.0)], ["4.200 M", "989.000 T", "512.000"]);
    }
}
