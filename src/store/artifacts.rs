//! The store's records of compiled variants.

use serde::Serialize;
use sqlx::{Row, SqliteConnection};

use super::columns::{json, signed, text, to_json};
use super::{Store, StoreError};
use crate::domain::code::artifact::{Artifact, KernelResources};
use crate::domain::ids::IterationId;

/// A compiled variant without its CUBIN.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ArtifactRecord {
    /// The name in the cache.
    pub key: String,
    /// The architecture compiled for.
    pub arch: String,
    /// The NVRTC version.
    pub nvrtc: String,
    /// The options given to NVRTC.
    pub options: Vec<String>,
    /// What each kernel uses.
    pub kernels: Vec<KernelResources>,
    /// The compiler's log.
    pub log: String,
    /// How long the compiler took; 0 if the artifact came from the cache.
    pub compile_ms: f64,
    /// Size of the CUBIN.
    pub cubin_bytes: i64,
}

/// Records an artifact. The first record of a key stays, since the same key is the same artifact.
pub(super) async fn record(connection: &mut SqliteConnection, artifact: &Artifact) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO artifacts (key, arch, nvrtc, options, kernels, log, compile_ms, cubin_bytes)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO NOTHING",
    )
    .bind(&artifact.key)
    .bind(&artifact.arch)
    .bind(&artifact.nvrtc)
    .bind(to_json("options", &artifact.options)?)
    .bind(to_json("kernels", &artifact.kernels)?)
    .bind(text(&artifact.log))
    .bind(artifact.compile_ms)
    .bind(signed("size", artifact.cubin.len())?)
    .execute(connection)
    .await?;
    Ok(())
}

impl Store {
    /// Reads the artifact of an iteration. None if it has none.
    pub(super) async fn artifact_of(&self, iteration: IterationId) -> Result<Option<ArtifactRecord>, StoreError> {
        let row = sqlx::query("SELECT a.* FROM artifacts a JOIN iterations i ON i.artifact_key = a.key WHERE i.id = ?")
            .bind(iteration)
            .fetch_optional(&self.pool)
            .await?;
        row.map(|row| {
            Ok(ArtifactRecord {
                key: row.try_get("key")?,
                arch: row.try_get("arch")?,
                nvrtc: row.try_get("nvrtc")?,
                options: json(&row, "options")?,
                kernels: json(&row, "kernels")?,
                log: row.try_get("log")?,
                compile_ms: row.try_get("compile_ms")?,
                cubin_bytes: row.try_get("cubin_bytes")?,
            })
        })
        .transpose()
    }
}
