//! Corpus entries: the kernels of the audit's corpus. Each is one file with a family's manifest in its first comment.
//!
//! Code that many entries share is in preludes. An entry names its preludes, which are put before its own source.

use serde::{Deserialize, Serialize};

use super::device::regime::Regime;
use super::device::{DeviceInfo, TimeSource};
use super::family::Family;
use super::measurement::check::Check;
use super::measurement::evaluation::Outcome;
use super::op::Dims;
use super::text::toml_text;
use super::workload::{Case, Workload};
use crate::error::{Error, error};

/// The audit's answer for a kernel that no check caught.
pub const PASSED: &str = "passed";

/// The manifest keys that follow from the corpus entry: a family of one kernel, one configuration, one dtype.
const FILLED_IN: [&str; 4] = ["name", "op", "dtypes", "params"];

/// The lowest architecture of a corpus entry that names none: the oldest that optloop supports.
const OLDEST_SM: i64 = 80;

/// The outcomes that catch a kernel without checking its output.
const WITHOUT_CHECK: [&str; 4] = ["rejected_by_compiler", "crashed", "timed_out", "out_of_memory"];

/// What kind of kernel a corpus entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EntryKind {
    /// Looks correct or fast on purpose, but is not.
    Cheat,
    /// Has a bug.
    Broken,
    /// Looks suspicious but is correct.
    Honest,
}

impl EntryKind {
    /// Returns the word that the audit prints.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cheat => "cheat",
            Self::Broken => "broken",
            Self::Honest => "honest",
        }
    }
}

/// A kernel of the corpus with its expected answers.
#[derive(Debug, Clone)]
pub struct CorpusEntry {
    /// Name; its file is called the same.
    pub name: String,
    /// A description in one sentence.
    pub about: String,
    /// What kind of kernel it is.
    pub kind: EntryKind,
    /// Its numbers in the list of cheats in docs/audit.md.
    pub cheats: Vec<u32>,
    /// The expected answers: an outcome's kind, with the check that caught the kernel if one did. Empty for an honest
    /// kernel.
    pub caught_by: Vec<String>,
    /// A copy of the named workload with the corpus entry's own case alone.
    pub workload: Workload,
    /// The kernel as a family without parameters.
    pub family: Family,
    not_modelled: Option<String>,
    not_measured: Option<String>,
}

#[derive(Deserialize)]
struct Header {
    about: String,
    kind: EntryKind,
    #[serde(default)]
    cheats: Vec<u32>,
    #[serde(default)]
    caught_by: Vec<String>,
    not_modelled: Option<String>,
    not_measured: Option<String>,
    workload: String,
    #[serde(default)]
    regime: Regime,
    case: Dims,
    #[serde(default)]
    prelude: Vec<String>,
    /// All other keys belong to the family's manifest.
    #[serde(flatten)]
    manifest: toml::Table,
}

impl CorpusEntry {
    /// Parses a file. `find_workload` and `find_prelude` return a workload and the text of a prelude by name. Errors
    /// are one sentence without the file's name.
    pub fn parse(
        name: &str,
        text: &str,
        find_workload: impl Fn(&str) -> Result<Workload, Error>,
        find_prelude: impl Fn(&str) -> Result<String, Error>,
    ) -> Result<Self, Error> {
        let (header, source) = text
            .strip_prefix("/*")
            .and_then(|rest| rest.split_once("*/"))
            .ok_or("it does not begin with a comment `/* … */` that contains its manifest as TOML")?;
        // TOML starts on the comment's first line, so line numbers in its messages are right for the file.
        let header: Header = toml_text::parse(header)?;
        header.check()?;
        let workload = find_workload(&header.workload)?.with_case(name, header.regime, header.case.clone())?;
        let manifest = header.manifest_for(name, &workload)?;
        let mut template = String::new();
        for prelude in &header.prelude {
            template += &find_prelude(prelude)?;
            template += "\n";
        }
        template += source.trim_start();
        // Line numbers in these messages would refer to the combined text.
        let family = Family::parse_with_op(&manifest, template, |_| Ok(workload.op))
            .map_err(|mistakes| mistakes.iter().map(|mistake| without_line(mistake)).collect::<Vec<_>>().join("; "))?;
        let Header { about, kind, cheats, caught_by, not_modelled, not_measured, .. } = header;
        let name = name.to_owned();
        Ok(Self { name, about, kind, cheats, caught_by, workload, family, not_modelled, not_measured })
    }

