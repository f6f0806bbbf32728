//! Calls language models: Anthropic's Messages API, and any OpenAI-compatible endpoint.
//!
//! The module sends a request. It returns a JSON object with the tokens, or an error that says what may have been
//! billed. It does not interpret requests or answers. A cassette may answer instead of the endpoint.

mod address;
mod anthropic;
mod api;
mod cassette;
mod client;
mod dialect;
mod difference;
mod endpoint;
mod extract;
mod failure;
mod key;
mod listing;
mod openai;
mod partial;
mod prices;
mod provider;
mod retry;
mod settings;
mod sse;

pub use address::Address;
pub use cassette::Recorded;
pub use endpoint::Endpoint;
pub use key::Key;
pub use prices::{bundled_price, bundled_prices_origin};
pub use provider::Provider;
pub use settings::Settings;

#[cfg(test)]
mod tests;
