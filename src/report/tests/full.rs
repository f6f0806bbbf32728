//! A report with every section, for the limits of the page and for a browser.

use super::*;
use crate::domain::code::counters::{Counters, LaunchCounters};
use crate::domain::device::machine::MachineSummary;
use crate::domain::proposal::finding::{CauseStatus, Confidence, Evidence, EvidenceSource};
use crate::report::contract::{
    Advice, Breakdown, Case, Comparison, ConfigurationPath, Counts, CyclePart, Cycles, Diagnosed, Diagnosis,
    DiagnosisOf, Lead, LeadEvidence, Limit, Line, Longer, NearTie, Next, NextExperiment, Outlook, Over, OverKind,
    Parts, PathStep, PhaseCost, Phases, Progress, ProgressStep, Ratio, Step, StepKind,
};

/// What a stranger may have written.
pub(in crate::report) const HOSTILE: &str = "<script>alert('x')</script> \"onload=\" [x](javascript:x) `|`";

const RULES: [&str; 6] =
    ["cache-misses", "bank-conflicts", "too-few-blocks", "latency-bound", "uneven-blocks", "redundant-loads"];

/// Returns the report of a session of so many cases.
pub(in crate::report) fn full(count: usize) -> Report {
    let mut report = report(&record_ahead());
    let template = report.cases[0].clone();
    report.session.stop_reason = Some(format!("its time budget is spent {HOSTILE}"));
    report.cases = (0..count).map(|place| case(&template, place)).collect();
    report.correctness = report
        .cases
        .iter()
        .map(|case| contract::Exactness { case: case.case.clone(), ..report.correctness[0].clone() })
        .collect();
    report.progress = report.cases.iter().enumerate().map(|(place, case)| progress(&case.case, place)).collect();
    report.first_breakdown = report.cases[0].breakdown.clone();
    report.diagnoses = report.cases.iter().enumerate().map(|(place, case)| diagnosis(case, place)).collect();
    report.diagnoses.insert(
        0,
        Diagnosis { of: DiagnosisOf::InitialKernel, iteration: IterationId(1), ..diagnosis(&report.cases[0], 0) },
    );
    report.leads = report.cases.iter().enumerate().flat_map(|(place, case)| leads(case, place)).collect();
    let path_step = PathStep { iteration: IterationId(7), changes: vec![change()], us: 60.0, gain: 1.3 };
    report.paths = vec![ConfigurationPath {
        case: report.cases[0].case.clone(),
        family: "tiled".to_owned(),
        from: IterationId(1),
        from_us: 80.0,
        to: IterationId(3),
        steps: vec![path_step],
    }];
    report.parameters.effects = (0..18)
        .map(|n| ParameterEffect { verdict: "helps", ..effect(&format!("PARAMETER_{n}"), [n, 2 * n + 1], 1.1) })
        .collect();
    report.phases = Some(phases());
    let since_last_gain_s = Some(120.0);
    report.outlook = Some(Outlook {
        since_last_gain_s,
        early_gains: 9,
        late_gains: 3,
        half_s: 130.0,
        gain_size: Some(1.02),
        expected: 1.003,
    });
    report.advice = advice(&report.cases[count - 1]);
    report.no_counters = Some("`ncu` is not installed".to_owned());
    report.left_out =
        vec![crate::domain::record::FamilyLeftOut { family: "broken".to_owned(), reason: HOSTILE.to_owned() }];
    report.excluded = vec![contract::Excluded {
        family: "split-k".to_owned(),
        cases: vec!["b1h1s4d4".into()],
        all: false,
        why: vec![HOSTILE.to_owned()],
    }];
    report.wins[0].claim = HOSTILE.to_owned();
    report
}

fn change() -> Change {
    Change { parameter: "BLOCK".to_owned(), from: 64, to: 128 }
}

fn name(place: usize) -> CaseName {
    format!("b{}h{}s{}", place + 1, 1 + place % 4, 64 << (place % 6)).as_str().into()
}

