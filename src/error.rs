//! Errors that users see: one sentence, a hint that says what to do, and a kind that decides the exit code.

use std::fmt;

/// Makes an [`Error`] of a format string.
macro_rules! error {
    ($($text:tt)*) => { $crate::error::Error::new(format_args!($($text)*)) };
}
pub(crate) use error;

/// Why something failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The command line, a request or a file of the project is wrong.
    Usage,
    /// Another process uses what is needed.
    InUse,
    /// The user or the system stopped it before there was a result.
    Interrupted,
    /// Anything else.
    Failed,
}

impl Kind {
    /// Returns the exit code: 1 for what has failed, 2 for wrong usage as clap has it, EX_TEMPFAIL of sysexits.h for what may work
    /// later, and 128 + SIGINT as shells report it.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Usage => 2,
            Self::InUse => 75,
            Self::Interrupted => 130,
        }
    }
}

/// The result of what fails with a sentence.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A sentence about what is wrong. Below the command line, its kind is [`Kind::Failed`]: whether a wrong file is the user's mistake
/// depends on who reads it, so the verb decides with [`usage`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    kind: Kind,
    message: String,
    hint: Option<String>,
}

impl Error {
    /// Makes an error of a message.
    pub fn new(message: impl fmt::Display) -> Self {
        Self { kind: Kind::Failed, message: message.to_string(), hint: None }
    }

    /// Makes one error of several mistakes, each a sentence.
    pub fn of_all(mistakes: &[String]) -> Self {
        Self::new(mistakes.join("; "))
    }

    /// Adds what to do. It is shown behind a colon.
    pub fn hint(self, hint: impl fmt::Display) -> Self {
        Self { hint: Some(hint.to_string()), ..self }
    }

    /// Says where it happened: `FILE: the message`.
    pub fn within(self, place: impl fmt::Display) -> Self {
        Self { message: format!("{place}: {}", self.message), ..self }
    }

    /// Returns the error as one of another kind.
    pub fn of(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }

    /// Returns why something failed.
    pub fn kind(&self) -> Kind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hint {
            Some(hint) => write!(f, "{}: {hint}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Error {}

impl From<String> for Error {
    fn from(message: String) -> Self {
        Self::new(message)
    }
}

impl From<&str> for Error {
    fn from(message: &str) -> Self {
        Self::new(message)
    }
}

/// For what keeps a sentence as data: messages of the worker protocol, records of the store.
impl From<Error> for String {
    fn from(error: Error) -> Self {
        error.to_string()
    }
}

/// Marks an error as a mistake of the user.
pub fn usage(error: impl Into<anyhow::Error>) -> anyhow::Error {
    let error = error.into();
    let own = error.downcast_ref::<Error>().filter(|_| error.chain().len() == 1);
    own.cloned().unwrap_or_else(|| error!("{error:#}")).of(Kind::Usage).into()
}

/// Marks a sentence as a mistake of the user.
pub fn usage_sentence(sentence: impl fmt::Display) -> anyhow::Error {
    Error::new(sentence).of(Kind::Usage).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_follows_the_message_and_stays_when_the_kind_changes() {
        let error = error!("`{}` is no number", "x").hint("write one such as 7").within("config.toml");
        assert_eq!(error.to_string(), "config.toml: `x` is no number: write one such as 7");
        assert_eq!((error.kind(), error.kind().exit_code()), (Kind::Failed, 1));
        let marked = usage(error.clone()).downcast::<Error>().unwrap();
        assert_eq!((marked.to_string(), marked.kind().exit_code()), (error.to_string(), 2));
    }
}
