//! Makes a report from a session's record.

use indexmap::IndexMap;

use super::contract::{
    Baseline, Case, Claim, Committed, Cost, Environment, Exactness, LedgerRow, Predictions, Report, SCHEMA, Session,
    Variant, Win,
};
use super::{CaseFacts, ReportInput, findings, next_steps};
use crate::domain::cost::Spent;
use crate::domain::evaluation::{Outcome, Timing};
use crate::domain::hypothesis::Score;
use crate::domain::record::{CaseRecord, IterationRecord, SessionRecord, SessionSummary};
use crate::domain::verdict::Verdict;

const NS_PER_US: f64 = 1000.0;

/// Makes the report of a session.
pub fn build(input: &ReportInput<'_>) -> Report {
    let record = input.record;
    let mut report = Report {
        schema: SCHEMA,
        session: session(&record.session),
        environment: environment(record),
        cases: record.session.cases.iter().map(|name| case(name, input)).collect(),
        iterations: counts(&record.iterations),
        wins: wins(&record.iterations),
        hypotheses: record.iterations.iter().map(claim).collect(),
        predictions: predictions(&record.iterations),
        findings: findings::group(input.findings),
        correctness: record.session.cases.iter().map(|name| exactness(name, record)).collect(),
        committed: committed(&record.iterations),
        cost: cost(record),
        next_steps: Vec::new(),
    };
    report.next_steps = next_steps::suggest(&report, input);
    report
}

fn session(session: &SessionSummary) -> Session {
    Session {
        id: session.id,
        status: session.status,
        stop_reason: session.stop_reason.clone(),
        workload: session.workload.clone(),
        proposer: session.proposer.clone(),
        seed: session.seed,
        device: session.device.clone(),
        time_source: session.time_source,
        started_at: session.started_at.clone(),
        ended_at: session.ended_at.clone(),
        budget_s: session.budget_s,
        wall_s: session.wall_s,
        gpu_s: session.cost.gpu_s,
        cost_usd: session.cost.total_usd(),
    }
}

fn environment(record: &SessionRecord) -> Environment {
    let environment = &record.environment;
    let device = &environment.device;
    Environment {
        device: device.name.clone(),
        arch: device.arch.clone(),
        sms: device.sms,
        driver: device.driver.clone(),
        nvrtc: environment.nvrtc.clone(),
        optloop: environment.optloop.clone(),
        torch: environment.torch.clone(),
        host: environment.host.clone(),
        peaks_source: device.peaks.source.clone(),
    }
}

/// Every start and improvement, with its time, oldest first.
fn winners(iterations: &[IterationRecord]) -> impl Iterator<Item = (&IterationRecord, &CaseRecord, Verdict, &Timing)> {
    iterations.iter().flat_map(|iteration| {
        iteration.measurements.iter().filter_map(move |measurement| {
            let verdict = measurement.verdict?;
            let wins = matches!(verdict, Verdict::Start | Verdict::Improved);
            wins.then_some((iteration, measurement, verdict, measurement.best_timing()?))
        })
    })
}

/// The incumbent of a case at the session's end: its fastest confirmed improvement, else its start.
fn best<'a>(case: &str, record: &'a SessionRecord) -> Option<(&'a IterationRecord, &'a CaseRecord, &'a Timing)> {
    let of_case = || winners(&record.iterations).filter(|(_, measurement, ..)| measurement.case == case);
    let fastest = of_case()
        .filter(|(_, _, verdict, _)| *verdict == Verdict::Improved)
        .min_by(|a, b| a.3.median_ns.total_cmp(&b.3.median_ns));
    fastest.or_else(|| of_case().next()).map(|(iteration, measurement, _, timing)| (iteration, measurement, timing))
}

fn case(name: &str, input: &ReportInput<'_>) -> Case {
    let record = input.record;
    let facts: Option<&CaseFacts> = input.facts.iter().find(|facts| facts.case == name);
    let start = winners(&record.iterations)
        .find(|(_, measurement, verdict, _)| measurement.case == name && *verdict == Verdict::Start)
        .map(|(.., timing)| timing.median_ns);
    // The store lists the fastest baseline of a case first.
    let baseline = record.baselines.iter().find(|baseline| baseline.case == name);
    let best = best(name, record);
    let best_ns = best.map(|(.., timing)| timing.median_ns);
    let over_best = |ns: Option<f64>| Some(ns? / best_ns?);
    let flops = facts.zip(best_ns).map(|(facts, ns)| facts.flop / ns * 1e9);
    Case {
        case: name.to_owned(),
        start_us: start.map(|ns| ns / NS_PER_US),
        best_us: best_ns.map(|ns| ns / NS_PER_US),
        best_ci_us: best.map(|(.., timing)| interval_us(timing)),
        confirmed: best.is_some_and(|(_, measurement, _)| measurement.confirmation.is_some()),
        baseline: baseline
            .map(|baseline| Baseline { name: baseline.name.clone(), us: baseline.timing.median_ns / NS_PER_US }),
        speedup_over_start: over_best(start),
        speedup_over_baseline: over_best(baseline.map(|baseline| baseline.timing.median_ns)),
        floor_us: facts.map(|facts| facts.floor_ns / NS_PER_US),
        variant: best.map(|(iteration, ..)| variant(iteration)),
        iteration: best.map(|(iteration, ..)| iteration.id),
        commit: best.and_then(|(_, measurement, _)| measurement.commit.clone()),
        gflops: flops.map(|flops| flops / 1e9),
        share_of_floor: over_best(facts.map(|facts| facts.floor_ns)),
        share_of_peak: facts.zip(flops).map(|(facts, flops)| flops / facts.peak_flops),
        ctas: best.and_then(|(_, measurement, _)| measurement.ctas),
        sms: record.environment.device.sms,
        profile: best.and_then(|(_, measurement, _)| measurement.profile.clone()),
    }
}

