//! Carries the tools out.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use indexmap::IndexMap;
use rmcp::ErrorData;
use rmcp::model::{CallToolResult, JsonObject};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::Server;
use super::arguments::{
    Compare, Evaluate, History, MOST_CONFIGURATIONS, Nothing, OfIteration, Sass, Source, Tune, TuneStatus,
};
use super::results;
use crate::domain::claims::approach::Approach;
use crate::domain::family::Family;
use crate::domain::ids::{CaseName, IterationId};
use crate::domain::measurement::comparison::Comparison;
use crate::domain::measurement::verdict::Verdict;
use crate::domain::record::CaseRecord;
use crate::domain::text::expected::in_words;
use crate::domain::variant::Params;
use crate::error::{Error, error};
use crate::evaluated::Evaluated;
use crate::session::{Answer, Answered, Ask, Look, Offer, Standing, Versus};
use crate::store::{IterationDetail, StoreError};

/// What a tool returns: its result with a short text. The error is a sentence for the client.
type Result<T> = std::result::Result<T, Error>;

/// What a client is told once the session has ended.
const ENDED: &str = "the session has ended";

/// What a client is told of a fault of optloop.
const UNEXPECTED: &str = "the session has answered something else";

/// Where a kernel begins.
struct Base {
    family: String,
    params: Params,
    /// The iteration with which its claim is compared. None for the fastest of the family.
    over: Option<IterationId>,
}

impl Server {
    /// Carries a tool out for a client. The error is about a request that the protocol does not allow.
    pub(super) async fn call(
        &self,
        name: &str,
        arguments: JsonObject,
        client: String,
    ) -> std::result::Result<CallToolResult, ErrorData> {
        let call = Call { server: self, client, standing: Mutex::default() };
        let told = call.tool(name, arguments).await?;
        let known = || call.standing.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if known().is_none() {
            // Once the search is over, the last answer to anybody tells.
            drop(call.ask(Ask::Look(Look::Standing)).await);
        }
        let standing = known().or_else(|| self.activity.last_standing());
        let standing = standing.ok_or_else(|| ErrorData::internal_error(ENDED, None))?;
        Ok(results::result(told, &standing))
    }
}

/// A call of a tool.
struct Call<'a> {
    server: &'a Server,
    /// The client's name.
    client: String,
    /// Where the session stood in its last answer.
    standing: Mutex<Option<Standing>>,
}

