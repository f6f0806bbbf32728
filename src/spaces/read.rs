//! Reads a recorded space from a file of any supported format.

use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::error::Category;

use super::decompress::json_bytes;
use super::kernel_tuner::Cache;
use super::space::RecordedSpace;
use super::t4::Results;
use crate::domain::text::escape::is_unsafe;
use crate::error::{Error, error};

/// The longest name for display.
const MAX_NAME_CHARS: usize = 60;

/// The keys that distinguish the formats.
#[derive(Deserialize)]
struct Keys {
    cache: Option<IgnoredAny>,
    results: Option<IgnoredAny>,
    #[serde(rename = "ConfigurationSpace")]
    configuration_space: Option<IgnoredAny>,
}

/// Reads a recorded space: a cache of Kernel Tuner or T4 results, as JSON that may be compressed with gzip. The error is
/// one sentence that names the file.
pub fn read(path: &Path) -> Result<RecordedSpace, Error> {
    read_with_hash(path).map(|(space, _)| space)
}

/// Like [`read`]. Also returns the BLAKE3 hash of the JSON, which stays the same if the file is compressed.
pub fn read_with_hash(path: &Path) -> Result<(RecordedSpace, blake3::Hash), Error> {
    let read = json_bytes(path).and_then(|bytes| Ok((parse(&name_of(path), &bytes)?, blake3::hash(&bytes))));
    read.map_err(|problem| problem.within(path.display()))
}

/// Parses the JSON text of a recorded space. The error is one sentence.
pub fn parse(name: &str, json: &[u8]) -> Result<RecordedSpace, Error> {
    let keys: Keys = serde_json::from_slice(json).map_err(|error| match error.classify() {
        Category::Eof => {
            format!("its JSON ends too early, {}: a cache of an unfinished run lacks the last `}}}}`", at(&error))
        }
        Category::Data => "it is JSON, but not an object with `cache` (Kernel Tuner) or `results` (T4)".to_owned(),
        _ => format!("it is not JSON: {error}"),
    })?;
    let space = if keys.cache.is_some() {
        let cache: Cache = serde_json::from_slice(json).map_err(|error| error!("as a Kernel Tuner cache, {error}"))?;
        cache.into_space(name)?
    } else if keys.results.is_some() {
        let results: Results = serde_json::from_slice(json).map_err(|error| error!("as T4 results, {error}"))?;
        results.into_space(name)?
    } else if keys.configuration_space.is_some() {
        return Err(
            Error::new("it is a T1 file, which defines a space without times").hint("name a file with results (T4)")
        );
    } else {
        return Err(Error::new("it has neither `cache` (Kernel Tuner) nor `results` (T4)"));
    };
    let shown = |text: Option<String>| text.as_deref().map(printable).filter(|text| !text.is_empty());
    Ok(RecordedSpace { kernel: shown(space.kernel), device: shown(space.device), ..space })
}

fn at(error: &serde_json::Error) -> String {
    format!("at line {}, column {}", error.line(), error.column())
}

/// Returns the name of a space: the file's name without `.json` and `.gz`.
fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    printable(name.trim_end_matches(".gz").trim_end_matches(".json"))
}

/// Returns text for display: shortened, and without control characters.
fn printable(text: &str) -> String {
    text.chars().filter(|c| !is_unsafe(*c)).take(MAX_NAME_CHARS).collect()
}
