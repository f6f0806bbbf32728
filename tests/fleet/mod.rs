//! Sessions whose lanes are workers behind a real NATS server, all processes on this machine. They need `nats-server` (Debian has a
//! package).

mod attacker;
mod server;
mod service;

use serde_json::Value;

use crate::common::Sandbox;
use crate::durability::record::Record;
use crate::durability::running::Running;
use attacker::Attacker;
use server::{FleetWorker, Server};

const START: [&str; 8] = ["start", "--device", "fake", "--workload", "small", "--case", "s64", "--json"];

const SOURCE: &str = "
.version 8.0
.target sm_90a
.address_size 64
// <$ TILE $> <$ THREADS $> <$ PAD $> <$ FAULT $> <$ D $>
.visible .entry toy(.param .u64 q, .param .u64 k, .param .u64 v, .param .u64 o, .param .u32 Sq, .param .f32 scale, .param .u32 fault)
{
    ret;
}
";

/// A project that trusts workers of another user.
fn project(keys: &[String]) -> Sandbox {
    let sandbox = Sandbox::new();
    // More configurations than a test can try, and nothing to compile.
    let values: Vec<String> = (0..64).map(|value| value.to_string()).collect();
    let padding = format!(
        "[params.PAD]\nvalues = [{}]\ndefault = 0\nabout = \"nothing\"\nexpect = [0.9, 1.1]\n[params.FAULT]",
        values.join(", ")
    );
    sandbox.replace("templates/kernels/toy/family.toml", "[params.FAULT]", &padding);
    sandbox.write("templates/kernels/toy/kernel.cu.tera", SOURCE);
    sandbox.git(&["commit", "--quiet", "--all", "--message", "a large space"]);
    trust(&sandbox, keys);
    sandbox
}

fn trust(sandbox: &Sandbox, keys: &[String]) {
    let settings = "[worker]\nstep_timeout = '3s'\n[benchmark]\nconfirmation_samples = 20\nmax_confirmation = '2s'\n";
    sandbox.write("config.toml", &format!("{settings}[fleet]\nworkers = {keys:?}\n"));
    sandbox.trust();
}

/// Returns how many variants a device has screened. None is home.
fn screened(record: &Record, lane: Option<&str>) -> usize {
    let lane = lane.map_or("NULL".to_owned(), |lane| format!("'{lane}'"));
    record
        .ask(&format!(
            "SELECT hash FROM iterations WHERE purpose = 'screening' AND lane IS {lane} AND outcome = 'measured'"
        ))
        .len()
}

#[test]
fn a_session_goes_on_while_workers_are_killed_the_server_restarts_and_someone_tampers_with_results() {
    let Some(mut server) = Server::start() else { return };
    let sandbox = project(&[]);
    let (mut one, two) =
        (FleetWorker::start(&sandbox, &server, "fake:1"), FleetWorker::start(&sandbox, &server, "fake:2"));
    trust(&sandbox, &[one.key(), two.key()]);
    let attacker = Attacker::start(&server);
    let url = server.url();
    let more = ["--nats", &url, "--seed", "1", "--budget", "18s", "--no-early-stop"];
    let mut command = sandbox.command(&[&START[..], &more].concat());
    let running = Running::spawn({
        command.env("OPTLOOP_FAKE_SCREENING_MS", "100");
        command
    });
    let finished =
        |number: u64| move |event: &Value| event["event"] == "iteration" && event["finished"].as_u64() >= Some(number);
    let until = |is: &dyn Fn(&Value) -> bool| while !is(&running.next().expect("the session ends by itself")) {};
    until(&finished(12));
    one.kill();
    until(&finished(24));
    server.restart();
    let two = two.restart(&sandbox, &server, "fake:2");
    let (status, events, said) = running.end();
    assert!(status.success(), "{said}");
    assert!(attacker.stop() > 0, "nothing was tampered with");
    let left_out = events.iter().find(|event| event["event"] == "device_left_out").expect("no device was left out");
    assert_eq!(left_out["device"], "rack/fake:1");
    assert_eq!(left_out["reason"], "its worker has left, or has not been heard of for 10s");
    assert_eq!(events.last().unwrap()["devices"], 3);
    assert!(said.contains("from other machines changed nothing: late, sent twice, or not signed"), "{said}");
    let record = Record::of(&sandbox);
    let twice = "SELECT hash FROM iterations WHERE purpose = 'screening' AND outcome = 'measured' GROUP BY hash HAVING COUNT(*) > 1";
    assert_eq!(record.ask(twice), [""; 0], "a variant was screened twice");
    assert_eq!(record.ask("SELECT id FROM iterations WHERE ended_at IS NULL"), [""; 0]);
    assert_eq!(record.ask("SELECT id FROM iterations WHERE outcome = 'crashed'"), [""; 0], "no variant is blamed");
    let [home, first, last] = [None, Some("rack/fake:1"), Some("rack/fake:2")].map(|lane| screened(&record, lane));
    assert!(first > 0 && last > first && home > 0, "{home}, {first}, {last}");
    drop(two);
}

