//! Groups what was tried by kind, mechanism or parameter, to ask which of them pay.

use std::collections::BTreeMap;

use serde::Serialize;
use sqlx::{AssertSqlSafe, Row};

use super::columns::to_json;
use super::{Store, StoreError};
use crate::domain::ids::SessionId;
use crate::domain::statistics::median;

/// The most iterations of a session that are grouped. Of a session with more, as many are grouped, spread evenly over it.
pub const MOST_GROUPED: u64 = 10_000;

/// What to group iterations by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grouping {
    /// Where the configuration comes from.
    Kind,
    /// How the change was expected to act.
    Mechanism,
    /// The parameter that alone was changed, with its family.
    Parameter,
}

impl Grouping {
    /// The query for the scored iterations among those that are `chosen`. A change of several parameters does not say which
    /// of them acted, so only changes of one parameter count for it.
    fn select(self) -> &'static str {
        match self {
            Self::Kind => "SELECT h.kind AS what, h.actual, h.score, h.crps, h.crps_no_change FROM chosen i",
            Self::Mechanism => "SELECT h.mechanism AS what, h.actual, h.score, h.crps, h.crps_no_change FROM chosen i",
            Self::Parameter => {
                "SELECT i.family || ' ' || (SELECT MIN(parameter) FROM changed_parameters WHERE iteration_id = i.id) AS what,
                        h.actual, h.score, h.crps, h.crps_no_change
                 FROM chosen i"
            }
        }
    }

    /// The condition of its iterations.
    fn condition(self) -> &'static str {
        match self {
            Self::Kind | Self::Mechanism => "h.score IS NOT NULL",
            Self::Parameter => {
                "h.score IS NOT NULL AND h.kind <> 'confirmation'
                 AND (SELECT COUNT(*) FROM changed_parameters WHERE iteration_id = i.id) = 1"
            }
        }
    }
}

/// The iterations of a group that have a speed-up over their reference.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Paid {
    /// The kind, the mechanism, or the family and parameter.
    pub what: String,
    /// Iterations with a speed-up.
    pub tries: usize,
    /// Those that were faster than their reference.
    pub faster: usize,
    /// The median of the speed-ups.
    pub median: f64,
    /// The largest speed-up.
    pub best: f64,
    /// Those that claimed a speed-up with a stated probability.
    pub claims: usize,
    /// Claims whose outcome was in the 80% range.
    pub in_range: usize,
    /// Mean score (CRPS) of the claims, and of the forecast "no change" for them. None without claims.
    pub crps: Option<[f64; 2]>,
}

impl Store {
    /// Groups the iterations of a session. The group that was most often faster comes first.
    pub async fn paid(&self, session: SessionId, grouping: Grouping) -> Result<Vec<Paid>, StoreError> {
        let numbers = self.numbers(session).await?;
        // Few iterations are found by their numbers, all of a session at once.
        let chosen = match numbers.count > MOST_GROUPED {
            false => "SELECT id, family FROM iterations INDEXED BY iterations_listed WHERE session_id = ?1",
            true => {
                "SELECT i.id, i.family FROM json_each(?2) CROSS JOIN iterations i ON i.session_id = ?1 AND i.ordinal = value"
            }
        };
        let query = format!(
            "WITH chosen AS MATERIALIZED ({chosen})
             {} CROSS JOIN hypotheses h ON h.iteration_id = i.id WHERE {} ORDER BY i.id",
            grouping.select(),
            grouping.condition()
        );
        let even = to_json("ordinals", &numbers.evenly(MOST_GROUPED))?;
        let rows = sqlx::query(AssertSqlSafe(query)).bind(session).bind(even).fetch_all(&self.pool).await?;
        let mut groups: BTreeMap<String, Vec<Found>> = BTreeMap::new();
        for row in &rows {
            let Some(actual) = row.try_get("actual")? else { continue };
            let score: String = row.try_get("score")?;
            let (crps, no_change): (Option<f64>, Option<f64>) = (row.try_get("crps")?, row.try_get("crps_no_change")?);
            let found = Found { actual, in_range: score == "in_range", crps: crps.zip(no_change) };
            groups.entry(row.try_get("what")?).or_default().push(found);
        }
        let mut paid: Vec<Paid> = groups.into_iter().map(|(what, found)| summed(what, &found)).collect();
        let share = |paid: &Paid| paid.faster as f64 / paid.tries as f64;
        paid.sort_by(|a, b| share(b).total_cmp(&share(a)));
        Ok(paid)
    }
}

/// What was found of one claim.
struct Found {
    actual: f64,
    in_range: bool,
    crps: Option<(f64, f64)>,
}

fn summed(what: String, found: &[Found]) -> Paid {
    let speedups: Vec<f64> = found.iter().map(|found| found.actual).collect();
    let scores: Vec<(f64, f64)> = found.iter().filter_map(|found| found.crps).collect();
    let mean = |of: fn(&(f64, f64)) -> f64| scores.iter().map(of).sum::<f64>() / scores.len() as f64;
    Paid {
        what,
        tries: found.len(),
        faster: speedups.iter().filter(|speedup| **speedup > 1.0).count(),
        median: median(&speedups).unwrap_or(1.0),
        best: speedups.iter().copied().fold(0.0, f64::max),
        claims: scores.len(),
        in_range: found.iter().filter(|found| found.crps.is_some() && found.in_range).count(),
        crps: (!scores.is_empty()).then(|| [mean(|(crps, _)| *crps), mean(|(_, no_change)| *no_change)]),
    }
}
