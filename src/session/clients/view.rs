//! Shows clients of an interactive session what is known, as JSON. What a prompt tells a model has the same sources.

use std::time::Duration;

use serde_json::{Value, json};

use super::asked::{Amounts, Answer, Answered, Look, OnRecord, Reply, Standing};
use crate::agent::Tuned;
use crate::agent::llm::prompt::Task;
use crate::domain::history::Finished;
use crate::domain::ids::{CaseName, IterationId, SessionId};
use crate::domain::measurement::floor::Floor;
use crate::domain::proposal::finding::Finding;
use crate::domain::proposal::origin::{Origin, Purpose};
use crate::error::{Error, error};
use crate::runner::compile::Compiler;
use crate::runner::sass::{self, Lines};
use crate::session::clock::Clock;
use crate::session::evidence::explanations::Explanations;
use crate::session::llm::{Material, attempts, findings_of, shortened};
use crate::session::pipeline::kernel_cache::KernelCache;
use crate::session::pipeline::suggestions;
use crate::session::state::SessionState;
use crate::store::Store;

/// The configurations of a family that are listed, the fastest first.
const LISTED: usize = 20;

/// The latest attempts that are listed.
const ATTEMPTS: usize = 60;

/// What clients may see: the session's knowledge at a moment.
pub(in crate::session) struct View<'a> {
    state: &'a SessionState,
    store: &'a Store,
    session: SessionId,
    compiler: Compiler,
    /// Those about explained variants.
    findings: Vec<Finding>,
    /// What is being tuned.
    tuned: Option<Tuned>,
    clock: Clock,
}

impl<'a> View<'a> {
    /// Returns what clients may see now. `tuned`: what is being tuned; None without clients, who see nothing.
    pub fn of(
        tuned: Option<Option<Tuned>>,
        (state, store, session): (&'a SessionState, &'a Store, SessionId),
        cache: &KernelCache,
        explanations: &Explanations,
        clock: Clock,
    ) -> Option<Self> {
        let tuned = tuned?;
        let (compiler, findings) = (cache.compiler(), explanations.findings());
        Some(Self { state, store, session, compiler, findings, tuned, clock })
    }

    /// Answers what a client asks to see. What takes long is looked up in the background.
    pub fn answer(&self, look: Look, reply: Reply) {
        let standing = self.standing();
        let answered = match look {
            Look::Standing => Ok(Value::Null),
            Look::Task => self.task(),
            Look::Family(family) => self.family_source(&family),
            Look::History(case) => Ok(self.attempts(case.as_ref())),
            Look::Findings(iteration) => self.found(iteration),
            Look::Experiments(iteration) => self.experimented(iteration),
            Look::Tuned(family) => Ok(self.tuned(&family)),
            Look::Source(_) | Look::MachineCode(..) => {
                let (store, session, compiler) = (self.store.clone(), self.session, self.compiler.clone());
                tokio::spawn(async move {
                    let answered = looked_up(&store, session, compiler, look).await;
                    drop(reply.send(Answer { result: answered.map(Answered::Seen), standing }));
                });
                return;
            }
        };
        // The client may have left.
        drop(reply.send(Answer { result: answered.map(Answered::Seen), standing }));
    }

    /// Returns where the session stands.
    pub fn standing(&self) -> Standing {
        let (meter, budget, time) = (self.state.meter(), &self.state.setup().options.budget, self.clock.time());
        let (usd, finished) = (meter.spent(&time).total_usd(), meter.finished());
        let spent =
            Amounts { seconds: Some(meter.elapsed(&time).as_secs_f64()), usd: Some(usd), iterations: Some(finished) };
        let left = Amounts {
            seconds: Some(meter.left(budget, &time, Duration::ZERO).as_secs_f64()),
            usd: budget.max_cost_usd.map(|most| (most - usd).max(0.0)),
            iterations: budget.max_iterations.map(|most| most.saturating_sub(finished)),
        };
        let time_source = self.state.setup().device.time_source();
        let on_record = |case: &CaseName| {
            let history = self.state.history();
            let (fastest, ns) = history.fastest(case)?;
            Some(OnRecord {
                case: case.clone(),
                iteration: fastest.iteration,
                family: fastest.family.clone(),
                us: ns / 1e3,
                time_source,
                is_confirmed: history.incumbents.get(case).is_some_and(|incumbent| incumbent.hash == fastest.hash),
            })
        };
        let cases = self.state.setup().workload.cases.iter();
        Standing { spent, left, record: cases.filter_map(|case| on_record(&case.name)).collect() }
    }

