//! The sources of variants and of those that they were changed from.

use sqlx::Row;

use super::columns::to_json;
use super::{Store, StoreError};
use crate::domain::ids::IterationId;

impl Store {
    /// Returns the sources of iterations and of all their ancestors, by iteration. Reads only these rows, however many
    /// the session has.
    pub async fn sources_of(&self, iterations: &[IterationId]) -> Result<Vec<(IterationId, String)>, StoreError> {
        let rows = sqlx::query(
            // UNION drops what is known, so that a damaged store with a circle of parents ends the search, too.
            "WITH RECURSIVE line(id) AS (
                 SELECT value FROM json_each(?1)
                 UNION
                 SELECT i.parent_id FROM line JOIN iterations i ON i.id = line.id WHERE i.parent_id IS NOT NULL)
             SELECT i.id, i.source FROM line JOIN iterations i ON i.id = line.id ORDER BY i.id",
        )
        .bind(to_json("iterations", iterations)?)
        .fetch_all(&self.pool)
        .await?;
        rows.iter().map(|row| Ok((row.try_get("id")?, row.try_get("source")?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::domain::ids::IterationId;
    use crate::domain::verdict::Verdict;
    use crate::store::testing::Scene;

    #[tokio::test]
    async fn the_sources_of_a_variant_and_its_ancestors_are_read_and_no_others() {
        let scene = Scene::new().await;
        let session = scene.session().await;
        let start = scene.measured(session, 64, None, 100_000.0, Verdict::Start).await;
        let other = scene.measured(session, 96, Some(start), 120_000.0, Verdict::Regressed).await;
        let best = scene.measured(session, 128, Some(start), 80_000.0, Verdict::Improved).await;
        let ids = |sources: Vec<(IterationId, String)>| sources.into_iter().map(|(id, _)| id).collect::<Vec<_>>();
        assert_eq!(ids(scene.store.sources_of(&[best]).await.unwrap()), [start, best]);
        assert_eq!(ids(scene.store.sources_of(&[best, other]).await.unwrap()), [start, other, best]);
        assert_eq!(ids(scene.store.sources_of(&[]).await.unwrap()), []);
    }
}
