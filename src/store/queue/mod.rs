//! The queue of a service: one SQLite file of its own, with a row for each submission.
//!
//! Every change of state is one statement that names the state before it. So no two parts of a service can both start,
//! cancel or end a submission.

mod room;
mod rows;
#[cfg(test)]
mod tests;

use std::path::Path;

use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{QueryBuilder, Sqlite, SqliteConnection, SqlitePool};

use super::columns::{now, text, to_json};
use super::migrations::QUEUE_MIGRATIONS;
use super::transaction::{self, Flush};
use super::{Limits, Store, StoreError};
use crate::domain::ids::SessionId;
use crate::domain::submission::{Lane, SessionRequest, StopRequest, Submission, SubmissionId, SubmissionState};
use rows::submission;

/// The queue of a service.
#[derive(Debug, Clone)]
pub struct Queue {
    pool: SqlitePool,
}

/// A submission that is handed in.
#[derive(Debug, Clone)]
pub struct NewSubmission {
    /// A random name.
    pub uid: String,
    /// The project's folder, with links resolved.
    pub project: String,
    /// The options of the session.
    pub request: SessionRequest,
    /// The device that the request or the project's configuration names.
    pub device: String,
    /// The highest starts first.
    pub priority: i64,
    /// Who hands it in.
    pub client: String,
    /// The client's name for it.
    pub idempotency_key: Option<String>,
}

/// Which submissions to list.
#[derive(Debug, Clone, Default)]
pub struct QueueFilter {
    /// Only those of a project's folder.
    pub project: Option<String>,
    /// Only those in a state.
    pub state: Option<SubmissionState>,
    /// The most rows.
    pub limit: u32,
    /// Rows to leave out before them.
    pub offset: u32,
}

/// What became of a process of a submission.
#[derive(Debug, Clone, PartialEq)]
pub struct Conclusion {
    /// The state from now on: queued, if another process is to be started.
    pub state: SubmissionState,
    /// Why.
    pub reason: Option<String>,
    /// Number of the session, once it has begun.
    pub session: Option<SessionId>,
    /// Iterations of the session so far.
    pub iterations: u64,
    /// Processes started since an iteration last ended.
    pub attempts: u32,
    /// The time before which no process is started, in milliseconds since 1970.
    pub not_before_ms: i64,
}

