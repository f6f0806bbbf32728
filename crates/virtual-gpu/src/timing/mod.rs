//! The timing model: counters and a launch's shape to a *modelled* time.

mod cache;
mod latency;
mod model;
mod occupancy;
mod prepared;
mod scoreboard;

pub use cache::{Cache, LINE_BYTES, SECTOR_BYTES};
pub use latency::{Cost, Pipe, cost};
pub use model::model;
pub use occupancy::{Occupancy, occupancy};
pub use prepared::{Effect, Layout, Prepared};
pub use scoreboard::{Scoreboard, Times, Totals};

/// What the model needs beside the counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shape {
    /// Blocks of the grid.
    pub blocks: u64,
    /// Threads of a block.
    pub threads: u32,
    /// Registers per thread, from ptxas.
    pub registers: u32,
    /// Shared memory of a block, static and dynamic, in bytes.
    pub shared_bytes: u32,
    /// Blocks of a cluster.
    pub cluster_blocks: u32,
    /// Bytes that each thread's spilled registers move, counted once per place in the code, from ptxas: PTX has none.
    pub spill_bytes: u32,
}

/// What bounds a modelled time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Limiter {
    Issue,
    Tensor,
    Fma,
    Alu,
    Mufu,
    Shared,
    L2,
    Hbm,
    Latency,
    Launch,
}

/// A modelled time.
#[derive(Debug, Clone, PartialEq)]
pub struct Modelled {
    /// Time of one launch, back to back with others, in nanoseconds.
    pub time_ns: f64,
    /// What bounds it.
    pub limiter: Limiter,
    /// Blocks resident on a multiprocessor.
    pub blocks_per_multiprocessor: u32,
    /// Time of each part if it were alone, in nanoseconds.
    pub parts_ns: Vec<(Limiter, f64)>,
}
