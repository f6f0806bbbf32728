//! What each call of a language model cost, what came of it, and whether a result on record had refuted its idea before it was sent.

use serde::Serialize;

use super::refuted::NOISE;
use crate::domain::claims::approach::{Approach, Form};
use crate::domain::claims::hypothesis::Score;
use crate::domain::ids::{CaseName, IterationId};
use crate::domain::measurement::evaluation::Outcome;
use crate::domain::models::call::CallPurpose;
use crate::domain::models::call_record::{CallBegun, CallEnded, CallId, CallOutcome};
use crate::domain::models::money::MicroUsd;
use crate::domain::proposal::lessons::{Effect, Lessons};
use crate::domain::proposal::origin::{Change, Origin, Purpose};
use crate::domain::record::IterationRecord;

/// A call with what came of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CallResult {
    /// Its number.
    pub call: CallId,
    /// What it was for.
    pub purpose: CallPurpose,
    /// What it counts for, in US dollars: the cost, or the estimate where the cost is not known.
    pub usd: f64,
    /// How the call ended. None while it runs.
    pub status: Option<&'static str>,
    /// What it claims: the approach of a call for code, or the first hypothesis of a plan.
    pub claim: Option<String>,
    /// The case of the claim.
    pub case: Option<CaseName>,
    /// The family that it changes. None for a new one.
    pub family: Option<String>,
    /// The predicted range of the speed-up, low and high.
    pub predicted: Option<[f64; 2]>,
    /// The first iteration of its answer. None if it came to none.
    pub iteration: Option<IterationId>,
    /// What the device said about that.
    pub outcome: Option<&'static str>,
    /// Its speed-up over what the claim refers to.
    pub actual: Option<f64>,
    /// Where that lies.
    pub score: Option<Score>,
    /// The predicted range once its family is tuned, low and high.
    pub tuned_predicted: Option<[f64; 2]>,
    /// The speed-up of the fastest configuration of its family, over the same. None if its family was not tuned.
    pub tuned: Option<f64>,
    /// The result that had refuted the idea when the call was sent.
    pub refuted_by: Option<Refutation>,
}

/// A result outside and below the predicted range of an idea.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Refutation {
    /// The iteration.
    pub iteration: IterationId,
    /// The speed-up that it has shown.
    pub speedup: f64,
}

/// The calls of a session.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ByCall {
    /// The calls, oldest first.
    pub calls: Vec<CallResult>,
    /// What they count for together, in US dollars.
    pub usd: f64,
    /// The part of it for calls whose ideas were refuted when they were sent.
    pub refuted_usd: f64,
    /// The share of that part. None if nothing was spent.
    pub refuted_share: Option<f64>,
    /// How the proposals agree with the lessons of earlier sessions. None if the models were told none.
    pub lessons: Option<Followed>,
}

impl ByCall {
    /// Tells what came of the calls of a session. `iterations` are all of the session, oldest first.
    pub fn of(
        calls: &[(CallBegun, Option<CallEnded>)],
        iterations: &[IterationRecord],
        lessons: Option<&Lessons>,
    ) -> Self {
        let record = OnRecord { calls, iterations };
        let calls: Vec<CallResult> = calls.iter().map(|(begun, ended)| record.result(begun, ended.as_ref())).collect();
        let usd: f64 = calls.iter().map(|call| call.usd).sum();
        let refuted = calls.iter().filter(|call| call.refuted_by.is_some());
        // The sum of nothing is -0.
        let refuted_usd = refuted.map(|call| call.usd).sum::<f64>() + 0.0;
        let lessons = lessons.map(|lessons| followed(lessons, iterations));
        Self { calls, usd, refuted_usd, refuted_share: (usd > 0.0).then(|| refuted_usd / usd), lessons }
    }
}

/// How a session's proposals of language models agree with its lessons.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Followed {
    /// The proposals that change a parameter as an effect says.
    pub followed: usize,
    /// Those of them that were faster than what they changed.
    pub helped: usize,
    /// The proposals that change a parameter against an effect.
    pub against: usize,
    /// Those of them that were faster.
    pub against_helped: usize,
}

/// What a session has on record.
struct OnRecord<'a> {
    calls: &'a [(CallBegun, Option<CallEnded>)],
    iterations: &'a [IterationRecord],
}

