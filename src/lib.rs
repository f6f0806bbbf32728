//! optloop: an autonomous optimization loop for CUDA kernels.

pub mod cli;
pub mod domain;
pub mod report;
pub mod store;
