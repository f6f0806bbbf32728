//! What the recommended options cost, and what they should gain, as far as the recommendation does not say it.

use super::contract::{Choice, Experiment, Report};
use super::format::{duration, times, usd};
use super::limiter;

/// Says what the recommendation costs: the recommended option, and the one that comes after it.
pub(super) fn of(report: &Report) -> String {
    let first = report.options.iter().find(|choice| choice.recommended);
    let then = report.options.iter().find(|choice| choice.then);
    let told = |choice: &Choice, subject: &str| {
        let gain = gain(report, choice).map(|gain| format!(" (expected: {gain})")).unwrap_or_default();
        price(choice).map(|price| format!(" {subject} costs {price}{gain}."))
    };
    let first = first.and_then(|choice| match choice.kind {
        "experiment" => told(choice, "The change"),
        _ => told(choice, "It").or_else(|| Some(format!(" Expected: {}.", gain(report, choice)?))),
    });
    let then = then.and_then(|choice| match choice.kind {
        "go_on" => told(choice, "Continuing"),
        "another_family" => told(choice, "Trying these families"),
        "new_kernel" => told(choice, "The new kernel"),
        _ => None,
    });
    [first, then].into_iter().flatten().collect()
}

/// Says what an option costs. None if that is not known, or nothing.
fn price(choice: &Choice) -> Option<String> {
    let seconds = duration(choice.minutes.filter(|minutes| *minutes > 0.0)? * 60.0);
    let writing = if choice.kind == "new_kernel" { "its writing and a session of " } else { "" };
    Some(match choice.usd {
        Some(dollars) => format!("{writing}{seconds} and {}", usd(dollars)),
        None => format!("{writing}{seconds}"),
    })
}

/// Says what an option should gain. None for an experiment, whose gain the recommendation says.
fn gain(report: &Report, choice: &Choice) -> Option<String> {
    let kernel = report.next_experiment.as_ref().filter(|next| choice.kind == "new_kernel" && next.kind == choice.kind);
    match (choice.kind, kernel) {
        ("go_on", _) => choice.expected.map(|factor| format!("{factor:.3}× over all cases")),
        (_, Some(Experiment { case, before_us, after_us: Some([_, slowest_us]), .. })) => {
            let most = limiter::most_to_gain(&report.cases, &report.diagnoses);
            let idea = most.map(|(_, cause)| &*cause.kernel_change).unwrap_or_default();
            Some(format!("about {} on `{case}`, if it can {idea}", times(before_us / slowest_us)))
        }
        _ => None,
    }
}
