//! Finds the values of a kernel that decide addresses, loops or synchronisation.
//!
//! An ablated kernel computes wrong values. Where such a value decided an address or the end of a loop, the kernel could access
//! memory out of bounds, or never end. So what these values follow from is left as it is. The analysis ignores the order of
//! instructions, so it finds too many values rather than too few. In [SSA form](super::ssa), each name has one value.

use std::collections::{HashMap, HashSet};

use super::memory::{Addresses, Part};
use super::registers::Registers;
use super::selecting::{Selection, computes, selections};
use super::statement::{Instruction, Piece, names};

/// What must not depend on wrong values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deciding {
    /// Addresses, loops and synchronisation. A condition on integers may keep an access within bounds, so it must not, either,
    /// unless it only selects a result. One on floating-point numbers may: the kernel then takes another path.
    Safety,
    /// Any condition.
    Path,
}

/// A kernel's instructions, with what its addresses follow from.
pub(super) struct Kernel<'p, 'a> {
    instructions: Vec<&'p Instruction<'a>>,
    /// The branches that lead back.
    loops: HashSet<*const Instruction<'a>>,
    /// The asynchronous copies to shared memory.
    copies: Vec<&'p Instruction<'a>>,
    /// The branches that only select values.
    selections: Vec<Selection>,
    addresses: Addresses<'a>,
}

/// The values that decide something.
#[derive(Debug, Default)]
pub(super) struct Steering<'a> {
    registers: HashSet<&'a str>,
    memory: HashSet<Part<'a>>,
    /// Whether values that are loaded from global memory by other names decide something, such as in another kernel.
    elsewhere: bool,
    /// Those that decide more than which of two paths is taken, where a comparison of floating-point numbers may select a
    /// path. None where it may not.
    firm: Option<HashSet<&'a str>>,
}

/// Instructions all of whose operands must stay.
const SYNCHRONISATION: [&str; 9] =
    ["bar", "barrier", "mbarrier", "cp", "brx", "call", "setmaxnreg", "elect", "nanosleep"];

/// Instructions that must be executed as often as they were.
const GUARDED: [&str; 7] = ["ret", "exit", "bar", "barrier", "mbarrier", "cp", "wgmma"];

impl<'p, 'a> Kernel<'p, 'a> {
    /// Reads the pieces of a kernel.
    pub fn of(pieces: &'p [Piece<'a>], registers: &Registers<'_>) -> Self {
        let (mut instructions, mut loops) = (Vec::new(), HashSet::new());
        let mut labels: HashMap<&str, Vec<usize>> = HashMap::new();
        for piece in pieces {
            if let Some(label) = piece.text().strip_suffix(':') {
                labels.entry(label).or_default().push(instructions.len());
            }
            let Some(instruction) = piece.instruction() else { continue };
            let leads_back = instruction.operands.iter().any(|target| labels.contains_key(target));
            if instruction.name() == "bra" && leads_back {
                loops.insert(std::ptr::from_ref(instruction));
            }
            instructions.push(instruction);
        }
        let addresses = Addresses::of(&instructions, registers);
        let copies = instructions.iter().copied().filter(|instruction| instruction.is_copy_to_shared()).collect();
        let selections = selections(&instructions, &labels);
        Self { instructions, loops, copies, selections, addresses }
    }

    /// Returns the instructions.
    pub fn instructions(&self) -> &[&'p Instruction<'a>] {
        &self.instructions
    }

    /// Returns the asynchronous copies to shared memory.
    pub fn copies(&self) -> impl Iterator<Item = &'p Instruction<'a>> {
        self.copies.iter().copied()
    }

    /// Returns the parameter that holds the tensor map of a copy. None if it is not known.
    pub fn tensor_map(&self, copy: &Instruction<'a>) -> Option<&'a str> {
        self.addresses.tensor_map(copy)
    }

    /// Returns whether the kernel uses mbarriers.
    pub fn has_mbarriers(&self) -> bool {
        self.instructions.iter().any(|instruction| instruction.name() == "mbarrier")
    }

    /// Returns the conditions on which memory is accessed or something is synchronised.
    fn conditions(&self) -> impl Iterator<Item = &'a str> {
        let selects = |place: usize| self.selections.iter().any(|selection| selection.branch == place);
        let all = self.instructions.iter().enumerate();
        let all = all.filter(move |(place, instruction)| !computes(instruction) && !selects(*place));
        all.flat_map(|(_, instruction)| names(instruction.guard))
    }

    /// Returns the values of an instruction that decide an address, the end of a loop or synchronisation by themselves.
    fn roots(&self, instruction: &Instruction<'a>) -> Vec<&'a str> {
        let name = instruction.name();
        let mut roots: Vec<&str> = Vec::new();
        for operand in &instruction.operands {
            let is_descriptor = name == "wgmma" && !operand.starts_with('{');
            if operand.contains('[') || SYNCHRONISATION.contains(&name) || is_descriptor {
                roots.extend(names(operand));
            }
        }
        if GUARDED.contains(&name) || self.loops.contains(&std::ptr::from_ref(instruction)) {
            roots.extend(names(instruction.guard));
        }
        roots
    }
}

