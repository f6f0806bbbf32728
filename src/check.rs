//! Checks families and workloads, and explains all that is wrong with them at once.
//!
//! A family is checked on each case of each workload that it takes: its default configuration is planned, rendered,
//! compiled, run and compared with the oracle. One mistake does not hide another, as far as that is possible.

mod lines;
mod running;
mod signature;
mod sources;
mod tunables;

use serde::Serialize;

use crate::domain::device::DeviceInfo;
use crate::domain::ids::CaseName;
use crate::domain::measurement::settings::Measuring;
use crate::domain::text::toml_text;
use crate::runner::compile::Compiler;
use crate::runner::renderer::Renderer;

pub use running::{check_oracle, judge, look_seed, seeds, wrong};
pub use sources::{Checked, Pair, Rejected, Runnable, check_sources, compiler_errors};
pub use tunables::code_without;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// It must be mended.
    Wrong,
    /// It is worth knowing.
    Note,
}

/// What a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// A file cannot be read, or has mistakes.
    Files,
    /// Which cases a family takes.
    Space,
    /// The launch plan cannot be filled in, or does not fit the kernel's parameters.
    Launch,
    /// The template does not render.
    Template,
    /// The source does not compile.
    Compiler,
    /// A parameter changes nothing.
    Tunable,
    /// The oracle does not work.
    Oracle,
    /// The kernel crashes, or its output is wrong.
    Run,
}

/// One thing that a check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// What it is about.
    pub stage: Stage,
    /// The workload, if it is about one.
    pub workload: Option<String>,
    /// The family, if it is about one.
    pub family: Option<String>,
    /// The cases, if it is about some only.
    pub cases: Vec<CaseName>,
    /// The file with the mistake, as a path below the project.
    pub file: Option<String>,
    /// The line of the file, counted from 1.
    pub line: Option<usize>,
    /// One sentence.
    pub message: String,
}

impl Finding {
    /// Makes a finding about the project as a whole.
    pub fn new(level: Level, stage: Stage, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { level, stage, workload: None, family: None, cases: Vec::new(), file: None, line: None, message }
    }

    /// Makes a finding of a sentence that may begin with its file and line.
    pub fn in_file(level: Level, file: &str, sentence: &str) -> Self {
        let sentence = sentence.strip_prefix(&format!("{file}: ")).unwrap_or(sentence);
        let (line, message) = toml_text::split_line(sentence);
        Self { file: Some(file.to_owned()), line, ..Self::new(level, Stage::Files, message) }
    }

    /// Returns the finding as a sentence that begins with its place.
    pub fn sentence(&self) -> String {
        let place = match (&self.file, self.line) {
            (Some(file), Some(line)) => format!("{file}, line {line}: "),
            (Some(file), None) => format!("{file}: "),
            (None, _) => String::new(),
        };
        let cases: Vec<&str> = self.cases.iter().map(CaseName::as_str).collect();
        let on = if cases.is_empty() { String::new() } else { format!(" ({})", cases.join(", ")) };
        format!("{place}{}{on}", self.message)
    }
}

/// What the checks of sources need.
#[derive(Clone)]
pub struct Tools {
    /// Renders templates.
    pub renderer: Renderer,
    /// Compiles for the device.
    pub compiler: Compiler,
    /// The device, whose limits constraints may use.
    pub device: DeviceInfo,
    /// How to measure.
    pub measuring: Measuring,
}
