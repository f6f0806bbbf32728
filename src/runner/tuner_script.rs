//! Runs a Python script of Kernel Tuner up to its call of `tune_kernel`, as confined as an oracle.
//!
//! Scripts compute their parameters, arguments and answers, so reading them without running them would understand few of
//! them. No kernel is run: the script gets a module `kernel_tuner` that only records the call.

use std::path::Path;

use serde_json::json;

use super::examined;
use crate::error::{Result, error};

/// The program that runs the script.
const DRIVER: &str = include_str!("tuner_script/driver.py");

/// Returns the call as JSON text. `arguments` are those of the script, and `kernel` names the kernel, if the script tunes several. The error is one sentence.
pub fn recorded_call(script: &Path, arguments: &[String], kernel: Option<&str>, python: &str) -> Result<String> {
    let script = script.canonicalize().map_err(|error| error!("{} cannot be read: {error}", script.display()))?;
    let request = json!({ "file": script, "arguments": arguments, "kernel": kernel });
    examined::told(DRIVER, &script, &request, python)
}
