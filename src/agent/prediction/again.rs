//! Predicts recorded claims again, with other knowledge than they were made with.

use super::{Built, Question, predict};
use crate::domain::code::CodeFigures;
use crate::domain::family::Family;
use crate::domain::history::{Finished, History};
use crate::domain::ids::IterationId;
use crate::domain::journal::{Begun, Concluded};
use crate::domain::prediction::Prediction;
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
    let case = &iteration.hypothesis.case;
    let found = iteration.measurements.iter().find(|found| found.case == *case);
    let launched = found.and_then(|found| Some((found.ctas?, found.shape)));
    let code = CodeFigures::of(&iteration.kernels);
    let built = code.zip(launched).map(|(code, (ctas, shape))| Built { code, ctas, shape });
    let (params, origin) = (&iteration.params, &iteration.origin);
    predict(history, families, &Question { family, params, case, reference, origin, built })
}

/// Predicts claims of a session as if they had been made right after an earlier iteration, without what was learnt since then.
/// Claims that could not have been made then have no prediction.
pub fn known_after(
    record: &SessionRecord,
    families: &[Family],
    earlier: IterationId,
    claims: &[&IterationRecord],
) -> Vec<Option<Prediction>> {
    let until = record.iterations.iter().position(|one| one.id == earlier).map_or(0, |at| at + 1);
    let mut known = History::default();
    record.iterations[..until].iter().for_each(|iteration| learn(&mut known, iteration));
    let mut all = known.clone();
    record.iterations[until..].iter().for_each(|iteration| learn(&mut all, iteration));
    let predicted = |claim: &&IterationRecord| {
        let reference = all.iteration(claim.hypothesis.reference.iteration()?)?;
        again(&known, families, claim, reference)
    };
    claims.iter().map(predicted).collect()
}

/// Adds a recorded iteration to a history.
pub fn learn(history: &mut History, iteration: &IterationRecord) {
    if let Some(concluded) = Concluded::recorded(iteration, iteration.measurements.clone()) {
        history.learn(&Begun::recorded(iteration), &concluded);
    }
}
