//! Who may do what: the tokens of a service.
//!
//! The file has the hash of each token, so it does not help whoever reads it. A token has 256 random bits, so a plain
//! hash is enough: there is nothing to guess.

use std::path::Path;

use anyhow::{Context, bail};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use rand::TryRngCore;
use rand::rngs::OsRng;

use crate::domain::text::escape::is_unsafe;
use crate::error::{Error, error};
use crate::files;

/// How every token begins, so that people and scanners recognise one.
const PREFIX: &str = "optloop_";

/// What a client may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Read everything.
    Read,
    /// Start and stop sessions, too.
    Run,
}

impl Scope {
    /// Returns the name that the tokens file uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Run => "run",
        }
    }
}

impl std::str::FromStr for Scope {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        [Self::Read, Self::Run].into_iter().find(|scope| scope.name() == text).ok_or_else(|| {
            error!(
                "`{text}` is not a scope; the scopes are read (look at everything) and run (start and stop sessions)"
            )
        })
    }
}

/// Who sends a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// The name of the token, or `local`.
    pub name: String,
    /// What it may do.
    pub scope: Scope,
}

impl Client {
    /// Returns the user of this machine, who needs no token.
    pub fn local() -> Self {
        Self { name: "local".to_owned(), scope: Scope::Run }
    }
}

/// The tokens of a service.
#[derive(Debug)]
pub struct Tokens(Vec<Entry>);

#[derive(Debug)]
struct Entry {
    client: Client,
    hash: blake3::Hash,
}

impl Tokens {
    /// Reads a file with a line for each token: its name, its scope and the BLAKE3 hash of the token.
    pub fn load(path: &Path) -> anyhow::Result<Self> {
        check_private(path)?;
        let mut entries: Vec<Entry> = Vec::new();
        for (number, line) in files::read(path)?.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().collect();
            let wrong = || format!("{}, line {}", path.display(), number + 1);
            let [name, scope, hash] = words[..] else {
                if words.is_empty() {
                    continue;
                }
                bail!("{}: write a name, a scope and a hash; `optloop serve --new-token NAME` prints them", wrong());
            };
            if entries.iter().any(|entry| entry.client.name == name) {
                bail!("{}: the name `{name}` is there twice: each token needs its own", wrong());
            }
            let scope = scope.parse().map_err(anyhow::Error::msg).with_context(wrong)?;
            let hash = blake3::Hash::from_hex(hash).with_context(wrong)?;
            entries.push(Entry { client: Client { name: name.to_owned(), scope }, hash });
        }
        if entries.is_empty() {
            bail!("{} has no tokens: `optloop serve --new-token NAME` makes one", path.display());
        }
        Ok(Self(entries))
    }

    /// Returns the client with a token. The time does not depend on how much of a wrong token is right.
    pub fn client(&self, token: &str) -> Option<&Client> {
        let hash = blake3::hash(token.as_bytes());
        let mut found = None;
        for entry in &self.0 {
            // blake3 compares its hashes in constant time.
            if entry.hash == hash {
                found = Some(&entry.client);
            }
        }
        found
    }
}

/// Makes a token. Returns it, and the line for the tokens file.
pub fn new_token(name: &str, scope: Scope) -> anyhow::Result<(String, String)> {
    if name.is_empty() || name.contains(|c: char| c.is_whitespace() || is_unsafe(c) || c == '#') {
        bail!("`{name}` cannot be the name of a token: write it without blanks and without `#`");
    }
    let mut secret = [0; 32];
    OsRng.try_fill_bytes(&mut secret).context("Failed to read random bytes")?;
    let token = format!("{PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(secret));
    let line = format!("{name} {} {}", scope.name(), blake3::hash(token.as_bytes()).to_hex());
    Ok((token, line))
}

/// Refuses a file that others may write: they could add a token of their own.
#[cfg(unix)]
fn check_private(path: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let found = path.metadata().with_context(|| format!("Failed to read {}", path.display()))?;
    if found.mode() & 0o022 != 0 {
        bail!("other users may write {}: chmod go-w {0}", path.display());
    }
    if ![0, rustix::process::geteuid().as_raw()].contains(&found.uid()) {
        bail!("{} belongs to another user, who could add a token: make a file of your own", path.display());
    }
    Ok(())
}

#[cfg(not(unix))]
fn check_private(_: &Path) -> anyhow::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_found_by_its_hash_and_bad_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        let load = |text: &str| {
            std::fs::write(&path, text).unwrap();
            Tokens::load(&path)
        };
        let (reader, of_reader) = new_token("alice", Scope::Read).unwrap();
        let (runner, of_runner) = new_token("bob", Scope::Run).unwrap();
        let tokens = load(&format!("# who may come in\n{of_reader}\n\n{of_runner} # since Monday\n")).unwrap();
        assert_eq!(tokens.client(&reader), Some(&Client { name: "alice".to_owned(), scope: Scope::Read }));
        assert_eq!(tokens.client(&runner).unwrap().scope, Scope::Run);
        for wrong in ["", "optloop_", &reader[1..], of_reader.rsplit(' ').next().unwrap()] {
            assert_eq!(tokens.client(wrong), None);
        }
        let refused = |text: &str| {
            format!("{:#}", load(text).unwrap_err()).replace(&folder.path().display().to_string(), "[folder]")
        };
        insta::assert_snapshot!(refused(""), @"[folder]/tokens has no tokens: `optloop serve --new-token NAME` makes one");
        insta::assert_snapshot!(refused("alice read"), @"[folder]/tokens, line 1: write a name, a scope and a hash; `optloop serve --new-token NAME` prints them");
        insta::assert_snapshot!(refused("alice all 00"), @"[folder]/tokens, line 1: `all` is not a scope; the scopes are read (look at everything) and run (start and stop sessions)");
        assert!(refused("alice read 00").starts_with("[folder]/tokens, line 1: "));
        assert!(refused(&format!("{of_reader}\n{of_reader}")).contains("is there twice"));
        assert!(new_token("a b", Scope::Read).is_err());
    }
}