    fn task(&self) -> Result<Value, Error> {
        let setup = self.state.setup();
        let context = setup.search_context();
        let diagnosis = suggestions::diagnosis(self.state, self.findings.clone());
        let machine_code = Default::default();
        let material =
            Material { state: self.state, context: &context, machine_code: &machine_code, diagnosis: &diagnosis };
        let Task { workload, op, dtype, about, device, contract, manual, .. } = material.task();
        let history = self.state.history();
        let cases = context.workload.cases.iter().map(|case| {
            let floor = Floor::of(context.workload, case, context.device);
            json!({
                "case": case.name,
                "dims": case.dims,
                "floor_us": floor.ns / 1e3,
                "floor_set_by": floor.limiter.name(),
                "fastest_us": history.fastest(&case.name).map(|(_, ns)| ns / 1e3),
            })
        });
        let families = context.families.iter().map(|family| {
            let values: serde_json::Map<String, Value> =
                family.params.iter().map(|(name, param)| (name.clone(), json!(param.values))).collect();
            json!({ "family": family.name, "about": family.about, "parameters": values })
        });
        Ok(json!({
            "workload": workload, "op": op, "dtype": dtype, "about": about, "device": device, "contract": contract,
            "times": setup.device.time_source(),
            "cases": cases.collect::<Vec<_>>(),
            "families": families.collect::<Vec<_>>(),
            "manual": manual,
        }))
    }

    fn family_source(&self, name: &str) -> Result<Value, Error> {
        let setup = self.state.setup();
        let found = setup.families.iter().find(|family| family.name == name);
        let found = found.ok_or_else(|| {
            let known: Vec<&str> = setup.searched.iter().map(String::as_str).collect();
            format!("there is no family `{name}`; there are: {}", known.join(", "))
        })?;
        let defaults: serde_json::Map<String, Value> =
            found.params.iter().map(|(name, param)| (name.clone(), json!(param.default))).collect();
        Ok(json!({
            "family": found.name, "manifest": found.manifest, "template": numbered(&found.template), "defaults": defaults,
        }))
    }

    fn attempts(&self, case: Option<&CaseName>) -> Value {
        let (setup, history) = (self.state.setup(), self.state.history());
        let is_attempt = |one: &&Finished| {
            matches!(one.rationale.origin, Origin::Model { .. })
                && one.rationale.purpose == Purpose::Screening
                && case.is_none_or(|case| one.rationale.hypothesis.case == *case)
        };
        let of_clients: Vec<&Finished> = history.finished.iter().filter(is_attempt).collect();
        let latest = &of_clients[of_clients.len().saturating_sub(ATTEMPTS)..];
        let attempts = latest.iter().map(|one| {
            let hypothesis = &one.rationale.hypothesis;
            json!({
                "iteration": one.iteration,
                "case": hypothesis.case,
                "claim": hypothesis.claim,
                "family": one.family,
                "params": one.params,
                "predicted": hypothesis.prediction.map(|range| [range.lo, range.hi]),
                "over": hypothesis.reference.describe(),
                "us": one.times.iter().map(|time| (time.case.to_string(), json!(time.median_ns / 1e3)))
                    .collect::<serde_json::Map<_, _>>(),
                "ratio_to_base": crate::domain::history::refuted::ln_speedup(history, one).map(f64::exp),
            })
        });
        let failed =
            self.state.calls().failed().map(|failed| json!({ "claim": failed.claim, "problem": failed.problem }));
        let context = setup.search_context();
        let cases: Vec<&CaseName> = setup
            .workload
            .cases
            .iter()
            .map(|one| &one.name)
            .filter(|name| case.is_none_or(|case| case == *name))
            .collect();
        let lessons = setup.options.llm.lessons.as_ref().map(|lessons| lessons.sentences()).unwrap_or_default();
        json!({
            "attempts": attempts.collect::<Vec<_>>(),
            "failed": failed.collect::<Vec<_>>(),
            "fastest": attempts::fastest(history, &context.families, &cases),
            "lessons": lessons,
        })
    }

