//! The key of an endpoint, which is never shown.

use crate::error::{Error, error};
use std::fmt;

use reqwest::header::HeaderValue;

/// The text that replaces a key.
const MASK: &str = "********";

/// A key. It is sent in one header and never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// Takes a key. The error is one sentence without it.
    pub fn new(text: &str) -> Result<Self, Error> {
        let text = text.trim();
        if text.is_empty() {
            return Err(Error::new("the key is empty"));
        }
        if !text.chars().all(|c| c.is_ascii_graphic()) {
            return Err(Error::new("the key contains blanks or characters that no key has"));
        }
        Ok(Self(text.to_owned()))
    }

    /// Reads a key from a variable of the environment. The error is one sentence that says what to do.
    pub fn of_variable(name: &str) -> Result<Self, Error> {
        let value = std::env::var(name)
            .map_err(|_| error!("the variable {name} is not set").hint("set it to the key of the language model"))?;
        Self::new(&value).map_err(|problem| problem.within(name))
    }

    /// Returns the value of a header with the key after a prefix. Its `Debug` does not show it either.
    pub(super) fn header(&self, prefix: &str) -> Option<HeaderValue> {
        let mut value = HeaderValue::from_str(&format!("{prefix}{}", self.0)).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// Masks the key in a text from elsewhere, such as a server that repeats the headers it got.
    pub(super) fn masked(&self, text: &str) -> String {
        text.replace(&self.0, MASK)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(********)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_not_shown() {
        let key = Key::new(" sk-hunter2\n").unwrap();
        assert_eq!(format!("{key:?} {:?}", key.header("Bearer ").unwrap()), "Key(********) Sensitive");
        assert_eq!(key.masked("key sk-hunter2 is wrong"), "key ******** is wrong");
        for wrong in ["", "  ", "sk-hunter2 x", "sk-hunter2\u{e9}"] {
            assert!(!Key::new(wrong).unwrap_err().to_string().contains("hunter2"));
        }
        assert!(
            Key::of_variable("OPTLOOP_NO_SUCH_KEY").unwrap_err().to_string().contains("OPTLOOP_NO_SUCH_KEY is not set")
        );
    }
}
