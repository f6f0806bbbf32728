//! Makes a report from a session's record.

use indexmap::IndexMap;

use super::comparisons::{self, paired};
use super::contract::{
    Advice, Breakdown, Case, Committed, Cost, Diagnosis, DiagnosisOf, Environment, Exactness, Excerpt, ImprovedBy,
    LedgerRow, Parameters, Remeasured, Report, SCHEMA, Session, Step, StepKind, Variant, Win, WinningFamily,
};
use super::standing::{self, winners};
use super::{
    CaseFacts, FamilyFacts, ReportInput, advice, baselines, began, breakdown, calibration, excluded, exhausted,
    findings, gains, improved_by, leads, limit, outlook, parameters, paths, phases, progress, roofline, scaling,
};
use crate::domain::budget::cost::Spent;
use crate::domain::device::TimeSource;
use crate::domain::measurement::check::Check;
use crate::domain::measurement::comparison::Role;
use crate::domain::measurement::evaluation::Outcome;
use crate::domain::measurement::verdict::Verdict;
use crate::domain::proposal::origin::{Origin, Purpose};
use crate::domain::record::excerpt::{self, Totals};
use crate::domain::record::{CaseRecord, IterationRecord, SessionRecord};

const NS_PER_US: f64 = 1000.0;

/// Makes the report of a session.
pub fn build(input: &ReportInput<'_>) -> Report {
    let record = input.record;
    let cases: Vec<Case> = record.session.cases.iter().map(|name| case(name, input)).collect();
    let won: Vec<String> = cases.iter().filter_map(|case| Some(case.variant.as_ref()?.family.clone())).collect();
    let diagnoses = findings::diagnoses(input.findings, input);
    let mut report = Report {
        schema: SCHEMA,
        session: session(record),
        environment: environment(record),
        dims: input.dims.iter().map(|dim| (dim.name, dim.about)).filter(|(_, about)| !about.is_empty()).collect(),
        cases,
        baselines: baselines::timed(record),
        winners_curse: comparisons::winners_curse(&record.iterations),
        iterations: counts(&record.totals()),
        excerpt: record.excerpt.as_ref().map(|excerpt| excerpt_of(excerpt, record)),
        caught: caught(&record.totals()),
        wins: wins(&record.iterations),
        remeasured: remeasured(&record.iterations),
        hypotheses: claimed(record).map(calibration::claim).collect(),
        predictions: calibration::predictions(record),
        calibration: calibration::of(input),
        diagnoses,
        first_breakdown: None,
        no_counters: record.no_counters.clone(),
        correctness: record.session.cases.iter().map(|name| exactness(name, record)).collect(),
        committed: committed(&record.iterations),
        cost: cost(record),
        scaling: Vec::new(),
        leads: Vec::new(),
        paths: paths::of(input),
        improved_by: ImprovedBy::default(),
        parameters: Parameters::default(),
        outlook: None,
        advice: Advice { next: nothing(), then: None },
        winning_families: winning_families(&won, input),
        excluded: excluded::of(input),
        suggestions_left_out: record.suggestions_left_out,
        left_out: record.left_out.clone(),
        phases: phases::of(record),
        progress: Vec::new(),
    };
    explain(&mut report, input);
    report
}

/// Returns the families that won a case, those that won most first. `won` has the family of each best variant.
fn winning_families(won: &[String], input: &ReportInput<'_>) -> Vec<WinningFamily> {
    let family = |facts: &FamilyFacts| {
        let cases = won.iter().filter(|name| **name == facts.name).count() as u64;
        (cases > 0).then(|| WinningFamily {
            name: facts.name.clone(),
            cases,
            about: facts.about.clone(),
            lines: facts.lines,
        })
    };
    let mut families: Vec<WinningFamily> = input.families.iter().filter_map(family).collect();
    families.sort_by_key(|family| std::cmp::Reverse(family.cases));
    families
}

fn nothing() -> Step {
    let (experiment, case, expected, seconds, usd) = (None, None, None, None, None);
    Step { kind: StepKind::Stop, experiment, families: Vec::new(), edges: Vec::new(), case, expected, seconds, usd }
}

/// Adds what explains the figures, which follows from the figures.
fn explain(report: &mut Report, input: &ReportInput<'_>) {
    let record = input.record;
    let gains = gains::of(record);
    let wall_s = record.session.wall_s.unwrap_or(gains.search_to_s);
    report.parameters = parameters::of(record, input.families);
    for case in &mut report.cases {
        case.limit = limit::of(case, &report.diagnoses);
        case.exhausted = exhausted::of(case, &report.parameters.effects, input.families);
    }
    let cases = &report.cases;
    report.first_breakdown = first_breakdown(&report.diagnoses, record);
    report.progress = progress::of(record, cases);
    report.scaling = scaling::of(cases, input);
    report.leads = leads::of(cases, &findings::diagnoses(input.began, input), &report.diagnoses, input);
    report.improved_by = improved_by::of(cases, &gains, record);
    report.outlook = outlook::of(&gains, cases.len(), advice::room(cases), (wall_s, record.totals().variants));
    let (effects, outlook) = (&report.parameters.effects, report.outlook.as_ref());
    report.advice = advice::of(cases, effects, &report.diagnoses, outlook, input);
}

