//! Headers of a family: C++ files in folders that its manifest declares. They replace the `#include`s that name them.
//!
//! `headers = ["include"]` in family.toml declares a folder below the family's own. A line `#include "tile.h"` is then
//! replaced by the text of `include/tile.h`, as a preprocessor would do it. So a variant stays one self-contained
//! source: its hash covers every header, and the compiler needs no file of the project.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use anyhow::bail;
use serde::Deserialize;

use super::traced::Traced;
use crate::files;

/// The most headers in a chain of includes.
const MAX_DEPTH: usize = 64;

/// The most includes of one template, over all its headers.
const MAX_INCLUDES: usize = 4096;

/// The longest template with its headers, in bytes, as for any file of a project.
const MAX_BYTES: usize = 1 << 20;

/// The key of a manifest that is needed before the family can be read.
#[derive(Deserialize)]
struct Declared {
    #[serde(default)]
    headers: Vec<String>,
}

/// Replaces the includes of a template by the headers that its manifest declares. `folder` is the family's.
pub(super) fn inline(project: &Path, folder: &Path, manifest: &str, template: Traced) -> anyhow::Result<Traced> {
    // Other mistakes in the manifest are reported when all of it is read.
    let declared = toml::from_str::<Declared>(manifest).map_or_else(|_| Vec::new(), |declared| declared.headers);
    if declared.is_empty() {
        return Ok(template);
    }
    let mut folders = Vec::new();
    for name in declared {
        let path = Path::new(&name);
        if name.is_empty() || !path.components().all(|part| matches!(part, Component::Normal(_))) {
            bail!("`headers` names `{name}`: name a folder below the family's own, such as \"include\"");
        }
        if !folder.join(path).is_dir() {
            bail!("`headers` names `{name}`, and there is no such folder in {}", folder.display());
        }
        folders.push(folder.join(path));
    }
    let mut inliner = Inliner { project, folders, open: Vec::new(), unconditional: Vec::new(), includes: 0, bytes: 0 };
    inliner.expand(&template, false)
}

struct Inliner<'a> {
    project: &'a Path,
    folders: Vec<PathBuf>,
    /// The headers that are being read. Each includes the next.
    open: Vec<PathBuf>,
    /// Headers with `#pragma once` that were included outside of any condition. A later include of them adds nothing.
    unconditional: Vec<PathBuf>,
    includes: usize,
    bytes: usize,
}

impl Inliner<'_> {
    /// Replaces the includes of a text, which comes from the last of the open headers, or from the template if none is
    /// open. `conditional` tells whether a condition surrounds the text.
    fn expand(&mut self, text: &Traced, conditional: bool) -> anyhow::Result<Traced> {
        let is_template = self.open.is_empty();
        let mut expanded = Traced::default();
        let mut depth = 0_isize;
        for (line, place) in text.lines() {
            match directive(line) {
                Some(("if" | "ifdef" | "ifndef", _)) => depth += 1,
                Some(("endif", _)) => depth -= 1,
                Some(("pragma", "once")) if !is_template => continue,
                Some(("include", operand)) => {
                    if let Some(path) = self.find(operand) {
                        let header = self.header(&path, conditional || depth > 0)?;
                        // Tera must not read a header.
                        let (begin, end) = if is_template { ("<% raw %>", "<% endraw %>") } else { ("", "") };
                        expanded.push_line(begin, place);
                        expanded.append(&header);
                        expanded.push_line(end, place);
                        continue;
                    }
                }
                _ if is_template => depth += tera_blocks(line),
                _ => {}
            }
            self.bytes += line.len() + 1;
            if self.bytes > MAX_BYTES {
                bail!("its template with all headers has more than {} MiB, the limit for a source", MAX_BYTES >> 20);
            }
            expanded.push_line(&format!("{line}\n"), place);
        }
        Ok(expanded)
    }

    /// Returns the header that an include names: in the folder of the including file, or in a declared folder.
    fn find(&self, operand: &str) -> Option<PathBuf> {
        let name = operand.strip_prefix('"')?.strip_suffix('"')?;
        let beside = self.open.last().and_then(|header| header.parent());
        let folders = beside.into_iter().chain(self.folders.iter().map(PathBuf::as_path));
        let found = folders.map(|folder| folder.join(name)).find(|path| path.is_file())?;
        // Two spellings of one file are one header. A link that leads outside is refused when it is read.
        Some(found.canonicalize().unwrap_or(found))
    }

    /// Returns the text that replaces an include of a header.
    fn header(&mut self, path: &Path, conditional: bool) -> anyhow::Result<Traced> {
        if self.unconditional.iter().any(|there| there == path) {
            return Ok(Traced::default());
        }
        let text = files::read_inside(self.project, path)?;
        if text.contains("endraw") {
            bail!("{}: a header cannot hold the word `endraw`, which would end it for Tera", path.display());
        }
        let once = text.lines().any(|line| directive(line) == Some(("pragma", "once")));
        if self.open.iter().any(|open| open == path) {
            if once {
                return Ok(Traced::default());
            }
            bail!("{} includes itself: begin it with `#pragma once`", path.display());
        }
        self.includes += 1;
        if self.includes > MAX_INCLUDES {
            bail!(
                "its headers include each other more than {MAX_INCLUDES} times, the limit: begin them with `#pragma once`"
            );
        }
        if self.open.len() == MAX_DEPTH {
            bail!("{}: more than {MAX_DEPTH} headers each include the next", path.display());
        }
        self.open.push(path.to_owned());
        let body = self.expand(&Traced::of(&text, path), conditional);
        self.open.pop();
        if !once {
            return body;
        }
        if !conditional {
            self.unconditional.push(path.to_owned());
        }
        // Named by its contents, so that a variant does not depend on where the project lies.
        let guard = format!("OPTLOOP_HEADER_{}", &blake3::hash(text.as_bytes()).to_hex()[..16]);
        let file = Arc::new(path.to_owned());
        let mut guarded = Traced::default();
        guarded.push(&format!("#ifndef {guard}\n#define {guard}\n"), &file, 1);
        guarded.append(&body?);
        guarded.push("#endif\n", &file, 1);
        Ok(guarded)
    }
}

