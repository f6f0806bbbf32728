//! What a session knows of its calls to language models. Pure: it changes by records only, so that a resumed session knows
//! what a killed one knew.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use crate::agent::llm::answer;
use crate::agent::llm::bandit::{self, TrackRecord};
use crate::agent::llm::generated::{self, Existing, Generated};
use crate::domain::claims::approach::{Approach, Form};
use crate::domain::family::Family;
use crate::domain::history::{Finished, History};
use crate::domain::ids::{CaseName, IterationId};
use crate::domain::measurement::evaluation::Outcome;
use crate::domain::models::call::CallPurpose;
use crate::domain::models::call_record::{CallBegun, CallEnded, CallId, CallOutcome, CallSubject};
use crate::domain::models::money::MicroUsd;
use crate::domain::proposal::origin::{Origin, Purpose as Why};
use crate::domain::record::journal::{Begun, Concluded};
use crate::domain::variant::Params;
use crate::domain::workload::Case;
use crate::error::Error;
use crate::session::setup::SessionSetup;

/// Calls that fail one after the other before the models are given up.
const MAX_FAILURES: u32 = 3;

/// How often a model may ask to see more before it answers one question.
const MAX_LOOKUPS: u32 = 2;

/// The fastest configurations of a family of which an edit begins at the first that is valid.
const BASES: usize = 3;

/// The latest failed attempts that prompts tell of.
const MAX_FAILED: usize = 12;

/// Something to ask a model.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::session) struct Question {
    pub subject: CallSubject,
    /// Whether it repeats a call whose answer never came.
    pub is_retry: bool,
}

/// A configuration that a model proposed and that has not begun as an iteration.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::session) struct Ready {
    /// The call whose answer it is.
    pub call: CallId,
    pub model: String,
    pub approach: Approach,
    pub family: String,
    pub params: Params,
    /// Corrections so far.
    pub round: u32,
    /// Whether it is being compiled. Not recorded: a resumed session submits it again.
    pub is_submitted: bool,
}

/// A failed attempt, for prompts.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::session) struct Failed {
    pub claim: String,
    pub problem: String,
}

/// See the module's documentation.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::session) struct Calls {
    all: BTreeMap<CallId, CallBegun>,
    answers: BTreeMap<CallId, String>,
    open: BTreeMap<CallId, CallBegun>,
    counts: HashMap<CallPurpose, u64>,
    questions: VecDeque<Question>,
    ready: VecDeque<Ready>,
    /// The attempts whose iteration is under way or has been.
    tried: BTreeMap<IterationId, Ready>,
    worth: HashMap<String, TrackRecord>,
    worth_of_forms: HashMap<Form, TrackRecord>,
    failed: VecDeque<Failed>,
    failures: u32,
    /// What calls of unknown cost may have cost beyond what was booked.
    withheld: MicroUsd,
    given_up: Option<String>,
    /// Iterations of variants that models proposed.
    iterations: u64,
    /// When the last plan was asked for, in iterations that had ended.
    planned: Option<u64>,
    /// The fastest variant of each case when the last plan came, with its time in nanoseconds.
    at_plan: BTreeMap<CaseName, (IterationId, f64)>,
    /// How long the answers took, in milliseconds.
    latencies_ms: Vec<u64>,
}

impl Calls {
    /// Returns the calls without an answer.
    pub fn open(&self) -> impl ExactSizeIterator<Item = &CallBegun> {
        self.open.values()
    }

    /// Returns what is kept of the budget: for the calls without an answer, and for what others may have cost beyond the
    /// estimate.
    pub fn reserved(&self) -> MicroUsd {
        self.withheld + self.open.values().map(|call| call.reserve).sum()
    }

    /// Returns why no more calls are made. None if they are.
    pub fn given_up(&self) -> Option<&str> {
        self.given_up.as_deref()
    }

    /// Returns what to ask next, if anything waits: corrections and repeated calls first, then the code of the approach
    /// that is most worth it.
    pub fn next_question(&self) -> Option<&Question> {
        let is_first =
            |question: &&Question| question.is_retry || !matches!(question.subject, CallSubject::Code { .. });
        let worth = |question: &Question| {
            question.subject.approach().map_or(0.0, |approach| {
                let form = self.worth_of_forms.get(&approach.form).copied().unwrap_or_default();
                bandit::code_score(approach.expected_ln_gain(), &form)
            })
        };
        // The last of equals that `max_by` would return is the first one here.
        let best = || self.questions.iter().rev().max_by(|a, b| worth(a).total_cmp(&worth(b)));
        self.questions.iter().find(is_first).or_else(best)
    }

