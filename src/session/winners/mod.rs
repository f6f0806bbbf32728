//! Confirmations, finals, and the winners in git.

pub(super) mod commits;
mod confirmation;
mod final_run;
pub(super) mod target;
