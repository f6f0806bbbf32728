//! The verbs of the command line, one file each. Stdout is data, stderr is talk.

pub mod history;
pub mod sessions;
pub mod show;
mod table;
