//! Two sessions side by side: what differs in their setup, and how their best times compare.

use super::CaseFacts;
use super::contract::{Both, Case, Difference, Ratio, Report, Two};
use crate::domain::device::TimeSource;
use crate::domain::ids::CaseName;
use crate::domain::measurement::conditions::Conditions;
use crate::domain::statistics::{Interval, ratio_interval};
use crate::error::Error;

/// The version of the contract.
const SCHEMA: &str = "optloop.two-sessions/1";

/// Least difference of two measured times that counts. Two copies of a kernel in two processes differed by 0.85% for as
/// long as they lived (see `ANOTHER_PROCESS` of the comparisons).
const RESOLUTION: f64 = 0.01;

/// A session of the comparison.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    /// Its report.
    pub report: &'a Report,
    /// The facts of its cases, with their conditions.
    pub facts: &'a [CaseFacts],
}

/// Compares two sessions.
pub fn of(a: Side<'_>, b: Side<'_>) -> Two {
    let names = a.report.cases.iter().chain(&b.report.cases).map(|case| &case.case);
    let mut cases: Vec<Both> = Vec::new();
    for name in names {
        if !cases.iter().any(|known| known.case == *name) {
            cases.push(both(name, a, b));
        }
    }
    let logs: Vec<f64> = cases.iter().filter_map(|case| Some(case.ratio?.estimate.ln())).collect();
    let mean_ratio = (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp());
    let setup = setup(a.report, b.report);
    Two { schema: SCHEMA, a: a.report.session.clone(), b: b.report.session.clone(), setup, cases, mean_ratio }
}

fn setup(a: &Report, b: &Report) -> Vec<Difference> {
    let of = |report: &Report| {
        let (session, environment) = (&report.session, &report.environment);
        [
            ("workload", session.workload.clone()),
            ("device", session.device.clone()),
            ("times", session.time_source.name().to_owned()),
            ("graphs", session.graphs.name().to_owned()),
            ("driver", environment.driver.clone().unwrap_or_else(|| "-".to_owned())),
            ("NVRTC", environment.nvrtc.clone()),
            ("PyTorch", environment.torch.clone().unwrap_or_else(|| "-".to_owned())),
            ("optloop", environment.optloop.clone()),
            ("host", environment.host.clone()),
            ("proposer", session.proposer.clone()),
            ("seed", session.seed.to_string()),
            ("budget", format!("{} s", session.budget_s)),
        ]
    };
    let pairs = of(a).into_iter().zip(of(b)).filter(|((_, a), (_, b))| a != b);
    pairs.map(|((what, a), (_, b))| Difference { what, a, b }).collect()
}

fn both(name: &CaseName, a: Side<'_>, b: Side<'_>) -> Both {
    let case = |side: Side<'_>| side.report.cases.iter().find(|case| case.case == *name).cloned();
    let (in_a, in_b) = (case(a), case(b));
    let us = |case: &Option<Case>| case.as_ref().and_then(|case| case.best_us);
    let variant = |case: &Option<Case>| case.as_ref().and_then(|case| case.variant.clone());
    let compared = in_a.as_ref().zip(in_b.as_ref()).and_then(|(one, other)| {
        one.best_us.zip(other.best_us)?;
        Some(like(conditions(a, one), conditions(b, other)).map(|()| ratio(one, other)))
    });
    let (ratio, verdict, why_not) = match compared {
        None => (None, "missing", None),
        Some(Err(why)) => (None, "not_comparable", Some(why.to_string())),
        Some(Ok(None)) => (None, "missing", None),
        Some(Ok(Some(ratio))) => (Some(ratio), verdict(ratio, a.report.session.time_source), None),
    };
    Both {
        case: name.clone(),
        a_us: us(&in_a),
        b_us: us(&in_b),
        a_variant: variant(&in_a),
        b_variant: variant(&in_b),
        ratio,
        verdict,
        why_not,
    }
}

/// Returns the conditions of a case's best time.
fn conditions(side: Side<'_>, case: &Case) -> Option<Conditions> {
    let facts = side.facts.iter().find(|facts| facts.case == case.case)?;
    let regime = case.regime.unwrap_or(facts.conditions.regime);
    let graphs = side.report.session.graphs;
    Some(Conditions { regime, graphs, ..facts.conditions.clone() })
}

