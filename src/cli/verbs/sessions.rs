//! `optloop sessions`: what ran so far and what it cost.

use std::io::Write;

use clap::ValueEnum;
use serde::Serialize;

use crate::alive::Killed;
use crate::cli::terminal::listing::{self, Format, Part};
use crate::cli::terminal::measured::of_models;
use crate::cli::terminal::screen::{Paint, Screen};
use crate::cli::terminal::table::{Table, figure};
use crate::domain::ids::SessionId;
use crate::domain::record::{SessionKind, SessionSummary, Status};
use crate::launch::target;
use crate::notices::say;
use crate::report::format;
use crate::store::Store;

/// The most rows of a table, unless the user says otherwise. JSON and CSV have all.
const MAX_ROWS: u32 = 1000;

/// List every session with its result and cost.
#[derive(Debug, Default, clap::Args)]
pub struct Args {
    /// Also show the sessions that hold what `optloop bench` and `optloop check` measured
    #[arg(long)]
    pub all: bool,
    /// Show only sessions of this workload
    #[arg(short = 'w', long)]
    pub workload: Option<String>,
    /// Show only sessions with this status
    #[arg(long, value_enum)]
    pub status: Option<State>,
    /// Show only sessions since this date (2026-11-20), UTC time (2026-11-20T10:00) or how long ago (2d)
    #[arg(long, value_name = "WHEN", value_parser = listing::instant)]
    pub since: Option<String>,
    /// Order of the rows
    #[arg(long, value_enum, default_value_t)]
    pub sort: Order,
    /// Reverse the order
    #[arg(long)]
    pub reverse: bool,
    #[command(flatten)]
    pub part: Part,
    #[command(flatten)]
    pub format: Format,
}

/// A status to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum State {
    /// A process runs it
    Running,
    /// It came to its end
    Finished,
    /// A signal ended it
    Interrupted,
    /// An error ended it
    Failed,
    /// Its process is gone
    Killed,
}

/// The order of the rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// Oldest first
    #[default]
    Number,
    /// Longest first
    Time,
    /// Largest speed-up first
    Best,
    /// Most expensive first
    Cost,
}

/// Lists the sessions.
///
/// `left_over` are those whose winners are kept in git and on no branch.
pub async fn run(
    args: &Args,
    store: &Store,
    killed: &Killed,
    left_over: &[(SessionId, String)],
    screen: Screen,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let mut sessions = if args.all { store.all_sessions().await? } else { store.sessions().await? };
    sessions.iter_mut().for_each(|session| killed.mark(session));
    let (sessions, is_cut) = chosen(args, sessions);
    let row = |session| Row { session, kept_under: kept_under(session, left_over) };
    if args.format.write(&sessions.iter().map(row).collect::<Vec<_>>(), out)? {
        return Ok(());
    }
    let mut text = Vec::new();
    table(&sessions).print_on(screen, &mut text)?;
    let total = store.cumulative_cost().await?;
    writeln!(
        text,
        "\nAll sessions: {} (GPU {} for {}{})",
        format::usd(total.total_usd()),
        format::usd(total.gpu_usd),
        format::duration(total.gpu_s),
        of_models(&total)
    )?;
    for session in sessions.iter().filter(|session| session.status != Status::Running) {
        if let Some(reference) = kept_under(session, left_over) {
            writeln!(text, "{}", target::advice(session, reference))?;
        }
    }
    screen.show(&text, out)?;
    if is_cut {
        let next = args.part.offset as usize + sessions.len();
        say(&format!("there are more rows: `--offset {next}` shows them, and `--limit` sets how many are shown"));
    }
    Ok(())
}

