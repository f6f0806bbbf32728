//! Requests of clients outside the session: kernels to evaluate, iterations to submit, and questions about what is known.
//!
//! A kernel is recorded as an answer that no call asked for. So it takes the path of the code of a language model: the same
//! rules, the same record, the same place in a resumed session. Requests are taken between the session's own steps.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use super::asked::{Answer, Answered, Ask, Look, Offer, Reply};
use super::view::View;
use crate::agent::llm::answer;
use crate::agent::{Tuned, Tuning};
use crate::domain::ids::{CaseName, IterationId};
use crate::domain::models::call::{CallPurpose, ModelRequest};
use crate::domain::models::call_record::{CallBegun, CallEnded, CallId, CallOutcome, CallSubject};
use crate::domain::models::money::MicroUsd;
use crate::domain::proposal::origin::{Origin, Purpose};
use crate::domain::record::journal::{Begun, Record};
use crate::error::{Error, error};
use crate::session::Session;
use crate::session::decide::{Clients, ConfirmationDue};
use crate::session::pipeline::Compiled;
use crate::store::NewCall;

/// The requests that may wait. Further ones wait in their clients.
const MOST_WAITING: usize = 64;

/// The most configurations that one request to tune may try.
const MOST_TUNED: u64 = 1000;

/// A request with the place of its answer.
pub struct Request {
    ask: Ask,
    reply: Reply,
}

/// Takes requests to a session. Clones share it. The session ends once all are dropped.
#[derive(Clone)]
pub struct Door(mpsc::Sender<Request>);

/// The session has ended.
#[derive(Debug, thiserror::Error)]
#[error("the session has ended")]
pub struct Ended;

impl Door {
    /// Makes a door to a session that is about to begin, and the session's side of it. `tuning` is shared with the proposer.
    pub fn new(tuning: Tuning) -> (Self, Requests) {
        let (sender, receiver) = mpsc::channel(MOST_WAITING);
        let requests = Requests {
            receiver,
            waiting: VecDeque::new(),
            offered: HashMap::new(),
            submitted: VecDeque::new(),
            confirming: None,
            is_over: false,
            tuning,
        };
        (Self(sender), requests)
    }

    /// Asks the session, and waits for its answer. A request whose future is dropped before it is taken up is not carried out.
    pub async fn ask(&self, ask: Ask) -> Result<Answer, Ended> {
        let (reply, answer) = oneshot::channel();
        self.0.send(Request { ask, reply }).await.map_err(|_| Ended)?;
        answer.await.map_err(|_| Ended)
    }

    /// Waits until the session takes no more requests, because its search is over.
    pub async fn closed(&self) {
        self.0.closed().await;
    }

    /// Tells whether the session takes no more requests.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

/// The session's side of a door.
pub struct Requests {
    receiver: mpsc::Receiver<Request>,
    /// Those that came while the device was busy, and that need the session.
    waiting: VecDeque<Request>,
    /// Kernels that are being compiled or evaluated.
    offered: HashMap<CallId, Reply>,
    /// Iterations that are to be confirmed.
    submitted: VecDeque<(IterationId, Reply)>,
    /// The one that is being confirmed.
    confirming: Option<(IterationId, Reply)>,
    /// Whether no more requests are to come.
    is_over: bool,
    tuning: Tuning,
}

impl Requests {
    /// Returns what the clients want.
    pub(in crate::session) fn clients(&self) -> Clients {
        let waits = self.offered.values().any(|reply| !reply.is_closed());
        match self.is_over && !waits && self.submitted.is_empty() {
            true => Clients::Gone,
            false => Clients::Present { has_submitted: !self.submitted.is_empty() },
        }
    }

    /// Returns what is being tuned.
    pub(in crate::session) fn tuned(&self) -> Option<Tuned> {
        self.tuning.now()
    }

    /// Returns the next request that has come, if there is one.
    fn next(&mut self) -> Option<Request> {
        self.waiting.pop_front().or_else(|| match self.receiver.try_recv() {
            Ok(request) => Some(request),
            Err(mpsc::error::TryRecvError::Empty) => None,
            Err(mpsc::error::TryRecvError::Disconnected) => {
                self.is_over = true;
                None
            }
        })
    }

    /// Answers questions while the session is busy, from what it knew when it began. Everything else waits. Never ends.
    async fn answer(&mut self, view: &View<'_>) -> Infallible {
        while self.waiting.len() < MOST_WAITING {
            match self.receiver.recv().await {
                Some(Request { ask: Ask::Look(look), reply }) => view.answer(look, reply),
                Some(other) => self.waiting.push_back(other),
                None => {
                    self.is_over = true;
                    break;
                }
            }
        }
        std::future::pending().await
    }
}

/// Answers the questions of clients while the session is busy. Never ends.
pub(in crate::session) async fn answering(requests: Option<&mut Requests>, view: Option<&View<'_>>) -> Infallible {
    match requests.zip(view) {
        Some((requests, view)) => requests.answer(view).await,
        None => std::future::pending().await,
    }
}

impl Session<'_> {
    pub(in crate::session) fn clients(&self) -> Clients {
        self.requests.as_ref().map_or(Clients::None, Requests::clients)
    }

