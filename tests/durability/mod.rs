//! Sessions that were killed or failed, and how they resume, on the fake device, through the command line.

mod disk;
mod git;
mod killed;
pub mod record;
mod resumed;
pub mod running;
