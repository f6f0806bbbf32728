//! A device under test and its kernels.

use std::path::PathBuf;
use std::time::Duration;

use optloop::domain::code::artifact::Artifact;
use optloop::domain::compute::Compute;
use optloop::domain::device::regime::Regime;
use optloop::domain::family::Family;
use optloop::domain::family::plan::LaunchPlan;
use optloop::domain::measurement::evaluation::{Evaluation, Outcome};
use optloop::domain::measurement::settings::Measuring;
use optloop::domain::measurement::verdict::Policy;
use optloop::domain::op::{CheckLimits, Dims, Dtype, OpSource};
use optloop::domain::statistics::sampling::Sampling;
use optloop::domain::variant::{Params, Variant, VariantHash};
use optloop::domain::workload::{Case, Tolerance};
use optloop::ops;
use optloop::runner::ablation::Lined;
use optloop::runner::compile::Compiler;
use optloop::runner::device::DeviceChoice;
use optloop::runner::messages::{AcceptanceRequest, Accepted, CaseRequest, EnterRequest, EvaluateRequest, PlannedCase};
use optloop::runner::render::render;
use optloop::runner::self_check;
use optloop::runner::toolchain::Toolchain;
use optloop::runner::worker::{AskError, Worker, WorkerError};

const TOLERANCE: Tolerance = Tolerance { relative_l2: 1e-3, worst_row: 4e-3 };

const MEASURING: Measuring = Measuring {
    policy: Policy {
        min_speedup: 1.01,
        screening: Sampling { min_samples: 10, max_samples: 10, relative_error: 0.005, max_ns: 1e9 },
        comparison: Sampling { min_samples: 30, max_samples: 30, relative_error: 0.002, max_ns: 1e10 },
        group_size: 10,
    },
    min_sample_ns: 200_000.0,
    baseline_samples: 10,
    oracle_flop: 1e10,
    model_flop: 1e9,
};

/// A worker on a device, with a compiler for it.
pub struct Bench {
    pub worker: Worker,
    compiler: Compiler,
}

/// A small case: one block of rows plus one row, in two heads.
pub fn small() -> Case {
    case("small", 1, Regime::Warm)
}

/// The same with so many heads that few sets of buffers fit on an H200, so it can be timed cold.
pub fn cold() -> Case {
    case("cold", 64, Regime::Cold)
}

/// Returns the family and one of its configurations.
fn faulty(fault: i64, shared_bytes: i64) -> (Family, Params) {
    let family = Family::parse(include_str!("family.toml"), include_str!("kernel.cu.tera").to_owned()).unwrap();
    let mut params = family.defaults();
    params.insert("FAULT".to_owned(), fault);
    params.insert("SHARED".to_owned(), shared_bytes);
    (family, params)
}

fn case(name: &str, batch: i64, regime: Regime) -> Case {
    let dims = [("B", batch), ("H", 2), ("Sq", 33), ("Sk", 33), ("D", 16), ("CAUSAL", 1)];
    Case { name: name.into(), dims: dims.map(|(name, value)| (name.to_owned(), value)).into(), regime }
}

fn without_family(source: &str) -> Variant {
    let hash = VariantHash::of(source);
    Variant { family: String::new(), params: [].into_iter().collect(), hash, source: source.to_owned() }
}

impl Bench {
    /// Starts a worker on a device.
    pub async fn on(device: &str) -> Self {
        let exe =
            std::env::var_os("OPTLOOP_EXE").map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_optloop")), PathBuf::from);
        let choice = if device == "fake" { DeviceChoice::Fake(0) } else { device.parse().unwrap() };
        // A virtual GPU detects by itself that a kernel never ends.
        let patience = Duration::from_secs(if device.starts_with("virtual") { 60 } else { 5 });
        let mut worker = Worker::start(exe.clone(), &choice, patience).await.unwrap();
        let options = ["--std=c++17".to_owned()];
        let compiler = Compiler::new(
            exe,
            Toolchain::find_or_fetch().unwrap(),
            &worker.info().arch,
            &options,
            Duration::from_secs(60),
        )
        .unwrap();
        self_check::arm(&mut worker, &compiler).await.unwrap();
        Self { worker, compiler }
    }

    /// Compiles a source that belongs to no family.
    pub fn compile(&self, source: &str) -> Artifact {
        self.compiler.compile(&without_family(source)).unwrap()
    }

    /// Compiles a source that belongs to no family, with its lines.
    pub async fn lined(&self, source: &str) -> Lined {
        Lined::of(self.compiler.clone(), &without_family(source)).await.unwrap()
    }

    fn variant(&self, case: &Case, fault: i64, shared_bytes: i64) -> (Artifact, LaunchPlan) {
        let (family, params) = faulty(fault, shared_bytes);
        let variant = render(&family, &family.specialization(case), Dtype::F16, &params).unwrap();
        (self.compiler.compile(&variant).unwrap(), self.plan(case, fault, shared_bytes))
    }

