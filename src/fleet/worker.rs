//! The worker: takes jobs one at a time, has its device screen them, and sends back what it found.
//!
//! A result is on the server before its job is confirmed. So a job whose worker dies is delivered once more, and a result that is sent
//! twice has one name.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, pull};
use async_nats::jetstream::{AckKind, Message};
use futures::StreamExt;

use super::keys::{OwnKey, PublicKey};
use super::link::{BEAT, Link, subjects};
use super::messages::{self, Answer, Done, Job, Kind, Presence};
use super::queue::{self, PAUSE};
use crate::domain::device::DeviceInfo;
use crate::domain::op::OpSource;
use crate::error::{Error, error};
use crate::runner::worker::{Lane, Screened, Worker, WorkerError};

/// How long the server waits for a sign of a job before it delivers it again.
const ACK_WAIT: Duration = Duration::from_secs(30);

/// How often a job is delivered. A variant that kills workers must not kill one after another.
const DELIVERIES: i64 = 2;

/// How long one question for a job stays open.
const PULL: Duration = Duration::from_secs(10);

/// How long the server keeps the queue of a worker that is gone.
const QUEUE_KEPT: Duration = Duration::from_secs(3600);

/// The interpreter of oracles. That of the session is a path on another machine.
const PYTHON: &str = "python3";

/// How far the clocks of two machines may be apart.
const SKEW: Duration = Duration::from_secs(600);

/// Who a worker is, and whom it serves.
pub struct Identity {
    /// Its own key.
    pub key: OwnKey,
    /// Whose jobs it takes.
    pub trusts: Vec<PublicKey>,
    /// Its host, or another name.
    pub host: String,
    /// Its build of optloop.
    pub build: &'static str,
    /// Which programs of others it runs.
    pub consent: Consent,
}

/// The oracles in Python that a worker runs, by the BLAKE3 hash of their text.
#[derive(Debug, Clone, Default)]
pub struct Consent(pub Vec<String>);

impl Consent {
    /// Refuses an op whose oracle may not run here, or whose files are not here. An oracle in Python gets this machine's interpreter.
    fn check(&self, op: &mut OpSource) -> Result<(), Error> {
        let OpSource::Declared(declared) = op else { return Ok(()) };
        if !declared.files.is_empty() {
            return Err(Error::new("the op reads files, which are not sent to other machines"));
        }
        // One in CUDA runs where kernels run, and can do what they can.
        if declared.python.is_empty() {
            return Ok(());
        }
        let hash = blake3::hash(declared.oracle.as_bytes()).to_hex().to_string();
        if !self.0.contains(&hash) {
            return Err(error!(
                "the oracle is a program in Python, which runs there only with consent: `optloop worker --oracle {hash}`"
            ));
        }
        declared.python = PYTHON.to_owned();
        Ok(())
    }
}

/// What the worker has done so far.
#[derive(Default)]
struct Counts {
    jobs: AtomicU64,
    dropped: AtomicU64,
    is_busy: AtomicBool,
}

/// What a worker says of itself, the same all the time.
struct Post<'a> {
    link: &'a Link,
    identity: &'a Identity,
    device: DeviceInfo,
    /// Its name in subjects.
    name: String,
    since: SystemTime,
    counts: Counts,
}

/// Serves until the device cannot be used any more, or until `leave` ends. Calls `ready` once sessions can find the worker.
pub async fn serve(
    link: &Link,
    identity: &Identity,
    device: &mut Worker,
    ready: impl FnOnce(),
    leave: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let info = device.info().clone();
    let name = name(identity, &info);
    let post = Post { link, identity, device: info, name, since: SystemTime::now(), counts: Counts::default() };
    // What an earlier process of this worker had taken is delivered again at once.
    let _ = link.jobs.delete_consumer(&post.name).await;
    let served = tokio::select! {
        served = post.work(device) => served,
        never = post.beat(ready) => match never {},
        () = leave => Ok(()),
    };
    // Sessions learn at once that it is gone. Otherwise, they do when its last sign of life is old.
    let _ = tokio::time::timeout(BEAT, link.workers.delete(&post.name)).await;
    served
}

