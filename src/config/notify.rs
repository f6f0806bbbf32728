//! `[notify]`: who is told that a session has ended.

use anyhow::bail;
use serde::{Deserialize, Serialize};

use crate::secrets;

/// `[notify]`. Nobody is told unless one of the keys is set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NotifyConfig {
    /// A program and its arguments. It gets the end of the session as JSON on standard input.
    pub command: Vec<String>,
    /// A URL that gets the same JSON by POST.
    pub webhook: String,
    /// The environment variable with such a URL, for one that must stay secret.
    pub webhook_env: String,
}

impl NotifyConfig {
    /// Rejects a configuration that notifies no one, or would store a secret.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        if self.command.first().is_some_and(String::is_empty) {
            bail!("notify.command must begin with a program");
        }
        if !self.webhook.is_empty() && !self.webhook_env.is_empty() {
            bail!("set either notify.webhook or notify.webhook_env");
        }
        let is_url = |url: &str| url.starts_with("https://") || url.starts_with("http://");
        if !self.webhook.is_empty() && !is_url(&self.webhook) {
            bail!("notify.webhook must begin with https:// or http://");
        }
        if !self.webhook_env.is_empty() && !secrets::looks_secret(&self.webhook_env) {
            bail!(
                "notify.webhook_env must name a variable that ends in _TOKEN or _SECRET, so that its value is masked \
                 everywhere"
            );
        }
        Ok(())
    }
}
