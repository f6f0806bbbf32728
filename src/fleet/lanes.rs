//! The session's side: the lanes that workers are, and the results that come back.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, pull};
use futures::StreamExt;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::keys::{OwnKey, PublicKey};
use super::link::{BEAT, GONE_AFTER, Link, subjects};
use super::messages::{self, Answer, Done, Job, Kind};
use super::presence::{self, Present};
use super::queue::{self, PAUSE};
use super::worker::unix_s;
use crate::domain::code::artifact::Artifact;
use crate::domain::device::{DeviceInfo, Peaks};
use crate::domain::measurement::evaluation::{Evaluation, Outcome};
use crate::runner::messages::EvaluateRequest;
use crate::runner::worker::{Arrivals, Remote, RemoteLane, Screened, Screening, WorkerError};

/// How long the server keeps what a session has not taken, if the session is gone.
const RESULTS_KEPT: Duration = Duration::from_secs(3600);

/// Time limit for deleting a session's leftovers on the server.
const CLEANING: Duration = Duration::from_secs(2);

/// Time between two looks at a worker that has a job.
const LOOK: Duration = Duration::from_secs(1);

/// What a session asks of its fleet.
pub struct Terms {
    /// Its own key, with which it signs.
    pub key: OwnKey,
    /// Whose results it takes.
    pub trusts: Vec<PublicKey>,
    /// The session's name in subjects: the same when it is resumed.
    pub session: String,
    /// The most lanes.
    pub most: usize,
    /// How long a job may take.
    pub job_timeout: Duration,
}

/// The workers that a session may use.
pub struct Fleet {
    shared: Arc<Shared>,
    /// Those that were there at the beginning.
    first: Vec<Present>,
}

struct Shared {
    link: Link,
    terms: Terms,
    home: DeviceInfo,
    build: &'static str,
    /// Numbers for the names of jobs. They begin with what no earlier process of the session has used.
    jobs: AtomicUsize,
    run: u64,
    in_flight: Mutex<HashMap<String, InFlight>>,
    workers: Mutex<Workers>,
    dropped: AtomicUsize,
}

/// A job that has no result yet.
struct InFlight {
    key: PublicKey,
    answer: oneshot::Sender<Answer>,
}

/// What was last heard of a worker.
#[derive(Clone, Copy)]
struct Seen {
    at: Instant,
    /// When its process started, in seconds since 1970.
    since_unix_s: u64,
    /// How often it has started.
    starts: u32,
}

#[derive(Default)]
struct Workers {
    /// Those that have been heard of.
    seen: HashMap<String, Seen>,
    /// Those that are lanes of the session.
    held: HashSet<String>,
    /// Those that the session does not use any more.
    left_out: HashSet<String>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Fleet {
    /// Finds the workers for a session. What an earlier process of the session has left on the server is removed.
    pub async fn find(link: Link, terms: Terms, home: DeviceInfo, build: &'static str) -> anyhow::Result<Self> {
        let shared = Shared {
            link,
            terms,
            home,
            build,
            jobs: AtomicUsize::new(0),
            run: rand::random(),
            in_flight: Mutex::default(),
            workers: Mutex::default(),
            dropped: AtomicUsize::new(0),
        };
        shared.clean().await;
        let mut first = presence::present(&shared.link).await?;
        first.retain(|present| shared.may_use(present));
        first.truncate(shared.terms.most);
        Ok(Self { shared: Arc::new(shared), first })
    }

    /// Returns the number of workers.
    pub fn size(&self) -> usize {
        self.first.len()
    }

    /// Makes lanes of the workers. Each checks its device first, and counts as having home's peaks. A worker that comes later takes
    /// the place of one that has gone.
    pub fn lanes(&self, self_check: Artifact, peaks: &Peaks) -> (Arrivals, Running) {
        let (sender, coming) = mpsc::unbounded_channel();
        let making = Making {
            shared: Arc::clone(&self.shared),
            self_check: Arc::new(self_check),
            peaks: peaks.clone(),
            most: self.first.len(),
            sender,
        };
        for present in &self.first {
            making.welcome(present.clone());
        }
        let mut tasks = JoinSet::new();
        let shared = Arc::clone(&self.shared);
        tasks.spawn(async move { shared.take_results().await });
        tasks.spawn(async move { making.watch().await });
        (Arrivals { most: self.first.len(), coming: Some(coming) }, Running { shared: Arc::clone(&self.shared), tasks })
    }
}

/// What runs for a session's fleet beside the session.
pub struct Running {
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
}

impl Running {
    /// Ends it, and removes from the server what the session has left. Returns the number of results that were dropped.
    pub async fn end(mut self) -> usize {
        self.tasks.shutdown().await;
        self.shared.clean().await;
        self.shared.dropped.load(Ordering::Relaxed)
    }
}

/// Makes lanes of workers.
struct Making {
    shared: Arc<Shared>,
    self_check: Arc<Artifact>,
    peaks: Peaks,
    most: usize,
    sender: mpsc::UnboundedSender<RemoteLane>,
}

impl Making {
    /// Makes a lane of a worker, if there is a place for it.
    fn welcome(&self, present: Present) {
        let mut workers = locked(&self.shared.workers);
        let since_unix_s = present.since_unix_s;
        let before = workers.seen.get(&present.worker).copied();
        let starts = before.map_or(1, |seen| seen.starts + u32::from(seen.since_unix_s != since_unix_s));
        workers.seen.insert(present.worker.clone(), Seen { at: Instant::now(), since_unix_s, starts });
        let is_known = workers.held.contains(&present.worker) || workers.left_out.contains(&present.worker);
        if is_known || workers.held.len() >= self.most {
            return;
        }
        let name = present.card();
        let Present { worker, key, mut device, .. } = present;
        let subject = subjects::jobs(&device.key().to_string(), self.shared.build, &worker, &self.shared.terms.session);
        device.peaks = self.peaks.clone();
        workers.held.insert(worker.clone());
        let (shared, self_check) = (Arc::clone(&self.shared), Arc::clone(&self.self_check));
        let lane = FleetLane { shared, worker, key, name, device, subject, self_check, is_gone: false };
        // The session may have ended.
        let _ = self.sender.send(RemoteLane(Box::new(lane)));
    }

