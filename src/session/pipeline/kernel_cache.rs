//! The compiled kernels that later comparisons and commits need. The state knows the rest about them.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Context;

use crate::domain::code::artifact::Artifact;
use crate::domain::ids::IterationId;
use crate::domain::measurement::comparison::Role;
use crate::domain::measurement::evaluation::Measurement;
use crate::domain::variant::Variant;
use crate::runner::activity::{self, Limit};
use crate::runner::comparison::Entry;
use crate::runner::compile::Compiler;
use crate::runner::messages::CaseRequest;
use crate::runner::planning;
use crate::session::pipeline::Compiled;
use crate::session::setup::SessionSetup;
use crate::session::state::SessionState;
use crate::session::state::case_state::Candidate;
use crate::store::Store;

/// A compiled variant with its launch plans.
pub(in crate::session) struct Kernel {
    pub variant: Variant,
    pub artifact: Artifact,
    pub requests: Vec<CaseRequest>,
}

/// A kernel on a case, with its measurement there.
#[derive(Clone)]
pub(in crate::session) struct CandidateKernel {
    pub kernel: Arc<Kernel>,
    pub candidate: Candidate,
    pub request: CaseRequest,
}

impl Kernel {
    /// Makes a kernel from what was compiled. None if it did not compile or has no plan.
    pub fn of(compiled: &Compiled) -> Option<Arc<Self>> {
        Some(Arc::new(Self {
            variant: compiled.proposal.variant.clone(),
            artifact: compiled.artifact.as_ref().ok()?.clone(),
            requests: compiled.cases.as_ref().ok()?.clone(),
        }))
    }

    /// Makes a candidate from an iteration's measurement.
    pub fn candidate(&self, iteration: IterationId, measurement: Measurement) -> Candidate {
        let Variant { family, params, hash, .. } = self.variant.clone();
        Candidate { iteration, family, params, hash, measurement }
    }
}

impl CandidateKernel {
    /// Makes a participant of a kernel that was measured on a case.
    pub fn new(kernel: &Arc<Kernel>, candidate: Candidate) -> anyhow::Result<Self> {
        let case = &candidate.measurement.case;
        let request = kernel.requests.iter().find(|request| request.case.name == *case).cloned();
        let request = request.with_context(|| format!("Failed to find the launch plan of a candidate on {case}"))?;
        Ok(Self { kernel: Arc::clone(kernel), candidate, request })
    }

    /// Returns the case's name.
    pub fn case(&self) -> &str {
        &self.request.case.name
    }

    /// Makes its entry in a comparison.
    pub fn entry(&self, role: Role) -> Entry<'_> {
        let variant = &self.kernel.variant;
        Entry {
            role,
            name: format!("{} {}", variant.family, variant.hash.short()),
            iteration: Some(self.candidate.iteration),
            artifact: &self.kernel.artifact,
            plan: &self.request.plan,
        }
    }
}

/// Reads kernels from the store and compiles them again.
#[derive(Clone)]
pub(in crate::session) struct Loader {
    compiler: Compiler,
    store: Store,
}

/// See the module's documentation. A kernel that is not here is read from the store and compiled again.
#[derive(Clone)]
pub(in crate::session) struct KernelCache {
    loader: Loader,
    kernels: HashMap<IterationId, Arc<Kernel>>,
}

impl KernelCache {
    pub fn new(compiler: Compiler, store: Store) -> Self {
        Self { loader: Loader { compiler, store }, kernels: HashMap::new() }
    }

    /// Returns the compiler of kernels.
    pub fn compiler(&self) -> Compiler {
        self.loader.compiler.clone()
    }

    /// Returns what loads kernels in the background.
    pub fn loader(&self) -> Loader {
        self.loader.clone()
    }

    /// Keeps the kernel of an iteration.
    pub fn put(&mut self, iteration: IterationId, kernel: Arc<Kernel>) {
        self.kernels.insert(iteration, kernel);
    }

    /// Drops the kernels that no case needs any more.
    pub fn tidy(&mut self, state: &SessionState) {
        self.kernels.retain(|iteration, _| state.cases().any(|(_, case)| case.needs_kernel(*iteration)));
    }

    /// Makes a participant of a candidate.
    pub async fn candidate_kernel(
        &mut self,
        setup: &SessionSetup,
        candidate: Candidate,
    ) -> anyhow::Result<CandidateKernel> {
        CandidateKernel::new(&self.kernel(setup, candidate.iteration).await?, candidate)
    }

    /// Returns the kernel of an iteration.
    pub async fn kernel(&mut self, setup: &SessionSetup, iteration: IterationId) -> anyhow::Result<Arc<Kernel>> {
        if let Some(kernel) = self.kernels.get(&iteration) {
            return Ok(Arc::clone(kernel));
        }
        let kernel = Arc::new(self.loader.load(setup, iteration).await?);
        self.kernels.insert(iteration, Arc::clone(&kernel));
        Ok(kernel)
    }
}

impl Loader {
    /// Returns the kernel of an iteration.
    pub async fn load(&self, setup: &SessionSetup, iteration: IterationId) -> anyhow::Result<Kernel> {
        let (variant, plans) = self.store.launched(iteration).await?;
        let compiler = self.compiler.clone();
        let limit = Limit::new("compile.timeout", compiler.limits().timeout);
        let _running = activity::begin(format!("compiling iteration {iteration} again"), limit);
        let compiled = tokio::task::spawn_blocking(move || (compiler.compile(&variant), variant)).await;
        let (artifact, variant) = compiled.context("Failed to compile in the background")?;
        let artifact = artifact.with_context(|| format!("Failed to compile iteration {iteration} again"))?;
        let cases = setup.workload.cases.iter().filter_map(|case| Some((case, plans.get(&case.name)?.clone())));
        let request = |(case, plan)| {
            // A scaled case is computed anew, which only the family's own version can do.
            let planned = setup.family(&variant.family).ok().and_then(|family| {
                let model_flop = setup.options.measuring.model_flop;
                planning::of_case(family, &variant.params, case, &setup.workload, &setup.device, model_flop).ok()
            });
            let scaled = planned.filter(|planned| planned.plan == plan).and_then(|planned| planned.scaled);
            CaseRequest { case: case.clone(), plan, incumbent_ns: None, scaled }
        };
        let requests = cases.map(request).collect();
        Ok(Kernel { artifact, requests, variant })
    }
}