    /// Returns the oldest configuration that is to be tried.
    pub fn next_ready(&self) -> Option<&Ready> {
        self.ready.iter().find(|ready| !ready.is_submitted)
    }

    /// Tells whether the answer of a call waits to be tried.
    pub fn is_ready(&self, call: CallId) -> bool {
        self.ready.iter().any(|ready| ready.call == call)
    }

    /// Returns the number of configurations that have not begun as iterations.
    pub fn waiting(&self) -> usize {
        self.ready.len()
    }

    /// Notes that the oldest configuration is being compiled, or drops it if it cannot be tried.
    pub fn note_submitted(&mut self, can_be_tried: bool, history: &History) {
        let Some(place) = self.ready.iter().position(|ready| !ready.is_submitted) else { return };
        match can_be_tried {
            true => self.ready[place].is_submitted = true,
            false => {
                if let Some(ready) = self.ready.remove(place) {
                    self.credit(&ready.model, ready.approach.form, 0.0);
                    let is_same = |one: &&Finished| one.family == ready.family && one.params == ready.params;
                    let same = history.finished.iter().find(is_same);
                    let timed = same.and_then(|one| Some((one.iteration, one.time_ns(&ready.approach.case)?)));
                    let timed = timed.map_or_else(String::new, |(iteration, ns)| {
                        format!(": iteration {iteration} took {:.3} us", ns / 1e3)
                    });
                    self.failed_attempt(ready.approach.claim, format!("the configuration was tried before{timed}"));
                }
            }
        }
    }

    /// Returns the iterations of variants that models proposed.
    pub fn iterations(&self) -> u64 {
        self.iterations
    }

    /// Returns after how many iterations the last plan was asked for.
    pub fn planned(&self) -> Option<u64> {
        self.planned
    }

    /// Returns the fastest variant of each case when the last plan came, with its time in nanoseconds.
    pub fn at_plan(&self) -> &BTreeMap<CaseName, (IterationId, f64)> {
        &self.at_plan
    }

    /// Returns how long a call usually takes: the median. None before the first answer.
    pub fn usual_latency(&self) -> Option<Duration> {
        let mut all = self.latencies_ms.clone();
        all.sort_unstable();
        all.get(all.len() / 2).map(|&ms| Duration::from_millis(ms))
    }

    /// Drops the approaches of the last plan whose code could no longer be the fastest: since then, their case has a variant
    /// that is faster than they promise at best.
    pub fn drop_stale(&mut self, history: &History) {
        let is_stale = |approach: &Approach| {
            let (before, now) = (self.at_plan.get(&approach.case)?, history.fastest(&approach.case)?);
            let base = approach.base().and_then(|family| history.fastest_of_family(family, &approach.case));
            let promised_ns = base.unwrap_or(before.1) / approach.prediction()?.hi;
            Some(now.1 < before.1 && now.1 <= promised_ns)
        };
        let mut stale = Vec::new();
        self.questions.retain(|question| match &question.subject {
            CallSubject::Code { approach } if is_stale(approach) == Some(true) => {
                stale.push(approach.claim.clone());
                false
            }
            _ => true,
        });
        for claim in stale {
            self.failed_attempt(claim, "not asked for: a faster variant was found than it promised".to_owned());
        }
    }

    /// Returns the number of the next call for a purpose.
    pub fn ordinal(&self, purpose: CallPurpose) -> u64 {
        self.counts.get(&purpose).copied().unwrap_or(0) + 1
    }

    /// Returns what is known of a model.
    pub fn worth(&self, model: &str) -> TrackRecord {
        self.worth.get(model).copied().unwrap_or_default()
    }

    /// Returns the latest failed attempts, the newest first.
    pub fn failed(&self) -> impl Iterator<Item = &Failed> {
        self.failed.iter().rev()
    }

    /// Returns the model of a call.
    pub fn model_of(&self, call: CallId) -> Option<&str> {
        self.all.get(&call).map(|begun| begun.model.as_str())
    }

    /// Returns the text of an answer.
    pub fn answer(&self, call: CallId) -> Option<&str> {
        self.answers.get(&call).map(String::as_str)
    }

