//! Lists what was tried: a row for every case that an iteration reached.

use serde::Serialize;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::columns::{count, json, name, required};
use super::{Store, StoreError};
use crate::domain::device::TimeSource;
use crate::domain::hypothesis::Score;
use crate::domain::ids::{CaseName, IterationId, SessionId};
use crate::domain::sampling::LEAST_SAMPLES;
use crate::domain::variant::{Params, VariantHash};
use crate::domain::verdict::Verdict;

/// Selects the rows of the history. A filter that is None does not restrict.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only this session.
    pub session: Option<SessionId>,
    /// Only this case.
    pub case: Option<CaseName>,
    /// Only this family.
    pub family: Option<String>,
    /// Only iterations with this kind of outcome, one of `Outcome::KINDS`.
    pub outcome: Option<String>,
    /// Only cases with this verdict.
    pub verdict: Option<Verdict>,
    /// The order.
    pub sort: Sort,
    /// At most this many rows.
    pub limit: Option<u32>,
}

/// The order of a history. Rows without the figure come last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sort {
    /// Oldest iteration first.
    #[default]
    Number,
    /// Fastest first.
    Time,
    /// Largest speed-up over the incumbent of its time first.
    Speedup,
    /// Most expensive first.
    Cost,
}

/// A case that an iteration reached. An iteration that reached no case has one row, too.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HistoryRow {
    /// Number of the iteration.
    pub iteration: IterationId,
    /// Number of its session.
    pub session: SessionId,
    /// Where its configuration comes from, such as `move` or `model`.
    pub origin: String,
    /// The variant's family.
    pub family: String,
    /// The variant's parameters.
    pub params: Params,
    /// The variant's name.
    pub hash: VariantHash,
    /// The kind of outcome. None for an iteration that never ended.
    pub outcome: Option<String>,
    /// Details beyond the outcome.
    pub message: Option<String>,
    /// The case.
    pub case: Option<CaseName>,
    /// The time to report.
    pub best_ns: Option<f64>,
    /// Whether that time is measured or modelled.
    pub time_source: TimeSource,
    /// Whether that time is confirmed.
    pub confirmed: bool,
    /// Its 95% interval, low and high. None for fewer than three samples.
    pub best_ci_ns: Option<[f64; 2]>,
    /// The incumbent's time over this one.
    pub speedup: Option<f64>,
    /// Its 95% interval, low and high, if one run timed both in turns.
    pub speedup_ci: Option<[f64; 2]>,
    /// How far from 1 the A/A control of that run reached.
    pub noise: Option<f64>,
    /// The decision on the case.
    pub verdict: Option<Verdict>,
    /// The claim, made before the experiment.
    pub claim: String,
    /// The score of the claim.
    pub score: Option<Score>,
    /// The cost of the iteration, over all its cases.
    pub cost_usd: f64,
    /// The commit of the winner.
    pub commit: Option<String>,
}

impl Store {
    /// Returns the rows that pass a filter.
    pub async fn history(&self, filter: &Filter) -> Result<Vec<HistoryRow>, StoreError> {
        let sort = match filter.sort {
            Sort::Number => "number",
            Sort::Time => "time",
            Sort::Speedup => "speedup",
            Sort::Cost => "cost",
        };
        let rows = sqlx::query(
            "SELECT i.id, i.session_id, i.origin_kind, i.family, i.params, i.hash, i.outcome, i.outcome_message, m.case_name,
                    m.best_ns, m.confirmation_median_ns IS NOT NULL AS confirmed, m.speedup,
                    COALESCE((SELECT 'rejected' FROM disqualifications d
                              WHERE d.iteration_id = m.iteration_id AND d.case_name = m.case_name), m.verdict) AS stands,
                    IIF(m.confirmation_median_ns IS NULL, m.screening_samples, m.confirmation_samples) AS samples,
                    IIF(m.confirmation_median_ns IS NULL, m.screening_ci_lo_ns, m.confirmation_ci_lo_ns) AS best_lo,
                    IIF(m.confirmation_median_ns IS NULL, m.screening_ci_hi_ns, m.confirmation_ci_hi_ns) AS best_hi,
                    own.ratio_lo AS speedup_lo, own.ratio_hi AS speedup_hi, IIF(own.ratio IS NULL, NULL, held.noise) AS noise,
                    h.claim,
                    h.score, c.commit_id, e.time_source,
                    (SELECT TOTAL(usd) FROM costs WHERE iteration_id = i.id) AS cost_usd
             FROM iterations i JOIN hypotheses h ON h.iteration_id = i.id
             JOIN sessions s ON s.id = i.session_id JOIN environments e ON e.id = s.environment_id
             LEFT JOIN measurements m ON m.iteration_id = i.id
             LEFT JOIN commits c ON c.iteration_id = m.iteration_id AND c.case_name = m.case_name
             LEFT JOIN comparisons held ON held.iteration_id = m.iteration_id AND held.case_name = m.case_name
             LEFT JOIN participants own ON own.comparison_id = held.id AND own.role = 'incumbent'
             WHERE (?1 IS NULL OR i.session_id = ?1) AND (?2 IS NULL OR m.case_name = ?2)
               AND (?3 IS NULL OR i.family = ?3) AND (?4 IS NULL OR i.outcome = ?4)
               AND (?5 IS NULL OR stands = ?5)
             ORDER BY CASE ?6 WHEN 'time' THEN m.best_ns WHEN 'speedup' THEN -m.speedup WHEN 'cost' THEN -cost_usd END
                      NULLS LAST, i.id, m.case_name
             LIMIT ?7",
        )
        .bind(filter.session)
        .bind(&filter.case)
        .bind(&filter.family)
        .bind(&filter.outcome)
        .bind(filter.verdict.map(Verdict::name))
        .bind(sort)
        // SQLite reads a negative limit as no limit.
        .bind(filter.limit.map_or(-1, i64::from))
        .fetch_all(&self.pool)
        .await?;
        rows.iter().map(history_row).collect()
    }
}

fn history_row(row: &SqliteRow) -> Result<HistoryRow, StoreError> {
    let ends = |lo: &str, hi: &str| -> Result<Option<[f64; 2]>, StoreError> {
        let (lo, hi): (Option<f64>, Option<f64>) = (row.try_get(lo)?, row.try_get(hi)?);
        Ok(lo.zip(hi).map(|(lo, hi)| [lo, hi]))
    };
    let samples: Option<usize> = count(row, "samples")?;
    let is_shown = samples.is_some_and(|samples| samples >= LEAST_SAMPLES);
    Ok(HistoryRow {
        iteration: row.try_get("id")?,
        session: row.try_get("session_id")?,
        origin: row.try_get("origin_kind")?,
        family: row.try_get("family")?,
        params: json(row, "params")?,
        hash: VariantHash(row.try_get("hash")?),
        outcome: row.try_get("outcome")?,
        message: row.try_get("outcome_message")?,
        case: row.try_get("case_name")?,
        best_ns: row.try_get("best_ns")?,
        time_source: required(name(row, "time_source")?, "time_source")?,
        best_ci_ns: ends("best_lo", "best_hi")?.filter(|_| is_shown),
        confirmed: row.try_get("confirmed")?,
        speedup: row.try_get("speedup")?,
        speedup_ci: ends("speedup_lo", "speedup_hi")?,
        noise: row.try_get("noise")?,
        verdict: name(row, "stands")?,
        claim: row.try_get("claim")?,
        score: name(row, "score")?,
        cost_usd: row.try_get("cost_usd")?,
        commit: row.try_get("commit_id")?,
    })
}
