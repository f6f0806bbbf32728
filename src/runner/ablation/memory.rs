//! Which parts of memory instructions may share, as far as their addresses tell.

use std::collections::HashMap;

use super::registers::Registers;
use super::statement::{Instruction, NUMBERED, names};

/// A part of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Part<'a> {
    /// Anything in shared memory.
    Shared,
    /// A variable in shared memory.
    Variable(&'a str),
    /// Anything in global memory.
    Global,
    /// What a pointer among the parameters points to.
    Parameter(&'a str),
    /// Local memory.
    Local,
}

/// What the addresses of a kernel follow from.
#[derive(Debug, Default)]
pub(super) struct Addresses<'a> {
    /// The variable or the pointer that each register follows from; none if there are several, or if it was loaded.
    origins: HashMap<&'a str, Option<Part<'a>>>,
}

impl Part<'_> {
    /// Returns whether it is in shared memory.
    pub fn is_shared(self) -> bool {
        matches!(self, Self::Shared | Self::Variable(_))
    }

    /// Returns whether it is in global memory.
    pub fn is_global(self) -> bool {
        matches!(self, Self::Global | Self::Parameter(_))
    }

    /// Returns whether two parts may share memory. Variables lie apart, and so do tensors and workspaces.
    pub fn overlaps(self, other: Self) -> bool {
        let is_any = matches!(self, Self::Shared | Self::Global) || matches!(other, Self::Shared | Self::Global);
        let is_alike = self.is_shared() == other.is_shared() && self.is_global() == other.is_global();
        self == other || (is_any && is_alike)
    }
}

impl<'a> Addresses<'a> {
    /// Analyses the instructions of a kernel.
    pub fn of(instructions: &[&Instruction<'a>], registers: &Registers<'_>) -> Self {
        let mut addresses = Self::default();
        while instructions.iter().filter(|one| addresses.follow(one, registers)).count() > 0 {}
        addresses
    }

    /// Returns the parts that an instruction may load or store, or fill with a copy.
    pub fn parts(&self, instruction: &Instruction<'a>) -> Vec<Part<'a>> {
        let address = instruction.operands.iter().find(|operand| operand.starts_with('['));
        let base = address.and_then(|address| names(address).next()).unwrap_or_default();
        let origin = if is_register(base) { self.origins.get(base).copied().flatten() } else { symbol(base) };
        let shared = origin.filter(|part| part.is_shared()).unwrap_or(Part::Shared);
        let global = origin.filter(|part| part.is_global()).unwrap_or(Part::Global);
        match instruction.name() {
            "ldmatrix" | "stmatrix" => vec![shared],
            "cp" if instruction.is_in("shared") => vec![shared],
            "ld" | "ldu" | "st" | "atom" | "red" => {
                let known = [("shared", shared), ("global", global), ("local", Part::Local)];
                let found = known.iter().filter(|(space, _)| instruction.is_in(space)).map(|(_, part)| *part);
                let found: Vec<Part<'_>> = found.collect();
                let is_generic = found.is_empty() && !instruction.is_in("param") && !instruction.is_in("const");
                if is_generic { vec![Part::Shared, Part::Global, Part::Local] } else { found }
            }
            _ => Vec::new(),
        }
    }

    /// Returns the parameter that holds the tensor map of a copy. None if it is not known.
    pub fn tensor_map(&self, copy: &Instruction<'a>) -> Option<&'a str> {
        let mut addresses = copy.operands.iter().filter(|operand| operand.starts_with('['));
        let base = names(addresses.nth(1)?).next()?;
        match self.origins.get(base).copied().flatten().or_else(|| symbol(base)) {
            Some(Part::Variable(parameter)) => Some(parameter),
            _ => None,
        }
    }

    /// Notes what a result follows from. Returns whether that is new.
    fn follow(&mut self, instruction: &Instruction<'a>, registers: &Registers<'_>) -> bool {
        let [result, sources @ ..] = &instruction.operands[..] else { return false };
        if instruction.result().is_none() || !matches!(registers.bits(result), 32 | 64) {
            return false;
        }
        let mut found: Vec<Option<Part<'a>>> = match instruction.name() {
            "ld" if instruction.is_in("param") && registers.bits(result) == 64 => {
                let parameter = sources.first().and_then(|address| names(address).next());
                parameter.map(|name| Some(Part::Parameter(name))).into_iter().collect()
            }
            "ld" if instruction.is_in("param") => Vec::new(),
            // A pointer that was loaded may point anywhere.
            "ld" | "ldu" | "atom" if registers.bits(result) == 64 => vec![None],
            "ld" | "ldu" | "atom" => Vec::new(),
            "mov" if sources.len() == 1 && symbol(sources[0]).is_some() => vec![symbol(sources[0])],
            _ => {
                let known = sources.iter().flat_map(|source| names(source));
                known.filter_map(|name| self.origins.get(name).copied()).collect()
            }
        };
        found.extend(self.origins.get(result).copied());
        let Some(first) = found.first().copied() else { return false };
        let origin = if found.iter().all(|other| *other == first) { first } else { None };
        self.origins.insert(result, origin) != Some(origin)
    }
}

/// Returns the variable that a name stands for. It is no register, number or special register.
pub(super) fn symbol(name: &str) -> Option<Part<'_>> {
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '$');
    (is_name && !is_register(name) && names(name).eq([name])).then_some(Part::Variable(name))
}

/// Returns whether a name is that of a register. One in inline assembly may be called as a variable could be.
fn is_register(name: &str) -> bool {
    name.starts_with('%') || name.contains(NUMBERED)
}
