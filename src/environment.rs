//! The environment variables of child processes: those that they need, by name, and never a secret.
//!
//! A list of withheld variables would be incomplete: `DATABASE_URL` does not look like a secret, but contains a
//! password.

use std::ffi::OsStr;
use std::process::Command;

use crate::secrets;

/// Names of variables for every child.
const NAMES: [&str; 16] = [
    // Paths of programs, libraries and a user's own files.
    "PATH",
    "LD_LIBRARY_PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TMPDIR",
    "TMP",
    "TEMP",
    // Locale and time zone.
    "LANG",
    "LANGUAGE",
    "TERM",
    "TZ",
    // Python's virtual environment.
    "VIRTUAL_ENV",
    // Panic reports and thread counts of optloop's own children.
    "RUST_BACKTRACE",
    "RAYON_NUM_THREADS",
];

/// Beginnings of names for every child.
const PREFIXES: [&str; 20] = [
    "LC_",
    "XDG_",
    // The driver, its libraries and the toolkit.
    "CUDA_",
    "NVIDIA_",
    "CUDNN_",
    "CUBLAS_",
    "CUBLASLT_",
    "NVRTC_",
    // Python, and the tools that install and find it.
    "PYTHON",
    "PYENV_",
    "CONDA_",
    // Libraries that baselines use.
    "PYTORCH_",
    "TORCH",
    "TRITON_",
    "JAX_",
    "XLA_",
    // Threads of numeric libraries.
    "OMP_",
    "MKL_",
    "OPENBLAS_",
    // optloop's own, such as those of its tests.
    "OPTLOOP_",
];

/// A program that an interactive Python runs first.
const NEVER: [&str; 1] = ["PYTHONSTARTUP"];

/// Names of variables for pip only, which fetches NVRTC: network settings, in either case.
const NETWORK: [&str; 9] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "NETRC",
];

/// The beginning of pip's own variables.
const PIP: &str = "PIP_";

/// Gives a process that is about to start the variables that every child may have. Those set earlier are lost.
pub fn limit(command: &mut Command) -> &mut Command {
    give(command, &|name, value| is_for_all(name) && !secrets::is_secret(name, value))
}

/// Gives pip these variables and its own. A proxy or an index may need a password.
pub fn limit_pip(command: &mut Command) -> &mut Command {
    give(command, &|name, value| is_for_pip(name) || (is_for_all(name) && !secrets::is_secret(name, value)))
}

/// Tells whether some child process gets the variable of this name if it is set. Baselines also get those of their
/// configuration.
pub fn is_for_a_child(name: &str) -> bool {
    is_for_pip(name) || (is_for_all(name) && !secrets::looks_secret(name))
}

fn give<'a>(command: &'a mut Command, may_have: &dyn Fn(&str, &str) -> bool) -> &'a mut Command {
    let text = |text: &OsStr| text.to_string_lossy().into_owned();
    let given = std::env::vars_os().filter(|(name, value)| may_have(&text(name), &text(value)));
    command.env_clear().envs(given)
}

fn is_for_all(name: &str) -> bool {
    let is_known = NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    is_known && !NEVER.contains(&name)
}

fn is_for_pip(name: &str) -> bool {
    name.starts_with(PIP) || NETWORK.contains(&name.to_ascii_uppercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_variables_are_not_passed_on() {
        for name in ["PATH", "LC_ALL", "CUDA_VISIBLE_DEVICES", "PYTHONPATH", "TORCH_HOME", "TORCHINDUCTOR_CACHE_DIR"] {
            assert!(is_for_all(name), "{name}");
        }
        for name in ["DATABASE_URL", "HTTPS_PROXY", "PYTHONSTARTUP", "PIP_INDEX_URL", "SSH_AUTH_SOCK", "path", "MYPATH"]
        {
            assert!(!is_for_all(name), "{name}");
        }
        assert!(is_for_pip("https_proxy") && is_for_pip("PIP_INDEX_URL") && !is_for_pip("DATABASE_URL"));
    }

    #[test]
    fn a_child_has_nothing_that_was_not_given() {
        let mut command = Command::new("env");
        let given =
            limit(command.env("DATABASE_URL", "x")).get_envs().map(|(name, _)| name.to_string_lossy().into_owned());
        let given: Vec<String> = given.collect();
        assert!(given.contains(&"PATH".to_owned()) && given.iter().all(|name| is_for_all(name)), "{given:?}");
        let output = command.output().unwrap().stdout;
        assert!(String::from_utf8_lossy(&output).lines().all(|line| !line.starts_with("CARGO_")), "cargo has set some");
    }
}
