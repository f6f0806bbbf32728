//! What the recommended options cost, and what they should gain, as far as the recommendation does not say it.

use super::contract::{Choice, Report};
use super::format::{capitalised, counted, duration, two_digits, usd};
use super::{effort, forecast, kernel_idea};

/// The least saving of a GPU hour that is told, in US dollars.
const MIN_SAVED_USD: f64 = 0.01;

/// Says what the recommendation costs: the recommended option, and the one that comes after it.
pub(super) fn of(report: &Report) -> String {
    let first = report.options.iter().find(|choice| choice.recommended);
    let then = report.options.iter().find(|choice| choice.then);
    let told = |choice: &Choice, subject: &str| {
        let gain = gain(report, choice).map(|gain| expected(&gain)).unwrap_or_default();
        price(report, choice).map(|price| format!(" {subject} costs {price}.{gain}"))
    };
    let first = first.and_then(|choice| match choice.kind {
        "experiment" => told(choice, "The change"),
        _ => told(choice, "It").or_else(|| Some(expected(&gain(report, choice)?))),
    });
    let then = then.and_then(|choice| match choice.kind {
        "go_on" => told(choice, "Continuing"),
        "wider_values" => told(choice, "Searching them"),
        "another_family" => told(choice, "Trying these families"),
        "new_kernel" => told(choice, "The new kernel"),
        _ => None,
    });
    [first, then, larger_gain(report)].into_iter().flatten().collect()
}

/// Says what a change of a kernel's source would gain and cost, where more of the search is recommended. None if no part of a
/// winner's time bounds that, or if it is not expected to gain more.
fn larger_gain(report: &Report) -> Option<String> {
    let recommended = report.options.iter().find(|choice| choice.recommended && choice.kind == "go_on")?;
    let kernel = report.options.iter().find(|choice| choice.kind == "new_kernel" && choice.most.is_some())?;
    let idea = kernel_idea::of(&report.cases, &report.diagnoses)?.what();
    let gain = in_short(report, kernel.most?);
    let lines = lines(report, kernel)?;
    let (time, dollars) = (effort::of_lines(lines), two_digits(effort::usd_of_lines(lines)));
    let saving = saving(report, kernel).unwrap_or_default();
    let is_larger = kernel.expected > recommended.expected;
    is_larger.then(|| {
        format!(
            " Larger gains need other source code: {idea}. That is up to {time} of human work (${dollars}), and brings {gain}.\
             {saving}"
        )
    })
}

/// Says what a kernel gains that is bounded by a part of the time.
fn in_short(report: &Report, most: f64) -> String {
    let [_, middle, _] = forecast::quartiles(most);
    let over_all = if report.cases.len() > 1 { " over all cases" } else { "" };
    format!("{middle:.3}×{over_all} if it becomes faster, at most {most:.3}×")
}

/// Says what is expected.
fn expected(gain: &str) -> String {
    format!(" Expected: {}.", gain.trim_end_matches('.'))
}

/// Says what the expected gain of a kernel is worth. None where the device costs nothing, or no gain is expected.
fn saving(report: &Report, choice: &Choice) -> Option<String> {
    let saved_usd = saved_usd_an_hour(report, choice)?;
    let pays = pays_from_hours(report, choice).zip(lines(report, choice)).map(|(hours, lines)| {
        let (helped, changes) = (forecast::HELPED, forecast::CHANGES);
        let work = two_digits(effort::usd_of_lines(lines));
        format!(
            " Of {changes} earlier changes of kernel sources, {helped} helped (docs/kernels.md). At these odds, the work pays from \
             ${work} / ({} × {helped} / {changes}) = {hours} GPU hours on.",
            usd(saved_usd)
        )
    });
    Some(format!(
        " Such a gain saves {} of each GPU hour in these kernels.{}",
        usd(saved_usd),
        pays.unwrap_or_default()
    ))
}

