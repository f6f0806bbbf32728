//! Chooses the rows of a page of the history, in indexes.

use serde::Deserialize;
use sqlx::{QueryBuilder, Sqlite};

use super::numbers::Numbers;
use crate::domain::ids::{CaseName, IterationId, SessionId};
use crate::domain::measurement::verdict::Verdict;

/// Selects the rows of the history. A filter that is None does not restrict.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only this session.
    pub session: Option<SessionId>,
    /// Only this case.
    pub case: Option<CaseName>,
    /// Only this family.
    pub family: Option<String>,
    /// Only iterations with this kind of outcome, one of `Outcome::KINDS`.
    pub outcome: Option<String>,
    /// Only cases with this verdict.
    pub verdict: Option<Verdict>,
    /// Only configurations of this origin, such as `move`.
    pub origin: Option<String>,
    /// Only suggestions of this proposer.
    pub proposer: Option<String>,
    /// Only iterations from the first one that started at this instant or later. RFC 3339 in UTC, or the beginning of it.
    pub since: Option<String>,
    /// The order.
    pub sort: Sort,
    /// The order backwards.
    pub reverse: bool,
    /// At most this many rows.
    pub limit: Option<u32>,
    /// Leave out this many rows before them.
    pub offset: u32,
}

/// The order of a history.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sort {
    /// Oldest iteration first.
    #[default]
    Number,
    /// Fastest first. Only rows with a time.
    Time,
    /// Largest speed-up over the incumbent of its time first. Only rows with a speed-up.
    Speedup,
    /// Most expensive first.
    Cost,
}

/// Iterations from which a session counts as long.
const LONG: u64 = 20_000;

/// The cost of an iteration, over all its cases.
const COST: &str = "(SELECT TOTAL(usd) FROM costs WHERE iteration_id = i.id)";

/// Whether a variant failed on a case after it was measured there.
const IS_OUT: &str = "EXISTS (SELECT 1 FROM disqualifications d
                              WHERE d.iteration_id = m.iteration_id AND d.case_name = m.case_name)";

/// Returns where to look for the rows of a page, and whether its first table is that of the results.
///
/// The rows of a long session are looked for in the order of the list, so that the first page is soon full. In a short
/// session, all rows are few. Without a session, the planner would read whole rows for a filter whose columns are in an
/// index.
fn source(filter: &Filter, numbers: Option<Numbers>) -> (String, bool) {
    let is_long = numbers.is_some_and(|numbers| numbers.count > LONG);
    let by_columns = filter.family.is_some() || filter.outcome.is_some() || filter.proposer.is_some();
    let is_sorted = matches!(filter.sort, Sort::Time | Sort::Speedup);
    let index = match filter.sort {
        _ if is_long && is_won(filter) => Some("INDEXED BY measurements_won"),
        Sort::Time | Sort::Speedup if by_columns || filter.origin.is_some() => None,
        Sort::Time if is_long && filter.case.is_some() => Some("INDEXED BY measurements_listed"),
        Sort::Time if is_long => Some("INDEXED BY measurements_by_time"),
        Sort::Speedup if is_long => Some("INDEXED BY measurements_by_speedup"),
        Sort::Time | Sort::Speedup if numbers.is_none() => Some(""),
        _ => None,
    };
    if let Some(index) = index {
        return (format!("measurements m {index} CROSS JOIN iterations i ON i.id = m.iteration_id"), true);
    }
    let index = match numbers {
        Some(_) if !is_long => "",
        _ if filter.origin.is_some() => "INDEXED BY iterations_by_origin",
        None if by_columns => "INDEXED BY iterations_listed",
        _ => "",
    };
    let of_cases = is_sorted || filter.case.is_some() || filter.verdict.is_some();
    let join = if of_cases { "JOIN" } else { "LEFT JOIN" };
    (format!("iterations i {index} {join} measurements m ON m.iteration_id = i.id"), false)
}

/// Tells whether only winners are listed. They are few.
fn is_won(filter: &Filter) -> bool {
    matches!(filter.verdict, Some(Verdict::Start | Verdict::Improved))
}

/// Chooses the rows of a page, by number of the iteration and case.
pub(super) fn select_page(
    query: &mut QueryBuilder<Sqlite>,
    filter: &Filter,
    numbers: Option<Numbers>,
    since: Option<IterationId>,
) {
    let (source, by_result) = source(filter, numbers);
    query.push("SELECT i.id, m.case_name FROM ").push(source);
    query.push(match filter.sort {
        Sort::Time => " WHERE m.best_ns IS NOT NULL",
        Sort::Speedup => " WHERE m.speedup IS NOT NULL",
        Sort::Number | Sort::Cost => " WHERE TRUE",
    });
    if let Some(numbers) = numbers {
        query.push(" AND i.session_id = ").push_bind(numbers.session);
        query.push(" AND ").push(numbers.hold(if by_result { "m.iteration_id" } else { "i.id" }));
    }
    if is_won(filter) {
        // The condition of the index.
        query.push(" AND m.verdict IN ('start', 'improved')");
    }
    if let Some(first) = since {
        query.push(" AND i.id >= ").push_bind(first);
    }
    let texts = [
        ("m.case_name", filter.case.as_ref().map(CaseName::to_string)),
        ("i.family", filter.family.clone()),
        ("i.outcome", filter.outcome.clone()),
        ("i.origin_kind", filter.origin.clone()),
        ("i.proposer", filter.proposer.clone()),
    ];
    for (column, wanted) in texts {
        if let Some(wanted) = wanted {
            query.push(" AND ").push(column).push(" = ").push_bind(wanted);
        }
    }
    match filter.verdict {
        None => {}
        Some(Verdict::Rejected) => {
            query.push(" AND (m.verdict = 'rejected' OR ").push(IS_OUT).push(")");
        }
        Some(verdict) => {
            query.push(" AND m.verdict = ").push_bind(verdict.name()).push(" AND NOT ").push(IS_OUT);
        }
    }
    push_order(query, filter);
    // SQLite reads a negative limit as no limit.
    query.push(" LIMIT ").push_bind(filter.limit.map_or(-1, i64::from));
    query.push(" OFFSET ").push_bind(i64::from(filter.offset));
}

/// Adds the order of the rows.
pub(super) fn push_order(query: &mut QueryBuilder<Sqlite>, filter: &Filter) {
    let (down, up) = if filter.reverse { ("ASC", "DESC") } else { ("DESC", "ASC") };
    query.push(" ORDER BY ");
    match filter.sort {
        Sort::Number => query.push(""),
        Sort::Time => query.push("m.best_ns ").push(up).push(", "),
        Sort::Speedup => query.push("m.speedup ").push(down).push(", "),
        Sort::Cost => query.push(COST).push(" ").push(down).push(", "),
    };
    query.push("i.id ").push(up).push(", m.case_name COLLATE natural_order");
}
