//! The files that a program which a project chooses may use: its interpreter and libraries, its project, its devices, and folders to
//! write to that are its own.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::runner::confine::{Network, Reach};

/// The system's programs and libraries, and what the C library, Python and the CUDA driver read besides. Of `/etc`,
/// only the files that say where libraries are, who the users are, and what time it is.
const SYSTEM: [&str; 26] = [
    "/bin",
    "/etc/alternatives",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/nvidia",
    "/etc/passwd",
    "/etc/python3",
    "/etc/timezone",
    "/gnu/store",
    "/lib",
    "/lib32",
    "/lib64",
    "/nix/store",
    "/opt",
    "/proc",
    "/sbin",
    "/sys",
    "/usr",
    "/var/lib/dpkg/alternatives",
];

/// Devices that every program needs, and shared memory. Terminals and disks are not among them.
const DEVICES: [&str; 7] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/shm", "/dev/dri"];

/// What a program reads besides that connects to others: where names are looked up, and whom it trusts.
const CONVERSING: [&str; 9] = [
    "/etc/ca-certificates",
    "/etc/gai.conf",
    "/etc/pki",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl",
    "/run/NetworkManager/resolv.conf",
    "/run/systemd/resolve",
];

/// The devices of a program that must not use the GPU beside the session, nor leave anything behind.
const HARMLESS_DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Returns the devices that a program may use: those above, and those of NVIDIA's driver.
fn devices() -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/dev").into_iter().flatten().flatten().map(|entry| entry.path());
    let is_gpu = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("nvidia"));
    DEVICES.iter().map(PathBuf::from).chain(entries.filter(is_gpu)).collect()
}

/// The files in which a process names its threads. The CUDA driver does not start without them (H200, driver
/// 580.159.04). Root could change the whole system through other files of `/proc`, so root may name only the threads of
/// the program itself.
fn thread_names() -> &'static str {
    if rustix::process::geteuid().is_root() { "/proc/self/task" } else { "/proc" }
}

/// Variables that hold folders of libraries, separated by colons.
const FOLDERS: [&str; 8] = [
    "CONDA_PREFIX",
    "CUDA_HOME",
    "CUDA_PATH",
    "LD_LIBRARY_PATH",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONUSERBASE",
    "VIRTUAL_ENV",
];

/// Returns what `program` may use when it is run in `folder`. It may write to `own` and `cache`, and use what the user
/// has `added`.
pub fn of(program: &str, folder: &Path, own: &Path, cache: &Path, added: &Reach) -> Reach {
    let home = dirs::home_dir();
    let mut readable = programs(program, folder, home.as_deref());
    for variable in FOLDERS {
        readable.extend(env::var_os(variable).iter().flat_map(|value| env::split_paths(value).collect::<Vec<_>>()));
    }
    // Where `pip install --user` puts packages.
    readable.extend(home.map(|home| home.join(".local/lib")));
    readable.extend_from_slice(&added.readable);
    readable.retain(|path| path.is_absolute() && path.exists());
    let mut writable = devices();
    writable.extend([PathBuf::from(thread_names()), own.to_owned(), cache.to_owned()]);
    writable.extend_from_slice(&added.writable);
    Reach { readable, writable, network: None }
}

/// Returns what a coding agent may use: the system's programs, its own installation and the files that its command names. It
/// writes to `folder`, in which it runs, and to nothing else.
pub fn of_agent(command: &[String], folder: &Path, network: Network) -> Reach {
    let program = command.first().map_or("", String::as_str);
    let mut readable = programs(program, folder, dirs::home_dir().as_deref());
    readable.extend(command.iter().map(PathBuf::from));
    if network == Network::All {
        readable.extend(CONVERSING.iter().map(PathBuf::from));
    }
    readable.retain(|path| path.is_absolute() && path.exists());
    let mut writable: Vec<PathBuf> = HARMLESS_DEVICES.iter().map(PathBuf::from).collect();
    writable.push(folder.to_owned());
    Reach { readable, writable, network: Some(network) }
}

/// Returns the system's programs, and the installation of one that runs in a folder.
fn programs(program: &str, folder: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let mut readable: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).collect();
    readable.push(folder.to_owned());
    readable.extend(installation(program, folder, home));
    readable
}

/// Returns where a program is installed: the folder above its `bin`, and the same of the file that it is a link to.
/// This finds a virtual environment and the Python that it was made from. Version managers such as pyenv have `shims`
/// instead, which are scripts that choose among the versions beside them.
fn installation(program: &str, folder: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let found = match program.contains('/') {
        true => Some(folder.join(program)),
        false => find_in_path(program, env::var_os("PATH").as_deref()),
    };
    let Some(found) = found else { return Vec::new() };
    let target = found.canonicalize().ok();
    let mut places = Vec::new();
    for file in [Some(found), target].into_iter().flatten() {
        let bin = file.parent().filter(|bin| bin.ends_with("bin") || bin.ends_with("shims"));
        // Links are resolved, because they could lead to a home folder or to the root of all files.
        let prefix = bin.and_then(|bin| bin.parent()?.canonicalize().ok());
        // A program in `~/bin` or `~/.local/bin` must not give access to the home folder, or to what all programs keep there.
        let is_home =
            |prefix: &PathBuf| home.is_some_and(|home| home.starts_with(prefix) || *prefix == home.join(".local"));
        places.extend(prefix.filter(|prefix| prefix.parent().is_some() && !is_home(prefix)));
        places.push(file);
    }
    places
}

fn find_in_path(program: &str, path: Option<&OsStr>) -> Option<PathBuf> {
    env::split_paths(path?).map(|folder| folder.join(program)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_brings_its_installation_and_never_a_home_folder() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        for folder in ["home/me/bin", "home/me/.local/bin", "home/me/venv/bin", "python/bin"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        std::fs::write(root.join("python/bin/python3"), "").unwrap();
        std::os::unix::fs::symlink(root.join("python/bin/python3"), root.join("home/me/venv/bin/python")).unwrap();
        std::fs::write(root.join("home/me/bin/mine"), "").unwrap();
        std::fs::write(root.join("home/me/.local/bin/mine"), "").unwrap();
        let home = root.join("home/me");
        let places = |program: &str| {
            let places = installation(&root.join(program).display().to_string(), &root, Some(&home));
            places.iter().map(|place| place.strip_prefix(&root).unwrap().display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(
            places("home/me/venv/bin/python"),
            ["home/me/venv", "home/me/venv/bin/python", "python", "python/bin/python3"]
        );
        for mine in ["home/me/bin/mine", "home/me/.local/bin/mine"] {
            assert_eq!(places(mine), [mine, mine]);
        }
    }
}