fn case(template: &Case, place: usize) -> Case {
    let estimate = 1.0 + 0.01 * place as f64;
    let ratio = Ratio { estimate, lo: Some(estimate * 0.998), hi: Some(estimate * 1.002), paired: true };
    let without = [
        (Removed::GlobalLoads, 0.31),
        (Removed::TensorProducts, 0.09),
        (Removed::AllKinds, 0.55),
        (Removed::AllKindsAndWaits, 0.7),
        (Removed::Work, 0.14),
    ];
    let lines = |share| {
        vec![Line { line: 113, text: "load(k); // as the source has it".to_owned(), places: 8, share: Some(share) }]
    };
    let without = without.map(|one| Without { lines: lines(one.1), ..without_(one) }).to_vec();
    let counters = LaunchCounters {
        kernel: "attend".to_owned(),
        time_ns: Some(5e4),
        issue_pct: Some(31.0),
        ..LaunchCounters::default()
    };
    let launches = vec![launch("attend", 64_000.0)];
    Case {
        case: name(place),
        baseline: template
            .baseline
            .clone()
            .map(|baseline| contract::Baseline { kernels: vec![launched(32)], ..baseline }),
        ratio_to_baseline: Some(Ratio { estimate: 1.2 + 0.1 * place as f64, ..ratio }),
        change: template.change.clone().map(|change| contract::Change {
            ratio: Some(ratio),
            improved: !place.is_multiple_of(4),
            ..change
        }),
        commit: Some("0123456789abcdef".to_owned()),
        limit: Some(Limit::Cause { rule: RULES[place % RULES.len()], gain: 1.4 }),
        breakdown: Some(Breakdown { iteration: IterationId(3), family: "tiled".to_owned(), us: 50.0, without }),
        counters: Some(Counters { tool: "ncu 2025.1".to_owned(), launches: vec![counters] }),
        profile: Some(Profile { launches, checked_on: None }),
        comparison: Some(comparison_of(place)),
        ..template.clone()
    }
}

fn without_(one: (Removed, f64)) -> Without {
    super::without(one)
}

fn comparison_of(place: usize) -> Comparison {
    let machine =
        MachineSummary { sm_clock_range_mhz: Some([1965, 1980]), power_w: Some(350.0), ..MachineSummary::default() };
    let tie = NearTie { iteration: Some(IterationId(2)), name: "tiled".to_owned(), us: 50.1, ratio: None };
    Comparison {
        kind: "final",
        samples: 120,
        rounds: 12,
        discarded_rounds: 1,
        noise: Some(0.001 + 0.0001 * place as f64),
        machine: Some(machine.clone()),
        baseline_machine: Some(machine),
        energy_j: Some(0.01),
        baseline_energy_j: Some(0.02),
        graph_node_ns: Some(700.0),
        baseline_graph_node_ns: Some(710.0),
        others: vec!["python3 (process 4242, 512 MiB)".to_owned()],
        near_ties: vec![tie],
    }
}

fn progress(case: &CaseName, place: usize) -> Progress {
    let kind = |n| match n {
        0 => "start",
        4 => "final",
        _ => "improved",
    };
    let steps = (0..5_usize).map(|n| ProgressStep {
        kind: kind(n),
        at_s: 30.0 + 700.0 * n as f64,
        cost_usd: 0.05 * (n + 1) as f64,
        us: 80.0 / (1.0 + 0.03 * (n * (place + 1)) as f64),
        iteration: IterationId(n as i64 + 1),
        family: "tiled".to_owned(),
    });
    Progress { case: case.clone(), steps: steps.collect(), tried_in_all: 1234 }
}

fn diagnosis(case: &Case, place: usize) -> Diagnosis {
    let statuses = [CauseStatus::Confirmed, CauseStatus::NotTested, CauseStatus::Supported, CauseStatus::NotConfirmed];
    let cause = |n: usize| {
        let rule = RULES[(place + n) % RULES.len()];
        let evidence = |supports, text: &str| Evidence {
            source: EvidenceSource::VirtualCounters,
            supports,
            text: text.to_owned(),
        };
        let status = statuses[(place + n) % statuses.len()];
        let is_tested = status != CauseStatus::NotTested;
        let mut found = finding(&case.case, 3, rule, 1.4);
        found.cause = "accesses to shared memory take 2.3 times as many wavefronts as its data needs".to_owned();
        found.evidence = vec![
            evidence(
                true,
                "the longest chain of instructions takes 71% of the modelled time, and the busiest unit (tensor) 24%",
            ),
            evidence(false, HOSTILE),
        ];
        found.confidence = Confidence::Medium;
        found.tested = CauseTest {
            status,
            iteration: is_tested.then_some(IterationId(12)),
            changes: vec![change()],
            speedup: is_tested.then_some(1.55),
            expected: 1.4,
            pairs: 3,
            counted: true,
            shared_with: vec!["stalls"],
        };
        let remedy = crate::domain::proposal::finding::Remedy {
            text: "set BLOCK from 64 to 128".to_owned(),
            family: "tiled".to_owned(),
            params: None,
        };
        let next = [
            Next::Try { remedy: remedy.clone(), expected: Some(1.1) },
            Next::Write { remedy },
            Next::Tried { iteration: IterationId(12), speedup: Some(1.1) },
            Next::Nothing,
        ];
        Diagnosed { finding: found, next: next[n].clone() }
    };
    Diagnosis {
        of: DiagnosisOf::BestVariant,
        iteration: IterationId(3),
        case: case.case.clone(),
        family: "tiled".to_owned(),
        findings: (0..4).map(cause).collect(),
    }
}

