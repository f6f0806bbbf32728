//! Asks language models beside the search, and takes their answers.
//!
//! A call is recorded before it is sent and when its answer is taken. Answers are taken between iterations only. So the
//! course of a session depends on the number of iterations after which an answer came, which a cassette records.

pub(super) mod attempts;
mod explained;
mod lookups;
mod machine_code;
mod material;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use tokio::task::JoinHandle;

pub(super) use self::explained::findings_of;
use self::machine_code::MachineCode;
pub(super) use self::machine_code::shortened;
pub(super) use self::material::Material;
use super::Session;
use super::decide::questions::{QuestionDue, is_turn};
use super::event::Event;
use super::pipeline::suggestions;
use super::state::calls::Ready;
use crate::agent::diagnosis::Diagnosis;
use crate::agent::llm::answer;
use crate::agent::llm::prompt::Prompt;
use crate::domain::budget::cost::Spent;
use crate::domain::claims::hypothesis::Reference;
use crate::domain::history::Finished;
use crate::domain::ids::IterationId;
use crate::domain::models::call::{CallPurpose, ModelReply, ModelRequest};
use crate::domain::models::call_error::{CallError, CallErrorKind};
use crate::domain::models::call_record::{CallBegun, CallEnded, CallOutcome};
use crate::domain::models::money::{MicroUsd, Price};
use crate::domain::proposal::Suggestion;
use crate::domain::proposal::origin::Origin;
use crate::domain::record::journal::Record;
use crate::llm::Endpoint;
use crate::store::NewCall;

/// The endpoint, and the calls that run.
pub(super) struct Models {
    endpoint: Option<Arc<Endpoint>>,
    running: VecDeque<Running>,
    /// Iterations that had ended when answers were last taken.
    taken_after: Option<u64>,
    /// Whether the money did not suffice for a call.
    is_unaffordable: bool,
    /// Whether it has been said that no more calls are made.
    said: bool,
}

/// A call that runs.
struct Running {
    begun: CallBegun,
    request: ModelRequest,
    price: Price,
    /// The bytes of the answer that have come.
    received: Arc<AtomicU64>,
    task: JoinHandle<Result<ModelReply, CallError>>,
    /// Iterations after which a cassette says that the answer was taken.
    hold: Option<u64>,
}

impl Running {
    /// Estimates what the call has cost so far.
    fn estimate(&self) -> MicroUsd {
        let usage = self.request.estimated_usage(self.received.load(Ordering::Relaxed));
        self.price.cost(&usage).min(self.begun.reserve)
    }
}

impl Drop for Models {
    fn drop(&mut self) {
        self.running.iter().for_each(|running| running.task.abort());
    }
}

impl Models {
    /// Makes the models of an endpoint. None for a session without language models.
    pub fn new(endpoint: Option<Endpoint>) -> Self {
        let endpoint = endpoint.map(Arc::new);
        Self { endpoint, running: VecDeque::new(), taken_after: None, is_unaffordable: false, said: false }
    }

    /// Tells whether a call may be made, as far as the endpoint and the money go.
    pub fn may_ask(&self) -> bool {
        self.endpoint.is_some() && !self.is_unaffordable
    }

    /// Removes the next call whose answer is to be taken, the oldest first. `finished`: iterations that have ended.
    fn next_ended(&mut self, finished: u64) -> Option<Running> {
        let is_due = |running: &Running| match running.hold {
            // A cassette answers at once. The answer is waited for, so that it is taken where it was taken before.
            Some(hold) => hold <= finished,
            None => running.task.is_finished(),
        };
        let place = self.running.iter().position(is_due)?;
        self.running.remove(place)
    }
}