/// Returns what a kernel saves of each hour of the device, in whole US cents, as it is told. None if that is nothing, or not known.
fn saved_usd_an_hour(report: &Report, choice: &Choice) -> Option<f64> {
    let saved_usd = 3600.0 * gpu_usd_per_s(report)? * (1.0 - 1.0 / choice.expected?);
    Some((100.0 * saved_usd).round() / 100.0).filter(|saved_usd| *saved_usd >= MIN_SAVED_USD)
}

/// Formats the hours of the device from which a new kernel pays: what the work costs, over what an hour saves and over the share of
/// such work that helped. None if one of them is not known.
pub(super) fn pays_from_hours(report: &Report, choice: &Choice) -> Option<String> {
    let odds = forecast::HELPED as f64 / forecast::CHANGES as f64;
    let usd = effort::usd_of_lines(lines(report, choice)?);
    Some(two_digits(usd / (odds * saved_usd_an_hour(report, choice)?)))
}

/// Says what it takes to write a kernel. People's time is not on record, so it has a rule of thumb. What a language model
/// asked for a suggestion is, if one made any.
pub(super) fn writing(report: &Report, choice: &Choice) -> String {
    let suggestions = report.hypotheses.iter().filter(|one| one.kind == "model").count();
    let (session_usd, all_usd) = (report.cost.session.llm_usd, report.cost.cumulative.llm_usd);
    let model = if suggestions > 0 && session_usd > 0.0 {
        let each = usd(session_usd / suggestions as f64);
        format!(", or a language model's ({each} for each of its {suggestions} suggestions in this session)")
    } else if all_usd > 0.0 {
        format!(", or a language model's ({} in all sessions so far)", usd(all_usd))
    } else {
        String::new()
    };
    let human = lines(report, choice).map(|lines| {
        let time = effort::of_lines(lines);
        let usd = two_digits(effort::usd_of_lines(lines));
        format!("up to {time} of human work (${usd} at ${:.0} an hour, {lines} lines by COCOMO)", effort::USD_AN_HOUR)
    });
    format!("{}{model}", human.as_deref().unwrap_or("human work"))
}

/// Returns the length of the source that a new kernel would change or replace.
fn lines(report: &Report, choice: &Choice) -> Option<u64> {
    let name = choice.families.first()?;
    report.winning_families.iter().find(|family| family.name == *name).map(|family| family.lines)
}

/// Returns what the device cost in this session, in US dollars a second. None if it cost nothing.
fn gpu_usd_per_s(report: &Report) -> Option<f64> {
    let wall_s = report.session.wall_s.filter(|wall_s| *wall_s > 0.0)?;
    Some(report.cost.session.gpu_usd / wall_s).filter(|rate| *rate > 0.0)
}

/// Says what another session of so many seconds costs at the rate of this one: `240 s and for $0.23`.
pub(super) fn of_session(report: &Report, seconds: f64) -> String {
    let dollars = gpu_usd_per_s(report).map(|rate| format!(" and for {}", usd(rate * seconds))).unwrap_or_default();
    format!("{}{dollars}", duration(seconds))
}

/// Says what an option costs. None if that is not known, or nothing.
fn price(report: &Report, choice: &Choice) -> Option<String> {
    let seconds = duration(choice.minutes.filter(|minutes| *minutes > 0.0)? * 60.0);
    let writing = match choice.kind {
        "new_kernel" => format!("{}, and a session of ", writing(report, choice)),
        _ => String::new(),
    };
    Some(match choice.usd {
        Some(dollars) => format!("{writing}{seconds} and {}", usd(dollars)),
        None => format!("{writing}{seconds}"),
    })
}

