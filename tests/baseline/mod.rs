//! Baseline programs: one that behaves, and every way to fail. These tests need no GPU and no PyTorch.

mod expressions;
mod graph_kernels;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use optloop::domain::code::launched::LaunchedKernel;
use optloop::domain::compute::Compute;
use optloop::domain::device::TimeSource;
use optloop::domain::device::regime::Regime;
use optloop::domain::op::{Dtype, Op};
use optloop::domain::record::Baseline;
use optloop::domain::statistics::sampling::Sampling;
use optloop::domain::workload::Case;
use optloop::error::Result;
use optloop::ops;
use optloop::runner::baseline::{Backend, BaselineProcess, BaselineProgram, Method, PendingInputs, Ready, fastest};
use optloop::runner::confine::Reach;
use tempfile::TempDir;

/// So many samples of each backend, or 20 of one that is far behind.
fn samples(most: usize) -> Sampling {
    Sampling { min_samples: 20, max_samples: most, relative_error: 0.0, max_ns: f64::INFINITY }
}

/// A project with the fake program in it.
struct Project(TempDir);

impl Project {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let fake = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/baseline/fake.sh");
        fs::copy(fake, folder.path().join("fake.sh")).unwrap();
        Self(folder)
    }

    fn program(&self, command: &[&str]) -> BaselineProgram {
        let command = command.iter().map(|&word| word.to_owned()).collect();
        let exe = env!("CARGO_BIN_EXE_optloop").into();
        let (folder, timeout) = (self.0.path().to_owned(), Duration::from_secs(120));
        let (copies, cache, env, own) = (None, "tests".to_owned(), Vec::new(), Arc::new(TempDir::new().unwrap()));
        let added = Reach { readable: Vec::new(), writable: vec![folder.clone()], network: None };
        BaselineProgram {
            exe,
            command,
            folder,
            copies,
            cache,
            own,
            env,
            added,
            device: 0,
            min_sample_ns: 200_000.0,
            timeout,
        }
    }

    async fn start(&self, fault: &str) -> Result<BaselineProcess> {
        self.program(&["sh", "fake.sh", fault]).start().await
    }

    /// Returns the program's requests, in order.
    fn sampled(&self) -> String {
        fs::read_to_string(self.0.path().join("sampled")).unwrap_or_default().trim_end().replace('\n', ", ")
    }
}

fn attention() -> &'static dyn Op {
    ops::find("attention").unwrap()
}

/// With one key, attention returns the values.
fn one_key() -> Case {
    let dims = [("B", 1), ("H", 8), ("Sq", 1), ("Sk", 1), ("D", 64), ("CAUSAL", 0)];
    let dims = dims.map(|(name, size)| (name.to_owned(), size)).into_iter().collect();
    Case { name: "one-key".into(), dims, regime: Regime::Warm }
}

async fn prepare(process: &mut BaselineProcess) -> Result<Vec<Backend>> {
    process.prepare(attention(), Dtype::F16, &one_key(), 50 << 20, 1).await
}

#[tokio::test]
async fn a_program_that_offers_it_compiles_for_each_case_while_there_is_time() {
    let compiled = async |fault: &str, within: Duration| {
        let project = Project::new();
        let mut process = project.start(fault).await.unwrap();
        process.compile_for(attention(), Dtype::F16, &[one_key(), one_key()], 50 << 20, within).await;
        prepare(&mut process).await.unwrap();
        project.sampled()
    };
    assert_eq!(compiled("compiles", Duration::from_secs(600)).await, "compiled for 1 keys, compiled for 1 keys");
    assert_eq!(compiled("compiles", Duration::ZERO).await, "");
    assert_eq!(compiled("", Duration::from_secs(600)).await, "", "it was not asked");
}

async fn ready(project: &Project, fault: &str) -> BaselineProcess {
    let mut process = project.start(fault).await.unwrap();
    prepare(&mut process).await.unwrap();
    process
}

