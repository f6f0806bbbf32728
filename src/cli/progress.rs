//! What a session shows while it runs: a live line, plain lines where there is no terminal, or JSON events.

use std::io::Write;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::domain::device::TimeSource;
use crate::domain::evaluation::Outcome;
use crate::domain::record::Status;
use crate::runner::activity;
use crate::session::{Event, Observer};

use super::talk::{say, showable};

/// Shows events.
pub struct Progress<'a, W: Write> {
    json: bool,
    out: &'a mut W,
    line: ProgressBar,
    budget_s: f64,
    best: String,
    times: TimeSource,
    failure: Option<std::io::Error>,
}

impl<'a, W: Write> Progress<'a, W> {
    /// Shows events as JSON on `out`, or as text on standard error.
    pub fn new(json: bool, out: &'a mut W) -> Self {
        let line = if json { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
        if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}") {
            line.set_style(style);
        }
        line.enable_steady_tick(Duration::from_millis(200));
        Self {
            json,
            out,
            line,
            budget_s: 0.0,
            best: "nothing timed yet".to_owned(),
            times: TimeSource::Measured,
            failure: None,
        }
    }

    /// Clears the live line. Returns the error if an event could not be written.
    pub fn finish(self) -> std::io::Result<()> {
        self.line.finish_and_clear();
        self.failure.map_or(Ok(()), Err)
    }

    fn say(&self, text: &str) {
        if self.line.is_hidden() {
            say(text);
        } else {
            self.line.println(showable(text));
        }
    }

    fn tell(&mut self, event: &Event<'_>) {
        match event {
            Event::Started { session, workload, device, time_source, budget_s } => {
                self.budget_s = *budget_s;
                self.times = *time_source;
                self.line.set_message(format!("/ {}  timing the baselines", span(*budget_s)));
                self.say(&format!(
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
                used_s,
                finished,
                cost_usd,
            } => {
                self.budget_s = *budget_s;
                self.times = *time_source;
                self.line.set_message(format!("/ {}  restoring session {session}", span(*budget_s)));
                self.say(&format!(
                    "session {session} continues (resumption {resumption}): {workload} on {device}, times are {}, \
                     {finished} iterations, {} of {} and ${cost_usd:.2} used so far",
                    time_source.name(),
                    span(*used_s),
                    span(*budget_s)
                ));
            }
            Event::ModelAsked { call, purpose, model } => {
                if self.line.is_hidden() {
                    say(&format!("call {call}: {model} is asked for a {purpose}"));
                }
            }
            Event::ModelAnswered { call, model, status, message, cost_usd, cost_is_known } => {
                let why = message.map_or_else(String::new, |message| format!(": {message}"));
                let unknown = if *cost_is_known { "" } else { " (its cost is unknown: this is the most it can be)" };
                self.say(&format!("call {call}: {model} {status}, ${cost_usd:.4}{unknown}{why}"));
            }
            Event::FamilyAdded { family, about } => {
                self.say(&format!(
                    "{family}: a new family by a language model, which is searched from now on: {about}"
                ));
            }
            Event::ModelsStopped { reason } => {
                self.say(&format!("no more language models are asked, and the session goes on without them: {reason}"));
            }
            Event::ReplayDiffers { purpose, ordinal, difference } => {
                self.say(&format!("the {purpose} request {ordinal} differs from the recorded one: {difference}"));
            }
            Event::Baseline { case, name, us, time_source } => {
                self.say(&format!("{case}: {name} takes {us:.2} {}", unit(*time_source)));
            }
            Event::Counters { case, iteration } => {
                self.say(&format!("{case}: the hardware counters of iteration {iteration} are on record"));
            }
            Event::NoCounters { reason } => self.say(&format!("no hardware counters: {reason}")),
            Event::NoBaseline { reason } => self.say(&format!("no baseline: {reason}")),
            Event::Iteration { iteration, finished, outcome, hypothesis, wins, elapsed_s, cost_usd, .. } => {
                let status = format!("/ {}  ${cost_usd:.2}  iteration {finished}  {}", span(self.budget_s), self.best);
                self.line.set_message(status.clone());
                let failed = !matches!(outcome, Outcome::Measured | Outcome::Pruned { .. });
                if failed {
                    let message = outcome.message().unwrap_or_default();
                    self.say(&format!("#{iteration} {}: {message}", outcome.kind()));
                } else if self.line.is_hidden() {
                    say(&format!(
                        "#{iteration} {}: {} ({wins} won)  [{} {status}]",
                        // For a variant that was timed, this says whether its times are measured or modelled.
                        if matches!(outcome, Outcome::Measured) { self.times.name() } else { outcome.kind() },
                        hypothesis.claim,
                        span(*elapsed_s)
                    ));
                }
            }
            Event::CutShort { what, done, of, limit } => {
                let done = done.zip(*of).map_or_else(String::new, |(done, of)| format!(" after {done} of {of} cases"));
                self.say(&format!("{what} is cut short{done}: the time ({limit}) is spent"));
            }
            Event::Working { steps, for_s, all_s, limit, limit_s } => {
                self.say(&activity::line(steps, *for_s, *all_s, limit.zip(*limit_s)));
            }
            Event::Improved { case, from_us, to_us, over_start, time_source } => {
                let after = format!("{to_us:.2} {}, {over_start:.1}x over its start", unit(*time_source));
                self.best = format!("{case} {after}");
                self.say(&format!("{case}: {from_us:.2} -> {after}"));
            }
            Event::Remeasured { case, device, us, over_start, time_source, .. } => {
                let time = format!("{us:.2} {}, {over_start:.1}x over its start", unit(*time_source));
                self.best = format!("{case} {time}");
                self.say(&format!("{case}: the winner that an earlier session committed on {device} takes {time}"));
            }
            Event::Final { case, iteration, us, baseline, over_baseline, noise, time_source } => {
                let beside = baseline.zip(*over_baseline).map_or_else(String::new, |(name, ratio)| {
                    let (lo, hi) = (ratio.interval.lo, ratio.interval.hi);
                    format!(", {:.3}x ({lo:.3} to {hi:.3}) beside {name}", ratio.estimate)
                });
                self.say(&format!(
                    "{case}: final: #{iteration} takes {us:.2} {}{beside}, noise {:.2}%",
                    unit(*time_source),
                    noise * 100.0
                ));
            }
            Event::NoFinal { case, reason } => self.say(&format!("{case}: no final: {reason}")),
            Event::Committed { case, commit } => {
                self.say(&format!("{case}: committed {}", &commit[..10.min(commit.len())]));
            }
            Event::Disqualified { case, iteration, reason } => {
                self.say(&format!("{case}: #{iteration} is disqualified: {reason}"));
            }
            Event::NotCommitted { case, reason } => self.say(&format!("{case}: not committed: {reason}")),
            Event::Ended { session, status, reason, iterations, wall_s, cost_usd } => {
                let word = if *status == Status::Finished { "ended" } else { status.name() };
                self.say(&format!(
                    "session {session} {word} after {iterations} iterations, {} and ${cost_usd:.2}: {reason}",
                    span(*wall_s)
                ));
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

/// Returns the unit of a time, and says if the time is modelled.
fn unit(time_source: TimeSource) -> &'static str {
    match time_source {
        TimeSource::Measured => "us",
        TimeSource::Modelled => "us (modelled)",
    }
}

/// Shows seconds as `1h 4m 12s`.
fn span(seconds: f64) -> String {
    humantime::format_duration(Duration::from_secs(seconds.max(0.0) as u64)).to_string()
}
