//! The command of a program that a project chooses: under a [guard](super::baseline::guard), with few environment
//! variables, and confined to the files that it [may use](super::reach).

use std::path::{Path, PathBuf};
use std::process::Command;

use super::confine::{Network, Reach};
use super::reach;
use super::toolchain::cache_dir;
use crate::environment;
use crate::error::{Error, Result, error};

/// A program to run.
pub struct GuardedProgram<'a> {
    /// optloop's executable, which guards and confines the program.
    pub exe: &'a Path,
    /// The program and its arguments. A path is relative to `folder`, and a bare name is looked up in PATH.
    pub command: &'a [String],
    /// The folder in which it runs. It may read it.
    pub folder: &'a Path,
    /// A folder of its own, for temporary files.
    pub own: &'a Path,
    /// The folder in optloop's cache that it shares with its equals. See [`cache_folder`].
    pub cache: &'a Path,
    /// Environment variables that it gets in addition to those of every child.
    pub env: &'a [String],
    /// Files and folders that it may use in addition to its own and its installation.
    pub added: &'a Reach,
}

/// Makes a folder in optloop's cache. The programs that share it must trust each other: one may run the files that another
/// leaves there.
pub fn cache_folder(name: &str) -> Result<PathBuf> {
    let folder = cache_dir().map_err(|error| error!("{error:#}"))?.join(name);
    std::fs::create_dir_all(&folder).map_err(|error| error!("{} cannot be made: {error}", folder.display()))?;
    Ok(folder)
}

impl GuardedProgram<'_> {
    /// Returns the command that runs it. The error is one sentence.
    pub fn command(&self) -> Result<Command> {
        let Self { exe, command, folder, own, cache, env, added } = self;
        let Some((program, arguments)) = command.split_first() else {
            return Err(Error::new("the command is empty"));
        };
        let mut command = confined(exe, folder, &reach::of(program, folder, own, cache, added));
        command.arg(program).args(arguments);
        environment::limit(&mut command);
        command.envs(env.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        // Python would write compiled files next to the program, which were not part of what the user trusted.
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        // Where libraries keep what they compile. They may not write elsewhere.
        for (variable, folder) in [
            ("TMPDIR", *own),
            ("XDG_CACHE_HOME", *cache),
            ("CUDA_CACHE_PATH", &cache.join("cuda")),
            ("TRITON_CACHE_DIR", &cache.join("triton")),
            ("TORCHINDUCTOR_CACHE_DIR", &cache.join("inductor")),
            ("TORCH_EXTENSIONS_DIR", &cache.join("torch-extensions")),
            // QuACK, the CuTe DSL that it is written in, and the calls that they make.
            ("QUACK_CACHE_DIR", &cache.join("quack")),
            ("CUTE_DSL_CACHE_DIR", &cache.join("cute-dsl")),
            ("TVM_FFI_CACHE_DIR", &cache.join("tvm-ffi")),
            // flashinfer makes `.cache/flashinfer` in it.
            ("FLASHINFER_WORKSPACE_BASE", *cache),
        ] {
            command.env(variable, folder);
        }
        Ok(command)
    }
}

/// Returns the command that guards and confines a program in a folder. The program and its arguments are to be added.
pub(super) fn confined(exe: &Path, folder: &Path, reach: &Reach) -> Command {
    let mut command = Command::new(exe);
    command.args(["guard", "--"]).arg(exe).arg("confined").current_dir(folder);
    for (option, paths) in [("--read", &reach.readable), ("--write", &reach.writable)] {
        for path in paths {
            command.arg(option).arg(path);
        }
    }
    match reach.network {
        None => {}
        Some(Network::Port(port)) => drop(command.arg("--port").arg(port.to_string())),
        Some(Network::All) => drop(command.arg("--network")),
    }
    command.arg("--");
    // A Ctrl-C at the terminal must reach the session, and not kill the program.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command
}

/// Asks a guard to end its program.
pub fn end(guard: u32) {
    #[cfg(unix)]
    if let Some(guard) = rustix::process::Pid::from_raw(guard.cast_signed()) {
        let _ = rustix::process::kill_process(guard, rustix::process::Signal::TERM);
    }
    #[cfg(not(unix))]
    let _ = guard;
}
