//! Says in words what hardware counters show of a lead.

use super::baseline_kernels::has_fewer;
use super::changes::listed;
use super::contract::{CountedLead, CyclePart};
use super::counted_leads::BASELINE;
use super::cycle_parts::{compared, sums, what};
use super::format::{counted, fine, times, us};

/// The share of the difference from which a part is worth naming, and the most parts to name.
const MIN_SHARE: f64 = 0.15;
const MAX_NAMED: usize = 2;

/// The most leads to tell in a summary.
const MAX_LEADS: usize = 3;

/// How the names of kernels begin whose source NVIDIA does not publish, and the library that they are of.
const CLOSED: [(&str, &str); 2] = [("cudnn", "cuDNN"), ("nvjet", "cuBLAS")];

/// How many times as many instructions or bytes are worth naming.
const MANY: f64 = 1.25;

/// Says why the winners with the largest leads that the counters show are faster than a baseline: several as a list below a
/// sentence. None if they show no lead.
pub(super) fn over_baselines(leads: &[CountedLead]) -> Option<String> {
    let shown = leads.iter().filter(|lead| lead.over == BASELINE && lead.shown && lead.ratio > 1.0).take(MAX_LEADS);
    let shown: Vec<&CountedLead> = shown.collect();
    let closed = CLOSED.into_iter().filter(|(start, _)| shown.iter().any(|lead| lead.kernel.starts_with(start)));
    let closed = listed(&closed.map(|(_, library)| library.to_owned()).collect::<Vec<_>>());
    match &*shown {
        [] => None,
        [only] => {
            let more = closed
                .map(|libraries| format!(" More is not known of the kernels of {libraries}, whose source is closed."));
            Some(format!("{}{}", told(only, 1), more.unwrap_or_default()))
        }
        several => {
            let head = match closed {
                Some(libraries) => format!(
                    "Of the kernels of {libraries}, whose source is closed, no more is known than hardware counters show:"
                ),
                None => "Hardware counters show more:".to_owned(),
            };
            let items = several.iter().map(|lead| format!("\n  - {}", told(lead, 1)));
            Some(format!("{head}{}", items.collect::<String>()))
        }
    }
}

/// Says why baselines are faster than the winners that they lead most, as far as the counters show it. None if they show no such
/// lead.
pub(super) fn of_baselines(leads: &[CountedLead]) -> Option<String> {
    let behind = leads.iter().filter(|lead| lead.over == BASELINE && lead.shown && lead.ratio < 1.0);
    let mut behind: Vec<&CountedLead> = behind.collect();
    behind.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
    let told: Vec<String> = behind.into_iter().take(MAX_LEADS).map(sentence).collect();
    (!told.is_empty()).then(|| told.join(" "))
}

/// Says of one lead what the slower kernel does, and what it spends most more cycles on.
pub(super) fn in_short(lead: &CountedLead) -> String {
    told(lead, 1)
}

/// Says what the slower kernel of the two spends more cycles on.
pub(super) fn sentence(lead: &CountedLead) -> String {
    told(lead, MAX_NAMED)
}

fn told(lead: &CountedLead, most: usize) -> String {
    let CountedLead { case, ratio, .. } = lead;
    let is_ahead = *ratio >= 1.0;
    let winner = if lead.over == BASELINE { "ours".to_owned() } else { format!("`{}`", lead.winner) };
    let (faster, slower) = if is_ahead { (winner, name(lead)) } else { (name(lead), winner) };
    let factor = fine(if is_ahead { *ratio } else { 1.0 / ratio });
    let [other, winner] = sums(compared(&lead.parts));
    let [more, less] = if is_ahead { [other, winner] } else { [winner, other] };
    let takes = match lead.shown {
        true => format!("takes {more:.0} cycles instead of {less:.0}{}", largest_parts(lead, other - winner, most)),
        false => format!("takes {} us longer: {}", us(lead.more_us.abs()), not_shown(lead)),
    };
    let by = if lead.shown { "By hardware counters, it" } else { "It" };
    match listed(&more_of(lead, is_ahead)) {
        Some(which) => {
            format!("On `{case}`, {faster} is {factor} as fast as {slower}, which {which}. {by} {takes}.")
        }
        None if lead.shown => {
            format!("On `{case}`, {faster} is {factor} as fast as {slower}, which, by hardware counters, {takes}.")
        }
        None => format!("On `{case}`, {faster} is {factor} as fast as {slower}, which {takes}."),
    }
}

