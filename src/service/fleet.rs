//! The fleet of a service: what its sessions are told of the server, and who is there.

use std::fmt;
use std::pin::Pin;

use serde_json::Value;

/// A list of workers that is being made.
type Listing = Pin<Box<dyn Future<Output = anyhow::Result<Value>> + Send>>;

/// See the module's documentation.
pub struct Fleet {
    /// The arguments of each session, which name the server.
    pub arguments: Vec<String>,
    list: Box<dyn Fn() -> Listing + Send + Sync>,
}

impl Fleet {
    /// Makes a fleet of its server's arguments and a way to list its workers.
    pub fn new<L>(arguments: Vec<String>, list: impl Fn() -> L + Send + Sync + 'static) -> Self
    where
        L: Future<Output = anyhow::Result<Value>> + Send + 'static,
    {
        Self { arguments, list: Box::new(move || Box::pin(list())) }
    }

    /// Returns the workers that are there, as `optloop workers --json` prints them.
    pub async fn workers(&self) -> anyhow::Result<Value> {
        (self.list)().await
    }
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fleet").field("arguments", &self.arguments).finish_non_exhaustive()
    }
}
