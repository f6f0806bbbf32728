//! The files of a project that optloop ships: the configuration, the workloads, the baselines and the families.

use std::path::Path;
use std::{fs, io};

use include_dir::{Dir, DirEntry, include_dir};

/// `config.toml`, which lists every setting with its default and its reason.
pub const CONFIG: &str = include_str!("../config.toml");

/// Folders of a project, with what is in them. A file that is added there is found when this file is compiled again.
static FOLDERS: [(&str, Dir<'_>); 3] = [
    ("kernels/workloads", include_dir!("$CARGO_MANIFEST_DIR/kernels/workloads")),
    ("kernels/baselines", include_dir!("$CARGO_MANIFEST_DIR/kernels/baselines")),
    ("templates/kernels", include_dir!("$CARGO_MANIFEST_DIR/templates/kernels")),
];

/// What git leaves alone in a project.
const IGNORED: &str = "# The database, the reports and the locks of optloop.\n/.optloop/\n";

/// The files that tell coding agents about a project: their paths and their texts.
pub const FOR_AGENTS: [(&str, &str); 3] = [
    ("AGENTS.md", include_str!("../templates/agents/AGENTS.md")),
    (".mcp.json", include_str!("../templates/agents/mcp.json")),
    (".claude/skills/optloop/SKILL.md", include_str!("../templates/agents/SKILL.md")),
];

/// Returns the files of a new project: their paths, with `/`, and their texts. They are sorted by folder.
pub fn files() -> Vec<(String, &'static str)> {
    let mut files = vec![("config.toml".to_owned(), CONFIG), (".gitignore".to_owned(), IGNORED)];
    for (folder, contents) in &FOLDERS {
        add(folder, contents, &mut files);
    }
    files
}

/// Tells whether a family of the project at `root` is one that optloop ships: its files are the same, and so are the fragments
/// that it may include.
pub fn is_unchanged(root: &Path, family: &str) -> bool {
    let (own, fragments) = (format!("templates/kernels/{family}/"), "templates/kernels/common/");
    let is_same = |path: &str, text: &str| match fs::read_to_string(root.join(path)) {
        Ok(there) => there == text,
        // No family includes a fragment that is not there.
        Err(error) => error.kind() == io::ErrorKind::NotFound && path.starts_with(fragments),
    };
    let files = files();
    let mut its = files.iter().filter(|(path, _)| path.starts_with(&own) || path.starts_with(fragments));
    files.iter().any(|(path, _)| path.starts_with(&own)) && its.all(|(path, text)| is_same(path, text))
}

/// Tells whether a file of the project at `root` is one that optloop ships.
pub fn is_file_unchanged(root: &Path, path: &str) -> bool {
    let shipped = files().into_iter().find(|(own, _)| own == path);
    shipped.is_some_and(|(_, text)| fs::read_to_string(root.join(path)).is_ok_and(|there| there == text))
}

/// Adds the texts in a folder and below it. What is no text, such as Python's compiled modules, belongs to no project.
fn add(folder: &str, contents: &'static Dir<'_>, files: &mut Vec<(String, &'static str)>) {
    for entry in contents.entries() {
        match entry {
            DirEntry::Dir(below) => add(folder, below, files),
            DirEntry::File(file) => {
                if let (Some(path), Some(text)) = (file.path().to_str(), file.contents_utf8()) {
                    files.push((format!("{folder}/{}", path.replace('\\', "/")), text));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_with_other_text_is_not_the_shipped_one() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            std::fs::create_dir_all(folder.path().join(path).parent().unwrap()).unwrap();
            std::fs::write(folder.path().join(path), text).unwrap();
        };
        let of_gemm = |path: &String| path.starts_with("templates/kernels/gemm-scalar/");
        files().iter().filter(|(path, _)| of_gemm(path)).for_each(|(path, text)| write(path, text));
        assert!(is_unchanged(folder.path(), "gemm-scalar"));
        assert!(!is_unchanged(folder.path(), "gemm") && !is_unchanged(folder.path(), "gemm-rows"));
        write("templates/kernels/gemm-scalar/kernel.cu.tera", "// mine");
        assert!(!is_unchanged(folder.path(), "gemm-scalar"));
    }

    fn below(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                below(&path, found);
            } else if std::fs::read_to_string(&path).is_ok() {
                found.push(path);
            }
        }
    }

    /// Touch src/shipped.rs where this fails because a file is new.
    #[test]
    fn what_is_shipped_is_what_lies_in_the_repository() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let files = files();
        for (path, text) in files.iter().filter(|(path, _)| path != ".gitignore") {
            assert_eq!(std::fs::read_to_string(root.join(path)).unwrap(), **text, "{path}");
        }
        let mut there = Vec::new();
        FOLDERS.iter().for_each(|(folder, _)| below(&root.join(folder), &mut there));
        assert_eq!(there.len() + 2, files.len(), "{there:?}");
    }
}
