//! The baseline programs that optloop ships. It knows them by their contents and runs its own copies of them.
//!
//! Python imports modules from the folder of a program first. The project could have a `json.py` there, so the program
//! runs from a folder that contains nothing else.

use std::fs;
use std::io;
use std::path::Path;

use tempfile::TempDir;

use crate::domain::workload::{EXPRESSION, MODULE};

/// The program that times a solution in PyTorch.
pub(super) const RIVAL: &str = "torch_rival.py";

/// The shipped files with their texts. All import the last two.
const FILES: [(&str, &str); 11] = [
    (RIVAL, include_str!("../../../kernels/baselines/torch_rival.py")),
    (EXPRESSION, include_str!("../../../kernels/baselines/torch_expression.py")),
    (MODULE, include_str!("../../../kernels/baselines/torch_module.py")),
    ("torch_sdpa.py", include_str!("../../../kernels/baselines/torch_sdpa.py")),
    ("torch_grouped.py", include_str!("../../../kernels/baselines/torch_grouped.py")),
    ("torch_linear.py", include_str!("../../../kernels/baselines/torch_linear.py")),
    ("torch_linear_w4.py", include_str!("../../../kernels/baselines/torch_linear_w4.py")),
    ("torch_topk.py", include_str!("../../../kernels/baselines/torch_topk.py")),
    ("torch_matmul.py", include_str!("../../../kernels/baselines/torch_matmul.py")),
    ("graph_timing.py", include_str!("../../../kernels/baselines/graph_timing.py")),
    ("graph_kernels.py", include_str!("../../../kernels/baselines/graph_kernels.py")),
];

/// Returns whether a file of a folder is a program that optloop ships. If one of the shipped files was changed, no file
/// in the folder counts as shipped, because the programs share code.
pub fn is_shipped(folder: &Path, file: &str) -> bool {
    let is_changed = |(name, text): &(&str, &str)| {
        let path = folder.join(name);
        path.symlink_metadata().is_ok() && !holds(&path, text)
    };
    FILES.iter().any(|(name, text)| *name == file && holds(&folder.join(name), text)) && !FILES.iter().any(is_changed)
}

/// Writes all of them into a folder that only this user can open.
pub(super) fn copies() -> io::Result<TempDir> {
    let mut folder = tempfile::Builder::new();
    #[cfg(unix)]
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    #[cfg(unix)]
    folder.permissions(private);
    let folder = folder.prefix("optloop-baseline-").tempdir()?;
    for (name, text) in FILES {
        fs::write(folder.path().join(name), text)?;
    }
    Ok(folder)
}

/// Returns whether a file holds just this text. A file of another size is not read: it may be huge, or a pipe.
fn holds(path: &Path, text: &str) -> bool {
    let is_alike = fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() == text.len() as u64);
    is_alike && fs::read(path).is_ok_and(|bytes| bytes == text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a program that is not, each project would be asked whether it may run.
    #[test]
    fn every_program_of_the_repository_is_known() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/baselines");
        let names = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        for name in names.filter(|name| name.ends_with(".py")) {
            assert!(is_shipped(&folder, &name), "{name}");
        }
    }

    #[test]
    fn a_program_counts_as_shipped_until_any_shipped_file_beside_it_changes() {
        let folder = copies().unwrap();
        assert!(is_shipped(folder.path(), "torch_sdpa.py") && is_shipped(folder.path(), "torch_matmul.py"));
        assert!(!is_shipped(folder.path(), "mine.py") && !is_shipped(Path::new("/nowhere"), "torch_sdpa.py"));
        fs::write(folder.path().join("json.py"), "").unwrap();
        fs::remove_file(folder.path().join("torch_matmul.py")).unwrap();
        assert!(is_shipped(folder.path(), "torch_sdpa.py"), "what else is there is never read");
        let shared = folder.path().join("graph_timing.py");
        fs::write(&shared, fs::read_to_string(&shared).unwrap().replace('a', "b")).unwrap();
        assert!(!is_shipped(folder.path(), "torch_sdpa.py"));
    }
}
