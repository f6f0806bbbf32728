//! Calls of language models: what was asked, what came back, and what it cost.

use std::collections::HashMap;

use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::columns::{count, json, name, now, optional_json, required, signed, text, to_json};
use super::sessions::record_cost;
use super::{Store, StoreError};
use crate::domain::budget::cost::{Spent, UnknownCosts};
use crate::domain::ids::SessionId;
use crate::domain::models::call::{ModelRequest, Usage};
use crate::domain::models::call_record::{CallBegun, CallEnded, CallId, CallOutcome, CallSubject, Transcript};
use crate::domain::models::money::MicroUsd;

/// A call that is about to begin.
pub struct NewCall<'a> {
    /// What is sent.
    pub request: &'a ModelRequest,
    /// What it asks for.
    pub subject: &'a CallSubject,
    /// The most that it may cost.
    pub reserve: MicroUsd,
    /// Whether it repeats a call whose answer never came.
    pub is_retry: bool,
    /// Iterations of the session that have ended.
    pub after: u64,
}

impl Store {
    /// Records that a call begins, before anything is sent. Returns its number once its reserve is on the disk.
    pub async fn begin_call(&self, session: SessionId, new: &NewCall<'_>) -> Result<CallId, StoreError> {
        let NewCall { request, subject, reserve, is_retry, after } = new;
        let query = sqlx::query_scalar(
            "INSERT INTO model_calls (session_id, purpose, ordinal, model, subject, prompt, reserve_micro_usd, is_retry,
                                      asked_after, begun_at)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
        )
        .bind(session)
        .bind(request.purpose.name())
        .bind(signed("ordinal", request.ordinal)?)
        .bind(&request.model)
        .bind(to_json("subject", subject)?)
        .bind(to_json("prompt", request)?)
        .bind(signed("reserve_micro_usd", reserve.0)?)
        .bind(is_retry)
        .bind(signed("asked_after", *after)?)
        .bind(now()?);
        let id: i64 = self.write(async |connection| Ok(query.fetch_one(connection).await?)).await?;
        Ok(CallId(id))
    }

    /// Records how a call ended, with its cost. After this, the call never changes.
    pub async fn end_call(&self, session: SessionId, ended: &CallEnded) -> Result<(), StoreError> {
        let (mut kind, mut message, mut is_final, mut answer, mut said) = (None, None, None, None, None);
        match &ended.outcome {
            CallOutcome::Answered { answer: json, text: written } => {
                answer = Some(to_json("answer", json)?);
                said = Some(text(written));
            }
            CallOutcome::Failed { kind: of, message: sentence, is_final: last } => {
                (kind, message, is_final) = (Some(of), Some(text(sentence)), Some(*last));
            }
            CallOutcome::Lost => {}
        }
        let tokens = |of: fn(&Usage) -> u64| ended.usage.as_ref().map(|usage| signed("tokens", of(usage))).transpose();
        let (input, cached) = (tokens(|usage| usage.input_tokens)?, tokens(|usage| usage.cached_tokens)?);
        let estimate = ended.estimate.map(|estimate| signed("estimate_micro_usd", estimate.0)).transpose()?;
        let (cache_write, output) = (tokens(|usage| usage.cache_write_tokens)?, tokens(|usage| usage.output_tokens)?);
        self.write(async |connection| {
            sqlx::query(
                "UPDATE model_calls SET ended_at = ?, status = ?, error_kind = ?, message = ?, is_final = ?, answer = ?,
                        text = ?, input_tokens = ?, cached_tokens = ?, cache_write_tokens = ?, output_tokens = ?,
                        cost_micro_usd = ?, cost_is_known = ?, estimate_micro_usd = ?, latency_ms = ?,
                        attempts = ?, answered_after = ?
                 WHERE id = ?",
            )
            .bind(now()?)
            .bind(ended.outcome.name())
            .bind(kind)
            .bind(message)
            .bind(is_final)
            .bind(answer)
            .bind(said)
            .bind(input)
            .bind(cached)
            .bind(cache_write)
            .bind(output)
            .bind(signed("cost_micro_usd", ended.cost.0)?)
            .bind(ended.cost_is_known)
            .bind(estimate)
            .bind(signed("latency_ms", ended.latency_ms)?)
            .bind(ended.attempts)
            .bind(signed("answered_after", ended.after)?)
            .bind(ended.call.0)
            .execute(&mut *connection)
            .await?;
            let spent = Spent { llm_usd: ended.spent().usd(), ..Spent::default() };
            record_cost(connection, session, None, spent).await
        })
        .await
    }

    /// Reads the calls of a session, in order, each with its end if it has one.
    pub async fn calls(&self, session: SessionId) -> Result<Vec<(CallBegun, Option<CallEnded>)>, StoreError> {
        let rows = sqlx::query("SELECT * FROM model_calls WHERE session_id = ? ORDER BY id")
            .bind(session)
            .fetch_all(&self.pool)
            .await?;
        rows.iter().map(|row| Ok((begun(row)?, ended(row)?))).collect()
    }

    /// Sums up the calls of a session that have ended and whose cost is not known.
    pub(super) async fn unknown_costs(&self, session: SessionId) -> Result<UnknownCosts, StoreError> {
        let row = sqlx::query(
            "SELECT COUNT(*) AS calls, COALESCE(SUM(COALESCE(estimate_micro_usd, cost_micro_usd)), 0) AS booked,
                    COALESCE(SUM(cost_micro_usd), 0) AS most
             FROM model_calls WHERE session_id = ? AND cost_is_known = 0",
        )
        .bind(session)
        .fetch_one(&self.pool)
        .await?;
        let usd = |column: &'static str| Ok::<_, StoreError>(MicroUsd(required(count(&row, column)?, column)?).usd());
        let calls = required(count(&row, "calls")?, "calls")?;
        Ok(UnknownCosts { calls, usd: usd("booked")?, at_most_usd: usd("most")? })
    }

    /// Reads the calls of a session by their numbers as the journal writes them.
    pub(super) async fn calls_by_id(
        &self,
        session: SessionId,
    ) -> Result<HashMap<String, (CallBegun, Option<CallEnded>)>, StoreError> {
        let calls = self.calls(session).await?;
        Ok(calls.into_iter().map(|(begun, ended)| (begun.call.to_string(), (begun, ended))).collect())
    }
}

