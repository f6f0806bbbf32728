//! Fragments: the CUDA source that families share. It replaces the includes of a template.
//!
//! A template includes a fragment with `<% include "common/mbarrier.cu.tera" %>`. The result is a template without
//! includes. [`Family::parse`](crate::domain::family::Family::parse) gets that text, so a fragment is part of the
//! content hash of the families that include it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::bail;

use super::families::BrokenFamily;
use super::traced::Traced;
use crate::domain::code::ptx;
use crate::domain::family::FRAGMENTS_FOLDER as FOLDER;
use crate::domain::text::names::did_you_mean;
use crate::files;

/// The ending of a fragment's file name.
const ENDING: &str = ".cu.tera";

/// The kernel of a family that came as PTX, in place of a template.
const PTX: &str = "kernel.ptx";

/// The most bytes of a template with its fragments. Those of this repository have up to 33 KB, not
/// counting fragments that fragments include.
const MAX_BYTES: usize = 1 << 20;

/// The most fragments in a chain of includes. Those of this repository are five deep.
const MAX_DEPTH: usize = 32;

/// Refuses a family in the fragments' folder.
pub(super) fn mistaken_for_a_family(folder: &Path) -> Option<BrokenFamily> {
    folder.join("family.toml").exists().then(|| BrokenFamily {
        name: FOLDER.to_owned(),
        op: None,
        manifest: None,
        mistakes: vec![format!("{} is the folder of shared fragments: give the family another name", folder.display())],
    })
}

/// Reads the template of a family. Inserts every fragment once, at its first include, since several fragments may need
/// the same one.
pub(super) fn template(project: &Path, folder: &Path) -> anyhow::Result<Traced> {
    let family = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let fragments = folder.with_file_name(FOLDER);
    let mut reader = Reader { project, family, fragments, open: Vec::new(), there: Vec::new(), bytes: 0 };
    let (template, ptx) = (folder.join("kernel.cu.tera"), folder.join(PTX));
    match (template.symlink_metadata().is_ok(), ptx.symlink_metadata().is_ok()) {
        (true, true) => bail!("{} has kernel.cu.tera and {PTX}: keep one", folder.display()),
        (false, true) => reader.read_ptx(&ptx),
        _ => reader.read(&template),
    }
}

struct Reader<'a> {
    project: &'a Path,
    family: String,
    fragments: PathBuf,
    /// The fragments that are being read. Each includes the next.
    open: Vec<String>,
    /// The fragments that are in the template already.
    there: Vec<String>,
    /// The length of all that was read.
    bytes: usize,
}

impl Reader<'_> {
    /// Reads a kernel that came as PTX.
    fn read_ptx(&self, path: &Path) -> anyhow::Result<Traced> {
        let text = files::read_inside(self.project, path)?;
        if !ptx::is_ptx(&text) {
            bail!("family `{}`: {} does not begin with `.version`, so it is not PTX", self.family, path.display());
        }
        if text.len() > MAX_BYTES {
            bail!("family `{}`: its PTX has more than {} MiB, the limit", self.family, MAX_BYTES >> 20);
        }
        Ok(Traced::of(&text, path))
    }

    fn read(&mut self, path: &Path) -> anyhow::Result<Traced> {
        let text = files::read_inside(self.project, path)?;
        self.bytes += text.len();
        if self.bytes > MAX_BYTES {
            bail!(
                "family `{}`: its template and fragments have more than {} MiB, the limit",
                self.family,
                MAX_BYTES >> 20
            );
        }
        let file = Arc::new(path.to_owned());
        let mut template = Traced::default();
        let mut at = 0;
        for include in includes(&text) {
            let place = format!("family `{}`: {}: line {}", self.family, path.display(), line_of(&text, include.start));
            let fragment = match include.operand {
                Ok(operand) => self.fragment(operand, &place)?,
                Err(problem) => bail!("{place}: {problem}"),
            };
            template.push(&text[at..include.start], &file, line_of(&text, at));
            template.append(&fragment);
            at = include.end;
        }
        template.push(&text[at..], &file, line_of(&text, at));
        Ok(template)
    }

    /// Returns the text of a fragment. It is empty if the template has the fragment already.
    fn fragment(&mut self, operand: &str, place: &str) -> anyhow::Result<Traced> {
        let Some(name) = name_of(operand) else {
            bail!(
                "{place}: `{operand}` is not a fragment: only {FOLDER}/NAME{ENDING} next to the families can be included"
            );
        };
        if let Some(first) = self.open.iter().position(|open| open == name) {
            let chain = self.open[first..].iter().map(String::as_str).chain([name]).collect::<Vec<_>>().join(" -> ");
            bail!("{place}: fragments include each other in a cycle: {chain}");
        }
        if self.there.iter().any(|there| there == name) {
            return Ok(Traced::default());
        }
        if self.open.len() == MAX_DEPTH {
            bail!("{place}: more than {MAX_DEPTH} fragments each include the next");
        }
        let path = self.fragments.join(name);
        // A dangling link counts as existing. Reading it reports the error.
        if fs::symlink_metadata(&path).is_err() {
            let (known, stem) = (self.names(), name.trim_end_matches(ENDING));
            let hint = did_you_mean(stem, known.iter().map(|known| known.trim_end_matches(ENDING)));
            bail!("{place}: there is no fragment `{stem}` in {}{hint}", self.fragments.display());
        }
        self.open.push(name.to_owned());
        let mut text = self.read(&path)?;
        self.there.extend(self.open.pop());
        text.trim_end();
        Ok(text)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.fragments).into_iter().flatten().filter_map(Result::ok);
        entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| name.ends_with(ENDING)).collect()
    }
}

/// An include in a template. It ends with its line if nothing else follows there.
struct Include<'a> {
    start: usize,
    end: usize,
    /// The name of the fragment, or the reason why it cannot be one.
    operand: Result<&'a str, &'static str>,
}

/// Returns the includes of a template, in order.
fn includes(text: &str) -> Vec<Include<'_>> {
    let mut found = Vec::new();
    // Open blocks: `if`, `for` and the like.
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(start) = text[at..].find("<").map(|offset| at + offset) {
        let close = match text.as_bytes().get(start + 1) {
            Some(b'#') => "#>",
            Some(b'%') => "%>",
            _ => {
                at = start + 1;
                continue;
            }
        };
        let Some(length) = text[start + 2..].find(close) else { break };
        let (inside, end) = (&text[start + 2..start + 2 + length], start + length + 4);
        at = end;
        if close == "#>" {
            continue;
        }
        let statement = inside.trim_matches(|c: char| c == '-' || c.is_whitespace());
        let (word, operand) = statement.split_once(char::is_whitespace).unwrap_or((statement, ""));
        match word {
            "include" => {
                let operand = match operand.trim().strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
                    _ if depth > 0 => Err("an include is inside a block: move it before the block"),
                    Some(operand) => Ok(operand),
                    None => Err("write an include as <% include \"common/NAME.cu.tera\" %>"),
                };
                let end = if text[end..].starts_with('\n') { end + 1 } else { end };
                found.push(Include { start, end, operand });
            }
            "if" | "for" | "filter" | "raw" | "block" | "component" => depth += 1,
            _ if word.starts_with("end") => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    found
}

/// Returns the file name of a fragment, if it can be one.
fn name_of(operand: &str) -> Option<&str> {
    let name = operand.strip_prefix(FOLDER)?.strip_prefix('/')?;
    let stem = name.strip_suffix(ENDING)?;
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    (!stem.is_empty() && stem.chars().all(plain)).then_some(name)
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}
