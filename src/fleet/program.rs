//! Which build of optloop this is. Two builds may check or time differently, so a session uses only workers of its own.

use std::fs::File;
use std::sync::OnceLock;

use anyhow::Context;

/// Hexadecimal digits of a build's name.
const DIGITS: usize = 16;

/// Returns the name of this program's build: the hash of its file.
pub fn build() -> anyhow::Result<&'static str> {
    static BUILD: OnceLock<String> = OnceLock::new();
    if let Some(known) = BUILD.get() {
        return Ok(known);
    }
    let path = std::env::current_exe().context("Failed to find optloop's own executable")?;
    let mut hasher = blake3::Hasher::new();
    let file = File::open(&path).with_context(|| format!("Failed to open {}", path.display()))?;
    hasher.update_reader(file).with_context(|| format!("Failed to read {}", path.display()))?;
    let name = hasher.finalize().to_hex()[..DIGITS].to_owned();
    Ok(BUILD.get_or_init(|| name))
}
