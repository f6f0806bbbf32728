//! `optloop show --sass`: the machine code of an iteration, below the lines of the source that it comes from.

use std::io::Write;

use crate::catalog::Project;
use crate::config::Config;
use crate::domain::variant::Variant;
use crate::error::{usage, usage_sentence};
use crate::launch::compiler::toolchain;
use crate::launch::own_executable;
use crate::runner::compile::Compiler;
use crate::runner::sass::{self, Lines};
use crate::store::IterationDetail;

/// Prints the machine code that comes from some lines of an iteration's source.
pub(super) async fn print(
    project: &Project,
    detail: &IterationDetail,
    lines: Lines,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let id = detail.iteration.id;
    let Some(artifact) = &detail.artifact else {
        return Err(usage_sentence(format!("iteration {id} did not compile, so it has no machine code")));
    };
    let config = Config::load(project.root()).map_err(usage)?;
    let limits = config.compile_limits();
    let compiler = Compiler::new(own_executable()?, toolchain().await?, &artifact.arch, &artifact.options, limits)?;
    let (family, params) = (detail.iteration.family.clone(), detail.iteration.params.clone());
    let variant = Variant { family, params, hash: detail.iteration.hash.clone(), source: detail.source.clone() };
    let listing = sass::of_variant(compiler, variant, lines).await;
    let listing = listing.map_err(|reason| usage_sentence(format!("iteration {id}: {reason}")))?;
    write!(out, "{listing}")?;
    Ok(())
}
