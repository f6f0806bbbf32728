//! A report with every section and every picture, for the HTML and for a browser.

use super::*;
use crate::domain::finding::{Confidence, Evidence, EvidenceSource};
use crate::domain::tested::{CauseStatus as Test, CauseTest};
use crate::report::contract::{
    CaseEffect, Diagnosis, DiagnosisOf, Diff, Distribution, Finding, Interaction, Lineage, LineageStep,
    ParameterEffect, ParameterValues, Progress, ProgressStep, Ratio, Sampled, Tried,
};

/// What a stranger may have written.
pub(in crate::report) const HOSTILE: &str = "<script>alert('x')</script> \"onload=\" [x](javascript:x) `|`";

/// A number from 0 to 1 that looks random and is always the same.
fn noise(seed: u64) -> f64 {
    let mixed = seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 40) as f64 / f64::from(1 << 24)
}

/// Returns the report.
pub(in crate::report) fn full() -> Report {
    let mut record = record();
    record.session.stop_reason = Some(HOSTILE.to_owned());
    let mut report = report(&record);
    let cases: Vec<CaseName> = report.cases.iter().map(|case| case.case.clone()).collect();
    for (place, case) in report.cases.iter_mut().enumerate() {
        let estimate = 0.9 + 0.6 * place as f64;
        case.best_us = case.best_us.or(Some(12.0));
        case.baseline = Some(crate::report::contract::Baseline {
            name: "torch sdpa (flash)".to_owned(),
            us: case.best_us.unwrap_or(1.0) * estimate,
            ci_us: None,
            is_initial_kernel: false,
            kernels: vec![launched(32)],
        });
        let (lo, hi) = (Some(estimate * 0.97), Some(estimate * 1.02));
        case.ratio_to_baseline = Some(Ratio { estimate, lo, hi, paired: place != 1 });
        if let (Some(roofline), Some(us)) = (case.roofline.as_mut(), case.best_us) {
            roofline.intensity *= 4.0_f64.powi(place as i32);
            roofline.flop_per_s = Some(roofline.flop / us * 1e6);
            roofline.share_of_arithmetic = Some(roofline.flop / us * 1e6 / 1.2e14);
        }
    }
    report.progress = cases.iter().enumerate().map(|(place, case)| progress(case, place as u64)).collect();
    report.distributions = cases.iter().enumerate().map(|(place, case)| distribution(case, place as u64)).collect();
    report.lineages = vec![lineage(&cases[0])];
    let verdicts = ["helps", "hurts", "depends", "tied", "mixed", "few"];
    report.parameters.noise = Some(0.012);
    report.parameters.effects = (0..18).map(|n| effect(n, verdicts[n as usize % 6], &cases)).collect();
    let names = ["WARPS", "STAGES", "TILE", "SPLIT"];
    let pairs = (0..names.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
    report.parameters.interactions = pairs.map(|(a, b)| interaction(names[a], names[b], (a * 4 + b) as u64)).collect();
    let claim = report.hypotheses[1].clone();
    let scores = [Score::InRange, Score::Above, Score::Below];
    report.hypotheses.extend((0..40_u64).map(|n| {
        let median = 0.8 + noise(n);
        contract::Claim {
            claim: if n == 0 { HOSTILE.to_owned() } else { claim.claim.clone() },
            predicted: Some([median * 0.8, median * 1.2]),
            predicted_median: Some(median),
            actual: Some(median * (0.7 + 0.6 * noise(n + 99))),
            score: Some(scores[n as usize % 3]),
            ..claim.clone()
        }
    }));
    report.diagnoses = vec![diagnosis(&cases[0])];
    report
}

fn progress(case: &CaseName, seed: u64) -> Progress {
    let us = |n: u64| 400.0 / (1 << (n + seed)) as f64;
    let kind = |n| {
        if n == 0 {
            "start"
        } else if n == 4 {
            "final"
        } else {
            "improved"
        }
    };
    let steps = (0..5_u64).map(|n| ProgressStep {
        kind: kind(n),
        at_s: 30.0 + 700.0 * n as f64,
        cost_usd: 0.05 * (n + 1) as f64,
        us: us(n.min(3)),
        iteration: IterationId(n as i64 + 1),
        family: "tiled".to_owned(),
    });
    let tried = (0..150_u64).map(|n| {
        let at_s = 30.0 + 20.0 * n as f64;
        Tried { at_s, cost_usd: 0.05 + at_s / 15_000.0, us: us((n / 38).min(3)) * (1.02 + 2.0 * noise(n * 7 + seed)) }
    });
    Progress { case: case.clone(), steps: steps.collect(), tried: tried.collect(), tried_in_all: 1234 }
}

fn distribution(case: &CaseName, seed: u64) -> Distribution {
    let sampled = |role: &'static str, name: &str, middle: f64| {
        let some_us: Vec<f64> = (0..60).map(|n| middle * (0.99 + 0.02 * noise(n + 60 * seed))).collect();
        let quantiles_us = [0.991, 0.995, 1.0, 1.004, 1.009].map(|factor| middle * factor);
        Sampled { role, name: name.to_owned(), samples: 600, quantiles_us, some_us }
    };
    let us = 50.0 / (seed + 1) as f64;
    let all = [
        sampled("best", "tiled ae4c80b6f6", us),
        sampled("control", "tiled ae4c80b6f6", us * 1.001),
        sampled("incumbent", "tiled 67df4d5f39", us * 1.03),
        sampled("baseline", "torch sdpa (flash)", us * 1.09),
    ];
    Distribution { case: case.clone(), from: "final", sampled: all.into() }
}

