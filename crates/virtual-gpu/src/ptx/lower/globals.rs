//! Lays out the variables of a module.

use std::collections::HashMap;

use super::symbols::Symbol;
use crate::program::{Global, Space};
use crate::ptx::Problem;
use crate::ptx::syntax::{Function, Operand, Source, Variable};

/// Maximum bytes of all variables of a module.
const LARGEST: u64 = 1 << 30;

/// The variables of a module.
#[derive(Debug, Default)]
pub(super) struct Variables<'a> {
    /// The meaning of each name.
    pub symbols: HashMap<&'a str, Symbol>,
    /// Variables in global and constant memory.
    pub globals: Vec<Global>,
    /// Sizes and alignments of the static shared variables.
    pub shared: Vec<(u64, u32)>,
    /// Alignment of dynamic shared memory.
    pub dynamic_align: u32,
    /// The functions that can be called.
    pub functions: HashMap<&'a str, &'a Function<'a>>,
}

/// Assigns an offset to every variable of the module.
pub(super) fn layout<'a>(source: &'a Source<'a>) -> Result<Variables<'a>, (u32, Problem)> {
    let functions = source.functions.iter().map(|function| (function.name, function)).collect();
    let mut variables = Variables { dynamic_align: 16, functions, ..Variables::default() };
    let mut total = 0;
    for variable in &source.variables {
        let place = |problem| (variable.line, problem);
        total += variable.bytes;
        if total > LARGEST {
            return Err(place(Problem::Syntax(format!("variables of more than {LARGEST} bytes"))));
        }
        let symbol = variables.place(variable).map_err(place)?;
        if variables.symbols.insert(variable.name, symbol).is_some() {
            return Err(place(Problem::Syntax(format!("`{}` is declared twice", variable.name))));
        }
    }
    for variable in &source.variables {
        if let Some(&Symbol::Global(index)) = variables.symbols.get(variable.name) {
            variables.fill(index as usize, variable).map_err(|problem| (variable.line, problem))?;
        }
    }
    Ok(variables)
}

impl Variables<'_> {
    fn place(&mut self, variable: &Variable<'_>) -> Result<Symbol, Problem> {
        match variable.space {
            Space::Global | Space::Const => {
                if variable.is_extern {
                    return Err(Problem::Syntax(format!("`{}` is defined in another module", variable.name)));
                }
                self.globals.push(Global {
                    name: variable.name.to_owned(),
                    align: variable.align,
                    bytes: unsized_bytes(variable),
                    initial: Vec::new(),
                    addresses: Vec::new(),
                });
                Ok(Symbol::Global(self.globals.len() as u32 - 1))
            }
            Space::Shared if variable.is_extern => {
                self.dynamic_align = self.dynamic_align.max(variable.align);
                Ok(Symbol::DynamicShared)
            }
            Space::Shared => {
                self.shared.push((variable.bytes, variable.align));
                Ok(Symbol::ModuleShared(self.shared.len() as u32 - 1))
            }
            _ => Err("a variable outside a kernel in a space other than global, const and shared".into()),
        }
    }

    fn fill(&mut self, index: usize, variable: &Variable<'_>) -> Result<(), Problem> {
        let bytes = unsized_bytes(variable);
        let size = u64::from(variable.element);
        let mut initial = vec![0; bytes as usize];
        let mut addresses = Vec::new();
        for element in &variable.initial {
            let end = element.offset.saturating_add(size);
            if end > bytes {
                return Err(Problem::Syntax(format!("an initialiser longer than `{}`", variable.name)));
            }
            let bits = match &element.value {
                Operand::Int(value) => *value as u64,
                Operand::Single(bits) => u64::from(*bits),
                Operand::Double(bits) if size == 4 => u64::from((f64::from_bits(*bits) as f32).to_bits()),
                Operand::Double(bits) => *bits,
                Operand::Name(name, addend) if size == 8 => {
                    // A pointer to a function can only be called, and such calls are not modelled.
                    if self.functions.contains_key(name) {
                        continue;
                    }
                    let Some(&Symbol::Global(target)) = self.symbols.get(name) else {
                        return Err(Problem::Syntax(format!("the address of `{name}` is not known here")));
                    };
                    addresses.push((element.offset, target as usize, *addend));
                    0
                }
                _ => return Err("an initialiser that is neither a number nor an address".into()),
            };
            let width = size.min(8) as usize;
            initial[element.offset as usize..][..width].copy_from_slice(&bits.to_le_bytes()[..width]);
        }
        let global = &mut self.globals[index];
        (global.initial, global.addresses) = (initial, addresses);
        Ok(())
    }
}

/// Returns a variable's size. For an array without a size it is that of its initialiser.
fn unsized_bytes(variable: &Variable<'_>) -> u64 {
    if variable.bytes > 0 || variable.strides.len() != 2 {
        return variable.bytes;
    }
    let last = variable.initial.last().map_or(0, |element| element.offset);
    if variable.initial.is_empty() { 0 } else { last + u64::from(variable.element) }
}
