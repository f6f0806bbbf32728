//! Why a winner is faster or slower than the fastest baseline, and than other variants: what the warps of both do, by hardware
//! counters.
//!
//! The [parts](super::cycle_parts) of both kernels add up to their cycles, so the difference of a part is its share of the lead.

use super::advantage::MIN_FACTOR;
use super::changes::listed;
use super::contract::{BlocksEach, Case, CountedLead};
use super::{ReportInput, baseline_kernels, began, cycle_parts, rivals};
use crate::domain::counters::{CountedBaseline, Counters, LaunchCounters};
use crate::domain::record::{IterationRecord, SessionRecord};

/// The factor by which the differences of the two kernels may differ, profiled and not, where the counters show a lead. What else
/// the profiler adds to each launch is in both kernels, so it changes their ratio and not their difference.
const MAX_DISAGREEMENT: f64 = 2.0;

/// The fastest baseline, as [`CountedLead::over`] has it.
pub(super) const BASELINE: &str = "baseline";

/// Compares the winner of each case with its fastest baseline, with the committed winner that it beat and with variants of other
/// families, where the counters of both are known. The largest lead is first.
pub(super) fn of(cases: &[Case], input: &ReportInput<'_>) -> Vec<CountedLead> {
    let mut leads: Vec<CountedLead> = cases
        .iter()
        .flat_map(|case| over_baseline(case, input).into_iter().chain(over_variants(case, input.record)))
        .collect();
    leads.sort_by(|a, b| b.ratio.total_cmp(&a.ratio));
    leads
}

fn over_baseline(case: &Case, input: &ReportInput<'_>) -> Option<CountedLead> {
    let (baseline, ratio) = (case.baseline.as_ref()?, case.ratio_to_baseline?.estimate);
    let of_baseline = |one: &&CountedBaseline| one.case == case.case && one.name == baseline.name;
    let theirs = input.record.baseline_counters.iter().find(of_baseline)?.counters.as_ref().ok()?;
    let lead = lead(case, (BASELINE, &baseline.name), ratio, theirs)?;
    let blocks = baseline_kernels::blocks(case);
    let both = [Some(theirs), case.counters.as_ref()];
    let resident = |at: usize| resident_blocks(both[at]?, blocks?[at], case.sms);
    let resident_blocks = resident(0).zip(resident(1)).map(|(theirs, ours)| [theirs, ours]);
    let blocks_each = blocks.and_then(|blocks| blocks_each(case, blocks, input.independent_dims));
    Some(CountedLead { busy_sms: baseline_kernels::busy_sms(case), blocks, blocks_each, resident_blocks, ..lead })
}

/// Divides the blocks of both kernels by the problems of a case that are independent of each other.
fn blocks_each(case: &Case, blocks: [u64; 2], independent: &[&str]) -> Option<BlocksEach> {
    let sizes = independent.iter().filter_map(|name| case.dims.get(*name));
    let problems = u64::try_from(sizes.product::<i64>()).ok().filter(|problems| *problems > 1)?;
    let dims = listed(&independent.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())?;
    let is_divided = blocks.iter().all(|blocks| blocks % problems == 0);
    is_divided.then(|| BlocksEach { dims, blocks: blocks.map(|blocks| blocks / problems) })
}

/// Compares a winner with the slower variants that the session had profiled after it, but for the initial kernel.
fn over_variants(case: &Case, record: &SessionRecord) -> Vec<CountedLead> {
    let iterations = &record.iterations;
    let first = began::first(&case.case, iterations).map(|first| &first.iteration.hash);
    let committed = began::committed(&case.case, iterations).map(|committed| &committed.iteration.hash);
    let Some(own) = iterations.iter().find(|one| Some(one.id) == case.iteration) else { return Vec::new() };
    let told = |other: &IterationRecord| {
        let found = other.measurements.iter().find(|found| found.case == case.case)?;
        let theirs = found.counters.as_ref()?;
        let over = if committed == Some(&other.hash) { "committed_winner" } else { "family" };
        let is_other = other.hash != own.hash && first != Some(&other.hash);
        let is_known = over != "family" || other.family != own.family;
        let us = rivals::us_in_one_run(other, case, record).or_else(|| rivals::screened_us(other, case, record))?;
        let ratio = us / case.best_us?;
        let lead = lead(case, (over, &other.family), ratio, theirs)?;
        (is_other && is_known && ratio >= MIN_FACTOR).then_some(lead)
    };
    iterations.iter().filter_map(told).collect()
}

