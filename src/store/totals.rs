//! Figures about all iterations of a session, counted in indexes. None of these queries reads a row of `iterations`, which
//! holds a source of some kilobytes. [`Totals::of`] counts the same from iterations in memory.

use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Row};

use super::columns::{count, required};
use super::numbers::Numbers;
use super::{Store, StoreError};
use crate::domain::budget::phase::StepTimes;
use crate::domain::claims::hypothesis::Score;
use crate::domain::ids::{CaseName, IterationId};
use crate::domain::record::excerpt::{Totals, Used};

impl Store {
    /// Counts all iterations of a session.
    pub(super) async fn totals(&self, numbers: Numbers) -> Result<Totals, StoreError> {
        // Of the screened results, `count_results` takes off what it finds of others.
        let mut totals = Totals { steps_known: true, ..Totals::default() };
        self.count_outcomes(numbers, &mut totals).await?;
        self.count_results(numbers, &mut totals).await?;
        self.count_scores(numbers, &mut totals).await?;
        let unfinished =
            format!("SELECT COUNT(*) FROM iterations WHERE session_id = {} AND ended_at IS NULL", numbers.session);
        totals.iterations = totals.outcomes.values().sum::<u64>() + self.counted(unfinished).await?;
        let compared = format!(
            "SELECT COUNT(*) FROM comparisons c
             JOIN iterations i INDEXED BY iterations_facts ON i.id = c.iteration_id
             WHERE {} AND i.purpose <> 'remeasurement'",
            numbers.hold("c.iteration_id")
        );
        totals.comparisons = self.counted(compared).await?;
        Ok(totals)
    }

    /// Counts the different variants of a session. The order of the index makes equal hashes neighbours.
    pub(super) async fn variants(&self, numbers: Numbers) -> Result<u64, StoreError> {
        self.counted(format!(
            "SELECT COUNT(*) FROM (SELECT DISTINCT hash FROM iterations INDEXED BY iterations_by_hash WHERE {})",
            numbers.hold("id")
        ))
        .await
    }

    pub(super) async fn counted(&self, query: String) -> Result<u64, StoreError> {
        let count: i64 = sqlx::query_scalar(AssertSqlSafe(query)).fetch_one(&self.pool).await?;
        Ok(count.cast_unsigned())
    }

    /// Counts outcomes, what checks caught, and the seconds of each kind of step.
    async fn count_outcomes(&self, numbers: Numbers, totals: &mut Totals) -> Result<(), StoreError> {
        let rows = sqlx::query(
            // Where the steps were not recorded, the whole time on the device counts as screening.
            "SELECT purpose, outcome, outcome_check, COUNT(*) AS count, COUNT(acceptance_s) AS known,
                    TOTAL(waiting_s) AS waiting_s, TOTAL(acceptance_s) AS acceptance_s, TOTAL(sanitizer_s) AS sanitizer_s,
                    TOTAL(IIF(acceptance_s IS NULL, device_s, screening_s)) AS screening_s,
                    TOTAL(comparison_s) AS comparison_s
             FROM iterations INDEXED BY iterations_counted WHERE session_id = ? AND outcome IS NOT NULL
             GROUP BY purpose, outcome, outcome_check",
        )
        .bind(numbers.session)
        .fetch_all(&self.pool)
        .await?;
        for row in &rows {
            let (purpose, outcome): (&str, String) = (row.try_get("purpose")?, row.try_get("outcome")?);
            let of_row: u64 = required(count(row, "count")?, "count")?;
            totals.steps_known &= required(count::<u64>(row, "known")?, "known")? == of_row;
            if matches!(outcome.as_str(), "wrong" | "cheated") {
                // Older rows have no check. The oldest check caught those variants.
                let check: Option<String> = row.try_get("outcome_check")?;
                *totals.caught.entry(check.unwrap_or_else(|| "accuracy".to_owned())).or_default() += of_row;
            }
            *totals.outcomes.entry(outcome).or_default() += of_row;
            totals.screened += if purpose == "screening" { of_row } else { 0 };
            totals.remeasured += if purpose == "remeasurement" { of_row } else { 0 };
            let is_first = matches!(purpose, "initial" | "remeasurement");
            *(if is_first { &mut totals.first_steps } else { &mut totals.other_steps }) += steps(row)?;
        }
        totals.remeasured += self
            .counted(format!(
                "SELECT COUNT(*) FROM iterations INDEXED BY iterations_counted
                 WHERE session_id = {} AND purpose = 'remeasurement' AND outcome IS NULL",
                numbers.session
            ))
            .await?;
        Ok(())
    }

