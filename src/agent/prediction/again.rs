//! Predicts recorded claims again, with other knowledge than they were made with.

use super::{Built, Question, predict};
use crate::domain::claims::prediction::Prediction;
use crate::domain::code::CodeFigures;
use crate::domain::family::Family;
use crate::domain::history::{Finished, History};
use crate::domain::ids::IterationId;
use crate::domain::record::{IterationRecord, SessionRecord};

/// Predicts the claim of a recorded iteration from a history. `reference` is what the claim compares with, which the history need
/// not contain. None if nothing can be predicted from that.
pub fn again(
    history: &History,
    families: &[Family],
    iteration: &IterationRecord,
    reference: &Finished,
) -> Option<Prediction> {
    let family = families.iter().find(|family| family.name == iteration.family)?;
    let case = &iteration.rationale.hypothesis.case;
    let found = iteration.measurements.iter().find(|found| found.case == *case);
    let launched = found.and_then(|found| Some((found.ctas?, found.shape)));
    let code = CodeFigures::of(&iteration.kernels);
    let built = code.zip(launched).map(|(code, (ctas, shape))| Built { code, ctas, shape });
    let (params, origin) = (&iteration.params, &iteration.rationale.origin);
    predict(history, families, &Question { family, params, case, reference, origin, built })
}

/// Predicts claims of a session as if they had been made right after an earlier iteration, without what was learnt since then.
/// `history` is that of the whole session, in which the claims' references are. Claims that could not have been made then have no
/// prediction.
pub fn known_after(
    record: &SessionRecord,
    families: &[Family],
    history: &History,
    earlier: IterationId,
    claims: &[&IterationRecord],
) -> Vec<Option<Prediction>> {
    let until = record.iterations.iter().position(|one| one.id == earlier).map_or(0, |at| at + 1);
    let mut known = History::default();
    record.iterations[..until].iter().for_each(|iteration| known.learn_recorded(iteration));
    let predicted = |claim: &&IterationRecord| {
        let reference = history.iteration(claim.rationale.hypothesis.reference.iteration()?)?;
        again(&known, families, claim, reference)
    };
    claims.iter().map(predicted).collect()
}
