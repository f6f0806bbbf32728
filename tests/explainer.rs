//! Explains the time of a shipped kernel: the modelled time without each cause of lost time. `cargo test --test
//! integration explainer:: -- --nocapture` prints the shares of each cause.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use optloop::catalog::Project;
use optloop::config::Config;
use optloop::domain::code::profile::{Cause, Profile};
use optloop::domain::device::DeviceInfo;
use optloop::domain::variant::{Params, VariantHash};
use optloop::domain::workload::Workload;
use optloop::runner::compile::Compiler;
use optloop::runner::explainer::{Explained, Explainer};
use optloop::runner::render::render;
use optloop::runner::sanitizer::Subject;
use optloop::runner::toolchain::Toolchain;
use optloop::runner::worker::StepTimeouts;

const STEP_TIMEOUT: Duration = Duration::from_secs(60);

/// The tools to explain configurations on the virtual GPU of an H200.
struct Lab {
    project: Project,
    workload: Workload,
    compiler: Compiler,
    explainer: Explainer,
}

impl Lab {
    async fn open() -> Self {
        let exe = PathBuf::from(env!("CARGO_BIN_EXE_optloop"));
        let project = Project::find(Some(Path::new(env!("CARGO_MANIFEST_DIR")))).unwrap();
        let options = Config::load(project.root()).unwrap().compile.options;
        let toolchain = Toolchain::find_or_fetch().unwrap();
        let device = DeviceInfo::of_arch("sm_90a").unwrap();
        Self {
            workload: project.workload("attention-fp16-d64").unwrap(),
            project,
            compiler: Compiler::new(exe.clone(), toolchain, "sm_90a", &options, STEP_TIMEOUT).unwrap(),
            explainer: Explainer::start(exe, &device, StepTimeouts::from(STEP_TIMEOUT)).await.unwrap(),
        }
    }

    /// Explains a family on a case, with `changes` to its default configuration.
    async fn explain(&mut self, family: &str, changes: &[(&str, i64)], case: &str) -> Explained {
        let family = self.project.families().unwrap().sound.into_iter().find(|it| it.name == family).unwrap();
        let workload = &self.workload;
        let case = workload.cases.iter().find(|it| it.name == case).unwrap();
        let mut params: Params = family.defaults();
        params.extend(changes.iter().map(|&(name, value)| (name.to_owned(), value)));
        let variant = render(&family, &family.specialization(case), workload.dtype, &params).unwrap();
        let artifact = self.compiler.compile(&variant).unwrap();
        let hash = VariantHash::of(&family.name);
        let subject = Subject { family: &family, params: &params, hash: &hash, artifact: &artifact, workload, case };
        let started = Instant::now();
        let explained = self.explainer.explain(subject, Config::default().measuring(), 7).await.unwrap();
        println!("{} {changes:?} on {}: {:.1} s", family.name, case.name, started.elapsed().as_secs_f64());
        if let Explained::Profile(profile) = &explained {
            print(profile);
        }
        explained
    }

    async fn profile(&mut self, family: &str, changes: &[(&str, i64)], case: &str) -> Profile {
        match self.explain(family, changes, case).await {
            Explained::Profile(profile) => profile,
            Explained::Skipped(reason) => panic!("{reason}"),
        }
    }
}

fn print(profile: &Profile) {
    let launch = profile.longest().unwrap();
    println!("  {:.2} us, limiter {}", profile.modelled_ns() / 1e3, launch.limiter);
    println!("  busiest warp {:.2}, redundancy {:.1?}", launch.busiest_warp, launch.redundancy());
    for cause in Cause::ALL {
        println!("  {:>16} {:5.1}%", cause.name(), 100.0 * lost(profile, cause));
    }
}

/// Returns the share of the modelled time that is lost to a cause.
fn lost(profile: &Profile, cause: Cause) -> f64 {
    1.0 - profile.ns_without(cause).unwrap() / profile.modelled_ns()
}

/// One thread for each row, which loads 16 bytes at a time: rows of 128 bytes begin in the same bank.
const VECTORS: [(&str, i64); 4] = [("VEC", 8), ("KEYS", 1), ("THREADS", 64), ("BR", 64)];

#[tokio::test]
async fn rows_without_padding_lose_their_time_to_bank_conflicts() {
    let mut lab = Lab::open().await;
    let conflicts = lab.profile("attention-scalar", &[&VECTORS[..], &[("PAD", 0)]].concat(), "b8h8s256").await;

    assert!(lost(&conflicts, Cause::BankConflicts) > 0.2);
    let padded = lab.profile("attention-scalar", &[&VECTORS[..], &[("PAD", 8)]].concat(), "b8h8s256").await;
    assert!(lost(&padded, Cause::BankConflicts) < 0.05);
    // The modelled gain without conflicts equals the gain of padding, apart from the cost of padding.
    let supposed = conflicts.ns_without(Cause::BankConflicts).unwrap() / padded.modelled_ns();
    assert!((0.95..1.05).contains(&supposed), "{supposed:.2}");
}

#[tokio::test]
async fn a_case_that_is_too_large_is_explained_by_a_sample_of_its_blocks() {
    let mut lab = Lab::open().await;
    let naive = lab.profile("attention-scalar", &[], "b8h8s256").await;
    assert!(naive.is_sampled() && naive.checked_on.is_some());
    let tensor_cores = lab.profile("attention-mma", &[], "b8h8s256").await;
    assert!(tensor_cores.launches[0].flop_tensor > 0);
    // Tensor cores do not wait for products, and their kernels need few multiply-adds.
    assert!(lost(&tensor_cores, Cause::Products) < 0.5);
    assert!(lost(&tensor_cores, Cause::BankConflicts) < 0.05, "its tiles are swizzled");
    // Blocks that take their work from a counter cannot be sampled: those of the sample would do all of it.
    let bulk_copies =
        lab.profile("attention-wgmma", &[("SCHEDULE", 0), ("SHARED_OUT", 1), ("GROUP", 8)], "b8h8s256").await;
    assert!(lost(&bulk_copies, Cause::UnevenBlocks) < 0.5);
    assert!(bulk_copies.launches[0].redundancy().unwrap() > 0.9, "bulk copies count as loads");
    for profile in [&naive, &tensor_cores, &bulk_copies] {
        for cause in Cause::ALL {
            assert!((0.0..1.0).contains(&lost(profile, cause)), "{cause}: {}", lost(profile, cause));
        }
    }
}
