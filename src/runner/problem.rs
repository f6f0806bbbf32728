//! Runs a problem in PyTorch (`Model`, `get_inputs`, `get_init_inputs`), as confined as an oracle, and tells what it computes.

use std::path::Path;

use serde_json::json;

use super::examined;
use crate::error::{Result, error};

/// The program that examines the problem: one text, because it runs without a folder of its own.
const DRIVER: &str = concat!(
    include_str!("problem/program.py"),
    include_str!("problem/source.py"),
    include_str!("problem/trace.py"),
    include_str!("problem/sizes.py"),
    include_str!("problem/calls.py"),
    include_str!("problem/told.py"),
);

/// What the text of each oracle ends with.
const SUPPORT: &str = include_str!("problem/support.py");

/// The file with the sizes of the cases, beside the problem.
const SHAPES: &str = "shapes.py";

/// The file with what the problem's own checks allow, beside it.
const SETTINGS: &str = "problem.yaml";

/// Returns the tensors, the sizes and the oracle of a problem as JSON text. `given` are the inputs whose contents the user says.
/// The error is one sentence.
pub fn examined_problem(file: &Path, given: &[&str], python: &str) -> Result<String> {
    let file = file.canonicalize().map_err(|error| error!("{} cannot be read: {error}", file.display()))?;
    let shapes = file.with_file_name(SHAPES);
    let shapes = shapes.is_file().then_some(shapes);
    let settings = file.with_file_name(SETTINGS);
    let settings = settings.is_file().then_some(settings);
    let request = json!({ "file": file, "shapes": shapes, "settings": settings, "support": SUPPORT, "given": given });
    examined::told(DRIVER, &file, &request, python)
}
