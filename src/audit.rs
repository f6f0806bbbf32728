//! Replays the corpus: kernels that cheat or are broken, and honest ones that look suspicious. Each passes the stages
//! of a variant that is about to win: compilation, screening, the floor and the acceptance checks.

use anyhow::Context;
use rayon::prelude::*;

use crate::config::Config;
use crate::domain::code::artifact::Artifact;
use crate::domain::corpus::{self, CorpusEntry};
use crate::domain::device::{DeviceInfo, TimeSource};
use crate::domain::measurement::check::Check;
use crate::domain::measurement::evaluation::{Evaluation, Outcome};
use crate::domain::measurement::floor::Floor;
use crate::domain::measurement::settings::Measuring;
use crate::domain::text::counted::counted;
use crate::domain::variant::{Params, VariantHash};
use crate::runner::activity::{self, Limit};
use crate::runner::compile::{CompileError, Compiler};
use crate::runner::inputs;
use crate::runner::messages::{AcceptanceRequest, EvaluateRequest, PlannedCase};
use crate::runner::planning;
use crate::runner::renderer::Renderer;
use crate::runner::sanitizer::{Sanitized, Sanitizer, Subject};
use crate::runner::trial::{Seeds, Trial};
use crate::runner::worker::{AskError, Worker};

/// Everything that replaying corpus entries needs.
pub struct Audit {
    worker: Worker,
    /// Checks kernels of a real GPU on a virtual one.
    sanitizer: Option<Sanitizer>,
    renderer: Renderer,
    compiler: Compiler,
    measuring: Measuring,
    seed: u64,
}

/// A compiled corpus entry, or the reason why it is not compiled.
pub struct CompiledEntry {
    entry: CorpusEntry,
    artifact: Result<Artifact, CompileError>,
}

/// The result of one corpus entry.
#[derive(Debug, Clone)]
pub struct AuditResult {
    /// The corpus entry.
    pub entry: CorpusEntry,
    /// Its outcome.
    pub outcome: EntryOutcome,
}

/// See [`AuditResult`].
#[derive(Debug, Clone)]
pub enum EntryOutcome {
    /// Skipped, with the reason why this device cannot show the entry's fault.
    Skipped(String),
    /// It was replayed.
    Replayed {
        /// The answer, in the words of a corpus entry's `caught_by`.
        answer: String,
        /// Details beyond the answer.
        message: String,
    },
}

impl AuditResult {
    /// Returns whether the corpus entry got an answer that its file names, or was skipped because of the device.
    pub fn is_right(&self) -> bool {
        match &self.outcome {
            EntryOutcome::Skipped(_) => true,
            EntryOutcome::Replayed { answer, .. } => self.entry.expects(answer),
        }
    }
}

impl Audit {
    /// Makes an audit. The same seed draws the same inputs.
    pub fn new(
        config: &Config,
        renderer: Renderer,
        compiler: Compiler,
        worker: Worker,
        sanitizer: Option<Sanitizer>,
        seed: u64,
    ) -> Self {
        Self { worker, sanitizer, renderer, compiler, measuring: config.measuring(), seed }
    }

    /// Returns the device.
    pub fn device(&self) -> &DeviceInfo {
        self.worker.info()
    }

    /// Compiles the corpus entries that the device can show, one per core at a time. An error is a mistake in a file,
    /// or a broken compiler.
    pub async fn compile(&self, entries: Vec<CorpusEntry>) -> anyhow::Result<Vec<CompiledEntry>> {
        let (renderer, compiler) = (self.renderer.clone(), self.compiler.clone());
        let limit = Limit::new("compile.timeout", compiler.limits().timeout);
        let limit = limit.filter(|_| entries.len() == 1);
        let _running = activity::begin(format!("compiling {}", counted(entries.len(), "kernel")), limit);
        let compile = move || entries.into_par_iter().map(|entry| compiled(&renderer, &compiler, entry)).collect();
        tokio::task::spawn_blocking(compile).await.context("Failed to compile in the background")?
    }

    /// Replays a corpus entry. An error is a mistake in its file.
    pub async fn replay(&mut self, compiled: CompiledEntry) -> anyhow::Result<AuditResult> {
        let CompiledEntry { entry, artifact } = compiled;
        let _running = activity::begin(format!("replaying {}", entry.name), None);
        let outcome = match artifact {
            Ok(artifact) => {
                let requests = self.requests(&entry, &artifact).with_context(|| file(&entry))?;
                match self.run(&entry, requests).await {
                    Ok(()) => replayed(&Outcome::Measured),
                    Err(AskError::Variant(outcome)) => replayed(&outcome),
                    // A broken machine counts as an answer, and the remaining entries are still replayed.
                    Err(AskError::Machine(error)) => {
                        EntryOutcome::Replayed { answer: "broken".to_owned(), message: error.to_string() }
                    }
                }
            }
            Err(error) => replayed(&Outcome::RejectedByCompiler { message: error.to_string() }),
        };
        Ok(AuditResult { entry, outcome })
    }

    fn requests(
        &self,
        entry: &CorpusEntry,
        artifact: &Artifact,
    ) -> anyhow::Result<(EvaluateRequest, AcceptanceRequest)> {
        let evaluate = self.evaluate_request(entry, artifact)?;
        let accept = self.acceptance_request(entry, artifact, &evaluate)?;
        Ok((evaluate, accept))
    }

