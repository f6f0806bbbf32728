//! Secrets of the environment: children do not inherit them, and nothing that is kept or shown holds them.
//!
//! A key comes from the environment and from nowhere else. What other processes and files say is masked where it comes in, byte for
//! byte, so that a frame or a line keeps its length; what goes to the terminal, the store, reports and events is masked once more.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::Command;
use std::sync::LazyLock;

use memchr::memmem;

/// What the name of a variable with a secret has a word end with, as in `GITHUB_TOKEN` or `APIKEY`. `TOKENIZERS_PARALLELISM` is none.
const NAMES: [&str; 12] = [
    "KEY",
    "KEYS",
    "TOKEN",
    "TOKENS",
    "SECRET",
    "SECRETS",
    "PASSWORD",
    "PASSWORDS",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "CREDENTIALS",
];

/// The shortest value that is masked. A shorter one stands in too many innocent words, and protects nothing.
const LEAST_BYTES: usize = 8;

/// What stands for each byte of a secret.
const MASK: u8 = b'*';

/// The secrets of an environment.
#[derive(Default)]
struct Secrets {
    names: Vec<OsString>,
    /// The longest first, since one may hold another.
    values: Vec<Vec<u8>>,
}

static OURS: LazyLock<Secrets> = LazyLock::new(|| Secrets::of(std::env::vars_os()));

/// Keeps the secrets of the environment from a process that is about to be started.
pub fn withhold(command: &mut Command) -> &mut Command {
    for name in &OURS.names {
        command.env_remove(name);
    }
    command
}

/// Tells whether a text holds a secret of the environment, for what is refused rather than masked.
pub fn found_in(text: &str) -> bool {
    OURS.found_in(text.as_bytes())
}

/// Masks the secrets of the environment in bytes that may be anything; they keep their length.
pub fn mask_bytes(bytes: &[u8]) -> Cow<'_, [u8]> {
    OURS.masked(bytes)
}

/// Masks the secrets of the environment in a text.
pub fn mask(text: &str) -> Cow<'_, str> {
    OURS.masked_text(text)
}

/// Tells whether something of this name is likely to be a secret.
pub fn looks_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    name.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| NAMES.iter().any(|secret| word.ends_with(secret)))
}

/// A stream in which the secrets of the environment are masked, line by line.
pub struct Masked<W: Write> {
    stream: W,
    line: Vec<u8>,
}

impl Secrets {
    fn of(environment: impl Iterator<Item = (OsString, OsString)>) -> Self {
        let mut secrets = Self::default();
        for (name, value) in environment.filter(|(name, _)| looks_secret(&name.to_string_lossy())) {
            secrets.values.extend(forms(&value.to_string_lossy()));
            secrets.names.push(name);
        }
        secrets.values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        secrets.values.dedup();
        secrets
    }

    fn found_in(&self, bytes: &[u8]) -> bool {
        self.values.iter().any(|value| memmem::find(bytes, value).is_some())
    }

    fn masked<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        if !self.found_in(bytes) {
            return Cow::Borrowed(bytes);
        }
        let mut masked = bytes.to_vec();
        for value in &self.values {
            while let Some(at) = memmem::find(&masked, value) {
                masked[at..at + value.len()].fill(MASK);
            }
        }
        Cow::Owned(masked)
    }

    fn masked_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.masked(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            // Whole characters became ASCII, so it is text still.
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }
}

/// Returns the forms in which a value may show up: line by line, since what is said is often cut into lines, plainly and as JSON.
fn forms(value: &str) -> Vec<Vec<u8>> {
    // Of a row of the mask's own byte nothing would be hidden.
    let long = |form: &&str| form.len() >= LEAST_BYTES && form.bytes().any(|byte| byte != MASK);
    let mut forms = Vec::new();
    for line in value.lines().map(str::trim).filter(long) {
        forms.push(line.as_bytes().to_vec());
        let quoted = serde_json::Value::from(line).to_string();
        forms.extend(quoted.get(1..quoted.len() - 1).map(|form| form.as_bytes().to_vec()));
    }
    forms
}

impl<W: Write> Masked<W> {
    /// Masks what is written to `stream`.
    pub fn new(stream: W) -> Self {
        Self { stream, line: Vec::new() }
    }

    /// Passes on the first so many bytes of what has been written.
    fn pass_on(&mut self, length: usize) -> io::Result<()> {
        let rest = self.line.split_off(length);
        let lines = std::mem::replace(&mut self.line, rest);
        self.stream.write_all(&mask_bytes(&lines))
    }
}

impl<W: Write> Write for Masked<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line.extend_from_slice(bytes);
        if let Some(end) = memchr::memrchr(b'\n', &self.line) {
            self.pass_on(end + 1)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pass_on(self.line.len())?;
        self.stream.flush()
    }
}

impl<W: Write> Drop for Masked<W> {
    fn drop(&mut self) {
        // Who wants to know of an error flushes.
        let _ = self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(variables: &[(&str, &str)]) -> Secrets {
        Secrets::of(variables.iter().map(|(name, value)| (name.into(), value.into())))
    }

    #[test]
    fn names_are_told_by_their_words() {
        for name in
            ["OPENAI_API_KEY", "GITHUB_TOKEN", "HF_TOKEN", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY", "apikey", "api-key"]
        {
            assert!(looks_secret(name), "{name}");
        }
        for name in ["PATH", "HOME", "TOKENIZERS_PARALLELISM", "KEYBOARD", "LS_COLORS", "CUDA_HOME", "XDG_CACHE_HOME"] {
            assert!(!looks_secret(name), "{name}");
        }
    }

    #[test]
    fn values_are_masked_in_their_length_and_short_ones_left_alone() {
        let secrets =
            secrets(&[("A_KEY", "hunter2hunter2"), ("B_TOKEN", "short"), ("C_SECRET", "two \"lines\"\nof a secret")]);
        let masked = |text: &str| secrets.masked_text(text).into_owned();
        insta::assert_snapshot!(masked("the key is hunter2hunter2, of a short one"), @"the key is **************, of a short one");
        insta::assert_snapshot!(masked("hunter2hunter2hunter2hunter2!"), @"****************************!");
        insta::assert_snapshot!(masked("said: two \"lines\" and of a secret"), @"said: *********** and ***********");
        insta::assert_snapshot!(masked(r#"{"said": "two \"lines\""}"#), @r#"{"said": "*************"}"#);
        assert!(matches!(secrets.masked_text("nothing here"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_secret_that_holds_another_is_masked_whole() {
        let secrets = secrets(&[("A_KEY", "abcdefgh"), ("B_KEY", "abcdefgh-and-more")]);
        assert_eq!(secrets.masked_text("abcdefgh-and-more abcdefgh"), "***************** ********");
    }
}