impl Call<'_> {
    async fn tool(&self, name: &str, arguments: JsonObject) -> std::result::Result<Result<(Value, String)>, ErrorData> {
        Ok(match name {
            "task" => self.task(parsed::<Nothing>(arguments)?).await,
            "source" => self.source(parsed(arguments)?).await,
            "evaluate" => self.evaluate(parsed(arguments)?).await,
            "history" => self.history(parsed(arguments)?).await,
            "compare" => self.compare(parsed(arguments)?).await,
            "submit" => self.submit(parsed(arguments)?).await,
            "diagnose" => self.diagnose(parsed(arguments)?).await,
            "sass" => self.sass(parsed(arguments)?).await,
            "experiment" => self.experiment(parsed(arguments)?).await,
            "tune" => self.tune(parsed(arguments)?).await,
            "tune_status" => self.tune_status(parsed(arguments)?).await,
            "finish" => self.finish(parsed::<Nothing>(arguments)?).await,
            _ => return Err(ErrorData::invalid_params(format!("there is no tool `{}`", name.escape_debug()), None)),
        })
    }

    async fn ask(&self, ask: Ask) -> Result<Answer> {
        let answer = self.server.door.ask(ask).await.map_err(|_| ENDED.to_owned())?;
        *self.standing.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer.standing.clone());
        self.server.activity.note(answer.standing.clone());
        Ok(answer)
    }

    async fn seen(&self, look: Look) -> Result<Value> {
        match self.ask(Ask::Look(look)).await?.result? {
            Answered::Seen(value) => Ok(value),
            Answered::Evaluated(..) | Answered::Known(_) | Answered::Compared(_) => Err(Error::new(UNEXPECTED)),
        }
    }

    /// Returns what a client asks to see, with the whole of it as text.
    async fn shown(&self, look: Look) -> Result<(Value, String)> {
        Ok(whole(self.seen(look).await?))
    }

    async fn task(&self, _: Nothing) -> Result<(Value, String)> {
        self.shown(Look::Task).await
    }

    async fn source(&self, asked: Source) -> Result<(Value, String)> {
        let look = match (asked.family, asked.iteration) {
            (Some(family), None) => Look::Family(family),
            (None, Some(iteration)) => Look::Source(IterationId(iteration)),
            _ => return Err(Error::new("name either a family or an iteration")),
        };
        let value = self.seen(look).await?;
        let of = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let text = match value.get("template") {
            Some(_) => format!("family.toml:\n{}\ntemplate:\n{}", of("manifest"), of("template")),
            None => of("source"),
        };
        Ok((value, text))
    }

    async fn history(&self, asked: History) -> Result<(Value, String)> {
        self.shown(Look::History(asked.case.map(CaseName::from))).await
    }

    async fn experiment(&self, asked: OfIteration) -> Result<(Value, String)> {
        match self.ask(Ask::Experiment(IterationId(asked.iteration))).await?.result? {
            Answered::Seen(value) => Ok(whole(value)),
            Answered::Evaluated(..) | Answered::Known(_) | Answered::Compared(_) => Err(Error::new(UNEXPECTED)),
        }
    }

    async fn sass(&self, asked: Sass) -> Result<(Value, String)> {
        let lines = asked.lines.unwrap_or_else(|| "..".to_owned());
        let value = self.seen(Look::MachineCode(IterationId(asked.iteration), lines)).await?;
        let text = value["listing"].as_str().unwrap_or_default().to_owned();
        Ok((value, text))
    }

    async fn tune(&self, asked: Tune) -> Result<(Value, String)> {
        let Tune { family, configurations } = asked;
        match self.ask(Ask::Tune { family, configurations }).await?.result? {
            Answered::Seen(value) => Ok((value, "the search has begun: `tune_status` shows what it finds".to_owned())),
            Answered::Evaluated(..) | Answered::Known(_) | Answered::Compared(_) => Err(Error::new(UNEXPECTED)),
        }
    }

    async fn tune_status(&self, asked: TuneStatus) -> Result<(Value, String)> {
        self.shown(Look::Tuned(asked.family)).await
    }

    async fn diagnose(&self, asked: OfIteration) -> Result<(Value, String)> {
        let iteration = IterationId(asked.iteration);
        let mut value = self.seen(Look::Findings(iteration)).await?;
        let evaluated = Evaluated::read(&self.server.store, iteration).await.map_err(sentence)?;
        for (case, found) in value["cases"].as_array_mut().into_iter().flatten().zip(&evaluated.cases) {
            case["parts"] = json!(found.parts);
            case["launches"] = json!(found.launches);
            case["counters"] = json!(found.counters);
            case["counts"] = json!(found.counts);
        }
        value["kernels"] = json!(evaluated.kernels);
        Ok(whole(value))
    }

    async fn submit(&self, asked: OfIteration) -> Result<(Value, String)> {
        match self.ask(Ask::Submit(IterationId(asked.iteration))).await?.result? {
            Answered::Evaluated(iteration, family) => {
                let (value, text) = self.evaluated(iteration, Some(*family)).await?;
                Ok((value, format!("{text}\n{}", outcome_of(&self.detail(iteration).await?))))
            }
            Answered::Known(iteration) => {
                let (value, text) = self.evaluated(iteration, None).await?;
                Ok((value, format!("it is the incumbent on each of its cases, and has passed all checks\n{text}")))
            }
            Answered::Seen(_) | Answered::Compared(_) => Err(Error::new(UNEXPECTED)),
        }
    }

    async fn evaluate(&self, asked: Evaluate) -> Result<(Value, String)> {
        if asked.configurations.len() > MOST_CONFIGURATIONS {
            return Err(error!("at most {MOST_CONFIGURATIONS} configurations are evaluated at once"));
        }
        let case = match (&asked.case, &self.server.places.workload.cases[..]) {
            (Some(case), _) => CaseName::from(case.clone()),
            (None, [only]) => only.name.clone(),
            (None, _) => return Err(Error::new("name the `case` of the claim: the session has several")),
        };
        let mut over = None;
        let base = match &asked.base {
            Some(base) => Some(self.base(base).await?),
            None => None,
        };
        let mut evaluations = Vec::new();
        let mut texts = Vec::new();
        let mut made: Option<String> = None;
        let none = [IndexMap::new()];
        let configurations = if asked.configurations.is_empty() { &none[..] } else { &asked.configurations };
        for configuration in configurations {
            let (form, family) = match &made {
                // The first configuration has made the family.
                Some(family) => ("parameters", family.clone()),
                None => (form(&asked)?, base.as_ref().map_or_else(String::new, |base| base.family.clone())),
            };
            let offer = offer(&asked, (&case, form, &family, over), base.as_ref(), configuration, self.client.clone())?;
            let (value, text) = match self.ask(Ask::Evaluate(Box::new(offer))).await?.result {
                Ok(Answered::Evaluated(iteration, family)) => {
                    self.server.activity.evaluated.fetch_add(1, Ordering::Relaxed);
                    made = Some(family.name.clone());
                    // All configurations have the reference of the first, and not the first.
                    over = over.or(self.detail(iteration).await?.iteration.rationale.hypothesis.reference.iteration());
                    self.evaluated(iteration, Some(*family)).await?
                }
                Ok(Answered::Known(iteration)) => {
                    let (mut value, text) = self.evaluated(iteration, None).await?;
                    made = value["family"].as_str().map(str::to_owned);
                    value["was_known"] = json!(true);
                    (value, format!("tried before: {text}"))
                }
                Ok(Answered::Seen(_) | Answered::Compared(_)) => return Err(Error::new(UNEXPECTED)),
                Err(problem) => {
                    let named = configuration.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>();
                    let of = if named.is_empty() { String::new() } else { format!("{}: ", named.join(",")) };
                    (json!({ "problem": problem.to_string(), "params": configuration }), format!("{of}{problem}"))
                }
            };
            let is_hopeless = made.is_none() && form != "parameters";
            evaluations.push(value);
            texts.push(text);
            if is_hopeless {
                break;
            }
        }
        match &evaluations[..] {
            [only] if only.get("problem").is_some() => Err(texts.concat().into()),
            _ => Ok((json!({ "evaluations": evaluations }), texts.join("\n"))),
        }
    }

    /// Reads an evaluation from the record. `family`: that of the variant, if the lines of errors are to be found.
    async fn evaluated(&self, iteration: IterationId, family: Option<Family>) -> Result<(Value, String)> {
        let detail = self.detail(iteration).await?;
        let evaluated = Evaluated::of(&self.server.store, &detail).await.map_err(sentence)?;
        let errors = match family {
            Some(family) => self.server.places.errors(&detail, family).await,
            None => Vec::new(),
        };
        Ok((results::as_json(&evaluated, &errors), results::in_words(&evaluated, &errors)))
    }

    /// Reads an iteration of the session.
    async fn detail(&self, iteration: IterationId) -> Result<IterationDetail> {
        let detail = self.server.store.iteration(iteration).await.map_err(sentence)?;
        match detail.iteration.session == self.server.session {
            true => Ok(detail),
            false => Err(error!("iteration {iteration} is not of this session")),
        }
    }

    async fn base(&self, named: &str) -> Result<Base> {
        match named.parse().map(IterationId) {
            Ok(iteration) => {
                let record = self.detail(iteration).await?.iteration;
                Ok(Base { family: record.family, params: record.params, over: Some(iteration) })
            }
            Err(_) => Ok(Base { family: named.to_owned(), params: Params::default(), over: None }),
        }
    }

    async fn compare(&self, asked: Compare) -> Result<(Value, String)> {
        let own = self.detail(IterationId(asked.iteration)).await?.iteration;
        let standing = self.ask(Ask::Look(Look::Standing)).await?.standing;
        let mut cases = Vec::new();
        let mut texts = Vec::new();
        for found in &own.measurements {
            let record = standing.record.iter().find(|one| one.case == found.case).map(|one| one.iteration);
            let Some(with) = asked.with.map(IterationId).or(record) else { continue };
            // A client may ask for a comparison with itself, which shows the noise.
            if with == own.id && asked.with.is_none() {
                return Err(error!("iteration {with} is the fastest itself").hint("name another one in `with`"));
            }
            let other = self.detail(with).await?.iteration;
            let Some(beside) = other.measurements.iter().find(|other| other.case == found.case) else { continue };
            let Some((a, b)) = found.best_timing().zip(beside.best_timing()) else { continue };
            let recorded = paired((own.id, found), (with, beside));
            let paired = match recorded {
                Some(paired) => Some(paired),
                None => self.taken_in_turns(own.id, with, &found.case).await?,
            };
            let ratio = paired.map_or(b.median_ns / a.median_ns, |(ratio, ..)| ratio);
            let interval = paired.map(|(_, [lo, hi], noise)| format!(" ({lo:.4} to {hi:.4}, noise {noise:.4})"));
            let interval = interval.unwrap_or_default();
            texts.push(format!("{}: {ratio:.4}x over iteration {with}{interval}", found.case));
            cases.push(json!({
                "case": found.case, "iteration": own.id, "us": a.median_ns / 1e3, "with": with, "with_us": b.median_ns / 1e3,
                "ratio": ratio,
                "ci": paired.map(|(_, ci, _)| ci),
                "noise": paired.map(|(_, _, noise)| noise),
                "is_confirmed": found.confirmation.is_some(),
                "verdict": found.verdict.map(|verdict| verdict.key(own.rationale.origin.is_committed_winner_of(&found.case))),
            }));
        }
        match cases.is_empty() {
            true => Err(error!("iteration {} has no case with a time beside it", own.id)),
            false => Ok((json!({ "cases": cases }), texts.join("\n"))),
        }
    }

    /// Has two iterations take turns on a case. None where times do not vary. Returns the ratio with its interval and the noise.
    async fn taken_in_turns(
        &self,
        iteration: IterationId,
        with: IterationId,
        case: &CaseName,
    ) -> Result<Option<(f64, [f64; 2], f64)>> {
        let versus = Versus { iteration, with, case: case.clone() };
        match self.ask(Ask::Compare(versus)).await?.result? {
            Answered::Compared(compared) => Ok(compared.and_then(|compared| ratio(&compared, with))),
            Answered::Evaluated(..) | Answered::Known(_) | Answered::Seen(_) => Err(Error::new(UNEXPECTED)),
        }
    }

    /// Ends the session, and waits for its end.
    async fn finish(&self, _: Nothing) -> Result<(Value, String)> {
        self.server.activity.has_finished.store(true, Ordering::Relaxed);
        // A session whose search is over takes no requests, and ends by itself.
        drop(self.ask(Ask::Finish).await);
        let mut ended = self.server.ended.clone();
        let end = ended.wait_for(Option::is_some).await.map_err(|_| ENDED.to_owned())?.clone().unwrap_or(Value::Null);
        let text = serde_json::to_string_pretty(&end).unwrap_or_default();
        Ok((end, text))
    }
}