/// Says why the counters do not show a lead.
fn not_shown(lead: &CountedLead) -> String {
    let CountedLead { more_us, profiled_more_us, .. } = *lead;
    let profiled = us(profiled_more_us.abs());
    match profiled_more_us / more_us {
        ..=0.0 => "the counted cycles do not show why".to_owned(),
        0.0..1.0 => format!("the profiler shows only {profiled} us of that, so it is not known where the rest goes"),
        _ => format!("under the profiler it is {profiled} us, so the counters do not show where this time goes"),
    }
}

/// Names the parts of the cycles in which the slower kernel spends most more:
/// `: the largest difference is 80 more cycles in issuing instructions`.
fn largest_parts(lead: &CountedLead, difference: f64, most: usize) -> String {
    let parts: Vec<&CyclePart> = compared(&lead.parts).collect();
    let share = |part: &CyclePart| part.more() / difference;
    let cycles = |part: &CyclePart| (part.more().abs(), what(part, lead.products_apart));
    let less = parts.last().filter(|part| share(part) < 0.0);
    // Where the slower kernel wins back more than one part, it takes several to see that it is slower.
    let is_clear = parts.first().is_some_and(|first| less.is_none_or(|less| share(first) > -share(less)));
    let most = if is_clear { most } else { MAX_NAMED };
    let named: Vec<&&CyclePart> = parts.iter().filter(|part| share(part) >= MIN_SHARE).take(most).collect();
    let told: f64 = named.iter().map(|part| share(part)).sum();
    let less = less.filter(|_| told > 1.0).map(|part| {
        let (cycles, what) = cycles(part);
        format!(", but {cycles:.0} fewer in {what}")
    });
    let less = less.unwrap_or_default();
    let named = named.into_iter().map(|part| {
        let (cycles, what) = cycles(part);
        format!("{cycles:.0} more cycles in {what}")
    });
    let named: Vec<String> = named.collect();
    let are = if named.len() == 1 { "difference is" } else { "differences are" };
    listed(&named).map(|named| format!(": the largest {are} {named}{less}")).unwrap_or_default()
}

/// Names the other kernel of a lead.
fn name(lead: &CountedLead) -> String {
    let CountedLead { other, .. } = lead;
    match lead.over {
        BASELINE => format!("`{other}`"),
        "family" => format!("`{other}`"),
        _ => format!("the committed `{other}`"),
    }
}

/// Says how many times the instructions or the bytes of the faster kernel the slower one has, and on how much less of the device it
/// runs. Nothing if not many more.
fn more_of(lead: &CountedLead, is_ahead: bool) -> Vec<String> {
    let factor = |both: [f64; 2]| if is_ahead { both[0] / both[1] } else { both[1] / both[0] };
    let told = |both: Option<[f64; 2]>| both.map(factor).filter(|factor| *factor >= MANY);
    let instructions = told(lead.instructions).map(|factor| format!("executes {} the instructions", times(factor)));
    let bytes = told(lead.l2_bytes).map(|factor| format!("moves {} the bytes from and to L2", times(factor)));
    let fewer = |both: Option<[u64; 2]>| both.filter(|both| is_ahead && has_fewer(*both));
    let each = lead.blocks_each.as_ref().filter(|each| each.blocks[0] < each.blocks[1]).map(|each| {
        let [other, winner] = each.blocks;
        format!("{} instead of {winner} for each {}", counted(other as usize, "block"), each.dims)
    });
    let at_once = lead.resident_blocks.filter(|[other, winner]| other < winner).map(|[other, winner]| {
        format!("{other} instead of {winner} on an SM at a time, so fewer warps run while others wait")
    });
    let because = |reasons: &[&Option<String>]| {
        let reasons: Vec<&str> = reasons.iter().filter_map(|reason| reason.as_deref()).collect();
        if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join(", and ")) }
    };
    let idle = fewer(lead.busy_sms)
        .map(|[other, winner]| format!("runs on {other} SMs instead of {winner}{}", because(&[&each])));
    let coarser = || {
        let [other, winner] = fewer(lead.blocks)?;
        Some(format!("has {other} blocks instead of {winner}{}", because(&[&each, &at_once])))
    };
    idle.or_else(coarser).into_iter().chain(instructions).chain(bytes).collect()
}
