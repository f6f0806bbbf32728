#![doc = include_str!("../README.md")]

pub mod counters;
mod demangle;
pub mod fault;
pub mod gpu;
pub mod model;
pub mod numeric;
pub mod program;
pub mod ptx;
pub mod timing;

mod exec;
mod lines;
mod memory;
mod tensor_map;

pub use exec::{Launch, Loaded, MemoryError, Options, VirtualGpu};
pub use tensor_map::{Element, Fill, Swizzle, TensorMap};
