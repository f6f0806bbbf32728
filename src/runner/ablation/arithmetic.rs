//! Which floating-point operations can be left out, and what stands in their place.
//!
//! A move of one operand replaces an operation. Nothing may read the other operands then, so the compiler drops what computes
//! them: more arithmetic, or an exponential or a shuffle that only serves it. What loads and products give must still be read,
//! or the time would lack them, too. So an operation moves the operand that is nearest to a load or a product. It stays if
//! something that a load or a product gives would have no other reader.

use std::collections::{HashMap, HashSet, VecDeque};

use super::registers::Registers;
use super::statement::{Instruction, list, names};
use super::steering::{Kernel, Steering};

/// Operations with one result that is made of operands of the same type.
const OPERATIONS: [&str; 9] = ["add", "sub", "mul", "fma", "mad", "min", "max", "neg", "abs"];

/// Types of floating-point numbers.
const TYPES: [&str; 7] = ["f16", "f16x2", "bf16", "bf16x2", "f32", "f32x2", "f64"];

/// The operations of a kernel that can be left out.
#[derive(Debug, Default)]
pub(super) struct Arithmetic<'a> {
    /// The operand that each of them moves.
    moved: HashMap<*const Instruction<'a>, &'a str>,
}

/// Returns whether an instruction is a floating-point operation.
pub(super) fn is_operation(instruction: &Instruction<'_>) -> bool {
    OPERATIONS.contains(&instruction.name()) && TYPES.iter().any(|kind| instruction.has(kind))
}

impl<'a> Arithmetic<'a> {
    /// Analyses a kernel.
    pub fn of(kernel: &Kernel<'_, 'a>, registers: &Registers<'_>, steering: &Steering<'a>) -> Self {
        let values = Values::of(kernel.instructions());
        let distances = values.distances();
        let operations = values.instructions.iter().copied().filter(|one| is_operation(one));
        let moved = operations.filter_map(|operation| {
            let operand = nearest(operation, registers, &distances)?;
            let is_free = operation.result().is_some_and(|result| steering.is_free(result));
            is_free.then_some((std::ptr::from_ref(operation), operand))
        });
        let mut arithmetic = Self { moved: moved.collect() };
        let read = values.read(&Self::default());
        let given: Vec<&str> = values.given().filter(|name| read.contains(name)).collect();
        loop {
            let read = values.read(&arithmetic);
            let lost = given.iter().filter(|name| !read.contains(*name));
            let kept: Vec<_> = lost.filter_map(|name| values.loser(name, &arithmetic)).collect();
            if kept.is_empty() {
                return arithmetic;
            }
            for operation in kept {
                arithmetic.moved.remove(&operation);
            }
        }
    }

    /// Returns the operand that an operation moves. None if it stays.
    pub fn moved(&self, operation: &Instruction<'a>) -> Option<&'a str> {
        self.moved.get(&std::ptr::from_ref(operation)).copied()
    }
}

/// Returns the operand of an operation that is the fewest instructions from a load or a product.
fn nearest<'a>(
    operation: &Instruction<'a>,
    registers: &Registers<'_>,
    distances: &HashMap<&'a str, usize>,
) -> Option<&'a str> {
    let [result, operands @ ..] = &operation.operands[..] else { return None };
    let bits = registers.bits(result);
    let alike = operands.iter().copied().filter(|operand| bits > 0 && registers.bits(operand) == bits);
    alike.min_by_key(|operand| distances.get(operand).copied().unwrap_or(usize::MAX))
}

/// Who makes the values of a kernel, and who reads them.
struct Values<'p, 'a> {
    instructions: Vec<&'p Instruction<'a>>,
    makers: HashMap<&'a str, Vec<&'p Instruction<'a>>>,
    readers: HashMap<&'a str, Vec<&'p Instruction<'a>>>,
}

impl<'p, 'a> Values<'p, 'a> {
    fn of(instructions: &[&'p Instruction<'a>]) -> Self {
        let mut values = Self { instructions: instructions.to_vec(), makers: HashMap::new(), readers: HashMap::new() };
        for instruction in instructions {
            made(instruction).for_each(|name| values.makers.entry(name).or_default().push(instruction));
            reads(instruction, None).for_each(|name| values.readers.entry(name).or_default().push(instruction));
        }
        values
    }

    /// Returns what loads and products give.
    fn given(&self) -> impl Iterator<Item = &'a str> {
        self.instructions.iter().filter(|one| gives(one)).flat_map(|one| made(one))
    }

    /// Returns how many instructions lie between each value and the load or the product that is nearest before it.
    fn distances(&self) -> HashMap<&'a str, usize> {
        let mut distances: HashMap<&str, usize> = self.given().map(|name| (name, 0)).collect();
        let mut open: VecDeque<&str> = distances.keys().copied().collect();
        while let Some(name) = open.pop_front() {
            let before = distances[name];
            for reader in self.readers.get(name).into_iter().flatten() {
                let distance = before + usize::from(!reader.is_phi());
                for result in made(reader) {
                    if distances.get(result).is_none_or(|known| *known > distance) {
                        distances.insert(result, distance);
                        open.push_back(result);
                    }
                }
            }
        }
        distances
    }

    /// Returns the values that are read, directly or not, by what has an effect, once operations are left out.
    fn read(&self, left_out: &Arithmetic<'a>) -> HashSet<&'a str> {
        let of = |instruction: &'p Instruction<'a>| reads(instruction, left_out.moved(instruction));
        let mut open: Vec<&str> =
            self.instructions.iter().filter(|one| has_effect(one)).flat_map(|one| of(one)).collect();
        let mut read: HashSet<&str> = HashSet::new();
        while let Some(name) = open.pop() {
            if read.insert(name) {
                open.extend(self.makers.get(name).into_iter().flatten().flat_map(|maker| of(maker)));
            }
        }
        read
    }

    /// Returns the first operation after a value that no longer reads what follows from it.
    fn loser(&self, value: &'a str, left_out: &Arithmetic<'a>) -> Option<*const Instruction<'a>> {
        let mut seen = HashSet::from([value]);
        let mut open = VecDeque::from([value]);
        while let Some(name) = open.pop_front() {
            for reader in self.readers.get(name).into_iter().flatten() {
                if left_out.moved(reader).is_some_and(|moved| moved != name) {
                    return Some(std::ptr::from_ref(*reader));
                }
                open.extend(made(reader).filter(|result| seen.insert(result)));
            }
        }
        None
    }
}