impl Session<'_> {
    /// Asks a model, if the money suffices for the most that the answer may cost.
    pub(super) async fn ask_model(&mut self, due: QuestionDue) -> anyhow::Result<()> {
        let Some(endpoint) = self.models.endpoint.clone() else { return Ok(()) };
        let setup = self.state.shared_setup();
        let terms = &setup.options.llm;
        let price = *terms.price(&due.model).context("Failed to find the price of a model")?;
        let machine_code = self.machine_code(&due.question.subject).await;
        let request = self.request(&due, &machine_code)?;
        let reserve = price.worst_case(request.prompt_tokens_upper_bound(), u64::from(request.max_output_tokens));
        if !self.affords(reserve) {
            self.models.is_unaffordable = true;
            self.tell_stopped("--max-cost leaves no money for another call");
            return Ok(());
        }
        let after = self.state.meter().finished();
        let new = NewCall {
            request: &request,
            subject: &due.question.subject,
            reserve,
            is_retry: due.question.is_retry,
            after,
        };
        let call = self.store.begin_call(self.id, &new).await.context("Failed to record a call of a language model")?;
        let begun = CallBegun {
            call,
            ordinal: request.ordinal,
            model: request.model.clone(),
            subject: due.question.subject,
            reserve,
            after,
            is_retry: due.question.is_retry,
        };
        self.state.apply(&Record::CallBegun(Box::new(begun.clone())));
        self.observer.event(&Event::ModelAsked { call, purpose: request.purpose, model: &request.model });
        let recorded = endpoint.recorded(&request);
        let hold = recorded.as_ref().map(|recorded| recorded.answered_after);
        if let Some(difference) = recorded.and_then(|recorded| recorded.difference) {
            self.observer.event(&Event::ReplayDiffers {
                purpose: request.purpose,
                ordinal: request.ordinal,
                difference: &difference,
            });
        }
        let (asked, received) = (request.clone(), Arc::new(AtomicU64::new(0)));
        let counted = Arc::clone(&received);
        let task = tokio::spawn(async move { endpoint.ask_counting(&asked, &counted).await });
        self.models.running.push_back(Running { begun, request, price, received, task, hold });
        Ok(())
    }

    /// Asks the proposer for a variant, or takes one that a model proposed if it is its turn.
    pub(super) fn propose(&mut self) -> anyhow::Result<()> {
        if is_turn(&self.state, self.pipeline.under_way().proposals) {
            let suggestion = self.of_model()?;
            let known = self.state.calls().next_ready().map(|ready| (ready.call, self.tried_in(ready)));
            self.state.note_submitted(suggestion.is_some());
            if let Some((call, known)) = known.filter(|_| suggestion.is_none()) {
                self.tell_known(call, known);
            }
            // One that was tried before is dropped, and the next action decides again.
            return suggestion.map_or(Ok(()), |suggestion| self.pipeline.submit(suggestion, &mut self.state));
        }
        self.pipeline.propose(&mut self.state, self.explanations.findings())
    }

    /// Returns the iteration that has timed a configuration before.
    fn tried_in(&self, ready: &Ready) -> Option<IterationId> {
        let is_same = |one: &&Finished| one.family == ready.family && one.params == ready.params;
        self.state.history().finished.iter().find(is_same).map(|one| one.iteration)
    }

    /// Returns the oldest configuration that a model proposed. None if it was tried before.
    fn of_model(&self) -> anyhow::Result<Option<Suggestion>> {
        let context = self.state.setup().search_context();
        let history = self.state.history();
        let Some(Ready { call, model, approach, family, params, .. }) = self.state.calls().next_ready() else {
            return Ok(None);
        };
        let (Some(family), Ok(case)) = (context.family(family), context.workload.case(&approach.case)) else {
            return Ok(None);
        };
        if !context.is_new(family, params, case, history) {
            return Ok(None);
        }
        let base = approach.base().and_then(|base| history.leaders_of_family(base, &case.name, 1).pop());
        let named = approach.over.and_then(|over| history.iteration(over));
        let fastest = || base.or_else(|| history.fastest(&case.name)).map(|(fastest, _)| fastest.iteration);
        let fastest = named.map(|named| named.iteration).or_else(fastest);
        let reference = fastest.map_or(Reference::Incumbent, Reference::Iteration);
        let origin = Origin::Model { call: *call, model: model.clone(), form: approach.form };
        let hypothesis = approach.hypothesis(model, reference);
        let suggestion = context.suggestion(family, params.clone(), case, hypothesis, origin, fastest);
        suggestion.map(Some).map_err(|problem| anyhow::anyhow!("Failed to propose a variant: {problem}"))
    }

    /// Takes the answers that have come, once after each iteration.
    pub(super) async fn take_answers(&mut self) -> anyhow::Result<()> {
        let finished = self.state.meter().finished();
        if self.models.taken_after.replace(finished) == Some(finished) {
            return Ok(());
        }
        while let Some(mut running) = self.models.next_ended(finished) {
            let result = (&mut running.task).await.context("Failed to wait for a language model")?;
            self.take(running, result).await?;
        }
        Ok(())
    }

    /// Waits for an answer when nothing else is left to do. Does nothing once the time is over.
    pub(super) async fn await_answer(&mut self, within: Duration) -> anyhow::Result<()> {
        let Some(mut running) = self.models.running.pop_front() else { return Ok(()) };
        let deadline = self.deadline.clone();
        match tokio::time::timeout(within, deadline.within(&mut running.task)).await {
            Ok(Some(result)) => {
                let result = result.context("Failed to wait for a language model")?;
                self.take(running, result).await
            }
            _ => {
                self.models.running.push_front(running);
                Ok(())
            }
        }
    }

    /// Records the calls that are still open as lost: at the end, and those of a killed process.
    pub(super) async fn lose_open_calls(&mut self) -> anyhow::Result<()> {
        let mut estimates = HashMap::new();
        for running in self.models.running.drain(..) {
            running.task.abort();
            estimates.insert(running.begun.call, running.estimate());
        }
        let open: Vec<CallBegun> = self.state.calls().open().cloned().collect();
        for begun in open {
            let ended = CallEnded {
                call: begun.call,
                outcome: CallOutcome::Lost,
                cost: begun.reserve,
                cost_is_known: false,
                // A killed process leaves no count of the bytes.
                estimate: estimates.get(&begun.call).copied(),
                usage: None,
                latency_ms: 0,
                attempts: 0,
                after: self.state.meter().finished(),
            };
            self.end_call(&begun.model, ended).await?;
        }
        Ok(())
    }

    async fn take(&mut self, running: Running, result: Result<ModelReply, CallError>) -> anyhow::Result<()> {
        let estimate = running.estimate();
        let Running { begun, request, price, .. } = running;
        let after = self.state.meter().finished();
        if let Some(endpoint) = &self.models.endpoint
            && let Err(problem) = endpoint.record(&request, &result, begun.after, after)
        {
            tracing::warn!("a call is not recorded: {problem}");
        }
        self.end_call(&begun.model, ended(&begun, (&price, estimate), result, after)).await
    }

    pub(super) async fn end_call(&mut self, model: &str, ended: CallEnded) -> anyhow::Result<()> {
        self.store.end_call(self.id, &ended).await.context("Failed to record the end of a call")?;
        // The store has a row of its own for the cost.
        self.state.apply(&Record::Booked(Spent { llm_usd: ended.spent().usd(), ..Spent::default() }));
        let families = self.state.setup().families.len();
        let record = Record::CallEnded(Box::new(ended));
        self.state.apply(&record);
        let Record::CallEnded(ended) = record else { return Ok(()) };
        self.observer.event(&Event::ModelAnswered {
            call: ended.call,
            model,
            status: ended.outcome.name(),
            message: match &ended.outcome {
                CallOutcome::Failed { message, .. } => Some(message),
                _ => None,
            },
            cost_usd: ended.cost.usd(),
            cost_is_known: ended.cost_is_known,
            estimate_usd: ended.estimate.map(MicroUsd::usd),
        });
        for family in &self.state.setup().families[families..] {
            self.observer.event(&Event::FamilyAdded { family: &family.name, about: &family.about });
        }
        self.pipeline.refill();
        if let Some(reason) = self.state.calls().given_up().map(str::to_owned) {
            self.tell_stopped(&reason);
        }
        Ok(())
    }

    fn tell_stopped(&mut self, reason: &str) {
        if !std::mem::replace(&mut self.models.said, true) {
            self.observer.event(&Event::ModelsStopped { reason });
        }
    }

    /// Tells whether the money suffices for a call beside what is kept for the finals.
    fn affords(&self, reserve: MicroUsd) -> bool {
        let (meter, options) = (self.state.meter(), &self.state.setup().options);
        meter.affords_usd(&options.budget, &self.time(), self.state.finals_device_time(), reserve.usd())
    }

    /// Returns the diagnosis of what is known now.
    fn diagnosis(&self) -> Diagnosis {
        suggestions::diagnosis(&self.state, self.explanations.findings())
    }

    fn request(&self, due: &QuestionDue, machine_code: &MachineCode) -> anyhow::Result<ModelRequest> {
        let terms = &self.state.setup().options.llm;
        let subject = &due.question.subject;
        let context = self.state.setup().search_context();
        let diagnosis = self.diagnosis();
        let purpose = subject.purpose();
        let Prompt { system, shared, request } =
            material::prompt(&self.state, (&context, machine_code), &diagnosis, subject, self.wall_left())
                .map_err(|problem| anyhow::anyhow!("Failed to write a prompt: {problem}"))?;
        let is_plan = purpose == CallPurpose::Plan;
        Ok(ModelRequest {
            purpose,
            ordinal: self.state.calls().ordinal(purpose),
            model: due.model.clone(),
            system,
            cached: shared,
            prompt: request,
            answer: if is_plan { answer::plan_form() } else { answer::code_form() },
            max_output_tokens: terms.max_output_tokens,
            temperature: None,
        })
    }
}

