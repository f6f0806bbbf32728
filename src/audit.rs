//! Replays the corpus: kernels that cheat or are broken, and honest ones that look odd. Each goes the way of a variant that is
//! about to win: compiled, screened, held against the floor, examined.

use std::time::Duration;

use anyhow::Context;
use rayon::prelude::*;

use crate::config::Config;
use crate::domain::artifact::Artifact;
use crate::domain::check::Check;
use crate::domain::device::{DeviceInfo, TimeSource};
use crate::domain::evaluation::{Evaluation, Outcome};
use crate::domain::exhibit::{self, Exhibit};
use crate::domain::floor::Floor;
use crate::domain::measuring::Measuring;
use crate::domain::variant::Params;
use crate::runner::compile::{CompileError, Compiler};
use crate::runner::inputs;
use crate::runner::messages::{EvaluateRequest, ExamineRequest, PlannedCase};
use crate::runner::planning;
use crate::runner::render::render;
use crate::runner::worker::{AskError, Worker};

/// The longest that a step of an exhibit may take. Their honest steps take well under a second each, and each kernel that hangs
/// takes all of it; the rest is for a machine that is busy with other things.
pub const STEP_TIMEOUT: Duration = Duration::from_secs(10);

/// Everything that it takes to replay exhibits.
pub struct Audit {
    worker: Worker,
    compiler: Compiler,
    measuring: Measuring,
    seed: u64,
}

/// An exhibit as it is compiled, or why it is not.
pub struct Compiled {
    exhibit: Exhibit,
    artifact: Result<Artifact, CompileError>,
}

/// What became of an exhibit.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The exhibit.
    pub exhibit: Exhibit,
    /// What became of it.
    pub fate: Fate,
}

/// See [`Finding`].
#[derive(Debug, Clone)]
pub enum Fate {
    /// The device cannot show what it is there for, and why.
    LeftOut(String),
    /// It was replayed.
    Replayed {
        /// The answer, in the words of an exhibit's `caught_by`.
        answer: String,
        /// What was said beyond it.
        message: String,
    },
}

impl Finding {
    /// Tells whether the exhibit got an answer that its file names, or none because of the device.
    pub fn is_right(&self) -> bool {
        match &self.fate {
            Fate::LeftOut(_) => true,
            Fate::Replayed { answer, .. } => self.exhibit.expects(answer),
        }
    }
}

impl Audit {
    /// Puts together what is needed. `worker` should give up a step after [`STEP_TIMEOUT`]; where the same seed is given, the
    /// same inputs are drawn.
    pub fn new(config: &Config, compiler: Compiler, worker: Worker, seed: u64) -> Self {
        Self { worker, compiler, measuring: config.measuring(), seed }
    }

    /// Describes the device.
    pub fn device(&self) -> &DeviceInfo {
        self.worker.info()
    }

    /// Compiles the exhibits that the device can show, as many at once as there are cores. An error is a mistake in a file, or a
    /// broken compiler.
    pub async fn compile(&self, exhibits: Vec<Exhibit>) -> anyhow::Result<Vec<Compiled>> {
        let compiler = self.compiler.clone();
        let compile = move || exhibits.into_par_iter().map(|exhibit| compiled(&compiler, exhibit)).collect();
        tokio::task::spawn_blocking(compile).await.context("Failed to compile in the background")?
    }

    /// Replays an exhibit. An error is a mistake in its file.
    pub async fn replay(&mut self, compiled: Compiled) -> anyhow::Result<Finding> {
        let Compiled { exhibit, artifact } = compiled;
        let fate = match artifact {
            Ok(artifact) => {
                let requests = self.requests(&exhibit, &artifact).with_context(|| file(&exhibit))?;
                match self.run(&exhibit, requests).await {
                    Ok(()) => replayed(&Outcome::Measured),
                    Err(AskError::Variant(outcome)) => replayed(&outcome),
                    // That the machine broke is an answer, too: what follows shall not be lost.
                    Err(AskError::Machine(error)) => {
                        Fate::Replayed { answer: "broken".to_owned(), message: error.to_string() }
                    }
                }
            }
            Err(error) => replayed(&Outcome::RejectedByCompiler { message: error.to_string() }),
        };
        Ok(Finding { exhibit, fate })
    }

