//! `optloop history`: what a session tried.

use std::collections::BTreeSet;
use std::io::Write;

use anyhow::bail;
use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::table::{Table, figure};
use crate::domain::device::TimeSource;
use crate::domain::evaluation::Outcome;
use crate::domain::ids::{CaseName, SessionId};
use crate::domain::names::did_you_mean;
use crate::domain::record::SessionSummary;
use crate::domain::variant::show_params;
use crate::domain::verdict::Verdict;
use crate::report::format;
use crate::store::{Filter, Grouping, HistoryRow, Sort, Store};

const VERDICTS: [Verdict; 5] =
    [Verdict::Start, Verdict::Improved, Verdict::Tied, Verdict::Regressed, Verdict::Rejected];

/// List what a session tried, one row for each case of each iteration.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of the session [default: the latest]
    pub session: Option<SessionId>,
    /// Show only this case
    #[arg(long)]
    pub case: Option<CaseName>,
    /// Show only this family
    #[arg(long)]
    pub family: Option<String>,
    /// Show only iterations with this outcome
    #[arg(long, value_parser = PossibleValuesParser::new(Outcome::KINDS))]
    pub outcome: Option<String>,
    /// Show only rows with this verdict
    #[arg(long, value_parser = verdict_parser())]
    pub verdict: Option<Verdict>,
    /// Order of the rows
    #[arg(long, value_enum, default_value_t = Order::Number)]
    pub sort: Order,
    /// Maximum number of rows
    #[arg(long)]
    pub limit: Option<u32>,
    /// Show instead which kinds of suggestions, which mechanisms or which parameters paid
    #[arg(long, value_enum, conflicts_with_all = ["case", "family", "outcome", "verdict", "sort", "limit"])]
    pub by: Option<By>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What to group a session's iterations by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// Where the configurations come from
    Kind,
    /// How the changes were expected to act
    Mechanism,
    /// Family and parameter, where nothing else changed
    Parameter,
}

/// The order of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// Oldest first
    Number,
    /// Fastest first
    Time,
    /// Largest speed-up over the incumbent first
    Speedup,
    /// Most expensive first
    Cost,
}

/// Lists a session's history.
pub async fn run(args: &Args, store: &Store, out: &mut impl Write) -> anyhow::Result<()> {
    let session = match args.session {
        Some(id) => store.session(id).await?,
        None => store.latest_session().await?,
    };
    if let Some(by) = args.by {
        return paid(by, &session, store, args.json, out).await;
    }
    let rows = store.history(&filter(args, session.id)).await?;
    if rows.is_empty() {
        check_names(args, &session, store).await?;
    }
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&rows)?)?;
        return Ok(());
    }
    print(&rows, &session, out)?;
    Ok(())
}

/// Prints which groups of a session's iterations paid.
async fn paid(by: By, session: &SessionSummary, store: &Store, json: bool, out: &mut impl Write) -> anyhow::Result<()> {
    let (grouping, heading) = match by {
        By::Kind => (Grouping::Kind, "kind"),
        By::Mechanism => (Grouping::Mechanism, "mechanism"),
        By::Parameter => (Grouping::Parameter, "parameter"),
    };
    let rows = store.paid(session.id, grouping).await?;
    if json {
        writeln!(out, "{}", serde_json::to_string_pretty(&rows)?)?;
        return Ok(());
    }
    let mut table = Table::new(&[
        heading,
        ">tries",
        ">faster",
        ">median",
        ">best",
        ">claims",
        ">in range",
        ">score",
        ">\"no change\"",
    ]);
    for row in rows {
        let score = |place: usize| figure(row.crps, |crps| format!("{:.3}", crps[place]));
        table.row([
            row.what.clone(),
            row.tries.to_string(),
            row.faster.to_string(),
            format::times(row.median),
            format::times(row.best),
            row.claims.to_string(),
            row.in_range.to_string(),
            score(0),
            score(1),
        ]);
    }
    table.print(out)?;
    Ok(())
}

