//! What stands in place of a removed instruction.
//!
//! A removed load gives bits of its address, another value at each place, so that the compiler can neither compute what
//! follows ahead nor drop the address. A removed product mixes its operands, so that they are still loaded. Each value costs a
//! logical operation at most, so the time without the instructions is a little too long rather than too short.

use super::arithmetic::{self, Arithmetic};
use super::arrival;
use super::parameters::Parameters;
use super::registers::Registers;
use super::statement::{Instruction, list, names};
use super::steering::{Kernel, Steering};
use super::waits::Waits;
use crate::domain::code::ablation::Removed;

/// Multiplied with the number of a place, this gives the constant that tells its value from others (the golden ratio times
/// 2^32, Knuth, The Art of Computer Programming, volume 3, section 6.4).
const GOLDEN: u32 = 0x9E37_79B9;

/// A register that holds a value which the compiler does not know. The start of each kernel sets it.
pub(super) const OPAQUE: &str = "%ablated";

/// What becomes of an instruction.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is of another kind.
    Other,
    /// It is of this kind, and stays.
    Kept,
    /// It is of this kind, and this stands in its place.
    Replaced(String),
    /// It belongs to instructions of this kind, and this stands in its place.
    Adapted(String),
}

/// Replaces instructions of one kind.
pub(super) struct Replacer<'k, 'a> {
    pub removed: Removed,
    pub registers: &'k Registers<'a>,
    pub kernel: &'k Kernel<'k, 'a>,
    pub steering: &'k Steering<'a>,
    pub arithmetic: &'k Arithmetic<'a>,
    pub waits: &'k Waits<'a>,
    pub parameters: &'k Parameters,
    /// Whether others of the kind stay.
    pub alone: bool,
    /// Replaced values so far.
    pub values: u32,
}

