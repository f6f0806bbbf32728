//! How large a search space may be. A manifest comes with a project, and what a session, a report or a check does with it
//! takes time and memory for each of its parts, for pairs of some, and for each case.

use super::draft::Draft;
use super::fields::Notes;
use crate::domain::expr::Expr;

/// The most parameters. Shipped families have up to 12, and recorded spaces of other tuners may have as many as this.
const MAX_PARAMS: usize = 64;

/// The most values of all parameters together. Shipped families have up to 46. With this many, a step of the search takes
/// milliseconds (`optloop start --device virtual`, 2026-11-28).
const MAX_VALUES: usize = 2048;

/// The most constraints and derived values together. Shipped families have up to 25.
const MAX_CONDITIONS: usize = 256;

/// The most launches, workspaces, tensor maps and openings together. Shipped families have up to 10.
const MAX_ENTRIES: usize = 64;

/// The most bytes of all expressions together, which are evaluated for every configuration that is drawn. Those of shipped
/// families have about 1 KiB.
const MAX_EXPRESSIONS_BYTES: usize = 16 << 10;

/// Refuses a manifest that is larger.
pub(super) fn check(draft: &Draft, notes: &Notes<'_>) {
    let params = draft.params.values().flatten();
    let expressions = draft.exprs.iter().chain(draft.derived.values().flatten());
    let plan = draft.launches.len() + draft.workspaces.len() + draft.tensor_maps.len();
    let entries = plan + draft.openings.len();
    let all = [
        (draft.params.len(), MAX_PARAMS, "parameters"),
        (params.map(|param| param.values.len()).sum(), MAX_VALUES, "values of parameters"),
        (draft.constraints.len() + draft.derived.len(), MAX_CONDITIONS, "constraints and derived values"),
        (entries, MAX_ENTRIES, "launches, workspaces, tensor maps and openings"),
        (expressions.map(|expr: &Expr| expr.text().len()).sum(), MAX_EXPRESSIONS_BYTES, "bytes of expressions"),
    ];
    for (count, most, what) in all.into_iter().filter(|(count, most, _)| count > most) {
        notes.add(format!("it has {count} {what}, and at most {most} are supported: leave some out"));
    }
}
