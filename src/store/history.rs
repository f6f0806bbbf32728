//! Lists what was tried: a row for every case that an iteration reached.

use serde::{Deserialize, Serialize};
use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Row, Sqlite};

use super::columns::{count, json, name, required};
use super::{Store, StoreError};
use crate::domain::device::TimeSource;
use crate::domain::hypothesis::Score;
use crate::domain::ids::{CaseName, IterationId, SessionId};
use crate::domain::sampling::MIN_SAMPLES;
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
    /// Only configurations of this origin, such as `move`.
    pub origin: Option<String>,
    /// Only suggestions of this proposer.
    pub proposer: Option<String>,
    /// Only iterations from the first one that started at this instant or later. RFC 3339 in UTC, or the beginning of it.
    pub since: Option<String>,
    /// The order.
    pub sort: Sort,
    /// The order backwards.
    pub reverse: bool,
    /// At most this many rows.
    pub limit: Option<u32>,
    /// Leave out this many rows before them.
    pub offset: u32,
}

/// The order of a history.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sort {
    /// Oldest iteration first.
    #[default]
    Number,
    /// Fastest first. Only rows with a time.
    Time,
    /// Largest speed-up over the incumbent of its time first. Only rows with a speed-up.
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

/// The cost of an iteration, over all its cases.
const COST: &str = "(SELECT TOTAL(usd) FROM costs WHERE iteration_id = i.id)";

/// Whether a variant failed on a case after it was measured there.
const IS_OUT: &str = "EXISTS (SELECT 1 FROM disqualifications d
                              WHERE d.iteration_id = m.iteration_id AND d.case_name = m.case_name)";

impl Store {
    /// Returns the rows that pass a filter.
    ///
    /// Rows are chosen in indexes, then read. A row of `iterations` holds a source of some kilobytes before the columns
    /// that are shown, so only those of one page are read.
    pub async fn history(&self, filter: &Filter) -> Result<Vec<HistoryRow>, StoreError> {
        let since = match &filter.since {
            None => None,
            Some(instant) => match self.first_since(instant).await? {
                None => return Ok(Vec::new()),
                first => first,
            },
        };
        let mut query = QueryBuilder::new("WITH page AS MATERIALIZED (");
        select_page(&mut query, filter, since);
        query.push(
            ") SELECT i.id, i.session_id, i.origin_kind, i.family, i.params, i.hash, i.outcome, i.outcome_message,
                    m.case_name, m.best_ns, m.confirmation_median_ns IS NOT NULL AS confirmed, m.speedup,
                    COALESCE((SELECT 'rejected' FROM disqualifications d
                              WHERE d.iteration_id = m.iteration_id AND d.case_name = m.case_name), m.verdict) AS stands,
                    IIF(m.confirmation_median_ns IS NULL, m.screening_samples, m.confirmation_samples) AS samples,
                    IIF(m.confirmation_median_ns IS NULL, m.screening_ci_lo_ns, m.confirmation_ci_lo_ns) AS best_lo,
                    IIF(m.confirmation_median_ns IS NULL, m.screening_ci_hi_ns, m.confirmation_ci_hi_ns) AS best_hi,
                    own.ratio_lo AS speedup_lo, own.ratio_hi AS speedup_hi, IIF(own.ratio IS NULL, NULL, held.noise) AS noise,
                    h.claim, h.score, c.commit_id, e.time_source,
                    (SELECT TOTAL(usd) FROM costs WHERE iteration_id = i.id) AS cost_usd
             FROM page CROSS JOIN iterations i ON i.id = page.id
             JOIN hypotheses h ON h.iteration_id = i.id
             JOIN sessions s ON s.id = i.session_id JOIN environments e ON e.id = s.environment_id
             LEFT JOIN measurements m ON m.iteration_id = page.id AND m.case_name = page.case_name
             LEFT JOIN commits c ON c.iteration_id = m.iteration_id AND c.case_name = m.case_name
             LEFT JOIN comparisons held ON held.iteration_id = m.iteration_id AND held.case_name = m.case_name
             LEFT JOIN participants own ON own.comparison_id = held.id AND own.role = 'incumbent'",
        );
        push_order(&mut query, filter);
        let rows = query.build().fetch_all(&self.pool).await?;
        rows.iter().map(history_row).collect()
    }