impl<'a> Replacer<'_, 'a> {
    /// Returns what becomes of an instruction.
    pub fn fate(&mut self, instruction: &Instruction<'a>) -> Fate {
        match self.removed {
            Removed::AllKinds => self.fate_of_any_kind(instruction),
            Removed::AllKindsAndWaits if self.waits.removes(instruction) => self.without_wait(instruction),
            Removed::AllKindsAndWaits => match self.fate_of_any_kind(instruction) {
                Fate::Other if self.waits.keeps(instruction) => Fate::Kept,
                fate => fate,
            },
            kind => self.fate_of_kind(kind, instruction),
        }
    }

    fn fate_of_any_kind(&mut self, instruction: &Instruction<'a>) -> Fate {
        let mut fates = Removed::KINDS.into_iter().map(|kind| self.fate_of_kind(kind, instruction));
        fates.find(|fate| *fate != Fate::Other).unwrap_or(Fate::Other)
    }

    fn fate_of_kind(&mut self, kind: Removed, instruction: &Instruction<'a>) -> Fate {
        match kind {
            Removed::Nothing | Removed::Work | Removed::AllKinds | Removed::AllKindsAndWaits => Fate::Other,
            Removed::TensorProducts => self.without_product(instruction),
            Removed::SpecialFunctions => self.without_function(instruction),
            Removed::Arithmetic => self.without_operation(instruction),
            Removed::GlobalLoads => self.without_global_load(instruction),
            Removed::GlobalStores => self.without_global_store(instruction),
            Removed::SharedLoads => self.without_shared_load(instruction),
            Removed::Shuffles => self.without_shuffle(instruction),
            Removed::Barriers => self.without_barrier(instruction),
        }
    }

    fn without_product(&mut self, instruction: &Instruction<'a>) -> Fate {
        let is_async = instruction.name() == "wgmma" && instruction.has("mma_async");
        if instruction.name() != "mma" && !is_async {
            return Fate::Other;
        }
        let Some(result) = instruction.operands.first().filter(|result| self.steering.is_free(result)) else {
            return Fate::Kept;
        };
        let sums = list(result);
        let (first, added): (Vec<&str>, Vec<&str>) = if is_async {
            // The sums are in the result. An operand is a list of registers, or describes what is in shared memory.
            let operands = instruction.operands.iter().skip(1).filter(|operand| operand.starts_with('{'));
            (sums.clone(), operands.flat_map(|operand| list(operand)).collect())
        } else {
            let [_, a, b, c, ..] = instruction.operands[..] else { return Fate::Kept };
            (list(c), [list(a), list(b)].concat())
        };
        if sums.iter().chain(&added).any(|register| self.registers.bits(register) != 32) {
            return Fate::Kept;
        }
        let mixed = sums.len().min(if is_async { added.len() } else { usize::MAX });
        let mut text = String::new();
        for (at, sum) in sums.iter().enumerate().take(mixed) {
            let term = |other: usize| added.get(other).or_else(|| added.get(other % added.len().max(1))).copied();
            let (Some(one), Some(two)) = (term(at), term(at + sums.len())) else { return Fate::Kept };
            let from = first.get(at).or(first.first()).copied().unwrap_or(sum);
            text += &format!("mov.b32 %ablated_a, {from}; mov.b32 %ablated_b, {one}; mov.b32 %ablated_c, {two}; ");
            text += "lop3.b32 %ablated_a, %ablated_a, %ablated_b, %ablated_c, 0x96; ";
            text += &format!("{} mov.b32 {sum}, %ablated_a; ", instruction.guard);
        }
        Fate::Replaced(format!("{{ .reg .b32 %ablated_a, %ablated_b, %ablated_c; {text}}}"))
    }

    fn without_function(&mut self, instruction: &Instruction<'a>) -> Fate {
        let functions = ["ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos", "tanh"];
        // Only the approximations are single instructions. The others are sequences of arithmetic.
        if !functions.contains(&instruction.name()) || !(instruction.has("approx") || instruction.name() == "tanh") {
            return Fate::Other;
        }
        let [result, source] = instruction.operands[..] else { return Fate::Kept };
        match self.registers.bits(result) {
            bits @ (16 | 32 | 64) if self.steering.is_free(result) => {
                Fate::Replaced(format!("{} mov.b{bits} {result}, {source};", instruction.guard))
            }
            _ => Fate::Kept,
        }
    }

    fn without_operation(&mut self, instruction: &Instruction<'a>) -> Fate {
        if !arithmetic::is_operation(instruction) {
            return Fate::Other;
        }
        match (instruction.result(), self.arithmetic.moved(instruction)) {
            (Some(result), Some(operand)) => {
                let bits = self.registers.bits(result);
                Fate::Replaced(format!("{} mov.b{bits} {result}, {operand};", instruction.guard))
            }
            _ => Fate::Kept,
        }
    }

    fn without_global_load(&mut self, instruction: &Instruction<'a>) -> Fate {
        let is_load = matches!(instruction.name(), "ld" | "ldu") && instruction.is_in("global");
        if is_load {
            return self.without_load(instruction);
        }
        if instruction.is_copy_to_shared() {
            let is_kept = self.kernel.copies().any(|copy| self.steering.uses(self.kernel, copy));
            let arrival = if self.alone { self.arrival(instruction) } else { Some(String::new()) };
            return arrival.filter(|_| !is_kept).map_or(Fate::Kept, Fate::Replaced);
        }
        // No bytes arrive, so none are expected.
        if self.alone
            || instruction.name() != "mbarrier"
            || self.kernel.copies().any(|copy| self.steering.uses(self.kernel, copy))
        {
            return Fate::Other;
        }
        if instruction.opcode.starts_with("mbarrier.expect_tx") {
            return Fate::Adapted(String::new());
        }
        match instruction.operands.split_last() {
            Some((_, operands)) if instruction.has("expect_tx") => {
                let opcode = instruction.opcode.replace(".expect_tx", "");
                Fate::Adapted(format!("{} {opcode} {};", instruction.guard, operands.join(", ")))
            }
            _ => Fate::Other,
        }
    }

    /// Returns what stands in place of a copy to shared memory while others stay. None if all copies have to go.
    pub fn arrival(&self, copy: &Instruction<'a>) -> Option<String> {
        arrival::of(copy, self.kernel, self.parameters)
    }

    fn without_global_store(&mut self, instruction: &Instruction<'a>) -> Fate {
        if instruction.is_copy_to_global() {
            // What waits for it finds nothing to wait for.
            return if self.steering.reads_any_global() { Fate::Kept } else { Fate::Replaced(String::new()) };
        }
        if instruction.name() != "st" || !instruction.is_in("global") {
            return Fate::Other;
        }
        let base = instruction.operands.first().and_then(|address| names(address).next());
        let decides = self.steering.uses(self.kernel, instruction);
        let Some(base) = base.filter(|base| self.registers.bits(base) == 64 && !decides) else { return Fate::Kept };
        // The values must still be computed, so each store stays under a condition that never holds.
        let guarded = instruction.guard.strip_prefix('@');
        let condition = match guarded {
            Some(guard) => format!("setp.eq.and.u64 %never, {base}, 1, {guard};"),
            None => format!("setp.eq.u64 %never, {base}, 1;"),
        };
        let operands = instruction.operands.join(", ");
        Fate::Replaced(format!("{{ .reg .pred %never; {condition} @%never {} {operands}; }}", instruction.opcode))
    }

    fn without_shared_load(&mut self, instruction: &Instruction<'a>) -> Fate {
        let is_load = instruction.name() == "ldmatrix" || (instruction.name() == "ld" && instruction.is_in("shared"));
        if is_load { self.without_load(instruction) } else { Fate::Other }
    }

    fn without_load(&mut self, instruction: &Instruction<'a>) -> Fate {
        let [result, address, ..] = instruction.operands[..] else { return Fate::Kept };
        if !self.steering.is_free(result) {
            return Fate::Kept;
        }
        let base = names(address).next().unwrap_or_default();
        let from = match self.registers.bits(base) {
            64 => format!("cvt.u32.u64 %ablated_a, {base};"),
            32 => format!("mov.b32 %ablated_a, {base};"),
            // The address is a constant, and so would be what follows.
            _ => format!("mov.b32 %ablated_a, {OPAQUE};"),
        };
        let mut text = format!("{{ .reg .b32 %ablated_a, %ablated_b; {from} ");
        for (at, register) in list(result).into_iter().enumerate() {
            // One value for all registers of a load from shared memory is enough: their places in a sum differ.
            if at == 0 || instruction.is_in("global") {
                self.values += 1;
                let constant = self.values.wrapping_mul(GOLDEN);
                text += &format!("xor.b32 %ablated_b, %ablated_a, {constant:#010x}; ");
            }
            let moved = match self.registers.bits(register) {
                16 => format!("cvt.u16.u32 {register}, %ablated_b"),
                32 => format!("mov.b32 {register}, %ablated_b"),
                64 => format!("mov.b64 {register}, {{%ablated_b, %ablated_b}}"),
                _ => return Fate::Kept,
            };
            text += &format!("{} {moved}; ", instruction.guard);
        }
        Fate::Replaced(text + "}")
    }

    fn without_shuffle(&mut self, instruction: &Instruction<'a>) -> Fate {
        if instruction.name() != "shfl" {
            return Fate::Other;
        }
        let [results, source, ..] = instruction.operands[..] else { return Fate::Kept };
        // After `|`, the instruction also tells whether the other lane exists.
        let (result, exists) =
            results.split_once('|').map_or((results, None), |(result, exists)| (result, Some(exists)));
        if !self.steering.is_free(results) || self.registers.bits(result) != 32 {
            return Fate::Kept;
        }
        self.values += 1;
        let constant = self.values.wrapping_mul(GOLDEN);
        let guard = instruction.guard;
        let told = exists.map(|exists| format!("{guard} setp.ne.u32 {exists}, {OPAQUE}, {constant:#010x}; "));
        Fate::Replaced(format!(
            "{{ .reg .b32 %ablated_a; mov.b32 %ablated_a, {source}; xor.b32 %ablated_a, %ablated_a, {constant:#010x}; \
             {guard} mov.b32 {result}, %ablated_a; {}}}",
            told.unwrap_or_default()
        ))
    }

    fn without_barrier(&mut self, instruction: &Instruction<'a>) -> Fate {
        if !instruction.is_block_barrier() {
            return Fate::Other;
        }
        // Warps that run ahead would wait at an mbarrier that does not exist yet, or read an index that is not there yet.
        if self.kernel.has_mbarriers() || self.steering.reads_shared() || instruction.has("red") {
            return Fate::Kept;
        }
        Fate::Replaced(String::new())
    }
    fn without_wait(&mut self, instruction: &Instruction<'a>) -> Fate {
        let result = instruction.result().filter(|result| !result.contains('[') && *result != "_");
        let Some(result) = result.filter(|_| instruction.name() == "mbarrier") else {
            return Fate::Replaced(String::new());
        };
        let guard = instruction.guard;
        Fate::Replaced(match self.registers.bits(result) {
            // What it waits for has happened.
            0 => format!("{guard} setp.eq.u32 {result}, {OPAQUE}, {OPAQUE};"),
            bits => format!("{guard} mov.b{bits} {result}, 0;"),
        })
    }
}