/// Filters and sorts the sessions, and takes a part of them. Returns whether more follow.
fn chosen(args: &Args, mut sessions: Vec<SessionSummary>) -> (Vec<SessionSummary>, bool) {
    sessions.retain(|session| {
        args.workload.as_ref().is_none_or(|workload| session.workload == *workload)
            && args.since.as_ref().is_none_or(|since| session.started_at >= *since)
            && args.status.is_none_or(|status| session.status == status.into())
    });
    let largest =
        |of: fn(&SessionSummary) -> f64| move |a: &SessionSummary, b: &SessionSummary| of(b).total_cmp(&of(a));
    match args.sort {
        Order::Number => {}
        Order::Time => sessions.sort_by(largest(|session| session.wall_s.unwrap_or(0.0))),
        Order::Best => sessions.sort_by(largest(|session| session.best_speedup.unwrap_or(0.0))),
        Order::Cost => sessions.sort_by(largest(|session| session.cost.total_usd())),
    }
    if args.reverse {
        sessions.reverse();
    }
    let is_table = !args.format.json && !args.format.csv;
    let limit = args.part.limit.or(is_table.then_some(MAX_ROWS)).map_or(usize::MAX, |limit| limit as usize);
    let mut sessions: Vec<_> = sessions.into_iter().skip(args.part.offset as usize).collect();
    let is_cut = sessions.len() > limit;
    sessions.truncate(limit);
    (sessions, is_cut)
}

impl From<State> for Status {
    fn from(state: State) -> Self {
        match state {
            State::Running => Self::Running,
            State::Finished => Self::Finished,
            State::Interrupted => Self::Interrupted,
            State::Failed => Self::Failed,
            State::Killed => Self::Killed,
        }
    }
}

fn table(sessions: &[SessionSummary]) -> Table {
    let mut table = Table::new(&[
        ">#",
        "workload",
        "times",
        "started",
        ">wins",
        ">best",
        "?>cost",
        "?>iterations",
        "?>time",
        "?device",
        "status",
    ]);
    for session in sessions {
        table.row([
            session.id.to_string(),
            session.workload.clone(),
            session.time_source.name().to_owned(),
            session.started_at.get(..16).unwrap_or(&session.started_at).replace('T', " "),
            session.wins.to_string(),
            figure(session.best_speedup, format::times),
            format::usd(session.cost.total_usd()),
            session.iterations.to_string(),
            figure(session.wall_s, format::duration),
            session.device.clone(),
            status(session),
        ]);
        if session.wins > 0 {
            table.paint(5, Paint::Good);
        }
        match session.status {
            Status::Failed | Status::Killed => table.paint(10, Paint::Bad),
            Status::Finished => table.paint(10, Paint::Faint),
            Status::Running | Status::Interrupted => {}
        }
    }
    table
}

/// A session, for programs.
#[derive(Serialize)]
struct Row<'a> {
    #[serde(flatten)]
    session: &'a SessionSummary,
    /// The reference that keeps its winners, if no branch has them.
    kept_under: Option<&'a str>,
}

/// Returns the reference that keeps the winners of a session.
fn kept_under<'a>(session: &SessionSummary, left_over: &'a [(SessionId, String)]) -> Option<&'a str> {
    left_over.iter().find(|(id, _)| *id == session.id).map(|(_, reference)| reference.as_str())
}

