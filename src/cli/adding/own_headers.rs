//! Where the headers are that a source includes in quotes.

use std::path::{Path, PathBuf};

use crate::cli::adding::new_kernel::read;

/// Folders in which repositories keep their headers.
const FOLDERS: [&str; 3] = ["include", "inc", "common"];

/// Returns the text of a header of a source in a folder: beside it, or where a compiler would be told to look, from that folder to
/// the root of its repository. Outside a repository, the folder above is the last one.
pub fn own_header(folder: &Path, name: &str) -> Option<String> {
    let folder = folder.canonicalize().ok()?;
    let in_folder = |folder: &Path| FOLDERS.map(|name| folder.join(name));
    let beside = [folder.clone()].into_iter().chain(in_folder(&folder));
    let above: Vec<PathBuf> = match folder.ancestors().find(|above| above.join(".git").exists()) {
        Some(root) => {
            let inside = folder.ancestors().skip(1).take_while(|above| above.starts_with(root));
            inside.flat_map(|above| [above.to_owned()].into_iter().chain(in_folder(above))).collect()
        }
        None => folder.parent().into_iter().flat_map(in_folder).collect(),
    };
    beside.chain(above).map(|folder| folder.join(name)).find(|path| path.is_file()).and_then(|path| read(&path).ok())
}
