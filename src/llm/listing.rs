//! Lists the models that an endpoint serves, which costs nothing.

use std::collections::BTreeSet;

use serde_json::Value;
use tokio::time::Instant;

use super::client::Client;
use super::failure::Failure;
use super::provider::Provider;
use crate::domain::models::call_error::CallError;

/// The largest list, in bytes. That of a gateway with hundreds of models has a few hundred kilobytes.
const MAX_BYTES: usize = 4 << 20;

impl Client {
    /// Returns the names of the models that the endpoint serves.
    pub(super) async fn models(&self) -> Result<BTreeSet<String>, CallError> {
        let asked = self.list().await;
        asked.map_err(|failure| CallError::new(failure.kind, self.masked(&failure.message)))
    }

    async fn list(&self) -> Result<BTreeSet<String>, Failure> {
        let deadline = Instant::now() + self.settings.timeout;
        let path = match self.settings.address.provider() {
            // The maximum page size.
            Provider::Anthropic => "models?limit=1000",
            Provider::OpenAi => "models",
        };
        let sent = self.http.get(self.settings.address.url(path)).send();
        let mut response = self.in_time(deadline, sent).await?.map_err(|error| Failure::of_transport(&error))?;
        if !response.status().is_success() {
            return Err(self.status(response, deadline).await);
        }
        let mut body = Vec::new();
        while let Some(piece) =
            self.in_time(deadline, response.chunk()).await?.map_err(|error| Failure::of_transport(&error))?
        {
            body.extend_from_slice(&piece);
            if body.len() > MAX_BYTES {
                return Err(Failure::protocol("its list of models is larger than 4 MiB"));
            }
        }
        let list: Value =
            serde_json::from_slice(&body).map_err(|_| Failure::protocol("its list of models is not JSON"))?;
        let models = list.get("data").and_then(Value::as_array);
        let models = models.ok_or_else(|| Failure::protocol("its list of models has no `data`"))?;
        let names = models.iter().filter_map(|model| model.get("id")?.as_str());
        Ok(names.map(str::to_owned).collect())
    }
}
