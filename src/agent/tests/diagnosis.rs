//! Tests the rules with launch plans of this project's families and times of an H200, 2026-11-20, `attention-fp16-d64`.

use std::path::Path;

use super::*;
use crate::agent::diagnosis::{self, Bound, Point, Subject};
use crate::catalog::Project;
use crate::domain::code::ablation::{Ablation, Removed};
use crate::domain::code::artifact::{InstructionMix, KernelResources};
use crate::domain::code::counters::{Counters, LaunchCounters};
use crate::domain::code::profile::{self, Cause, Profile, Without};
use crate::domain::device::TimingMode;
use crate::domain::device::gpu_state::Graphs;
use crate::domain::history::tested::Trial;
use crate::domain::proposal::finding::{CauseStatus, Confidence, EvidenceSource, Finding, RULES};

/// Cases with a time of each in microseconds.
type Times<'a> = &'a [(&'a str, f64)];

/// Diagnoses the default configuration of a family on its first case, given its times in microseconds. The blocks come
/// from its launch plans.
fn diagnosed(workload: &str, family: &str, times_us: &[(&str, f64)], kernels: &[KernelResources]) -> Vec<Finding> {
    diagnosed_within(workload, family, (times_us, &[]), kernels)
}

/// Diagnoses the same, given the best times of other cases, too.
fn diagnosed_within(
    workload: &str,
    family: &str,
    (times_us, best_us): (Times<'_>, Times<'_>),
    kernels: &[KernelResources],
) -> Vec<Finding> {
    diagnosed_by(workload, family, (times_us, best_us), kernels, Counts::default())
}

/// What was counted of a variant.
#[derive(Default)]
struct Counts<'a> {
    counters: Option<&'a Counters>,
    ablations: &'a [Ablation],
    profile: Option<&'a Profile>,
    /// Another variant that the session timed: a parameter with its other value, the time in microseconds, and its counts.
    twin: Option<(&'a str, i64, f64, &'a Profile)>,
}

/// Diagnoses the same, given counts, too.
fn diagnosed_by(
    workload: &str,
    family: &str,
    (times_us, best_us): (Times<'_>, Times<'_>),
    kernels: &[KernelResources],
    counts: Counts<'_>,
) -> Vec<Finding> {
    let project = Project::find(Some(Path::new(env!("CARGO_MANIFEST_DIR")))).unwrap();
    let workload = project.workload(workload).unwrap();
    let families = [project.families().unwrap().sound, project.planted_bugs().unwrap()].concat();
    let family = families.iter().find(|other| other.name == family).unwrap();
    let timing = TimingMode::Measured(Graphs::Alone);
    let device = DeviceInfo { timing, ..DeviceInfo::of_arch("sm_90a").unwrap() };
    let params = family.defaults();
    let plan = |case: &str| {
        let case = workload.case(case).unwrap();
        family.plan(&params, case, workload.op, workload.dtype, &device).unwrap()
    };
    let point = |(case, us): &(&str, f64)| Point {
        case: (*case).to_owned(),
        dims: workload.case(case).unwrap().dims.clone(),
        time_ns: us * 1e3,
        ctas: plan(case).ctas(),
        source: EvidenceSource::Times,
    };
    let (case, us) = times_us[0];
    let scaling: Vec<Point> = times_us[1..].iter().map(point).collect();
    let fitting: Vec<&Family> = families.iter().filter(|family| family.fits(&workload, &device)).collect();
    let best = best_us.iter().map(|(case, us)| (workload.case(case).unwrap(), us * 1e3));
    let own = Trial {
        iteration: IterationId(1),
        family: &family.name,
        params: &params,
        ns: us * 1e3,
        ctas: None,
        profile: counts.profile,
        remedy: None,
    };
    let mut changed = params.clone();
    let twin = counts.twin.map(|(name, value, us, profile)| {
        changed.insert(name.to_owned(), value);
        (us * 1e3, profile)
    });
    let twin = twin.map(|(ns, profile)| Trial {
        iteration: IterationId(2),
        params: &changed,
        ns,
        profile: Some(profile),
        ..own
    });
    let trials: Vec<Trial<'_>> = std::iter::once(own).chain(twin).collect();
    let subject = Subject {
        iteration: Some(IterationId(1)),
        family: &family.name,
        configuration: Some((family, &params)),
        workload: &workload,
        case: workload.case(case).unwrap(),
        device: &device,
        time_ns: us * 1e3,
        plan: &plan(case),
        kernels,
        profile: counts.profile,
        counters: counts.counters,
        ablations: counts.ablations,
        scaling: &scaling,
        trials: &trials,
        families: &fitting,
        fast: &["attention-wgmma".to_owned()],
    };
    let bound = Bound::of(&workload, subject.case, best);
    diagnosis::findings_within(&subject, bound.as_ref())
}

fn rules(findings: &[Finding]) -> Vec<&str> {
    findings.iter().map(|finding| finding.rule).collect()
}

const CAUSAL: &str = "attention-fp16-d64";

const GRID_BUG: [(&str, f64); 4] =
    [("b8h8s128", 2531.0), ("b1h1s128", 41.04), ("b4h1s128", 160.39), ("b4h4s128", 635.55)];

/// The time of a kernel without one kind of instruction, in microseconds.
fn ablation(removed: Removed, us: f64) -> Ablation {
    Ablation { removed, places: 4, diverting: 0, kept: 0, time_ns: Ok(us * 1e3), lines: Vec::new() }
}

#[test]
fn a_cause_gains_no_more_than_its_instructions_cost() {
    let states = [("long_scoreboard", 60.0), ("selected", 40.0)].map(|(state, samples)| (state.to_owned(), samples));
    let launch =
        LaunchCounters { kernel: "attention".to_owned(), warp_states: states.into(), ..LaunchCounters::default() };
    let counters = Counters { tool: "ncu".to_owned(), launches: vec![launch] };
    let stalls = |without_us: f64| {
        let ablations = [ablation(Removed::Nothing, 500.0), ablation(Removed::GlobalLoads, without_us)];
        let times = (&[("b8h8s128", 500.0)][..], &[][..]);
        let findings = diagnosed_by(
            CAUSAL,
            "attention-scalar",
            times,
            &[],
            Counts { counters: Some(&counters), ablations: &ablations, ..Counts::default() },
        );
        let found = findings.into_iter().find(|finding| finding.rule == "stalls").unwrap();
        let ablated = found.evidence.into_iter().find(|one| one.source == EvidenceSource::Ablation).unwrap();
        (found.gain, ablated.supports, ablated.text)
    };
    let text = "without its loads from global memory, it takes 400.000 instead of 500.000 us";
    assert_eq!(stalls(400.0), (1.25, false, text.to_owned()));
    let (gain, supports, _) = stalls(150.0);
    assert!((gain - 2.5).abs() < 1e-9 && supports);
}

/// The model takes 7.64 us, of which the chain is 5.43 us, as on an H100 on 2026-11-27. A kernel that takes 5.12 us contradicts
/// both.
#[test]
fn a_gain_that_follows_only_from_a_model_that_is_off_is_not_known() {
    let mut launch = profile::tests::launch("attention", 7639.0);
    launch.parts_ns = [("latency", 5429.0), ("tensor", 920.0)].map(|(part, ns)| (part.to_owned(), ns)).into();
    let profile = Profile { launches: vec![launch], checked_on: None };
    let found = |us: f64| {
        let times = (&[("b1h8s512", us)][..], &[][..]);
        let counts = Counts { profile: Some(&profile), ..Counts::default() };
        let findings = diagnosed_by(CAUSAL, "attention-scalar", times, &[], counts);
        let found = findings.into_iter().find(|finding| finding.rule == "latency-bound").unwrap();
        let against = found.evidence.iter().find(|one| !one.supports).map(|one| one.text.clone());
        (found.gain, against)
    };
    let (gain, against) = found(5.12);
    assert_eq!(gain, 1.0);
    insta::assert_snapshot!(against.unwrap(), @"the model takes 7.639 us for the kernel, which takes 5.120 us (1.49 times off; the chain alone would take 5.429 us), so its figures alone show no gain");
    assert_eq!(found(9.6).0, 1.0, "1.26 times too short");
    let (gain, against) = found(6.2);
    assert!(gain > 2.0 && against.is_none(), "1.23 times too long");
}

/// The model takes 8 us, and 6.4 us without exponentials. Measured, it is 5 us, and 3.5 or 4.5 us without them.
#[test]
fn a_gain_stays_although_the_model_is_off_if_the_instructions_cost_enough() {
    let mut launch = profile::tests::launch("attention", 8000.0);
    launch.without = vec![Without { cause: Cause::Exponentials, ns: 6400.0 }];
    let profile = Profile { launches: vec![launch], checked_on: None };
    let found = |without_us: f64| {
        let ablations = [ablation(Removed::Nothing, 5.0), ablation(Removed::SpecialFunctions, without_us)];
        let counts = Counts { profile: Some(&profile), ablations: &ablations, ..Counts::default() };
        let findings = diagnosed_by(CAUSAL, "attention-scalar", (&[("b1h8s512", 5.0)], &[]), &[], counts);
        let found = findings.into_iter().find(|finding| finding.rule == "special-functions").unwrap();
        (found.gain, found.confidence, found.model_is_off)
    };
    assert_eq!(found(3.5), (1.25, Confidence::Medium, false));
    assert_eq!(found(4.5), (1.0, Confidence::Low, true));
}

/// 64 blocks load 12.6 MB of 2.1 MB. L2 delivers up to 14.4 TB/s.
#[test]
fn repeated_loads_wait_for_bytes_only_where_l2_is_busy() {
    let mut launch = profile::tests::launch("attention", 5000.0);
    (launch.global_load_bytes, launch.footprint_bytes, launch.sectors_l2) = (12_582_912, 2_097_152, 393_216);
    launch.without = [Cause::GlobalLoads, Cause::CacheMisses].map(|cause| Without { cause, ns: 3000.0 }).into();
    let profile = Profile { launches: vec![launch], checked_on: None };
    let found = |us: f64| {
        let counts = Counts { profile: Some(&profile), ..Counts::default() };
        let findings = diagnosed_by(CAUSAL, "attention-scalar", (&[("b1h8s512", us)], &[]), &[], counts);
        let found = |rule: &str| findings.iter().find(|finding| finding.rule == rule).unwrap().clone();
        let against = |finding: &Finding| finding.evidence.iter().filter(|one| !one.supports).count();
        let (repeated, misses) = (found("redundant-loads"), found("cache-misses"));
        (repeated.evidence[2].clone(), repeated.kernel_change, against(&repeated), against(&misses))
    };
    let (waits, change, ..) = found(5.5);
    insta::assert_snapshot!([&waits.text, change].join("\n"), @"
    the data takes 2.1 MB of the 41.9 MB of L2, so repeated loads come from L2, which delivers 2.7 TB of 14.4 TB a second: that a load waits counts for more than how many bytes are loaded
    share loads in a cluster of blocks (with half as many blocks, each of twice the outputs, multiprocessors would be idle)
    ");
    assert!(!waits.supports);
    let (busy, _, repeated, misses) = found(2.5);
    assert!(busy.supports && repeated < misses, "{busy:?}");
}

#[test]
fn a_grid_without_batch_and_heads_is_the_first_finding() {
    let findings = diagnosed(CAUSAL, "attention-grid-bug", &GRID_BUG, &[]);
    let first = &findings[0];
    assert_eq!((first.rule, first.confidence, first.gain), ("serialised-grid", Confidence::High, 64.0));
    insta::assert_snapshot!(first.evidence[0].text, @"from b1h1s128 to b8h8s128 the work grows 64-fold and the time 61.7-fold, but the grid stays at 2 blocks on 132 SMs");
}

#[test]
fn a_slow_kernel_that_fills_the_grid_is_not_serialised() {
    let times = [("b8h8s128", 521.92), ("b1h1s128", 517.49), ("b4h4s128", 518.83), ("b8h8s256", 1174.9)];
    assert_eq!(rules(&diagnosed(CAUSAL, "attention-scalar", &times, &[])), [""; 0]);
}

/// It takes twice as long for 64 times the work: there are few blocks, but the work is well distributed among them.
#[test]
fn a_fixed_grid_whose_time_does_not_follow_the_work_is_not_serialised() {
    let findings = diagnosed(CAUSAL, "attention-grid-bug", &[("b8h8s128", 82.0), ("b1h1s128", 41.0)], &[]);
    assert_eq!(rules(&findings), ["too-few-blocks"]);
}

/// Each query has four times the keys, with the same 8 blocks. No independent work is done in sequence.
#[test]
fn a_longer_walk_over_the_keys_is_not_serialised() {
    let times = [("b1h1s512", 4000.0), ("b4h1s128", 1000.0)];
    assert_eq!(rules(&diagnosed("attention-fp16-d64-full", "attention-scalar", &times, &[])), ["too-few-blocks"]);
}

/// Idle multiprocessors are certain there, but more blocks help only if each has less to do. With 64 blocks, each must
/// become half as long for the whole gain, so the estimate is unsure.
#[test]
fn where_more_blocks_take_no_longer_the_time_is_that_of_one_block() {
    let times = [("b1h1s128", 517.49), ("b4h1s128", 517.9), ("b4h4s128", 518.83)];
    let findings = diagnosed(CAUSAL, "attention-scalar", &times, &[]);
    assert_eq!((findings[0].rule, findings[0].confidence), ("too-few-blocks", Confidence::Medium));
    let large = [("b8h4s128", 519.2), ("b1h1s128", 517.49), ("b4h1s128", 517.9)];
    let large = diagnosed(CAUSAL, "attention-scalar", &large, &[]);
    assert_eq!((large[0].rule, large[0].confidence), ("too-few-blocks", Confidence::Low));
    let against: Vec<&str> = findings[0].evidence.iter().filter(|one| !one.supports).map(|one| &*one.text).collect();
    insta::assert_snapshot!(against.join("\n"), @"grids of 2, 8 and 32 blocks (b1h1s128, b4h1s128 and b4h4s128), each block with as much work, take 517, 518 and 519 us, so the time is that of one block, and more blocks help only if each becomes shorter");
    insta::assert_snapshot!(findings[0].remedies[0].text, @"set BR from 64 to 1, with THREADS from 256 to 128, TPR from 1 to 32: 128 blocks instead of 2");
    let alone = diagnosed(CAUSAL, "attention-scalar", &times[..1], &[]);
    assert_eq!((alone[0].rule, alone[0].confidence), ("too-few-blocks", Confidence::Medium));
}

/// 4 x 4 queries and keys are one small tile. One multiprocessor computes it at its peak in 1/10000 of a launch.
#[test]
fn more_blocks_are_no_advice_for_a_case_that_is_one_small_tile() {
    let of = |case: &str| diagnosed(CAUSAL, "attention-scalar", &[(case, 1.8)], &[]);
    assert_eq!(rules(&of("b1h1s4d4")), ["launch-bound"]);
    assert!(rules(&of("b1h1s64")).contains(&"too-few-blocks"));
}

/// Nothing tells how much of 2 us more blocks could divide: the floor is an empty launch.
#[test]
fn what_more_blocks_gain_on_a_short_kernel_is_not_known_without_other_times() {
    let findings = diagnosed(CAUSAL, "attention-scalar", &[("b1h1s128", 2.0)], &[]);
    let found = findings.iter().find(|finding| finding.rule == "too-few-blocks").unwrap();
    assert_eq!((found.gain, found.confidence), (1.0, Confidence::Low));
}

/// b1h1s64 asks for less. b1h1s65 does not, because its size leaves a remainder; b1h1s512 asks for more keys.
#[test]
fn no_gain_makes_a_case_faster_than_one_that_asks_for_less() {
    let best = [("b1h1s64", 20.0), ("b1h1s65", 30.0), ("b1h1s512", 35.0), ("b4h1s128", 40.0)];
    let of = |best: &[(&str, f64)]| {
        diagnosed_within(CAUSAL, "attention-scalar", (&[("b4h1s128", 40.0)], best), &[]).remove(0)
    };
    let (bound, free) = (of(&best), of(&[]));
    assert_eq!((bound.rule, bound.gain, bound.confidence), ("too-few-blocks", 2.0, Confidence::Medium));
    assert!(free.gain > 10.0 && free.evidence.len() + 1 == bound.evidence.len(), "{free:?}");
    insta::assert_snapshot!(bound.evidence.last().unwrap().text, @"b1h1s64 asks for less (B, Sq, Sk) and for no more of anything, and takes 20.000 us with its best known kernel");
    assert_eq!(of(&[("b1h1s128", 40.5)]).gain, 1.005, "what a comparison resolves");
}

/// Half of the time stays even where each block has an eighth of the work, so more blocks cannot divide it.
#[test]
fn more_blocks_divide_only_the_time_that_follows_their_work() {
    let times = [("b1h1s512", 4.0), ("b1h1s64", 2.0), ("b1h1s128", 2.5)];
    let findings = diagnosed(CAUSAL, "attention-scalar", &times, &[]);
    let found = findings.iter().find(|finding| finding.rule == "too-few-blocks").unwrap();
    assert!((found.gain - 1.89).abs() < 0.01, "{}", found.gain);
    insta::assert_snapshot!(found.evidence[1].text, @"b1h1s64 has 63 times less work and takes 50% of this time, so up to that much may be a part that more blocks do not shorten");
}

/// Four times the keys take 1.3 times as long with as many blocks, so a tenth of the time follows the work.
#[test]
fn what_more_work_takes_shows_what_more_blocks_could_divide() {
    let times = [("b4h1s128", 4.0), ("b1h1s512", 5.2)];
    let findings = diagnosed("attention-fp16-d64-full", "attention-scalar", &times, &[]);
    let found = findings.iter().find(|finding| finding.rule == "too-few-blocks").unwrap();
    assert!((found.gain - 1.10).abs() < 0.01, "{}", found.gain);
    insta::assert_snapshot!(found.evidence[1].text, @"on b1h1s512, as many blocks have 4.0 times the work and take 1.30 times as long, so about 90% of the time does not depend on the work of a block, and more blocks do not shorten it");
}

/// Without counts, the share of the products in the time follows only from the rate of the FMA pipes.
#[test]
fn idle_tensor_cores_are_found_from_the_instructions_with_the_family_that_would_use_them() {
    let mix = InstructionMix { arithmetic: 100, ..InstructionMix::default() };
    let kernel = KernelResources { name: "attention".to_owned(), instructions: Some(mix), ..Default::default() };
    let findings = diagnosed(CAUSAL, "attention-scalar", &[("b16h8s512", 150.0)], std::slice::from_ref(&kernel));
    let found = findings.iter().find(|finding| finding.rule == "tensor-cores-unused").unwrap();
    assert_eq!(found.remedies[0].family, "attention-wgmma", "known to be fast");
    let tensor = KernelResources { instructions: Some(InstructionMix { tensor: 8, ..mix }), ..kernel };
    let findings = diagnosed(CAUSAL, "attention-scalar", &[("b16h8s512", 150.0)], &[tensor]);
    assert!(!rules(&findings).contains(&"tensor-cores-unused"));
}

#[test]
fn spills_are_found_in_the_compilers_report() {
    let kernel = KernelResources {
        name: "attention".to_owned(),
        registers: 64,
        spill_store_bytes: 120,
        spill_load_bytes: 180,
        ..Default::default()
    };
    let findings = diagnosed(CAUSAL, "attention-scalar", &[("b8h8s128", 521.92)], &[kernel]);
    assert_eq!(rules(&findings), ["spills"]);
    assert_eq!(findings[0].gain, 1.0, "how often they run is not known");
}

#[test]
fn a_time_near_the_floor_is_not_an_error() {
    let findings = diagnosed("attention-fp16-long", "attention-wgmma", &[("b4h16s4096d64-full", 350.0)], &[]);
    assert_eq!(findings.last().unwrap().rule, "at-the-floor");
    assert!(findings.last().unwrap().remedies.is_empty());
}

/// Manifests may name the rules that the domain lists.
#[test]
fn the_names_of_the_rules_are_those_that_manifests_may_use() {
    assert_eq!(diagnosis::names().collect::<Vec<_>>(), RULES);
}

/// The default configuration takes 500 us with conflicts. With another padding, counts show none.
#[test]
fn the_sessions_own_pairs_confirm_and_refute_a_cause_and_name_the_parameter() {
    let conflicts = Profile { launches: vec![profile::tests::launch("attention", 500_000.0)], checked_on: None };
    let mut without = conflicts.clone();
    without.launches[0].shared.moved = without.launches[0].shared.ideal;
    let found = |us: f64| {
        let twin = Some(("PAD", 8, us, &without));
        let counts = Counts { profile: Some(&conflicts), twin, ..Counts::default() };
        let findings = diagnosed_by(CAUSAL, "attention-scalar", (&[("b8h8s128", 500.0)], &[]), &[], counts);
        let place = findings.iter().position(|one| one.rule == "bank-conflicts").unwrap();
        (place, findings.len(), findings[place].clone())
    };
    let (place, _, confirmed) = found(250.0);
    assert_eq!((place, confirmed.tested.status, confirmed.confidence), (0, CauseStatus::Confirmed, Confidence::High));
    assert_eq!((confirmed.gain, confirmed.tested.changes[0].parameter.as_str()), (2.0, "PAD"));
    assert!(confirmed.remedies[0].text.starts_with("set PAD from "), "{:?}", confirmed.remedies);
    let (place, all, refuted) = found(500.0);
    assert_eq!(
        (place + 1, refuted.tested.status, refuted.gain),
        (all, CauseStatus::NotConfirmed, 1.0),
        "it comes last"
    );
    assert_eq!((refuted.evidence[0].source, refuted.evidence[0].supports), (EvidenceSource::Experiment, false));
}

/// What a naive rotary embedding does: three 64-bit divisions for each element, and loads of 2 bytes.
#[test]
fn narrow_loads_and_divisions_come_before_a_partial_wave() {
    let mut launch = profile::tests::launch("attention", 500_000.0);
    launch.shared.moved = launch.shared.ideal;
    launch.parts_ns = [("issue", 450_000.0), ("latency", 300_000.0)].map(|(part, ns)| (part.to_owned(), ns)).into();
    (launch.issue_slots, launch.index_slots) = (10_000_000, 8_800_000);
    launch.global_load_requests = 200_000;
    launch.global_load_bytes = 2 * 32 * 200_000;
    let profile = Profile { launches: vec![launch], checked_on: None };
    let counts = Counts { profile: Some(&profile), ..Counts::default() };
    let findings = diagnosed_by(CAUSAL, "attention-scalar", (&[("b8h8s128", 500.0)], &[]), &[], counts);
    let gain = |rule: &str| findings.iter().find(|one| one.rule == rule).map(|one| (10.0 * one.gain).round());
    assert_eq!((gain("index-arithmetic"), gain("narrow-loads")), (Some(48.0), Some(34.0)));
    assert!(gain("excess-instructions").is_some());
    let narrow = findings.iter().find(|one| one.rule == "narrow-loads").unwrap();
    insta::assert_snapshot!(narrow.cause, @"a lane loads 2.0 bytes of global memory with each instruction");
    let place = |rule: &str| rules(&findings).iter().position(|one| *one == rule).unwrap_or(usize::MAX);
    assert!(place("narrow-loads") < place("partial-wave"), "{:?}", rules(&findings));
}
