//! What the command line says of where the winners of a session go.

use crate::launch::target::Wanted;

/// Arguments that choose where the winners of a session go.
#[derive(Debug, Default, clap::Args)]
pub struct TargetArgs {
    /// Commit the winners to this branch without checking it out; a new branch starts at HEAD [default: git.branch in
    /// config.toml]
    #[arg(long, value_name = "BRANCH", conflicts_with_all = ["no_commit", "commit_here"])]
    commit_to: Option<String>,

    /// Commit the winners to the branch that is checked out
    #[arg(long, conflicts_with = "no_commit")]
    commit_here: bool,

    /// Commit nothing: the winners stay in the store
    #[arg(long)]
    no_commit: bool,
}

impl TargetArgs {
    /// Returns where the winners are to go.
    pub fn wanted(&self) -> Wanted<'_> {
        match &self.commit_to {
            Some(branch) => Wanted::Branch(branch),
            None if self.commit_here => Wanted::Here,
            None if self.no_commit => Wanted::Nowhere,
            None => Wanted::Default,
        }
    }
}
