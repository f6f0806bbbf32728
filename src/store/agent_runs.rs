//! Runs of the coding agent of a session.

use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::columns::{count, json, now, required, signed, text, to_json};
use super::{Store, StoreError};
use crate::domain::ids::SessionId;
use crate::domain::models::agent_run::AgentRun;
use crate::domain::models::call::Usage;
use crate::domain::models::money::MicroUsd;

impl Store {
    /// Records a run that has ended.
    pub async fn record_agent_run(&self, session: SessionId, run: &AgentRun) -> Result<(), StoreError> {
        let AgentRun { run: number, command, wall_s, exit_code, evaluations, cost, usage, said } = run;
        let tokens = |of: fn(&Usage) -> u64| usage.as_ref().map(|usage| signed("tokens", of(usage))).transpose();
        let query = sqlx::query(
            "INSERT INTO agent_runs (session_id, run, command, ended_at, wall_s, exit_code, evaluations, cost_micro_usd,
                                     input_tokens, cached_tokens, cache_write_tokens, output_tokens, said)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )
        .bind(session)
        .bind(signed("run", *number)?)
        .bind(to_json("command", command)?)
        .bind(now()?)
        .bind(wall_s)
        .bind(exit_code)
        .bind(signed("evaluations", *evaluations)?)
        .bind(cost.map(|cost| signed("cost_micro_usd", cost.0)).transpose()?)
        .bind(tokens(|usage| usage.input_tokens)?)
        .bind(tokens(|usage| usage.cached_tokens)?)
        .bind(tokens(|usage| usage.cache_write_tokens)?)
        .bind(tokens(|usage| usage.output_tokens)?)
        .bind(text(said));
        self.write(async |connection| Ok(query.execute(connection).await.map(drop)?)).await
    }

    /// Reads the runs of a session's agent, in order.
    pub async fn agent_runs(&self, session: SessionId) -> Result<Vec<AgentRun>, StoreError> {
        let rows = sqlx::query("SELECT * FROM agent_runs WHERE session_id = ? ORDER BY run")
            .bind(session)
            .fetch_all(&self.pool)
            .await?;
        rows.iter().map(run).collect()
    }
}

fn run(row: &SqliteRow) -> Result<AgentRun, StoreError> {
    let tokens = |column| Ok::<_, StoreError>(count(row, column)?.unwrap_or_default());
    let input: Option<u64> = count(row, "input_tokens")?;
    let usage = input.map(|input_tokens| {
        Ok::<_, StoreError>(Usage {
            input_tokens,
            cached_tokens: tokens("cached_tokens")?,
            cache_write_tokens: tokens("cache_write_tokens")?,
            output_tokens: tokens("output_tokens")?,
        })
    });
    Ok(AgentRun {
        run: required(count(row, "run")?, "run")?,
        command: json(row, "command")?,
        wall_s: row.try_get("wall_s")?,
        exit_code: count(row, "exit_code")?,
        evaluations: required(count(row, "evaluations")?, "evaluations")?,
        cost: count(row, "cost_micro_usd")?.map(MicroUsd),
        usage: usage.transpose()?,
        said: row.try_get("said")?,
    })
}
