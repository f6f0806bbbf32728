//! What a session shows while it runs: a live view, plain lines where there is no terminal, or JSON events.

use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use crate::domain::device::TimeSource;
use crate::domain::ids::CaseName;
use crate::domain::measurement::evaluation::Outcome;
use crate::domain::measurement::verdict::Decision;
use crate::domain::proposal::origin::Origin;
use crate::domain::record::Status;
use crate::domain::record::gain::CaseGain;
use crate::domain::text::counted::counted;
use crate::runner::activity;
use crate::session::{Event, Observer};

use crate::cli::terminal::board::{self, Board, unit};
use crate::cli::terminal::ending;
use crate::notices::{print_above, say, showable};

/// Shows events.
pub struct Progress<'a, W: Write> {
    json: bool,
    out: &'a mut W,
    view: ProgressBar,
    board: Arc<Mutex<Board>>,
    times: TimeSource,
    failure: Option<std::io::Error>,
    /// The branch with the session's commit, if that is not checked out.
    to_bring_in: Option<String>,
}

impl<'a, W: Write> Progress<'a, W> {
    /// Shows events as JSON on `out`. As text, what is under way goes to standard error, and the table of the end to `out`.
    pub fn new(json: bool, out: &'a mut W) -> Self {
        let view = if json { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
        Self { json, out, view, board: Arc::default(), times: TimeSource::Measured, failure: None, to_bring_in: None }
    }

    /// Shows the live view from now on. `used` is the time that the session has used before.
    fn show_view(&self, used: Duration) {
        let (board, begun) = (Arc::clone(&self.board), Instant::now());
        let draw = move |_: &ProgressState, view: &mut dyn std::fmt::Write| {
            let steps = activity::under_way();
            let now = steps.as_ref().map(|steps| (steps.names.as_slice(), steps.inner_since.elapsed()));
            let board = board.lock().unwrap_or_else(PoisonError::into_inner);
            for (index, line) in board.text(used + begun.elapsed(), now).lines().enumerate() {
                let _ = write!(view, "{}{}", if index == 0 { "" } else { "\n" }, showable(line));
            }
        };
        if let Ok(style) = ProgressStyle::with_template("{spinner} {view}") {
            self.view.set_style(style.with_key("view", draw));
        }
        print_above(Some(self.view.clone()));
        self.view.enable_steady_tick(Duration::from_millis(200));
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Clears the live view. Returns the error if an event could not be written.
    pub fn finish(self) -> std::io::Result<()> {
        print_above(None);
        self.view.finish_and_clear();
        self.failure.map_or(Ok(()), Err)
    }

    fn set_out(
        &mut self,
        times: TimeSource,
        budget_s: f64,
        (max_cost_usd, max_iterations): (Option<f64>, Option<u64>),
    ) {
        self.times = times;
        let mut board = self.board();
        board.set_times(times);
        (board.budget, board.max_cost_usd, board.max_iterations) = (seconds(budget_s), max_cost_usd, max_iterations);
    }

    fn note_used(&self, finished: u64, cost_usd: f64) {
        let mut board = self.board();
        (board.finished, board.cost_usd) = (finished, cost_usd);
    }

    /// Writes the table of the end to standard output. The live view is over: what is written past it would be erased.
    fn write_table(&mut self, cases: &[CaseGain]) {
        print_above(None);
        self.view.finish_and_clear();
        let table = showable_lines(&ending::table(cases, self.times));
        if let Err(error) = write!(self.out, "{table}").and_then(|()| self.out.flush()) {
            self.failure.get_or_insert(error);
        }
    }

    fn tell(&mut self, event: &Event<'_>) {
        match event {
            Event::Started { session, workload, device, time_source, budget_s, max_cost_usd, max_iterations } => {
                self.set_out(*time_source, *budget_s, (*max_cost_usd, *max_iterations));
                self.show_view(Duration::ZERO);
                say(&format!(
                    "session {session}: {workload} on {device}, times are {}, budget {}",
                    time_source.name(),
                    span(*budget_s)
                ));
            }
            Event::Resumed {
                session,
                resumption,
                workload,
                device,
                time_source,
                budget_s,
                max_cost_usd,
                max_iterations,
                used_s,
                finished,
                cost_usd,
            } => {
                self.set_out(*time_source, *budget_s, (*max_cost_usd, *max_iterations));
                self.note_used(*finished, *cost_usd);
                self.show_view(seconds(*used_s));
                say(&format!(
                    "session {session} continues (resumption {resumption}): {workload} on {device}, times are {}, \
                     {}, {} of {} and ${cost_usd:.2} used so far",
                    time_source.name(),
                    counted(*finished as usize, "iteration"),
                    span(*used_s),
                    span(*budget_s)
                ));
            }
            Event::ModelAsked { call, purpose, model } => {
                if self.view.is_hidden() {
                    say(&format!("call {call}: asking {model} for a {purpose}"));
                }
            }
            Event::ModelAnswered { call, model, status, message, cost_usd, cost_is_known, estimate_usd } => {
                let why = message.map_or_else(String::new, |message| format!(": {message}"));
                let cost = match (cost_is_known, estimate_usd) {
                    (true, _) => format!("${cost_usd:.4}"),
                    (false, Some(estimate_usd)) => format!("about ${estimate_usd:.4} (at most ${cost_usd:.4})"),
                    (false, None) => format!("at most ${cost_usd:.4}"),
                };
                say(&format!("call {call}: {model} {status}, {cost}{why}"));
            }
            Event::FamilyAdded { family, about } => {
                say(&format!("{family}: new family from a language model, now part of the search: {about}"));
            }
            Event::ModelsStopped { reason } => {
                say(&format!("the session continues without language models: {reason}"));
            }
            Event::ReplayDiffers { purpose, ordinal, difference } => {
                say(&format!("the {purpose} request {ordinal} differs from the recorded one: {difference}"));
            }
            Event::Baseline { case, name, us, time_source } => {
                say(&format!("{case}: {name} takes {us:.2} {}", unit(*time_source)));
            }
            Event::BackendLeftOut { case, backend, reason } => {
                say(&format!("{case}: {backend} is not timed: {reason}"));
            }
            Event::Counters { case, iteration } => {
                say(&format!("{case}: the hardware counters of iteration {iteration} are on record"));
            }
            Event::BaselineCounters { case, name } => {
                say(&format!("{case}: the hardware counters of {name} are on record"));
            }
            Event::NoCounters { reason } => say(&format!("no hardware counters: {reason}")),
            Event::Ablated { case, iteration } => {
                say(&format!("{case}: iteration {iteration} was timed without each kind of instruction"));
            }
            Event::NotAblated { case, iteration, reason } => {
                say(&format!("{case}: iteration {iteration} was not timed without instructions: {reason}"));
            }
            // The verb has said it before the session began.
            Event::FamilyLeftOut { .. } => {}
            Event::DeviceLeftOut { device, reason } => say(&format!("the session goes on without {device}: {reason}")),
            Event::NoBaseline { reason } => say(&format!("no baseline: {reason}")),
            Event::Iteration {
                iteration,
                finished,
                outcome,
                hypothesis,
                origin,
                decisions,
                wins,
                elapsed_s,
                cost_usd,
            } => {
                self.note_used(*finished, *cost_usd);
                let how = verdicts(outcome, origin, decisions.1, self.times);
                self.board().note_verdict(format!("#{iteration} {how}: {}", hypothesis.claim));
                let status = self.board().used(seconds(*elapsed_s));
                let failed = !matches!(outcome, Outcome::Measured | Outcome::Pruned { .. });
                if failed {
                    let message = outcome.message().unwrap_or_default();
                    say(&format!("#{iteration} {}: {message}", outcome.kind()));
                } else if self.view.is_hidden() {
                    let won = if *wins > 0 { format!(", {wins} won") } else { String::new() };
                    say(&format!("#{iteration} {how}: {}  [{status}{won}]", hypothesis.claim));
                }
            }
            Event::CutShort { what, done, of, limit } => {
                let done = done.zip(*of).map_or_else(String::new, |(done, of)| format!(" after {done} of {of} cases"));
                say(&format!("{what} was cut short{done}: time limit ({limit}) reached"));
            }
            Event::Working { steps, for_s, all_s, limit, limit_s } => {
                say(&activity::line(steps, *for_s, *all_s, limit.zip(*limit_s)));
            }
            Event::Improved { case, from_us, to_us, over_start, time_source } => {
                let after = format!("{to_us:.2} {}, {over_start:.1}x over the initial kernel", unit(*time_source));
                say(&format!("{case}: {from_us:.2} -> {after}"));
            }
            Event::Remeasured { case, device, us, over_start, time_source, .. } => {
                let time = format!("{us:.2} {}, {over_start:.1}x over the initial kernel", unit(*time_source));
                say(&format!("{case}: the winner that an earlier session committed on {device} takes {time}"));
            }
            Event::Final { case, iteration, us, baseline, over_baseline, noise, time_source } => {
                let beside = baseline.zip(*over_baseline).map_or_else(String::new, |(name, ratio)| {
                    let (lo, hi) = (ratio.interval.lo, ratio.interval.hi);
                    format!(", {:.3}x ({lo:.3} to {hi:.3}) beside {name}", ratio.estimate)
                });
                say(&format!(
                    "{case}: final: #{iteration} takes {us:.2} {}{beside}, noise {:.2}%",
                    unit(*time_source),
                    noise * 100.0
                ));
            }
            Event::NoFinal { case, reason } => say(&format!("{case}: no final: {reason}")),
            // Every winner is announced, and `kept` would say the same again.
            Event::Kept { .. } => {}
            Event::Case(gain) => self.board().note_case(gain),
            Event::NotKept { case, reason } => {
                say(&format!("{case}: its winner is in the store, but not kept in git: {reason}"));
            }
            Event::Committed { elsewhere, commit, branch, cases } => {
                let commit = &commit[..10.min(commit.len())];
                say(&format!("committed {commit} to {branch}: {}", list(cases)));
                if *elsewhere {
                    self.to_bring_in = Some((*branch).to_owned());
                }
            }
            Event::Disqualified { case, iteration, reason } => {
                say(&format!("{case}: #{iteration} is disqualified: {reason}"));
            }
            Event::NotCommitted { cases, reason, kept_under } => {
                let kept = kept_under.map_or_else(
                    || "the winners are only in the store".to_owned(),
                    |reference| format!("`git cherry-pick {reference}` commits the winners later"),
                );
                say(&format!("{}: not committed: {reason}; {kept}", list(cases)));
            }
            Event::Ended { session, status, reason, iterations, devices, wall_s, cost_usd, cases } => {
                self.write_table(cases);
                let word = if *status == Status::Finished { "ended" } else { status.name() };
                let on = if *devices > 1 { format!(" on {devices} devices") } else { String::new() };
                say(&format!(
                    "session {session} {word} after {}, {}{on} and ${cost_usd:.2}: {reason}",
                    counted(*iterations as usize, "iteration"),
                    span(*wall_s)
                ));
                if let Some(branch) = self.to_bring_in.take() {
                    say(&format!("the winners are on branch {branch}: `git merge {branch}` brings them into yours"));
                }
            }
        }
    }
}

impl<W: Write> Observer for Progress<'_, W> {
    fn event(&mut self, event: &Event<'_>) {
        if !self.json {
            self.tell(event);
            return;
        }
        let line = serde_json::to_string(event).map_err(std::io::Error::other);
        let written = line.and_then(|line| writeln!(self.out, "{line}")).and_then(|()| self.out.flush());
        // A closed standard output must not end the session. The error is reported once the session is over.
        if let Err(error) = written {
            self.failure.get_or_insert(error);
        }
    }
}

/// Returns lines as a terminal may show them.
fn showable_lines(text: &str) -> String {
    text.lines().map(|line| showable(line) + "\n").collect()
}

/// Lists cases.
fn list(cases: &[CaseName]) -> String {
    cases.iter().map(CaseName::as_str).collect::<Vec<_>>().join(", ")
}

/// Returns how an iteration ended, with its verdicts: `2 improved, 1 tied`. On one case, it says how fast the variant was:
/// `regressed (0.79x)`.
fn verdicts(outcome: &Outcome, origin: &Origin, decisions: &[Decision], times: TimeSource) -> String {
    let word = |one: &Decision| one.verdict.word(origin.is_committed_winner_of(&one.case));
    match decisions {
        _ if !matches!(outcome, Outcome::Measured) => return outcome.kind().to_owned(),
        [] => return times.name().to_owned(),
        [one @ Decision { speedup: Some(speedup), .. }] => return format!("{} ({speedup:.3}x)", word(one)),
        _ => {}
    }
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for decision in decisions {
        let name = word(decision);
        match counts.iter_mut().find(|(other, _)| *other == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }
    counts.iter().map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>().join(", ")
}

/// Shows seconds as `1h 4m 12s`.
fn span(of_seconds: f64) -> String {
    board::span(seconds(of_seconds))
}

/// Returns a duration of seconds that an event gives.
fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}
