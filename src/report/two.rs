//! Two sessions side by side: what differs in their setup, and how their best times compare.

use std::io::Write;

use serde::Serialize;

use super::contract::{Case, Ratio, Session, Variant};
use super::format::{NOTHING, duration, times, us, usd};
use super::table::Table;
use super::{CaseFacts, Report, ReportError, markdown};
use crate::domain::conditions::Conditions;
use crate::domain::device::TimeSource;
use crate::domain::ids::CaseName;
use crate::domain::statistics::{Interval, ratio_interval};
use crate::domain::variant::show_params;

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

/// Two sessions, compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Two {
    /// The version of the contract: `optloop.two-sessions/1`.
    pub schema: &'static str,
    /// The first session: before.
    pub a: Session,
    /// The second session: after.
    pub b: Session,
    /// What differs in their setup.
    pub setup: Vec<Difference>,
    /// Every case of either session.
    pub cases: Vec<Both>,
    /// The geometric mean of the ratios of the cases that may be compared. Null without one.
    pub mean_ratio: Option<f64>,
}

/// What differs in the setup of two sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// What it is.
    pub what: &'static str,
    /// In the first session.
    pub a: String,
    /// In the second session.
    pub b: String,
}

/// A case in two sessions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Both {
    /// The case.
    pub case: CaseName,
    /// The best time of the first session.
    pub a_us: Option<f64>,
    /// The best time of the second session.
    pub b_us: Option<f64>,
    /// The best variant of the first session.
    pub a_variant: Option<Variant>,
    /// The best variant of the second session.
    pub b_variant: Option<Variant>,
    /// The first session's time over the second one's: above 1, the second is faster. Two runs took the times, so changes
    /// of the machine in between are in the estimate and not in the interval. Null if the two may not be compared.
    pub ratio: Option<Ratio>,
    /// `faster` (in the second session), `slower`, `tied`, `not_comparable`, or `missing` if a session has no time.
    pub verdict: &'static str,
    /// Why the times may not be compared. Null if they may.
    pub why_not: Option<String>,
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
            ("driver", environment.driver.clone().unwrap_or_else(|| NOTHING.to_owned())),
            ("NVRTC", environment.nvrtc.clone()),
            ("PyTorch", environment.torch.clone().unwrap_or_else(|| NOTHING.to_owned())),
            ("optloop", environment.optloop.clone()),
            ("host", environment.host.clone()),
            ("proposer", session.proposer.clone()),
            ("seed", session.seed.to_string()),
            ("budget", duration(session.budget_s)),
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
        Some(Err(why)) => (None, "not_comparable", Some(why)),
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

