//! Lists what was tried: a row for every case that an iteration reached.

use serde::Serialize;
use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Row, Sqlite};

use super::columns::{count, json, name, required};
use super::page::{Filter, push_order, select_page};
use super::{Store, StoreError};
use crate::domain::claims::hypothesis::Score;
use crate::domain::device::TimeSource;
use crate::domain::device::gpu_state::Graphs;
use crate::domain::device::regime::Regime;
use crate::domain::ids::{CaseName, IterationId, SessionId};
use crate::domain::measurement::verdict::Verdict;
use crate::domain::op::Dims;
use crate::domain::proposal::origin::Origin;
use crate::domain::statistics::sampling::MIN_SAMPLES;
use crate::domain::variant::{Params, VariantHash};
use crate::domain::workload::Case;

/// A case that an iteration reached. An iteration that reached no case has one row, too.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HistoryRow {
    /// Number of the iteration.
    pub iteration: IterationId,
    /// Number of its session.
    pub session: SessionId,
    /// Where its configuration comes from, such as `move` or `model`.
    pub origin: String,
    /// Whether an earlier session has committed the configuration for this case.
    pub replayed: bool,
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
    /// Where that time comes from.
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
    #[serde(skip)]
    pub verdict: Option<Verdict>,
    /// The decision in a word: an improvement that was a committed winner measured again is called that.
    #[serde(rename = "verdict")]
    pub decided: Option<&'static str>,
    /// The claim, made before the experiment.
    pub claim: String,
    /// The score of the claim.
    pub score: Option<Score>,
    /// The cost of the iteration, over all its cases.
    pub cost_usd: f64,
    /// The commit of the winner.
    pub commit: Option<String>,
}

/// The session whose rows are listed, as far as a list needs to know it. It costs one look into an index.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// Its number.
    pub id: SessionId,
    /// Names of the selected cases.
    pub cases: Vec<CaseName>,
    /// Where times come from.
    pub time_source: TimeSource,
    /// The ordinal of its last iteration: how many it has.
    pub iterations: u64,
}

