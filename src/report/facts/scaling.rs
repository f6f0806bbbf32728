//! Scaling tables: how times depend on one size of the workload while all others stay the same.

use std::collections::BTreeMap;

use super::contract::{Case, Scaling, ScalingPoint, ScalingTime};
use super::{CaseFacts, ReportInput, began};
use crate::domain::op::Dims;

/// Fewest sizes of a table where there are such tables. Two times show a change, but not how it goes on.
const ENOUGH_POINTS: usize = 3;

/// The most tables of a report.
const MAX_TABLES: usize = 4;

/// The most sizes that change together, such as the numbers of queries and keys.
const MAX_TOGETHER: u32 = 2;

/// Some cases that differ in one size only.
struct Series<'a> {
    varies: String,
    fixed: String,
    independent: bool,
    /// By size, the smallest first.
    points: BTreeMap<i64, &'a CaseFacts>,
}

/// Returns the scaling tables of a session, those with the most cases first.
pub(super) fn of(cases: &[Case], input: &ReportInput<'_>) -> Vec<Scaling> {
    let mut all = over_independent(input);
    all.extend(over_sizes(input));
    let most = all.iter().map(|series| series.points.len()).max().unwrap_or_default();
    all.retain(|series| series.points.len() >= most.clamp(2, ENOUGH_POINTS));
    // The sort is stable: of series with as many points, independent dimensions come first.
    all.sort_by_key(|series| std::cmp::Reverse(series.points.len()));
    let mut kept: Vec<Series<'_>> = Vec::new();
    for series in all {
        // Another batch size or head dimension adds no new dependence.
        if kept.iter().filter(|other| other.varies == series.varies).count() < 2 {
            kept.push(series);
        }
    }
    kept.into_iter().take(MAX_TABLES).map(|series| table(&series, cases, input)).collect()
}

/// Returns the series over the product of the independent dimensions, with all other dimensions equal.
fn over_independent<'a>(input: &ReportInput<'a>) -> Vec<Series<'a>> {
    let independent = input.independent_dims;
    if independent.is_empty() {
        return Vec::new();
    }
    let is_independent = |name: &str| independent.contains(&name);
    let mut groups: BTreeMap<String, BTreeMap<i64, &CaseFacts>> = BTreeMap::new();
    for facts in input.facts {
        let product = independent.iter().filter_map(|name| facts.conditions.dims.get(*name)).product();
        let fixed = listed(&facts.conditions.dims, |name| !is_independent(name));
        groups.entry(fixed).or_default().entry(product).or_insert(facts);
    }
    let series = |(fixed, points)| Series { varies: independent.join(" × "), fixed, independent: true, points };
    groups.into_iter().map(series).collect()
}

/// Returns the series over every other dimension, and over dimensions that are equal in each case.
fn over_sizes<'a>(input: &ReportInput<'a>) -> Vec<Series<'a>> {
    let names: Vec<&str> = input.facts.first().map_or_else(Vec::new, |facts| {
        let names = facts.conditions.dims.keys().map(String::as_str);
        names.filter(|name| !input.independent_dims.contains(name)).collect()
    });
    let mut all = Vec::new();
    for subset in 1_u32..1 << names.len().min(16) {
        if subset.count_ones() > MAX_TOGETHER {
            continue;
        }
        let chosen: Vec<&str> =
            (0..names.len()).filter(|place| subset >> place & 1 == 1).map(|place| names[place]).collect();
        let mut groups: BTreeMap<String, BTreeMap<i64, &CaseFacts>> = BTreeMap::new();
        for facts in input.facts {
            let dims = &facts.conditions.dims;
            let mut values = chosen.iter().filter_map(|name| dims.get(*name));
            let Some(&value) = values.next() else { continue };
            if values.all(|other| *other == value) {
                let fixed = listed(dims, |name| !chosen.contains(&name));
                groups.entry(fixed).or_default().entry(value).or_insert(facts);
            }
        }
        let varies = chosen.join(" = ");
        all.extend(groups.into_iter().map(|(fixed, points)| Series {
            varies: varies.clone(),
            fixed,
            independent: false,
            points,
        }));
    }
    all
}

fn listed(dims: &Dims, which: impl Fn(&str) -> bool) -> String {
    let words = dims.iter().filter(|(name, _)| which(name)).map(|(name, size)| format!("{name} = {size}"));
    words.collect::<Vec<_>>().join(", ")
}

fn table(series: &Series<'_>, cases: &[Case], input: &ReportInput<'_>) -> Scaling {
    let least_flop = series.points.values().next().map_or(1.0, |facts| facts.flop);
    let point = |(&value, facts): (&i64, &&CaseFacts)| {
        let case = cases.iter().find(|case| case.case == facts.case);
        let time = |us: f64, blocks| ScalingTime { us, us_per_unit: us / value as f64, blocks };
        let first = began::first(&facts.case, &input.record.iterations);
        ScalingPoint {
            case: facts.case.clone(),
            value,
            work: facts.flop / least_flop,
            first: first.map(|first| time(first.timing.median_ns / 1e3, first.measurement.ctas)),
            best: case.and_then(|case| Some(time(case.best_us?, case.ctas))),
        }
    };
    let points: Vec<ScalingPoint> = series.points.iter().map(point).collect();
    Scaling { varies: series.varies.clone(), fixed: series.fixed.clone(), independent: series.independent, points }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{facts, input, record, report};

    fn facts_of(case: &str, sizes: [i64; 4]) -> CaseFacts {
        let mut facts = facts(case);
        facts.conditions.dims = ["B", "H", "S", "D"].map(str::to_owned).into_iter().zip(sizes).collect();
        facts.flop = (sizes[0] * sizes[1] * sizes[2] * sizes[2]) as f64;
        facts
    }

    /// Three cases differ in S, three in B x H, and one in everything.
    #[test]
    fn cases_that_differ_in_one_size_or_in_a_product_make_a_table() {
        let record = record();
        let all = [
            facts_of("s1", [1, 1, 128, 64]),
            facts_of("s2", [1, 1, 256, 64]),
            facts_of("s3", [1, 1, 512, 64]),
            facts_of("b4", [4, 1, 128, 64]),
            facts_of("h4", [1, 4, 128, 64]),
            facts_of("b8h8", [8, 8, 128, 64]),
            facts_of("other", [3, 5, 7, 32]),
        ];
        let cases = report(&record).cases;
        let tables = of(&cases, &ReportInput { facts: &all, ..input(&record) });
        let told: Vec<String> = tables
            .iter()
            .map(|table| {
                let points: Vec<_> =
                    table.points.iter().map(|one| format!("{} {} {}", one.case, one.value, one.work)).collect();
                format!("{} at {}: {}", table.varies, table.fixed, points.join(", "))
            })
            .collect();
        assert_eq!(
            told,
            [
                "B × H at S = 128, D = 64: s1 1 1, b4 4 4, b8h8 64 64",
                "S at B = 1, H = 1, D = 64: s1 128 1, s2 256 4, s3 512 16"
            ]
        );
    }
}
