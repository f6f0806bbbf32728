//! What earlier sessions of a workload have taught on a kind of device: the effects of single parameters, and claims of language
//! models that were refuted.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::ids::{CaseName, IterationId, SessionId};
use super::origin::Change;
use super::record::IterationRecord;
use super::statistics::median;
use super::tested::{Trial, pairs};
use super::variant::Params;

/// The pairs of configurations that an effect needs. Fewer may be chance.
const MIN_PAIRS: usize = 3;

/// The most effects that are told, the largest first.
const MOST_EFFECTS: usize = 16;

/// The lessons for a session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Lessons {
    /// Product name of the device. They hold for no other.
    pub device: String,
    /// The effects, the largest first.
    pub effects: Vec<Effect>,
    /// The refuted claims, the latest first.
    pub refuted: Vec<RefutedClaim>,
}

/// The effect of one value of a parameter instead of another one, where nothing else changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// The family.
    pub family: String,
    /// The change. Its `from` is smaller than its `to`.
    pub change: Change,
    /// The median of the time before divided by the time after, over all sessions and cases.
    pub speedup: f64,
    /// The pairs of configurations that it comes from.
    pub pairs: usize,
}

/// A claim of a language model whose result was below its range.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RefutedClaim {
    /// The iteration that refuted it.
    pub iteration: IterationId,
    /// The case.
    pub case: CaseName,
    /// The claim.
    pub claim: String,
    /// The predicted range of the speed-up, low and high.
    pub predicted: [f64; 2],
    /// The speed-up that was found.
    pub actual: f64,
}

/// A configuration that a session has timed on a case.
#[derive(Debug, Clone)]
pub struct Timed {
    /// The session.
    pub session: SessionId,
    /// The iteration.
    pub iteration: IterationId,
    /// The case.
    pub case: CaseName,
    /// The family.
    pub family: String,
    /// The configuration.
    pub params: Params,
    /// Its time in nanoseconds.
    pub ns: f64,
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

impl Effect {
    /// Returns the effects that several pairs of configurations show, the largest first. Only configurations of one session and
    /// case make a pair.
    pub fn of(timed: &[Timed]) -> Vec<Self> {
        let mut groups: HashMap<(SessionId, &CaseName, &str), Vec<Trial<'_>>> = HashMap::new();
        for one in timed {
            let Timed { session, iteration, case, family, params, ns } = one;
            let (iteration, ns) = (*iteration, *ns);
            let trial = Trial { iteration, family, params, ns, ctas: None, profile: None, remedy: None };
            groups.entry((*session, case, family)).or_default().push(trial);
        }
        let mut speedups: HashMap<(String, Change), Vec<f64>> = HashMap::new();
        for ((_, _, family), trials) in &groups {
            let upwards =
                pairs(&trials.iter().collect::<Vec<_>>()).into_iter().filter(|(.., change)| change.from < change.to);
            for (before, after, change) in upwards {
                speedups.entry(((*family).to_owned(), change)).or_default().push(before.ns / after.ns);
            }
        }
        let effect = |((family, change), all): ((String, Change), Vec<f64>)| {
            let speedup = median(&all).filter(|_| all.len() >= MIN_PAIRS)?;
            Some(Self { family, change, speedup, pairs: all.len() })
        };
        let mut effects: Vec<Self> = speedups.into_iter().filter_map(effect).collect();
        let size = |effect: &Self| effect.speedup.ln().abs();
        effects.sort_by(|a, b| {
            size(b).total_cmp(&size(a)).then_with(|| (&a.family, &a.change).cmp(&(&b.family, &b.change)))
        });
        effects.truncate(MOST_EFFECTS);
        effects
    }

    /// Tells whether a change of parameters makes use of the effect, or goes against it. None if it does neither.
    fn is_followed(&self, family: &str, change: &Change) -> Option<bool> {
        if self.family != family || self.change.parameter != change.parameter {
            return None;
        }
        let upwards = (self.change.from, self.change.to) == (change.from, change.to);
        let downwards = (self.change.from, self.change.to) == (change.to, change.from);
        (upwards || downwards).then_some(upwards == (self.speedup > 1.0))
    }
}

impl Lessons {
    /// Returns each lesson as a sentence.
    pub fn sentences(&self) -> Vec<String> {
        let effects = self.effects.iter().map(|Effect { family, change, speedup, pairs }| {
            let Change { parameter, from, to } = change;
            format!("`{family}`: {parameter} {to} instead of {from} is {speedup:.2}x as fast (median, n = {pairs})")
        });
        let refuted = self.refuted.iter().map(|one| {
            let RefutedClaim { iteration, case, claim, predicted: [low, high], actual } = one;
            format!("refuted on {case} by iteration {iteration}: {claim} (predicted {low:.2}x to {high:.2}x, found {actual:.2}x)")
        });
        effects.chain(refuted).collect()
    }

    /// Counts which proposals of language models followed an effect, and whether it helped. `before` returns the parameters of the
    /// iteration that a claim refers to.
    pub fn followed<'i>(
        &self,
        proposals: impl Iterator<Item = &'i IterationRecord>,
        before: impl Fn(IterationId) -> Option<&'i Params>,
    ) -> Followed {
        let mut counts = Followed::default();
        for one in proposals {
            let base = one.hypothesis.reference.iteration().and_then(&before);
            let (Some(base), Some(actual)) = (base, one.actual) else { continue };
            let changes = Change::between(base, &one.params);
            let agree = |effect: &Effect| changes.iter().find_map(|change| effect.is_followed(&one.family, change));
            let agreements: Vec<bool> = self.effects.iter().filter_map(agree).collect();
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timed(session: i64, tile: i64, pad: i64, ns: f64) -> Timed {
        let params = Params::from_iter([("TILE".to_owned(), tile), ("PAD".to_owned(), pad)]);
        let (iteration, case, family) = (IterationId(1), CaseName::from("c"), "f".to_owned());
        Timed { session: SessionId(session), iteration, case, family, params, ns }
    }

    #[test]
    fn an_effect_comes_from_pairs_within_sessions() {
        let all = [
            timed(1, 16, 0, 8.0),
            timed(1, 32, 0, 4.0),
            timed(1, 16, 1, 6.0),
            timed(1, 32, 1, 2.0),
            timed(2, 16, 0, 90.0),
            timed(2, 32, 0, 36.0),
        ];
        let [effect] = &Effect::of(&all)[..] else { panic!("only TILE has three pairs: {:?}", Effect::of(&all)) };
        assert_eq!((effect.change.parameter.as_str(), effect.speedup, effect.pairs), ("TILE", 2.5, 3));
        let lessons = Lessons { effects: vec![effect.clone()], ..Lessons::default() };
        assert_eq!(lessons.sentences(), ["`f`: TILE 32 instead of 16 is 2.50x as fast (median, n = 3)"]);
        let change = |from, to| Change { parameter: "TILE".to_owned(), from, to };
        assert_eq!(effect.is_followed("f", &change(16, 32)), Some(true));
        assert_eq!(effect.is_followed("f", &change(32, 16)), Some(false));
        assert_eq!([effect.is_followed("f", &change(16, 64)), effect.is_followed("g", &change(16, 32))], [None; 2]);
    }
}