/// Returns what the time of the initial kernel consists of.
fn first_breakdown(diagnoses: &[Diagnosis], record: &SessionRecord) -> Option<Breakdown> {
    let diagnosis = diagnoses.iter().find(|one| one.of == DiagnosisOf::InitialKernel)?;
    let initial = record.iterations.iter().find(|one| one.id == diagnosis.iteration)?;
    breakdown::of(&initial.hash, &diagnosis.case, record)
}

fn session(record: &SessionRecord) -> Session {
    let session = &record.session;
    Session {
        id: session.id,
        status: session.status,
        stop_reason: session.stop_reason.clone(),
        early_end: session.early_end,
        workload: session.workload.clone(),
        compute: record.compute,
        proposer: session.proposer.clone(),
        seed: session.seed,
        device: session.device.clone(),
        devices: session.devices,
        time_source: session.time_source,
        graphs: session.graphs,
        started_at: session.started_at.clone(),
        ended_at: session.ended_at.clone(),
        budget_s: session.budget_s,
        resumptions: session.resumptions,
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
        oracle_on: record.session.oracle_on.clone(),
        host: environment.host.clone(),
        peaks_source: device.peaks.source.clone(),
    }
}

fn case(name: &str, input: &ReportInput<'_>) -> Case {
    let record = input.record;
    let facts: Option<&CaseFacts> = input.facts.iter().find(|facts| facts.case == name);
    let conditions = facts.map(|facts| &facts.conditions);
    // A recording knows neither the work nor the peaks of the device.
    let rates = facts.filter(|_| record.session.time_source != TimeSource::Recorded);
    let standing = standing::of(name, record);
    let deciding = standing.and_then(|standing| standing.deciding);
    let best_ns = standing.map(|standing| standing.timing.median_ns);
    let start = began::first(name, &record.iterations);
    let to_start = start.zip(standing).and_then(|(start, standing)| began::ratio(start, &standing, conditions));
    let (baseline, to_baseline) = baselines::of_case(name, record, standing.as_ref(), conditions);
    let floor_ns = deciding.and_then(|deciding| deciding.comparison.floor_ns).or(rates.map(|facts| facts.floor_ns));
    let flops = rates.zip(best_ns).map(|(facts, ns)| facts.flop / ns * 1e9);
    let measurement = standing.map(|standing| standing.measurement);
    Case {
        case: name.into(),
        dims: conditions.map(|conditions| conditions.dims.clone()).unwrap_or_default(),
        regime: measurement.map(|measurement| measurement.regime).or(conditions.map(|conditions| conditions.regime)),
        start_us: start.map(|start| start.timing.median_ns / NS_PER_US),
        best_us: best_ns.map(|ns| ns / NS_PER_US),
        best_ci_us: standing.and_then(|standing| standing.timing.shown_ci_us()),
        confirmed: standing.is_some_and(|standing| standing.confirmed()),
        baseline,
        speedup_over_start: to_start.map(|ratio| ratio.estimate),
        ratio_to_start: to_start,
        speedup_over_baseline: to_baseline.map(|ratio| ratio.estimate),
        ratio_to_baseline: to_baseline,
        floor_us: floor_ns.map(|ns| ns / NS_PER_US),
        variant: standing.map(|standing| variant(standing.iteration)),
        iteration: standing.map(|standing| standing.iteration.id),
        commit: measurement.and_then(|measurement| measurement.commit.clone()),
        gflops: flops.map(|flops| flops / 1e9),
        share_of_floor: floor_ns.zip(best_ns).map(|(floor_ns, best_ns)| floor_ns / best_ns),
        share_of_peak: rates.zip(flops).map(|(facts, flops)| flops / facts.peak_flops),
        ctas: measurement.and_then(|measurement| measurement.ctas),
        sms: record.environment.device.sms,
        preparation: measurement.and_then(|measurement| measurement.preparation),
        comparison: deciding.as_ref().map(comparisons::to_contract),
        profile: measurement.and_then(|measurement| measurement.profile.clone()),
        counters: standing.and_then(|standing| leads::counters(&standing.iteration.hash, name, record)).cloned(),
        change: began::change(name, record, conditions),
        roofline: rates.map(|facts| roofline::of(facts, best_ns)),
        limit: None,
        exhausted: Vec::new(),
        breakdown: standing.and_then(|standing| breakdown::of(&standing.iteration.hash, name, record)),
    }
}

