//! Says in words what hardware counters show of a lead.

use super::baseline_kernels::has_fewer;
use super::changes::listed;
use super::contract::{CountedLead, CyclePart};
use super::counted_leads::{BASELINE, FETCH, compared_cycles, what};
use super::format::{fine, times, us};

/// The share of the difference from which a part is worth naming, and the most parts to name.
const MIN_SHARE: f64 = 0.15;
const MAX_NAMED: usize = 2;

/// The most leads to tell in a summary.
const MAX_LEADS: usize = 3;

/// How the names of kernels begin whose source NVIDIA does not publish, and the library that they are of.
const CLOSED: [(&str, &str); 2] = [("cudnn", "cuDNN"), ("nvjet", "cuBLAS")];

/// How many times as many instructions or bytes are worth naming.
const MANY: f64 = 1.25;

/// Says why the winners with the largest leads that the counters show are faster than a baseline. None if they show no lead.
pub(super) fn over_baselines(leads: &[CountedLead]) -> Option<String> {
    let shown = leads.iter().filter(|lead| lead.over == BASELINE && lead.shown && lead.ratio > 1.0).take(MAX_LEADS);
    let shown: Vec<&CountedLead> = shown.collect();
    if shown.is_empty() {
        return None;
    }
    let told = shown.iter().map(|lead| told(lead, 1));
    let libraries: Vec<String> = CLOSED
        .into_iter()
        .filter(|(start, _)| shown.iter().any(|lead| lead.kernel.starts_with(start)))
        .map(|(_, library)| library.to_owned())
        .collect();
    let closed = listed(&libraries)
        .map(|libraries| format!("More is not known of the kernels of {libraries}, whose source is closed."));
    Some(told.chain(closed).collect::<Vec<_>>().join(" "))
}

/// Says the same of the largest lead over another variant. None if the counters show no such lead.
pub(super) fn over_a_variant(leads: &[CountedLead]) -> Option<String> {
    leads.iter().find(|lead| lead.over != BASELINE && lead.shown).map(|lead| told(lead, 1))
}

/// Says what the slower kernel of the two spends more cycles on.
pub(super) fn sentence(lead: &CountedLead) -> String {
    told(lead, MAX_NAMED)
}

fn told(lead: &CountedLead, most: usize) -> String {
    let CountedLead { case, ratio, .. } = lead;
    let is_ahead = *ratio >= 1.0;
    let factor = fine(if is_ahead { *ratio } else { 1.0 / ratio });
    let (head, slower) = match is_ahead {
        true => (format!("On `{case}` ({factor}), "), name(lead)),
        false => (format!("On `{case}`, where {} is {factor} as fast, ", name(lead)), "ours".to_owned()),
    };
    // What the kernel does more comes before what that takes.
    let head = match more_of(lead, is_ahead) {
        Some(more) => format!("{head}{slower} {more}. It"),
        None => format!("{head}{slower}"),
    };
    let [other, winner] = compared_cycles(lead);
    if !lead.shown {
        return format!("{head} takes {} us more, {}.", us(lead.more_us.abs()), not_shown(lead, other - winner));
    }
    let cycles = match is_ahead {
        true => format!("{other:.0} cycles, ours {winner:.0}"),
        false => format!("{winner:.0} cycles, `{}` {other:.0}", lead.other),
    };
    format!("{head} takes {cycles} (by hardware counters){}.", largest_parts(lead, other - winner, most))
}

/// Says why the counters do not show a lead.
fn not_shown(lead: &CountedLead, cycles: f64) -> String {
    let CountedLead { more_us, profiled_more_us, .. } = *lead;
    let profiled = us(profiled_more_us.abs());
    match profiled_more_us / more_us {
        _ if cycles / more_us <= 0.0 => "which the counted cycles do not show".to_owned(),
        share if (0.0..1.0).contains(&share) => {
            format!("of which the profiler shows {profiled} us, so it is not known where the others go")
        }
        share => {
            let sign = if share < 0.0 { "-" } else { "" };
            format!("but {sign}{profiled} us while profiled, so the counters do not show where this time goes")
        }
    }
}

/// Names the parts of the cycles in which the slower kernel spends most more: `: 80 more in issuing instructions`.
fn largest_parts(lead: &CountedLead, difference: f64, most: usize) -> String {
    let parts: Vec<&CyclePart> = lead.parts.iter().filter(|part| part.part != FETCH).collect();
    let named = parts.iter().filter(|part| part.more() / difference >= MIN_SHARE).take(most);
    let named: Vec<String> =
        named.map(|part| format!("{:.0} more in {}", part.more().abs(), what(part, lead))).collect();
    // The slower kernel may win some of it back.
    let told = parts.iter().take(named.len()).map(|part| part.more()).sum::<f64>() / difference;
    let less = parts.last().filter(|part| told > 1.0 && part.more() / difference < 0.0);
    let less =
        less.map(|part| format!(", but {:.0} fewer in {}", part.more().abs(), what(part, lead))).unwrap_or_default();
    listed(&named).map(|named| format!(": {named}{less}")).unwrap_or_default()
}

/// Names the other kernel of a lead.
fn name(lead: &CountedLead) -> String {
    let CountedLead { other, .. } = lead;
    match lead.over {
        BASELINE => format!("`{other}`"),
        "family" => format!("`{other}`, another family,"),
        _ => format!("the committed `{other}`"),
    }
}

/// Says how many times the instructions or the bytes of the faster kernel the slower one has. None if not many more.
fn more_of(lead: &CountedLead, is_ahead: bool) -> Option<String> {
    let factor = |both: [f64; 2]| if is_ahead { both[0] / both[1] } else { both[1] / both[0] };
    let told = |both: Option<[f64; 2]>| both.map(factor).filter(|factor| *factor >= MANY);
    let instructions = told(lead.instructions).map(|factor| format!("executes {} the instructions", times(factor)));
    let bytes = told(lead.l2_bytes).map(|factor| format!("moves {} the bytes from and to L2", times(factor)));
    let fewer = |both: Option<[u64; 2]>| both.filter(|both| is_ahead && has_fewer(*both));
    let idle = fewer(lead.busy_sms).map(|[other, winner]| format!("runs on {other} SMs instead of {winner}"));
    let at_once = lead.resident_blocks.filter(|[other, winner]| other < winner).map(|[other, winner]| {
        format!(" ({other} instead of {winner} on an SM at a time, so less runs while one waits)")
    });
    let at_once = at_once.unwrap_or_default();
    let coarser =
        || fewer(lead.blocks).map(|[other, winner]| format!("has {other} blocks instead of {winner}{at_once}"));
    let all: Vec<String> = idle.or_else(coarser).into_iter().chain(instructions).chain(bytes).collect();
    listed(&all)
}
