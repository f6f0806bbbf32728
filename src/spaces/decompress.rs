//! Reads a file within limits, and decompresses it.

use crate::error::{Error, error};
use std::fs::File;
use std::io::Read;
use std::path::Path;

use flate2::read::MultiGzDecoder;

/// The largest file, in bytes. The largest of 20 published spaces that are recorded in full has less than a tenth.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// The most bytes of JSON. In memory, the values take about four times as much.
const MAX_JSON_BYTES: u64 = 256 << 20;

/// The first two bytes of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Returns the JSON bytes of a file, which may be compressed with gzip. The error is one sentence without the file's
/// name.
pub(super) fn json_bytes(path: &Path) -> Result<Vec<u8>, Error> {
    // Opening a pipe would wait for its other end.
    if !std::fs::metadata(path).map_err(Error::new)?.is_file() {
        return Err(Error::new("it is not a file"));
    }
    let file = File::open(path).map_err(Error::new)?;
    let bytes = at_most(file, MAX_FILE_BYTES).map_err(Error::new)?;
    let bytes = bytes.ok_or_else(|| error!("it is larger than the limit of {} MiB", MAX_FILE_BYTES >> 20))?;
    let is_gzip = bytes.starts_with(&GZIP);
    if !is_gzip && path.extension().is_some_and(|extension| extension == "gz") {
        return Err(Error::new("its name ends with .gz, but it is not compressed with gzip").hint("rename it"));
    }
    if !is_gzip {
        return Ok(bytes);
    }
    let json = at_most(MultiGzDecoder::new(bytes.as_slice()), MAX_JSON_BYTES);
    json.map_err(|error| error!("it is not a valid gzip file ({error}): download it again"))?
        .ok_or_else(|| error!("it has more than {} MiB of JSON, the limit", MAX_JSON_BYTES >> 20))
}

/// Reads everything. None if there are more than `limit` bytes.
fn at_most(source: impl Read, limit: u64) -> std::io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    source.take(limit + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= limit).then_some(bytes))
}
