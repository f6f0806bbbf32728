//! Names and numbers of recorded things.

use std::borrow::Borrow;
use std::fmt::{self, Display};
use std::num::ParseIntError;
use std::ops::Deref;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The number of an iteration, unique over all sessions of a store and increasing with time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IterationId(pub i64);

/// The number of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionId(pub i64);

/// The name of a case, unique within its workload.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CaseName(String);

impl Display for IterationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for IterationId {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        text.parse().map(Self)
    }
}

impl Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for SessionId {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        text.parse().map(Self)
    }
}

impl CaseName {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Display for CaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Deref for CaseName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for CaseName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// A map with case names as keys can be asked with a `&str`.
impl Borrow<str> for CaseName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<&str> for CaseName {
    fn from(name: &str) -> Self {
        Self(name.to_owned())
    }
}

impl From<String> for CaseName {
    fn from(name: String) -> Self {
        Self(name)
    }
}

impl PartialEq<str> for CaseName {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<&str> for CaseName {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

impl PartialEq<CaseName> for str {
    fn eq(&self, other: &CaseName) -> bool {
        *self == other.0
    }
}

impl PartialEq<CaseName> for &str {
    fn eq(&self, other: &CaseName) -> bool {
        *self == other.0
    }
}