    /// Runs all checks on a corpus entry. An error is the answer of the check that caught it.
    async fn run(
        &mut self,
        entry: &CorpusEntry,
        requests: (EvaluateRequest, AcceptanceRequest),
    ) -> Result<(), AskError> {
        let artifact = requests.0.artifact.clone();
        let checked = self.run_on_device(entry, requests).await;
        let sanitized = match &checked {
            Ok(()) => self.sanitize(entry, &artifact).await?,
            Err(AskError::Variant(outcome)) if outcome.is_wrong_result() => self.sanitize(entry, &artifact).await?,
            Err(_) => return checked,
        };
        match (checked, sanitized) {
            (Ok(()), Sanitized::Failed(outcome)) => Err(AskError::Variant(outcome)),
            (Err(AskError::Variant(outcome)), sanitized) if sanitized.is_right_on(entry.case()) => {
                Err(AskError::Variant(outcome.of_machine_code()))
            }
            (checked, _) => checked,
        }
    }

    /// Checks a kernel of a real GPU on a virtual one.
    async fn sanitize(&mut self, entry: &CorpusEntry, artifact: &Artifact) -> Result<Sanitized, AskError> {
        let Some(sanitizer) = &mut self.sanitizer else {
            return Ok(Sanitized::Skipped("the device is a virtual GPU".to_owned()));
        };
        let CorpusEntry { family, workload, .. } = entry;
        let (params, hash) = (Params::new(), VariantHash::of(&family.template));
        let subject = Subject { family, params: &params, hash: &hash, artifact, workload, case: entry.case() };
        let seed = inputs::mix(self.seed, &["sanitize", &entry.name]);
        Ok(sanitizer.check(subject, None, self.measuring, seed).await?)
    }

    /// Screens a corpus entry and runs its acceptance checks on the device. An error is the answer of the check that
    /// caught it.
    async fn run_on_device(
        &mut self,
        entry: &CorpusEntry,
        (evaluate, accept): (EvaluateRequest, AcceptanceRequest),
    ) -> Result<(), AskError> {
        let evaluation = self.worker.evaluate(evaluate).await?;
        if evaluation.outcome != Outcome::Measured {
            return Err(AskError::Variant(evaluation.outcome));
        }
        if let Some(outcome) = self.refuted(entry, &evaluation) {
            return Err(AskError::Variant(outcome));
        }
        self.worker.accept(accept).await.map(drop)
    }

    fn evaluate_request(&self, entry: &CorpusEntry, artifact: &Artifact) -> anyhow::Result<EvaluateRequest> {
        let CorpusEntry { family, workload, .. } = entry;
        let model_flop = self.measuring.model_flop;
        let case = planning::of_case(family, &Params::new(), entry.case(), workload, self.device(), model_flop);
        let trial = Trial {
            workload,
            artifact,
            cases: vec![case.map_err(anyhow::Error::msg)?],
            measuring: self.measuring,
            seeds: Seeds {
                input: inputs::mix(self.seed, &["screen", &entry.name]),
                later: None,
                own: inputs::mix(self.seed, &["own", &entry.name]),
            },
            within: None,
            drops_slow: false,
            explain: false,
        };
        Ok(trial.request())
    }

    fn acceptance_request(
        &self,
        entry: &CorpusEntry,
        artifact: &Artifact,
        evaluated: &EvaluateRequest,
    ) -> anyhow::Result<AcceptanceRequest> {
        let CorpusEntry { family, workload, .. } = entry;
        let asked = evaluated.cases.first().context("Failed to find the corpus entry's case")?;
        let own = PlannedCase { case: asked.case.clone(), plan: asked.plan.clone() };
        let case = asked.scaled.clone().unwrap_or(own);
        let seed = inputs::mix(self.seed, &["shapes", &entry.name]);
        let hidden = planning::hidden(family, &Params::new(), &case.case, workload, self.device(), seed);
        let far = planning::far(family, &Params::new(), &case.case, workload, self.device());
        let seed = inputs::mix(self.seed, &["accept", &entry.name]);
        Ok(AcceptanceRequest { hidden, far, ..AcceptanceRequest::of(artifact, workload, case, self.measuring, seed) })
    }

    /// Returns the outcome of a time below the floor, if it is below. Modelled times are not compared with the floor.
    fn refuted(&self, entry: &CorpusEntry, evaluation: &Evaluation) -> Option<Outcome> {
        if self.device().time_source() == TimeSource::Modelled {
            return None;
        }
        let floor = Floor::of(&entry.workload, entry.case(), self.device());
        let timing = evaluation.measurements.first()?.best_timing()?;
        floor.refutes(timing.median_ns).then(|| Outcome::Cheated {
            case: entry.case().name.clone(),
            check: Check::Floor,
            message: floor.refutation(timing.median_ns),
        })
    }
}

fn file(entry: &CorpusEntry) -> String {
    format!("tests/audit/{}.cu", entry.name)
}

fn compiled(renderer: &Renderer, compiler: &Compiler, entry: CorpusEntry) -> anyhow::Result<CompiledEntry> {
    let CorpusEntry { family, workload, name, .. } = &entry;
    let rendered = renderer.render(family, &family.specialization(entry.case()), workload.dtype, &Params::new());
    let variant = rendered.map_err(anyhow::Error::msg).with_context(|| file(&entry))?;
    match compiler.compile(&variant) {
        Err(CompileError::Broken(message)) => anyhow::bail!("Failed to compile {name}: {message}"),
        artifact => Ok(CompiledEntry { entry, artifact }),
    }
}

fn replayed(outcome: &Outcome) -> EntryOutcome {
    let message = outcome.message().unwrap_or_default().to_owned();
    EntryOutcome::Replayed { answer: corpus::answer(outcome), message }
}