impl<'a> Steering<'a> {
    /// Analyses kernels that run one after the other. What one stores in global memory may decide something in another. It may
    /// decide something in the same one by the name of another parameter, unless the buffers are apart.
    pub fn of(kernels: &[Kernel<'_, 'a>], deciding: Deciding, buffers_are_apart: bool) -> Vec<Self> {
        let roots = |kernel: &Kernel<'_, 'a>| {
            kernel.instructions.iter().flat_map(|instruction| kernel.roots(instruction)).collect()
        };
        let mut all: Vec<Self> =
            kernels.iter().map(|kernel| Self { registers: roots(kernel), ..Self::default() }).collect();
        Self::grow_all(&mut all, kernels, buffers_are_apart);
        for (steering, kernel) in all.iter_mut().zip(kernels) {
            let all = kernel.instructions.iter().flat_map(|instruction| names(instruction.guard));
            match deciding {
                Deciding::Safety => {
                    steering.firm = Some(steering.registers.clone());
                    steering.registers.extend(kernel.conditions());
                }
                Deciding::Path => steering.registers.extend(all),
            }
        }
        Self::grow_all(&mut all, kernels, buffers_are_apart);
        all
    }

    /// Adds what the known values follow from, in this kernel or another one, until there is no more.
    fn grow_all(all: &mut [Self], kernels: &[Kernel<'_, 'a>], buffers_are_apart: bool) {
        loop {
            let before: Vec<(usize, usize)> = all.iter().map(Self::size).collect();
            let readers: Vec<bool> = all.iter().map(Self::reads_global).collect();
            for (at, (steering, kernel)) in all.iter_mut().zip(kernels).enumerate() {
                let mut readers = readers.iter().enumerate();
                steering.elsewhere = readers.any(|(other, reads)| *reads && (other != at || !buffers_are_apart));
                steering.grow(kernel);
            }
            if before == all.iter().map(Self::size).collect::<Vec<_>>() {
                return;
            }
        }
    }

    /// Returns whether these values decide nothing but results.
    pub fn is_free(&self, values: &str) -> bool {
        !names(values).any(|name| self.registers.contains(name))
    }

    /// Returns whether values that an instruction loads, stores or copies decide something.
    pub fn uses(&self, kernel: &Kernel<'_, 'a>, instruction: &Instruction<'a>) -> bool {
        let parts = kernel.addresses.parts(instruction);
        let is_used = |part: &Part<'_>| self.memory.iter().any(|known| known.overlaps(*part));
        parts.iter().any(|part| is_used(part) || (self.elsewhere && part.is_global()))
    }

