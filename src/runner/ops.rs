//! Finds the ops of requests, with oracles that run here.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

use super::oracle;
use crate::domain::device::DeviceInfo;
use crate::domain::op::{DeclaredSource, Op, OpSource};
use crate::error::{Error, Result};
use crate::ops::{self, Declared};

/// What a declared op is made of: its files, and the device on which an oracle in CUDA runs.
type Key = (DeclaredSource, Option<String>);

/// The declared ops of this process. They live as long as it, like optloop's own.
static DECLARED: LazyLock<Mutex<HashMap<Key, &'static Declared>>> = LazyLock::new(Mutex::default);

/// Returns the op of a source for a process that holds a device. The error is one sentence.
pub fn of(source: &OpSource, device: &DeviceInfo) -> Result<&'static dyn Op> {
    match source {
        OpSource::BuiltIn(name) => ops::find(name),
        OpSource::Declared(source) => found(source, Some(device)).map_err(|mistakes| Error::of_all(&mistakes)),
    }
}

/// Returns the op that a project declares with these files. Without a device, an oracle in CUDA cannot be called. The error
/// has a sentence for each mistake.
pub fn declared(source: &DeclaredSource) -> Result<&'static dyn Op, Vec<String>> {
    found(source, None)
}

fn found(source: &DeclaredSource, device: Option<&DeviceInfo>) -> Result<&'static dyn Op, Vec<String>> {
    let mut known = DECLARED.lock().expect("nothing panics while it is locked");
    let key = (source.clone(), device.map(|device| device.id.clone()));
    if let Some(op) = known.get(&key) {
        return Ok(*op);
    }
    let oracle = oracle::of(source, device)?;
    let op: &'static Declared = Box::leak(Box::new(Declared::parse(source.clone(), Box::new(oracle))?));
    known.insert(key, op);
    Ok(op)
}
