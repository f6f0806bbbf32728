//! Answers what a model asks to see before it answers: sources, timed configurations, findings and experiments. Pure.

use std::fmt::Write;

use super::explained::{findings_of, told};
use super::machine_code::MachineCode;
use crate::agent::SearchContext;
use crate::domain::history::Finished;
use crate::domain::ids::IterationId;
use crate::domain::variant::show_params;
use crate::error::{Error, error};
use crate::session::state::SessionState;

/// The configurations of a family that are listed, the fastest first.
const LISTED: usize = 40;

/// What is known, for the answers.
pub(super) struct Lookup<'a> {
    pub state: &'a SessionState,
    pub context: &'a SearchContext<'a>,
    /// What was looked up for this question.
    pub machine_code: &'a MachineCode,
}

impl Lookup<'_> {
    /// Answers a request such as `history attention-mma b1h1s512`. One that cannot be answered gets a sentence.
    pub fn answer(&self, want: &str) -> String {
        let words: Vec<&str> = want.split_whitespace().collect();
        let found = match words[..] {
            ["source", family] => self.source(family),
            ["history", family, case] => self.history(family, case),
            ["diagnose", iteration] => self.finished(iteration).map(|finished| self.findings(finished)),
            // `without KIND` is what the kinds in the list are.
            ["experiment", iteration, ..] => self.finished(iteration).map(|finished| self.experiments(finished)),
            ["sass", ..] if self.machine_code.contains_key(want) => Ok(self.machine_code[want].clone()),
            _ => Err(Error::new(
                "This cannot be looked up. There are: source FAMILY, history FAMILY CASE, diagnose ITERATION, experiment \
                 ITERATION, sass ITERATION LINES.",
            )),
        };
        found.unwrap_or_else(|problem| problem.into())
    }

    fn source(&self, family: &str) -> Result<String, Error> {
        if !self.state.setup().options.llm.sends_source {
            return Err(Error::new("Sources are not sent: llm.send in config.toml."));
        }
        let found = self.context.all.iter().find(|other| other.name == family);
        let found = found.ok_or_else(|| error!("There is no family `{family}`."))?;
        Ok(format!("{}\n{}", found.manifest, found.template))
    }

    fn history(&self, family: &str, case: &str) -> Result<String, Error> {
        let history = self.state.history();
        let leaders = history.leaders_of_family(family, case, usize::MAX);
        let mut text = format!("{} configurations timed\n", leaders.len());
        for (finished, ns) in leaders.iter().take(LISTED) {
            let _ = writeln!(
                text,
                "iteration {}: {:.3} us, {}",
                finished.iteration,
                ns / 1e3,
                show_params(&finished.params)
            );
        }
        let of_family = history.attempts.iter().filter(|attempt| attempt.family == family && !attempt.worked);
        let left_out = of_family.count();
        let _ = writeln!(text, "{left_out} other configurations failed or were not worth a run, on any case");
        if leaders.is_empty() && left_out == 0 {
            return Err(error!("`{family}` has not been tried on a case `{case}`."));
        }
        Ok(text)
    }

    /// The findings on each case that the iteration has timed.
    fn findings(&self, finished: &Finished) -> String {
        let mut text = String::new();
        for time in &finished.times {
            let findings = findings_of(self.state, self.context, finished, &time.case);
            findings.iter().for_each(|finding| text.push_str(&told(finding)));
        }
        if text.is_empty() { "No rule of the diagnosis applies to it.".to_owned() } else { text }
    }

    /// Its times without a kind of instruction, and on cases with more or less work.
    fn experiments(&self, finished: &Finished) -> String {
        let history = self.state.history();
        let mut text = String::new();
        for time in &finished.times {
            for ablation in history.ablations_of(&finished.hash, &time.case) {
                let _ = writeln!(text, "{}: {}", time.case, serde_json::to_string(ablation).unwrap_or_default());
            }
        }
        for one in history.experiments.iter().filter(|one| one.scaling.of == finished.iteration) {
            let own = finished.time_ns(&one.scaling.case).map_or("-".to_owned(), |ns| format!("{:.3}", ns / 1e3));
            let (case, us) = (one.scaling.case_name(), one.time_ns / 1e3);
            let _ = writeln!(text, "{case} work: {us:.3} us instead of {own} us, {} blocks", one.ctas);
        }
        if text.is_empty() { "No experiment with it is on record.".to_owned() } else { text }
    }

    fn finished(&self, iteration: &str) -> Result<&Finished, Error> {
        let number = iteration.parse().map(IterationId);
        let found = number.ok().and_then(|number| self.state.history().iteration(number));
        found.ok_or_else(|| error!("Iteration {iteration} has no time on record in this session."))
    }
}