fn begun(row: &SqliteRow) -> Result<CallBegun, StoreError> {
    Ok(CallBegun {
        call: CallId(row.try_get("id")?),
        ordinal: required(count(row, "ordinal")?, "ordinal")?,
        model: row.try_get("model")?,
        subject: json(row, "subject")?,
        reserve: MicroUsd(required(count(row, "reserve_micro_usd")?, "reserve_micro_usd")?),
        after: required(count(row, "asked_after")?, "asked_after")?,
        is_retry: row.try_get("is_retry")?,
    })
}

/// Reads the end of a call. None if it has none.
fn ended(row: &SqliteRow) -> Result<Option<CallEnded>, StoreError> {
    /// The statuses, as the schema names them.
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Status {
        Answered,
        Failed,
        Lost,
    }
    let Some(status) = name(row, "status")? else { return Ok(None) };
    let outcome = match status {
        Status::Answered => CallOutcome::Answered {
            answer: required(optional_json(row, "answer")?, "answer")?,
            text: row.try_get("text")?,
        },
        Status::Failed => CallOutcome::Failed {
            kind: row.try_get("error_kind")?,
            message: row.try_get("message")?,
            is_final: row.try_get("is_final")?,
        },
        Status::Lost => CallOutcome::Lost,
    };
    let usage = match count(row, "input_tokens")? {
        Some(input_tokens) => Some(Usage {
            input_tokens,
            cached_tokens: required(count(row, "cached_tokens")?, "cached_tokens")?,
            cache_write_tokens: required(count(row, "cache_write_tokens")?, "cache_write_tokens")?,
            output_tokens: required(count(row, "output_tokens")?, "output_tokens")?,
        }),
        None => None,
    };
    Ok(Some(CallEnded {
        call: CallId(row.try_get("id")?),
        outcome,
        cost: MicroUsd(required(count(row, "cost_micro_usd")?, "cost_micro_usd")?),
        cost_is_known: row.try_get("cost_is_known")?,
        estimate: count(row, "estimate_micro_usd")?.map(MicroUsd),
        usage,
        latency_ms: required(count(row, "latency_ms")?, "latency_ms")?,
        attempts: required(count(row, "attempts")?, "attempts")?,
        after: required(count(row, "answered_after")?, "answered_after")?,
    }))
}

impl Store {
    /// Reads what was sent in a call and what came back. None if there is no such call.
    pub async fn transcript(&self, call: CallId) -> Result<Option<Transcript>, StoreError> {
        let row = sqlx::query("SELECT prompt, text FROM model_calls WHERE id = ?")
            .bind(call.0)
            .fetch_optional(&self.pool)
            .await?;
        row.map(|row| Ok(Transcript { request: json(&row, "prompt")?, text: row.try_get("text")? })).transpose()
    }
}