fn filter(args: &Args, session: SessionId) -> Filter {
    Filter {
        session: Some(session),
        case: args.case.clone(),
        family: args.family.clone(),
        outcome: args.outcome.clone(),
        verdict: args.verdict,
        sort: match args.sort {
            Order::Number => Sort::Number,
            Order::Time => Sort::Time,
            Order::Speedup => Sort::Speedup,
            Order::Cost => Sort::Cost,
        },
        limit: args.limit,
    }
}

/// Refuses a name that no row can have, so a typing mistake does not look like an empty result.
async fn check_names(args: &Args, session: &SessionSummary, store: &Store) -> anyhow::Result<()> {
    if let Some(case) = &args.case
        && !session.cases.contains(case)
    {
        let hint = did_you_mean(case, session.cases.iter().map(CaseName::as_str));
        bail!("session {} has no case `{case}`{hint}; it has: {}", session.id, session.cases.join(", "));
    }
    if let Some(family) = &args.family {
        let all = store.history(&Filter { session: Some(session.id), ..Filter::default() }).await?;
        let tried: BTreeSet<&str> = all.iter().map(|row| row.family.as_str()).collect();
        if !tried.contains(family.as_str()) {
            let hint = did_you_mean(family, tried.iter().copied());
            let tried: Vec<_> = tried.into_iter().collect();
            bail!("session {} tried no family `{family}`{hint}; it tried: {}", session.id, tried.join(", "));
        }
    }
    Ok(())
}

/// Names an outcome. For a variant that was timed, names what its times are.
fn outcome(row: &HistoryRow, times: TimeSource) -> String {
    match row.outcome.as_deref() {
        None => "unfinished".to_owned(),
        Some(kind) if kind == Outcome::Measured.kind() => times.name().to_owned(),
        Some(kind) => kind.to_owned(),
    }
}

fn print(rows: &[HistoryRow], session: &SessionSummary, out: &mut impl Write) -> std::io::Result<()> {
    let time = format!(">µs, {}", session.time_source.name());
    let mut table =
        Table::new(&[">#", "case", "outcome", "verdict", &time, ">speed-up", "prediction", ">cost", "variant", "note"]);
    for row in rows {
        table.row([
            row.iteration.to_string(),
            figure(row.case.as_ref(), CaseName::to_string),
            outcome(row, session.time_source),
            figure(row.verdict, |verdict| verdict.name().to_owned()),
            figure(row.best_ns, |ns| format::us(ns / 1000.0)),
            figure(row.speedup, format::times),
            figure(row.score, |score| score.name().to_owned()),
            format::usd(row.cost_usd),
            format!("{} {}", row.family, show_params(&row.params)),
            note(row),
        ]);
    }
    table.print(out)
}

fn note(row: &HistoryRow) -> String {
    match (&row.commit, &row.message) {
        (Some(commit), _) => format!("commit {}", commit.get(..10).unwrap_or(commit)),
        (None, Some(message)) => message.clone(),
        (None, None) => row.claim.clone(),
    }
}