    /// Returns whether values in shared memory that an instruction loads or stores decide something.
    pub fn uses_shared(&self, kernel: &Kernel<'_, 'a>, instruction: &Instruction<'a>) -> bool {
        let parts = kernel.addresses.parts(instruction);
        let mut parts = parts.iter().filter(|part| part.is_shared());
        parts.any(|part| self.memory.iter().any(|known| known.overlaps(*part)))
    }

    /// Returns whether any values in shared memory decide something.
    pub fn reads_shared(&self) -> bool {
        self.memory.iter().any(|part| part.is_shared())
    }

    /// Returns whether values anywhere in global memory decide something. Those of a known tensor do not count.
    pub fn reads_any_global(&self) -> bool {
        self.elsewhere || self.memory.contains(&Part::Global)
    }

    /// Returns whether any values in global memory decide something.
    fn reads_global(&self) -> bool {
        self.memory.iter().any(|part| part.is_global())
    }

    /// Returns whether the result of a comparison decides nothing but which of two paths is taken.
    fn only_selects(&self, result: &str) -> bool {
        self.firm.as_ref().is_some_and(|firm| !names(result).any(|name| firm.contains(name)))
    }

    fn size(&self) -> (usize, usize) {
        (self.registers.len(), self.memory.len())
    }

    /// Adds what the known values follow from, until there is no more. Most follow from instructions before.
    fn grow(&mut self, kernel: &Kernel<'_, 'a>) {
        loop {
            let before = self.size();
            for instruction in kernel.instructions.iter().rev() {
                self.follow(kernel, instruction);
            }
            for selection in &kernel.selections {
                self.follow_selection(kernel, selection);
            }
            if before == self.size() {
                return;
            }
        }
    }

    /// Adds the condition of a branch that selects a known value.
    fn follow_selection(&mut self, kernel: &Kernel<'_, 'a>, Selection { branch, between }: &Selection) {
        let mut selected = kernel.instructions[between.clone()].iter().filter_map(|instruction| instruction.result());
        if selected.any(|result| !self.is_free(result)) {
            self.registers.extend(names(kernel.instructions[*branch].guard));
        }
    }

    fn follow(&mut self, kernel: &Kernel<'_, 'a>, instruction: &Instruction<'a>) {
        let name = instruction.name();
        let selects = |result: &str| is_of_floats(instruction) && self.only_selects(result);
        if instruction.result().is_some_and(|result| !self.is_free(result) && !selects(result)) {
            self.registers.extend(sources(instruction));
            self.memory.extend(kernel.addresses.parts(instruction));
        }
        let stores = matches!(name, "st" | "stmatrix" | "atom" | "red");
        if stores && self.uses(kernel, instruction) {
            self.registers.extend(instruction.operands.iter().skip(1).flat_map(|operand| names(operand)));
        }
        // A copy to shared memory reads what is in global memory.
        if name == "cp" && self.uses(kernel, instruction) {
            self.memory.insert(Part::Global);
        }
    }
}

/// Returns whether an instruction compares floating-point numbers.
fn is_of_floats(instruction: &Instruction<'_>) -> bool {
    let kinds = ["f16", "f16x2", "bf16", "bf16x2", "f32", "f64"];
    matches!(instruction.name(), "setp" | "set") && kinds.iter().any(|kind| instruction.has(kind))
}