/// Returns whether an instruction loads data or multiplies on tensor cores.
fn gives(instruction: &Instruction<'_>) -> bool {
    let is_load = matches!(instruction.name(), "ld" | "ldu" | "ldmatrix");
    let is_data = !["param", "const", "local"].iter().any(|space| instruction.is_in(space));
    (is_load && is_data) || matches!(instruction.name(), "mma" | "wgmma")
}

/// Returns whether an instruction does more than make its result. A branch does not: the compiler drops it where nothing that is
/// read differs between its paths.
fn has_effect(instruction: &Instruction<'_>) -> bool {
    let is_branch = matches!(instruction.name(), "bra" | "brx");
    (instruction.result().is_none() && !is_branch) || instruction.name() == "atom"
}

/// Returns the values that an instruction makes.
fn made<'a>(instruction: &Instruction<'a>) -> impl Iterator<Item = &'a str> {
    instruction.result().into_iter().flat_map(list).flat_map(names)
}

/// Returns the values that an instruction reads, or that a move in its place does.
fn reads<'a>(instruction: &Instruction<'a>, moved: Option<&'a str>) -> impl Iterator<Item = &'a str> {
    let has_result = usize::from(instruction.result().is_some());
    let operands = instruction.operands.iter().copied().skip(has_result);
    let operands = operands.filter(move |operand| moved.is_none_or(|moved| moved == *operand));
    operands.chain([instruction.guard]).flat_map(names)
}

#[cfg(test)]
mod tests {
    use crate::domain::code::ablation::Removed;
    use crate::runner::ablation::{Parameters, ablate};

    /// Returns the floating-point operations of a kernel after it was ablated, with the moves in place of others, and how many
    /// stay.
    fn left(body: &str) -> (Vec<String>, u32) {
        let kernel = format!(
            ".visible .entry attend(.param .u64 attend_0)\n{{\n.reg .pred %p<9>; .reg .f32 %f<29>; .reg .b32 %r<9>; \
             .reg .b64 %rd<9>;\n{body}\nret;\n}}\n"
        );
        let ablated = ablate(&kernel, &Parameters::apart())
            .into_iter()
            .find(|(removed, _)| *removed == Removed::Arithmetic)
            .unwrap()
            .1;
        let lines = ablated.ptx.lines().map(str::trim);
        let lines =
            lines.filter(|line| ["max", "fma", "add", "mul", "mov.b32 %f"].iter().any(|name| line.contains(name)));
        (lines.map(str::to_owned).collect(), ablated.kept)
    }

    #[test]
    fn a_softmax_still_reads_its_scores_and_gives_its_probabilities() {
        let (left, kept) = left(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2}, {%r1}, {%r2}, {%f1, %f2};
            max.f32 %f3, %f1, %f2;
            mul.f32 %f4, %f3, 0f3FB8AA3B;
            fma.rn.f32 %f5, %f1, 0f3FB8AA3B, %f4;
            fma.rn.f32 %f6, %f2, 0f3FB8AA3B, %f4;
            ex2.approx.ftz.f32 %f7, %f5;
            ex2.approx.ftz.f32 %f8, %f6;
            add.f32 %f9, %f7, %f8;
            st.global.f32 [%rd1], %f9;
            st.global.v2.f32 [%rd1], {%f7, %f8};",
        );
        insta::assert_snapshot!(left.join("\n"), @"
        mov.b32 %f3, %f1;
        mov.b32 %f4, %f3;
        mov.b32 %f5, %f1;
        mov.b32 %f6, %f2;
        mov.b32 %f9, %f7;
        ");
        assert_eq!(kept, 0);
    }

    /// Of a sum of products, every factor was loaded. A move of one of them would leave the others unread.
    #[test]
    fn a_sum_of_products_that_alone_reads_its_factors_stays() {
        let (left, kept) = left(
            "ld.shared.f32 %f1, [%r1];
            ld.shared.f32 %f2, [%r1+4];
            ld.shared.f32 %f3, [%r1+8];
            fma.rn.f32 %f4, %f1, %f2, %f4;
            fma.rn.f32 %f4, %f1, %f3, %f4;
            mul.f32 %f5, %f4, 0f3FB8AA3B;
            st.global.f32 [%rd1], %f5;",
        );
        insta::assert_snapshot!(left.join("\n"), @"
        fma.rn.f32 %f4, %f1, %f2, %f4;
        fma.rn.f32 %f4, %f1, %f3, %f4;
        mov.b32 %f5, %f4;
        ");
        assert_eq!(kept, 2);
    }

    /// What decides an address stays in any case.
    #[test]
    fn an_operation_that_decides_an_address_stays() {
        let (left, kept) = left(
            "ld.global.f32 %f1, [%rd1];
            mul.f32 %f2, %f1, 0f40000000;
            cvt.rzi.u32.f32 %r1, %f2;
            ld.shared.f32 %f3, [%r1];
            st.global.f32 [%rd1], %f3;",
        );
        assert_eq!((left.len(), kept), (1, 1), "{left:?}");
    }
}
