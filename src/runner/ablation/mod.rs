//! Ablation: removes one kind of instruction from a kernel's PTX, so that its time shows what they cost.

mod alone;
mod arithmetic;
mod arrival;
mod flow;
mod lined;
mod lines;
mod mbarriers;
mod memory;
mod needed;
mod parameters;
mod registers;
mod replace;
mod run;
mod selecting;
mod ssa;
mod statement;
mod steering;
mod waits;

use arithmetic::Arithmetic;
use registers::Registers;
use replace::{Fate, OPAQUE, Replacer};
use statement::{Piece, pieces};
use steering::{Deciding, Kernel, Steering};
use waits::Waits;

use crate::domain::code::ablation::Removed;

pub use lined::Lined;
pub use parameters::Parameters;
pub use run::ablations;

/// A kernel's PTX without one kind of instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AblatedPtx {
    /// The PTX.
    pub ptx: String,
    /// How many instructions were removed.
    pub places: u32,
    /// How many of these decide branches, so that the kernel may take another path.
    pub diverting: u32,
    /// How many stay, because they decide addresses, loops or synchronisation, or because others would go with them.
    pub kept: u32,
    /// The numbers of the removed instructions, from 0 in the order of the PTX. For [`Removed::AllKindsAndWaits`], those on which a
    /// thread may wait.
    numbers: Vec<usize>,
    /// Whether any of them can be removed without the others.
    is_divisible: bool,
}

/// What to remove from all kernels of a PTX text.
struct Removal<'r> {
    removed: Removed,
    /// The numbers of the instructions. None for all of this kind.
    only: Option<&'r [usize]>,
}

/// Removes each kind of instruction in turn from all kernels of a PTX text, in the order of [`Removed::ALL`]. Without such an
/// instruction, the kernels stay as they are. Unless parameters are apart, two pointers among those of a kernel may lead to the
/// same buffer. Where no wait can be removed, [`Removed::AllKindsAndWaits`] removes nothing: it would be [`Removed::AllKinds`].
pub fn ablate(ptx: &str, parameters: &Parameters) -> Vec<(Removed, AblatedPtx)> {
    let removals = Removed::ALL.map(|removed| Removal { removed, only: None });
    Removed::ALL.into_iter().zip(without(ptx, parameters, &removals)).collect()
}

/// Removes some instructions of a kind, by their numbers in [`ablate`]. Returns a PTX text for each kind and its numbers.
fn ablate_some(ptx: &str, parameters: &Parameters, some: &[(Removed, &[usize])]) -> Vec<String> {
    let removals: Vec<Removal<'_>> =
        some.iter().map(|(removed, only)| Removal { removed: *removed, only: Some(only) }).collect();
    without(ptx, parameters, &removals).into_iter().map(|ablated| ablated.ptx).collect()
}

fn without(ptx: &str, parameters: &Parameters, removals: &[Removal<'_>]) -> Vec<AblatedPtx> {
    let form = ssa::of(ptx);
    let pieces = pieces(&form);
    let mut registers = Registers::default();
    for declaration in pieces.iter().filter_map(Piece::declaration) {
        registers.declare(declaration);
    }
    let parts = kernels(&pieces);
    let kernels: Vec<Kernel<'_, '_>> = parts.iter().map(|part| Kernel::of(part, &registers)).collect();
    let [steering, paths] =
        [Deciding::Safety, Deciding::Path].map(|deciding| Steering::of(&kernels, deciding, parameters.are_apart));
    let arithmetic: Vec<Arithmetic<'_>> =
        kernels.iter().zip(&steering).map(|(kernel, steering)| Arithmetic::of(kernel, &registers, steering)).collect();
    let replacer = |removed, at: usize, waits, alone| {
        let (kernel, steering, arithmetic) = (&kernels[at], &steering[at], &arithmetic[at]);
        Replacer { removed, registers: &registers, kernel, steering, arithmetic, waits, parameters, alone, values: 0 }
    };
    let none = Waits::default();
    let waits_of = |at: usize| {
        let mut all_kinds = replacer(Removed::AllKinds, at, &none, false);
        Waits::of(&kernels[at], &steering[at], |work| matches!(all_kinds.fate(work), Fate::Replaced(_)))
    };
    let waits: Vec<Waits<'_>> = (0..kernels.len()).map(waits_of).collect();
    let without = |removal: &Removal<'_>| {
        if removal.removed == Removed::AllKindsAndWaits && !waits.iter().any(Waits::has_removed) {
            return AblatedPtx { kept: waits.iter().map(Waits::kept).sum(), ..AblatedPtx::of(ptx.to_owned()) };
        }
        let mut ablated = AblatedPtx::of(String::with_capacity(ptx.len()));
        let (mut values, mut number) = (0, 0);
        for (at, part) in parts.iter().enumerate() {
            let mut replacer = replacer(removal.removed, at, &waits[at], removal.only.is_some());
            replacer.values = values;
            number = ablated.add(part, &mut replacer, &paths[at], removal.only, number);
            values = replacer.values;
        }
        ablated.ptx = ssa::restore(&ablated.ptx);
        ablated
    };
    removals.iter().map(without).collect()
}