    /// Applies the beginning of a call.
    pub fn begin(&mut self, begun: &CallBegun) {
        *self.counts.entry(begun.subject.purpose()).or_default() += 1;
        if begun.subject == CallSubject::Plan {
            self.planned = Some(begun.after);
        }
        let asked = self.questions.iter().position(|question| question.subject == begun.subject);
        asked.and_then(|place| self.questions.remove(place));
        self.open.insert(begun.call, begun.clone());
        self.all.insert(begun.call, begun.clone());
    }

    /// Applies the end of a call. Returns a family that the answer adds.
    pub fn end(&mut self, ended: &CallEnded, setup: &SessionSetup, history: &History) -> Option<Family> {
        let begun = self.open.remove(&ended.call)?;
        self.withheld += MicroUsd(ended.cost.0.saturating_sub(ended.spent().0));
        self.worth.entry(begun.model.clone()).or_default().usd += ended.spent().usd();
        if let Some(approach) = begun.subject.approach() {
            self.worth_of_forms.entry(approach.form).or_default().usd += ended.spent().usd();
        }
        match &ended.outcome {
            CallOutcome::Answered { answer, text } => {
                self.failures = 0;
                self.latencies_ms.push(ended.latency_ms);
                self.answers.insert(ended.call, text.clone());
                self.take_answer(&begun, answer, setup, history)
            }
            CallOutcome::Failed { kind, message, is_final } => {
                self.fail(&begun, kind, message, *is_final, !ended.cost_is_known);
                None
            }
            CallOutcome::Lost => {
                self.retry(&begun);
                None
            }
        }
    }

    fn fail(&mut self, begun: &CallBegun, kind: &str, message: &str, is_final: bool, is_unknown: bool) {
        self.failures += 1;
        if is_final || self.failures >= MAX_FAILURES {
            self.given_up.get_or_insert_with(|| message.to_owned());
        } else if is_unknown {
            self.retry(begun);
        } else if let Some(approach) = begun.subject.approach() {
            self.credit(&begun.model, approach.form, 0.0);
            self.note_failure(&begun.subject, &format!("the call failed ({kind}): {message}"));
        }
    }

    /// Asks once more what was never answered.
    fn retry(&mut self, begun: &CallBegun) {
        if !begun.is_retry {
            self.questions.push_front(Question { subject: begun.subject.clone(), is_retry: true });
        }
    }

    fn take_answer(
        &mut self,
        begun: &CallBegun,
        answer: &serde_json::Value,
        setup: &SessionSetup,
        history: &History,
    ) -> Option<Family> {
        let wants = answer::wants(answer);
        if !wants.is_empty()
            && let Some(subject) = begun.subject.informed(wants, MAX_LOOKUPS)
        {
            self.questions.push_front(Question { subject, is_retry: false });
            return None;
        }
        let Some(approach) = begun.subject.approach() else {
            self.take_plan(begun, answer, setup, history);
            return None;
        };
        let code = answer::code(answer, approach.form);
        if let Ok(code) = &code
            && !code.skip.trim().is_empty()
        {
            self.credit(&begun.model, approach.form, 0.0);
            self.failed_attempt(approach.claim.clone(), format!("you left it out: {}", code.skip.trim()));
            return None;
        }
        let made = existing(setup, history, approach).and_then(|existing| {
            let code = code?;
            Ok((generated::of_code(&code, approach, &existing)?, code.restated(approach)))
        });
        match made {
            Ok((made, restated)) => self.take_configuration(begun, &restated, made),
            Err(problem) => {
                self.correct(begun, approach, begun.call, problem.into(), None, setup.options.llm.repair_rounds);
                None
            }
        }
    }

    fn take_plan(&mut self, begun: &CallBegun, answer: &serde_json::Value, setup: &SessionSetup, history: &History) {
        let cases: Vec<&str> = setup.workload.cases.iter().map(|case| case.name.as_str()).collect();
        let (approaches, problems) = answer::plan(answer, &cases);
        problems.iter().for_each(|problem| self.note_failure(&begun.subject, problem));
        let fastest = |case: &Case| {
            let (fastest, ns) = history.fastest(&case.name)?;
            Some((case.name.clone(), (fastest.iteration, ns)))
        };
        self.at_plan = setup.workload.cases.iter().filter_map(fastest).collect();
        for approach in approaches {
            if approach.form != Form::Parameters {
                if setup.options.llm.sends_source {
                    let subject = CallSubject::Code { approach: Box::new(approach) };
                    self.questions.push_back(Question { subject, is_retry: false });
                }
                continue;
            }
            let made =
                existing(setup, history, &approach).and_then(|existing| generated::of_parameters(&approach, &existing));
            match made {
                Ok(made) => drop(self.take_configuration(begun, &approach, made)),
                Err(problem) => {
                    self.credit(&begun.model, approach.form, 0.0);
                    self.failed_attempt(approach.claim.clone(), problem.into());
                }
            }
        }
    }