impl Queue {
    /// Opens the queue, and makes it if it does not exist.
    pub async fn open(path: &Path) -> Result<Self, StoreError> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            // A client that got an answer relies on it, even after a power cut.
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(Limits::default().busy_timeout);
        let opened = async {
            let pool = Store::pool(options, 1).await?;
            let newest = QUEUE_MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or(0);
            QUEUE_MIGRATIONS.run(&pool).await.map_err(|error| StoreError::of_migration(error, newest))?;
            Ok(Self { pool })
        };
        opened.await.map_err(|error: StoreError| error.opening(path))
    }

    /// Writes, and returns once it is on the disk. See [`transaction::write`].
    async fn write<T>(
        &self,
        writes: impl AsyncFnOnce(&mut SqliteConnection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        transaction::write(&self.pool, Flush::Now, writes).await
    }

    /// Adds a submission. Returns it, and whether it is new: of a client's submissions with one key, only the first is
    /// added.
    pub async fn submit(&self, new: &NewSubmission) -> Result<(Submission, bool), StoreError> {
        let request = to_json("request", &new.request)?;
        let query = sqlx::query(
            "INSERT INTO submissions (uid, project, request, device, priority, client, idempotency_key, state,
                                      submitted_at)
             VALUES (?, ?, ?, ?, ?, ?, ?, 'queued', ?) ON CONFLICT (client, idempotency_key) DO NOTHING RETURNING *",
        )
        .bind(&new.uid)
        .bind(&new.project)
        .bind(request)
        .bind(&new.device)
        .bind(new.priority)
        .bind(&new.client)
        .bind(&new.idempotency_key)
        .bind(now()?);
        let row = self.write(async |connection| Ok(query.fetch_optional(connection).await?)).await?;
        match (row, &new.idempotency_key) {
            (Some(row), _) => Ok((submission(&row)?, true)),
            (None, key) => {
                let earlier = self.with_key(&new.client, key.as_deref().unwrap_or_default()).await?;
                earlier.map(|earlier| (earlier, false)).ok_or(StoreError::Other(sqlx::Error::RowNotFound))
            }
        }
    }

    /// Reads the submission of a client with an idempotency key.
    pub async fn with_key(&self, client: &str, key: &str) -> Result<Option<Submission>, StoreError> {
        let row = sqlx::query("SELECT * FROM submissions WHERE client = ? AND idempotency_key = ?")
            .bind(client)
            .bind(key)
            .fetch_optional(&self.pool)
            .await?;
        row.as_ref().map(submission).transpose()
    }

    /// Reads a submission. None if there is none of this number.
    pub async fn get(&self, id: SubmissionId) -> Result<Option<Submission>, StoreError> {
        let row = sqlx::query("SELECT * FROM submissions WHERE id = ?").bind(id).fetch_optional(&self.pool).await?;
        row.as_ref().map(submission).transpose()
    }

    /// Reads the submission that a session of a project came from. None if it was started by hand.
    pub async fn of_session(&self, project: &str, session: SessionId) -> Result<Option<Submission>, StoreError> {
        let row = sqlx::query("SELECT * FROM submissions WHERE project = ? AND session = ?")
            .bind(project)
            .bind(session)
            .fetch_optional(&self.pool)
            .await?;
        row.as_ref().map(submission).transpose()
    }

    /// Lists submissions, the latest first.
    pub async fn list(&self, filter: &QueueFilter) -> Result<Vec<Submission>, StoreError> {
        let mut query = QueryBuilder::<Sqlite>::new("SELECT * FROM submissions WHERE TRUE");
        if let Some(project) = &filter.project {
            query.push(" AND project = ").push_bind(project);
        }
        if let Some(state) = filter.state {
            query.push(" AND state = ").push_bind(state.name());
        }
        query.push(" ORDER BY id DESC LIMIT ").push_bind(i64::from(filter.limit));
        query.push(" OFFSET ").push_bind(i64::from(filter.offset));
        query.build().fetch_all(&self.pool).await?.iter().map(submission).collect()
    }

    /// Lists the submissions that are queued or running, in the order in which they are to start.
    pub async fn open_ones(&self) -> Result<Vec<Submission>, StoreError> {
        let rows =
            sqlx::query("SELECT * FROM submissions WHERE state IN ('queued', 'running') ORDER BY priority DESC, id")
                .fetch_all(&self.pool)
                .await?;
        rows.iter().map(submission).collect()
    }

    /// Counts the submissions in each state.
    pub async fn counts(&self) -> Result<Vec<(SubmissionState, u64)>, StoreError> {
        let rows: Vec<(String, i64)> =
            sqlx::query_as("SELECT state, COUNT(*) FROM submissions GROUP BY state").fetch_all(&self.pool).await?;
        let count = |state: SubmissionState| {
            let found = rows.iter().find(|(name, _)| name == state.name());
            (state, found.map_or(0, |(_, count)| count.cast_unsigned()))
        };
        Ok(SubmissionState::ALL.into_iter().map(count).collect())
    }

    /// Notes that a process is about to be started. Returns the submission, or none if it is no longer queued.
    pub async fn begin(&self, id: SubmissionId, lane: Lane) -> Result<Option<Submission>, StoreError> {
        let query = sqlx::query(
            "UPDATE submissions SET state = 'running', lane = ?, reason = NULL, attempts = attempts + 1,
                                    started_at = COALESCE(started_at, ?)
             WHERE id = ? AND state = 'queued' RETURNING *",
        )
        .bind(lane.to_string())
        .bind(now()?)
        .bind(id);
        self.change(query).await
    }

    /// Changes at most one submission. Returns it once that is on the disk, or none if it was in another state.
    async fn change(&self, query: Query<'_, Sqlite, SqliteArguments>) -> Result<Option<Submission>, StoreError> {
        let row = self.write(async |connection| Ok(query.fetch_optional(connection).await?)).await?;
        row.as_ref().map(submission).transpose()
    }

    /// Notes what became of the process of a running submission.
    pub async fn conclude(&self, id: SubmissionId, conclusion: &Conclusion) -> Result<(), StoreError> {
        sqlx::query(
            "UPDATE submissions SET state = ?, reason = ?, session = COALESCE(?, session), iterations = ?,
                                    attempts = ?, not_before_ms = ?, asked = NULL, ended_at = ?
             WHERE id = ? AND state = 'running'",
        )
        .bind(conclusion.state.name())
        .bind(conclusion.reason.as_deref().map(text))
        .bind(conclusion.session)
        .bind(conclusion.iterations.cast_signed())
        .bind(i64::from(conclusion.attempts))
        .bind(conclusion.not_before_ms)
        .bind(conclusion.state.is_over().then(now).transpose()?)
        .bind(id)
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// Notes the number of a running submission's session.
    pub async fn note_session(&self, id: SubmissionId, session: SessionId) -> Result<(), StoreError> {
        sqlx::query("UPDATE submissions SET session = ? WHERE id = ?")
            .bind(session)
            .bind(id)
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// Asks a submission to stop. One that is queued is over at once; one that runs keeps the request until its process
    /// has ended. Returns it, or none if it is over already.
    pub async fn ask(&self, id: SubmissionId, request: StopRequest) -> Result<Option<Submission>, StoreError> {
        let query = sqlx::query(
            // A request to cancel is not taken back by a request to stop.
            "UPDATE submissions SET asked = IIF(state = 'running' AND asked IS NOT 'cancel', ?1, asked),
                                    state = IIF(state = 'queued', 'cancelled', state),
                                    ended_at = IIF(state = 'queued', ?2, ended_at),
                                    reason = IIF(state = 'queued', NULL, reason)
             WHERE id = ?3 AND state IN ('queued', 'running') RETURNING *",
        )
        .bind(request.name())
        .bind(now()?)
        .bind(id);
        self.change(query).await
    }

    /// Queues a submission again whose session can be resumed. Returns it, or none if it is not over.
    pub async fn resume(&self, id: SubmissionId) -> Result<Option<Submission>, StoreError> {
        let query = sqlx::query(
            "UPDATE submissions SET state = 'queued', asked = NULL, attempts = 0, not_before_ms = 0, reason = NULL,
                                    ended_at = NULL
             WHERE id = ? AND state IN ('ended', 'cancelled', 'failed') RETURNING *",
        )
        .bind(id);
        self.change(query).await
    }

    /// Checks that the largest submission could be stored, and keeps the room for it.
    pub async fn check_writable(&self) -> Result<(), StoreError> {
        room::keep(&self.pool).await?;
        // The file's own header has a number for its user, which nothing else here uses. This one reaches the disk.
        self.write(async |connection| {
            sqlx::raw_sql("PRAGMA user_version = 1").execute(connection).await?;
            Ok(())
        })
        .await
    }

    /// Has every commit pass or fail as a function says.
    #[cfg(test)]
    pub(crate) async fn on_commit(&self, passes: impl FnMut() -> bool + Send + 'static) {
        super::testing::on_commit(&self.pool, passes).await;
    }

    /// Closes the file.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}