/// Says what an option should gain. None for an experiment, whose gain the recommendation says.
fn gain(report: &Report, choice: &Choice) -> Option<String> {
    match choice.kind {
        "go_on" => choice.expected.map(|factor| {
            let range = report.outlook.as_ref().map(|outlook| outlook.factor);
            let range = range.map(|[lo, _, hi]| format!(" ({lo:.3}× to {hi:.3}×)")).unwrap_or_default();
            let late = report.outlook.as_ref().map(|outlook| counted(outlook.late_gains as usize, "improvement"));
            let late = late.map(|late| format!(", because the second half of this search found {late}"));
            let late = late.unwrap_or_default();
            format!("{factor:.3}× over all cases{range}{late}")
        }),
        "wider_values" => Some(choice.gain.clone()),
        "another_family" => {
            choice.expected.map(|factor| format!("{factor:.3}× over all cases, if it gains as others did"))
        }
        "new_kernel" => {
            let gain = kernel_idea::of(&report.cases, &report.diagnoses)?.gain();
            let saving = saving(report, choice).unwrap_or_default();
            let Some(most) = choice.most else {
                let over_all = choice.expected.filter(|_| report.cases.len() > 1);
                let over_all = over_all.map(|factor| format!(" ({factor:.3}× over all cases)")).unwrap_or_default();
                return Some(format!("{gain}{over_all}.{saving}"));
            };
            Some(format!("{}.{saving} {}", in_short(report, most), capitalised(&gain)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::contract::Breakdown;
    use super::super::tests::{record, record_ahead, report};
    use super::*;
    use crate::domain::ablation::Removed;
    use crate::domain::ids::IterationId;
    use crate::report::tests::without;

    #[test]
    fn what_it_takes_to_write_a_kernel_is_what_the_store_knows() {
        let mut report = report(&record());
        let human = "up to 5 days of human work ($3,900 at $100 an hour, 120 lines by COCOMO)";
        let choice = report.options.iter().find(|choice| choice.kind == "new_kernel").unwrap().clone();
        assert_eq!(writing(&report, &choice), format!("{human}, or a language model's ($3.75 in all sessions so far)"));
        report.hypotheses.iter_mut().take(3).for_each(|one| one.kind = "model");
        assert_eq!(
            writing(&report, &choice),
            format!("{human}, or a language model's ($0.25 for each of its 3 suggestions in this session)")
        );
        (report.cost.session.llm_usd, report.cost.cumulative.llm_usd) = (0.0, 0.0);
        assert_eq!(writing(&report, &choice), human);
    }

    /// Loads take a third of the time of one of three winners.
    fn with_loads() -> Report {
        let mut report = report(&record_ahead());
        let loads = without((Removed::GlobalLoads, 1.0 / 3.0));
        let family = "tiled".to_owned();
        let breakdown = Breakdown { iteration: IterationId(3), family, us: 50.0, without: vec![loads] };
        report.cases[0].breakdown = Some(breakdown);
        report
    }

    #[test]
    fn a_recommendation_to_continue_says_what_gains_more_if_anything_does() {
        let mut report = with_loads();
        for choice in &mut report.options {
            choice.recommended = choice.kind == "go_on";
            match choice.kind {
                "go_on" => choice.expected = Some(1.01),
                "new_kernel" => {
                    choice.families = vec!["tiled".to_owned()];
                    (choice.expected, choice.most) = (Some(1.048), Some(1.5_f64.cbrt()));
                }
                _ => {}
            }
        }
        insta::assert_snapshot!(larger_gain(&report).unwrap(), @" Larger gains need other source code: change the source of `tiled` to load less from global memory, or have more loads in flight. That is up to 5 days of human work ($3,900), and brings 1.048× over all cases if it becomes faster, at most 1.145×. Such a gain saves $0.01 of each GPU hour in these kernels. Of 66 earlier changes of kernel sources, 30 helped (docs/kernels.md). At these odds, the work pays from $3,900 / ($0.01 × 30 / 66) = 870,000 GPU hours on.");
        for choice in report.options.iter_mut().filter(|choice| choice.kind == "go_on") {
            choice.expected = Some(1.05);
        }
        assert_eq!(larger_gain(&report), None);
    }

    #[test]
    fn a_kernel_against_a_part_has_a_forecast_and_a_bound() {
        let report = with_loads();
        let choice = report.options.iter().find(|choice| choice.kind == "new_kernel").unwrap();
        let choice = Choice { most: Some(1.5_f64.cbrt()), ..choice.clone() };
        assert_eq!(
            gain(&report, &choice).unwrap(),
            "1.048× over all cases if it becomes faster, at most 1.145×. Loads from global memory take \
             33% of the time on `b1h1s128` (measured)"
        );
    }
}
