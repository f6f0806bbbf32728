//! A loopback server that speaks Anthropic's Messages API and OpenAI's chat completions from a script.
//!
//! It is no model: it tests how a client copes with answers, errors, slow and broken streams, and wrong counts of
//! tokens. It keeps the requests that it got. A figure that was taken with it says nothing about models.
//!
//! The server runs on its own threads and knows one request a connection, which keeps it simple and exact about the
//! bytes that it sends.

mod anthropic;
mod http;
mod openai;
mod script;
mod server;

pub use http::Request;
pub use script::{End, Form, Reply, Rule, Script, Tokens};
pub use server::Server;
