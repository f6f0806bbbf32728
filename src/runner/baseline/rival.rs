//! Competing solutions in PyTorch: host code, which runs confined in a process of its own, as baselines do.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{BaselineProgram, Settings, shipped};

/// What the program calls its only backend.
pub const BACKEND: &str = "solution";

/// What the copy of a user's file is called.
const COPY: &str = "solution_in_pytorch.py";

/// A solution in PyTorch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Solution {
    /// Its files, by their paths below the program's folder.
    files: Vec<(String, String)>,
    /// What the program is told: where the solution is.
    arguments: Vec<String>,
}

impl Solution {
    /// Makes the solution of a file: its class or function of a name, or else a class `ModelNew` or `Model`, or a function `run`. `problem` is the text of the oracle
    /// that `optloop import` made of a problem in PyTorch, if the op is one: it has the arguments of the class, and the names of
    /// its parameters.
    pub fn of_file(text: String, name: Option<String>, problem: Option<String>) -> Self {
        let mut files = vec![(COPY.to_owned(), text)];
        let mut arguments = vec![COPY.to_owned()];
        arguments.extend(name.iter().flat_map(|name| ["--name".to_owned(), name.clone()]));
        if let Some(text) = problem {
            files.push((super::MODULE_COPY.to_owned(), text));
            arguments.extend(["--problem", super::MODULE_COPY].map(str::to_owned));
        }
        Self { files, arguments }
    }

    /// Makes the solution of an exported op: the files of an export, whose package and function have this name.
    pub fn of_package(files: impl IntoIterator<Item = (String, String)>, package: &str) -> Self {
        Self { files: files.into_iter().collect(), arguments: vec!["--package".to_owned(), package.to_owned()] }
    }
}

impl BaselineProgram {
    /// Makes the program that times a solution. `exe` is optloop's own, `device` an ordinal of CUDA.
    pub fn of_solution(
        exe: PathBuf,
        project: &Path,
        solution: &Solution,
        settings: Settings,
        (device, min_sample_ns): (u32, f64),
    ) -> std::io::Result<Self> {
        let copies = shipped::copies()?;
        for (path, text) in &solution.files {
            let path = copies.path().join(path);
            path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
            std::fs::write(path, text)?;
        }
        let mut program = Self::in_folder(exe, project, settings, (device, min_sample_ns))?;
        program.command.extend([shipped::RIVAL.to_owned()].into_iter().chain(solution.arguments.iter().cloned()));
        program.folder = copies.path().to_owned();
        program.copies = Some(Arc::new(copies));
        Ok(program)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_exported_package_lies_where_the_program_imports_it() {
        let (python, timeout) = ("python3".to_owned(), Duration::ZERO);
        let settings = Settings { python, env: Vec::new(), read: Vec::new(), write: Vec::new(), timeout };
        let solution = Solution::of_package([("layer/__init__.py".to_owned(), String::new())], "layer");
        let made = BaselineProgram::of_solution(PathBuf::new(), Path::new("."), &solution, settings, (0, 1.0)).unwrap();
        assert!(made.folder.join("layer/__init__.py").is_file());
    }
}