    /// Returns the families that a session has tried, or all sessions, sorted.
    pub async fn families_tried(&self, session: Option<SessionId>) -> Result<Vec<String>, StoreError> {
        let mut query =
            QueryBuilder::<Sqlite>::new("SELECT DISTINCT family FROM iterations i INDEXED BY iterations_listed");
        if let Some(session) = session {
            query.push(" WHERE session_id = ").push_bind(session);
        }
        query.push(" ORDER BY family");
        Ok(query.build_query_scalar().fetch_all(&self.pool).await?)
    }

    /// Returns the first iteration that started at an instant or later. Numbers increase with time.
    async fn first_since(&self, instant: &str) -> Result<Option<IterationId>, StoreError> {
        let first = "SELECT id FROM iterations WHERE started_at >= ? ORDER BY started_at, id LIMIT 1";
        Ok(sqlx::query_scalar(first).bind(instant).fetch_optional(&self.pool).await?)
    }
}

/// Chooses the rows of a page, by number of the iteration and case.
fn select_page(query: &mut QueryBuilder<Sqlite>, filter: &Filter, since: Option<IterationId>) {
    query.push("SELECT i.id, m.case_name FROM ");
    // Without a session, the planner would read whole rows for a filter whose columns are in this index.
    let is_listed = filter.session.is_none()
        && (filter.family.is_some()
            || filter.outcome.is_some()
            || filter.origin.is_some()
            || filter.proposer.is_some());
    let iterations = if is_listed { "iterations i INDEXED BY iterations_listed" } else { "iterations i" };
    let of_cases = filter.case.is_some() || filter.verdict.is_some();
    match filter.sort {
        Sort::Time | Sort::Speedup if !is_listed && filter.session.is_none() => {
            query.push("measurements m CROSS JOIN iterations i ON i.id = m.iteration_id")
        }
        Sort::Number | Sort::Cost if !of_cases => {
            query.push(iterations).push(" LEFT JOIN measurements m ON m.iteration_id = i.id")
        }
        _ => query.push(iterations).push(" JOIN measurements m ON m.iteration_id = i.id"),
    };
    query.push(match filter.sort {
        Sort::Time => " WHERE m.best_ns IS NOT NULL",
        Sort::Speedup => " WHERE m.speedup IS NOT NULL",
        Sort::Number | Sort::Cost => " WHERE TRUE",
    });
    if let Some(session) = filter.session {
        query.push(" AND i.session_id = ").push_bind(session);
    }
    if let Some(first) = since {
        query.push(" AND i.id >= ").push_bind(first);
    }
    let texts = [
        ("m.case_name", filter.case.as_ref().map(CaseName::to_string)),
        ("i.family", filter.family.clone()),
        ("i.outcome", filter.outcome.clone()),
        ("i.origin_kind", filter.origin.clone()),
        ("i.proposer", filter.proposer.clone()),
    ];
    for (column, wanted) in texts {
        if let Some(wanted) = wanted {
            query.push(" AND ").push(column).push(" = ").push_bind(wanted);
        }
    }
    match filter.verdict {
        None => {}
        Some(Verdict::Rejected) => {
            query.push(" AND (m.verdict = 'rejected' OR ").push(IS_OUT).push(")");
        }
        Some(verdict) => {
            query.push(" AND m.verdict = ").push_bind(verdict.name()).push(" AND NOT ").push(IS_OUT);
        }
    }
    push_order(query, filter);
    // SQLite reads a negative limit as no limit.
    query.push(" LIMIT ").push_bind(filter.limit.map_or(-1, i64::from));
    query.push(" OFFSET ").push_bind(i64::from(filter.offset));
}

fn push_order(query: &mut QueryBuilder<Sqlite>, filter: &Filter) {
    let (down, up) = if filter.reverse { ("ASC", "DESC") } else { ("DESC", "ASC") };
    query.push(" ORDER BY ");
    match filter.sort {
        Sort::Number => query.push(""),
        Sort::Time => query.push("m.best_ns ").push(up).push(", "),
        Sort::Speedup => query.push("m.speedup ").push(down).push(", "),
        Sort::Cost => query.push(COST).push(" ").push(down).push(", "),
    };
    query.push("i.id ").push(up).push(", m.case_name COLLATE natural_order");
}

fn history_row(row: &SqliteRow) -> Result<HistoryRow, StoreError> {
    let ends = |lo: &str, hi: &str| -> Result<Option<[f64; 2]>, StoreError> {
        let (lo, hi): (Option<f64>, Option<f64>) = (row.try_get(lo)?, row.try_get(hi)?);
        Ok(lo.zip(hi).map(|(lo, hi)| [lo, hi]))
    };
    let samples: Option<usize> = count(row, "samples")?;
    let is_shown = samples.is_some_and(|samples| samples >= MIN_SAMPLES);
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
