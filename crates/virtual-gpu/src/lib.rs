#![doc = include_str!("../README.md")]

pub mod counters;
pub mod fault;
pub mod gpu;
pub mod numeric;
pub mod program;
pub mod ptx;
pub mod timing;

mod exec;
mod memory;

pub use exec::{Launch, Loaded, MemoryError, Options, VirtualGpu};