/// The conditions under which two times of a case may be compared, as far as the store knows them.
#[derive(Debug, Clone, Copy)]
pub struct Like<'a> {
    /// Name of the workload.
    pub workload: &'a str,
    /// Name of the case.
    pub case: &'a str,
    /// Its shape. None if it is not on record.
    pub dims: Option<&'a Dims>,
    /// Product name of the device.
    pub device: &'a str,
    /// Where times come from.
    pub time_source: TimeSource,
    /// State of the graphs.
    pub graphs: Graphs,
    /// State of the caches.
    pub regime: Regime,
}

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
        let numbers = match filter.session {
            Some(session) => Some(self.numbers(session).await?),
            None => None,
        };
        select_page(&mut query, filter, numbers, since);
        query.push(
            ") SELECT i.id, i.session_id, i.origin_kind,
                    IIF(i.origin_kind = 'committed_winner', i.origin, NULL) AS earlier, i.family, i.params, i.hash, i.outcome, i.outcome_message,
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

    /// Reads the session to list, by its number, or the one that started last of those that search.
    pub async fn listed(&self, id: Option<SessionId>) -> Result<Listed, StoreError> {
        let row = sqlx::query(
            "SELECT s.id, s.cases, e.time_source,
                    COALESCE((SELECT MAX(ordinal) FROM iterations WHERE session_id = s.id), 0) AS iterations
             FROM sessions s JOIN environments e ON e.id = s.environment_id
             WHERE s.id = COALESCE(?, (SELECT MAX(id) FROM sessions WHERE kind = 'search'))",
        )
        .bind(id)
        .fetch_optional(&self.pool)
        .await?;
        let Some(row) = row else {
            return Err(match id {
                Some(id) => self.unknown_session(id).await?,
                None => StoreError::NoSessions,
            });
        };
        Ok(Listed {
            id: row.try_get("id")?,
            cases: json(&row, "cases")?,
            time_source: required(name(&row, "time_source")?, "time_source")?,
            iterations: required(count(&row, "iterations")?, "iterations")?,
        })
    }

    /// Returns the fastest confirmed time of a case under the same conditions, in nanoseconds, and its iteration. `without` does not
    /// count. None if there is no other.
    pub async fn fastest_like(
        &self,
        like: &Like<'_>,
        without: IterationId,
    ) -> Result<Option<(IterationId, f64)>, StoreError> {
        let rows = sqlx::query(
            "SELECT m.iteration_id, m.confirmation_median_ns AS ns, i.cases
             FROM measurements m JOIN iterations i ON i.id = m.iteration_id
             JOIN sessions s ON s.id = i.session_id JOIN environments e ON e.id = s.environment_id
             WHERE m.case_name = ? AND m.confirmation_median_ns IS NOT NULL AND COALESCE(m.verdict, '') <> 'rejected'
               AND i.outcome = 'measured' AND i.purpose <> 'experiment' AND m.regime = ? AND s.workload = ?
               AND e.device_name = ? AND e.time_source = ? AND e.graphs = ? AND i.id <> ?
               AND NOT EXISTS (SELECT 1 FROM disqualifications d
                               WHERE d.iteration_id = m.iteration_id AND d.case_name = m.case_name)
             ORDER BY m.confirmation_median_ns, m.iteration_id LIMIT 100",
        )
        .bind(like.case)
        .bind(like.regime.name())
        .bind(like.workload)
        .bind(like.device)
        .bind(like.time_source.name())
        .bind(like.graphs.name())
        .bind(without)
        .fetch_all(&self.pool)
        .await?;
        for row in &rows {
            let cases: Vec<Case> = json(row, "cases")?;
            let shape = cases.iter().find(|case| case.name == like.case).map(|case| &case.dims);
            if shape == like.dims {
                return Ok(Some((row.try_get("iteration_id")?, row.try_get("ns")?)));
            }
        }
        Ok(None)
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

fn history_row(row: &SqliteRow) -> Result<HistoryRow, StoreError> {
    let ends = |lo: &str, hi: &str| -> Result<Option<[f64; 2]>, StoreError> {
        let (lo, hi): (Option<f64>, Option<f64>) = (row.try_get(lo)?, row.try_get(hi)?);
        Ok(lo.zip(hi).map(|(lo, hi)| [lo, hi]))
    };
    let samples: Option<usize> = count(row, "samples")?;
    let is_shown = samples.is_some_and(|samples| samples >= MIN_SAMPLES);
    let case: Option<CaseName> = row.try_get("case_name")?;
    let earlier: Option<String> = row.try_get("earlier")?;
    let earlier: Option<Origin> = earlier.and_then(|text| serde_json::from_str(&text).ok());
    let replayed = earlier.zip(case.as_ref()).is_some_and(|(origin, case)| origin.is_committed_winner_of(case));
    let verdict: Option<Verdict> = name(row, "stands")?;
    Ok(HistoryRow {
        replayed,
        iteration: row.try_get("id")?,
        session: row.try_get("session_id")?,
        origin: row.try_get("origin_kind")?,
        family: row.try_get("family")?,
        params: json(row, "params")?,
        hash: VariantHash(row.try_get("hash")?),
        outcome: row.try_get("outcome")?,
        message: row.try_get("outcome_message")?,
        case,
        best_ns: row.try_get("best_ns")?,
        time_source: required(name(row, "time_source")?, "time_source")?,
        best_ci_ns: ends("best_lo", "best_hi")?.filter(|_| is_shown),
        confirmed: row.try_get("confirmed")?,
        speedup: row.try_get("speedup")?,
        speedup_ci: ends("speedup_lo", "speedup_hi")?,
        noise: row.try_get("noise")?,
        verdict,
        decided: verdict.map(|verdict| verdict.key(replayed)),
        claim: row.try_get("claim")?,
        score: name(row, "score")?,
        cost_usd: row.try_get("cost_usd")?,
        commit: row.try_get("commit_id")?,
    })
}