fn counts(iterations: &[IterationRecord]) -> IndexMap<&'static str, u64> {
    let count = |matches: &dyn Fn(Option<&Outcome>) -> bool| {
        iterations.iter().filter(|iteration| matches(iteration.outcome.as_ref())).count() as u64
    };
    let mut counts = IndexMap::from([("total", count(&|_| true)), ("unfinished", count(&|outcome| outcome.is_none()))]);
    for kind in Outcome::KINDS {
        counts.insert(kind, count(&|outcome| outcome.is_some_and(|outcome| outcome.kind() == kind)));
    }
    counts
}

fn wins(iterations: &[IterationRecord]) -> Vec<Win> {
    winners(iterations)
        .map(|(iteration, measurement, verdict, timing)| {
            let hypothesis = &iteration.hypothesis;
            let about_this_case = hypothesis.case == measurement.case;
            Win {
                iteration: iteration.id,
                case: measurement.case.clone(),
                verdict,
                variant: variant(iteration),
                us: timing.median_ns / NS_PER_US,
                ci_us: interval_us(timing),
                speedup: measurement.speedup,
                claim: hypothesis.claim.clone(),
                predicted: about_this_case.then_some([hypothesis.predicted.lo, hypothesis.predicted.hi]),
                score: iteration.score.filter(|_| about_this_case),
                commit: measurement.commit.clone(),
            }
        })
        .collect()
}

fn claim(iteration: &IterationRecord) -> Claim {
    let hypothesis = &iteration.hypothesis;
    Claim {
        iteration: iteration.id,
        case: hypothesis.case.clone(),
        claim: hypothesis.claim.clone(),
        evidence: hypothesis.evidence.clone(),
        predicted: [hypothesis.predicted.lo, hypothesis.predicted.hi],
        actual: iteration.actual,
        verdict: iteration.score,
    }
}

fn predictions(iterations: &[IterationRecord]) -> Predictions {
    let mut predictions = Predictions::default();
    for score in iterations.iter().filter_map(|iteration| iteration.score) {
        *match score {
            Score::Confirmed => &mut predictions.confirmed,
            Score::Exceeded => &mut predictions.exceeded,
            Score::Refuted => &mut predictions.refuted,
            Score::Untested => &mut predictions.untested,
        } += 1;
    }
    predictions
}

fn exactness(case: &str, record: &SessionRecord) -> Exactness {
    let measurement = best(case, record).map(|(_, measurement, _)| measurement);
    let correctness = measurement.and_then(|measurement| measurement.correctness);
    let profile = measurement.and_then(|measurement| measurement.profile.as_ref());
    Exactness {
        case: case.to_owned(),
        relative_l2: correctness.map(|correctness| correctness.relative_l2),
        worst_row: correctness.map(|correctness| correctness.worst_row),
        rows_checked: correctness.map(|correctness| correctness.rows_checked as u64),
        rows: correctness.map(|correctness| correctness.rows as u64),
        checked_on: profile.and_then(|profile| profile.checked_on.clone()),
    }
}

fn committed(iterations: &[IterationRecord]) -> Vec<Committed> {
    let of = |iteration: &IterationRecord, measurement: &CaseRecord| {
        let commit = measurement.commit.clone()?;
        Some(Committed { commit, iteration: iteration.id, case: measurement.case.clone() })
    };
    iterations
        .iter()
        .flat_map(|iteration| iteration.measurements.iter().filter_map(move |measurement| of(iteration, measurement)))
        .collect()
}

fn cost(record: &SessionRecord) -> Cost {
    let mut cumulative = Spent::default();
    for session in &record.ledger {
        cumulative += session.cost;
    }
    let row = |session: &SessionSummary| LedgerRow {
        session: session.id,
        workload: session.workload.clone(),
        status: session.status,
        time_source: session.time_source,
        wall_s: session.wall_s,
        cost: session.cost,
        wins: session.wins,
        best_speedup: session.best_speedup,
    };
    Cost { session: record.session.cost, ledger: record.ledger.iter().map(row).collect(), cumulative }
}

fn variant(iteration: &IterationRecord) -> Variant {
    Variant { family: iteration.family.clone(), params: iteration.params.clone(), hash: iteration.hash.0.clone() }
}

fn interval_us(timing: &Timing) -> [f64; 2] {
    [timing.interval_ns.lo / NS_PER_US, timing.interval_ns.hi / NS_PER_US]
}
