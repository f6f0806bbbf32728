//! Renders, compiles and evaluates variants.
//!
//! Templates, sources and kernels may be untrusted, so each step has its own child processes with limits. A template
//! can render forever ([`renderer`]), a source can crash its compiler ([`compile`]), and a kernel can hang or
//! permanently break a CUDA context ([`worker`]).

pub mod ablation;
pub mod activity;
pub mod agent_program;
pub mod baseline;
mod benchmark;
mod cache;
mod child;
pub mod comparison;
pub mod compile;
pub mod confine;
pub mod descendants;
pub mod device;
mod evaluate;
mod examined;
pub mod explainer;
pub mod fake_worker;
pub mod first_look;
pub mod frames;
mod guarded;
pub mod headers;
pub mod inputs;
mod instructions;
mod memory;
pub mod messages;
pub mod monitor;
pub mod ncu;
mod nvrtc;
pub mod ops;
pub mod oracle;
pub mod outputs;
pub mod peaks;
pub mod planning;
pub mod problem;
pub mod profiled;
mod ptxas_log;
mod reach;
pub mod recording;
pub mod render;
pub mod renderer;
pub mod sanitizer;
pub mod sass;
pub mod self_check;
pub mod source_rules;
mod subprocess;
mod threads;
pub mod toolchain;
pub mod trial;
pub mod tuner_script;
pub mod validate;
pub mod worker;
