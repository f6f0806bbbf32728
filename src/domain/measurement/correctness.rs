//! How correct an output is.

use serde::{Deserialize, Serialize};

/// How close an output came to the float64 oracle. Errors are relative to the scale of the output.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Correctness {
    /// `‖out − ref‖₂ / ‖ref‖₂`, with the oracle's output as `ref`.
    pub relative_l2: f64,
    /// The same for the worst row.
    pub worst_row: f64,
    /// Rows compared with the oracle.
    pub rows_checked: usize,
    /// Rows of the output. Every row is scanned for NaN, Inf and unwritten elements.
    pub rows: usize,
}
