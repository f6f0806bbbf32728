//! The state of the caches in which a time is taken.

use serde::{Deserialize, Serialize};

/// Whether a plan finds its data in L2. Times of the two are never compared: eager or cold timing of a small shape
/// says more about memory, warm graph replay more about the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Regime {
    /// The same buffers at every launch: what fits L2 is there.
    #[default]
    Warm,
    /// Sets of buffers in rotation, together over [`COLD_L2_SIZES`] times as large as L2: nothing is there.
    Cold,
}

/// How many times L2's size the rotated buffer sets have together. Three leave nothing of a set in a cache of any
/// replacement policy that prefers recent lines, with room to spare for the part that is pinned or hashed unevenly.
pub const COLD_L2_SIZES: u64 = 3;

impl Regime {
    /// Returns the word that the store and the reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Warm => "warm",
            Self::Cold => "cold",
        }
    }
}