    fn take_configuration(&mut self, begun: &CallBegun, approach: &Approach, made: Generated) -> Option<Family> {
        // What was corrected has not failed.
        let claim = begun.subject.approach().map(|asked| asked.claim.as_str());
        self.failed.retain(|failed| Some(failed.claim.as_str()) != claim);
        self.ready.push_back(Ready {
            call: begun.call,
            model: begun.model.clone(),
            approach: approach.clone(),
            family: made.name,
            params: made.params,
            round: begun.subject.round(),
            is_submitted: false,
        });
        made.family
    }

    /// Has a model correct an answer, unless it has had enough rounds.
    fn correct(
        &mut self,
        begun: &CallBegun,
        approach: &Approach,
        answer: CallId,
        problem: String,
        iteration: Option<IterationId>,
        rounds: u32,
    ) {
        self.failed_attempt(approach.claim.clone(), problem.clone());
        let round = begun.subject.round() + 1;
        if round > rounds {
            self.credit(&begun.model, approach.form, 0.0);
            return;
        }
        let subject = CallSubject::Repair { approach: Box::new(approach.clone()), answer, problem, iteration, round };
        self.questions.push_front(Question { subject, is_retry: false });
    }

    fn note_failure(&mut self, subject: &CallSubject, problem: &str) {
        let claim = subject.approach().map_or("a plan", |approach| &approach.claim).to_owned();
        self.failed_attempt(claim, problem.to_owned());
    }

    fn failed_attempt(&mut self, claim: String, problem: String) {
        self.failed.push_back(Failed { claim, problem });
        if self.failed.len() > MAX_FAILED {
            self.failed.pop_front();
        }
    }

    /// Counts what an approach has gained at last.
    fn credit(&mut self, model: &str, form: Form, ln_gain: f64) {
        let (of_model, of_form) = (self.worth.entry(model.to_owned()), self.worth_of_forms.entry(form));
        for worth in [of_model.or_default(), of_form.or_default()] {
            worth.concluded += 1;
            worth.ln_gain += ln_gain.max(0.0);
        }
    }

    /// Counts what the search gains with a family that a model wrote. Its first variant was counted before it was tuned.
    fn book_tuning(&mut self, begun: &Begun, concluded: &Concluded, fastest_ns: Option<f64>) {
        let mut tried = self.tried.values();
        let Some((model, form)) =
            tried.find(|tried| tried.family == begun.family).map(|tried| (tried.model.clone(), tried.approach.form))
        else {
            return;
        };
        // A configuration of a family that exists is not the model's family.
        if form == Form::Parameters
            || begun.rationale.purpose != Why::Screening
            || concluded.outcome != Outcome::Measured
        {
            return;
        }
        let of_case = concluded.case_results.iter().find(|found| found.case == begun.rationale.hypothesis.case);
        let own_ns = of_case.and_then(|found| found.best_timing()).map(|timing| timing.median_ns);
        let ln_gain = fastest_ns.zip(own_ns).map_or(0.0, |(before, own)| (before / own).ln());
        for worth in [self.worth.entry(model).or_default(), self.worth_of_forms.entry(form).or_default()] {
            worth.ln_gain += ln_gain.max(0.0);
        }
    }

    /// Applies the beginning of an iteration: what a model proposed is no longer to be tried.
    pub fn iteration_begun(&mut self, begun: &Begun) {
        let Origin::Model { call, .. } = begun.rationale.origin else { return };
        if begun.rationale.purpose != Why::Screening {
            return;
        }
        self.iterations += 1;
        let is_of = |ready: &Ready| ready.call == call && ready.family == begun.family && ready.params == begun.params;
        let place = self.ready.iter().position(is_of);
        if let Some(ready) = place.and_then(|place| self.ready.remove(place)) {
            self.tried.insert(begun.iteration, ready);
        }
    }

