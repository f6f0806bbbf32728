//! The effects of single parameters that the configurations of all sessions show.

use std::collections::HashMap;

use super::tested::{Trial, pairs};
use crate::domain::ids::{CaseName, IterationId, SessionId};
use crate::domain::proposal::lessons::Effect;
use crate::domain::proposal::origin::Change;
use crate::domain::statistics::median;
use crate::domain::variant::Params;

/// The pairs of configurations that an effect needs. Fewer may be chance.
const MIN_PAIRS: usize = 3;

/// The most effects that are told, the largest first.
const MOST_EFFECTS: usize = 16;

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

/// Returns the effects that several pairs of configurations show, the largest first. Only configurations of one session and
/// case make a pair.
pub fn effects(timed: &[Timed]) -> Vec<Effect> {
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
        Some(Effect { family, change, speedup, pairs: all.len() })
    };
    let mut effects: Vec<Effect> = speedups.into_iter().filter_map(effect).collect();
    let size = |effect: &Effect| effect.speedup.ln().abs();
    effects
        .sort_by(|a, b| size(b).total_cmp(&size(a)).then_with(|| (&a.family, &a.change).cmp(&(&b.family, &b.change))));
    effects.truncate(MOST_EFFECTS);
    effects
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::proposal::lessons::Lessons;

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
        let [effect] = &effects(&all)[..] else { panic!("only TILE has three pairs: {:?}", effects(&all)) };
        assert_eq!((effect.change.parameter.as_str(), effect.speedup, effect.pairs), ("TILE", 2.5, 3));
        let lessons = Lessons { effects: vec![effect.clone()], ..Lessons::default() };
        assert_eq!(lessons.sentences(), ["`f`: TILE 32 instead of 16 is 2.50x as fast (median, n = 3)"]);
        let change = |from, to| Change { parameter: "TILE".to_owned(), from, to };
        assert_eq!(effect.is_followed("f", &change(16, 32)), Some(true));
        assert_eq!(effect.is_followed("f", &change(32, 16)), Some(false));
        assert_eq!([effect.is_followed("f", &change(16, 64)), effect.is_followed("g", &change(16, 32))], [None; 2]);
    }
}