/// Splits pieces before the body of each kernel. The first part has what stands before all bodies.
fn kernels<'a, 'p>(pieces: &'a [Piece<'p>]) -> Vec<&'a [Piece<'p>]> {
    let bodies = pieces.iter().enumerate().filter(|(_, piece)| matches!(piece, Piece::Body(_))).map(|(at, _)| at);
    let starts: Vec<usize> = std::iter::once(0).chain(bodies).collect();
    let ends = starts.iter().skip(1).copied().chain([pieces.len()]);
    starts.iter().zip(ends).map(|(start, end)| &pieces[*start..end]).collect()
}

impl AblatedPtx {
    /// Makes a PTX text from which nothing is removed.
    fn of(ptx: String) -> Self {
        Self { ptx, places: 0, diverting: 0, kept: 0, numbers: Vec::new(), is_divisible: true }
    }

    /// Adds a kernel without what is removed. `number` is that of the next instruction, before and after.
    fn add<'a>(
        &mut self,
        kernel: &[Piece<'a>],
        replacer: &mut Replacer<'_, 'a>,
        paths: &Steering<'a>,
        only: Option<&[usize]>,
        mut number: usize,
    ) -> usize {
        let mut is_start = matches!(kernel.first(), Some(Piece::Body(_)));
        for piece in kernel {
            let Piece::Instruction(instruction) = piece else {
                self.ptx += piece.text();
                continue;
            };
            if std::mem::take(&mut is_start) {
                self.ptx += &prologue(replacer.removed);
                self.places += u32::from(replacer.removed == Removed::Work);
            }
            match replacer.fate(instruction) {
                Fate::Other if instruction.is_phi() => continue,
                Fate::Other => self.ptx += instruction.text,
                Fate::Adapted(text) => self.ptx += &text,
                Fate::Kept => {
                    self.kept += 1;
                    self.ptx += instruction.text;
                }
                Fate::Replaced(_) if only.is_some_and(|only| !only.contains(&number)) => self.ptx += instruction.text,
                Fate::Replaced(text) => {
                    self.places += 1;
                    let can_arrive = !instruction.is_copy_to_shared() || replacer.arrival(instruction).is_some();
                    self.is_divisible &= can_arrive && alone::can_go(instruction);
                    let is_wait = replacer.waits.removes(instruction);
                    let is_named = is_wait && waits::can_block(instruction);
                    if is_named || replacer.removed != Removed::AllKindsAndWaits {
                        self.numbers.push(number);
                    }
                    // A wait that is over at once decides the end of its own loop only.
                    let result = instruction.result().filter(|_| !is_wait);
                    self.diverting += u32::from(!result.is_none_or(|result| paths.is_free(result)));
                    self.ptx += &text;
                }
            }
            number += 1;
        }
        number
    }
}

/// Returns what a kernel begins with: it sets a register to a value that the compiler does not know, and ends at once if all
/// work is removed. The compiler must not know that it does, so that the kernel keeps its registers and its shared memory.
fn prologue(removed: Removed) -> String {
    match removed {
        Removed::Nothing => String::new(),
        Removed::Work => ".reg .b64 %ablated; .reg .pred %ablated_end; mov.u64 %ablated, %gridid; \
                          setp.ne.u64 %ablated_end, %ablated, 0xfffffffffffffff; @%ablated_end ret;\n\t"
            .to_owned(),
        _ => format!(
            ".reg .b32 {OPAQUE}; {{ .reg .b64 %ablated_id; mov.u64 %ablated_id, %gridid; cvt.u32.u64 {OPAQUE}, %ablated_id; \
             }}\n\t"
        ),
    }
}

#[cfg(test)]
mod tests;
