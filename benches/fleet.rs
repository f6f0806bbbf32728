//! How long a job takes beyond its evaluation, with a thousand workers on one server.
//!
//! `cargo bench --bench fleet` starts nats-server and 1,000 simulated workers. Each has a queue as a real worker does, and answers jobs
//! of 64 KiB after 5 s: 200 jobs a second. The limit that is checked: at the 99th percentile, a job takes 250 ms beyond the evaluation.

use std::collections::HashMap;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, pull};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::{self, Context};
use futures::StreamExt;
use optloop::fleet::{Link, Server};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

const WORKERS: usize = 1000;

/// Workers that share a connection. A process may have about a thousand open files.
const PER_CONNECTION: usize = 10;

const EVALUATION: Duration = Duration::from_secs(5);

const JOB_BYTES: usize = 64 << 10;

const RESULT_BYTES: usize = 4 << 10;

/// Jobs of each worker. The first is left out: all workers get it at once.
const JOBS: usize = 8;

/// The limit, in milliseconds.
const MOST_MS: f64 = 250.0;

fn main() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let store = tempfile::tempdir().unwrap();
    let mut server = start(port, &store);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut beyond_ms = runtime.block_on(run(&format!("nats://127.0.0.1:{port}")));
    beyond_ms.sort_by(f64::total_cmp);
    let at = |share: f64| beyond_ms[((beyond_ms.len() - 1) as f64 * share) as usize];
    println!("{} jobs: beyond the evaluation, {:.0} ms (median), {:.0} ms (p99)", beyond_ms.len(), at(0.5), at(0.99));
    println!("the server used {:.0} s of processor time", cpu_s(server.id()));
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(at(0.99) < MOST_MS, "jobs take too long beyond the evaluation");
}

fn start(port: u16, store: &tempfile::TempDir) -> Child {
    let mut command = Command::new("nats-server");
    command.args(["--jetstream", "--addr", "127.0.0.1", "--port", &port.to_string(), "--store_dir"]).arg(store.path());
    let server = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let server = server.expect("this needs nats-server (Debian: `apt-get install nats-server`)");
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        std::thread::yield_now();
    }
    server
}

/// Returns what each job has taken beyond its evaluation, in milliseconds.
async fn run(url: &str) -> Vec<f64> {
    let server = Server { url: url.to_owned(), credentials: None, ca: None, certificate: None };
    Link::open(&server, "bench").await.unwrap();
    let (ready, mut is_ready) = unbounded_channel();
    for first in (0..WORKERS).step_by(PER_CONNECTION) {
        let context = jetstream::new(async_nats::connect(url).await.unwrap());
        for number in first..first + PER_CONNECTION {
            tokio::spawn(work(context.clone(), number, ready.clone()));
        }
    }
    for _ in 0..WORKERS {
        is_ready.recv().await.unwrap();
    }
    let context = jetstream::new(async_nats::connect(url).await.unwrap());
    let sent: Arc<Mutex<HashMap<String, Instant>>> = Arc::default();
    let done = context.get_stream("OPTLOOP_DONE").await.unwrap();
    let config = pull::Config {
        durable_name: Some("bench".to_owned()),
        ack_policy: AckPolicy::Explicit,
        filter_subject: "optloop.done.bench".to_owned(),
        ..pull::Config::default()
    };
    let results: PullConsumer = done.get_or_create_consumer("bench", config).await.unwrap();
    let mut results = results.messages().await.unwrap();
    // Sessions begin at different times.
    for number in 0..WORKERS {
        let (context, sent) = (context.clone(), Arc::clone(&sent));
        tokio::spawn(async move {
            tokio::time::sleep(EVALUATION.mul_f64(number as f64 / WORKERS as f64)).await;
            send(&context, &sent, number, 0).await;
        });
    }
    let mut beyond_ms = Vec::new();
    for _ in 0..WORKERS * JOBS {
        let result = results.next().await.unwrap().unwrap();
        result.ack().await.unwrap();
        let id = result.headers.as_ref().unwrap().get("Nats-Msg-Id").unwrap().as_str().to_owned();
        let took = sent.lock().unwrap().remove(&id).unwrap().elapsed();
        let (number, job) = id.split_once('-').unwrap();
        let (number, job): (usize, usize) = (number.parse().unwrap(), job.parse().unwrap());
        if job > 0 {
            beyond_ms.push((took.as_secs_f64() - EVALUATION.as_secs_f64()) * 1e3);
        }
        if job + 1 < JOBS {
            let (context, sent) = (context.clone(), Arc::clone(&sent));
            tokio::spawn(async move { send(&context, &sent, number, job + 1).await });
        }
    }
    beyond_ms
}

async fn send(context: &Context, sent: &Mutex<HashMap<String, Instant>>, number: usize, job: usize) {
    let id = format!("{number}-{job}");
    sent.lock().unwrap().insert(id.clone(), Instant::now());
    let message = PublishMessage::build().payload(vec![7; JOB_BYTES].into()).message_id(id);
    context.send_publish(subject(number), message).await.unwrap().await.unwrap();
}

fn subject(number: usize) -> String {
    format!("optloop.jobs.device.build.{number}.bench")
}

/// Answers jobs as a worker does: the result is acknowledged before the job is confirmed.
async fn work(context: Context, number: usize, ready: UnboundedSender<()>) {
    let jobs = context.get_stream("OPTLOOP_JOBS").await.unwrap();
    let config = pull::Config {
        durable_name: Some(number.to_string()),
        filter_subject: subject(number),
        ack_policy: AckPolicy::Explicit,
        ack_wait: Duration::from_secs(30),
        max_deliver: 2,
        max_ack_pending: 1,
        ..pull::Config::default()
    };
    let queue: PullConsumer = jobs.get_or_create_consumer(&number.to_string(), config).await.unwrap();
    ready.send(()).unwrap();
    loop {
        let mut batch = queue.fetch().max_messages(1).expires(Duration::from_secs(10)).messages().await.unwrap();
        let Some(Ok(job)) = batch.next().await else { continue };
        let id = job.headers.as_ref().unwrap().get("Nats-Msg-Id").unwrap().as_str().to_owned();
        tokio::time::sleep(EVALUATION).await;
        let result = PublishMessage::build().payload(vec![7; RESULT_BYTES].into()).message_id(id);
        context.send_publish("optloop.done.bench", result).await.unwrap().await.unwrap();
        job.double_ack().await.unwrap();
    }
}

/// Returns the processor time of a process, in seconds. Linux shows it in hundredths.
fn cpu_s(process: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}
