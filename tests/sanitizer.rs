//! Candidates of a real GPU are checked on a virtual one. No GPU is needed to test that: the PTX is the same.

use std::path::{Path, PathBuf};
use std::time::Duration;

use optloop::catalog::Project;
use optloop::config::Config;
use optloop::domain::code::artifact::Artifact;
use optloop::domain::corpus::CorpusEntry;
use optloop::domain::device::DeviceInfo;
use optloop::domain::measurement::check::Check;
use optloop::domain::measurement::evaluation::Outcome;
use optloop::domain::variant::{Params, VariantHash};
use optloop::domain::workload::Case;
use optloop::runner::compile::Compiler;
use optloop::runner::device::DeviceChoice;
use optloop::runner::render::render;
use optloop::runner::sanitizer::{Sanitized, Sanitizer, Subject};
use optloop::runner::toolchain::Toolchain;
use optloop::runner::worker::{StepTimeouts, Worker};

const STEP_TIMEOUT: Duration = Duration::from_secs(60);

fn exe() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_optloop"))
}

async fn described(name: &str) -> DeviceInfo {
    let choice: DeviceChoice = name.parse().unwrap();
    Worker::start(exe(), &choice, STEP_TIMEOUT).await.unwrap().info().clone()
}

async fn sanitizer() -> Sanitizer {
    Sanitizer::start(exe(), &described("virtual:h200").await, StepTimeouts::from(STEP_TIMEOUT)).await.unwrap()
}

/// Returns a kernel of the repository's corpus, compiled for an H200.
fn compiled(name: &str) -> (CorpusEntry, Artifact) {
    let project = Project::find(Some(Path::new(env!("CARGO_MANIFEST_DIR")))).unwrap();
    let entry = project.corpus(&[name.to_owned()]).unwrap().pop().unwrap();
    let constants = entry.family.specialization(entry.case());
    let variant = render(&entry.family, &constants, entry.workload.dtype, &Params::new()).unwrap();
    let options = ["--std=c++17".to_owned()];
    let compiler = Compiler::new(exe(), Toolchain::find_or_fetch().unwrap(), "sm_90a", &options, STEP_TIMEOUT).unwrap();
    (entry, compiler.compile(&variant).unwrap())
}

async fn sanitized(sanitizer: &mut Sanitizer, name: &str) -> Sanitized {
    let (entry, artifact) = compiled(name);
    let (family, workload, case) = (&entry.family, &entry.workload, entry.case());
    let hash = VariantHash::of(name);
    let subject = Subject { family, params: &Params::new(), hash: &hash, artifact: &artifact, workload, case };
    sanitizer.check(subject, None, Config::default().measuring(), 7).await.unwrap()
}

/// A missing barrier may not show on a GPU for years. The check by order finds it at once.
#[tokio::test]
async fn a_race_is_found_and_an_honest_kernel_passes() {
    let mut sanitizer = sanitizer().await;
    let (plain, _) = compiled("plain");
    let passed = sanitized(&mut sanitizer, "plain").await;
    assert!(passed.is_right_on(plain.case()), "{passed:?}");
    // Nothing is known about another case, even of the same source.
    let other = Case {
        dims: plain.case().dims.iter().map(|(name, size)| (name.clone(), size + 1)).collect(),
        ..plain.case().clone()
    };
    assert!(!passed.is_right_on(&other), "{passed:?}");
    let Sanitized::Failed(outcome) = sanitized(&mut sanitizer, "race").await else { panic!("the race passed") };
    assert_eq!((outcome.kind(), outcome.check()), ("wrong", Some(Check::Sanitizer)));
    let message = outcome.message().unwrap();
    assert!(message.starts_with("on the virtual H200: ") && message.contains(" in kernel attend"), "{message}");
    // The sanitizer goes on after a kernel that failed.
    let after = sanitized(&mut sanitizer, "tensor-cores").await;
    assert!(matches!(after, Sanitized::Passed { .. }), "{after:?}");
}

/// A kernel that the virtual GPU cannot execute, or an architecture without a virtual GPU, is not a fault of the
/// kernel.
#[tokio::test]
async fn an_unsupported_kernel_is_skipped_with_a_reason() {
    let unknown = DeviceInfo { arch: "sm_120a".to_owned(), ..described("virtual:h200").await };
    let Err(reason) = Sanitizer::start(exe(), &unknown, StepTimeouts::from(STEP_TIMEOUT)).await else {
        panic!("there is no virtual GPU of this architecture")
    };
    insta::assert_snapshot!(reason, @"there is no virtual GPU of the architecture sm_120a");
}

/// NVRTC 13.0 stores an FP16 number byte by byte with an instruction that converts it to an integer (H200, 2026-11-22).
#[test]
fn a_result_that_is_wrong_only_on_the_gpu_is_attributed_to_the_machine_code() {
    let wrong = Outcome::Wrong { case: "c".into(), check: Check::Accuracy, message: "relative error 1e-2".to_owned() };
    assert!(wrong.is_wrong_result());
    let outcome = wrong.of_machine_code();
    assert_eq!(outcome.check(), Some(Check::MachineCode));
    insta::assert_snapshot!(outcome.message().unwrap(), @"relative error 1e-2; the virtual GPU computes the right output from the same PTX, so the machine code does not do what the PTX says");
    let crashed = Outcome::Crashed { case: "c".into(), message: "illegal address".to_owned(), line: None };
    assert_eq!(crashed.clone().of_machine_code(), crashed);
}
