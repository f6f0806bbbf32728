//! Which waits for asynchronous work can be left out, once the work itself is.
//!
//! Without copies and products, nothing is left to wait for. A wait stays if it orders a value in shared memory that decides an
//! address or the end of a loop, such as the number of the next tile: the kernel could read what is not there yet. All waits of
//! a kernel stay if some of its asynchronous work does, or if it stores to the shared memory of another block, which must not have
//! ended.

use std::collections::HashSet;

use super::needed::Needed;
use super::statement::Instruction;
use super::steering::{Kernel, Steering};

/// The waits of a kernel, with what signals and orders them.
#[derive(Debug, Default)]
pub(super) struct Waits<'a> {
    removed: HashSet<*const Instruction<'a>>,
    kept: HashSet<*const Instruction<'a>>,
}

impl<'a> Waits<'a> {
    /// Analyses a kernel, of which some asynchronous work is removed.
    pub fn of(
        kernel: &Kernel<'_, 'a>,
        steering: &Steering<'a>,
        mut is_removed: impl FnMut(&Instruction<'a>) -> bool,
    ) -> Self {
        let instructions = kernel.instructions();
        let has_mbarriers = kernel.has_mbarriers();
        let stays = instructions.iter().any(|one| (is_work(one) || is_remote(one)) && !is_removed(one));
        let needed = if stays { Needed::all() } else { Needed::of(kernel, steering) };
        let mut waits = Self::default();
        for wait in instructions.iter().copied().filter(|one| is_wait(one, has_mbarriers)) {
            let fate = if needed.has(wait) { &mut waits.kept } else { &mut waits.removed };
            fate.insert(std::ptr::from_ref(wait));
        }
        waits
    }

    /// Returns whether some are removed.
    pub fn has_removed(&self) -> bool {
        !self.removed.is_empty()
    }

    /// Returns how many stay.
    pub fn kept(&self) -> u32 {
        u32::try_from(self.kept.len()).unwrap_or(u32::MAX)
    }

    /// Returns whether an instruction is one of them, and removed.
    pub fn removes(&self, instruction: &Instruction<'a>) -> bool {
        self.removed.contains(&std::ptr::from_ref(instruction))
    }

    /// Returns whether an instruction is one of them, and stays.
    pub fn keeps(&self, instruction: &Instruction<'a>) -> bool {
        self.kept.contains(&std::ptr::from_ref(instruction))
    }
}

/// Returns whether an instruction waits for asynchronous work, or only serves such waits. Block barriers do in a kernel with
/// mbarriers. In others, they are a kind of their own.
fn is_wait(instruction: &Instruction<'_>, has_mbarriers: bool) -> bool {
    let has = |modifiers: &[&str]| modifiers.iter().any(|modifier| instruction.has(modifier));
    match instruction.name() {
        "mbarrier" => true,
        "cp" => has(&["commit_group", "wait_group", "wait_all", "mbarrier"]),
        "wgmma" => has(&["fence", "commit_group", "wait_group"]),
        "fence" => has(&["mbarrier_init"]) || (has(&["proxy"]) && has(&["async"])),
        _ => has_mbarriers && instruction.is_block_barrier() && !instruction.has("red"),
    }
}

/// Returns whether one of the waits can hold up a thread. The others initialise, arrive or order.
pub(super) fn can_block(instruction: &Instruction<'_>) -> bool {
    let has = |modifiers: &[&str]| modifiers.iter().any(|modifier| instruction.has(modifier));
    has(&["try_wait", "test_wait", "wait_group", "wait_all"]) || instruction.is_block_barrier()
}

/// Returns whether an instruction begins asynchronous work that something waits for.
fn is_work(instruction: &Instruction<'_>) -> bool {
    let is_async = instruction.has("async") || instruction.has("mma_async") || instruction.name() == "tcgen05";
    is_async && instruction.name() != "fence" && !is_wait(instruction, false) && !instruction.has("prefetch")
}

/// Returns whether an instruction accesses the shared memory of another block, or makes a generic address in it.
fn is_remote(instruction: &Instruction<'_>) -> bool {
    let is_shared = instruction.has("shared::cluster");
    match instruction.name() {
        "ld" | "st" | "atom" | "red" => is_shared,
        "mapa" => !is_shared,
        _ => false,
    }
}
