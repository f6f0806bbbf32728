//! Finds the files of a project that a command names, and hashes them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, bail};
use sha2::{Digest, Sha256};

/// The most bytes that are hashed for one command. An interpreter has some 10 MB.
const MAX_BYTES: u64 = 1 << 30;

/// The most entries of folders that one command may name.
const MAX_FILES: usize = 10_000;

/// The endings of files that Python imports.
const MODULES: [&str; 3] = ["py", "pyc", "so"];

/// Returns the SHA-256 of each file of the project that a command names, by its path in the project.
///
/// A folder stands for all files below it. A Python program stands for every module that it could import from its
/// folder: Python looks there first, even for modules of its own library.
pub fn named(project: &Path, command: &[String]) -> anyhow::Result<BTreeMap<String, String>> {
    let project = project.canonicalize().with_context(|| format!("Failed to find {}", project.display()))?;
    let mut found = Vec::new();
    let mut scripts = Vec::new();
    for path in command.iter().enumerate().flat_map(|(place, word)| paths(&project, word, place == 0)) {
        let Ok(kind) = fs::metadata(&path) else { continue };
        if kind.is_dir() && path != project {
            below(&path, &|_| true, &|_| true, &mut found)?;
        } else if kind.is_file() {
            scripts.extend(
                path.extension().filter(|ending| *ending == "py").and_then(|_| path.parent()).map(Path::to_owned),
            );
            found.push(path);
        }
    }
    let program = command.first().and_then(|program| Path::new(program).file_name()).unwrap_or_default();
    if scripts.is_empty() && command.len() > 1 && program.to_string_lossy().starts_with("python") {
        // `-m` and `-c` import from the current folder.
        scripts.push(project.clone());
    }
    for folder in scripts {
        let is_module =
            |path: &Path| path.extension().is_some_and(|ending| MODULES.iter().any(|known| ending == *known));
        below(&folder, &is_package, &is_module, &mut found)?;
    }
    let (mut hashes, mut bytes_left) = (BTreeMap::new(), MAX_BYTES);
    for path in found {
        let name = path.strip_prefix(&project).unwrap_or(&path).display().to_string();
        hashes.insert(name, hash(&path, &mut bytes_left)?);
    }
    Ok(hashes)
}

/// Returns the paths in a project that a word may mean. A bare name of a program is looked up in PATH instead.
fn paths(project: &Path, word: &str, is_program: bool) -> Vec<PathBuf> {
    if is_program && !word.contains('/') {
        return Vec::new();
    }
    // `--script=FILE`
    let value = word.split_once('=').map(|(_, value)| value);
    let paths = [Some(word), value]
        .into_iter()
        .flatten()
        .filter(|text| !text.is_empty())
        .map(|text| plain(&project.join(text)));
    paths.filter(|path| path.starts_with(project)).collect()
}

/// Resolves `.` and `..` by the names alone. A link stays a link: its name in the project is what the project chooses.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

/// Returns whether Python finds modules in a folder of this name.
fn is_package(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// Adds the files below a folder.
fn below(
    folder: &Path,
    enters: &dyn Fn(&Path) -> bool,
    wants: &dyn Fn(&Path) -> bool,
    found: &mut Vec<PathBuf>,
) -> anyhow::Result<()> {
    let (mut folders, mut seen) = (vec![folder.to_owned()], 0);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("Failed to list {}", folder.display()))? {
            let path = entry.with_context(|| format!("Failed to list {}", folder.display()))?.path();
            // Links may lead in circles.
            seen += 1;
            if seen > MAX_FILES {
                bail!("{} has over {MAX_FILES} files that would have to be trusted: name fewer", folder.display());
            }
            match fs::metadata(&path) {
                Ok(kind) if kind.is_dir() && enters(&path) => folders.push(path),
                Ok(kind) if kind.is_file() && wants(&path) => found.push(path),
                _ => {}
            }
        }
    }
    Ok(())
}

fn hash(path: &Path, bytes_left: &mut u64) -> anyhow::Result<String> {
    let failed = || format!("Failed to read {}", path.display());
    let (mut hasher, mut buffer) = (Sha256::new(), vec![0; 1 << 16]);
    let mut file = File::open(path).with_context(failed)?;
    loop {
        let read = file.read(&mut buffer).with_context(failed)?;
        if read == 0 {
            return Ok(format!("{:x}", hasher.finalize()));
        }
        let Some(left) = bytes_left.checked_sub(read as u64) else {
            bail!(
                "{} and what is named with it have more than {} MiB: no program is so large",
                path.display(),
                MAX_BYTES >> 20
            );
        };
        *bytes_left = left;
        hasher.update(&buffer[..read]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_python_program_brings_what_it_could_import() {
        let folder = tempfile::tempdir().unwrap();
        for file in [
            "a/x.py",
            "a/json.py",
            "a/torch/__init__.py",
            "a/__pycache__/x.pyc",
            "a/native.so",
            "a/data.bin",
            "a/.git/no.py",
            "up.py",
            "x.sh",
        ] {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file).unwrap();
        }
        let named = |command: &[&str]| {
            let command: Vec<String> = command.iter().map(|&word| word.to_owned()).collect();
            named(folder.path(), &command).unwrap().into_keys().collect::<Vec<_>>().join(" ")
        };
        insta::assert_snapshot!(named(&["python3", "a/x.py", "a/data.bin"]), @"a/__pycache__/x.pyc a/data.bin a/json.py a/native.so a/torch/__init__.py a/x.py");
        insta::assert_snapshot!(named(&["python3.12", "-m", "up"]), @"a/__pycache__/x.pyc a/json.py a/native.so a/torch/__init__.py a/x.py up.py");
        insta::assert_snapshot!(named(&["./x.sh", "../elsewhere", "a/../up", "--with=a/data.bin", "/etc/passwd"]), @"a/data.bin x.sh");
        insta::assert_snapshot!(named(&["x.sh", "a"]), @"a/.git/no.py a/__pycache__/x.pyc a/data.bin a/json.py a/native.so a/torch/__init__.py a/x.py");
        assert_eq!(
            hash(&folder.path().join("x.sh"), &mut 4).unwrap(),
            "7d73a2e171e0e9bdf9105b2156819116b23f25bbd6148c700007d91f901b7274"
        );
    }
}
