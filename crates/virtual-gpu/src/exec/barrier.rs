//! The 16 barriers of a block (`bar`, PTX ISA 9.7.13.1).

use super::env::Env;
use super::global_races;
use super::lanes::{LANES, W32};
use super::warp::Warp;
use crate::memory::order::Clock;
use crate::program::{BarOp, Bool, NONE, Op};

/// Barriers of a block.
pub(crate) const BARRIERS: usize = 16;

/// A warp that waits at a barrier.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    warp: u32,
    instruction: u32,
}

/// One barrier of a block.
#[derive(Debug, Clone, Default)]
pub(crate) struct Barrier {
    waiting: Vec<Waiting>,
    /// Warps that have arrived, whether they wait or not.
    arrived: Vec<u32>,
    /// Threads that complete it; None for all threads of the block.
    expected: Option<u32>,
    clock: Clock,
    /// Threads that supplied a true predicate, and all threads that supplied one.
    votes: (u32, u32),
}

impl Barrier {
    /// Resets the barrier for the next block.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// Lets a warp arrive with the `bar` at `instruction`. The error says why the arrival is not allowed.
    pub fn arrive(&mut self, warp: &Warp, env: &mut Env<'_>, instruction: u32) -> Result<(), String> {
        let Op::Bar { op, threads, p, p_negated, .. } = env.run.kernel.instructions[instruction as usize].op else {
            return Ok(());
        };
        let first = warp.live.trailing_zeros() as usize;
        let expected = (threads != NONE).then(|| env.get32(warp, threads).0[first]);
        if let Some(threads) = expected
            && (threads == 0 || !threads.is_multiple_of(LANES as u32))
        {
            return Err(format!("a barrier for {threads} threads; it must be a multiple of 32"));
        }
        // Naming the number of all threads means the same as naming none.
        let expected = expected.filter(|threads| *threads != env.run.warps * LANES as u32);
        if !self.arrived.is_empty() && self.expected != expected {
            return Err("warps arrive at one barrier with different thread counts".to_owned());
        }
        self.expected = expected;
        self.arrived.push(warp.index);
        if let Some(races) = &mut env.memories[env.rank].races {
            races.order.sync(warp.index);
            races.order.release(warp.index, &mut self.clock);
        }
        if p != NONE {
            let votes = warp.predicate_or_not(p, p_negated) & warp.live;
            self.votes.0 += votes.count_ones();
            self.votes.1 += warp.live.count_ones();
        }
        if op != BarOp::Arrive {
            self.waiting.push(Waiting { warp: warp.index, instruction });
        }
        Ok(())
    }

    /// Returns whether all have arrived: the expected number of threads, or every warp that has not exited.
    fn is_complete(&self, warps: &[Warp]) -> bool {
        match self.expected {
            _ if self.arrived.is_empty() => false,
            Some(threads) => self.arrived.len() * LANES >= threads as usize,
            None => warps.iter().all(|warp| warp.is_done() || self.arrived.contains(&warp.index)),
        }
    }

    /// Releases the waiting warps if all have arrived, and returns them.
    pub fn release(&mut self, warps: &mut [Warp], env: &mut Env<'_>) -> Vec<u32> {
        if !self.is_complete(warps) {
            return Vec::new();
        }
        for &Waiting { warp, instruction } in &self.waiting {
            self.give_result(&mut warps[warp as usize], env, instruction);
            if let Some(races) = &mut env.memories[env.rank].races {
                races.order.acquire(warp, &self.clock);
                if env.run.talks {
                    races.order.pass_barrier(warp, &global_races::flags(env.run));
                }
            }
        }
        self.advance_boards(env);
        let released = self.waiting.iter().map(|waiting| waiting.warp).collect();
        self.reset();
        released
    }

    fn give_result(&self, warp: &mut Warp, env: &Env<'_>, instruction: u32) {
        let Op::Bar { op, d, .. } = env.run.kernel.instructions[instruction as usize].op else { return };
        let everywhere = |holds: bool| if holds { u32::MAX } else { 0 };
        match op {
            BarOp::RedPopc => warp.set32(d, &W32::splat(self.votes.0), warp.active),
            BarOp::Red(Bool::And) => warp.set_predicate(d, everywhere(self.votes.0 == self.votes.1), warp.active),
            BarOp::Red(_) => warp.set_predicate(d, everywhere(self.votes.0 > 0), warp.active),
            BarOp::Sync | BarOp::Arrive => {}
        }
    }

    /// Continues the clocks of the waiting warps from the last arrival.
    fn advance_boards(&self, env: &mut Env<'_>) {
        if !env.run.options.counters {
            return;
        }
        let first = env.rank * env.run.warps as usize;
        let waiting = self.waiting.iter().map(|waiting| waiting.warp);
        env.tally.barrier(first, &self.arrived, waiting, env.run.gpu.latencies.barrier.into());
    }

    /// Describes the waiting warps, for a deadlock message; None if there are none.
    pub fn describe(&self, id: usize) -> Option<String> {
        let waiting: Vec<String> = self.waiting.iter().map(|waiting| waiting.warp.to_string()).collect();
        (!waiting.is_empty()).then(|| format!("warps {} at barrier {id}", waiting.join(", ")))
    }
}