    /// Listens for signs of life.
    async fn watch(&self) {
        loop {
            if let Ok(mut entries) = self.shared.link.workers.watch_all().await {
                // Silence may mean that the server was restarted, and does not know this watch any more.
                while let Ok(Some(Ok(entry))) = tokio::time::timeout(2 * BEAT, entries.next()).await {
                    match presence::of(&entry) {
                        Some(present) if self.shared.may_use(&present) => self.welcome(present),
                        Some(_) => {}
                        None => {
                            tracing::debug!("worker {} has left, or is not who it says", entry.key);
                            locked(&self.shared.workers).seen.remove(&entry.key);
                        }
                    }
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

impl Shared {
    /// Tells whether a worker can be a lane: each trusts the other, and it is the same build on the same kind of device.
    fn may_use(&self, present: &Present) -> bool {
        let (device, home) = (&present.device, &self.home);
        self.terms.trusts.contains(&present.key)
            && present.trusts.contains(&self.terms.key.public())
            && present.build == self.build
            && device.key() == home.key()
            && device.arch == home.arch
            && device.timing == home.timing
            // The session has this one itself.
            && (device.uuid.is_none() || device.uuid != home.uuid)
    }

    /// Returns how often a worker has started.
    fn starts(&self, worker: &str) -> u32 {
        locked(&self.workers).seen.get(worker).map_or(0, |seen| seen.starts)
    }

    fn is_gone(&self, worker: &str) -> bool {
        locked(&self.workers).seen.get(worker).is_none_or(|seen| seen.at.elapsed() > GONE_AFTER)
    }

    /// Takes results as they come. One that is not expected changes nothing.
    async fn take_results(&self) {
        loop {
            if let Err(error) = self.take_some().await {
                tracing::debug!("no results: {error:#}");
                self.link.mend().await;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn take_some(&self) -> anyhow::Result<()> {
        let session = &self.terms.session;
        let config = pull::Config {
            durable_name: Some(session.clone()),
            filter_subject: subjects::done(session),
            ack_policy: AckPolicy::Explicit,
            inactive_threshold: RESULTS_KEPT,
            ..pull::Config::default()
        };
        let results: PullConsumer = self.link.done.get_or_create_consumer(session, config).await?;
        let mut messages = results.messages().await?;
        while let Some(message) = messages.next().await {
            let message = message?;
            self.take(&message.subject, &message.payload);
            // If it comes again, nothing is in flight.
            let _ = message.ack().await;
        }
        Ok(())
    }

    fn take(&self, subject: &str, payload: &[u8]) {
        let opened = messages::open::<Done>(Kind::Done, subject, payload, |key| self.terms.trusts.contains(key));
        let refused = match opened {
            Ok((key, Done { job, answer })) => {
                let mut in_flight = locked(&self.in_flight);
                match in_flight.remove(&job) {
                    Some(expected) if expected.key == key => {
                        let _ = expected.answer.send(answer);
                        return;
                    }
                    Some(expected) => {
                        in_flight.insert(job, expected);
                        format!("{key} has not been asked")
                    }
                    None => "it is late, or came twice".to_owned(),
                }
            }
            Err(dropped) => dropped.to_string(),
        };
        tracing::debug!("a result is dropped: {refused}");
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes what is on the server for the session.
    async fn clean(&self) {
        let session = &self.terms.session;
        let cleaned = async {
            let _ = self.link.jobs.purge().filter(subjects::jobs_of_session(session)).await;
            let _ = self.link.done.purge().filter(subjects::done(session)).await;
            let _ = self.link.done.delete_consumer(session).await;
        };
        let _ = tokio::time::timeout(CLEANING, cleaned).await;
    }
}

/// A worker as a lane.
struct FleetLane {
    shared: Arc<Shared>,
    worker: String,
    key: PublicKey,
    /// Its host and card.
    name: String,
    device: DeviceInfo,
    subject: String,
    self_check: Arc<Artifact>,
    /// Whether the worker has gone, and may come back.
    is_gone: bool,
}

impl Drop for FleetLane {
    fn drop(&mut self) {
        let mut workers = locked(&self.shared.workers);
        workers.held.remove(&self.worker);
        if !self.is_gone {
            workers.left_out.insert(self.worker.clone());
        }
    }
}

/// A job in flight. Dropping it discards its result.
struct Waiting<'a> {
    shared: &'a Shared,
    id: String,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        locked(&self.shared.in_flight).remove(&self.id);
    }
}

impl Remote for FleetLane {
    fn info(&self) -> &DeviceInfo {
        &self.device
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn screen(&mut self, request: EvaluateRequest) -> Screening<'_> {
        Box::pin(self.screened(request))
    }
}

impl FleetLane {
    async fn screened(&mut self, request: EvaluateRequest) -> Result<Screened, WorkerError> {
        let shared = Arc::clone(&self.shared);
        let case = request.cases.first().map_or_else(String::new, |case| case.case.name.to_string());
        let id = format!("{:016x}-{}", shared.run, shared.jobs.fetch_add(1, Ordering::Relaxed));
        let started = Instant::now();
        let lost = |why: String| {
            let outcome = Outcome::Crashed { case: case.as_str().into(), message: why, line: None };
            let evaluation =
                Evaluation { outcome, measurements: Vec::new(), device_s: started.elapsed().as_secs_f64() };
            Ok(Screened::Lost(evaluation))
        };
        let job = Job {
            id: id.clone(),
            until_unix_s: unix_s(SystemTime::now() + shared.terms.job_timeout),
            self_check: Artifact::clone(&self.self_check),
            request,
        };
        let sealed = messages::seal(Kind::Job, &self.subject, &shared.terms.key, &job);
        let sealed = sealed.map_err(|error| WorkerError::Broken(format!("a job cannot be sent: {error}")))?;
        if sealed.len() > shared.link.max_bytes() {
            return lost(format!("its job has {} bytes, more than the server takes", sealed.len()));
        }
        let (sender, mut answer) = oneshot::channel();
        locked(&shared.in_flight).insert(id.clone(), InFlight { key: self.key, answer: sender });
        let waiting = Waiting { shared: &shared, id };
        let taken = tokio::select! {
            taken = queue::publish(&shared.link.context, &self.subject, &waiting.id, sealed) => taken,
            () = self.lost(started) => return self.give_up(None).await.map_or_else(Err, |()| lost("the server was away".to_owned())),
        };
        tokio::select! {
            answer = &mut answer => match answer {
                Ok(Answer::Reported(evaluation)) => Ok(Screened::Reported(evaluation)),
                Ok(Answer::Lost(evaluation)) => Ok(Screened::Lost(evaluation)),
                // Home has called it before, so that machine lacks something.
                Ok(Answer::Oracle(problem)) => Err(WorkerError::Broken(format!("the oracle fails there: {problem}"))),
                Ok(Answer::Broken(reason) | Answer::Refused(reason)) => Err(WorkerError::Broken(reason)),
                Err(_) => lost("its job was discarded".to_owned()),
            },
            () = self.lost(started) => {
                let limit = humantime::format_duration(shared.terms.job_timeout);
                self.give_up(Some(taken.sequence)).await.map_or_else(Err, |()| lost(format!("its job took over {limit} (fleet.job_timeout), or ended its worker twice")))
            }
        }
    }

    /// Waits until the worker has gone, has had its time, or has been started twice because of one job.
    async fn lost(&self, since: Instant) {
        let starts = self.shared.starts(&self.worker);
        let is_lost = || {
            self.shared.is_gone(&self.worker)
                || since.elapsed() >= self.shared.terms.job_timeout
                || self.shared.starts(&self.worker) > starts + 1
        };
        while !is_lost() {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Deletes a discarded job. An error means that the worker has gone.
    async fn give_up(&mut self, job: Option<u64>) -> Result<(), WorkerError> {
        if let Some(sequence) = job {
            let _ = tokio::time::timeout(CLEANING, self.shared.link.jobs.delete_message(sequence)).await;
        }
        if !self.shared.is_gone(&self.worker) {
            return Ok(());
        }
        self.is_gone = true;
        Err(WorkerError::Broken(format!("its worker has left, or has not been heard of for {GONE_AFTER:?}")))
    }
}
