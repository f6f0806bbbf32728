//! Reads what all sessions of a workload on a kind of device have taught.

use sqlx::Row;

use super::columns::json;
use super::{Store, StoreError};
use crate::domain::device::DeviceInfo;
use crate::domain::history::effects::{Timed, effects};
use crate::domain::proposal::lessons::{Lessons, RefutedClaim};

/// The latest timed configurations that are read. In a larger store, older ones teach nothing.
const MOST_TIMED: i64 = 20_000;

/// The refuted claims that are told, the latest first.
const MOST_REFUTED: i64 = 12;

/// How far below its range a result must be, as a factor: two times of one variant differ by less (`refuted::NOISE`).
const BELOW: f64 = 0.98;

impl Store {
    /// Returns the lessons of all sessions of a workload on a kind of device, those measured by hand among them.
    pub async fn lessons(&self, workload: &str, device: &DeviceInfo) -> Result<Lessons, StoreError> {
        let (device, time_source) = (device.name.as_str(), device.time_source().name());
        let rows = sqlx::query(
            "SELECT i.session_id, i.id, m.case_name, i.family, i.params, COALESCE(m.screening_median_ns, m.best_ns) AS ns
             FROM measurements m JOIN iterations i ON i.id = m.iteration_id
             JOIN sessions s ON s.id = i.session_id JOIN environments e ON e.id = s.environment_id
             WHERE s.workload = ? AND e.device_name = ? AND e.time_source = ? AND m.best_ns IS NOT NULL
               AND COALESCE(m.verdict, '') <> 'rejected' AND i.outcome = 'measured'
               AND i.purpose NOT IN ('experiment', 'confirmation')
               AND NOT EXISTS (SELECT 1 FROM disqualifications d
                               WHERE d.iteration_id = m.iteration_id AND d.case_name = m.case_name)
             ORDER BY i.id DESC LIMIT ?",
        )
        .bind(workload)
        .bind(device)
        .bind(time_source)
        .bind(MOST_TIMED)
        .fetch_all(&self.pool)
        .await?;
        let timed = rows.iter().map(|row| {
            Ok::<_, StoreError>(Timed {
                session: row.try_get("session_id")?,
                iteration: row.try_get("id")?,
                case: row.try_get("case_name")?,
                family: row.try_get("family")?,
                params: json(row, "params")?,
                ns: row.try_get("ns")?,
            })
        });
        let timed = timed.collect::<Result<Vec<_>, _>>()?;
        let refuted = self.refuted_claims(workload, device, time_source).await?;
        Ok(Lessons { device: device.to_owned(), effects: effects(&timed), refuted })
    }

    async fn refuted_claims(
        &self,
        workload: &str,
        device: &str,
        time_source: &str,
    ) -> Result<Vec<RefutedClaim>, StoreError> {
        let rows = sqlx::query(
            "SELECT h.iteration_id, h.case_name, h.claim, h.predicted_lo, h.predicted_hi, h.actual
             FROM hypotheses h JOIN iterations i ON i.id = h.iteration_id
             JOIN sessions s ON s.id = i.session_id JOIN environments e ON e.id = s.environment_id
             WHERE s.workload = ? AND e.device_name = ? AND e.time_source = ? AND h.kind = 'model'
               AND h.actual < ? * h.predicted_lo
             ORDER BY h.iteration_id DESC LIMIT ?",
        )
        .bind(workload)
        .bind(device)
        .bind(time_source)
        .bind(BELOW)
        .bind(MOST_REFUTED)
        .fetch_all(&self.pool)
        .await?;
        rows.iter()
            .map(|row| {
                Ok(RefutedClaim {
                    iteration: row.try_get("iteration_id")?,
                    case: row.try_get("case_name")?,
                    claim: row.try_get("claim")?,
                    predicted: [row.try_get("predicted_lo")?, row.try_get("predicted_hi")?],
                    actual: row.try_get("actual")?,
                })
            })
            .collect()
    }
}