    fn plan(&self, case: &Case, fault: i64, shared_bytes: i64) -> LaunchPlan {
        let (family, params) = faulty(fault, shared_bytes);
        let op = ops::find("attention").unwrap();
        family.plan(&params, case, op, Dtype::F16, self.worker.info()).unwrap()
    }

    /// Runs the acceptance checks on the kernel with a fault, on a case and every hidden shape near it.
    pub async fn accept(&mut self, case: Case, fault: i64) -> Result<Accepted, Outcome> {
        let (artifact, plan) = self.variant(&case, fault, 0);
        let hidden = hidden(&case).into_iter().map(|dims| {
            let case = Case { dims, ..case.clone() };
            PlannedCase { plan: self.plan(&case, fault, 0), case }
        });
        let request = AcceptanceRequest {
            artifact,
            op: OpSource::BuiltIn("attention".to_owned()),
            dtype: Dtype::F16,
            compute: Compute::Dtype,
            tolerance: TOLERANCE,
            accuracy: TOLERANCE,
            hidden: hidden.collect(),
            far: Vec::new(),
            probes: true,
            only: None,
            within_s: None,
            case: PlannedCase { case, plan },
            measuring: MEASURING,
            input_seed: 7,
        };
        match self.worker.accept(request).await {
            Ok(acceptance) => Ok(acceptance),
            Err(AskError::Variant(outcome)) => Err(outcome),
            Err(AskError::Machine(error)) => panic!("{error}"),
        }
    }

    /// Evaluates the kernel with a fault on the small case.
    pub async fn evaluate(&mut self, fault: i64, shared_bytes: i64, incumbent_ns: Option<f64>) -> Evaluation {
        self.evaluate_on(small(), fault, shared_bytes, incumbent_ns).await.unwrap()
    }

    /// Evaluates the kernel with a fault on a case.
    pub async fn evaluate_on(
        &mut self,
        case: Case,
        fault: i64,
        shared_bytes: i64,
        incumbent_ns: Option<f64>,
    ) -> Result<Evaluation, WorkerError> {
        let (artifact, plan) = self.variant(&case, fault, shared_bytes);
        self.evaluate_plan(case, artifact, plan, incumbent_ns).await
    }

    /// Evaluates the default configuration of a family on a case.
    pub async fn evaluate_family(&mut self, family: &Family, case: Case) -> Evaluation {
        let (params, op) = (family.defaults(), ops::find("attention").unwrap());
        let variant = render(family, &family.specialization(&case), Dtype::F16, &params).unwrap();
        let artifact = self.compiler.compile(&variant).unwrap();
        let plan = family.plan(&params, &case, op, Dtype::F16, self.worker.info()).unwrap();
        self.evaluate_plan(case, artifact, plan, None).await.unwrap()
    }

    async fn evaluate_plan(
        &mut self,
        case: Case,
        artifact: Artifact,
        plan: LaunchPlan,
        incumbent_ns: Option<f64>,
    ) -> Result<Evaluation, WorkerError> {
        let request = EvaluateRequest {
            artifact,
            op: OpSource::BuiltIn("attention".to_owned()),
            dtype: Dtype::F16,
            compute: Compute::Dtype,
            tolerance: TOLERANCE,
            cases: vec![CaseRequest { case, plan, incumbent_ns, scaled: None }],
            measuring: MEASURING,
            input_seed: 7,
            later_input_seed: None,
            own_seed: 8,
            within_s: None,
            drops_slow: false,
            explain: false,
        };
        self.worker.evaluate(request).await
    }

    /// Makes a participant of the kernel with a fault.
    pub fn participant(&self, case: Case, fault: i64) -> EnterRequest {
        let (artifact, plan) = self.variant(&case, fault, 0);
        EnterRequest {
            artifact,
            op: OpSource::BuiltIn("attention".to_owned()),
            dtype: Dtype::F16,
            compute: Compute::Dtype,
            tolerance: TOLERANCE,
            case,
            plan,
            measuring: MEASURING,
            input_seed: 7,
        }
    }
}

/// Returns shapes that are not in the workload, of little work. Their kernel is that of the case.
pub fn hidden(case: &Case) -> Vec<Dims> {
    let least = CheckLimits { flop: 1e6, bytes: 1e6 };
    let (family, _) = faulty(0, 0);
    let mut hidden = ops::find("attention").unwrap().hidden(&case.dims, least, 5);
    hidden.retain(|dims| family.constants.iter().all(|constant| dims[constant] == case.dims[constant]));
    // The family does not name the heads of keys, so it takes no other number of them.
    hidden.retain(|dims| !dims.contains_key("Hkv"));
    hidden
}
