//! Compiles a kernel once more, so that its PTX names the lines of its source.

use crate::domain::variant::Variant;
use crate::runner::compile::Compiler;

/// A kernel's source, and its PTX with the lines of its instructions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lined {
    /// The source.
    pub source: String,
    /// The PTX. Its instructions are those of the PTX without lines.
    pub ptx: String,
}

impl Lined {
    /// Compiles a variant with lines, or takes it from the cache. None if that fails: the kernel can be ablated without lines.
    pub async fn of(compiler: Compiler, variant: &Variant) -> Option<Self> {
        let variant = variant.clone();
        let compile = move || (compiler.compile_with_lines(&variant), variant.source);
        let (artifact, source) = tokio::task::spawn_blocking(compile).await.ok()?;
        match artifact {
            Ok(artifact) => Some(Self { source, ptx: artifact.ptx }),
            Err(error) => {
                tracing::debug!("a kernel has no lines: {error}");
                None
            }
        }
    }
}