fn like(a: Option<Conditions>, b: Option<Conditions>) -> Result<(), String> {
    let known = a.zip(b).ok_or_else(|| "the workload no longer has the case".to_owned())?;
    known.0.like(&known.1).map_err(|unlike| unlike.0.join("; "))
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

impl Two {
    /// Writes the comparison as JSON.
    pub fn to_json(&self) -> Result<String, ReportError> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Writes the comparison as Markdown.
    pub fn to_markdown(&self) -> String {
        let setup = match self.setup.is_empty() {
            true => "The setup of the two sessions is the same.\n".to_owned(),
            false => format!("What differs in the setup:\n\n{}", markdown::of_table(&self.setup_table())),
        };
        format!(
            "# Session {} against session {}\n\n{}\n\n{setup}\n{}\n\n{}",
            self.b.id,
            self.a.id,
            self.sentence(),
            Self::NOTE,
            markdown::of_table(&self.case_table())
        )
    }

    /// Writes a row for each case.
    pub fn write_csv(&self, out: &mut impl Write) -> Result<(), ReportError> {
        let figure = |figure: Option<f64>| figure.map(|figure| figure.to_string()).unwrap_or_default();
        let mut writer = ::csv::Writer::from_writer(out);
        writer.write_record(["case", "a_us", "b_us", "ratio", "ratio_lo", "ratio_hi", "verdict", "why_not"])?;
        for case in &self.cases {
            writer.write_record([
                case.case.to_string(),
                figure(case.a_us),
                figure(case.b_us),
                figure(case.ratio.map(|ratio| ratio.estimate)),
                figure(case.ratio.and_then(|ratio| ratio.lo)),
                figure(case.ratio.and_then(|ratio| ratio.hi)),
                case.verdict.to_owned(),
                case.why_not.clone().unwrap_or_default(),
            ])?;
        }
        Ok(writer.flush()?)
    }

    /// How to read the ratios.
    pub(super) const NOTE: &'static str = "The ratio is the first session's time over the second one's: above 1, the second is \
        faster. Two runs took the times, so changes of the machine in between are in the ratio and not in its interval. \
        Measured times that differ by less than 1% count as tied.";

    /// Says how the second session stands against the first one.
    pub(super) fn sentence(&self) -> String {
        let count = |verdict: &str| self.cases.iter().filter(|case| case.verdict == verdict).count();
        let comparable = self.cases.iter().filter(|case| case.ratio.is_some()).count();
        let mean = self.mean_ratio.map(|mean| format!(" The geometric mean of the ratios is {}.", times(mean)));
        let verdict = match comparable {
            0 => "No case may be compared.".to_owned(),
            all => format!(
                "Of {all} comparable cases, session {} is faster on {}, slower on {} and tied on {}.{}",
                self.b.id,
                count("faster"),
                count("slower"),
                count("tied"),
                mean.unwrap_or_default()
            ),
        };
        let cost = |session: &Session| {
            let took =
                session.wall_s.map_or_else(|| "has not ended".to_owned(), |wall| format!("took {}", duration(wall)));
            format!("session {} {took} and cost {}", session.id, usd(session.cost_usd))
        };
        let others = self.cases.len() - comparable;
        let others = match others {
            0 => String::new(),
            1 => " One more has no comparable times.".to_owned(),
            others => format!(" {others} more have no comparable times."),
        };
        let costs = format!("{}; {}.", cost(&self.a), cost(&self.b));
        format!("{verdict}{others} S{}", &costs[1..])
    }

    /// Returns what differs in the setup.
    pub(super) fn setup_table(&self) -> Table {
        let rows = self.setup.iter().map(|one| vec![one.what.to_owned(), one.a.clone(), one.b.clone()]);
        Table::new(&["What", &format!("Session {}", self.a.id), &format!("Session {}", self.b.id)], rows)
    }

    /// Returns the cases as a table.
    pub(super) fn case_table(&self) -> Table {
        let time = |time: Option<f64>| time.map_or_else(|| NOTHING.to_owned(), us);
        let named = |variant: &Option<Variant>| {
            let named = |one: &Variant| format!("{} {}", one.family, show_params(&one.params));
            variant.as_ref().map_or_else(|| NOTHING.to_owned(), named)
        };
        let rows = self.cases.iter().map(|case| {
            let same = case.a_variant.as_ref().zip(case.b_variant.as_ref()).is_some_and(|(a, b)| a.hash == b.hash);
            let verdict = case.verdict.replace('_', " ");
            let why = case.why_not.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            vec![
                case.case.to_string(),
                time(case.a_us),
                time(case.b_us),
                case.ratio.map_or_else(|| NOTHING.to_owned(), shown),
                format!("{verdict}{why}"),
                if same { "the same variant".to_owned() } else { named(&case.b_variant) },
            ]
        });
        let headings =
            ["Case".to_owned(), format!(">Session {} (µs)", self.a.id), format!(">Session {} (µs)", self.b.id)];
        let headings: Vec<&str> =
            headings.iter().map(String::as_str).chain([">Ratio", "Verdict", "Variant of the second"]).collect();
        Table::new(&headings, rows)
    }
}

fn shown(ratio: Ratio) -> String {
    let ends = ratio.lo.zip(ratio.hi);
    ends.map_or_else(
        || times(ratio.estimate),
        |(lo, hi)| format!("{} ({} to {})", times(ratio.estimate), times(lo), times(hi)),
    )
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