#[tokio::test]
async fn working_backends_report_their_error_and_others_the_reason() {
    let project = Project::new();
    let mut process = project.start("").await.unwrap();
    assert_eq!(process.hello().device, "fake device (no kernel was executed)");
    assert_eq!((process.hello().time_source, process.hello().versions["sh"].as_str()), (TimeSource::Modelled, "any"));
    assert!(process.pid().is_some());

    let backends = prepare(&mut process).await.unwrap();
    let (grid, block) = ([2, 3, 1], [64, 1, 1]);
    let kernel = LaunchedKernel { name: "one[31m".to_owned(), grid, block, shared_bytes: None, registers: None };
    let unknown = Ready {
        launches_per_sample: 40,
        eager_ns: None,
        relative_l2: None,
        kernels: Vec::new(),
        method: Method::Graph,
        correctness: None,
        wrong: None,
        takes: Vec::new(),
    };
    assert_eq!(
        backends[0].ready,
        Ok(Ready {
            launches_per_sample: 20,
            eager_ns: Some(61_000.0),
            relative_l2: Some(0.0),
            kernels: vec![kernel],
            ..unknown.clone()
        }),
        "it got the inputs, and its output was read before the files were removed"
    );
    // A kernel without blocks is none.
    assert_eq!(backends[1].ready, Ok(unknown));
    let errors: Vec<String> =
        backends[2..].iter().map(|b| format!("{}: {}", b.name, b.ready.as_ref().unwrap_err())).collect();
    insta::assert_snapshot!(errors.join("\n"), @"
    broken: its scores would take 32 GiB
    wrong: it computes a different result: its relative error is 1.40e0
    short: its output has 6 bytes, not 1024
    missing: its output `nothing` cannot be read: No such file or directory (os error 2)
    elsewhere: its output `../right` is a path, not the name of a file in the output folder
    countless: it does not report the number of launches per sample
    timeless: it reported an invalid eager time of -1 ns
    ");

    let drawing = |process: &BaselineProcess| PendingInputs::begin(process, attention(), Dtype::F16, &one_key(), 1);
    let drawn = drawing(&process);
    let one = process.prepare_one("quick", attention(), Dtype::F16, &one_key(), 50 << 20, drawn).await;
    assert_eq!(one.unwrap().launches_per_sample, 40);
    let drawn = drawing(&process);
    let none = process.prepare_one("fastest", attention(), Dtype::F16, &one_key(), 50 << 20, drawn).await;
    insta::assert_snapshot!(none.unwrap_err(), @"it has no backend `fastest`");
}

/// A program that does not know the key multiplies as it always did, which is no baseline for TF32.
#[tokio::test]
async fn a_program_without_compute_modes_is_refused_where_one_is_asked_for() {
    let project = Project::new();
    let mut process = project.start("").await.unwrap().computing(Compute::Tf32);
    insta::assert_snapshot!(prepare(&mut process).await.unwrap_err(), @r#"it must answer "compute": "tf32" to show that it multiplies in this mode, and says nothing (`optloop docs baselines`)"#);
}

#[tokio::test]
async fn backends_are_sampled_in_turns_and_the_fastest_comes_first() {
    let project = Project::new();
    let mut process = project.start("").await.unwrap();
    let backends = prepare(&mut process).await.unwrap();
    let found = fastest(&mut process, &one_key(), &backends, &samples(25)).await.unwrap();
    process.release().await.unwrap();
    let order = |found: &[Baseline]| -> Vec<(String, usize)> {
        found.iter().map(|found| (found.name.clone(), found.timing.samples_ns.len())).collect()
    };
    let expected = |quick| [("quick".to_owned(), quick), ("slow".to_owned(), 20)];
    assert_eq!(order(&found), expected(25), "one is far behind after two turns");
    assert!((5000.0..5012.0).contains(&found[0].timing.median_ns) && found[0].timing.launches_per_sample == 40);
    insta::assert_snapshot!(project.sampled(), @"slow 10, quick 10, quick 10, slow 10, quick 5, released");
    let backends = prepare(&mut process).await.unwrap();
    let found =
        fastest(&mut process, &one_key(), &backends, &Sampling { relative_error: 0.01, ..samples(25) }).await.unwrap();
    assert_eq!(order(&found), expected(20), "the other one is known precisely");
}

#[tokio::test]
async fn a_backend_that_fails_later_does_not_affect_the_others() {
    let project = Project::new();
    let mut process = project.start("quick-fails").await.unwrap();
    let backends = prepare(&mut process).await.unwrap();
    let found = fastest(&mut process, &one_key(), &backends, &samples(20)).await.unwrap();
    assert_eq!(found.iter().map(|found| found.name.as_str()).collect::<Vec<_>>(), ["slow"]);
    // The program itself reported this, so it is still running.
    insta::assert_snapshot!(process.sample("quick", 5).await.unwrap_err(), @"a launch failed");
    assert_eq!(process.sample("slow", 5).await.unwrap().samples_ns.len(), 5);
}

#[tokio::test]
async fn without_a_backend_that_runs_there_is_a_reason() {
    let project = Project::new();
    let mut process = ready(&project, "").await;
    let broken = [Backend { name: "broken".to_owned(), ready: Err("its scores would take 32 GiB".into()) }];
    let reason = fastest(&mut process, &one_key(), &broken, &samples(20)).await.unwrap_err();
    insta::assert_snapshot!(reason, @"broken: its scores would take 32 GiB");
    insta::assert_snapshot!(fastest(&mut process, &one_key(), &[], &samples(20)).await.unwrap_err(), @"it has no backend");
}

#[tokio::test]
async fn a_program_that_dies_is_reported_with_its_last_line() {
    let project = Project::new();
    let mut process = project.start("dies").await.unwrap();
    let backends = prepare(&mut process).await.unwrap();
    let reason = fastest(&mut process, &one_key(), &backends, &samples(100)).await.unwrap_err();
    insta::assert_snapshot!(reason, @"CUDA out of memory");
    assert_eq!(process.pid(), None, "the process has been dropped");
    insta::assert_snapshot!(process.release().await.unwrap_err(), @"CUDA out of memory");
    insta::assert_snapshot!(prepare(&mut process).await.unwrap_err(), @"CUDA out of memory");
}

#[tokio::test]
async fn invalid_times_are_refused() {
    let project = Project::new();
    for (fault, said) in [
        ("negative", "`quick` reported an invalid time of -1.5 ns"),
        ("zero", "`quick` reported an invalid time of 0 ns"),
        ("nan", "it sent invalid data: expected value at line 1 column 17"),
    ] {
        let mut process = ready(&project, fault).await;
        assert_eq!(process.sample("quick", 1).await.unwrap_err(), said.into());
    }
    let mut process = ready(&project, "few").await;
    insta::assert_snapshot!(process.sample("quick", 10).await.unwrap_err(), @"`quick` returned 1 instead of 10 samples");
}

#[tokio::test]
async fn invalid_answers_of_a_program_are_refused_in_one_sentence() {
    let project = Project::new();
    let refused = async |fault: &str| project.start(fault).await.err().expect("it was accepted");
    insta::assert_snapshot!(refused("old").await, @"it speaks version 1 of the baseline protocol, not 2");
    insta::assert_snapshot!(refused("garbage").await, @"it sent invalid data: expected value at line 1 column 1");
    insta::assert_snapshot!(refused("nameless").await, @"it sent invalid data: missing field `device`");
    insta::assert_snapshot!(refused("refuses").await, @"there is no GPU number 7");
    insta::assert_snapshot!(refused("dies-at-once").await, @"No module named torch");
    let mut twins = project.start("twins").await.unwrap();
    insta::assert_snapshot!(prepare(&mut twins).await.unwrap_err(), @"it has two backends `a`");

    let command = async |command: &[&str]| project.program(command).start().await.err().expect("it ran");
    insta::assert_snapshot!(command(&["no-such-program"]).await, @"`no-such-program` cannot be run: No such file or directory (os error 2)");
    insta::assert_snapshot!(command(&["./fake"]).await, @"`./fake` cannot be run: No such file or directory (os error 2)");
    insta::assert_snapshot!(command(&["true"]).await, @"it exited without an error message");
    insta::assert_snapshot!(command(&[]).await, @"the command is empty");
}

#[tokio::test]
async fn a_program_that_never_answers_is_given_up() {
    let project = Project::new();
    let timeout = Duration::from_millis(20);
    let silent = BaselineProgram { timeout, ..project.program(&["sh", "fake.sh", "silent"]) };
    let reason = silent.start().await.err().expect("it answered");
    insta::assert_snapshot!(reason, @"it did not answer within 20ms (baseline.timeout)");
}

/// Otherwise the next request would get this answer.
#[tokio::test]
async fn a_question_that_is_given_up_ends_the_program() {
    let project = Project::new();
    let mut process = ready(&project, "hangs").await;
    tokio::select! {
        biased;
        _ = process.sample("quick", 10) => panic!("it answered"),
        () = tokio::task::yield_now() => {}
    }
    assert_eq!(process.pid(), None);
    insta::assert_snapshot!(process.sample("quick", 10).await.unwrap_err(), @"it was interrupted during an answer");
}
