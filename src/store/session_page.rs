//! Pages of sessions: in a large store, the figures of all of them take seconds.

use sqlx::{QueryBuilder, Sqlite};

use super::{Store, StoreError};
use crate::domain::ids::SessionId;
use crate::domain::record::{SessionSummary, Status};

/// Which sessions to list.
#[derive(Debug, Clone, Default)]
pub struct SessionFilter {
    /// Only those of a workload.
    pub workload: Option<String>,
    /// Also those that hold what was measured by hand.
    pub all: bool,
    /// Only those with a status.
    pub status: Option<Status>,
    /// Those that were killed. The store takes them for running.
    pub killed: Vec<SessionId>,
    /// The most rows.
    pub limit: u32,
    /// Rows to leave out before them.
    pub offset: u32,
}

impl Store {
    /// Returns some sessions, the latest first. Those that were killed have the status `running`.
    pub async fn session_page(&self, filter: &SessionFilter) -> Result<Vec<SessionSummary>, StoreError> {
        let mut query = QueryBuilder::<Sqlite>::new("SELECT id FROM sessions WHERE TRUE");
        if !filter.all {
            query.push(" AND kind = 'search'");
        }
        if let Some(workload) = &filter.workload {
            query.push(" AND workload = ").push_bind(workload);
        }
        let killed = serde_json::to_string(&filter.killed).unwrap_or_default();
        match filter.status {
            None => {}
            Some(Status::Killed) => {
                query.push(" AND id IN (SELECT value FROM json_each(").push_bind(killed).push("))");
            }
            Some(status) => {
                query.push(" AND status = ").push_bind(status.name());
                query.push(" AND id NOT IN (SELECT value FROM json_each(").push_bind(killed).push("))");
            }
        }
        query.push(" ORDER BY id DESC LIMIT ").push_bind(i64::from(filter.limit));
        query.push(" OFFSET ").push_bind(i64::from(filter.offset));
        let ids: Vec<SessionId> = query.build_query_scalar().fetch_all(&self.pool).await?;
        let mut sessions = self.summaries(Some(&ids)).await?;
        sessions.reverse();
        Ok(sessions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::testing::Scene;

    #[tokio::test]
    async fn a_page_has_the_figures_that_the_whole_list_has() {
        let scene = Scene::new().await;
        for _ in 0..4 {
            let session = scene.session().await;
            scene.measured(session, 64, None, 100_000.0, crate::domain::measurement::verdict::Verdict::Start).await;
        }
        let mut all = scene.store.sessions().await.unwrap();
        all.reverse();
        let page = async |filter: SessionFilter| scene.store.session_page(&filter).await.unwrap();
        let limit = 10;
        assert_eq!(page(SessionFilter { limit: 2, offset: 1, ..Default::default() }).await, all[1..3]);
        let of = |status, killed| SessionFilter { status: Some(status), killed, limit, ..Default::default() };
        assert_eq!(page(of(Status::Running, vec![SessionId(4)])).await, all[1..]);
        assert_eq!(page(of(Status::Killed, vec![SessionId(4)])).await, all[..1]);
        assert_eq!(page(of(Status::Finished, vec![])).await, []);
        assert_eq!(page(SessionFilter { workload: Some("x".to_owned()), limit, ..Default::default() }).await, []);
    }
}
