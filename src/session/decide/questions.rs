//! Decides what to ask a language model, and when. Pure.

use std::time::Duration;

use crate::agent::diagnosis;
use crate::agent::llm::bandit::{self, TrackRecord};
use crate::domain::models::call_record::CallSubject;
use crate::session::meter::Time;
use crate::session::state::SessionState;
use crate::session::state::calls::Question;

/// Iterations between the ends of two plans' questions, at least. A plan that follows at once has learnt nothing new.
const BETWEEN_PLANS: u64 = 5;

/// The distance of every case to its floor below which no more plans are asked for, as a factor. The floor counts every
/// byte and every product once, and no kernel here has come nearer.
const NEAR_FLOOR: f64 = 1.1;

/// The part of the time budget that must be left for a call, so that its answer can be tried.
const MIN_TIME_SHARE: f64 = 0.05;

/// How long the first call is assumed to take: a plan of a model that thinks takes longer, but a shorter one must be possible.
const FIRST_CALL: Duration = Duration::from_secs(10);

/// A question with the model to ask.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::session) struct QuestionDue {
    pub question: Question,
    pub model: String,
}

/// Returns the question that is due. `initial`: proposals of the initial design that are under way. `may_ask`: whether the
/// endpoint and the money allow a call.
pub(super) fn question_due(state: &SessionState, time: &Time, initial: usize, may_ask: bool) -> Option<QuestionDue> {
    let (calls, options) = (state.calls(), &state.setup().options);
    let terms = &options.llm;
    let is_over = calls.given_up().is_some() || !may_ask;
    let left = state.meter().left(&options.budget, time, state.closing_time());
    // A call that is cut short is paid for, and gives nothing.
    let needed = options.budget.wall.mul_f64(MIN_TIME_SHARE).max(calls.usual_latency().unwrap_or(FIRST_CALL));
    if is_over || calls.open().len() >= terms.concurrency || left < needed {
        return None;
    }
    // Before that, nothing is known that could be asked about.
    if initial > 0 || state.history().finished.is_empty() {
        return None;
    }
    let worth: Vec<TrackRecord> = terms.models.iter().map(|(model, _)| calls.worth(model)).collect();
    let question = match calls.next_question() {
        Some(question) => question.clone(),
        None if is_plan_due(state, &worth) => Question { subject: CallSubject::Plan, is_retry: false },
        None => return None,
    };
    // A correction goes to the model that made the mistake: it has the rest of the approach in mind.
    let same = match question.subject.question() {
        CallSubject::Repair { answer, .. } => calls.model_of(*answer).map(str::to_owned),
        _ => None,
    };
    let model = same.or_else(|| bandit::choose(&worth).map(|place| terms.models[place].0.clone()))?;
    Some(QuestionDue { question, model })
}

fn is_plan_due(state: &SessionState, worth: &[TrackRecord]) -> bool {
    let calls = state.calls();
    let finished = state.meter().finished();
    let is_idle = calls.open().len() == 0 && calls.waiting() == 0;
    let is_later = calls.planned().is_none_or(|planned| finished >= planned + BETWEEN_PLANS);
    is_idle && is_later && !bandit::has_no_expected_gain(worth) && has_room(state)
}

/// Tells whether a case is still far from its floor.
fn has_room(state: &SessionState) -> bool {
    let setup = state.setup();
    let diagnosis = diagnosis::diagnose(state.history(), &setup.workload, &setup.device);
    diagnosis.headroom.iter().any(|headroom| headroom.factor() > NEAR_FLOOR)
}

/// Tells whether it is the turn of a configuration that a model proposed. With other proposers, models have a share.
/// It waits for the first result, with which it is compared. `proposals`: those under way.
pub(in crate::session) fn is_turn(state: &SessionState, proposals: usize) -> bool {
    let (calls, finished) = (state.calls(), state.meter().finished());
    let share = state.setup().options.llm.share;
    let has_reference = finished > 0 || proposals == 0;
    has_reference && calls.next_ready().is_some() && calls.iterations() as f64 <= share * (finished + 1) as f64
}