fn leads(case: &Case, place: usize) -> Vec<Lead> {
    let estimate = 1.0 + 0.01 * place as f64;
    let lead = |kind, name: &str, evidence| Lead {
        over: Over { kind, name: name.to_owned(), iteration: Some(IterationId(2)), us: 55.0, configurations: Some(9) },
        case: case.case.clone(),
        ratio: Some(Ratio { estimate, lo: None, hi: None, paired: false }),
        evidence,
    };
    let parts = Parts {
        lead_us: 5.0,
        launch_us: 0.2,
        kinds_us: 3.0,
        waits_us: Some(1.0),
        other_us: 0.8,
        largest: Some(Longer { removed: Removed::GlobalLoads, us: 2.5 }),
    };
    let cycles = Cycles {
        kernel: "flash_fwd_kernel".to_owned(),
        cycles: [3000.0, 2000.0],
        parts: vec![
            CyclePart { part: "data", other: 1500.0, winner: 700.0 },
            CyclePart { part: "issue", other: 1500.0, winner: 1300.0 },
        ],
        instructions: Some([9e4, 8e4]),
        l2_bytes: Some([1e6, 9e5]),
        products_apart: true,
    };
    let counts = Counts {
        modelled_ratio: 1.4,
        counts: vec![contract::Count { name: "warp_instructions", other: 2000.0, winner: 1000.0 }],
    };
    let began = LeadEvidence {
        changes: if place.is_multiple_of(2) { vec![change()] } else { Vec::new() },
        blocks: Some([32, 64]),
        cause: Some("bank-conflicts"),
        is_gone: Some(true),
        ablation: Some(parts),
        ..LeadEvidence::default()
    };
    vec![
        lead(OverKind::CommittedWinner, "tiled", began),
        lead(OverKind::Family, "split-k", LeadEvidence { counts: Some(counts), ..LeadEvidence::default() }),
        lead(
            OverKind::Baseline,
            "torch sdpa (flash)",
            LeadEvidence { cycles: Some(cycles), ..LeadEvidence::default() },
        ),
    ]
}

fn phases() -> Phases {
    let names = [
        "baselines",
        "initial_design",
        "screening",
        "acceptance",
        "sanitizer",
        "comparisons",
        "finals",
        "waiting",
        "commits",
        "other",
    ];
    let row = |phase| PhaseCost { phase, seconds: 330.1, share: 0.1, usd: 0.018 };
    Phases { rows: names.map(row).to_vec(), complete: true, timing_s: Some(12.0) }
}

fn advice(case: &Case) -> Advice {
    let experiment = NextExperiment {
        source: "remedy",
        case: case.case.clone(),
        against: Some(IterationId(3)),
        family: "attention-resident".to_owned(),
        params: [("WGS", 1), ("PASSES", 1), ("KEYS", 128), ("CHUNK", 64)]
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
        changes: vec![change()],
        rule: Some("cache-misses"),
        of_case: None,
        before_us: 50.0,
        expected: 1.012,
    };
    let step = |kind, experiment| Step {
        kind,
        experiment,
        families: Vec::new(),
        edges: Vec::new(),
        case: None,
        expected: Some(1.001),
        seconds: Some(3.0),
        usd: Some(0.0002),
    };
    Advice { next: step(StepKind::Experiment, Some(experiment)), then: Some(step(StepKind::Stop, None)) }
}
