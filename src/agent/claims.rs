//! Writes the hypotheses of suggestions: what is tried, how it acts, and what the results so far predict.

use super::SearchContext;
use super::prediction::{self, Built, Question};
use crate::domain::claims::hypothesis::{Hypothesis, Reference};
use crate::domain::claims::mechanism::Mechanism;
use crate::domain::claims::prediction::{Direction, Prediction};
use crate::domain::family::Family;
use crate::domain::history::{Finished, History};
use crate::domain::ids::CaseName;
use crate::domain::proposal::origin::{Change, Origin};
use crate::domain::proposal::{Proposal, Rationale};
use crate::domain::variant::Params;
use crate::domain::workload::Case;

/// Claims what a change of parameters does to the time of `from` on a case.
pub(super) fn of_change(
    context: &SearchContext<'_>,
    history: &History,
    (family, case): (&Family, &Case),
    (from, params): (&Finished, &Params),
    origin: &Origin,
) -> Hypothesis {
    let changes = origin.changes();
    let params_of = |change: &Change| family.params.get(&change.parameter);
    let question = Question { family, params, case: &case.name, reference: from, origin, built: None };
    let prediction = prediction::predict(history, context.all, &question);
    let what = |change: &Change| {
        let about = params_of(change).map_or("", |param| &param.about);
        format!("{} from {} to {} ({about})", change.parameter, change.from, change.to)
    };
    let changed: Vec<String> = changes.iter().map(what).collect();
    let us = from.time_ns(&case.name).unwrap_or_default() / 1e3;
    Hypothesis {
        claim: format!("{}: {} {}", family.name, changed.join(" and "), expectation(prediction, &case.name)),
        evidence: format!(
            "iteration {} takes {us:.2} us; {}",
            from.iteration,
            prediction::evidence(history, &question, changes)
        ),
        mechanism: Mechanism::of_all(changes.iter().filter_map(params_of).map(|param| param.mechanism)),
        case: case.name.clone(),
        prediction,
        tuned: None,
        reference: Reference::Iteration(from.iteration),
    }
}

/// Claims how a configuration that is fast on another case compares with the fastest variant of this one.
pub(super) fn of_warm_start(
    context: &SearchContext<'_>,
    history: &History,
    (family, case): (&Family, &Case),
    (other, leader): (&str, &Finished),
    origin: &Origin,
) -> Hypothesis {
    let us = leader.time_ns(other).unwrap_or_default() / 1e3;
    let evidence = format!("iteration {} takes {us:.2} us there, less than all others", leader.iteration);
    let Some((fastest, _)) = history.fastest(&case.name) else {
        let claim = format!("the fastest configuration on {other} is tried on {}", case.name);
        return Hypothesis::without_claim(claim, evidence, case.name.clone(), Reference::Incumbent);
    };
    let question =
        Question { family, params: &leader.params, case: &case.name, reference: fastest, origin, built: None };
    let prediction = prediction::predict(history, context.all, &question);
    Hypothesis {
        claim: format!("the fastest configuration on {other} {}", expectation(prediction, &case.name)),
        evidence: format!("{evidence}; {}", prediction::evidence(history, &question, &[])),
        mechanism: Mechanism::Transfer,
        case: case.name.clone(),
        prediction,
        tuned: None,
        reference: Reference::Iteration(fastest.iteration),
    }
}

/// Claims how the default configuration of a family compares with the fastest variant of a case, if the family was
/// timed on another case.
pub(super) fn of_family_default(
    context: &SearchContext<'_>,
    history: &History,
    (family, case): (&Family, &Case),
    params: &Params,
) -> Option<Hypothesis> {
    let (fastest, _) = history.fastest(&case.name)?;
    let why = format!("{} was timed on other cases: {}", family.name, family.about);
    let claim = of_algorithm(context, history, (family, case), (fastest, params), &Origin::FamilyDefault, &why);
    claim.prediction?;
    Some(Hypothesis { claim: format!("the default configuration of {}", claim.claim), ..claim })
}

/// Claims how a configuration of another family compares with `from` on a case.
pub(super) fn of_family(
    context: &SearchContext<'_>,
    history: &History,
    (family, case): (&Family, &Case),
    (from, params): (&Finished, &Params),
    origin: &Origin,
) -> Hypothesis {
    of_algorithm(context, history, (family, case), (from, params), origin, &family.about)
}

/// Claims how another algorithm compares with `from` on a case. `why` ends the evidence.
fn of_algorithm(
    context: &SearchContext<'_>,
    history: &History,
    (family, case): (&Family, &Case),
    (from, params): (&Finished, &Params),
    origin: &Origin,
    why: &str,
) -> Hypothesis {
    let question = Question { family, params, case: &case.name, reference: from, origin, built: None };
    let prediction = prediction::predict(history, context.all, &question);
    let us = from.time_ns(&case.name).unwrap_or_default() / 1e3;
    Hypothesis {
        claim: format!("{} {}", family.name, expectation(prediction, &case.name)),
        evidence: format!("iteration {} takes {us:.2} us; {why}", from.iteration),
        mechanism: Mechanism::Algorithm,
        case: case.name.clone(),
        prediction,
        tuned: None,
        reference: Reference::Iteration(from.iteration),
    }
}

/// Predicts again what a proposal does, shortly before it is evaluated: with the results since it was made, and with its
/// code if it is known. A claim that no model made stays as it is.
pub fn predict_again(history: &History, families: &[Family], proposal: &mut Proposal, built: Option<Built>) {
    let Proposal { variant, rationale: Rationale { hypothesis, origin, .. }, .. } = proposal;
    let Some(before) = hypothesis.prediction.filter(|prediction| prediction.model.is_some()) else { return };
    let reference = hypothesis.reference.iteration().and_then(|iteration| history.iteration(iteration));
    let family = families.iter().find(|family| family.name == variant.family);
    let (Some(reference), Some(family)) = (reference, family) else { return };
    let question = Question { family, params: &variant.params, case: &hypothesis.case, reference, origin, built };
    let Some(now) = prediction::predict(history, families, &question) else { return };
    if let Some(what) = hypothesis.claim.strip_suffix(expectation(Some(before), &hypothesis.case).as_str()) {
        hypothesis.claim = format!("{what}{}", expectation(Some(now), &hypothesis.case));
    }
    hypothesis.prediction = Some(now);
}

/// Predicts the speed-up of a configuration over the fastest variant of a case. `built` is known once it is compiled. None if
/// there is no such variant, or nothing to learn from.
pub fn over_fastest(
    history: &History,
    families: &[Family],
    (family, params, origin): (&str, &Params, &Origin),
    case: &CaseName,
    built: Option<Built>,
) -> Option<Prediction> {
    let family = families.iter().find(|one| one.name == family)?;
    let (reference, _) = history.fastest(case)?;
    prediction::predict(history, families, &Question { family, params, case, reference, origin, built })
}

/// Says what is expected of a case, as the rest of a sentence.
fn expectation(prediction: Option<Prediction>, case: &str) -> String {
    match prediction.map(|prediction| prediction.direction()) {
        Some(Direction::Faster) => format!("makes {case} faster"),
        Some(Direction::Slower) => format!("makes {case} slower"),
        Some(Direction::Either) | None => format!("may make {case} faster or slower"),
    }
}
