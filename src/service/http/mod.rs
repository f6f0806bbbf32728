//! Everything between a socket and the API: connections, limits, encryption, and who may come in.

pub mod guard;
pub mod hosts;
pub mod peer;
pub mod places;
pub mod rate;
pub mod refusals;
pub mod server;
pub mod tls;
pub mod tokens;
