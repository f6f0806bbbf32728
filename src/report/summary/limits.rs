//! What limits the best variants: what their instructions cost, how much is not explained, and the probable causes.

use super::joined;
use crate::domain::tested::CauseStatus;
use crate::report::contract::{Finding, Report};
use crate::report::format::{counted, times};
use crate::report::limits::{self, Group};
use crate::report::markdown::breakdown;
use crate::report::unexplained::{self, Unexplained};

/// The most causes to name.
const MAX_CAUSES: usize = 2;

/// Says what limits the best variants. Where their instructions were removed, that tells more than causes, which are in the table.
pub(super) fn sentences(report: &Report) -> Option<String> {
    let measured = breakdown::costs(report);
    let causes = if measured.is_none() { causes(report) } else { None };
    joined([measured, unexplained(report), causes])
}

fn unexplained(report: &Report) -> Option<String> {
    let Unexplained { cases, most, is_launch_left_out } = unexplained::of(report)?;
    let (all, rest) = (report.cases.len(), times(most.rest()));
    // No kernel comes near an empty launch.
    let among = if is_launch_left_out { " above more than an empty launch" } else { "" };
    let ablated = report.cases.iter().filter(|case| case.breakdown.is_some()).count();
    let of = match (ablated, all - ablated) {
        (0, _) => format!("{cases} of {all} cases"),
        (_, others) if others == cases => format!("the {} without this measurement", counted(others, "winner")),
        (_, others) => format!("{cases} of the {others} without this measurement"),
    };
    Some(match all {
        1 => format!("Of the distance to the floor, {}, {rest} are not explained.", times(most.far)),
        _ => format!(
            "On {of}, most of the distance to the floor is not explained; the largest unexplained factor{among} \
             is {rest} (`{}`).",
            most.case.case
        ),
    })
}

fn causes(report: &Report) -> Option<String> {
    let groups = limits::groups(&report.cases, &report.diagnoses);
    let told = |group: &Group<'_>| {
        // That another family has more blocks, and is not faster, speaks against few blocks.
        let is_told = |found: &&Finding| !found.next.starts_with("nothing: ") && found.divided_by.is_none();
        let found = group.first().filter(|found| is_told(found))?;
        let on = match &*group.members {
            [(first, _)] => format!("`{}`", first.case),
            [(first, _), (second, _)] => format!("`{}` and `{}`", first.case, second.case),
            [(first, _), others @ ..] => format!("`{}` and {} other cases", first.case, others.len()),
            [] => return None,
        };
        let gain = group.most_to_gain().map(|gain| format!("up to {}, ", times(gain))).unwrap_or_default();
        let status = match found.tested.status {
            CauseStatus::Confirmed => "confirmed by an experiment".to_owned(),
            CauseStatus::Supported => "supported by an experiment".to_owned(),
            _ => format!("{gain}{} confidence", group.confidence().unwrap_or_default()),
        };
        let on = if report.cases.len() == 1 { String::new() } else { format!("on {on}, ") };
        Some(format!("{on}{} ({status})", group.limit()))
    };
    let causes: Vec<String> = groups.iter().filter_map(told).take(MAX_CAUSES).collect();
    let head = if causes.len() == 1 { "Probable cause" } else { "Probable causes" };
    (!causes.is_empty()).then(|| format!("{head}: {}.", causes.join("; ")))
}
