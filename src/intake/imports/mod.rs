//! Reads files of other tools: T1 files and scripts of Kernel Tuner, and definitions of flashinfer-bench.
//!
//! Each becomes a source and a [`Wanted`], as if a user had called `optloop add` with options.

mod default_values;
mod definition;
mod extents;
mod function;
mod machine_code;
mod problem;
mod python;
mod script;
mod t1;
mod tuning;

pub use definition::{Definition, definition, workloads};
pub use machine_code::{MachineCodeHead, machine_code};
pub use problem::{Problem, ProblemTexts, problem};
pub use script::script;
pub use t1::t1;
pub use tuning::{Tuning, TuningSource};

use super::Wanted;

/// What a file says about a kernel.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Imported {
    /// The text of the source, with a definition of each tunable before it.
    pub source: String,
    /// The lines before the user's own text.
    pub lines_before: usize,
    /// The name of the kernel. None if the file does not say it.
    pub kernel: Option<String>,
    /// What the source cannot say.
    pub wanted: Wanted,
    /// The text of the oracle. None if the file has none.
    pub oracle: Option<String>,
    /// Why the file has no oracle, if it could have had one.
    pub no_oracle: Option<String>,
    /// What was understood differently, or ignored, as sentences.
    pub notes: Vec<String>,
}
