//! Finds the ops of requests, with oracles that run here.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

use super::oracle::PythonOracle;
use crate::domain::op::{DeclaredSource, Op, OpSource};
use crate::ops::{self, Declared};

/// The declared ops of this process. They live as long as it, like optloop's own.
static DECLARED: LazyLock<Mutex<HashMap<DeclaredSource, &'static Declared>>> = LazyLock::new(Mutex::default);

/// Returns the op of a source. The error is one sentence.
pub fn of(source: &OpSource) -> Result<&'static dyn Op, String> {
    match source {
        OpSource::BuiltIn(name) => ops::find(name),
        OpSource::Declared(source) => declared(source).map_err(|mistakes| mistakes.join("; ")),
    }
}

/// Returns the op that a project declares with these files. The error has a sentence for each mistake.
pub fn declared(source: &DeclaredSource) -> Result<&'static dyn Op, Vec<String>> {
    let mut known = DECLARED.lock().expect("nothing panics while it is locked");
    if let Some(op) = known.get(source) {
        return Ok(*op);
    }
    let oracle = PythonOracle::new(source.oracle.clone(), source.python.clone());
    let op: &'static Declared = Box::leak(Box::new(Declared::parse(source.clone(), Box::new(oracle))?));
    known.insert(source.clone(), op);
    Ok(op)
}
