//! Errors that are mistakes of the user.

/// A usage error, on the command line or in the project's files: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// Marks an error as a usage error.
pub fn usage(error: impl Into<anyhow::Error>) -> anyhow::Error {
    Usage(format!("{:#}", error.into())).into()
}

/// Marks a sentence as a usage error.
pub fn usage_sentence(sentence: impl std::fmt::Display) -> anyhow::Error {
    Usage(sentence.to_string()).into()
}