fn parsed<A: DeserializeOwned>(arguments: JsonObject) -> std::result::Result<A, ErrorData> {
    serde_json::from_value(Value::Object(arguments)).map_err(|error| {
        let said = in_words(&error.to_string());
        let told = match said.strip_prefix("missing field ") {
            Some(field) => format!("the argument {field} is missing"),
            None if said.starts_with("must be") => format!("an argument {said}"),
            None => said,
        };
        ErrorData::invalid_params(told, None)
    })
}

/// Returns a result with the whole of it as text.
fn whole(value: Value) -> (Value, String) {
    let value = results::compact(value);
    let text = value.to_string();
    (value, text)
}

/// Says what becomes of a submission.
fn outcome_of(submitted: &IterationDetail) -> String {
    let verdicts = submitted.iteration.measurements.iter().filter_map(|found| Some((&found.case, found.verdict?)));
    let lines = verdicts.map(|(case, verdict)| match verdict {
        Verdict::Start | Verdict::Improved => {
            format!("{case}: it is the incumbent now, which `finish` commits unless a faster one is confirmed")
        }
        Verdict::Tied => format!("{case}: the incumbent stays: this one is not faster by more than the noise and 1%"),
        Verdict::Regressed => format!("{case}: the incumbent stays: this one is slower"),
        Verdict::Rejected => format!("{case}: the incumbent stays: this one must not be used"),
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn sentence(error: StoreError) -> String {
    error.to_string()
}

/// Returns the form of what a client sends.
fn form(asked: &Evaluate) -> Result<&'static str> {
    let edits = !asked.edits.is_empty() || !asked.manifest_edits.is_empty();
    match (&asked.source, &asked.base, edits) {
        (Some(_), _, true) => Err(Error::new("`source` is a text of its own").hint("leave out the edits")),
        (Some(_), Some(_), _) => Err(Error::new("`source` is a text of its own").hint("leave out `base`")),
        (Some(source), None, false) => {
            Ok(if source.contains("<$") || source.contains("<%") { "family" } else { "kernel" })
        }
        (None, None, _) => Err(Error::new("name a `base`, or give a `source` with its `manifest`")),
        (None, Some(_), true) => Ok("edits"),
        (None, Some(_), false) => Ok("parameters"),
    }
}

/// Puts a request into the form of a language model's answer.
fn offer(
    asked: &Evaluate,
    (case, form, family, over): (&CaseName, &str, &str, Option<IterationId>),
    base: Option<&Base>,
    configuration: &Params,
    client: String,
) -> Result<Offer> {
    let mut parameters = base.map_or_else(Params::default, |base| base.params.clone());
    parameters.extend(configuration.iter().map(|(name, value)| (name.clone(), *value)));
    let approach: Approach = serde_json::from_value(json!({
        "claim": asked.claim,
        "mechanism": asked.mechanism,
        "case": case,
        "speedup_low": asked.speedup_low,
        "speedup_high": asked.speedup_high,
        "tuned_low": asked.tuned_low,
        "tuned_high": asked.tuned_high,
        "form": form,
        "family": family,
        "parameters": parameters,
        "how": asked.about,
        "over": over.or(base.and_then(|base| base.over)),
    }))
    .map_err(Error::new)?;
    if approach.prediction().is_none() {
        return Err(Error::new("predict a range with `speedup_low` below `speedup_high`, such as 1.02 and 1.2"));
    }
    let code = json!({
        "form": form,
        "name": asked.name,
        "about": asked.about,
        "parameters": parameters,
        "edits": asked.edits,
        "manifest_edits": asked.manifest_edits,
        "manifest": asked.manifest.clone().unwrap_or_default(),
        "source": asked.source.clone().unwrap_or_default(),
    });
    Ok(Offer { client, approach, code })
}

/// Returns the ratio of a participant's time to the challenger's, with its interval and the noise.
fn ratio(held: &Comparison, other: IterationId) -> Option<(f64, [f64; 2], f64)> {
    let other = held.participants.iter().skip(1).find(|one| one.iteration == Some(other))?;
    let ratio = held.over_challenger(other)?;
    Some((ratio.estimate, [ratio.interval.lo, ratio.interval.hi], held.noise()))
}

/// Returns the ratio of two times that one run took in turns, with its interval and the noise.
fn paired(a: (IterationId, &CaseRecord), b: (IterationId, &CaseRecord)) -> Option<(f64, [f64; 2], f64)> {
    let own = a.1.comparison.as_ref().and_then(|held| ratio(held, b.0));
    own.or_else(|| {
        let (ratio, [lo, hi], noise) = b.1.comparison.as_ref().and_then(|held| ratio(held, a.0))?;
        Some((1.0 / ratio, [1.0 / hi, 1.0 / lo], noise))
    })
}