fn sources<'a>(instruction: &Instruction<'a>) -> Vec<&'a str> {
    let operands = instruction.operands.iter().skip(1).flat_map(|operand| names(operand));
    operands.chain(names(instruction.guard)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::statement::pieces;
    use super::*;

    const DECLARED: &str = ".reg .b64 %rd<9>; .reg .b32 %r<9>; ";

    fn is_free(ptx: &str, value: &str, deciding: Deciding) -> bool {
        let ptx = format!("{DECLARED}{ptx}");
        let pieces = pieces(&ptx);
        let mut registers = Registers::default();
        pieces.iter().filter_map(Piece::declaration).for_each(|one| registers.declare(one));
        Steering::of(&[Kernel::of(&pieces, &registers)], deciding, true)[0].is_free(value)
    }

    fn free(ptx: &str, value: &str) -> bool {
        is_free(ptx, value, Deciding::Safety)
    }

    #[test]
    fn what_an_address_follows_from_stays() {
        let ptx = "ld.global.u32 %r1, [%rd1]; shl.b32 %r2, %r1, 2; ld.shared.f32 %f1, [%r2]; mul.f32 %f2, %f1, %f1;";
        assert!(!free(ptx, "%r1") && !free(ptx, "%rd1"));
        assert!(free(ptx, "%f1") && free(ptx, "%f2"));
    }

    #[test]
    fn what_the_end_of_a_loop_follows_from_stays() {
        let back = "$L: ex2.approx.f32 %f1, %f0; setp.gt.f32 %p1, %f1, 0f00000000; @%p1 bra $L;";
        assert!(!free(back, "%f1") && !free(back, "%f0"));
        let forwards = "ex2.approx.f32 %f1, %f0; setp.gt.f32 %p1, %f1, 0f00000000; @%p1 bra $L; $L: ret;";
        assert!(free(forwards, "%f1"));
        assert!(!is_free(forwards, "%f1", Deciding::Path));
        // It may compare an index with a bound.
        let index = "shfl.sync.idx.b32 %r2|%p2, %r1, 0, 31, -1; setp.lt.s32 %p1, %r2, 2; @%p1 bra $L; \
                     ld.global.f32 %f1, [%rd1]; $L: ret;";
        assert!(!free(index, "%r2"));
    }

    #[test]
    fn a_condition_that_selects_a_result_decides_nothing() {
        let select = "setp.eq.s32 %p1, %r1, 7; @%p1 bra $L; add.f32 %f1, %f2, %f3; $L: st.global.f32 [%rd1], %f1;";
        assert!(free(select, "%r1"));
        assert!(free(&select.replace("@%p1 bra $L; add", "@!%p1 add"), "%r1"), "without a branch");
        // It selects an address, or keeps an access within bounds.
        assert!(!free(&select.replace("[%rd1], %f1", "[%rd2], %f1").replace("add.f32 %f1", "add.s64 %rd2"), "%r1"));
        assert!(!free(&select.replace("add.f32 %f1, %f2, %f3;", "st.global.f32 [%rd1], %f2;"), "%r1"));
    }

    #[test]
    fn what_passes_through_memory_stays() {
        let ptx = "st.shared.u32 [%r1], %r2; ld.shared.u32 %r3, [%r1]; ld.global.f32 %f1, [%r3];";
        assert!(!free(ptx, "%r2"));
        assert!(free(&ptx.replace("st.shared", "st.global"), "%r2"));
        assert!(!free(&ptx.replace("st.shared", "st"), "%r2"));
    }

    #[test]
    fn variables_and_tensors_lie_apart() {
        let named = "mov.u32 %r1, tile; st.shared.u8 [is_last], %r2; st.shared.f32 [%r1+4], %f1; \
                     ld.shared.u8 %r3, [is_last]; ld.global.f32 %f2, [%r3];";
        assert!(!free(named, "%r2") && free(named, "%f1"));
        assert!(!free(&named.replace("%r1, tile", "%r1, is_last"), "%f1"));
        // It may be any variable.
        assert!(!free(&named.replace("%r1, tile", "%r1, %tid.x"), "%f1"));
        let tensors = "ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; add.s64 %rd3, %rd1, 4; \
                       st.global.f32 [%rd2], %f1; ld.global.u32 %r1, [%rd3]; ld.shared.f32 %f2, [%r1];";
        assert!(free(tensors, "%f1"));
        assert!(!free(&tensors.replace("[%rd2]", "[%rd3]"), "%f1"));
    }
}