    /// Returns what clients may see now. None without clients.
    fn view(&self) -> Option<View<'_>> {
        View::of(
            self.requests.as_ref().map(Requests::tuned),
            (&self.state, &self.store, self.id),
            &self.cache,
            &self.explanations,
            self.clock,
        )
    }

    /// Takes the requests that wait, up to the first one that has used the device. While it did, others have come, and kernels that
    /// were offered earlier would never have their turn.
    pub(in crate::session) async fn take_requests(&mut self) -> anyhow::Result<()> {
        while let Some(request) = self.requests.as_mut().and_then(Requests::next) {
            let uses_device = request.ask.uses_device();
            self.take_request(request).await?;
            if uses_device {
                break;
            }
        }
        Ok(())
    }

    /// Waits for a request when nothing else is left to do. Does nothing once the time is over, or if the user stops the session.
    pub(in crate::session) async fn await_request(&mut self, within: Duration) -> anyhow::Result<()> {
        let mut interrupt = self.deadline.interrupt();
        let Some(requests) = &mut self.requests else { return Ok(()) };
        if let Some(request) = requests.next() {
            return self.take_request(request).await;
        }
        let request = tokio::select! {
            request = requests.receiver.recv() => request,
            () = interrupt.reached(1) => return Ok(()),
            () = tokio::time::sleep(within) => return Ok(()),
        };
        match request {
            Some(request) => self.take_request(request).await,
            None => {
                requests.is_over = true;
                Ok(())
            }
        }
    }

    async fn take_request(&mut self, Request { ask, reply }: Request) -> anyhow::Result<()> {
        // Its client has cancelled it.
        if reply.is_closed() {
            return Ok(());
        }
        let answered = match ask {
            Ask::Look(look) => {
                if let Some(view) = self.view() {
                    view.answer(look, reply);
                }
                return Ok(());
            }
            Ask::Evaluate(offer) => return self.take_offer(*offer, reply).await,
            Ask::Submit(iteration) => match (self.submittable(iteration), &mut self.requests) {
                (Ok(()), Some(requests)) => {
                    requests.submitted.push_back((iteration, reply));
                    return Ok(());
                }
                (Err(answered), _) => answered,
                (Ok(()), None) => return Ok(()),
            },
            // On the heap: both futures are large.
            Ask::Compare(versus) => Box::pin(self.compare_on_request(&versus)).await?,
            Ask::Experiment(iteration) => match Box::pin(self.experiment_on_request(iteration)).await? {
                Ok(()) => match self.view() {
                    Some(view) => {
                        view.answer(Look::Experiments(iteration), reply);
                        return Ok(());
                    }
                    None => return Ok(()),
                },
                Err(problem) => Err(problem),
            },
            Ask::Tune { family, configurations } => self.tune(family, configurations),
            Ask::Finish => {
                self.requests.iter_mut().for_each(|requests| requests.is_over = true);
                Ok(Answered::Seen(Value::Null))
            }
        };
        self.reply(reply, answered);
        Ok(())
    }

    fn reply(&self, reply: Reply, result: Result<Answered, Error>) {
        let Some(standing) = self.view().map(|view| view.standing()) else { return };
        // A client may have left.
        drop(reply.send(Answer { result, standing }));
    }

    /// Records a kernel as an answer, and has it tried.
    async fn take_offer(&mut self, offer: Offer, reply: Reply) -> anyhow::Result<()> {
        let call = self.record_offer(offer).await?;
        if self.state.calls().is_ready(call) {
            if let Some(requests) = &mut self.requests {
                requests.offered.insert(call, reply);
            }
        } else {
            self.reply(reply, Err(self.last_problem().into()));
        }
        Ok(())
    }

    async fn record_offer(&mut self, offer: Offer) -> anyhow::Result<CallId> {
        let Offer { client, approach, code } = offer;
        let after = self.state.meter().finished();
        let request = ModelRequest {
            purpose: CallPurpose::Code,
            ordinal: self.state.calls().ordinal(CallPurpose::Code),
            model: client.clone(),
            system: String::new(),
            cached: String::new(),
            prompt: "(the client has offered this without being asked)".to_owned(),
            answer: answer::code_form(),
            max_output_tokens: 0,
            temperature: None,
        };
        let subject = CallSubject::Code { approach: Box::new(approach) };
        let new = NewCall { request: &request, subject: &subject, reserve: MicroUsd::ZERO, is_retry: false, after };
        let call = self.store.begin_call(self.id, &new).await.context("Failed to record what a client offers")?;
        let begun = CallBegun {
            call,
            ordinal: request.ordinal,
            model: client.clone(),
            subject,
            reserve: MicroUsd::ZERO,
            after,
            is_retry: false,
        };
        self.state.apply(&Record::CallBegun(Box::new(begun)));
        let ended = CallEnded {
            call,
            outcome: CallOutcome::Answered { text: code.to_string(), answer: code },
            cost: MicroUsd::ZERO,
            cost_is_known: true,
            estimate: None,
            usage: None,
            latency_ms: 0,
            attempts: 1,
            after,
        };
        self.end_call(&client, ended).await?;
        Ok(call)
    }

    /// Returns why what was offered last is not tried.
    fn last_problem(&self) -> String {
        self.state.calls().failed().next().map_or_else(String::new, |failed| failed.problem.clone())
    }

    /// Answers an offer whose configuration was tried before. To be called once that is noted.
    pub(in crate::session) fn tell_known(&mut self, call: CallId, known: Option<IterationId>) {
        let reply = self.requests.as_mut().and_then(|requests| requests.offered.remove(&call));
        let answered = known.map(Answered::Known).ok_or_else(|| Error::new(self.last_problem()));
        reply.into_iter().for_each(|reply| self.reply(reply, answered.clone()));
    }

    /// Answers the client whose kernel or submission an iteration has tried.
    pub(in crate::session) fn tell_client(&mut self, begun: &Begun, compiled: &Compiled) -> anyhow::Result<()> {
        let Some(requests) = &mut self.requests else { return Ok(()) };
        let reply = match (&begun.rationale.origin, begun.rationale.purpose) {
            (Origin::Model { call, .. }, Purpose::Screening) => requests.offered.remove(call),
            (_, Purpose::Confirmation) => {
                let is_own = |(of, _): &mut (IterationId, _)| Some(*of) == compiled.proposal.rationale.parent;
                requests.confirming.take_if(is_own).map(|(_, reply)| reply)
            }
            _ => None,
        };
        if let Some(reply) = reply {
            let family = self.state.setup().family(&begun.family)?.clone();
            self.reply(reply, Ok(Answered::Evaluated(begun.iteration, Box::new(family))));
        }
        Ok(())
    }

    /// Tells whether an iteration may be confirmed. The error is what its client is told instead.
    fn submittable(&self, iteration: IterationId) -> Result<(), Result<Answered, Error>> {
        let Some(finished) = self.state.history().iteration(iteration) else {
            return Err(Err(error!(
                "iteration {iteration} has no correct time in this session, so it cannot be submitted"
            )));
        };
        let holds = |case: &CaseName| {
            self.state.history().incumbents.get(case).is_some_and(|incumbent| incumbent.hash == finished.hash)
        };
        // It has passed everything already.
        match finished.times.iter().all(|time| holds(&time.case)) {
            true => Err(Ok(Answered::Known(iteration))),
            false => Ok(()),
        }
    }

    /// Confirms the oldest iteration that was submitted.
    pub(in crate::session) async fn confirm_submitted(&mut self) -> anyhow::Result<()> {
        let Some((iteration, reply)) = self.requests.as_mut().and_then(|requests| requests.submitted.pop_front())
        else {
            return Ok(());
        };
        let times = self.state.history().iteration(iteration).map(|finished| finished.times.clone());
        let cases = times.unwrap_or_default().into_iter().map(|time| (iteration, time.case));
        let due = ConfirmationDue { candidates: cases.collect() };
        self.requests.iter_mut().for_each(|requests| drop(requests.confirming.take()));
        if due.candidates.is_empty() {
            self.reply(reply, Err(error!("iteration {iteration} was disqualified meanwhile")));
            return Ok(());
        }
        if let Some(requests) = &mut self.requests {
            requests.confirming = Some((iteration, reply));
        }
        let prepared = self.deadline.clone().within(self.confirmation(&due)).await;
        self.iterate_prepared(prepared).await
    }

    fn tune(&mut self, family: String, configurations: u64) -> Result<Answered, Error> {
        let setup = self.state.setup();
        if !setup.is_searched(&family) {
            let known: Vec<&str> = setup.searched.iter().map(String::as_str).collect();
            return Err(error!(
                "`{family}` cannot be tuned: it is no family of this session, or none of its variants was right yet; there \
                 are: {}",
                known.join(", ")
            ));
        }
        let configurations = configurations.clamp(1, MOST_TUNED);
        if let Some(requests) = &self.requests {
            requests.tuning.begin(family.clone(), configurations);
        }
        self.pipeline.refill();
        Ok(Answered::Seen(serde_json::json!({ "family": family, "configurations": configurations })))
    }
}
