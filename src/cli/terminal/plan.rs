//! What a session is about to do, said before its first iteration.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::cli::terminal::paragraph::paragraph;
use crate::domain::budget::Budget;
use crate::domain::device::{DeviceInfo, TimeSource};
use crate::domain::ids::CaseName;
use crate::domain::text::counted::counted;
use crate::domain::workload::Workload;
use crate::launch::preflight::Coverage;
use crate::launch::target;
use crate::report::format;
use crate::session::{Options, Target};

/// The width of the first column.
const LABEL: usize = 10;

/// What a session is about to do.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename = "plan")]
pub struct Plan {
    workload: String,
    cases: Vec<CaseName>,
    /// The searched families, each with the cases that it takes.
    families: Vec<Coverage>,
    device: String,
    /// The number of such devices.
    devices: usize,
    time_source: TimeSource,
    budget_s: f64,
    max_cost_usd: Option<f64>,
    max_iterations: Option<u64>,
    proposer: String,
    /// The language models that it may ask, the preferred first.
    models: Vec<String>,
    /// Where the winners go, in words.
    winners: String,
    /// The reference that gets their commit. None if there is to be none.
    commit_to: Option<String>,
    /// The file of the store.
    store: PathBuf,
}

impl Plan {
    /// Makes the plan of a session.
    pub fn of(
        workload: &Workload,
        families: &[Coverage],
        (device, devices): (&DeviceInfo, usize),
        (proposer, options): (&str, &Options),
        target: &Target,
        store: &Path,
    ) -> Self {
        let Budget { wall, max_cost_usd, max_iterations } = options.budget;
        Self {
            workload: workload.name.clone(),
            cases: workload.cases.iter().map(|case| case.name.clone()).collect(),
            families: families.to_vec(),
            device: device.name.clone(),
            devices,
            time_source: device.time_source(),
            budget_s: wall.as_secs_f64(),
            max_cost_usd,
            max_iterations,
            proposer: proposer.to_owned(),
            models: options.llm.models.iter().map(|(model, _)| model.clone()).collect(),
            winners: target::describe(target),
            commit_to: target.destination.as_ref().ok().map(|destination| destination.reference().to_owned()),
            store: store.to_owned(),
        }
    }

    /// Shows the plan on standard output, as JSON or as text.
    pub fn show(&self, json: bool, out: &mut impl Write) -> anyhow::Result<()> {
        let text = if json { serde_json::to_string(self)? + "\n" } else { self.text() };
        // A closed output is reported by the events.
        let _ = write!(out, "{text}").and_then(|()| out.flush());
        Ok(())
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let cases: Vec<&str> = self.cases.iter().map(CaseName::as_str).collect();
        let mut line = |label: &str, value: &str| text.push_str(&paragraph(label, LABEL, value));
        line("workload", &format!("{}: {} ({})", self.workload, counted(cases.len(), "case"), cases.join(", ")));
        line("families", &self.families());
        let devices =
            if self.devices > 1 { format!("{} of {}", self.devices, self.device) } else { self.device.clone() };
        line("device", &format!("{devices}; times are {}", self.time_source.name()));
        line("budget", &self.budget());
        let models =
            if self.models.is_empty() { String::new() } else { format!(", which may ask {}", self.models.join(", ")) };
        line("proposer", &format!("{}{models}", self.proposer));
        line("winners", &self.winners);
        line("record", &format!("{}; the report follows at the end", self.store.display()));
        text
    }

    /// Describes the families by the cases that they take. Those of other ops are only counted.
    fn families(&self) -> String {
        let family = |Coverage { family, cases }: &Coverage| match cases.len() {
            all if all == self.cases.len() => family.clone(),
            some => format!("{family} ({some} of {} cases)", self.cases.len()),
        };
        let taking: Vec<String> = self.families.iter().filter(|family| !family.cases.is_empty()).map(family).collect();
        let others = match self.families.len() - taking.len() {
            0 => String::new(),
            1 => "; 1 other takes none of the cases (optloop list)".to_owned(),
            others => format!("; {others} others take none of the cases (optloop list)"),
        };
        format!("{}{others}", taking.join(", "))
    }

    fn budget(&self) -> String {
        let cost = self.max_cost_usd.map(|most| format!(", at most {}", format::usd(most)));
        let iterations = self.max_iterations.map(|most| format!(", at most {}", counted(most as usize, "iteration")));
        let whole = humantime::format_duration(std::time::Duration::from_secs_f64(self.budget_s.round().max(0.0)));
        format!("{whole}{}{}", cost.unwrap_or_default(), iterations.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::terminal::paragraph::WIDTH;

    fn plan() -> Plan {
        let cases = |names: &[&str]| names.iter().map(|name| CaseName::from(*name)).collect::<Vec<_>>();
        let all = ["b1h1s4d4", "b1h1s64", "b1h1s128", "b1h1s256", "b1h1s512", "b8h8s128", "b16h8s512"];
        let family = |name: &str, names: &[&str]| Coverage { family: name.to_owned(), cases: cases(names) };
        Plan {
            workload: "attention-fp16-d64".to_owned(),
            cases: cases(&all),
            families: vec![family("scalar", &all), family("wgmma", &all[3..]), family("sm100", &[])],
            device: "NVIDIA H200".to_owned(),
            devices: 1,
            time_source: TimeSource::Measured,
            budget_s: 14_400.0,
            max_cost_usd: Some(5.0),
            max_iterations: Some(100),
            proposer: "llm".to_owned(),
            models: vec!["large".to_owned(), "small".to_owned()],
            winners: "one commit at the end, to branch main of /home/ada/kernels, which is checked out".to_owned(),
            commit_to: Some("refs/heads/main".to_owned()),
            store: PathBuf::from("/home/ada/kernels/.optloop/optloop.db"),
        }
    }

    #[test]
    fn a_plan_fits_eighty_columns() {
        let text = plan().text();
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        insta::assert_snapshot!(text, @"
        workload  attention-fp16-d64: 7 cases (b1h1s4d4, b1h1s64, b1h1s128, b1h1s256,
                  b1h1s512, b8h8s128, b16h8s512)
        families  scalar, wgmma (4 of 7 cases); 1 other takes none of the cases
                  (optloop list)
        device    NVIDIA H200; times are measured
        budget    4h, at most $5.00, at most 100 iterations
        proposer  llm, which may ask large, small
        winners   one commit at the end, to branch main of /home/ada/kernels, which is
                  checked out
        record    /home/ada/kernels/.optloop/optloop.db; the report follows at the end
        ");
    }

    #[test]
    fn a_plan_without_limits_names_none() {
        let mut plan = plan();
        (plan.max_cost_usd, plan.max_iterations, plan.models, plan.cases) = (None, None, Vec::new(), Vec::new());
        plan.cases.push("s64".into());
        let text = plan.text();
        assert!(text.contains("budget    4h\n") && text.contains("proposer  llm\n"), "{text}");
        assert!(text.contains("1 case (s64)"), "{text}");
    }
}
