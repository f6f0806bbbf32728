//! optloop: an autonomous optimization loop for CUDA kernels.
//!
//! The agent decides, the runner measures, the store records, the report explains, and the session coordinates them.
//! ARCHITECTURE.md describes the folders and their imports, GLOSSARY.md defines the terms.

pub mod agent;
pub mod alive;
pub mod audit;
pub mod bench;
pub mod catalog;
pub mod check;
pub mod cli;
pub mod config;
pub mod domain;
pub mod environment;
pub mod error;
pub mod evaluate;
pub mod evaluated;
pub mod export;
pub mod files;
#[cfg(feature = "fleet")]
pub mod fleet;
pub mod intake;
pub mod launch;
pub mod llm;
pub mod locks;
pub mod mcp;
pub mod notices;
pub mod ops;
pub mod report;
pub mod runner;
pub mod secrets;
pub mod service;
pub mod session;
pub mod shipped;
pub mod simulate;
pub mod single;
pub mod spaces;
pub mod store;
pub mod trust;
pub mod vcs;
