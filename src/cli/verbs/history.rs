//! `optloop history`: what a session tried.

mod calls;

use std::io::Write;

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::cli::terminal::listing::{self, Format, Part};
use crate::cli::terminal::paragraph::paragraph;
use crate::cli::terminal::screen::{Paint, Screen};
use crate::cli::terminal::table::{Table, figure};
use crate::domain::ids::{CaseName, SessionId};
use crate::domain::measurement::evaluation::Outcome;
use crate::domain::measurement::verdict::Verdict;
use crate::domain::text::names::did_you_mean;
use crate::domain::variant::show_params;
use crate::error::{error, usage_sentence};
use crate::notices::say;
use crate::report::format;
use crate::store::{Filter, Grouping, HistoryRow, Listed, MOST_GROUPED, Sort, Store};

const VERDICTS: [Verdict; 5] =
    [Verdict::Start, Verdict::Improved, Verdict::Tied, Verdict::Regressed, Verdict::Rejected];

/// The columns before a reason, which stands below its row.
const REASON_INDENT: usize = 5;

/// The most rows of a table, unless the user says otherwise. JSON and CSV have all.
const MAX_ROWS: u32 = 1000;

/// List what a session tried, one row for each case of each iteration.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of the session [default: the latest]
    pub session: Option<SessionId>,
    /// Show every session, also those that hold what `optloop bench` and `optloop check` measured
    #[arg(long, conflicts_with_all = ["session", "by"])]
    pub all: bool,
    /// Show only this case
    #[arg(short = 'c', long)]
    pub case: Option<CaseName>,
    /// Show only this family
    #[arg(short = 'f', long)]
    pub family: Option<String>,
    /// Show only iterations with this outcome
    #[arg(long, value_parser = PossibleValuesParser::new(Outcome::KINDS))]
    pub outcome: Option<String>,
    /// Show only rows with this verdict
    #[arg(long, value_parser = verdict_parser())]
    pub verdict: Option<Verdict>,
    /// Show only configurations with this origin, such as move, random, warm_start or model
    #[arg(long)]
    pub origin: Option<String>,
    /// Show only suggestions from this proposer, such as local or llm
    #[arg(long)]
    pub proposer: Option<String>,
    /// Show only iterations since this date (2026-11-20), UTC time (2026-11-20T10:00) or how long ago (2d)
    #[arg(long, value_name = "WHEN", value_parser = listing::instant)]
    pub since: Option<String>,
    /// Order of the rows
    #[arg(long, value_enum, default_value_t = Order::Number)]
    pub sort: Order,
    /// Reverse the order
    #[arg(long)]
    pub reverse: bool,
    #[command(flatten)]
    pub part: Part,
    /// Show whole parameters and claims, however wide the terminal is, as in a pipe
    #[arg(long)]
    pub wide: bool,
    /// Show which kinds of suggestions, mechanisms, parameters or calls of language models paid off, instead of the iterations
    #[arg(long, value_enum, conflicts_with_all = [
        "case", "family", "outcome", "verdict", "origin", "proposer", "since", "sort", "reverse", "limit", "offset",
    ])]
    pub by: Option<By>,
    #[command(flatten)]
    pub format: Format,
}

/// What to group a session's iterations by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// Where the configurations come from
    Kind,
    /// How the changes were expected to work
    Mechanism,
    /// Family and parameter, where nothing else changed
    Parameter,
    /// Calls of language models, and how much was spent on ideas that a result on record had refuted
    Call,
}

/// The order of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// Oldest first
    Number,
    /// Fastest first; only rows with a time
    Time,
    /// Largest speed-up over the incumbent first; only rows with a speed-up
    Speedup,
    /// Most expensive first
    Cost,
}

/// Lists a session's history, or that of all sessions.
pub async fn run(args: &Args, store: &Store, screen: Screen, out: &mut impl Write) -> anyhow::Result<()> {
    let session = match args.all {
        true => None,
        false => Some(store.listed(args.session).await?),
    };
    if let (Some(by), Some(session)) = (args.by, &session) {
        return paid(by, session, store, args.format, screen, out).await;
    }
    let is_table = !args.format.json && !args.format.csv;
    let limit = args.part.limit.or(is_table.then_some(MAX_ROWS));
    // One more row tells whether others follow.
    let limit_and_one = limit.map(|limit| limit.saturating_add(1));
    let mut rows = store.history(&filter(args, session.as_ref(), limit_and_one)).await?;
    if rows.is_empty() {
        check_names(args, session.as_ref(), store).await?;
    }
    let is_cut = limit.is_some_and(|limit| rows.len() > limit as usize);
    rows.truncate(limit.map_or(usize::MAX, |limit| limit as usize));
    if args.format.write(&rows, out)? {
        return Ok(());
    }
    let mut text = Vec::new();
    let is_whole = args.wide || screen.is_pipe();
    print(&rows, session.as_ref(), (screen, is_whole), &mut text)?;
    screen.show(&text, out)?;
    if is_cut {
        let next = args.part.offset as usize + rows.len();
        say(&format!("there are more rows: `--offset {next}` shows them, and `--limit` sets how many are shown"));
    }
    Ok(())
}

