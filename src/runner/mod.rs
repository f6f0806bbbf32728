//! Renders, compiles and evaluates variants.
//!
//! Rendering and compiling happen in this process, on every core. Everything that touches a device happens in a child
//! process ([`worker`]). An illegal access poisons a CUDA context for good, and a hung kernel cannot be cancelled.

pub mod baseline;
mod benchmark;
mod cache;
mod child;
pub mod comparison;
pub mod compile;
pub mod descendants;
pub mod device;
mod evaluate;
pub mod fake_worker;
pub mod frames;
pub mod inputs;
pub mod messages;
pub mod monitor;
mod nvrtc;
pub mod peaks;
pub mod planning;
mod ptxas_log;
pub mod render;
pub mod self_check;
pub mod source_rules;
pub mod toolchain;
mod validate;
pub mod worker;
