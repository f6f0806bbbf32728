//! Global and shared memory, with the state of every byte.

pub(crate) mod accesses;
pub(crate) mod flags;
pub(crate) mod flight;
pub(crate) mod foreign;
pub(crate) mod global;
pub(crate) mod heap;
pub(crate) mod messages;
pub(crate) mod order;
pub(crate) mod proxies;
pub(crate) mod races;
pub(crate) mod shared;

pub(crate) use global::GlobalMemory;
pub(crate) use shared::SharedMemory;