impl OnRecord<'_> {
    fn result(&self, begun: &CallBegun, ended: Option<&CallEnded>) -> CallResult {
        let ideas = ideas(begun, ended);
        let first = ideas.first();
        let own = self.iterations.iter().find(|one| of_call(one) == Some(begun.call));
        CallResult {
            call: begun.call,
            purpose: begun.subject.purpose(),
            usd: ended.map_or(MicroUsd(0), CallEnded::spent).usd(),
            status: ended.map(|ended| ended.outcome.name()),
            claim: first.map(|idea| idea.claim.clone()),
            case: first.map(|idea| idea.case.clone()),
            family: first.and_then(|idea| idea.base()).map(str::to_owned),
            predicted: first.and_then(Approach::prediction).map(|range| [range.lo, range.hi]),
            iteration: own.map(|own| own.id),
            outcome: own.and_then(|own| own.outcome.as_ref()).map(Outcome::kind),
            actual: own.and_then(|own| own.actual),
            score: own.and_then(|own| own.score),
            tuned_predicted: first.and_then(Approach::tuned),
            tuned: own.and_then(|own| self.tuned(own)),
            refuted_by: self.refuted(&ideas, begun.after),
        }
    }

    /// Returns the speed-up of the fastest configuration of a family that a model wrote, over what its first iteration is compared
    /// with.
    fn tuned(&self, first: &IterationRecord) -> Option<f64> {
        let Origin::Model { form, .. } = &first.rationale.origin else { return None };
        let case = &first.rationale.hypothesis.case;
        let of_family = self.iterations.iter().filter(|one| one.family == first.family && one.id != first.id);
        let is_right = |one: &&IterationRecord| {
            one.outcome == Some(Outcome::Measured)
                && one.rationale.purpose == Purpose::Screening
                && *form != Form::Parameters
        };
        let fastest = of_family.filter(is_right).filter_map(|one| time_ns(one, case)).min_by(f64::total_cmp)?;
        let own_ns = time_ns(first, case)?;
        Some(first.actual? * own_ns / fastest.min(own_ns))
    }

    /// Returns the result that refutes the first of some ideas, if every one of them was refuted after so many iterations had ended.
    fn refuted(&self, ideas: &[Approach], after: u64) -> Option<Refutation> {
        let ended = self.iterations.iter().filter(|one| one.outcome.is_some());
        let known: Vec<&IterationRecord> = ended.take(usize::try_from(after).unwrap_or(usize::MAX)).collect();
        let all: Option<Vec<Refutation>> = ideas.iter().map(|idea| self.refutes(idea, &known)).collect();
        all?.first().copied()
    }

    /// Returns a known result of the idea that is outside and below its range.
    fn refutes(&self, idea: &Approach, known: &[&IterationRecord]) -> Option<Refutation> {
        let low = idea.prediction()?.lo;
        let results: Vec<Refutation> = match idea.parameters.is_empty() || idea.base().is_none() {
            true => self.of_same_idea(idea, known),
            false => with_same_values(idea, known).into_iter().collect(),
        };
        results.into_iter().find(|one| one.speedup.ln() < low.ln() - NOISE)
    }

    /// Returns the results of earlier answers that change the same family by the same mechanism, on the same case.
    fn of_same_idea(&self, idea: &Approach, known: &[&IterationRecord]) -> Vec<Refutation> {
        let approach_of = |call: CallId| {
            let begun = self.calls.iter().find(|(begun, _)| begun.call == call)?;
            begun.0.subject.approach()
        };
        let is_same = |other: &Approach| {
            other.base() == idea.base() && other.mechanism == idea.mechanism && other.case == idea.case
        };
        let result = |one: &&IterationRecord| {
            approach_of(of_call(one)?).filter(|other| is_same(other))?;
            Some(Refutation { iteration: one.id, speedup: one.actual? })
        };
        known.iter().filter_map(result).collect()
    }
}

/// Returns the fastest known configuration with the values that an idea sets, over the fastest one with others.
fn with_same_values(idea: &Approach, known: &[&IterationRecord]) -> Option<Refutation> {
    let has_values = |one: &IterationRecord| {
        idea.parameters.iter().all(|(name, value)| one.params.get(name).is_none_or(|known| known == value))
    };
    let of_family = || {
        let is_of_family = |one: &&&IterationRecord| {
            let is_timed = one.outcome == Some(Outcome::Measured) && one.rationale.purpose != Purpose::Experiment;
            is_timed && one.family == idea.family
        };
        known.iter().filter(is_of_family).filter_map(|one| Some((*one, time_ns(one, &idea.case)?)))
    };
    let fastest =
        |with: bool| of_family().filter(|(one, _)| has_values(one) == with).min_by(|a, b| a.1.total_cmp(&b.1));
    let ((own, own_ns), (_, other_ns)) = fastest(true).zip(fastest(false))?;
    Some(Refutation { iteration: own.id, speedup: other_ns / own_ns })
}

