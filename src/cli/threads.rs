//! The threads of a process: one per core for tasks, and one per core for computation.
//!
//! Both numbers are given explicitly. tokio and rayon would otherwise read them from `TOKIO_WORKER_THREADS` and
//! `RAYON_NUM_THREADS`. tokio panics at 0, and rayon starts as many threads as it is told to, so a mistake there would
//! stop optloop.

use anyhow::Context;
use tokio::runtime::{Builder, Runtime};

/// Returns the number of cores that this process may use.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}

/// Starts the runtime of a process that waits for others.
pub fn runtime() -> anyhow::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(cores()).enable_all().build().context("Failed to start the runtime")
}

/// Has parallel computation use one thread per core. Called once, before anything is computed.
pub fn compute_on_every_core() -> anyhow::Result<()> {
    let threads = rayon::ThreadPoolBuilder::new().num_threads(cores());
    threads.build_global().context("Failed to start the threads of this process")
}