fn lineage(case: &CaseName) -> Lineage {
    let step = |n: i64, changes: &str, us: f64, diff: Option<Diff>| LineageStep {
        iteration: IterationId(n),
        kind: if n == 1 { "family_default" } else { "move" },
        family: "tiled".to_owned(),
        changes: vec![changes.to_owned()],
        claim: format!("{HOSTILE} more warps hide latency"),
        us: Some(us),
        diff,
    };
    let text = format!("@@ -1,3 +1,3 @@\n-#define BLOCK 64\n+#define BLOCK 128 // {HOSTILE}\n void kernel() {{\n }}\n");
    let diff = Diff { added: 1, removed: 1, text, cut: false };
    let steps = vec![step(1, "BLOCK=64 PAD=8", 80.0, None), step(2, "BLOCK 64 → 128", 50.0, Some(diff))];
    Lineage { case: case.clone(), left_out: 3, steps }
}

fn effect(n: i64, verdict: &'static str, cases: &[CaseName]) -> ParameterEffect {
    let effect = 0.6 + 0.8 * noise(n as u64);
    let by_case =
        cases.iter().enumerate().filter(|(place, _)| !(n as usize + place).is_multiple_of(4)).map(|(place, case)| {
            CaseEffect { case: case.clone(), effect: effect * (0.9 + 0.1 * place as f64), pairs: 3, verdict: "tied" }
        });
    ParameterEffect {
        family: if n % 2 == 0 { "tiled" } else { "attention-with-a-rather-long-name" }.to_owned(),
        parameter: format!("PARAMETER_{n}"),
        about: String::new(),
        from: n,
        to: 2 * n + 1,
        effect,
        lower_quartile: effect * 0.9,
        upper_quartile: effect * 1.1,
        pairs: 5,
        cases: 3,
        faster: 2,
        slower: 3,
        verdict,
        by_case: by_case.collect(),
        used_on: Vec::new(),
    }
}

fn interaction(first: &str, second: &str, seed: u64) -> Interaction {
    let values = |parameter: &str| ParameterValues { parameter: parameter.to_owned(), from: 1, to: 2 };
    let parameters = [values(first), values(second)];
    Interaction { family: "tiled".to_owned(), parameters, factor: 0.5 + noise(seed) * 1.3, quadruples: 4 }
}

fn diagnosis(case: &CaseName) -> Diagnosis {
    let evidence = |supports, text: &str| Evidence { source: EvidenceSource::Times, supports, text: text.to_owned() };
    let finding = Finding {
        rule: "idle_sms",
        cause: format!("2 blocks on 58 multiprocessors {HOSTILE}"),
        mechanism: "most multiprocessors have nothing to do",
        kernel_change: "divide the work into more blocks".to_owned(),
        evidence: vec![evidence(true, "the grid has 2 blocks"), evidence(false, HOSTILE)],
        confidence: Confidence::High,
        gain: 12.0,
        derivation: None,
        remedies: Vec::new(),
        tested: CauseTest {
            status: Test::NotTested,
            iteration: None,
            changes: Vec::new(),
            case: None,
            speedup: None,
            expected: 12.0,
            shared_with: Vec::new(),
        },
        failed: None,
        divided_by: None,
        model_is_off: false,
        next: "split the keys over blocks".to_owned(),
    };
    Diagnosis {
        of: DiagnosisOf::InitialKernel,
        iteration: IterationId(1),
        case: case.clone(),
        family: "tiled".to_owned(),
        findings: vec![finding],
    }
}
