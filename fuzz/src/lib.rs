//! What several fuzz targets expect.

use std::fmt::Display;

/// Expects that a text was refused in one sentence.
///
/// # Panics
/// If it is empty, or has several lines.
pub fn expect_one_sentence(problem: &impl Display) {
    let problem = problem.to_string();
    assert!(!problem.is_empty() && !problem.contains('\n'), "{problem:?}");
}
