//! Which waits order a value in shared memory that decides an address or the end of a loop.

use std::collections::HashSet;

use super::mbarriers::{Mbarriers, Place};
use super::statement::Instruction;
use super::steering::{Kernel, Steering};

/// The name of the barrier for all threads of a block. The others are for some of its warps.
const WHOLE_BLOCK: &str = "0";

/// The waits that a kernel needs although it waits for no asynchronous work. All of them if it is not known which.
#[derive(Debug)]
pub(super) struct Needed<'a>(Option<Known<'a>>);

/// Operations on some mbarriers, and some block barriers.
#[derive(Debug)]
struct Known<'a> {
    mbarriers: Mbarriers<'a>,
    places: HashSet<Place<'a>>,
    /// The names of block barriers.
    barriers: HashSet<&'a str>,
}

impl<'a> Needed<'a> {
    /// Analyses a kernel: each access to such a value needs the wait before it and the arrival after it, in the order of the
    /// text. An operation on an mbarrier needs all others on it.
    pub fn of(kernel: &Kernel<'_, 'a>, steering: &Steering<'a>) -> Self {
        Self(Known::of(kernel, steering))
    }

    /// All waits.
    pub fn all() -> Self {
        Self(None)
    }

    /// Returns whether a wait is needed.
    pub fn has(&self, wait: &Instruction<'a>) -> bool {
        self.0.as_ref().is_none_or(|known| known.has(wait))
    }
}

impl<'a> Known<'a> {
    /// Returns which are needed. None if that is not known.
    fn of(kernel: &Kernel<'_, 'a>, steering: &Steering<'a>) -> Option<Self> {
        let instructions = kernel.instructions();
        let mbarriers = Mbarriers::of(instructions);
        let (mut places, mut barriers) = (HashSet::new(), HashSet::new());
        let accesses = instructions.iter().enumerate().filter(|(_, one)| steering.uses_shared(kernel, one));
        for (at, _) in accesses {
            let before = instructions[..at].iter().rev().find(|one| waits(one))?;
            let after = instructions[at..].iter().find(|one| arrives(one));
            for one in [Some(before), after].into_iter().flatten() {
                if one.name() == "mbarrier" {
                    places.insert(mbarriers.place(one)?);
                } else if one.is_block_barrier() {
                    barriers.insert(name(one)?);
                }
            }
        }
        if !places.is_empty() {
            // Operations at a place that is not known may be on these mbarriers.
            let known = instructions.iter().filter(|one| one.name() == "mbarrier" && !is_initial(one));
            known.map(|one| mbarriers.place(one)).collect::<Option<Vec<_>>>()?;
            // Another thread has initialised them.
            let last = instructions.iter().rposition(|one| is_initial(one))?;
            if let Some(published) = instructions[last..].iter().find(|one| one.is_block_barrier()) {
                barriers.insert(name(published)?);
            }
        }
        if barriers.iter().any(|name| *name != WHOLE_BLOCK) {
            // A barrier whose name is not known may be one of these.
            let all = instructions.iter().filter(|one| one.is_block_barrier());
            all.map(|one| name(one)).collect::<Option<Vec<_>>>()?;
        }
        Some(Self { mbarriers, places, barriers })
    }

    fn has(&self, wait: &Instruction<'a>) -> bool {
        let Self { mbarriers, places, barriers } = self;
        match wait.name() {
            _ if is_initial(wait) => !places.is_empty(),
            "mbarrier" => mbarriers.place(wait).is_some_and(|place| places.contains(&place)),
            _ => wait.is_block_barrier() && name(wait).is_some_and(|name| barriers.contains(name)),
        }
    }
}

/// Returns the name of a block barrier. None if it is known only to the running kernel.
fn name<'a>(barrier: &Instruction<'a>) -> Option<&'a str> {
    let name = barrier.operands.first().copied().unwrap_or(WHOLE_BLOCK);
    name.starts_with(|c: char| c.is_ascii_digit()).then_some(name)
}

/// Returns whether an instruction initialises an mbarrier, or lets other threads see that it is.
fn is_initial(instruction: &Instruction<'_>) -> bool {
    (instruction.name() == "mbarrier" && instruction.has("init")) || instruction.has("mbarrier_init")
}

/// Returns whether an instruction waits for other threads.
fn waits(instruction: &Instruction<'_>) -> bool {
    let of_mbarrier = instruction.name() == "mbarrier" && (instruction.has("try_wait") || instruction.has("test_wait"));
    of_mbarrier || (is_barrier(instruction) && !instruction.has("arrive"))
}

/// Returns whether other threads wait for an instruction.
fn arrives(instruction: &Instruction<'_>) -> bool {
    let of_mbarrier = instruction.name() == "mbarrier" && (instruction.has("arrive") || instruction.has("arrive_drop"));
    of_mbarrier || (is_barrier(instruction) && !instruction.has("wait"))
}

/// Returns whether an instruction is a barrier of a block or a cluster.
fn is_barrier(instruction: &Instruction<'_>) -> bool {
    instruction.is_block_barrier() || (instruction.name() == "barrier" && instruction.has("cluster"))
}
