//! `optloop sessions`: what ran so far and what it cost.

use std::io::Write;

use super::alive::Killed;
use super::table::{Table, figure};
use crate::domain::record::{SessionSummary, Status};
use crate::report::format;
use crate::store::Store;

/// List every session with its result and cost.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Lists the sessions.
pub(super) async fn run(args: &Args, store: &Store, killed: &Killed, out: &mut impl Write) -> anyhow::Result<()> {
    let mut sessions = store.sessions().await?;
    sessions.iter_mut().for_each(|session| killed.mark(session));
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&sessions)?)?;
        return Ok(());
    }
    let mut table = Table::new(&[
        ">#",
        "workload",
        "device",
        "times",
        "status",
        "started",
        ">time",
        ">iterations",
        ">wins",
        ">best",
        ">cost",
    ]);
    for session in &sessions {
        table.row([
            session.id.to_string(),
            session.workload.clone(),
            session.device.clone(),
            session.time_source.name().to_owned(),
            status(session),
            session.started_at.clone(),
            figure(session.wall_s, format::duration),
            session.iterations.to_string(),
            session.wins.to_string(),
            figure(session.best_speedup, format::times),
            format::usd(session.cost.total_usd()),
        ]);
    }
    table.print(out)?;
    let total = store.cumulative_cost().await?;
    writeln!(
        out,
        "\nAll sessions: {} (GPU {} for {}, language models {})",
        format::usd(total.total_usd()),
        format::usd(total.gpu_usd),
        format::duration(total.gpu_s),
        format::usd(total.llm_usd)
    )?;
    Ok(())
}

/// Returns a session's status, how often it was resumed, and how to continue it if it was killed.
fn status(session: &SessionSummary) -> String {
    let mut status = session.status.name().to_owned();
    if session.resumptions > 0 {
        status.push_str(&format!(", resumed {}x", session.resumptions));
    }
    if session.status == Status::Killed {
        status.push_str(&format!(" (optloop resume {})", session.id));
    }
    status
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::domain::cost::Spent;
    use crate::domain::origin::{Origin, Purpose};
    use crate::domain::proposal::Proposal;
    use crate::domain::verdict::{Decision, Verdict};
    use crate::report::{ReportInput, build};
    use crate::store::testing::{Scene, evaluation, finish, proposal};

    async fn printed(scene: &Scene, json: bool) -> String {
        let mut out = Vec::new();
        run(&Args { json }, &scene.store, &Killed::default(), &mut out).await.unwrap();
        let mut text = String::from_utf8(out).unwrap();
        for session in scene.store.sessions().await.unwrap() {
            text = text.replace(&session.started_at, "2026-11-20T10:00:00.000Z");
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
                let proposal = Proposal { purpose, origin, ..proposal(128 + block as i64, None) };
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
                independent_dims: &[],
                is_valid: &|_, _, _| false,
                findings: &[],
                predict: &|_, _| None,
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
        let end = scene.store.end_session(first, Status::Finished, "done", Duration::from_secs(3300), spent);
        end.await.unwrap();
        scene.session().await;

        insta::assert_snapshot!(printed(&scene, false).await, @"
        #  workload            device     times     status    started                     time  iterations  wins   best   cost
        1  attention-fp16-d64  NVIDIA L4  measured  finished  2026-11-20T10:00:00.000Z  55 min           2     1  1.26×  $0.93
        2  attention-fp16-d64  NVIDIA L4  measured  running   2026-11-20T10:00:00.000Z       -           0     0      -  $0.00

        All sessions: $0.93 (GPU $0.18 for 55 min, language models $0.75)
        ");
        let json: serde_json::Value = serde_json::from_str(&printed(&scene, true).await).unwrap();
        assert_eq!(json[1]["status"], "running");
    }
}
