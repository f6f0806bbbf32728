//! Why causes of lost time in the winners are no options.

use super::changes::listed;
use super::contract::{Case, Diagnosis, Finding};
use super::format::fine;
use super::{kernel_idea, limiter};
use crate::domain::finding::Confidence;

/// Says for each cause that the table of the limits names, and that no option removes, why it is none. None if all are options.
pub(super) fn sentence(cases: &[Case], diagnoses: &[Diagnosis]) -> Option<String> {
    let ideas = kernel_idea::all(cases, diagnoses);
    let named = cases.iter().filter_map(|case| Some((case, limiter::first_cause(case, diagnoses)?)));
    let left_out = named.filter(|(case, cause)| !ideas.iter().any(|idea| idea.removes(case, cause)));
    let mut told: Vec<(String, String, Vec<String>)> = Vec::new();
    for (case, cause) in left_out {
        let (what, why, name) = (cause.cause.clone(), reason(cause, cases.len()), format!("`{}`", case.case));
        match told.iter_mut().find(|(other, reason, _)| (other, reason) == (&what, &why)) {
            Some((.., names)) => names.push(name),
            None => told.push((what, why, vec![name])),
        }
    }
    let one =
        |(what, why, names): (String, String, Vec<String>)| Some(format!("{what} (on {}): {why}", listed(&names)?));
    let told: Vec<String> = told.into_iter().filter_map(one).collect();
    (!told.is_empty()).then(|| format!("Causes of the table above that are no option: {}.", told.join("; ")))
}

/// Says why a cause is no option. All others have the largest expected gain over all cases.
fn reason(cause: &Finding, cases: usize) -> String {
    if limiter::is_unavoidable(cause) {
        return "no kernel is without it".to_owned();
    }
    if let Some(other) = &cause.divided_by {
        return format!("`{}` lacks it and is not faster", other.family);
    }
    match (cause.gain > 1.0, cause.confidence) {
        (false, _) => "its gain is not known".to_owned(),
        (true, Confidence::Low) => "its confidence is low".to_owned(),
        (true, _) => {
            let gain = (cause.gain.ln() / cases as f64).exp();
            format!("{} over all cases, less than the options above", fine(gain))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{finding, record_ahead, report_with};
    use super::*;

    /// The best variant of the first case is iteration 3, and that of the second case iteration 1.
    #[test]
    fn causes_without_an_option_are_told_with_the_reason() {
        let told = |first: Confidence, second: Confidence| {
            let mut findings = [finding("b1h1s128", 3, "barriers", 1.3), finding("b8h8s512", 1, "uneven-blocks", 1.5)];
            (findings[0].confidence, findings[1].confidence) = (first, second);
            let report = report_with(&record_ahead(), &findings);
            sentence(&report.cases, &report.diagnoses).unwrap_or_default()
        };
        let (low, medium) = (Confidence::Low, Confidence::Medium);
        insta::assert_snapshot!([told(medium, medium), told(low, medium), told(low, low)].join("\n"), @"
        Causes of the table above that are no option: barriers is slow (on `b1h1s128`): 1.091× over all cases, less than the options above.
        Causes of the table above that are no option: barriers is slow (on `b1h1s128`): its confidence is low.
        Causes of the table above that are no option: barriers is slow (on `b1h1s128`): its confidence is low.
        ");
    }
}
