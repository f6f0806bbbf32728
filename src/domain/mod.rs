//! Plain data and pure rules, without database, device or runtime.

pub mod budget;
pub mod claims;
pub mod code;
pub mod compute;
pub mod corpus;
pub mod device;
pub mod dtype;
pub mod expr;
pub mod family;
pub mod history;
pub mod ids;
pub mod instant;
pub mod measurement;
pub mod model_terms;
pub mod models;
pub mod op;
pub mod proposal;
pub mod record;
pub mod sidecar;
pub mod space;
pub mod statistics;
pub mod submission;
pub mod text;
pub mod variant;
pub mod workload;