    fn requests(&self, exhibit: &Exhibit, artifact: &Artifact) -> anyhow::Result<(EvaluateRequest, ExamineRequest)> {
        let evaluate = self.evaluate_request(exhibit, artifact)?;
        let examine = self.examine_request(exhibit, artifact, &evaluate)?;
        Ok((evaluate, examine))
    }

    /// Screens an exhibit and runs its acceptance checks. An error is what caught it.
    async fn run(
        &mut self,
        exhibit: &Exhibit,
        (evaluate, examine): (EvaluateRequest, ExamineRequest),
    ) -> Result<(), AskError> {
        let evaluation = self.worker.evaluate(evaluate).await?;
        if evaluation.outcome != Outcome::Measured {
            return Err(AskError::Variant(evaluation.outcome));
        }
        if let Some(outcome) = self.refuted(exhibit, &evaluation) {
            return Err(AskError::Variant(outcome));
        }
        self.worker.examine(examine).await.map(drop)
    }

    fn evaluate_request(&self, exhibit: &Exhibit, artifact: &Artifact) -> anyhow::Result<EvaluateRequest> {
        let Exhibit { family, workload, .. } = exhibit;
        let model_flop = self.measuring.model_flop;
        let case = planning::of_case(family, &Params::new(), exhibit.case(), workload, self.device(), model_flop);
        Ok(EvaluateRequest {
            artifact: artifact.clone(),
            op: workload.op.name().to_owned(),
            dtype: workload.dtype,
            tolerance: workload.tolerance,
            cases: vec![case.map_err(anyhow::Error::msg)?],
            measuring: self.measuring,
            input_seed: inputs::mix(self.seed, &["screen", &exhibit.name]),
            own_seed: inputs::mix(self.seed, &["own", &exhibit.name]),
        })
    }

    fn examine_request(
        &self,
        exhibit: &Exhibit,
        artifact: &Artifact,
        evaluated: &EvaluateRequest,
    ) -> anyhow::Result<ExamineRequest> {
        let Exhibit { family, workload, .. } = exhibit;
        let asked = evaluated.cases.first().context("Failed to find the exhibit's case")?;
        let own = PlannedCase { case: asked.case.clone(), plan: asked.plan.clone() };
        let case = asked.scaled.clone().unwrap_or(own);
        let hidden = planning::hidden(family, &Params::new(), &case.case, workload, self.device());
        Ok(ExamineRequest {
            artifact: artifact.clone(),
            op: workload.op.name().to_owned(),
            dtype: workload.dtype,
            tolerance: workload.tolerance,
            accuracy: workload.tolerance,
            case,
            hidden,
            measuring: self.measuring,
            input_seed: inputs::mix(self.seed, &["examine", &exhibit.name]),
        })
    }

    /// Says that a time is below the floor, if it is. A modelled time is held against none.
    fn refuted(&self, exhibit: &Exhibit, evaluation: &Evaluation) -> Option<Outcome> {
        if self.device().time_source() == TimeSource::Modelled {
            return None;
        }
        let floor = Floor::of(&exhibit.workload, exhibit.case(), self.device());
        let timing = evaluation.measurements.first()?.best_timing()?;
        floor.refutes(timing.median_ns).then(|| Outcome::Cheated {
            case: exhibit.case().name.clone(),
            check: Check::Floor,
            message: floor.refutation(timing.median_ns),
        })
    }
}

fn file(exhibit: &Exhibit) -> String {
    format!("tests/audit/{}.cu", exhibit.name)
}

fn compiled(compiler: &Compiler, exhibit: Exhibit) -> anyhow::Result<Compiled> {
    let Exhibit { family, workload, name, .. } = &exhibit;
    let rendered = render(family, &family.specialization(exhibit.case()), workload.dtype, &Params::new());
    let variant = rendered.map_err(anyhow::Error::msg).with_context(|| file(&exhibit))?;
    match compiler.compile(&variant) {
        Err(CompileError::Broken(message)) => anyhow::bail!("Failed to compile {name}: {message}"),
        artifact => Ok(Compiled { exhibit, artifact }),
    }
}

fn replayed(outcome: &Outcome) -> Fate {
    let message = outcome.message().unwrap_or_default().to_owned();
    Fate::Replayed { answer: exhibit::answer(outcome), message }
}
