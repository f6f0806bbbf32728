//! Scenarios of commits in temporary repositories, checked with the `git` command.

mod commits;
mod destinations;
mod families;
mod recoveries;
mod refusals;
mod sessions;
mod sources;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::*;
use crate::domain::device::DeviceKey;
use crate::domain::ids::{IterationId, SessionId};
use crate::domain::sidecar::tests::sidecar;

const CU: &str = "kernels/variants/nvidia-h200-132sm-140gib/attention/fa2-mma-00ff.cu";
const JSON: &str = "kernels/variants/nvidia-h200-132sm-140gib/attention/b1.json";

/// A temporary folder, and a repository in it.
struct Sandbox {
    root: TempDir,
}

impl Sandbox {
    /// Makes a repository without commits.
    fn unborn() -> Self {
        let sandbox = Self { root: TempDir::new().unwrap() };
        sandbox.git("init --quiet --initial-branch=main");
        sandbox.git("config user.name Ada");
        sandbox.git("config user.email ada@example.org");
        sandbox
    }

    /// Makes a repository with one commit, which holds `staged.txt` and `edited.txt`.
    fn new() -> Self {
        let sandbox = Self::unborn();
        sandbox.write("staged.txt", "one\n");
        sandbox.write("edited.txt", "one\n");
        sandbox.git("add .");
        sandbox.git("commit --quiet -m start");
        sandbox
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    fn write(&self, path: &str, text: &str) {
        fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        fs::write(self.path(path), text).unwrap();
    }

    fn try_git_in(&self, folder: &str, command: &str) -> (bool, String) {
        let output = Command::new("git")
            .args(command.split(' '))
            .current_dir(self.path(folder))
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env_remove("GIT_DIR")
            .env_remove("GIT_WORK_TREE")
            .env_remove("GIT_INDEX_FILE")
            .output()
            .unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    }

    fn git(&self, command: &str) -> String {
        let (success, output) = self.try_git_in("", command);
        assert!(success, "git {command}");
        output
    }

    fn repo(&self) -> Repo {
        Repo::discover(self.root.path()).unwrap()
    }

    /// Returns everything that a user could lose, as git and the disk show it.
    fn state(&self) -> String {
        let commands = ["status --porcelain --untracked-files=all", "ls-files --stage", "diff", "diff --cached"];
        let told = commands.map(|command| self.git(command)).join("\n");
        let (_, head) = self.try_git_in("", "rev-parse HEAD");
        let git_dir: Vec<_> =
            fs::read_dir(self.path(".git")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        let litter = git_dir.iter().any(|name| name.to_string_lossy().contains("optloop"));
        format!("{told}\n{head}\nlitter: {litter}\nvariants: {}", self.path("kernels/variants").exists())
    }

    /// Tries to commit, expects a refusal that changes nothing, and returns the sentence.
    fn refused(&self, winner: &Winner) -> String {
        let before = self.state();
        let error = self.repo().commit_winner(winner).unwrap_err();
        assert_eq!(self.state(), before);
        error.to_string().replace(&self.root.path().canonicalize().unwrap().display().to_string(), "<root>")
    }
}

fn winner(source: &str) -> Winner {
    Winner {
        device: DeviceKey::of("NVIDIA H200", 132, 150_109_880_320),
        workload: "attention".to_owned(),
        source: source.to_owned(),
        sidecar: sidecar(),
        previous: Some(Figures { median_us: 123.4, ci_us: [123.1, 123.9], samples: 500 }),
        speedup: None,
        baseline: Some(BaselineTime { name: "torch flash".to_owned(), us: 150.0 }),
        timed_by: TimedBy::Iteration { session: SessionId(3), iteration: IterationId(17) },
        earlier: None,
        family: None,
    }
}