    fn found(&self, iteration: IterationId) -> Result<Value, Error> {
        let context = self.state.setup().search_context();
        let finished = self.timed(iteration)?;
        let cases = finished.times.iter().map(|time| {
            let findings = findings_of(self.state, &context, finished, &time.case);
            json!({ "case": time.case, "us": time.median_ns / 1e3, "findings": findings })
        });
        Ok(json!({ "iteration": iteration, "cases": cases.collect::<Vec<_>>() }))
    }

    fn experimented(&self, iteration: IterationId) -> Result<Value, Error> {
        let (history, finished) = (self.state.history(), self.timed(iteration)?);
        let ablations = finished.times.iter().map(|time| {
            json!({ "case": time.case, "us": time.median_ns / 1e3,
                    "without": history.ablations_of(&finished.hash, &time.case) })
        });
        let scaled = history.experiments.iter().filter(|one| one.scaling.of == iteration);
        let scaled =
            scaled.map(|one| json!({ "case": one.scaling.case_name(), "us": one.time_ns / 1e3, "blocks": one.ctas }));
        Ok(json!({
            "iteration": iteration,
            "ablations": ablations.collect::<Vec<_>>(),
            "scaled": scaled.collect::<Vec<_>>(),
        }))
    }

    fn tuned(&self, family: &str) -> Value {
        let (setup, history) = (self.state.setup(), self.state.history());
        let left = self.tuned.as_ref().filter(|tuned| tuned.family == family);
        let cases = setup.workload.cases.iter().map(|case| {
            let leaders = history.leaders_of_family(family, &case.name, usize::MAX);
            let fastest = leaders
                .iter()
                .take(LISTED)
                .map(|(one, ns)| json!({ "iteration": one.iteration, "us": ns / 1e3, "params": one.params }));
            json!({ "case": case.name, "timed": leaders.len(), "fastest": fastest.collect::<Vec<_>>() })
        });
        let of_family = setup.family(family).ok();
        let names: Vec<&CaseName> = setup.workload.cases.iter().map(|case| &case.name).collect();
        json!({
            "family": family,
            "left": left.map_or(0, |tuned| tuned.left),
            "cases": cases.collect::<Vec<_>>(),
            "effects": of_family.map(|of| attempts::fastest(history, &[of], &names)),
        })
    }

    fn timed(&self, iteration: IterationId) -> Result<&Finished, Error> {
        let found = self.state.history().iteration(iteration);
        found.ok_or_else(|| error!("iteration {iteration} has no correct time in this session"))
    }
}

/// Looks up what the record or the compiler has to tell of an iteration. A client sees those of its session only.
async fn looked_up(store: &Store, session: SessionId, compiler: Compiler, look: Look) -> Result<Value, Error> {
    let (iteration, lines) = match look {
        Look::Source(iteration) => (iteration, None),
        Look::MachineCode(iteration, lines) => (iteration, Some(Lines::parse(&lines)?)),
        _ => return Err(Error::new("this is not looked up")),
    };
    let detail = store.iteration(iteration).await.map_err(|error| error.to_string())?;
    if detail.iteration.session != session {
        return Err(error!("iteration {iteration} is not of this session"));
    }
    let (variant, _) = store.launched(iteration).await.map_err(|error| error.to_string())?;
    let Some(lines) = lines else {
        let (family, params, source) = (variant.family, variant.params, numbered(&variant.source));
        return Ok(json!({ "iteration": iteration, "family": family, "params": params, "source": source }));
    };
    let listing = sass::of_variant(compiler, variant, lines).await?;
    Ok(json!({ "iteration": iteration, "listing": shortened(listing) }))
}

/// Puts its number before each line of a text.
fn numbered(text: &str) -> String {
    let width = text.lines().count().to_string().len();
    text.lines().zip(1..).map(|(line, number)| format!("{number:>width$}  {line}\n")).collect()
}
