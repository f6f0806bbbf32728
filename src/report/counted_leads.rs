//! Why a winner is faster or slower than the fastest baseline: what the warps of both do, by hardware counters.
//!
//! The cycles of a launch are those outside of the busiest SM's work, and those of that SM, divided by the states of the
//! sampled warps. So the parts of both kernels add up to their cycles, and the difference of a part is its share of the lead.

use super::changes::listed;
use super::contract::{Case, CountedLead, CyclePart};
use super::format::{fine, times, us};
use crate::domain::counters::{CountedBaseline, Counters, LaunchCounters};
use crate::domain::ids::CaseName;
use crate::domain::record::SessionRecord;

/// The parts with what warps do in them, and the states of warps that belong to them, as `ncu` names these.
const PARTS: [(&str, &str, &[&str]); 8] = [
    ("issue", "issuing instructions, or ready to", &["selected", "not_selected"]),
    ("barriers", "waiting for other warps at barriers", &["barrier", "membar"]),
    ("data", "waiting for data of global memory or L2", &["long_scoreboard", "lg_throttle", "tex_throttle", "drain"]),
    ("shared_memory", "waiting for shared memory or special functions", &["short_scoreboard", "mio_throttle"]),
    ("pipes", "waiting for arithmetic", &["wait", "math_pipe_throttle", "dispatch_stall", "warpgroup_arrive"]),
    ("instructions", "waiting for instructions or constants", &["no_instructions", "imc_miss", "branch_resolving"]),
    (LAUNCH, "before the first block or after the last one", &[]),
    (OTHER, "waiting for something else", &["misc", "sleeping"]),
];

const LAUNCH: &str = "launch";
const OTHER: &str = "other";

/// The factor by which the differences of the two kernels may differ, profiled and not, where the counters show a lead. What the
/// profiler adds to each launch is in both kernels, so it changes their ratio and not their difference.
const MAX_DISAGREEMENT: f64 = 2.0;

/// The share of the difference from which a part is worth naming, and the most parts to name.
const MIN_SHARE: f64 = 0.15;
const MAX_NAMED: usize = 2;

/// The most leads to tell in a summary.
const MAX_LEADS: usize = 3;

/// How many times as many instructions or bytes are worth naming.
const MANY: f64 = 1.25;

/// Samples of warps from which their states are told. Tiny kernels have fewer.
const MIN_SAMPLES: f64 = 20.0;

/// Compares the winner of each case with its fastest baseline where the counters of both are known, the largest lead first.
pub(super) fn of(cases: &[Case], record: &SessionRecord) -> Vec<CountedLead> {
    let mut leads: Vec<CountedLead> = cases.iter().filter_map(|case| of_case(case, record)).collect();
    leads.sort_by(|a, b| b.ratio.total_cmp(&a.ratio));
    leads
}

fn of_case(case: &Case, record: &SessionRecord) -> Option<CountedLead> {
    let (baseline, ratio) = (case.baseline.as_ref()?, case.ratio_to_baseline?.estimate);
    let of_baseline = |one: &&CountedBaseline| one.case == case.case && one.name == baseline.name;
    let theirs = record.baseline_counters.iter().find(of_baseline)?.counters.as_ref().ok()?;
    lead(&case.case, &baseline.name, (ratio, case.best_us?), [theirs, case.counters.as_ref()?])
}

fn lead(case: &CaseName, baseline: &str, (ratio, best_us): (f64, f64), both: [&Counters; 2]) -> Option<CountedLead> {
    let [theirs, ours] = [parts(both[0])?, parts(both[1])?];
    let cycles = [theirs, ours].map(|parts| parts.iter().sum::<f64>());
    let pair = |of: fn(&LaunchCounters) -> Option<f64>| Some([sum(both[0], of)?, sum(both[1], of)?]);
    let [theirs_ns, ours_ns] = pair(|launch| launch.time_ns)?;
    let (more_us, profiled_more_us) = ((ratio - 1.0) * best_us, (theirs_ns - ours_ns) / 1e3);
    let named = PARTS.iter().zip(theirs.into_iter().zip(ours));
    let mut parts: Vec<CyclePart> =
        named.map(|((part, ..), (baseline, winner))| CyclePart { part, baseline, winner }).collect();
    let sign = if ratio >= 1.0 { 1.0 } else { -1.0 };
    parts.sort_by(|a, b| (sign * b.more()).total_cmp(&(sign * a.more())));
    Some(CountedLead {
        case: case.clone(),
        baseline: baseline.to_owned(),
        ratio,
        more_us,
        profiled_more_us,
        cycles,
        parts,
        instructions: pair(|launch| launch.instructions),
        l2_bytes: pair(LaunchCounters::l2_bytes),
        shown: (1.0 / MAX_DISAGREEMENT..=MAX_DISAGREEMENT).contains(&(profiled_more_us / more_us)),
    })
}

