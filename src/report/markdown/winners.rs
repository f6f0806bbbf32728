//! Sentences about the winners: where they come from, which other families are as fast, and what their times are.

use super::first_kernel::MIN_CHAIN;
use crate::domain::device::TimeSource;
use crate::report::changes::listed;
use crate::report::contract::{Change, ImprovedBy, Report};
use crate::report::format::{counted, either, percent};
use crate::report::{advantage, pairs};

/// The most cases on which another family is as fast to name with that family.
const MAX_TIES: usize = 3;

/// Says how many of the ratios to what the session began with are not of one run, where the winners of the improved cases
/// come from, and which cases are ties. None if no case improved and none is a tie of two runs.
pub(super) fn improved(report: &Report) -> Option<String> {
    let changes = report.cases.iter().filter_map(|case| case.change.as_ref()).filter(|change| change.improved);
    let paired: Vec<bool> = changes.filter_map(|change| Some(change.ratio?.paired)).collect();
    let (all, apart) = (paired.len(), paired.iter().filter(|paired| !**paired).count());
    let is_measured = report.session.time_source == TimeSource::Measured;
    let of_all = if all == 1 { "the improved case".to_owned() } else { format!("all {all} improved cases") };
    let ratios = is_measured.then(|| match all - apart {
        paired if paired == all => format!("*Before / now* of {of_all} comes from one run."),
        0 => format!("*Before* and *now* of {of_all} are of two runs, between which the machine may have changed."),
        paired => format!(
            "On {paired} of the {all} improved cases, *before* and *now* were timed in turns, in one run; on the other {apart}, they \
             are of two runs, between which the machine may have changed."
        ),
    });
    let improved = [ratios, Some(found_by(report.improved_by))].into_iter().flatten().filter(|_| all > 0);
    let sentences: Vec<String> = improved.chain(tied(report)).collect();
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

/// Names the cases whose ratio of two runs is within their noise, and says what that noise is.
fn tied(report: &Report) -> Option<String> {
    let is_tied = |change: &Change| change.tied && change.ratio.is_some_and(|ratio| !ratio.paired);
    let tied = report.cases.iter().filter(|case| case.change.as_ref().is_some_and(is_tied));
    let tied = listed(&tied.map(|case| format!("`{}`", case.case)).collect::<Vec<_>>())?;
    let share = percent(pairs::share(report.parameters.noise));
    let noise = match report.parameters.noise {
        Some(_) => format!("differed by at most {share} nine times of ten"),
        None => format!("may differ by {share}"),
    };
    Some(format!("Two runs of one variant {noise}, so a ratio of two runs within that is a tie: {tied}."))
}

/// Says what found the winners of the improved cases.
fn found_by(ImprovedBy { search, search_steps, initial_design, finals }: ImprovedBy) -> String {
    let steps = counted(search_steps as usize, "confirmed improvement");
    if search + initial_design + finals == 1 {
        let found = if search == 1 {
            "The search"
        } else if finals == 1 {
            "Only the final"
        } else {
            "The initial design"
        };
        return format!("{found} found its winner.");
    }
    let parts = [
        (search, format!("the search found {search} after {steps} in all")),
        (initial_design, format!("the initial design, which precedes the search, had {initial_design}")),
        (finals, format!("the final, which decides between near ties, chose {finals}")),
    ];
    let parts: Vec<String> = parts.into_iter().filter(|(count, _)| *count > 0).map(|(_, told)| told).collect();
    let all = search + initial_design + finals;
    format!("Of the {all} winners, {}.", parts.join("; "))
}

/// Names the cases on which another family is nearly as fast as the best variant's, and says what the family that won most
/// cases does, unless the steps to a winner say so.
pub(super) fn others(report: &Report) -> Vec<String> {
    [ties(report), idea(report)].into_iter().flatten().collect()
}

fn ties(report: &Report) -> Option<String> {
    let tied = advantage::near_ties(&report.rivals);
    let tied: Vec<(String, &str)> = tied.map(|(case, second)| (format!("`{case}`"), second)).collect();
    match tied.len() {
        0 => None,
        count if count > MAX_TIES => {
            let cases: Vec<&str> = tied.iter().map(|(case, _)| &**case).collect();
            Some(format!("On {count} cases ({}), another family is within 2% of the best.", cases.join(", ")))
        }
        _ => {
            let named: Vec<String> = tied.iter().map(|(case, family)| format!("`{family}` on {case}")).collect();
            Some(format!("Within 2% of the best: {}.", named.join(", ")))
        }
    }
}

fn idea(report: &Report) -> Option<String> {
    let wins = |family: &str| {
        let variants = report.cases.iter().filter_map(|case| case.variant.as_ref());
        variants.filter(|variant| variant.family == family).count()
    };
    let most =
        report.credits.iter().filter(|credit| !credit.mechanism.is_empty()).max_by_key(|one| wins(&one.family))?;
    let steps = report.ladders.first().map(|ladder| &*ladder.steps).unwrap_or_default();
    (!steps.iter().any(|step| step.family == most.family))
        .then(|| format!("The idea of `{}`, in the words of its manifest: \"{}\"", most.family, most.mechanism))
}

/// Says that the winners' times are chains of dependent instructions, if all are.
pub(super) fn chains(report: &Report) -> Option<String> {
    let shares = || report.advantages.iter().map(|one| one.after.chain_share);
    let (least, most) = shares().reduce(f64::min).zip(shares().reduce(f64::max))?;
    (least >= MIN_CHAIN).then(|| {
        let share = either(percent(least), percent(most));
        format!("One chain of dependent instructions takes {share} of the modelled times of the counted winners.")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::contract::Ratio;
    use crate::report::tests::{record, report};

    #[test]
    fn improved_cases_say_whether_their_ratios_are_of_one_run_and_what_found_them() {
        let mut report = report(&record());
        report.improved_by = ImprovedBy { search: 1, search_steps: 2, initial_design: 0, finals: 1 };
        let change = report.cases[0].change.clone().unwrap();
        report.cases[1].change = Some(change.clone());
        let of_two = improved(&report).unwrap();
        let ratio = Some(Ratio { paired: true, ..change.ratio.unwrap() });
        report.cases[1].change = Some(crate::report::contract::Change { ratio, ..change });
        insta::assert_snapshot!([of_two, improved(&report).unwrap()].join("\n"), @"
        *Before* and *now* of all 2 improved cases are of two runs, between which the machine may have changed. Of the 2 winners, the search found 1 after 2 confirmed improvements in all; the final, which decides between near ties, chose 1.
        On 1 of the 2 improved cases, *before* and *now* were timed in turns, in one run; on the other 1, they are of two runs, between which the machine may have changed. Of the 2 winners, the search found 1 after 2 confirmed improvements in all; the final, which decides between near ties, chose 1.
        ");
        report.cases.iter_mut().for_each(|case| case.change = None);
        assert_eq!(improved(&report), None);
    }
}
