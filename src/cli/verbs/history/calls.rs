//! `optloop history --by call`: what each call of a language model cost, what came of it, and how much was spent on ideas that a
//! result on record had refuted.

use std::io::Write;

use crate::cli::terminal::listing::Format;
use crate::cli::terminal::screen::Screen;
use crate::cli::terminal::table::{Table, figure};
use crate::domain::history::by_call::{ByCall, CallResult, Followed};
use crate::report::format;
use crate::store::{Listed, Store};

/// Prints the calls of a session.
pub(super) async fn print(
    session: &Listed,
    store: &Store,
    as_what: Format,
    screen: Screen,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let iterations = store.session_record(session.id).await?.iterations;
    let lessons = store.scope(session.id).await?.and_then(|scope| scope.lessons);
    let by_call = ByCall::of(&store.calls(session.id).await?, &iterations, lessons.as_ref());
    if as_what.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&by_call)?)?;
        return Ok(());
    }
    if as_what.write(&by_call.calls, out)? {
        return Ok(());
    }
    if by_call.calls.is_empty() {
        writeln!(out, "session {} has asked no language model", session.id)?;
        return Ok(());
    }
    let mut table = Table::new(&[
        ">call",
        "purpose",
        ">cost",
        "outcome",
        "?predicted",
        ">actual",
        "?>tuned",
        "?score",
        "refuted before by",
        "?claim",
    ]);
    for call in &by_call.calls {
        table.row([
            call.call.to_string(),
            call.purpose.to_string(),
            format::usd(call.usd),
            outcome(call),
            figure(call.predicted, |[low, high]| format!("{} to {}", format::times(low), format::times(high))),
            figure(call.actual, format::times),
            figure(call.tuned, format::times),
            figure(call.score, |score| score.name().to_owned()),
            figure(call.refuted_by, |by| format!("{} ({})", by.iteration, format::times(by.speedup))),
            call.claim.clone().unwrap_or_default(),
        ]);
    }
    let mut text = Vec::new();
    table.print_on(screen, &mut text)?;
    let share = by_call.refuted_share.map_or("-".to_owned(), |share| format!("{:.0}%", 100.0 * share));
    let (refuted, all) = (format::usd(by_call.refuted_usd), format::usd(by_call.usd));
    writeln!(text, "\n{share} of the money ({refuted} of {all}) went to ideas that a result on record had refuted")?;
    if let Some(Followed { followed, helped, against, against_helped }) = by_call.lessons {
        writeln!(
            text,
            "{followed} proposals followed a lesson of earlier sessions, and {helped} of them were faster; {against} went \
             against one, and {against_helped} of them were faster"
        )?;
    }
    screen.show(&text, out)?;
    Ok(())
}

/// Says what came of a call.
fn outcome(call: &CallResult) -> String {
    match (call.iteration, call.outcome, call.status) {
        (Some(iteration), Some(outcome), _) => format!("{iteration} {outcome}"),
        (Some(iteration), None, _) => format!("{iteration} unfinished"),
        (None, _, status) => status.unwrap_or("unanswered").to_owned(),
    }
}
