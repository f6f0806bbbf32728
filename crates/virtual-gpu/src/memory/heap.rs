//! The heap of the device, from which kernels allocate memory (`malloc`).
//!
//! Addresses are not reused, and memory that is freed counts as uninitialised. So a read after `free` is found, and no
//! two allocations race.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Bytes that may be allocated at a time, as on a GPU unless the host asks for more (`cudaLimitMallocHeapSize`).
const HEAP_BYTES: u64 = 8 << 20;

/// Bytes of addresses, because none is reused.
pub(crate) const SPAN_BYTES: u64 = 64 << 20;

/// Allocations start at multiples of this (CUDA C++ programming guide, "Dynamic Global Memory Allocation").
const ALIGNMENT: u64 = 16;

/// Bytes between two allocations, so that what is read there is uninitialised.
const GAP: u64 = 64;

/// A heap.
#[derive(Debug)]
pub(crate) struct Heap {
    /// Its first address.
    base: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Bytes of addresses that were handed out.
    used: u64,
    live_bytes: u64,
    /// The bytes of each allocation that is not freed, by address.
    live: HashMap<u64, u64>,
}

/// Why the heap gives no memory.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HeapError {
    /// It is full: `malloc` returns null.
    Full,
    /// All addresses have been used once.
    NoAddresses,
}

impl Heap {
    /// Makes a heap in `SPAN_BYTES` bytes from `base` on.
    pub fn new(base: u64) -> Self {
        Self { base, state: Mutex::default() }
    }

    /// Allocates memory and returns its address.
    pub fn allocate(&self, bytes: u64) -> Result<u64, HeapError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes == 0 || bytes > HEAP_BYTES - state.live_bytes {
            return Err(HeapError::Full);
        }
        let end = state.used + bytes.next_multiple_of(ALIGNMENT) + GAP;
        if end > SPAN_BYTES {
            return Err(HeapError::NoAddresses);
        }
        let address = self.base + state.used;
        state.used = end;
        state.live_bytes += bytes;
        state.live.insert(address, bytes);
        Ok(address)
    }

    /// Frees an allocation and returns its bytes. None if none starts there.
    pub fn free(&self, address: u64) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = state.live.remove(&address)?;
        state.live_bytes -= bytes;
        Some(bytes)
    }
}
