//! Names: registers, variables and labels, by scope.

use std::collections::HashMap;

use crate::program::Ty;
use crate::program::visit::File;
use crate::ptx::Problem;

/// Maximum virtual registers of a kernel.
const MAX_REGISTERS: u64 = 1 << 22;

/// A virtual register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Register {
    /// Its index.
    pub id: u32,
    /// Its declared type.
    pub ty: Ty,
}

/// What a name in a kernel refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Symbol {
    /// One register.
    Register(Register),
    /// Registers `name0` to `name{count - 1}`.
    Range {
        /// The first.
        first: Register,
        /// Number of registers.
        count: u32,
    },
    /// A variable in global or constant memory, by index.
    Global(u32),
    /// A static shared variable at this offset.
    Shared(u32),
    /// A shared variable of the module, by index. It is placed in each kernel that uses it.
    ModuleShared(u32),
    /// Dynamic shared memory.
    DynamicShared,
    /// A local variable at this offset.
    Local(u32),
    /// A parameter at this offset.
    Param(u32),
    /// A parameter or the result of a call, by number.
    OfCall(u32),
}

/// Names of one scope. Register ranges have their own map, or `%r` would hide behind `%r<10>`.
#[derive(Debug, Default)]
struct Scope<'a> {
    number: u32,
    names: HashMap<&'a str, Symbol>,
    ranges: HashMap<&'a str, Symbol>,
}

/// The scopes of a kernel, from the module's to the innermost.
#[derive(Debug)]
pub(super) struct Scopes<'a> {
    /// Names of the module.
    module: &'a HashMap<&'a str, Symbol>,
    open: Vec<Scope<'a>>,
    opened: u32,
    registers: u64,
}

impl<'a> Scopes<'a> {
    /// Starts with the module's names and no scope.
    pub fn new(module: &'a HashMap<&'a str, Symbol>) -> Self {
        Self { module, open: Vec::new(), opened: 0, registers: 0 }
    }

    /// Returns the module's names alone: the scopes of a function.
    pub fn of_function(&self) -> Self {
        Self { module: self.module, open: Vec::new(), opened: 0, registers: self.registers }
    }

    /// Opens a scope.
    pub fn open(&mut self) {
        self.open.push(Scope { number: self.opened, ..Scope::default() });
        self.opened += 1;
    }

    /// Closes the innermost scope.
    pub fn close(&mut self) {
        self.open.pop();
    }

    /// Returns the numbers of the open scopes, innermost first. Scopes are numbered in the order in which they open.
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        self.open.iter().rev().map(|scope| scope.number)
    }

    /// Declares a name in the innermost scope.
    pub fn declare(&mut self, name: &'a str, symbol: Symbol) -> Result<(), Problem> {
        let Some(scope) = self.open.last_mut() else { return Err("no scope is open".into()) };
        let names = if matches!(symbol, Symbol::Range { .. }) { &mut scope.ranges } else { &mut scope.names };
        match names.insert(name, symbol) {
            None => Ok(()),
            Some(_) => Err(Problem::Syntax(format!("`{name}` is declared twice"))),
        }
    }

    /// Declares registers and appends their files to `files`.
    pub fn declare_registers(
        &mut self,
        name: &'a str,
        ty: Ty,
        count: Option<u64>,
        files: &mut Vec<File>,
    ) -> Result<(), Problem> {
        let many = count.unwrap_or(1);
        self.registers = self.registers.saturating_add(many);
        if self.registers > MAX_REGISTERS {
            return Err(Problem::Syntax(format!("more than {MAX_REGISTERS} registers")));
        }
        if ty == Ty::B128 {
            return Err(Problem::Unsupported(format!(".reg .b128 {name}")));
        }
        let first = Register { id: files.len() as u32, ty };
        files.resize(files.len() + many as usize, File::of(ty));
        let symbol =
            if count.is_some() { Symbol::Range { first, count: many as u32 } } else { Symbol::Register(first) };
        self.declare(name, symbol)
    }

    /// Returns what a name refers to.
    pub fn find(&self, name: &str) -> Option<Symbol> {
        let digits = name.len() - name.bytes().rev().take_while(u8::is_ascii_digit).count();
        let (prefix, number) = name.split_at(digits);
        let number = number.parse::<u32>().ok();
        let inner = self.open.iter().rev().find_map(|scope| {
            scope.names.get(name).copied().or_else(|| match (scope.ranges.get(prefix), number) {
                (Some(Symbol::Range { first, count }), Some(number)) if number < *count => {
                    Some(Symbol::Register(Register { id: first.id + number, ty: first.ty }))
                }
                _ => None,
            })
        });
        inner.or_else(|| self.module.get(name).copied())
    }

    /// Returns the register called `name`.
    pub fn register(&self, name: &str) -> Option<Register> {
        match self.find(name) {
            Some(Symbol::Register(register)) => Some(register),
            _ => None,
        }
    }
}
