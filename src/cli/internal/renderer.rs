//! `optloop renderer`: renders templates for a session.

use crate::runner::renderer::serve;

/// Serves until standard input ends.
pub fn run() -> anyhow::Result<()> {
    serve()
}