    /// Returns the corpus entry's case.
    pub fn case(&self) -> &Case {
        &self.workload.cases[0]
    }

    /// Returns why a device cannot show what the corpus entry is for; none if it can.
    pub fn not_on(&self, device: &DeviceInfo) -> Option<&str> {
        if device.sm < self.family.requires_sm {
            return Some("the device is older than the kernel");
        }
        match device.time_source() {
            TimeSource::Modelled => self.not_modelled.as_deref(),
            TimeSource::Measured => self.not_measured.as_deref(),
            TimeSource::Recorded => Some("a recording executes nothing"),
        }
    }

    /// Tells whether an answer is among the expected ones.
    pub fn expects(&self, answer: &str) -> bool {
        match self.kind {
            EntryKind::Honest => answer == PASSED,
            EntryKind::Cheat | EntryKind::Broken => self.caught_by.iter().any(|expected| expected == answer),
        }
    }
}

impl Header {
    fn check(&self) -> Result<(), Error> {
        match (self.kind, self.caught_by.is_empty()) {
            (EntryKind::Honest, false) => {
                return Err(Error::new("an honest kernel must not have `caught_by`").hint("remove it"));
            }
            (EntryKind::Cheat | EntryKind::Broken, true) => {
                return Err(Error::new("`caught_by` is missing").hint("list the expected answers"));
            }
            _ => {}
        }
        if let Some(answer) = self.caught_by.iter().find(|answer| !is_answer(answer)) {
            let checks = Check::ALL.map(Check::name).join(", ");
            return Err(error!(
                "`caught_by`: `{answer}` is not an answer; use {}, or wrong/CHECK and cheated/CHECK with one of \
                 {checks}",
                WITHOUT_CHECK.join(", ")
            ));
        }
        match FILLED_IN.iter().find(|key| self.manifest.contains_key(**key)) {
            Some(key) => Err(error!("`{key}` is derived from the file and its workload").hint("remove it")),
            None => Ok(()),
        }
    }

    /// Assembles the manifest of a family.
    fn manifest_for(&self, name: &str, workload: &Workload) -> Result<String, Error> {
        let mut manifest = toml::Table::new();
        manifest.insert("name".to_owned(), name.into());
        manifest.insert("about".to_owned(), self.about.clone().into());
        manifest.insert("op".to_owned(), workload.op.name().into());
        manifest.insert("dtypes".to_owned(), vec![workload.dtype.name()].into());
        manifest.insert("requires_sm".to_owned(), OLDEST_SM.into());
        manifest.insert("params".to_owned(), toml::Table::new().into());
        manifest.extend(self.manifest.clone());
        toml::to_string(&manifest).map_err(Error::new)
    }
}

/// Describes an outcome in the format of `caught_by`.
pub fn answer(outcome: &Outcome) -> String {
    match (outcome, outcome.check()) {
        (Outcome::Measured, _) => PASSED.to_owned(),
        (_, None) => outcome.kind().to_owned(),
        (_, Some(check)) => format!("{}/{}", outcome.kind(), check.name()),
    }
}

fn is_answer(text: &str) -> bool {
    match text.split_once('/') {
        None => WITHOUT_CHECK.contains(&text),
        Some((kind, check)) => {
            ["wrong", "cheated"].contains(&kind) && Check::ALL.iter().any(|known| known.name() == check)
        }
    }
}

fn without_line(message: &str) -> String {
    let rest = message.strip_prefix("line ").and_then(|rest| rest.split_once(": "));
    rest.map_or(message, |(_, rest)| rest).to_owned()
}
