//! The compiler of a verb.

use anyhow::Context;

use super::own_executable;
use crate::config::Config;
use crate::error::usage_sentence;
use crate::runner::activity::{self, Limit};
use crate::runner::compile::Compiler;
use crate::runner::toolchain::Toolchain;

/// Finds NVRTC, or fetches it. That takes minutes on a slow network, and a signal ends it.
pub async fn toolchain() -> anyhow::Result<Toolchain> {
    tokio::task::spawn_blocking(Toolchain::find_or_fetch).await.context("Failed to look for NVRTC")?
}

/// Makes the compiler of a verb that measures by hand.
pub async fn open(arch: &str, config: &Config) -> anyhow::Result<Compiler> {
    Compiler::new(own_executable()?, toolchain().await?, arch, &config.compile.options, config.compile_limits())
}

/// Makes the compiler of a session, and refuses options that it does not know.
pub async fn start(arch: &str, config: &Config) -> anyhow::Result<Compiler> {
    let (toolchain, limits) = (toolchain().await?, config.compile_limits());
    let _starting = activity::begin("starting the compiler", Limit::new("compile.timeout", limits.timeout));
    let compiler = Compiler::new(own_executable()?, toolchain, arch, &config.compile.options, limits)?;
    compiler.probe().map_err(|problem| usage_sentence(format!("compile.options in config.toml: {problem}")))?;
    Ok(compiler)
}
