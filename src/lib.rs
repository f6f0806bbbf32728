//! optloop: an autonomous optimization loop for CUDA kernels.

pub mod domain;

pub mod report;
pub mod store;
