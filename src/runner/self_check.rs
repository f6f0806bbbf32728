//! Makes workers check their devices.
//!
//! After a crash or a hang, a GPU may be unavailable for a moment, or permanently. Without a check, a new worker would
//! attribute that to the next variant.

use super::compile::{CompileError, Compiler};
use super::device::self_check::{KERNEL, SOURCE};
use super::worker::{Worker, WorkerError};
use crate::domain::code::artifact::Artifact;
use crate::domain::variant::{Params, Variant, VariantHash};

/// Why workers cannot be made to check themselves.
#[derive(Debug, thiserror::Error)]
pub enum ArmError {
    /// The self-check does not compile.
    #[error("the self-check of the device does not compile: {0}")]
    Compile(#[from] CompileError),
    /// The device fails it.
    #[error(transparent)]
    Worker(#[from] WorkerError),
}

/// Makes a worker check its device, now and whenever its process is replaced.
pub async fn arm(worker: &mut Worker, compiler: &Compiler) -> Result<(), ArmError> {
    Ok(worker.check_itself(compiled(compiler).await?).await?)
}

/// Compiles the self-check.
pub async fn compiled(compiler: &Compiler) -> Result<Artifact, CompileError> {
    let compiler = compiler.clone();
    let compiled = tokio::task::spawn_blocking(move || compiler.compile(&variant())).await;
    compiled.map_err(|error| CompileError::Broken(error.to_string()))?
}

/// Returns the kernel as a variant for the compiler.
pub(super) fn variant() -> Variant {
    let source = SOURCE.to_owned();
    Variant { family: KERNEL.to_owned(), params: Params::new(), hash: VariantHash::of(&source), source }
}