    /// Has a configuration tried again whose iteration was in flight when a process died.
    pub fn restore(&mut self, iteration: IterationId) {
        self.ready.extend(self.tried.remove(&iteration).map(|ready| Ready { is_submitted: false, ..ready }));
    }

    /// Applies the end of an iteration. `fastest_ns`: the fastest time of its case before.
    pub fn iteration_concluded(
        &mut self,
        begun: &Begun,
        concluded: &Concluded,
        fastest_ns: Option<f64>,
        setup: &SessionSetup,
    ) {
        let Origin::Model { call, .. } = begun.rationale.origin else {
            self.book_tuning(begun, concluded, fastest_ns);
            return;
        };
        if begun.rationale.purpose != Why::Screening {
            return;
        }
        let Some(tried) = self.tried.get(&begun.iteration).cloned() else { return };
        if concluded.outcome == Outcome::Measured {
            let of_case = concluded.case_results.iter().find(|found| found.case == tried.approach.case);
            let own_ns = of_case.and_then(|found| found.best_timing()).map(|timing| timing.median_ns);
            let gain = fastest_ns.zip(own_ns).map_or(0.0, |(before, own)| (before / own).ln());
            self.credit(&tried.model, tried.approach.form, gain);
            return;
        }
        let outcome = &concluded.outcome;
        let problem = format!("{}: {}", outcome.kind(), outcome.message().unwrap_or_default());
        // A kernel that cheats is not given a second chance, parameters need no code, and what was not worth a run is not worth a
        // correction that is paid for.
        let is_mended = tried.approach.form != Form::Parameters
            && !matches!(outcome, Outcome::Cheated { .. } | Outcome::Pruned { .. });
        match self.all.get(&call).cloned() {
            Some(asked) if is_mended => {
                let rounds = setup.options.llm.repair_rounds;
                self.correct(&asked, &tried.approach, call, problem, Some(begun.iteration), rounds);
            }
            _ => {
                self.credit(&tried.model, tried.approach.form, 0.0);
                self.failed_attempt(tried.approach.claim, problem);
            }
        }
    }
}

/// Returns what exists, for an approach. The error names a case that does not.
fn existing<'a>(setup: &'a SessionSetup, history: &'a History, approach: &Approach) -> Result<Existing<'a>, Error> {
    let case = setup.workload.case(&approach.case)?;
    let leaders = history.leaders_of_family(&approach.family, &case.name, BASES);
    let fastest = leaders.into_iter().map(|(leader, _)| &leader.params).collect();
    Ok(Existing { families: &setup.families, fastest, workload: &setup.workload, case, device: &setup.device })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::synthetic::{CASES, Scenario, setup};

    /// Both approaches promise something when they are planned. Then a variant takes half of the time.
    #[test]
    fn code_is_not_asked_for_once_it_can_no_longer_be_the_fastest() {
        let mut setup = setup();
        setup.options.llm.sends_source = true;
        let mut told = Scenario::new(setup.clone());
        told.screened(0, Why::Initial, [100, 100]);
        let approach = |claim: &str, case: &str, most: f64| {
            serde_json::json!({
                "claim": claim, "mechanism": "tile_size", "case": case, "speedup_low": 1.1, "speedup_high": most,
                "form": "kernel", "family": "", "how": "h"
            })
        };
        let plan = serde_json::json!({ "hypotheses": [
            approach("little", CASES[0], 1.5), approach("much", CASES[0], 4.0), approach("elsewhere", CASES[1], 1.2)
        ] });
        let begun = CallBegun {
            call: CallId(1),
            ordinal: 1,
            model: "m".to_owned(),
            subject: CallSubject::Plan,
            reserve: MicroUsd(0),
            after: 1,
            is_retry: false,
        };
        let mut calls = Calls::default();
        calls.take_plan(&begun, &plan, &setup, told.state.history());
        calls.drop_stale(told.state.history());
        assert_eq!(calls.questions.len(), 3, "nothing has become faster");
        told.screened(1, Why::Screening, [50, 95]);
        calls.drop_stale(told.state.history());
        let claims: Vec<&str> =
            calls.questions.iter().filter_map(|question| Some(question.subject.approach()?.claim.as_str())).collect();
        assert_eq!(claims, ["much", "elsewhere"]);
        assert_eq!(calls.failed().next().map(|failed| failed.claim.as_str()), Some("little"), "prompts say so");
    }
}