/// Returns the name and the operand of the preprocessor directive on a line.
fn directive(line: &str) -> Option<(&str, &str)> {
    let rest = line.trim_start().strip_prefix('#')?.trim();
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
    let (name, operand) = rest.split_at(end);
    Some((name, operand.split("//").next().unwrap_or(operand).trim()))
}

/// Returns how many more blocks of Tera a line opens than it closes.
fn tera_blocks(line: &str) -> isize {
    let words =
        line.split("<%").skip(1).filter_map(|rest| rest.trim_start_matches(['-', ' ']).split_whitespace().next());
    words
        .map(|word| if word.starts_with("end") { -1 } else { isize::from(["if", "for", "filter"].contains(&word)) })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Inlines the headers of a project that has these files.
    fn inlined(files: &[(&str, &str)], template: &str) -> Result<String, String> {
        let project = tempfile::tempdir().unwrap();
        let family = project.path().join("family");
        std::fs::create_dir_all(family.join("include")).unwrap();
        for (name, text) in files {
            std::fs::write(family.join(name), text).unwrap();
        }
        let declared = "headers = [\"include\"]";
        inline(project.path(), &family, declared, Traced::of(template, Path::new("kernel.cu.tera")))
            .map(|inlined| inlined.text().to_owned())
            .map_err(|error| error.to_string().replace(&family.canonicalize().unwrap().display().to_string(), "family"))
    }

    #[test]
    fn a_header_takes_the_place_of_its_include_and_tera_does_not_read_it() {
        let tile = ("include/tile.h", "#include \"types.h\"\nconst char* tile = \"<$ TILE $>\";\n");
        let types = ("include/types.h", "#pragma once\nusing f32 = float;\n");
        let text =
            inlined(&[tile, types], "#include <cuda_fp16.h>\n#include \"tile.h\"\n#include \"types.h\"\nint k;\n");
        insta::assert_snapshot!(text.unwrap(), @r#"
        #include <cuda_fp16.h>
        <% raw %>#ifndef OPTLOOP_HEADER_c879728087d6da13
        #define OPTLOOP_HEADER_c879728087d6da13
        using f32 = float;
        #endif
        const char* tile = "<$ TILE $>";
        <% endraw %><% raw %><% endraw %>int k;
        "#);
    }

    #[test]
    fn a_conditional_include_is_repeated() {
        let types = ("include/types.h", "#pragma once\nusing f32 = float;\n");
        for condition in [("#if FAST", "#endif"), ("<% if FAST %>", "<% endif %>")] {
            let template = format!("{}\n#include \"types.h\"\n{}\n#include \"types.h\"\n", condition.0, condition.1);
            let text = inlined(&[types], &template).unwrap();
            assert_eq!(text.matches("using f32").count(), 2, "{text}");
        }
    }

    #[test]
    fn circles_and_headers_without_end_are_refused() {
        let circle = |begin: &str| {
            let a = ("include/a.h", &*format!("{begin}#include \"b.h\"\n"));
            inlined(&[a, ("include/b.h", "#include \"a.h\"\n")], "#include \"a.h\"\n")
        };
        assert!(circle("#pragma once\n").is_ok());
        insta::assert_snapshot!(circle("").unwrap_err(), @"family/include/a.h includes itself: begin it with `#pragma once`");
        let double = |n: usize| format!("#include \"h{}.h\"\n", n + 1).repeat(2);
        let headers: Vec<_> = (0..30).map(|n| (format!("include/h{n}.h"), double(n))).collect();
        let mut headers: Vec<_> = headers.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        headers.push(("include/h30.h", "int x;\n"));
        insta::assert_snapshot!(inlined(&headers, "#include \"h0.h\"\n").unwrap_err(), @"its headers include each other more than 4096 times, the limit: begin them with `#pragma once`");
        let long = ("include/h.h", &*"int x;\n".repeat(1 << 17));
        let twice = "#include \"h.h\"\n#include \"h.h\"\n";
        insta::assert_snapshot!(inlined(&[long], twice).unwrap_err(), @"its template with all headers has more than 1 MiB, the limit for a source");
    }

    #[test]
    fn a_folder_outside_of_the_family_is_refused() {
        let declared = |name: &str| {
            let project = tempfile::tempdir().unwrap();
            inline(project.path(), project.path(), &format!("headers = [\"{name}\"]"), Traced::default())
                .unwrap_err()
                .to_string()
        };
        insta::assert_snapshot!(declared("../common"), @"`headers` names `../common`: name a folder below the family's own, such as \"include\"");
        insta::assert_snapshot!(declared("/etc"), @"`headers` names `/etc`: name a folder below the family's own, such as \"include\"");
    }
}
