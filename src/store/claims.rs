//! Writes, scores and reads hypotheses.

use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use super::StoreError;
use super::columns::{name, reference, required, text};
use crate::domain::claims::hypothesis::{Hypothesis, Score};
use crate::domain::claims::prediction::{Crps, Modelled, Prediction};
use crate::domain::ids::IterationId;
use crate::domain::proposal::Proposal;

/// Records what an iteration claims, before its experiment.
pub(super) async fn record(
    connection: &mut SqliteConnection,
    iteration: IterationId,
    proposal: &Proposal,
) -> Result<(), StoreError> {
    let Hypothesis { claim, evidence, mechanism, case, prediction, tuned, reference } = &proposal.rationale.hypothesis;
    let model = prediction.and_then(|prediction| prediction.model);
    sqlx::query(
        "INSERT INTO hypotheses (iteration_id, claim, evidence, kind, mechanism, case_name, predicted_median,
                                 predicted_lo, predicted_hi, strength, model_mean, model_sd, relative_to, reference,
                                 tuned_lo, tuned_hi)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(iteration)
    .bind(text(claim))
    .bind(text(evidence))
    .bind(proposal.rationale.origin.kind(proposal.rationale.purpose))
    .bind(mechanism.name())
    .bind(case)
    .bind(prediction.and_then(|prediction| prediction.median))
    .bind(prediction.map(|prediction| prediction.lo))
    .bind(prediction.map(|prediction| prediction.hi))
    .bind(prediction.map(|prediction| prediction.strength.name()))
    .bind(model.map(|model| model.mean))
    .bind(model.map(|model| model.sd))
    .bind(reference.iteration())
    .bind(reference.name())
    .bind(tuned.map(|[low, _]| low))
    .bind(tuned.map(|[_, high]| high))
    .execute(&mut *connection)
    .await?;
    for change in proposal.rationale.origin.changes() {
        sqlx::query(
            "INSERT INTO changed_parameters (iteration_id, parameter, from_value, to_value) VALUES (?, ?, ?, ?)",
        )
        .bind(iteration)
        .bind(&change.parameter)
        .bind(change.from)
        .bind(change.to)
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}

/// Records how a claim turned out.
pub(super) async fn score(
    connection: &mut SqliteConnection,
    iteration: IterationId,
    actual: Option<f64>,
    score: Score,
    crps: Option<Crps>,
) -> Result<(), StoreError> {
    sqlx::query("UPDATE hypotheses SET actual = ?, score = ?, crps = ?, crps_no_change = ? WHERE iteration_id = ?")
        .bind(actual)
        .bind(score.name())
        .bind(crps.map(|crps| crps.prediction))
        .bind(crps.map(|crps| crps.no_change))
        .bind(iteration)
        .execute(connection)
        .await?;
    Ok(())
}

/// Reads the hypothesis of an iteration's row.
pub(super) fn hypothesis(row: &SqliteRow) -> Result<Hypothesis, StoreError> {
    Ok(Hypothesis {
        claim: row.try_get("claim")?,
        evidence: row.try_get("evidence")?,
        mechanism: required(name(row, "mechanism")?, "mechanism")?,
        case: row.try_get("case_name")?,
        prediction: prediction(row)?,
        tuned: tuned(row)?,
        reference: reference(row)?,
    })
}

fn tuned(row: &SqliteRow) -> Result<Option<[f64; 2]>, StoreError> {
    let (low, high): (Option<f64>, Option<f64>) = (row.try_get("tuned_lo")?, row.try_get("tuned_hi")?);
    Ok(low.zip(high).map(|(low, high)| [low, high]))
}

fn prediction(row: &SqliteRow) -> Result<Option<Prediction>, StoreError> {
    let Some(lo) = row.try_get("predicted_lo")? else { return Ok(None) };
    let (mean, sd): (Option<f64>, Option<f64>) = (row.try_get("model_mean")?, row.try_get("model_sd")?);
    Ok(Some(Prediction {
        median: row.try_get("predicted_median")?,
        lo,
        hi: row.try_get("predicted_hi")?,
        strength: required(name(row, "strength")?, "strength")?,
        model: mean.zip(sd).map(|(mean, sd)| Modelled { mean, sd }),
    }))
}
