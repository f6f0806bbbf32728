//! Reads short text files that people and other programs write. Links that lead out of a project are refused.

use std::fs;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, bail};

/// The largest file that is read, in bytes. This repository's files have up to 20 KB. A larger file is probably not one
/// of them.
const MAX_BYTES: u64 = 1 << 20;

/// Reads a text file of a project, which must not be a link to somewhere else.
pub fn read_inside(project: &Path, path: &Path) -> anyhow::Result<String> {
    check_inside(project, path)?;
    read(path)
}

/// Refuses a path that leaves the project, by links or otherwise. A missing file passes here. Its reader reports it.
pub fn check_inside(project: &Path, path: &Path) -> anyhow::Result<()> {
    let (Ok(project), Ok(found)) = (project.canonicalize(), path.canonicalize()) else { return Ok(()) };
    if !found.starts_with(&project) {
        bail!(
            "{} is a link out of the project, to {}: replace it with the file itself",
            path.display(),
            found.display()
        );
    }
    Ok(())
}

/// Refuses a path to write to that leaves the project by a link. It need not exist yet. Dangling links are refused,
/// too.
pub fn check_place(project: &Path, path: &Path) -> anyhow::Result<()> {
    let project = project.canonicalize().with_context(|| format!("Failed to find {}", project.display()))?;
    let mut place = project.clone();
    for part in path.components() {
        place.push(part);
        if !place.is_symlink() {
            continue;
        }
        match place.canonicalize() {
            Ok(found) if found.starts_with(&project) => {}
            Ok(found) => bail!("{} is a link out of the project, to {}: remove it", place.display(), found.display()),
            Err(_) => bail!("{} is a link to nothing: remove it", place.display()),
        }
    }
    Ok(())
}

/// Reads a text file that the user has named.
pub fn read(path: &Path) -> anyhow::Result<String> {
    let bytes = bytes(path).with_context(|| format!("Failed to read {}", path.display()))?;
    if bytes.len() as u64 > MAX_BYTES {
        bail!(
            "{} is larger than the limit of {} MiB: name another file, or make it smaller",
            path.display(),
            MAX_BYTES >> 20
        );
    }
    let text = String::from_utf8(bytes).map_err(|error| (error.utf8_error().valid_up_to(), error.into_bytes()));
    let (at, bytes, what) = match text {
        Ok(text) => match text.find('\0') {
            None => return Ok(text),
            Some(at) => (at, text.into_bytes(), "a NUL byte"),
        },
        Err((at, bytes)) => (at, bytes, "a byte that is not UTF-8"),
    };
    let line = bytes[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
    bail!("{}: line {line}: {what}: this is not a text file", path.display())
}

/// Reads slightly more than a file may hold. Refuses anything but files, because a pipe could block its reader forever.
fn bytes(path: &Path) -> anyhow::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        bail!("it is not a file");
    }
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