#[test]
fn a_worker_that_lies_is_left_out_and_what_it_has_screened_is_screened_again() {
    let Some(server) = Server::start() else { return };
    let sandbox = project(&[]);
    let liar = FleetWorker::start_liar(&sandbox, &server, "fake:1", "slow");
    trust(&sandbox, &[liar.key()]);
    let url = server.url();
    let mut command =
        sandbox.command(&[&START[..], &["--nats", &url, "--seed", "1", "--budget", "12s", "--no-early-stop"]].concat());
    // The liar is far ahead when home has checked its first results.
    command.env("OPTLOOP_FAKE_SCREENING_MS", "400");
    let (status, events, said) = Running::spawn(command).end();
    assert!(status.success(), "{said}");
    let left_out = events.iter().find(|event| event["event"] == "device_left_out").expect("the liar was not left out");
    assert_eq!(left_out["reason"], "the first device has twice found something else");
    let record = Record::of(&sandbox);
    let mut lied = record.ask("SELECT hash FROM iterations WHERE lane = 'rack/fake:1'");
    let again = "SELECT i.hash FROM iterations i JOIN iterations p ON p.id = i.parent_id AND p.hash = i.hash
                 WHERE i.purpose = 'screening' AND i.lane IS NULL AND i.outcome = 'measured'";
    let mut again = record.ask(again);
    lied.sort();
    again.sort();
    assert!(!lied.is_empty() && lied == again, "{lied:?}, {again:?}");
}

#[test]
fn a_worker_that_calls_wrong_kernels_right_is_left_out_before_it_screens() {
    let Some(server) = Server::start() else { return };
    let sandbox = project(&[]);
    let liar = FleetWorker::start_liar(&sandbox, &server, "fake:1", "right");
    trust(&sandbox, &[liar.key()]);
    let url = server.url();
    let (status, events, said) =
        Running::start(&sandbox, &[&START[..], &["--nats", &url, "--seed", "1", "--iterations", "6"]].concat()).end();
    assert!(status.success(), "{said}");
    let left_out = events.iter().find(|event| event["event"] == "device_left_out").expect("the liar was not left out");
    assert_eq!(left_out["reason"], "a kernel that does not write the output of s64 is right there");
    assert_eq!(screened(&Record::of(&sandbox), Some("rack/fake:1")), 0);
}

#[test]
fn a_killed_session_resumes_on_its_fleet() {
    let Some(server) = Server::start() else { return };
    let sandbox = project(&[]);
    let worker = FleetWorker::start(&sandbox, &server, "fake:1");
    trust(&sandbox, &[worker.key()]);
    let url = server.url();
    let running =
        Running::start(&sandbox, &[&START[..], &["--nats", &url, "--seed", "1", "--iterations", "24"]].concat());
    let is_half = |event: &Value| event["event"] == "iteration" && event["finished"].as_u64() >= Some(12);
    while !is_half(&running.next().expect("the session ends by itself")) {}
    running.kill();
    let before = Record::of(&sandbox);
    sandbox.succeeds(&["resume", "--nats", &url]);
    let record = Record::of(&sandbox);
    record.check();
    let of = |record: &Record| screened(record, Some("rack/fake:1"));
    assert!(0 < of(&before) && of(&before) < of(&record), "{}, {}", of(&before), of(&record));
    let listed: Value = serde_json::from_str(&sandbox.succeeds(&["workers", "--nats", &url, "--json"])).unwrap();
    assert_eq!(listed[0]["host"], "rack");
    assert_eq!([&listed[0]["serves_you"], &listed[0]["is_trusted"], &listed[0]["is_same_build"]], [true; 3]);
}

/// Each example starts a worker, with this test's server, device and key.
#[test]
fn the_examples_start_workers() {
    let Some(server) = Server::start() else { return };
    let sandbox = project(&[]);
    let key = sandbox.succeeds(&["workers", "--key"]);
    let program = env!("CARGO_BIN_EXE_optloop");
    for file in ["optloop-worker@.service", "workers.sbatch", "workers.yaml", "compose.yaml"] {
        let text = std::fs::read_to_string(format!("{}/examples/fleet/{file}", env!("CARGO_MANIFEST_DIR"))).unwrap();
        let command = text.lines().find(|line| line.contains("optloop") && line.contains("--nats")).unwrap();
        let words = command.replace(['[', ']', ',', '"'], " ").replace("${KEY}", "KEY");
        let from = words.find(" worker ").unwrap_or_else(|| panic!("{file}: {command}"));
        let mut words: Vec<String> =
            shlex::split(&words[from..].replace("$(hostname)-${SLURM_ARRAY_TASK_ID:-0}", "rack-0")).unwrap();
        for option in ["--nats", "--device", "--trust"] {
            let place =
                words.iter().position(|word| word == option).unwrap_or_else(|| panic!("{file} has no {option}"));
            words[place + 1] = match option {
                "--nats" => server.url(),
                "--device" => "fake".to_owned(),
                _ => key.trim().to_owned(),
            };
        }
        let worker = FleetWorker::run(&sandbox, program, &words);
        assert_eq!(worker.key().len(), 64, "{file}");
    }
}

#[test]
fn what_a_fleet_cannot_do_is_said_in_one_sentence() {
    let sandbox = project(&[]);
    let start = |more: &[&str]| sandbox.fails(&[&START[..5], more].concat());
    let nowhere = ["--nats", "nats://127.0.0.1:1"];
    insta::assert_snapshot!(start(&nowhere), @"1 error: nats://127.0.0.1:1 cannot be reached: IO error: Connection refused (os error 111)");
    let with_password = start(&["--nats", "nats://me:secret@127.0.0.1:1"]);
    insta::assert_snapshot!(with_password, @"2 error: --nats takes no name and password: use --nats-credentials FILE");
    let worker = |more: &[&str]| sandbox.fails(&[&["worker", "--device", "fake"], &nowhere[..], more].concat());
    insta::assert_snapshot!(worker(&[]), @"2 error: name whom to serve: --trust KEY, which `optloop workers --key` prints on the machine of the session");
    insta::assert_snapshot!(worker(&["--trust", "me"]), @"2 error: --trust: `me` is not a key: it has 64 hexadecimal digits, as `optloop workers --key` prints");
    insta::assert_snapshot!(sandbox.fails(&["workers"]), @"2 error: name the server: --nats nats://HOST:4222");
}