/// Prints which groups of a session's iterations paid.
async fn paid(
    by: By,
    session: &Listed,
    store: &Store,
    as_what: Format,
    screen: Screen,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let (grouping, heading) = match by {
        By::Call => return calls::print(session, store, as_what, screen, out).await,
        By::Kind => (Grouping::Kind, "kind"),
        By::Mechanism => (Grouping::Mechanism, "mechanism"),
        By::Parameter => (Grouping::Parameter, "parameter"),
    };
    let rows = store.paid(session.id, grouping).await?;
    if session.iterations > MOST_GROUPED {
        say(&format!("{MOST_GROUPED} of the session's {} iterations, spread evenly, are grouped", session.iterations));
    }
    if as_what.write(&rows, out)? {
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
        "?>score",
        "?>\"no change\"",
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
    let mut text = Vec::new();
    table.print_on(screen, &mut text)?;
    screen.show(&text, out)?;
    Ok(())
}

fn filter(args: &Args, session: Option<&Listed>, limit: Option<u32>) -> Filter {
    Filter {
        session: session.map(|session| session.id),
        case: args.case.clone(),
        family: args.family.clone(),
        outcome: args.outcome.clone(),
        verdict: args.verdict,
        origin: args.origin.clone(),
        proposer: args.proposer.clone(),
        since: args.since.clone(),
        sort: match args.sort {
            Order::Number => Sort::Number,
            Order::Time => Sort::Time,
            Order::Speedup => Sort::Speedup,
            Order::Cost => Sort::Cost,
        },
        reverse: args.reverse,
        limit,
        offset: args.part.offset,
    }
}

/// Refuses a name that no row can have, so a typing mistake does not look like an empty result.
async fn check_names(args: &Args, session: Option<&Listed>, store: &Store) -> anyhow::Result<()> {
    if let (Some(case), Some(session)) = (&args.case, session)
        && !session.cases.contains(case)
    {
        let hint = did_you_mean(case, session.cases.iter().map(CaseName::as_str));
        return Err(usage_sentence(format!(
            "session {} has no case `{case}`{hint}; it has: {}",
            session.id,
            session.cases.join(", ")
        )));
    }
    if let Some(family) = &args.family {
        let tried = store.families_tried(session.map(|session| session.id)).await?;
        if !tried.contains(family) {
            let hint = did_you_mean(family, tried.iter().map(String::as_str));
            let which = session.map_or_else(|| "no session".to_owned(), |session| format!("session {}", session.id));
            let verb = if session.is_some() { "tried no family" } else { "tried the family" };
            return Err(usage_sentence(format!("{which} {verb} `{family}`{hint}; there was: {}", tried.join(", "))));
        }
    }
    Ok(())
}

/// Names what became of a row: the verdict, or why there is none. A variant that was timed without a decision is named
/// after its times.
fn result(row: &HistoryRow) -> &str {
    match (row.outcome.as_deref(), row.verdict) {
        (None, _) => "unfinished",
        (Some(kind), None) if kind == Outcome::Measured.kind() => row.time_source.name(),
        (Some(kind), Some(verdict)) if kind == Outcome::Measured.kind() => verdict.word(row.replayed),
        (Some(kind), _) => kind,
    }
}

fn print(
    rows: &[HistoryRow],
    session: Option<&Listed>,
    (screen, is_whole): (Screen, bool),
    out: &mut impl Write,
) -> std::io::Result<()> {
    let time = session.map_or(">µs".to_owned(), |session| format!(">µs, {}", session.time_source.name()));
    let of_session = if session.is_some() { &[][..] } else { &[">session"] };
    let rest = ["case", "result", &time, ">speed-up", "?prediction", "?>cost", "variant"];
    let table = Table::new(&[&[">#"], of_session, &rest].concat());
    let mut table = if is_whole { table.with_whole_cells() } else { table };
    for row in rows {
        let us = figure(row.best_ns, |ns| format::us(ns / 1000.0));
        let us = match (session, row.best_ns) {
            (None, Some(_)) => format!("{us} {}", row.time_source.name()),
            _ => us,
        };
        let cells = [
            figure(row.case.as_ref(), CaseName::to_string),
            result(row).to_owned(),
            us,
            figure(row.speedup, format::times),
            figure(row.score, |score| score.name().to_owned()),
            format::usd(row.cost_usd),
            variant(row),
        ];
        let number = std::iter::once(row.iteration.to_string());
        let of_session = session.is_none().then(|| row.session.to_string());
        table.row(number.chain(of_session).chain(cells));
        let paint = match row.verdict {
            Some(Verdict::Start) => None,
            Some(Verdict::Improved) => (!row.replayed).then_some(Paint::Good),
            Some(Verdict::Rejected) => Some(Paint::Bad),
            Some(Verdict::Tied | Verdict::Regressed) => Some(Paint::Faint),
            None if row.outcome.is_none() || row.best_ns.is_some() => Some(Paint::Faint),
            None => Some(Paint::Bad),
        };
        let column = if session.is_some() { 2 } else { 3 };
        paint.into_iter().for_each(|paint| table.paint(column, paint));
        if let Some(reason) = reason(row) {
            table.note(paragraph("", REASON_INDENT, reason));
        }
    }
    if is_whole { table.print_wide(screen, out) } else { table.print_on(screen, out) }
}

/// Names a variant, with its commit or its claim. What has a reason needs neither.
fn variant(row: &HistoryRow) -> String {
    let variant = format!("{} {}", row.family, show_params(&row.params));
    match (&row.commit, reason(row)) {
        (Some(commit), _) => format!("{variant}: commit {}", commit.get(..10).unwrap_or(commit)),
        (None, Some(_)) => variant,
        (None, None) => format!("{variant}: {}", row.claim),
    }
}

/// Returns why a variant was not timed.
fn reason(row: &HistoryRow) -> Option<&str> {
    row.message.as_deref().filter(|_| row.best_ns.is_none() && row.commit.is_none())
}

fn verdict_parser() -> impl TypedValueParser<Value = Verdict> {
    PossibleValuesParser::new(VERDICTS.map(Verdict::name)).try_map(|name| {
        VERDICTS.into_iter().find(|verdict| verdict.name() == name).ok_or_else(|| error!("no verdict `{name}`"))
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
        run(&command.args, &scene.store, Screen { rows: Some(usize::MAX), ..Screen::plain() }, &mut out).await?;
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
        #  case      result      µs, measured  speed-up  variant
        1  b1h1s128  start             101.02         -  tiled BLOCK=64: 64 threads f...
        2  b1h1s128  improved           80.00     1.25×  tiled BLOCK=128: commit 0123...
        3  b1h1s128  wrong                  -         -  tiled BLOCK=256
             all zeros
        4  -         unfinished             -         -  tiled BLOCK=512: 512 threads...
        ");
        insta::assert_snapshot!(printed(&scene, &["1", "--sort", "time", "--limit", "1"]).await.unwrap(), @"
        #  case      result    µs, measured  speed-up  variant
        2  b1h1s128  improved         80.00     1.25×  tiled BLOCK=128: commit 012345...
        ");
        let wide = printed(&scene, &["--wide"]).await.unwrap();
        assert!(!wide.contains("..."), "nothing is cut: {wide}");
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
        insta::assert_snapshot!(said(&["--family", "tild"]).await, @"session 1 tried no family `tild` (did you mean `tiled`?); there was: tiled");
        insta::assert_snapshot!(said(&["9"]).await, @"there is no session 9; the only one is 1");
        insta::assert_snapshot!(said(&["--verdict", "improve"]).await, @"
        error: invalid value 'improve' for '--verdict <VERDICT>'
          [possible values: start, improved, tied, regressed, rejected]

          tip: a similar value exists: 'improved'

        For more information, try '--help'.
        ");
        insta::assert_snapshot!(said(&["--outcome", "timedout"]).await, @"
        error: invalid value 'timedout' for '--outcome <OUTCOME>'
          [possible values: measured, rejected_by_compiler, wrong, crashed, timed_out, cheated, out_of_memory, not_modelled, pruned]

          tip: a similar value exists: 'timed_out'

        For more information, try '--help'.
        ");
    }
}