fn verdict_parser() -> impl TypedValueParser<Value = Verdict> {
    PossibleValuesParser::new(VERDICTS.map(Verdict::name)).try_map(|name| {
        VERDICTS.into_iter().find(|verdict| verdict.name() == name).ok_or_else(|| format!("no verdict `{name}`"))
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::store::testing::{Scene, finish, proposal, wrong};

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    async fn printed(scene: &Scene, words: &[&str]) -> anyhow::Result<String> {
        let command = Command::try_parse_from([&["history"], words].concat())?;
        let mut out = Vec::new();
        run(&command.args, &scene.store, &mut out).await?;
        Ok(String::from_utf8(out)?)
    }

    async fn scene() -> Scene {
        let scene = Scene::new().await;
        let session = scene.session().await;
        let start = scene.measured(session, 64, None, 100_000.0, Verdict::Start).await;
        let better = scene.measured(session, 128, Some(start), 80_000.0, Verdict::Improved).await;
        scene.store.link_commit(better, "b1h1s128", "0123456789abcdef").await.unwrap();
        let zeros = scene.store.begin(session, &proposal(256, Some(better))).await.unwrap();
        let (evaluation, decisions) = wrong();
        scene.store.finish(zeros, &finish(&evaluation, &decisions)).await.unwrap();
        scene.store.begin(session, &proposal(512, Some(better))).await.unwrap();
        scene
    }

    #[tokio::test]
    async fn the_latest_session_is_listed() {
        let scene = scene().await;
        insta::assert_snapshot!(printed(&scene, &[]).await.unwrap(), @"
        #  case      outcome     verdict   µs, measured  speed-up  prediction   cost  variant          note
        1  b1h1s128  measured    start           101.02         -  untested    $0.03  tiled BLOCK=64   64 threads fill the SMs
        2  b1h1s128  measured    improved         80.00     1.25×  in_range    $0.03  tiled BLOCK=128  commit 0123456789
        3  b1h1s128  wrong       rejected             -         -  untested    $0.03  tiled BLOCK=256  all zeros
        4  -         unfinished  -                    -         -  -           $0.00  tiled BLOCK=512  512 threads fill the SMs
        ");
        insta::assert_snapshot!(printed(&scene, &["1", "--sort", "time", "--limit", "1"]).await.unwrap(), @"
        #  case      outcome   verdict   µs, measured  speed-up  prediction   cost  variant          note
        2  b1h1s128  measured  improved         80.00     1.25×  in_range    $0.03  tiled BLOCK=128  commit 0123456789
        ");
        let json = printed(&scene, &["--json", "--verdict", "improved"]).await.unwrap();
        let rows: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!((rows[0]["best_ns"].as_f64(), rows[1].as_object()), (Some(80_000.0), None));
    }

    #[tokio::test]
    async fn a_session_tells_what_paid() {
        let scene = scene().await;
        insta::assert_snapshot!(printed(&scene, &["--by", "kind"]).await.unwrap(), @"
        kind    tries  faster  median   best  claims  in range  score  \"no change\"
        random      1       1   1.25×  1.25×       1         1  0.024        0.223
        ");
        let json: serde_json::Value =
            serde_json::from_str(&printed(&scene, &["--by", "mechanism", "--json"]).await.unwrap()).unwrap();
        assert_eq!((&json[0]["what"], &json[0]["faster"]), (&"threads".into(), &1.into()));
        assert_eq!(printed(&scene, &["--by", "parameter"]).await.unwrap().lines().count(), 1, "only the headings");
    }

    #[tokio::test]
    async fn a_slip_of_the_finger_is_answered_with_the_nearest_name() {
        let scene = scene().await;
        let said = async |words: &[&str]| printed(&scene, words).await.unwrap_err().to_string();
        insta::assert_snapshot!(said(&["--case", "b1h1s12"]).await, @"session 1 has no case `b1h1s12` (did you mean `b1h1s128`?); it has: b1h1s128");
        insta::assert_snapshot!(said(&["--family", "tild"]).await, @"session 1 tried no family `tild` (did you mean `tiled`?); it tried: tiled");
        insta::assert_snapshot!(said(&["9"]).await, @"there is no session 9; the only one is 1");
        insta::assert_snapshot!(said(&["--verdict", "improve"]).await, @"
        error: invalid value 'improve' for '--verdict <VERDICT>'
          [possible values: start, improved, tied, regressed, rejected]

          tip: a similar value exists: 'improved'

        For more information, try '--help'.
        ");
        insta::assert_snapshot!(said(&["--outcome", "timedout"]).await, @"
        error: invalid value 'timedout' for '--outcome <OUTCOME>'
          [possible values: measured, rejected_by_compiler, wrong, crashed, timed_out, cheated, pruned]

          tip: a similar value exists: 'timed_out'

        For more information, try '--help'.
        ");
    }
}