    /// Counts the results on cases. Most iterations screen, so the others are taken off.
    async fn count_results(&self, numbers: Numbers, totals: &mut Totals) -> Result<(), StoreError> {
        // What was timed has a verdict. SQLite would read the row for `best_ns`, which is generated.
        let correct = "m.verdict IN ('start', 'improved', 'tied', 'regressed')";
        let all = format!(
            "SELECT m.case_name, 1 AS screened, 0 AS experiment, COUNT(*) AS results, COUNT(*) FILTER (WHERE {correct}) AS timed
             FROM measurements m INDEXED BY measurements_listed WHERE {} GROUP BY m.case_name
             UNION ALL
             SELECT m.case_name, 0, i.purpose = 'experiment', COUNT(*), COUNT(*) FILTER (WHERE {correct})
             FROM iterations i INDEXED BY iterations_counted CROSS JOIN measurements m ON m.iteration_id = i.id
             WHERE i.session_id = {} AND i.purpose IN ('initial', 'remeasurement', 'confirmation', 'experiment')
             GROUP BY m.case_name, i.purpose = 'experiment'
             UNION ALL
             SELECT d.case_name, 0, 1, 0, COUNT(*)
             FROM disqualifications d
             JOIN measurements m ON m.iteration_id = d.iteration_id AND m.case_name = d.case_name
             JOIN iterations i INDEXED BY iterations_facts ON i.id = d.iteration_id
             WHERE {} AND {correct} AND i.purpose <> 'experiment' GROUP BY d.case_name",
            numbers.hold("m.iteration_id"),
            numbers.session,
            numbers.hold("d.iteration_id")
        );
        for row in &sqlx::query(AssertSqlSafe(all)).fetch_all(&self.pool).await? {
            let case: CaseName = row.try_get("case_name")?;
            let number = |column| required(count::<u64>(row, column)?, column);
            let (results, timed) = (number("results")?, number("timed")?);
            let of_case = totals.timed.entry(case).or_default();
            if row.try_get("screened")? {
                totals.results += results;
                totals.screened_results += results;
                *of_case += timed;
                continue;
            }
            totals.screened_results -= results;
            if row.try_get("experiment")? {
                *of_case -= timed;
            }
        }
        totals.timed.retain(|_, timed| *timed > 0);
        Ok(())
    }

    async fn count_scores(&self, numbers: Numbers, totals: &mut Totals) -> Result<(), StoreError> {
        let names = [Score::InRange, Score::Above, Score::Below, Score::Untested, Score::NoClaim].map(Score::name);
        let counts = names.map(|name| format!("COUNT(*) FILTER (WHERE score = '{name}') AS {name}")).join(", ");
        let query = format!(
            "SELECT {counts}, COUNT(*) FILTER (WHERE actual > 1.0 AND score IN ('in_range', 'above', 'below')) AS faster
             FROM hypotheses INDEXED BY hypotheses_counted WHERE {}",
            numbers.hold("iteration_id")
        );
        let row = sqlx::query(AssertSqlSafe(query)).fetch_one(&self.pool).await?;
        totals.faster = required(count(&row, "faster")?, "faster")?;
        for name in names {
            let of_score: u64 = required(count(&row, name)?, name)?;
            if of_score > 0 {
                totals.scores.insert(name.to_owned(), of_score);
            }
        }
        Ok(())
    }

    /// Returns what a session had used when each of some of its iterations was on record. They are in increasing order.
    pub(super) async fn used_until(&self, numbers: Numbers, some: &[IterationId]) -> Result<Vec<Used>, StoreError> {
        let places = serde_json::to_string(some).unwrap_or_default();
        let rows = sqlx::query(
            // Each iteration is added up once: from one of the given ones to the next.
            "WITH ends AS (SELECT value AS id, LAG(value, 1, 0) OVER (ORDER BY value) AS before FROM json_each(?1)),
             parts AS (SELECT id,
                       (SELECT TOTAL(i.wall_s) FROM iterations i INDEXED BY iterations_listed
                        WHERE i.session_id = ?2 AND i.id > ends.before AND i.id <= ends.id) AS wall_s,
                       (SELECT TOTAL(c.usd) FROM costs c INDEXED BY costs_by_session
                        WHERE c.session_id = ?2 AND c.iteration_id > ends.before AND c.iteration_id <= ends.id) AS usd
                       FROM ends)
             SELECT SUM(wall_s) OVER so_far AS wall_s, SUM(usd) OVER so_far AS usd FROM parts
             WINDOW so_far AS (ORDER BY id) ORDER BY id",
        )
        .bind(places)
        .bind(numbers.session)
        .fetch_all(&self.pool)
        .await?;
        rows.iter().map(|row| Ok(Used { wall_s: row.try_get("wall_s")?, usd: row.try_get("usd")? })).collect()
    }
}

fn steps(row: &SqliteRow) -> Result<StepTimes, StoreError> {
    Ok(StepTimes {
        waiting_s: row.try_get("waiting_s")?,
        screening_s: row.try_get("screening_s")?,
        acceptance_s: row.try_get("acceptance_s")?,
        sanitizer_s: row.try_get("sanitizer_s")?,
        comparison_s: row.try_get("comparison_s")?,
    })
}
