//! Recorded search spaces: which configurations a kernel has, and how long each took or why it failed.
//!
//! They come from files of other tuners or from sessions, and proposers search them without a GPU (docs/simulate.md).

mod decompress;
mod kernel_tuner;
mod of_session;
mod read;
mod scalar;
mod searchable;
mod space;
mod t1;
mod t4;
#[cfg(test)]
mod tests;

pub use of_session::{chosen, of_session};
pub use read::{parse, read, read_with_hash};
pub use searchable::{Searchable, workload};
pub use space::{Configuration, Failure, Parameter, RecordedSpace, Recording};
pub use t1::t1;

/// A file format that recorded spaces are exported to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A cache of Kernel Tuner.
    KernelTuner,
    /// T4, the results format of the autotuning community.
    T4,
}

/// Writes a space as JSON text.
pub fn write(space: &RecordedSpace, format: Format) -> String {
    let json = match format {
        Format::KernelTuner => serde_json::to_string(&kernel_tuner::Cache::of(space)),
        Format::T4 => serde_json::to_string(&t4::Results::of(space)),
    };
    json.expect("names, numbers and texts are JSON")
}