fn like(a: Option<Conditions>, b: Option<Conditions>) -> Result<(), Error> {
    let known = a.zip(b).ok_or_else(|| Error::new("the workload no longer has the case"))?;
    known.0.like(&known.1).map_err(|unlike| Error::new(unlike.0.join("; ")))
}

/// Returns the first time over the second one.
fn ratio(a: &Case, b: &Case) -> Option<Ratio> {
    let (a_us, b_us) = (a.best_us?, b.best_us?);
    let interval = |[lo, hi]: [f64; 2]| Interval { lo, hi };
    let ends = a.best_ci_us.zip(b.best_ci_us);
    let ends = ends.map(|(a_ci, b_ci)| ratio_interval((a_us, interval(a_ci)), (b_us, interval(b_ci))));
    Some(Ratio { estimate: a_us / b_us, lo: ends.map(|ends| ends.lo), hi: ends.map(|ends| ends.hi), paired: false })
}

fn verdict(ratio: Ratio, source: TimeSource) -> &'static str {
    let (lo, hi) = (ratio.lo.unwrap_or(ratio.estimate), ratio.hi.unwrap_or(ratio.estimate));
    // A modelled time has no noise.
    let margin = if source == TimeSource::Measured { RESOLUTION } else { 0.0 };
    if lo > 1.0 + margin {
        "faster"
    } else if hi < 1.0 - margin {
        "slower"
    } else {
        "tied"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{facts, record, report};

    fn sides() -> (Report, Report, Vec<CaseFacts>) {
        let mut before = record();
        before.session.seed = 7;
        before.iterations.truncate(2);
        let all = ["b1h1s128", "b8h8s512", "b16h8s512"].map(facts).to_vec();
        (report(&before), report(&record()), all)
    }

    #[test]
    fn two_sessions_are_compared_case_by_case() {
        let (a, b, facts) = sides();
        let two = of(Side { report: &a, facts: &facts }, Side { report: &b, facts: &facts });
        let told: Vec<_> = two.cases.iter().map(|case| (case.case.as_str(), case.verdict)).collect();
        assert_eq!(told, [("b1h1s128", "faster"), ("b8h8s512", "tied"), ("b16h8s512", "missing")]);
        assert_eq!(two.setup, [Difference { what: "seed", a: "7".to_owned(), b: "1".to_owned() }]);
        insta::assert_snapshot!(two.to_markdown(), @"
        # Session 2 against session 2

        Of 2 comparable cases, session 2 is faster on 1, slower on 0 and tied on 1. The geometric mean of the ratios is 1.13×. One more has no comparable times. Session 2 took 55 min and cost $0.93; session 2 took 55 min and cost $0.93.

        What differs in the setup:

        | What | Session 2 | Session 2 |
        |---|---|---|
        | seed | 7 | 1 |

        The ratio is the first session's time over the second one's: above 1, the second is faster. Two runs took the times, so changes of the machine in between are in the ratio and not in its interval. Measured times that differ by less than 1% count as tied.

        | Case | Session 2 (µs) | Session 2 (µs) | Ratio | Verdict | Variant of the second |
        |---|--:|--:|--:|---|---|
        | b1h1s128 | 64.00 | 50.00 | 1.28× (1.27× to 1.29×) | faster | tiled BLOCK=256 PAD=8 |
        | b8h8s512 | 400.00 | 400.00 | 1.00× (0.99× to 1.01×) | tied | the same variant |
        | b16h8s512 | - | - | - | missing | - |
        ");
        let mut csv = Vec::new();
        two.write_csv(&mut csv).unwrap();
        assert_eq!(String::from_utf8(csv).unwrap().lines().count(), 4);
        assert!(two.to_html().unwrap().contains("b1h1s128"));
    }

    #[test]
    fn times_under_different_conditions_are_not_compared() {
        let (a, b, facts) = sides();
        let mut others = facts.clone();
        others[0].conditions.device = "another".to_owned();
        let two = of(Side { report: &a, facts: &facts }, Side { report: &b, facts: &others });
        let case = &two.cases[0];
        assert_eq!((case.verdict, case.ratio), ("not_comparable", None));
        assert!(case.why_not.as_ref().unwrap().contains("another"), "{case:?}");
        let two = of(Side { report: &a, facts: &[] }, Side { report: &b, facts: &facts });
        assert_eq!((two.cases[0].verdict, two.mean_ratio), ("not_comparable", None));
    }
}
