//! What the recommended options cost, and what they should gain, as far as the recommendation does not say it.

use super::contract::{Choice, Report};
use super::format::{duration, usd};
use super::kernel_idea;

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
    [first, then].into_iter().flatten().collect()
}

/// Says what is expected. A bound is none.
fn expected(gain: &str) -> String {
    match gain.strip_prefix("at most ") {
        Some(bound) => format!(" It gains at most {bound}."),
        None => format!(" Expected: {gain}."),
    }
}

/// Says what it takes to write a kernel. Nothing is known of people's time. What a language model asked for a
/// suggestion is on record, if one made any.
pub(super) fn writing(report: &Report) -> String {
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
    let lines = lines(report).map(|lines| format!(" on {lines} lines of source")).unwrap_or_default();
    format!("human work{lines}, which is not estimated{model}")
}

/// Returns the length of the source that the recommended kernel would change or replace.
fn lines(report: &Report) -> Option<u64> {
    let idea = kernel_idea::of(&report.cases, &report.diagnoses)?;
    let name = idea.family()?;
    report.winning_families.iter().find(|family| family.name == name).map(|family| family.lines)
}

/// Says what another session of so many seconds costs at the rate of this one: `240 s and for $0.23`.
pub(super) fn of_session(report: &Report, seconds: f64) -> String {
    let wall_s = report.session.wall_s.filter(|wall_s| *wall_s > 0.0);
    let rate = wall_s.map(|wall_s| report.cost.session.gpu_usd / wall_s).filter(|rate| *rate > 0.0);
    let dollars = rate.map(|rate| format!(" and for {}", usd(rate * seconds))).unwrap_or_default();
    format!("{}{dollars}", duration(seconds))
}

/// Says what an option costs. None if that is not known, or nothing.
fn price(report: &Report, choice: &Choice) -> Option<String> {
    let seconds = duration(choice.minutes.filter(|minutes| *minutes > 0.0)? * 60.0);
    let writing = match choice.kind {
        "new_kernel" => format!("{}, and a session of ", writing(report)),
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
        "go_on" => choice.expected.map(|factor| format!("{factor:.3}× over all cases")),
        "wider_values" => Some(choice.gain.clone()),
        "another_family" => {
            choice.expected.map(|factor| format!("{factor:.3}× over all cases, if it gains as others did"))
        }
        "new_kernel" => {
            let gain = kernel_idea::of(&report.cases, &report.diagnoses)?.gain();
            let most = choice.most.filter(|_| report.cases.len() > 1);
            Some(most.map_or_else(|| gain.clone(), |most| format!("at most {most:.3}× over all cases: {gain}")))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{record, report};
    use super::*;

    #[test]
    fn what_it_takes_to_write_a_kernel_is_what_the_store_knows() {
        let mut report = report(&record());
        let human = "human work on 120 lines of source, which is not estimated";
        assert_eq!(writing(&report), format!("{human}, or a language model's ($3.75 in all sessions so far)"));
        report.hypotheses.iter_mut().take(3).for_each(|one| one.kind = "model");
        assert_eq!(
            writing(&report),
            format!("{human}, or a language model's ($0.25 for each of its 3 suggestions in this session)")
        );
        (report.cost.session.llm_usd, report.cost.cumulative.llm_usd) = (0.0, 0.0);
        assert_eq!(writing(&report), human);
    }
}
