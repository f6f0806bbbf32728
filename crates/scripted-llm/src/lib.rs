//! A loopback server that speaks Anthropic's Messages API and OpenAI's chat completions from a script.
//!
//! It is not a model: it tests how a client copes with answers, errors, slow and broken streams, and wrong token
//! counts. It keeps the requests that it received. Figures measured with it say nothing about models.
//!
//! The server runs on its own threads and serves one request per connection, which keeps it simple and makes the bytes
//! that it sends exact.

mod anthropic;
mod http;
mod openai;
mod script;
mod server;

pub use http::Request;
pub use script::{End, Form, Reply, Rule, Script, Tokens};
pub use server::Server;
