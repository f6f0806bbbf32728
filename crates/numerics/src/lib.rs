//! The inner loops of optloop, on slices of numbers: they know no op, no case and no device.
//!
//! They are a crate of their own because Cargo optimises by crate. Development builds optimise this one and not the rest
//! (decision 76).

pub mod attention;
pub mod compare;
pub mod convert;
pub mod delta;
pub mod linear;
pub mod matmul;
pub mod random;
pub mod samples;