fn time_ns(one: &IterationRecord, case: &CaseName) -> Option<f64> {
    let found = one.measurements.iter().find(|found| found.case == *case)?;
    found.best_timing().map(|timing| timing.median_ns)
}

/// Returns what a call is about: the approach whose code it asks for, or the hypotheses of a plan.
fn ideas(begun: &CallBegun, ended: Option<&CallEnded>) -> Vec<Approach> {
    if let Some(approach) = begun.subject.approach() {
        return vec![approach.clone()];
    }
    let Some(CallOutcome::Answered { answer, .. }) = ended.map(|ended| &ended.outcome) else { return Vec::new() };
    let hypotheses = answer.get("hypotheses").and_then(|all| all.as_array());
    hypotheses.into_iter().flatten().filter_map(|one| serde_json::from_value(one.clone()).ok()).collect()
}

/// Returns the call whose answer an iteration tries first.
fn of_call(iteration: &IterationRecord) -> Option<CallId> {
    match (&iteration.rationale.origin, iteration.rationale.purpose) {
        (Origin::Model { call, .. }, Purpose::Screening) => Some(*call),
        _ => None,
    }
}

/// Counts which proposals of language models followed an effect, and whether it helped.
fn followed(lessons: &Lessons, iterations: &[IterationRecord]) -> Followed {
    let mut counts = Followed::default();
    for one in iterations.iter().filter(|one| of_call(one).is_some()) {
        let base = one.rationale.hypothesis.reference.iteration();
        let base = base.and_then(|id| iterations.iter().find(|other| other.id == id));
        let (Some(base), Some(actual)) = (base, one.actual) else { continue };
        let changes = Change::between(&base.params, &one.params);
        let agree = |effect: &Effect| changes.iter().find_map(|change| effect.is_followed(&one.family, change));
        let agreements: Vec<bool> = lessons.effects.iter().filter_map(agree).collect();
        if agreements.contains(&true) {
            counts.followed += 1;
            counts.helped += usize::from(actual > 1.0);
        }
        if agreements.contains(&false) {
            counts.against += 1;
            counts.against_helped += usize::from(actual > 1.0);
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::measurement::verdict::Verdict;
    use crate::domain::models::call_record::CallSubject;
    use crate::store::testing::Scene;

    fn call(parameters: serde_json::Value, low: f64, high: f64, after: u64) -> CallBegun {
        let approach = serde_json::json!({
            "claim": "c", "mechanism": "threads", "case": "b1h1s128", "speedup_low": low, "speedup_high": high,
            "form": "parameters", "family": "tiled", "parameters": parameters
        });
        CallBegun {
            call: CallId(1),
            ordinal: 1,
            model: "m".to_owned(),
            subject: CallSubject::Code { approach: serde_json::from_value(approach).unwrap() },
            reserve: MicroUsd(10),
            after,
            is_retry: false,
        }
    }

    #[tokio::test]
    async fn parameters_are_refuted_by_the_fastest_configuration_that_has_their_values() {
        let scene = Scene::new().await;
        let session = scene.session().await;
        let start = scene.measured(session, 64, None, 100_000.0, Verdict::Start).await;
        let better = scene.measured(session, 128, Some(start), 80_000.0, Verdict::Improved).await;
        let record = scene.store.session_record(session).await.unwrap();
        let refuted = |begun: CallBegun| ByCall::of(&[(begun, None)], &record.iterations, None).calls[0].refuted_by;
        let block = |value: i64| serde_json::json!({ "BLOCK": value });
        let found = refuted(call(block(128), 2.0, 3.0, 2)).unwrap();
        assert!(found.iteration == better && (1.25..1.27).contains(&found.speedup), "{found:?}");
        assert_eq!(refuted(call(block(128), 2.0, 3.0, 1)), None, "it was not yet known");
        assert_eq!(refuted(call(block(128), 1.28, 1.5, 2)), None, "it may be noise");
        assert_eq!(refuted(call(block(256), 2.0, 3.0, 2)), None, "nothing has these values");
        let none = ByCall::of(&[(call(block(256), 2.0, 3.0, 2), None)], &record.iterations, None);
        assert!(none.refuted_usd.is_sign_positive(), "-0 would be shown");
    }
}