/// Returns how a call ended.
fn ended(
    begun: &CallBegun,
    (price, estimate): (&Price, MicroUsd),
    result: Result<ModelReply, CallError>,
    after: u64,
) -> CallEnded {
    let estimated = |is_known: bool| (!is_known).then_some(estimate);
    match result {
        Ok(reply) => CallEnded {
            call: begun.call,
            cost: if reply.usage_is_known { price.cost(&reply.usage) } else { begun.reserve },
            cost_is_known: reply.usage_is_known,
            estimate: estimated(reply.usage_is_known),
            usage: reply.usage_is_known.then_some(reply.usage),
            latency_ms: reply.latency_ms,
            attempts: reply.attempts,
            outcome: CallOutcome::Answered { answer: reply.answer, text: reply.text },
            after,
        },
        Err(error) => {
            let cost = match error.usage {
                Some(usage) => price.cost(&usage),
                None if error.may_be_billed => begun.reserve,
                None => MicroUsd::ZERO,
            };
            let cost_is_known = error.usage.is_some() || !error.may_be_billed;
            CallEnded {
                call: begun.call,
                cost,
                cost_is_known,
                estimate: estimated(cost_is_known),
                usage: error.usage,
                latency_ms: error.latency_ms,
                attempts: error.attempts,
                outcome: CallOutcome::Failed {
                    kind: error.kind.name().to_owned(),
                    is_final: is_final(error.kind),
                    message: error.message,
                },
                after,
            }
        }
    }
}

/// Tells whether no later call can succeed. An endpoint that is down may be up again; the models are given up after a few
/// such calls in a row.
fn is_final(kind: CallErrorKind) -> bool {
    use CallErrorKind::{NotRecorded, Protocol, Rejected, Unauthorized};
    matches!(kind, Unauthorized | Rejected | Protocol | NotRecorded)
}