/// Returns a session's status, how often it was resumed, and how to continue it if it was killed.
fn status(session: &SessionSummary) -> String {
    let mut status = session.status.name().to_owned();
    if session.kind == SessionKind::Single {
        status.push_str(", by hand");
    } else if session.status == Status::Killed {
        status.push_str(&format!(": optloop resume {}", session.id));
    }
    if session.resumptions > 0 {
        status.push_str(&format!(", resumed {}x", session.resumptions));
    }
    status
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::domain::budget::cost::Spent;
    use crate::domain::measurement::verdict::{Decision, Verdict};
    use crate::domain::proposal::origin::{Origin, Purpose};
    use crate::report::{ReportInput, build};
    use crate::store::testing::{Scene, evaluation, finish, proposal};

    async fn printed(scene: &Scene, json: bool) -> String {
        let mut out = Vec::new();
        let format = Format { json, ..Format::default() };
        let args = Args { format, ..Args::default() };
        run(&args, &scene.store, &Killed::default(), &[], Screen::plain(), &mut out).await.unwrap();
        let mut text = String::from_utf8(out).unwrap();
        for session in scene.store.sessions().await.unwrap() {
            text = text.replace(&session.started_at, "2026-11-20T10:00:00.000Z");
            text = text.replace(&session.started_at[..16].replace('T', " "), "2026-11-20 10:00");
        }
        text
    }

    /// The list and the report count wins in two places, by one rule.
    #[tokio::test]
    async fn what_a_session_began_with_is_no_win_in_the_list_or_in_the_report() {
        use Purpose::{Remeasurement, Screening};
        use Verdict::{Improved, Tied};
        let won = |case: &str| Origin::CommittedWinner {
            device: "NVIDIA L4".to_owned(),
            cases: if case.is_empty() { Vec::new() } else { vec![case.into()] },
        };
        let (own, other, old) = (won("b1h1s128"), won("another"), won(""));
        // Each session begins with 100 us. Then come purpose, origin, time and verdict.
        let sessions = [
            (vec![(Screening, Origin::Random, 80.0, Improved)], 1, "1.25"),
            (vec![(Remeasurement, own.clone(), 50.0, Improved)], 0, "-"),
            (vec![(Remeasurement, old, 50.0, Improved)], 0, "-"),
            (vec![(Screening, own.clone(), 50.0, Improved)], 0, "-"),
            // It counts from the committed winner, not from the start.
            (
                vec![(Remeasurement, own.clone(), 50.0, Improved), (Screening, Origin::Random, 40.0, Improved)],
                1,
                "1.25",
            ),
            // Another case's winner is on the way to the case's own, unless that one is no faster.
            (
                vec![(Remeasurement, other.clone(), 80.0, Improved), (Remeasurement, own.clone(), 50.0, Improved)],
                0,
                "-",
            ),
            (vec![(Remeasurement, other, 50.0, Improved), (Remeasurement, own, 80.0, Tied)], 1, "2.00"),
        ];
        let scene = Scene::new().await;
        for (number, (iterations, wins, best)) in sessions.into_iter().enumerate() {
            let session = scene.session().await;
            // Screening adds 1024 ns.
            scene.measured(session, 64, None, 98_976.0, Verdict::Start).await;
            for (block, (purpose, origin, us, verdict)) in iterations.into_iter().enumerate() {
                let mut proposal = proposal(128 + block as i64, None);
                (proposal.rationale.purpose, proposal.rationale.origin) = (purpose, origin);
                let iteration = scene.store.begin(session, &proposal).await.unwrap();
                let mut found = evaluation(us * 1000.0, true);
                found.measurements[0].screening = found.measurements[0].confirmation.clone();
                let decisions = [Decision { case: "b1h1s128".into(), verdict, speedup: None }];
                scene.store.finish(iteration, &finish(&found, &decisions)).await.unwrap();
            }
            let record = scene.store.session_record(session).await.unwrap();
            let shown = figure(record.session.best_speedup, |best| format!("{best:.2}"));
            assert_eq!((record.session.wins, shown.as_str()), (wins, best), "session {number}");
            let report = build(&ReportInput {
                record: &record,
                facts: &[],
                families: &[],
                dims: &[],
                independent_dims: &[],
                is_valid: &|_, _, _| false,
                findings: &[],
                began: &[],
                predict: &|_, _| None,
                known_after: &|_, claims| vec![None; claims.len()],
            });
            let improved = report.wins.iter().filter(|win| win.verdict == Improved).count();
            assert_eq!(improved as u64, wins, "session {number}");
        }
    }

    #[tokio::test]
    async fn sessions_are_listed_with_what_they_won_and_cost() {
        let scene = Scene::new().await;
        let first = scene.session().await;
        let start = scene.measured(first, 64, None, 100_000.0, Verdict::Start).await;
        scene.measured(first, 128, Some(start), 80_000.0, Verdict::Improved).await;
        let spent = Spent { gpu_s: 3300.0, gpu_usd: 0.18, llm_usd: 0.75 };
        let end = scene.store.end_session(first, Status::Finished, ("done", None), Duration::from_secs(3300), spent);
        end.await.unwrap();
        scene.session().await;

        insta::assert_snapshot!(printed(&scene, false).await, @"
        #  workload            times     started           wins   best   cost  status
        1  attention-fp16-d64  measured  2026-11-20 10:00     1  1.26×  $0.93  finished
        2  attention-fp16-d64  measured  2026-11-20 10:00     0      -  $0.00  running

        All sessions: $0.93 (GPU $0.18 for 55 min, language models $0.75)
        ");
        let json: serde_json::Value = serde_json::from_str(&printed(&scene, true).await).unwrap();
        assert_eq!(json[1]["status"], "running");
    }
}
