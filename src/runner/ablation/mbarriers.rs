//! Which operations may be on the same mbarriers, as far as their addresses tell.
//!
//! A kernel keeps its mbarriers in arrays: one for each place of a queue. An address is a variable, a constant, and the number
//! of the place times 8. Operations whose addresses differ in the number alone are on the same mbarriers.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::memory::symbol;
use super::statement::{Instruction, list, names};

/// Mbarriers from an address up to the next such array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Place<'a> {
    variable: &'a str,
    offset: i64,
}

/// The mbarriers of a kernel.
#[derive(Debug, Default)]
pub(super) struct Mbarriers<'a> {
    /// The instruction that makes each value. None if there are several.
    makers: HashMap<&'a str, Option<Maker<'a>>>,
    /// The values that follow from the address of a variable.
    pointers: HashSet<&'a str>,
    /// Where an array begins.
    arrays: BTreeSet<Place<'a>>,
}

#[derive(Debug, Clone)]
struct Maker<'a> {
    name: &'a str,
    sources: Vec<&'a str>,
}

/// What is known of a value: the variable to whose address it belongs, the constant in it, and whether there is more in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sum<'a> {
    variable: Option<&'a str>,
    constant: i64,
    varies: bool,
}

/// A value that follows from no variable's address.
const ANYTHING: Sum<'static> = Sum { variable: None, constant: 0, varies: true };

/// The most instructions to follow.
const MAX_DEPTH: usize = 16;

impl<'a> Mbarriers<'a> {
    /// Analyses the instructions of a kernel.
    pub fn of(instructions: &[&Instruction<'a>]) -> Self {
        let mut mbarriers = Self::default();
        for instruction in instructions {
            let [result, sources @ ..] = &instruction.operands[..] else { continue };
            for made in instruction.result().into_iter().flat_map(|_| list(result)) {
                let maker = Maker { name: instruction.name(), sources: sources.to_vec() };
                mbarriers.makers.entry(made).and_modify(|maker| *maker = None).or_insert(Some(maker));
            }
        }
        mbarriers.find_pointers();
        let addresses = instructions.iter().filter(|one| one.name() == "mbarrier");
        let sums = addresses.filter_map(|one| mbarriers.address(one)).filter(|sum| sum.varies);
        let arrays = sums.filter_map(|sum| Some(Place { variable: sum.variable?, offset: sum.constant })).collect();
        Self { arrays, ..mbarriers }
    }

    /// Returns which mbarriers an operation may be on. None if that is not known.
    pub fn place(&self, operation: &Instruction<'a>) -> Option<Place<'a>> {
        let sum = self.address(operation)?;
        let place = Place { variable: sum.variable?, offset: sum.constant };
        let array = self.arrays.range(..=place).next_back().filter(|array| array.variable == place.variable);
        Some(array.copied().unwrap_or(place))
    }

    fn find_pointers(&mut self) {
        loop {
            let is_pointer =
                |source: &&str| names(source).any(|name| self.pointers.contains(name) || is_variable(name));
            let follows = |maker: &Maker<'a>| maker.name != "ld" && maker.sources.iter().any(&is_pointer);
            let makers = self.makers.iter().filter(|(_, maker)| maker.as_ref().is_some_and(follows));
            let found: HashSet<&str> = makers.map(|(name, _)| *name).collect();
            if found.len() == self.pointers.len() {
                return;
            }
            self.pointers = found;
        }
    }

    fn address(&self, operation: &Instruction<'a>) -> Option<Sum<'a>> {
        let address = operation.operands.iter().find(|operand| operand.starts_with('['))?;
        let inner = address.trim_start_matches('[').trim_end_matches(']');
        let (base, added) = inner.split_once('+').unwrap_or((inner, "0"));
        let sum = self.sum(base.trim(), &mut Vec::new())?;
        Some(Sum { constant: sum.constant.checked_add(added.trim().parse().ok()?)?, ..sum })
    }

    /// Returns what is known of a value. None if nothing is of a value that follows from the address of a variable.
    fn sum(&self, value: &'a str, open: &mut Vec<&'a str>) -> Option<Sum<'a>> {
        if value.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
            return Some(Sum { variable: None, constant: value.parse().ok()?, varies: false });
        }
        if is_variable(value) {
            return Some(Sum { variable: Some(value), constant: 0, varies: false });
        }
        let anything = (!self.pointers.contains(value)).then_some(ANYTHING);
        let Some(Some(maker)) = self.makers.get(value) else { return anything };
        if open.contains(&value) || open.len() >= MAX_DEPTH {
            return anything;
        }
        open.push(value);
        let sum = self.made(maker, open);
        open.pop();
        sum.or(anything)
    }

    fn made(&self, Maker { name, sources }: &Maker<'a>, open: &mut Vec<&'a str>) -> Option<Sum<'a>> {
        match (*name, &sources[..]) {
            ("mov" | "cvt" | "cvta", [source]) => self.sum(source, open),
            ("add", [one, other]) => self.sum(one, open)?.plus(self.sum(other, open)?),
            ("mad", [one, other, added]) => self.product(one, other, open)?.plus(self.sum(added, open)?),
            ("mul", [one, other]) => self.product(one, other, open),
            ("shl", [one, bits]) => self.sum(one, open)?.times(1_i64.checked_shl(bits.parse().ok()?)?),
            ("phi", _) => {
                let sums = self.joined(sources).into_iter().map(|source| self.sum(source, open));
                let sums = sums.collect::<Option<Vec<_>>>()?;
                let first = *sums.first()?;
                let is_alike = |sum: &Sum<'_>| (sum.variable, sum.constant) == (first.variable, first.constant);
                let varies = sums.iter().any(|sum| sum.varies);
                sums.iter().all(is_alike).then_some(Sum { varies, ..first })
            }
            _ => None,
        }
    }

    /// Returns the values that others join, directly or not.
    fn joined(&self, sources: &[&'a str]) -> Vec<&'a str> {
        let (mut found, mut seen, mut open) = (Vec::new(), HashSet::new(), sources.to_vec());
        while let Some(name) = open.pop() {
            if !seen.insert(name) {
                continue;
            }
            match self.makers.get(name) {
                Some(Some(maker)) if matches!(maker.name, "phi" | "mov") => open.extend(&maker.sources),
                _ => found.push(name),
            }
        }
        found
    }

    fn product(&self, one: &'a str, other: &'a str, open: &mut Vec<&'a str>) -> Option<Sum<'a>> {
        let (one, other) = (self.sum(one, open)?, self.sum(other, open)?);
        if other.varies { other.times(one.known()?) } else { one.times(other.known()?) }
    }
}

impl Sum<'_> {
    fn plus(self, other: Self) -> Option<Self> {
        let is_one = self.variable.is_none() || other.variable.is_none();
        is_one.then_some(Self {
            variable: self.variable.or(other.variable),
            constant: self.constant.checked_add(other.constant)?,
            varies: self.varies || other.varies,
        })
    }

    fn times(self, factor: i64) -> Option<Self> {
        let constant = self.constant.checked_mul(factor)?;
        self.variable.is_none().then_some(Self { constant, ..self })
    }

    fn known(self) -> Option<i64> {
        (self.variable.is_none() && !self.varies).then_some(self.constant)
    }
}

fn is_variable(name: &str) -> bool {
    symbol(name).is_some()
}