fn lead(case: &Case, (over, other): (&'static str, &str), ratio: f64, theirs: &Counters) -> Option<CountedLead> {
    let (both, best_us) = ([theirs, case.counters.as_ref()?], case.best_us?);
    let products_apart = both.iter().all(|counters| cycle_parts::products_are_apart(counters));
    let mut parts = cycle_parts::of(both[0], both[1], products_apart)?;
    let (cycles, [theirs, ours]) = (cycle_parts::sums(parts.iter()), cycle_parts::sums(cycle_parts::compared(&parts)));
    let pair = |of: fn(&LaunchCounters) -> Option<f64>| Some([sum(both[0], of)?, sum(both[1], of)?]);
    // The times are counted in another pass than the cycles, so one clock serves for both kernels.
    let clock_ns = pair(|launch| launch.time_ns)?.iter().sum::<f64>() / cycles.iter().sum::<f64>();
    let (more_us, profiled_more_us) = ((ratio - 1.0) * best_us, (theirs - ours) * clock_ns / 1e3);
    let sign = if ratio >= 1.0 { 1.0 } else { -1.0 };
    parts.sort_by(|a, b| (sign * b.more()).total_cmp(&(sign * a.more())));
    Some(CountedLead {
        case: case.case.clone(),
        winner: case.variant.as_ref().map(|variant| variant.family.clone()).unwrap_or_default(),
        over,
        other: other.to_owned(),
        kernel: longest(both[0]).map(|launch| launch.kernel.clone()).unwrap_or_default(),
        ratio,
        more_us,
        profiled_more_us,
        cycles,
        parts,
        instructions: pair(|launch| launch.instructions),
        l2_bytes: pair(LaunchCounters::l2_bytes),
        busy_sms: None,
        blocks: None,
        blocks_each: None,
        resident_blocks: None,
        products_apart,
        shown: (1.0 / MAX_DISAGREEMENT..=MAX_DISAGREEMENT).contains(&(profiled_more_us / more_us)),
    })
}

/// Returns the longest launch.
fn longest(of: &Counters) -> Option<&LaunchCounters> {
    of.launches.iter().max_by(|a, b| a.time_ns.unwrap_or_default().total_cmp(&b.time_ns.unwrap_or_default()))
}

/// Returns how many blocks of a grid an SM has at a time. None if the longest launch does not say for how many there is room.
fn resident_blocks(of: &Counters, blocks: u64, sms: u32) -> Option<u64> {
    let (_, room) = longest(of)?.occupancy_limit()?;
    Some(blocks.div_ceil(u64::from(sms.max(1))).min(room as u64))
}

fn sum(of: &Counters, count: fn(&LaunchCounters) -> Option<f64>) -> Option<f64> {
    of.launches.iter().map(count).sum::<Option<f64>>().filter(|sum| *sum > 0.0)
}

/// Returns the largest lead over another variant that the counters show.
pub(super) fn largest_over_a_variant(leads: &[CountedLead]) -> Option<&CountedLead> {
    leads.iter().find(|lead| lead.over != BASELINE && lead.shown)
}

#[cfg(test)]
mod tests {
    use super::super::counted_lead_text::{in_short, of_baselines, over_baselines, sentence};
    use super::super::tests::{found, iteration, record_ahead, report};
    use super::*;
    use crate::domain::counters::WARPGROUP_PRODUCTS;
    use crate::domain::evaluation::Outcome;
    use crate::domain::ids::IterationId;
    use crate::domain::verdict::Verdict;
    use crate::report::contract::CyclePart;

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
        let theirs = theirs.map(|one| LaunchCounters { kernel: "cudnn_generated_1".to_owned(), ..one });
        let shown = told(&theirs, &ours);
        let [lead] = &*shown.counted_leads else { panic!("{:?}", shown.counted_leads) };
        let sum = |of: fn(&CyclePart) -> f64| lead.parts.iter().map(of).sum::<f64>();
        assert!((sum(|part| part.other) - 5000.0).abs() < 1e-6 && (sum(|part| part.winner) - 2000.0).abs() < 1e-6);
        insta::assert_snapshot!(over_baselines(&shown.counted_leads).unwrap(), @"On `b1h1s128`, ours is 2.50× as fast as `torch sdpa (flash)`, which executes 2.50× the instructions and moves 2.00× the bytes from and to L2. By hardware counters, it takes 4000 cycles instead of 1600: the largest difference is 1600 more cycles in waits for other warps at barriers or for products on tensor cores. More is not known of the kernels of cuDNN, whose source is closed.");
        insta::assert_snapshot!(crate::report::markdown::counted_leads::table(&shown.counted_leads).unwrap(), @"
        | case | other kernel | other / ours | us more | profiled | cycles | issue | barriers | data | shared memory | pipes | launch | instructions |
        |---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|
        | b1h1s128 | torch sdpa (flash) | 2.50× | 75.00 | 61.71 | 4000, 1600 | 800, 960 | 1600, 0 | 800, 480 | 0, 0 | 800, 0 | 1000, 400 | 0, 0 |
        ");
        let each = |blocks| Some(BlocksEach { dims: "B and H".to_owned(), blocks });
        let on_fewer = CountedLead { busy_sms: Some([64, 128]), blocks_each: each([1, 2]), ..lead.clone() };
        let with_fewer = CountedLead {
            blocks: Some([128, 256]),
            busy_sms: Some([128, 132]),
            resident_blocks: Some([1, 2]),
            ..lead.clone()
        };
        let each_with_fewer = CountedLead { blocks_each: each([2, 4]), ..with_fewer.clone() };
        let grids = [&on_fewer, &with_fewer, &each_with_fewer].map(|lead| {
            let sentence = sentence(lead);
            sentence.split_once("which ").unwrap().1.split_once(", executes").unwrap().0.to_owned()
        });
        insta::assert_snapshot!(grids.join("\n"), @"
        runs on 64 SMs instead of 128 (1 block instead of 2 for each B and H)
        has 128 blocks instead of 256 (1 instead of 2 on an SM at a time, so fewer warps run while others wait)
        has 128 blocks instead of 256 (2 blocks instead of 4 for each B and H, and 1 instead of 2 on an SM at a time, so fewer warps run while others wait)
        ");
        let profiled = |profiled_more_us| sentence(&CountedLead { shown: false, profiled_more_us, ..lead.clone() });
        assert!(
            profiled(22.5)
                .ends_with("longer: the profiler shows only 22.50 us of that, so it is not known where the rest goes.")
        );
        assert!(profiled(225.0).contains("longer: under the profiler it is 225.00 us, so"), "{}", profiled(225.0));
        let other = told(&[launch(90_000.0, 1900.0, &[("selected", 50.0)])], &ours);
        assert_eq!(over_baselines(&other.counted_leads), None);
        insta::assert_snapshot!(sentence(&other.counted_leads[0]), @"On `b1h1s128`, ours is 2.50× as fast as `torch sdpa (flash)`, which takes 75.00 us longer: the counted cycles do not show why.");
        assert!(
            told(&[launch(120_000.0, 4800.0, &[("selected", 19.0)])], &ours).counted_leads.is_empty(),
            "few samples"
        );
    }

    #[test]
    fn blocks_are_told_for_each_independent_problem_that_they_divide() {
        let mut case = report(&record_ahead()).cases[0].clone();
        case.dims = [("B", 8), ("H", 4), ("S", 128)].map(|(name, size)| (name.to_owned(), size)).into();
        let each = |blocks, dims: &[&str]| blocks_each(&case, blocks, dims).map(|each| (each.dims, each.blocks));
        assert_eq!(each([32, 128], &["B", "H"]), Some(("B and H".to_owned(), [1, 4])));
        assert_eq!(each([32, 132], &["B", "H"]), None, "a persistent kernel");
        assert_eq!(each([32, 128], &[]), None, "one problem");
    }

    /// Half of the winner's waits in the state `barrier` are for products. They are no waits at barriers where both kernels have them
    /// apart.
    #[test]
    fn waits_for_products_are_apart_if_they_are_so_in_both_kernels() {
        let mut case = report(&record_ahead()).cases[0].clone();
        let ours =
            counters(&[launch(1000.0, 2000.0, &[("selected", 60.0), ("barrier", 20.0), (WARPGROUP_PRODUCTS, 20.0)])]);
        (case.best_us, case.counters) = (Some(1.0), Some(ours));
        let told = |states: &[(&str, f64)]| {
            let lead = lead(&case, (BASELINE, "cudnn"), 1.5, &counters(&[launch(1500.0, 3000.0, states)])).unwrap();
            let barriers = lead.parts.iter().find(|part| part.part == cycle_parts::BARRIERS).unwrap();
            (lead.products_apart, barriers.winner, cycle_parts::what(barriers, lead.products_apart))
        };
        let apart = told(&[("selected", 50.0), ("barrier", 50.0), (WARPGROUP_PRODUCTS, 0.0)]);
        assert_eq!(apart, (true, 320.0, "waits for other warps at barriers"));
        let merged = told(&[("selected", 50.0), ("barrier", 50.0)]);
        assert_eq!(merged, (false, 640.0, "waits for other warps at barriers or for products on tensor cores"));
    }

    #[test]
    fn a_faster_baseline_is_compared_the_other_way_round() {
        let theirs = counters(&[launch(1000.0, 2000.0, &[("selected", 50.0), ("wait", 50.0)])]);
        let ours =
            counters(&[launch(1200.0, 2400.0, &[("selected", 30.0), ("wait", 30.0), ("long_scoreboard", 40.0)])]);
        let mut case = report(&record_ahead()).cases[0].clone();
        (case.case, case.best_us, case.counters) = ("m512".into(), Some(1.2), Some(ours));
        let lead = lead(&case, (BASELINE, "cublas"), 1.0 / 1.2, &theirs).unwrap();
        let leads = std::slice::from_ref(&lead);
        assert_eq!(over_baselines(leads), None);
        insta::assert_snapshot!(of_baselines(leads).unwrap(), @"On `m512`, `cublas` is 1.20× as fast as ours, which, by hardware counters, takes 1920 cycles instead of 1600: the largest difference is 768 more cycles in waits for data of global memory or L2, but 224 fewer in waits for arithmetic.");
    }

    /// The winner waits less for arithmetic, and more at barriers than any one of the others makes up for.
    #[test]
    fn enough_parts_are_named_to_see_which_kernel_is_slower() {
        let theirs = [("selected", 10.0), ("wait", 50.0), ("long_scoreboard", 35.0), ("barrier", 5.0)];
        let ours = [("selected", 10.0), ("wait", 30.0), ("long_scoreboard", 20.0), ("barrier", 30.0)];
        let mut case = report(&record_ahead()).cases[0].clone();
        (case.best_us, case.counters) = (Some(0.9), Some(counters(&[launch(900.0, 1800.0, &ours)])));
        let theirs = counters(&[launch(1000.0, 2000.0, &theirs)]);
        let lead = lead(&case, (BASELINE, "cublas"), 1.0 / 0.9, &theirs).unwrap();
        let other = CountedLead { case: "m512".into(), kernel: "nvjet_hsh".to_owned(), ..lead.clone() };
        insta::assert_snapshot!(over_baselines(&[lead, other]).unwrap(), @"
        Of the kernels of cuBLAS, whose source is closed, no more is known than hardware counters show:
          - On `b1h1s128`, ours is 1.11× as fast as `cublas`, which, by hardware counters, takes 1600 cycles instead of 1440: the largest differences are 320 more cycles in waits for arithmetic and 240 more cycles in waits for data of global memory or L2, but 400 fewer in waits for other warps at barriers or for products on tensor cores.
          - On `m512`, ours is 1.11× as fast as `cublas`, which, by hardware counters, takes 1600 cycles instead of 1440: the largest differences are 320 more cycles in waits for arithmetic and 240 more cycles in waits for data of global memory or L2, but 400 fewer in waits for other warps at barriers or for products on tensor cores.
        ");
    }

    fn over_a_variant(leads: &[CountedLead]) -> Option<String> {
        largest_over_a_variant(leads).map(in_short)
    }

    /// The winner takes 50 us on the first case, and `split-k` 55 us.
    #[test]
    fn a_lead_over_another_family_is_told_if_the_counters_show_it() {
        let told = |rival_ns: f64, cycles: f64, fetching: f64| {
            let mut record = record_ahead();
            let best = report(&record).cases[0].clone();
            let ours = launch(52_000.0, 2000.0, &[("selected", 60.0), ("long_scoreboard", 40.0)]);
            for one in record.iterations.iter_mut().filter(|one| Some(one.id) == best.iteration) {
                let found = one.measurements.iter_mut().filter(|found| found.case == best.case);
                found.for_each(|found| found.counters = Some(counters(std::slice::from_ref(&ours))));
            }
            let states = [("selected", 50.0), ("long_scoreboard", 50.0), ("no_instructions", fetching)];
            let theirs = launch(rival_ns, cycles, &states);
            let mut other = found("b1h1s128", 55.0, Verdict::Regressed, None, None);
            other.counters = Some(counters(&[theirs]));
            let mut rival = iteration(IterationId(60), 48, None, Outcome::Measured, vec![other]);
            rival.family = "split-k".to_owned();
            record.iterations.push(rival);
            report(&record)
        };
        let shown = told(56_000.0, 2200.0, 0.0);
        let [lead] = &*shown.counted_leads else { panic!("{:?}", shown.counted_leads) };
        assert_eq!((lead.over, &*lead.other), ("family", "split-k"));
        assert_eq!(over_baselines(&shown.counted_leads), None);
        insta::assert_snapshot!(over_a_variant(&shown.counted_leads).unwrap(), @"On `b1h1s128`, `tiled` is 1.10× as fast as `split-k`, which, by hardware counters, takes 1760 cycles instead of 1600: the largest difference is 240 more cycles in waits for data of global memory or L2, but 80 fewer in issuing instructions.");
        assert!(
            shown.summary.contains("as fast as `split-k`, which, by hardware counters, takes"),
            "{}",
            shown.summary
        );
        assert_eq!(
            over_a_variant(&told(70_000.0, 2750.0, 0.0).counted_leads),
            None,
            "the profiler shows another difference"
        );
        // Only the profiler has its launches wait for code.
        let fetches = over_a_variant(&told(70_000.0, 2750.0, 25.0).counted_leads).unwrap();
        assert!(!fetches.contains("waits for instructions"), "{fetches}");
    }
}
