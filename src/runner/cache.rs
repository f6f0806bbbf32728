//! A cache of compiled artifacts, kept between sessions. The key covers everything that determines them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::domain::code::artifact::Artifact;

/// A folder of compiled variants. Losing it costs time, never correctness.
pub struct ArtifactCache {
    folder: PathBuf,
}

impl ArtifactCache {
    /// Makes a cache in `folder`, which is created on the first write.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Returns the key of a compilation: a hash over source, options, architecture, NVRTC version and headers.
    pub fn key(source: &str, options: &[String], arch: &str, nvrtc: &str, headers: &str) -> String {
        let mut hasher = blake3::Hasher::new();
        let parts = [source, arch, nvrtc, headers].into_iter().chain(options.iter().map(String::as_str));
        for part in parts {
            // The length keeps ("ab", "c") and ("a", "bc") apart.
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        hasher.finalize().to_hex()[..32].to_owned()
    }

    /// Returns the artifact under `key`. A damaged file counts as missing.
    pub fn get(&self, key: &str) -> Option<Artifact> {
        let bytes = fs::read(self.path(key)).ok()?;
        let artifact: Artifact = rmp_serde::from_slice(&bytes).ok()?;
        (artifact.key == key).then_some(Artifact { compile_ms: 0.0, ..artifact })
    }

    /// Keeps an artifact. A failed write is logged once and otherwise ignored.
    pub fn put(&self, artifact: &Artifact) {
        if let Err(error) = self.write(artifact) {
            tracing::warn!("the artifact cache in {} cannot be written: {error}", self.folder.display());
        }
    }

    fn write(&self, artifact: &Artifact) -> std::io::Result<()> {
        let path = self.path(&artifact.key);
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let bytes = rmp_serde::to_vec_named(artifact).map_err(std::io::Error::other)?;
        // Written to a temporary file and renamed, so that a reader never sees half a file.
        let staged = folder.join(format!(".{}-{:?}", std::process::id(), std::thread::current().id()));
        fs::write(&staged, bytes)?;
        fs::rename(&staged, &path)
    }

    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(&key[..2]).join(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact(key: &str) -> Artifact {
        Artifact {
            key: key.to_owned(),
            arch: "sm_90a".to_owned(),
            options: vec![],
            nvrtc: "13.0".to_owned(),
            cubin: vec![0x7f, b'E', b'L', b'F', 0, 255],
            ptx: ".version 9.0".to_owned(),
            kernels: vec![],
            log: String::new(),
            compile_ms: 120.0,
        }
    }

    #[test]
    fn an_artifact_comes_back_without_its_compile_time_and_a_damaged_one_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let cache = ArtifactCache::new(folder.path().join("artifacts"));
        let key = ArtifactCache::key("source", &[], "sm_90a", "13.0", "id");
        assert_eq!(cache.get(&key), None);
        cache.put(&artifact(&key));
        assert_eq!(cache.get(&key), Some(Artifact { compile_ms: 0.0, ..artifact(&key) }));
        fs::write(cache.path(&key), b"half a fi").unwrap();
        assert_eq!(cache.get(&key), None);
    }

    #[test]
    fn everything_that_shapes_an_artifact_changes_its_key() {
        let key = |source, option: &str, arch, nvrtc, headers| {
            ArtifactCache::key(source, &[option.to_owned()], arch, nvrtc, headers)
        };
        let keys = [
            key("a", "b", "c", "d", "e"),
            key("A", "b", "c", "d", "e"),
            key("a", "B", "c", "d", "e"),
            key("a", "b", "C", "d", "e"),
            key("a", "b", "c", "D", "e"),
            key("a", "b", "c", "d", "E"),
            key("ab", "", "c", "d", "e"),
        ];
        let unique: std::collections::HashSet<_> = keys.iter().collect();
        assert_eq!(unique.len(), keys.len());
    }
}
