//! Plain data and pure rules: what optloop talks about, with no database, device or runtime in sight.

pub mod artifact;
pub mod budget;
pub mod check;
pub mod conditions;
pub mod contest;
pub mod correctness;
pub mod cost;
pub mod device;
pub mod evaluation;
pub mod exhibit;
pub mod expr;
pub mod family;
pub mod finding;
pub mod floor;
pub mod history;
pub mod hypothesis;
pub mod incumbent;
pub mod machine;
pub mod names;
pub mod op;
pub mod plan;
pub mod profile;
pub mod proposal;
pub mod record;
pub mod regime;
pub mod sampling;
pub mod sidecar;
pub mod space;
pub mod statistics;
mod strike;
#[cfg(test)]
pub(crate) mod synthetic;
pub mod timing;
pub mod toml_text;
pub mod variant;
pub mod verdict;
pub mod workload;
