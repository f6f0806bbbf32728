//! The verbs that optloop starts itself, each as a child process.

pub mod compiler;
pub mod confined;
pub mod guard;
pub mod oracle;
pub mod profiled;
pub mod renderer;