fn excerpt_of(excerpt: &excerpt::Excerpt, record: &SessionRecord) -> Excerpt {
    Excerpt {
        iterations: excerpt.totals.iterations,
        in_full: record.iterations.len() as u64,
        even: excerpt.even.len() as u64,
        wins_left_out: excerpt.wins_left_out,
    }
}

fn counts(totals: &Totals) -> IndexMap<&'static str, u64> {
    let whole = [("total", totals.iterations), ("unfinished", totals.unfinished())];
    whole.into_iter().chain(Outcome::KINDS.map(|kind| (kind, totals.outcome(kind)))).collect()
}

fn caught(totals: &Totals) -> IndexMap<&'static str, u64> {
    let counts = Check::ALL.map(|check| (check.name(), totals.caught.get(check.name()).copied().unwrap_or_default()));
    counts.into_iter().filter(|(_, count)| *count > 0).collect()
}

fn wins(iterations: &[IterationRecord]) -> Vec<Win> {
    winners(iterations)
        .filter(|(iteration, found, verdict, _)| {
            *verdict == Verdict::Start || standing::is_win(iteration, &found.case, iterations)
        })
        .map(|(iteration, measurement, verdict, timing)| {
            let hypothesis = &iteration.rationale.hypothesis;
            let about_this_case = hypothesis.case == measurement.case;
            Win {
                iteration: iteration.id,
                case: measurement.case.clone(),
                verdict,
                variant: variant(iteration),
                us: timing.median_ns / NS_PER_US,
                ci_us: timing.shown_ci_us(),
                speedup: measurement.speedup,
                ratio: measurement
                    .comparison
                    .as_ref()
                    .and_then(|comparison| comparison.against(Role::Incumbent))
                    .map(|(_, r)| paired(r)),
                claim: hypothesis.claim.clone(),
                predicted: hypothesis.prediction.filter(|_| about_this_case).map(|range| [range.lo, range.hi]),
                score: iteration.score.filter(|_| about_this_case),
                commit: measurement.commit.clone(),
            }
        })
        .collect()
}

/// Returns the committed winners that the session measured again and that became incumbents.
fn remeasured(iterations: &[IterationRecord]) -> Vec<Remeasured> {
    let again = winners(iterations).filter_map(|(iteration, found, verdict, timing)| {
        let is_again = verdict == Verdict::Improved && iteration.rationale.origin.is_committed_winner_of(&found.case);
        let Origin::CommittedWinner { device, .. } = &iteration.rationale.origin else { return None };
        is_again.then(|| Remeasured {
            iteration: iteration.id,
            case: found.case.clone(),
            variant: variant(iteration),
            us: timing.median_ns / NS_PER_US,
            ci_us: timing.shown_ci_us(),
            device: device.clone(),
            commit: found.commit.clone(),
            session: found.found_in,
        })
    });
    again.collect()
}

/// Returns the iterations that test something. An experiment is evidence for a diagnosis.
fn claimed(record: &SessionRecord) -> impl Iterator<Item = &IterationRecord> {
    record.iterations.iter().filter(|one| one.rationale.purpose != Purpose::Experiment)
}

fn exactness(case: &str, record: &SessionRecord) -> Exactness {
    let standing = standing::of(case, record);
    let measurement = standing.map(|standing| standing.measurement);
    // The last timing has the last check, too.
    let in_comparison = standing.and_then(|standing| standing.deciding?.best.correctness);
    let correctness = in_comparison.or_else(|| measurement?.checked().copied());
    let profile = measurement.and_then(|measurement| measurement.profile.as_ref());
    Exactness {
        case: case.into(),
        relative_l2: correctness.map(|correctness| correctness.relative_l2),
        worst_row: correctness.map(|correctness| correctness.worst_row),
        rows_checked: correctness.map(|correctness| correctness.rows_checked as u64),
        rows: correctness.map(|correctness| correctness.rows as u64),
        checked_on: profile.and_then(|profile| profile.checked_on.clone()),
    }
}

fn committed(iterations: &[IterationRecord]) -> Vec<Committed> {
    let of = |iteration: &IterationRecord, measurement: &CaseRecord| {
        let commit = measurement.commit.clone().filter(|_| !measurement.is_earlier)?;
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
    let ledger = record.ledger.iter().map(LedgerRow::from).collect();
    Cost { session: record.session.cost, unknown: record.unknown_costs, ledger, cumulative }
}

fn variant(iteration: &IterationRecord) -> Variant {
    Variant { family: iteration.family.clone(), params: iteration.params.clone(), hash: iteration.hash.0.clone() }
}
