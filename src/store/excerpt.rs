//! Reads what a report needs of a session: all iterations, or an excerpt of a session that has too many.

use std::collections::BTreeSet;

use sqlx::AssertSqlSafe;

use super::columns::{signed, to_json};
use super::numbers::Numbers;
use super::questions::Of;
use super::{Store, StoreError};
use crate::domain::ids::{IterationId, SessionId};
use crate::domain::record::excerpt::{Excerpt, Totals, Used};
use crate::domain::record::{IterationRecord, SessionRecord};

/// The iterations of an excerpt, oldest first; what was used until each; and those that are spread evenly.
type Selection = (Vec<IterationRecord>, Vec<Used>, BTreeSet<IterationId>);

/// The most iterations of a session, without those that were not run, that a report reads without making an excerpt.
pub const MOST_IN_FULL: u64 = 5_000;

/// How many iterations that were not run a report may read for each of these. They have no measurements.
const NOT_RUN_FACTOR: u64 = 10;

/// Iterations of an excerpt that are spread evenly.
const EVEN: u64 = 1_000;

/// The most wins of an excerpt. The latest ones are kept, and the best and first of each case.
const WINS: u64 = 1_000;

/// The fastest results of an excerpt, over all cases.
const FASTEST: usize = 1_000;

/// The most iterations of an excerpt that were derived from the best variants.
const DERIVED: u64 = 500;

/// The most iterations of each other kind.
const OTHERS: u64 = 300;

impl Store {
    /// Reads a session for a report: with all iterations if no more than a number of them were run, else with an excerpt of
    /// them.
    pub async fn report_record(&self, id: SessionId, most_in_full: u64) -> Result<SessionRecord, StoreError> {
        let numbers = self.numbers(id).await?;
        if self.fits(numbers, most_in_full).await? {
            return self.session_record(id).await;
        }
        // A reader has two connections, so that two cores have work.
        let (totals, (variants, frame), (iterations, used, even)) = tokio::try_join!(
            self.totals(numbers),
            async { Ok((self.variants(numbers).await?, self.frame(id).await?)) },
            self.selection(numbers)
        )?;
        let wins_left_out = self.wins(numbers).await?.saturating_sub(WINS);
        let excerpt = Excerpt { totals: Totals { variants, ..totals }, used, even, wins_left_out };
        Ok(SessionRecord { iterations, excerpt: Some(excerpt), ..frame })
    }

    /// Returns whether a session is small enough to be read in full.
    async fn fits(&self, numbers: Numbers, most_in_full: u64) -> Result<bool, StoreError> {
        if numbers.count <= most_in_full || numbers.count > most_in_full * (1 + NOT_RUN_FACTOR) {
            return Ok(numbers.count <= most_in_full);
        }
        let not_run = self.counted(format!(
            "SELECT COUNT(*) FROM iterations INDEXED BY iterations_counted WHERE session_id = {} AND outcome = 'pruned'",
            numbers.session
        ));
        Ok(numbers.count - not_run.await? <= most_in_full)
    }

    /// Reads the iterations of an excerpt, what was used until each, and which of them are spread evenly.
    async fn selection(&self, numbers: Numbers) -> Result<Selection, StoreError> {
        let even = self.spread_evenly(numbers).await?;
        let mut chosen = self.telling(numbers).await?;
        chosen.extend(self.referred_to(&even).await?);
        chosen.extend(&even);
        let chosen = self.own(numbers, &chosen).await?;
        let used = self.used_until(numbers, &chosen).await?;
        Ok((self.iterations(&Of::These(chosen)).await?, used, even))
    }

    /// Returns those of some iterations that belong to the session, oldest first. A parent may be of an earlier one.
    async fn own(&self, numbers: Numbers, some: &BTreeSet<IterationId>) -> Result<Vec<IterationId>, StoreError> {
        let own = "SELECT i.id FROM json_each(?) CROSS JOIN iterations i INDEXED BY iterations_facts ON i.id = value
                   WHERE i.session_id = ? ORDER BY i.id";
        let own = sqlx::query_scalar(own).bind(to_json("iterations", some)?).bind(numbers.session);
        Ok(own.fetch_all(&self.pool).await?)
    }

