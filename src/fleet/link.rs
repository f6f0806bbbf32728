//! A connection to the server, with its streams.

use crate::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use async_nats::ConnectOptions;
use async_nats::jetstream::kv;
use async_nats::jetstream::stream::{self, DiscardPolicy, RetentionPolicy, Stream};
use async_nats::jetstream::{self, Context};

/// Jobs that are not answered yet.
const JOBS: &str = "OPTLOOP_JOBS";

/// Results that sessions have not taken yet.
const DONE: &str = "OPTLOOP_DONE";

/// Who is there.
const WORKERS: &str = "OPTLOOP_WORKERS";

/// Time between two signs of life.
pub(super) const BEAT: Duration = Duration::from_secs(2);

/// How long after its last sign of life a worker counts as gone: it may miss a few.
pub(super) const GONE_AFTER: Duration = Duration::from_secs(10);

/// How long the server keeps jobs and results that are not taken: longer than a session may pause, and than two deliveries of any job.
const KEPT: Duration = Duration::from_secs(3600);

/// How long the server may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// A server, and how to prove to it who this is.
#[derive(Debug, Clone)]
pub struct Server {
    /// Its address: `nats://HOST:PORT`, or `tls://HOST:PORT`.
    pub url: String,
    /// A file with NATS credentials.
    pub credentials: Option<PathBuf>,
    /// A file with the certificate of the authority that has signed the server's.
    pub ca: Option<PathBuf>,
    /// Files with this client's certificate and its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// The server does not let this client in, or does not answer.
    #[error("{url} cannot be reached: {reason}")]
    Unreachable {
        /// The address.
        url: String,
        /// Why.
        reason: String,
    },
    /// The server has no JetStream, or not the right to use it.
    #[error("{url} keeps no queue: {reason}. Start it with JetStream: `nats-server --jetstream`")]
    NoQueue {
        /// The address.
        url: String,
        /// Why.
        reason: String,
    },
}

/// See the module's documentation.
#[derive(Clone)]
pub struct Link {
    pub(super) context: Context,
    pub(super) jobs: Stream,
    pub(super) done: Stream,
    pub(super) workers: kv::Store,
}

impl Link {
    /// Connects to a server, and makes the streams if they are missing. The connection is made anew whenever it is lost.
    pub async fn open(server: &Server, name: &str) -> Result<Self, FleetError> {
        let unreachable = |reason: String| FleetError::Unreachable { url: server.url.clone(), reason };
        let mut options = ConnectOptions::new().name(name).connection_timeout(PATIENCE).request_timeout(Some(PATIENCE));
        if let Some(path) = &server.credentials {
            let text = std::fs::read_to_string(path)
                .map_err(|error| unreachable(format!("{} cannot be read: {error}", path.display())))?;
            options = options
                .credentials(&text)
                .map_err(|error| unreachable(format!("{} holds no credentials: {error}", path.display())))?;
        }
        if let Some(path) = &server.ca {
            options = options.add_root_certificates(path.clone());
        }
        if let Some((certificate, key)) = &server.certificate {
            options = options.add_client_certificate(certificate.clone(), key.clone());
        }
        let client = options.connect(&server.url).await.map_err(|error| unreachable(error.to_string()))?;
        Self::over(jetstream::new(client))
            .await
            .map_err(|reason| FleetError::NoQueue { url: server.url.clone(), reason: reason.to_string() })
    }

    async fn over(mut context: Context) -> Result<Self, Error> {
        context.set_timeout(PATIENCE);
        let (jobs, done) = streams(&context).await?;
        let workers = context.get_key_value(WORKERS).await.map_err(Error::new)?;
        Ok(Self { context, jobs, done, workers })
    }

    /// Makes the streams again if the server has lost its disk.
    pub(super) async fn mend(&self) {
        if let Err(reason) = streams(&self.context).await {
            tracing::debug!("the server has no streams: {reason}");
        }
    }

    /// Returns the longest message that the server takes, in bytes.
    pub(super) fn max_bytes(&self) -> usize {
        self.context.client().server_info().max_payload
    }
}

/// Opens the streams of jobs and results, and makes all that are missing.
async fn streams(context: &Context) -> Result<(Stream, Stream), Error> {
    let jobs = stream::Config {
        name: JOBS.to_owned(),
        subjects: vec!["optloop.jobs.>".to_owned()],
        retention: RetentionPolicy::WorkQueue,
        max_age: KEPT,
        duplicate_window: KEPT,
        ..stream::Config::default()
    };
    let done = stream::Config { name: DONE.to_owned(), subjects: vec!["optloop.done.*".to_owned()], ..jobs.clone() };
    // A bucket is a stream. The client's own way to make one needs a newer server.
    let workers = stream::Config {
        name: format!("KV_{WORKERS}"),
        subjects: vec![format!("$KV.{WORKERS}.>")],
        max_messages_per_subject: 1,
        discard: DiscardPolicy::New,
        allow_rollup: true,
        deny_delete: true,
        max_age: GONE_AFTER,
        duplicate_window: GONE_AFTER,
        ..stream::Config::default()
    };
    let made = |config| async { context.get_or_create_stream(config).await.map_err(Error::new) };
    made(workers).await?;
    Ok((made(jobs).await?, made(done).await?))
}

/// The subjects of jobs and results.
pub(super) mod subjects {
    /// Returns where a worker takes the jobs of a session.
    pub fn jobs(device: &str, build: &str, worker: &str, session: &str) -> String {
        format!("optloop.jobs.{device}.{build}.{worker}.{session}")
    }

    /// Returns where a worker takes the jobs of all sessions.
    pub fn jobs_of_worker(device: &str, build: &str, worker: &str) -> String {
        jobs(device, build, worker, "*")
    }

    /// Returns the jobs of a session.
    pub fn jobs_of_session(session: &str) -> String {
        jobs("*", "*", "*", session)
    }

    /// Returns where a session takes results.
    pub fn done(session: &str) -> String {
        format!("optloop.done.{session}")
    }

    /// Returns the session of a job.
    pub fn session(job: &str) -> Option<&str> {
        job.strip_prefix("optloop.jobs.")?.rsplit_once('.').map(|(_, session)| session)
    }
}
