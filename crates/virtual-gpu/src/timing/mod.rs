//! When the instructions of a warp can issue, and what each of them costs.

mod cache;
mod latency;
mod prepared;
mod scoreboard;

pub use cache::{Cache, LINE_BYTES, SECTOR_BYTES};
pub use latency::{Cost, Pipe, cost};
pub use prepared::{Effect, Layout, Prepared};
pub use scoreboard::{Scoreboard, Times, Totals};
