//! The loader: turns PTX text into a [`Module`].

mod body;
mod expression;
mod lexer;
mod lower;
mod operand;
mod parser;
mod syntax;
mod variables;

pub use crate::lines::SourceLine;
use crate::program::Module;

/// Why a PTX text was not loaded: it is not valid PTX for this loader.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {message}")]
pub struct PtxError {
    /// The file.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// What is wrong, in one sentence.
    pub message: String,
}

/// An error on a line that the caller knows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Problem {
    /// The text is wrong.
    Syntax(String),
    /// The opcode is not known.
    Unsupported(String),
}

impl From<String> for Problem {
    fn from(message: String) -> Self {
        Self::Syntax(message)
    }
}

impl From<&str> for Problem {
    fn from(message: &str) -> Self {
        Self::Syntax(message.to_owned())
    }
}

impl Problem {
    fn at(self, file: &str, line: u32) -> PtxError {
        let message = match self {
            Self::Syntax(message) => message,
            Self::Unsupported(what) => format!("`{what}` is not modelled"),
        };
        PtxError { file: file.to_owned(), line, message }
    }
}

/// Loads a PTX text. `file` is only used in messages.
///
/// # Errors
///
/// Fails at the first line that is wrong. An instruction that the loader does not know is no error: its kernel is
/// refused when it is launched ([`crate::program::Kernel::not_modelled`]).
pub fn load(file: &str, text: &str) -> Result<Module, PtxError> {
    // NVRTC ends its text with a zero byte.
    let text = text.trim_end_matches('\0');
    let place = |(line, problem): (u32, Problem)| problem.at(file, line);
    let tokens = lexer::tokens(text).map_err(place)?;
    let source = parser::parse(&tokens).map_err(place)?;
    let module = lower::module(file, &source).map_err(place)?;
    Ok(Module { text: text.to_owned(), ..module })
}