/// Returns the name of a worker: the same whenever it is started on its device.
fn name(identity: &Identity, device: &DeviceInfo) -> String {
    let card = device.uuid.as_ref().unwrap_or(&device.id);
    let text = format!("{} {} {card}", identity.key.public(), identity.host);
    blake3::hash(text.as_bytes()).to_hex()[..16].to_owned()
}

impl Post<'_> {
    /// Says every few seconds that it is there.
    async fn beat(&self, ready: impl FnOnce()) -> std::convert::Infallible {
        let mut ready = Some(ready);
        loop {
            match self.say_present().await {
                Ok(()) => ready.take().into_iter().for_each(|ready| ready()),
                Err(error) => {
                    tracing::debug!("the server does not hear this worker: {error:#}");
                    self.link.mend().await;
                }
            }
            tokio::time::sleep(BEAT).await;
        }
    }

    async fn say_present(&self) -> anyhow::Result<()> {
        let presence = Presence {
            worker: self.name.clone(),
            host: self.identity.host.clone(),
            device: self.device.clone(),
            build: self.identity.build.to_owned(),
            trusts: self.identity.trusts.clone(),
            since_unix_s: unix_s(self.since),
            jobs: self.counts.jobs.load(Ordering::Relaxed),
            dropped: self.counts.dropped.load(Ordering::Relaxed),
            is_busy: self.counts.is_busy.load(Ordering::Relaxed),
        };
        let sealed = messages::seal(Kind::Presence, &self.name, &self.identity.key, &presence)?;
        self.link.workers.put(&self.name, sealed.into()).await?;
        Ok(())
    }

    /// Answers jobs until the device fails for good.
    async fn work(&self, device: &mut Worker) -> anyhow::Result<()> {
        loop {
            match self.next().await {
                Ok(Some(message)) => self.answer(device, &message).await?,
                Ok(None) => {}
                Err(error) => {
                    tracing::debug!("no jobs: {error:#}");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Asks for one job. The queue is made if it is missing, as after the loss of a server's disk.
    async fn next(&self) -> anyhow::Result<Option<Message>> {
        let key = self.device.key().to_string();
        let filter = subjects::jobs_of_worker(&key, self.identity.build, &self.name);
        let config = pull::Config {
            durable_name: Some(self.name.clone()),
            filter_subject: filter,
            ack_policy: AckPolicy::Explicit,
            ack_wait: ACK_WAIT,
            max_deliver: DELIVERIES,
            max_ack_pending: 1,
            inactive_threshold: QUEUE_KEPT,
            ..pull::Config::default()
        };
        let queue: PullConsumer = self.link.jobs.get_or_create_consumer(&self.name, config).await?;
        let mut batch = queue.fetch().max_messages(1).expires(PULL).messages().await?;
        let message = tokio::time::timeout(PULL + PAUSE, batch.next()).await.ok().flatten().transpose();
        message.map_err(|error| anyhow::anyhow!("{error}"))
    }

    /// Answers a job: the result is on the server before the job is confirmed.
    async fn answer(&self, device: &mut Worker, message: &Message) -> anyhow::Result<()> {
        let opened = messages::open::<Job>(Kind::Job, &message.subject, &message.payload, |key| {
            self.identity.trusts.contains(key)
        });
        let (job, session) = match (opened, subjects::session(&message.subject)) {
            (Ok((_, job)), Some(session)) => (job, session.to_owned()),
            (Err(dropped), _) => return self.drop_message(message, &dropped.to_string()).await,
            (Ok(_), None) => return self.drop_message(message, "it is on no session's subject").await,
        };
        if job.until_unix_s + SKEW.as_secs() < unix_s(SystemTime::now()) {
            return self.drop_message(message, "it is too old").await;
        }
        self.counts.is_busy.store(true, Ordering::Relaxed);
        let id = job.id.clone();
        let answer = self.screen(device, job, message).await;
        let broken = match &answer {
            Answer::Broken(reason) => Some(reason.clone()),
            _ => None,
        };
        let subject = subjects::done(&session);
        let sealed = messages::seal(Kind::Done, &subject, &self.identity.key, &Done { job: id.clone(), answer })?;
        queue::publish(&self.link.context, &subject, &id, sealed).await;
        // If the confirmation is lost, the job comes again, and its result has the same name.
        if let Err(error) = message.double_ack().await {
            tracing::debug!("job {id} is not confirmed: {error}");
        }
        self.counts.jobs.fetch_add(1, Ordering::Relaxed);
        self.counts.is_busy.store(false, Ordering::Relaxed);
        broken.map_or(Ok(()), |reason| Err(anyhow::anyhow!(reason)))
    }

    async fn drop_message(&self, message: &Message, why: &str) -> anyhow::Result<()> {
        tracing::warn!("a message on {} is dropped: {why}", message.subject);
        self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        // If it comes again, it is dropped again.
        let _ = message.ack_with(AckKind::Term).await;
        Ok(())
    }

    /// Has the device screen a job, and tells the server meanwhile that it is at work.
    async fn screen(&self, device: &mut Worker, mut job: Job, message: &Message) -> Answer {
        if let Err(reason) = self.identity.consent.check(&mut job.request.op) {
            return Answer::Refused(reason.into());
        }
        let screening = async {
            device.check_itself_with(job.self_check).await?;
            device.screen(job.request).await
        };
        let mut screening = std::pin::pin!(screening);
        let mut signs = tokio::time::interval(ACK_WAIT / 3);
        let screened = loop {
            tokio::select! {
                screened = &mut screening => break screened,
                _ = signs.tick() => {
                    if let Err(error) = message.ack_with(AckKind::Progress).await {
                        tracing::debug!("the server does not hear of a job: {error}");
                    }
                }
            }
        };
        match screened {
            Ok(Screened::Reported(evaluation)) => Answer::Reported(evaluation),
            Ok(Screened::Lost(evaluation)) => Answer::Lost(evaluation),
            Err(WorkerError::Oracle(problem)) => Answer::Oracle(problem),
            Err(error) => Answer::Broken(error.to_string()),
        }
    }
}

/// Returns a time in seconds since 1970.
pub(super) fn unix_s(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::op::{DeclaredSource, InputFile};

    fn declared(python: &str, files: &[&str]) -> OpSource {
        let file = |name: &&str| InputFile { name: (*name).to_owned(), path: (*name).into(), hash: String::new() };
        OpSource::Declared(Box::new(DeclaredSource {
            manifest: String::new(),
            oracle: "def oracle(x): return x".to_owned(),
            python: python.to_owned(),
            files: files.iter().map(file).collect(),
        }))
    }

    #[test]
    fn an_oracle_in_python_runs_only_with_consent_and_with_this_machines_interpreter() {
        let refused = Consent::default().check(&mut declared("/tmp/anything", &[])).unwrap_err();
        let hash = blake3::hash(b"def oracle(x): return x").to_hex().to_string();
        assert!(
            refused.to_string().ends_with(&format!("only with consent: `optloop worker --oracle {hash}`")),
            "{refused}"
        );
        let (consent, mut op) = (Consent(vec![hash]), declared("/tmp/anything", &[]));
        consent.check(&mut op).unwrap();
        assert!(matches!(&op, OpSource::Declared(declared) if declared.python == "python3"));
        insta::assert_snapshot!(consent.check(&mut declared("", &["table.npy"])).unwrap_err(), @"the op reads files, which are not sent to other machines");
        // One in CUDA can do what kernels can.
        Consent::default().check(&mut declared("", &[])).unwrap();
    }
}