/// Divides the cycles of all launches into [`PARTS`]. None if a launch has too few counters.
fn parts(of: &Counters) -> Option<[f64; PARTS.len()]> {
    let mut all = [0.0; PARTS.len()];
    for launch in &of.launches {
        let samples: f64 = launch.warp_states.values().sum();
        let (elapsed, busiest) = (launch.sm_elapsed_cycles?, launch.sm_active_cycles_max?);
        // The two are counted in different passes, so a busy SM may seem to work for longer than the launch lasts.
        let busiest = busiest.min(elapsed);
        if samples < MIN_SAMPLES {
            return None;
        }
        for (state, count) in &launch.warp_states {
            let place = PARTS.iter().position(|(.., states)| states.contains(&&**state));
            all[place.unwrap_or(PARTS.len() - 1)] += busiest * count / samples;
        }
        all[place_of(LAUNCH)] += elapsed - busiest;
    }
    (!of.launches.is_empty()).then_some(all)
}

fn place_of(part: &str) -> usize {
    PARTS.iter().position(|(name, ..)| *name == part).unwrap_or(PARTS.len() - 1)
}

fn sum(of: &Counters, count: fn(&LaunchCounters) -> Option<f64>) -> Option<f64> {
    of.launches.iter().map(count).sum::<Option<f64>>().filter(|sum| *sum > 0.0)
}

/// Says what warps do in a part.
fn what(part: &CyclePart) -> &'static str {
    PARTS[place_of(part.part)].1
}

/// Says why the winners with the largest leads that the counters show are faster than a baseline. None if they show no lead.
pub(super) fn in_summary(leads: &[CountedLead]) -> Option<String> {
    let shown = leads.iter().filter(|lead| lead.shown && lead.ratio > 1.0).take(MAX_LEADS);
    let told: Vec<String> = shown.map(|lead| told(lead, 1)).collect();
    (!told.is_empty()).then(|| told.join(" "))
}

/// Says what the slower kernel of the two spends more cycles on.
pub(super) fn sentence(lead: &CountedLead) -> String {
    told(lead, MAX_NAMED)
}

fn told(lead: &CountedLead, most: usize) -> String {
    let CountedLead { case, baseline, ratio, cycles, .. } = lead;
    let is_ahead = *ratio >= 1.0;
    let (factor, more_us) = (fine(if is_ahead { *ratio } else { 1.0 / ratio }), us(lead.more_us.abs()));
    let head = match is_ahead {
        true => format!("On `{case}` ({factor}), `{baseline}` takes"),
        false => format!("On `{case}`, where `{baseline}` is {factor} as fast, ours takes"),
    };
    if !lead.shown {
        let profiled = us(if is_ahead { lead.profiled_more_us } else { -lead.profiled_more_us });
        return format!("{head} {more_us} us more, but {profiled} us while profiled, so the counters do not show why.");
    }
    let difference = cycles[0] - cycles[1];
    let named = lead.parts.iter().filter(|part| part.more() / difference >= MIN_SHARE).take(most);
    let named: Vec<String> = named
        .map(|part| {
            let [more, less] = if is_ahead { [part.baseline, part.winner] } else { [part.winner, part.baseline] };
            format!("{:.0} more {} ({more:.0} instead of {less:.0})", part.more().abs(), what(part))
        })
        .collect();
    let named = listed(&named).map(|named| format!(": {named}")).unwrap_or_default();
    let more = more_of(lead, is_ahead).map(|more| format!(" It {more}.")).unwrap_or_default();
    format!("{head} {:.0} more cycles, by hardware counters{named}.{more}", difference.abs())
}

/// Says how many times the instructions or the bytes of the faster kernel the slower one has. None if not many more.
fn more_of(lead: &CountedLead, is_ahead: bool) -> Option<String> {
    let factor = |both: [f64; 2]| if is_ahead { both[0] / both[1] } else { both[1] / both[0] };
    let told = |both: Option<[f64; 2]>| both.map(factor).filter(|factor| *factor >= MANY);
    let instructions = told(lead.instructions).map(|factor| format!("executes {} the instructions", times(factor)));
    let bytes = told(lead.l2_bytes).map(|factor| format!("moves {} the bytes from and to L2", times(factor)));
    let both: Vec<String> = instructions.into_iter().chain(bytes).collect();
    (!both.is_empty()).then(|| both.join(" and "))
}