    /// Returns some iterations of a session, spread evenly.
    async fn spread_evenly(&self, numbers: Numbers) -> Result<BTreeSet<IterationId>, StoreError> {
        let ids = sqlx::query_scalar(
            "SELECT i.id FROM json_each(?1) CROSS JOIN iterations i ON i.session_id = ?2 AND i.ordinal = value",
        );
        let ids: Vec<IterationId> =
            ids.bind(to_json("ordinals", &numbers.evenly(EVEN))?).bind(numbers.session).fetch_all(&self.pool).await?;
        Ok(ids.into_iter().collect())
    }

    /// Returns the iterations of a session that the figures of a report come from.
    async fn telling(&self, numbers: Numbers) -> Result<BTreeSet<IterationId>, StoreError> {
        let mut chosen = BTreeSet::new();
        let wins = self.best_wins(numbers).await?;
        chosen.extend(&wins);
        let (session, own) = (numbers.session, |column| numbers.hold(column));
        let questions = [
            // The latest wins, and what the session began with: its initial design comes first.
            format!(
                "SELECT iteration_id FROM measurements m INDEXED BY measurements_won
                 WHERE verdict IN ('start', 'improved') AND verdict = 'improved' AND {} ORDER BY iteration_id DESC LIMIT {WINS}",
                own("m.iteration_id")
            ),
            format!(
                "SELECT iteration_id FROM measurements m INDEXED BY measurements_won
                 WHERE verdict IN ('start', 'improved') AND verdict = 'start' AND {} ORDER BY iteration_id LIMIT {OTHERS}",
                own("m.iteration_id")
            ),
            format!(
                "SELECT id FROM iterations i INDEXED BY iterations_listed WHERE session_id = {session}
                 ORDER BY id LIMIT {OTHERS}"
            ),
            // An example of each outcome of each family.
            format!(
                "SELECT MIN(id) FROM iterations INDEXED BY iterations_counted WHERE session_id = {session}
                 GROUP BY purpose, outcome, outcome_check, family"
            ),
            format!(
                "SELECT id FROM iterations INDEXED BY iterations_counted
                 WHERE session_id = {session} AND purpose = 'experiment' ORDER BY id DESC LIMIT {OTHERS}"
            ),
            // Where the paths between two configurations begin and end.
            format!(
                "WITH steps AS (SELECT origin FROM iterations WHERE id IN (
                     SELECT id FROM iterations INDEXED BY iterations_counted
                     WHERE session_id = {session} AND purpose = 'experiment' ORDER BY id DESC LIMIT {OTHERS})
                     AND origin ->> '$.kind' = 'path_step')
                 SELECT origin ->> '$.path.from' FROM steps UNION SELECT origin ->> '$.path.to' FROM steps"
            ),
            format!(
                "SELECT winner_id FROM comparisons WHERE session_id = {session}
                 UNION
                 SELECT p.iteration_id FROM comparisons c JOIN participants p ON p.comparison_id = c.id
                 WHERE c.session_id = {session} AND p.iteration_id IS NOT NULL"
            ),
            format!(
                "SELECT DISTINCT iteration_id FROM explanations x WHERE {} ORDER BY iteration_id DESC LIMIT {OTHERS}",
                own("x.iteration_id")
            ),
            format!(
                "SELECT DISTINCT iteration_id FROM counters x WHERE {} ORDER BY iteration_id DESC LIMIT {OTHERS}",
                own("x.iteration_id")
            ),
            format!(
                "SELECT DISTINCT iteration_id FROM ablations x WHERE {} ORDER BY iteration_id DESC LIMIT {OTHERS}",
                own("x.iteration_id")
            ),
        ];
        for question in questions {
            chosen.extend(self.numbers_of(question).await?);
        }
        chosen.extend(self.fastest(numbers).await?);
        chosen.extend(self.around(numbers, &wins).await?);
        Ok(chosen)
    }

    async fn numbers_of(&self, question: String) -> Result<Vec<IterationId>, StoreError> {
        Ok(sqlx::query_scalar(AssertSqlSafe(question)).fetch_all(&self.pool).await?)
    }

    /// Counts the improvements of a session.
    async fn wins(&self, numbers: Numbers) -> Result<u64, StoreError> {
        self.counted(format!(
            "SELECT COUNT(*) FROM measurements m INDEXED BY measurements_won WHERE verdict IN ('start', 'improved') AND verdict = 'improved' AND {}",
            numbers.hold("m.iteration_id")
        ))
        .await
    }

    /// Returns the fastest win of each case.
    async fn best_wins(&self, numbers: Numbers) -> Result<Vec<IterationId>, StoreError> {
        self.numbers_of(format!(
            "SELECT iteration_id FROM (SELECT iteration_id, MIN(best_ns) FROM measurements m INDEXED BY measurements_won
             WHERE verdict IN ('start', 'improved') AND verdict = 'improved' AND {} AND NOT EXISTS
                   (SELECT 1 FROM disqualifications d WHERE d.iteration_id = m.iteration_id AND d.case_name = m.case_name)
             GROUP BY case_name)",
            numbers.hold("m.iteration_id")
        ))
        .await
    }

    /// Returns the iterations with the fastest results on each case.
    async fn fastest(&self, numbers: Numbers) -> Result<Vec<IterationId>, StoreError> {
        let cases: Vec<String> = sqlx::query_scalar("SELECT value FROM sessions s, json_each(s.cases) WHERE s.id = ?")
            .bind(numbers.session)
            .fetch_all(&self.pool)
            .await?;
        let query = format!(
            "SELECT iteration_id FROM measurements m INDEXED BY measurements_listed
             WHERE case_name = ?1 AND best_ns IS NOT NULL AND verdict IS NOT 'rejected' AND {} ORDER BY best_ns LIMIT ?2",
            numbers.hold("m.iteration_id")
        );
        let mut fastest = Vec::new();
        for case in &cases {
            let ids = sqlx::query_scalar::<_, IterationId>(AssertSqlSafe(query.clone())).bind(case);
            let most = signed("limit", FASTEST.div_ceil(cases.len()))?;
            fastest.extend(ids.bind(most).fetch_all(&self.pool).await?);
        }
        Ok(fastest)
    }

    /// Returns the ancestors of the best variants, other iterations of the same variants, and what was derived from them.
    async fn around(&self, numbers: Numbers, best: &[IterationId]) -> Result<Vec<IterationId>, StoreError> {
        let best = to_json("iterations", best)?;
        let query = format!(
            "WITH RECURSIVE line(id) AS (
                 SELECT value FROM json_each(?1)
                 UNION
                 SELECT i.parent_id FROM line JOIN iterations i ON i.id = line.id WHERE i.parent_id IS NOT NULL),
             same AS MATERIALIZED (
                 SELECT DISTINCT other.id FROM json_each(?1) JOIN iterations own ON own.id = value
                 JOIN iterations other INDEXED BY iterations_by_hash ON other.hash = own.hash
                 WHERE {})
             SELECT id FROM (SELECT id FROM line ORDER BY id DESC LIMIT {OTHERS})
             UNION
             SELECT id FROM (SELECT id FROM same ORDER BY id DESC LIMIT {OTHERS})
             UNION
             SELECT id FROM (SELECT h.iteration_id AS id FROM same
                             JOIN hypotheses h INDEXED BY hypotheses_counted ON h.relative_to = same.id
                             ORDER BY h.iteration_id DESC LIMIT {DERIVED})",
            numbers.hold("other.id")
        );
        Ok(sqlx::query_scalar(AssertSqlSafe(query)).bind(best).fetch_all(&self.pool).await?)
    }

    /// Returns the iterations that the claims of others refer to.
    async fn referred_to(&self, some: &BTreeSet<IterationId>) -> Result<Vec<IterationId>, StoreError> {
        let query = "SELECT DISTINCT h.relative_to FROM json_each(?) CROSS JOIN hypotheses h ON h.iteration_id = value
                     WHERE h.relative_to IS NOT NULL";
        Ok(sqlx::query_scalar(query).bind(to_json("iterations", some)?).fetch_all(&self.pool).await?)
    }
}
