//! When a warp's instructions can issue, and what each costs.

mod cache;
mod latency;
mod prepared;
mod scoreboard;
mod supposition;

pub use cache::{Cache, LINE_BYTES, SECTOR_BYTES};
pub use latency::{Cost, Pipe, cost};
pub use prepared::{Effect, Layout, Prepared};
pub use scoreboard::{Scoreboard, Times, Totals};
pub use supposition::Supposition;