/// Returns the names of the parts that a table shows. The others are small.
pub(super) fn part_names() -> impl Iterator<Item = &'static str> + Clone {
    PARTS.iter().map(|(part, ..)| *part).filter(|part| *part != OTHER)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{record_ahead, report};
    use super::*;
    use crate::domain::counters::CountedBaseline;

    /// A launch whose busiest SM works for 80% of its cycles.
    fn launch(time_ns: f64, cycles: f64, states: &[(&str, f64)]) -> LaunchCounters {
        LaunchCounters {
            kernel: "k".to_owned(),
            time_ns: Some(time_ns),
            instructions: Some(cycles * 100.0),
            l2_sectors: Some(1000.0),
            sm_active_cycles_max: Some(0.8 * cycles),
            sm_elapsed_cycles: Some(cycles),
            warp_states: states.iter().map(|(state, samples)| ((*state).to_owned(), *samples)).collect(),
            ..LaunchCounters::default()
        }
    }

    fn counters(launches: &[LaunchCounters]) -> Counters {
        Counters { tool: "ncu".to_owned(), launches: launches.to_vec() }
    }

    /// The baseline takes 125 us on the first case, and ours 50.
    #[test]
    fn a_lead_is_divided_by_what_the_warps_of_both_kernels_do() {
        let told = |theirs: &[LaunchCounters], ours: &[LaunchCounters]| {
            let mut record = record_ahead();
            let best = report(&record).cases[0].clone();
            let baseline = best.baseline.unwrap().name;
            for one in record.iterations.iter_mut().filter(|one| Some(one.id) == best.iteration) {
                let found = one.measurements.iter_mut().filter(|found| found.case == best.case);
                found.for_each(|found| found.counters = Some(counters(ours)));
            }
            record.baseline_counters =
                vec![CountedBaseline { case: best.case, name: baseline, counters: Ok(counters(theirs)), wall_s: 9.0 }];
            report(&record)
        };
        let ours = [launch(60_000.0, 2000.0, &[("selected", 60.0), ("long_scoreboard", 30.0), ("sleeping", 10.0)])];
        let theirs = [
            launch(100_000.0, 4000.0, &[("selected", 50.0), ("barrier", 100.0), ("long_scoreboard", 50.0)]),
            launch(20_000.0, 1000.0, &[("wait", 20.0)]),
        ];
        let shown = told(&theirs, &ours);
        let [lead] = &*shown.counted_leads else { panic!("{:?}", shown.counted_leads) };
        let sum = |of: fn(&CyclePart) -> f64| lead.parts.iter().map(of).sum::<f64>();
        assert!((sum(|part| part.baseline) - 5000.0).abs() < 1e-6 && (sum(|part| part.winner) - 2000.0).abs() < 1e-6);
        insta::assert_snapshot!(in_summary(&shown.counted_leads).unwrap(), @"On `b1h1s128` (2.50×), `torch sdpa (flash)` takes 3000 more cycles, by hardware counters: 1600 more waiting for other warps at barriers (1600 instead of 0). It executes 2.50× the instructions and moves 2.00× the bytes from and to L2.");
        insta::assert_snapshot!(crate::report::markdown::counted_leads::table(&shown.counted_leads).unwrap(), @"
        | case | baseline | baseline / ours | us more | profiled | cycles | issue | barriers | data | shared memory | pipes | instructions | launch |
        |---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|
        | b1h1s128 | torch sdpa (flash) | 2.50× | 75.00 | 60.00 | 5000, 2000 | 800, 960 | 1600, 0 | 800, 480 | 0, 0 | 800, 0 | 0, 0 | 1000, 400 |
        ");
        let other = told(&[launch(90_000.0, 1900.0, &[("selected", 50.0)])], &ours);
        assert_eq!(in_summary(&other.counted_leads), None);
        insta::assert_snapshot!(sentence(&other.counted_leads[0]), @"On `b1h1s128` (2.50×), `torch sdpa (flash)` takes 75.00 us more, but 30.00 us while profiled, so the counters do not show why.");
        assert!(
            told(&[launch(120_000.0, 4800.0, &[("selected", 19.0)])], &ours).counted_leads.is_empty(),
            "few samples"
        );
    }

    #[test]
    fn a_faster_baseline_is_compared_the_other_way_round() {
        let theirs = counters(&[launch(1000.0, 2000.0, &[("selected", 50.0), ("wait", 50.0)])]);
        let ours =
            counters(&[launch(1200.0, 2400.0, &[("selected", 30.0), ("wait", 30.0), ("long_scoreboard", 40.0)])]);
        let lead = lead(&"m512".into(), "cublas", (1.0 / 1.2, 1.2), [&theirs, &ours]).unwrap();
        insta::assert_snapshot!(sentence(&lead), @"On `m512`, where `cublas` is 1.20× as fast, ours takes 400 more cycles, by hardware counters: 768 more waiting for data of global memory or L2 (768 instead of 0) and 80 more before the first block or after the last one (480 instead of 400).");
    }
}
