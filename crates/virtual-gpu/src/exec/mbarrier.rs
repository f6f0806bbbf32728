//! The mbarrier object (PTX ISA 9.7.13.15): arrivals and bytes complete a phase.

use super::lane_fault::LaneFault;
use crate::memory::order::Clock;

/// One mbarrier. PTX does not define its bits, so it is kept outside the shared memory that holds it on the machine.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mbarrier {
    /// Completed phases.
    pub phase: u64,
    /// Arrivals that complete a phase.
    expected: i64,
    /// Arrivals pending in this phase.
    pending: i64,
    /// Bytes pending in this phase.
    bytes: i64,
    /// Clocks published by the warps that arrived.
    pub clock: Clock,
}

/// Maximum arrivals (PTX ISA, mbarrier: 2^20 - 1).
const MAX_COUNT: i64 = (1 << 20) - 1;

impl Mbarrier {
    /// Makes an mbarrier whose phases need `count` arrivals.
    pub fn new(count: u32) -> Result<Self, String> {
        let expected = i64::from(count);
        if !(1..=MAX_COUNT).contains(&expected) {
            return Err(format!("mbarrier.init with a count of {count}; it must be 1 to {MAX_COUNT}"));
        }
        Ok(Self { phase: 0, expected, pending: expected, bytes: 0, clock: Clock::default() })
    }

    /// Arrives `count` times.
    pub fn arrive(&mut self, count: u32) -> Result<(), String> {
        self.pending -= i64::from(count);
        if self.pending < 0 {
            return Err("more arrivals at an mbarrier than it expects in a phase".to_owned());
        }
        self.complete();
        Ok(())
    }

    /// Removes `count` threads from this and all later phases.
    pub fn drop_arrivals(&mut self, count: u32) -> Result<(), String> {
        self.expected -= i64::from(count);
        self.arrive(count)
    }

    /// Expects one more arrival in this phase.
    pub fn expect_arrival(&mut self) {
        self.pending += 1;
    }

    /// Expects more bytes in this phase.
    pub fn expect_bytes(&mut self, bytes: u32) {
        self.bytes += i64::from(bytes);
    }

    /// Records that bytes have arrived. They may arrive before they are expected.
    pub fn complete_bytes(&mut self, bytes: u32) {
        self.bytes -= i64::from(bytes);
        self.complete();
    }

    fn complete(&mut self) {
        if self.pending == 0 && self.bytes == 0 {
            self.phase += 1;
            self.pending = self.expected;
        }
    }

    /// Returns the opaque state that an arrive returns and a wait takes.
    pub fn state(&self) -> u64 {
        self.phase << 32 | self.pending as u64
    }

    /// Returns the pending count in a state.
    pub fn pending_of(state: u64) -> u32 {
        state as u32
    }

    /// Returns whether the phase of a state is complete.
    pub fn has_passed(&self, state: u64) -> bool {
        self.phase > state >> 32
    }

    /// Returns whether the phase of this parity is complete. The parity selects the current phase or the one before it.
    pub fn has_passed_parity(&self, parity: u32) -> bool {
        self.phase & 1 != u64::from(parity & 1)
    }
}

/// Attaches an mbarrier error to a lane.
pub(crate) fn invalid(lane: usize, message: String) -> Box<LaneFault> {
    LaneFault::at(lane, crate::fault::FaultKind::Invalid(message))
}
