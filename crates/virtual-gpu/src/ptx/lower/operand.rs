//! Operands: registers, literals, symbols and addresses.

use super::builder::Lowerer;
use super::special;
use super::symbols::{Register, Symbol};
use crate::program::visit::File;
use crate::program::{Address, Constant, FALSE, NONE, Slot, Space, TRUE, Ty};
use crate::ptx::Problem;
use crate::ptx::syntax::Operand;

/// Requires exactly `N` operands.
pub(super) fn exactly<'o, 'a, const N: usize>(operands: &'o [Operand<'a>]) -> Result<&'o [Operand<'a>; N], Problem> {
    operands.try_into().map_err(|_| Problem::Syntax(format!("{N} operands expected, {} found", operands.len())))
}

impl Lowerer<'_> {
    /// Returns the register called `name`, which must be as wide as `ty`.
    pub(super) fn typed_register(&self, name: &str, ty: Ty) -> Result<Register, Problem> {
        let register = self.scopes.register(name).ok_or_else(|| undeclared(name))?;
        if register.ty.bits() != ty.bits() || (register.ty == Ty::Pred) != (ty == Ty::Pred) {
            return Err(Problem::Syntax(format!("`{name}` has {} bits, not {}", register.ty.bits(), ty.bits())));
        }
        Ok(register)
    }

    /// Returns the register of a destination that may be wider than its type.
    pub(super) fn any_register(&self, operand: &Operand<'_>) -> Result<Register, Problem> {
        match operand {
            Operand::Name(name, 0) => self.scopes.register(name).ok_or_else(|| undeclared(name)),
            _ => Err("a register expected".into()),
        }
    }

    /// Resolves a destination.
    pub(super) fn write(&mut self, operand: &Operand<'_>, ty: Ty) -> Result<Slot, Problem> {
        match operand {
            Operand::Name("_", 0) => Ok(NONE),
            Operand::Name(name, 0) => {
                let register = self.typed_register(name, ty)?;
                Ok(self.operand_of(register))
            }
            _ => Err("a register expected as destination".into()),
        }
    }

    /// Resolves `d` or `d|p`.
    pub(super) fn write_pair(&mut self, operand: &Operand<'_>, first: Ty) -> Result<(Slot, Slot), Problem> {
        match operand {
            Operand::Pair(d, p) => {
                Ok((self.write(&Operand::Name(d, 0), first)?, self.write(&Operand::Name(p, 0), Ty::Pred)?))
            }
            _ => Ok((self.write(operand, first)?, NONE)),
        }
    }

    /// Resolves a source.
    pub(super) fn read(&mut self, operand: &Operand<'_>, ty: Ty) -> Result<Slot, Problem> {
        if let Operand::Name(name, addend) = operand {
            if self.scopes.register(name).is_some() {
                if *addend != 0 {
                    return Err("a register with an addend outside an address".into());
                }
                let register = self.typed_register(name, ty)?;
                return Ok(self.operand_of(register));
            }
            let constant = match special::block(name) {
                Some(special) if *addend == 0 => Constant::Special(special),
                _ => self.symbol_address(name, *addend)?,
            };
            if ty.bits() < 32 || ty == Ty::B128 {
                return Err(Problem::Syntax(format!("`{name}` does not fit in {} bits", ty.bits())));
            }
            return self.constant(File::of(ty), constant);
        }
        if ty == Ty::Pred {
            return match operand {
                Operand::Int(value) => Ok(if *value != 0 { TRUE } else { FALSE }),
                _ => Err("a predicate expected".into()),
            };
        }
        let bits = literal(operand, ty)?;
        self.constant(File::of(ty), Constant::Bits(bits))
    }

    /// Resolves a predicate source and whether it is negated.
    pub(super) fn read_predicate(&mut self, operand: &Operand<'_>) -> Result<(Slot, bool), Problem> {
        match operand {
            Operand::Not(name) => Ok((self.read(&Operand::Name(name, 0), Ty::Pred)?, true)),
            _ => Ok((self.read(operand, Ty::Pred)?, false)),
        }
    }

    /// Returns the operand of a constant.
    pub(super) fn constant(&mut self, file: File, constant: Constant) -> Result<Slot, Problem> {
        match file {
            File::Narrow => self.constants[0].slot(constant),
            File::Wide => self.constants[1].slot(constant),
            File::Predicate => Err("a number as predicate".into()),
        }
    }

    /// Returns the address of a variable, in its own space.
    pub(super) fn symbol_address(&mut self, name: &str, addend: i64) -> Result<Constant, Problem> {
        let far = || Problem::Syntax(format!("`{name}` with a far addend"));
        let within = |offset: u32| u32::try_from(i64::from(offset).saturating_add(addend)).map_err(|_| far());
        Ok(match self.scopes.find(name) {
            Some(Symbol::Global(index)) => Constant::Global(index, i32::try_from(addend).map_err(|_| far())?),
            Some(Symbol::Shared(offset)) => Constant::Shared(within(offset)?),
            Some(Symbol::ModuleShared(index)) => Constant::Shared(within(self.module_shared(index)?)?),
            Some(Symbol::DynamicShared) => Constant::DynamicShared(within(0)?),
            Some(Symbol::Local(offset)) => Constant::Local(within(offset)?),
            Some(Symbol::Param(offset)) => Constant::ParamAddress(within(offset)?),
            Some(Symbol::Register(_) | Symbol::Range { .. }) => return Err("a variable expected".into()),
            Some(Symbol::OfCall(_)) => return Err(Problem::Unsupported(format!("the address of `{name}` of a call"))),
            None if name.starts_with('%') => return Err(undeclared(name)),
            None => return Err(undeclared(name)),
        })
    }

    /// Returns the space of the variable called `name`.
    fn symbol_space(&self, name: &str) -> Option<Space> {
        Some(match self.scopes.find(name)? {
            Symbol::Global(_) => Space::Global,
            Symbol::Shared(_) | Symbol::ModuleShared(_) | Symbol::DynamicShared => Space::Shared,
            Symbol::Local(_) => Space::Local,
            Symbol::Param(_) => Space::Param,
            Symbol::Register(_) | Symbol::Range { .. } | Symbol::OfCall(_) => return None,
        })
    }

    /// Resolves `[...]`. An access to a named variable without a space uses the variable's space.
    pub(super) fn address(&mut self, operand: &Operand<'_>, space: Space) -> Result<(Address, Space), Problem> {
        let Operand::Address(name, offset) = operand else { return Err("an address in brackets expected".into()) };
        let offset = i32::try_from(*offset).map_err(|_| Problem::from("an address with a far offset"))?;
        let Some(name) = name else {
            // The literal is the whole address.
            let base = self.constant(File::Wide, Constant::Bits(0))?;
            return Ok((Address { base, wide: true, offset }, space));
        };
        if let Some(register) = self.scopes.register(name) {
            let wide = match register.ty.bits() {
                64 => true,
                32 if !matches!(space, Space::Generic | Space::Global | Space::Const | Space::Param) => false,
                _ => return Err(Problem::Syntax(format!("`{name}` is not an address in this space"))),
            };
            return Ok((Address { base: self.operand_of(register), wide, offset }, space));
        }
        let own = self.symbol_space(name).ok_or_else(|| undeclared(name))?;
        let space = if space == Space::Generic { own } else { space };
        let constant = self.symbol_address(name, 0)?;
        let base = self.constant(File::Wide, constant)?;
        Ok((Address { base, wide: true, offset }, space))
    }

    /// Resolves the address of an instruction that works only on shared memory. Without `.shared` the address is
    /// generic, so the window is subtracted.
    pub(super) fn shared_address(&mut self, operand: &Operand<'_>, is_shared: bool) -> Result<Address, Problem> {
        if is_shared {
            return Ok(self.address(operand, Space::Shared)?.0);
        }
        let Operand::Address(Some(name), offset) = operand else { return Err("an address expected".into()) };
        let Some(register) = self.scopes.register(name) else {
            return Ok(self.address(operand, Space::Shared)?.0);
        };
        if register.ty.bits() != 64 {
            return Err("a generic address has 64 bits".into());
        }
        let offset = i32::try_from(*offset).map_err(|_| Problem::from("an address with a far offset"))?;
        let local = self.aside(|lowerer| lowerer.subtract_shared_window(register))?;
        Ok(Address { base: self.operand_of(local), wide: true, offset })
    }

    /// Resolves the parts of `{a, b}`, or a single operand, as sources.
    pub(super) fn read_all(&mut self, operand: &Operand<'_>, ty: Ty) -> Result<Vec<Slot>, Problem> {
        parts(operand).iter().map(|part| self.read(part, ty)).collect()
    }

    /// Resolves the parts of `{a, b}`, or a single operand, as destinations.
    pub(super) fn write_all(&mut self, operand: &Operand<'_>, ty: Ty) -> Result<Vec<Slot>, Problem> {
        parts(operand).iter().map(|part| self.write(part, ty)).collect()
    }
}

/// Returns the parts of a vector. Any other operand is its own only part.
pub(super) fn parts<'o, 'a>(operand: &'o Operand<'a>) -> &'o [Operand<'a>] {
    match operand {
        Operand::Vector(parts) => parts,
        _ => std::slice::from_ref(operand),
    }
}

/// Fills an array with slots and pads it with [`NONE`].
pub(super) fn padded<const N: usize>(slots: &[Slot]) -> Result<[Slot; N], Problem> {
    let mut array = [NONE; N];
    let Some(head) = array.get_mut(..slots.len()) else { return Err("too many registers in a vector".into()) };
    head.copy_from_slice(slots);
    Ok(array)
}

/// Returns the integer of a literal.
pub(super) fn integer(operand: &Operand<'_>) -> Result<i64, Problem> {
    match operand {
        Operand::Int(value) => Ok(*value),
        _ => Err("an integer literal expected".into()),
    }
}

/// Returns the bits of a literal of a type.
fn literal(operand: &Operand<'_>, ty: Ty) -> Result<u64, Problem> {
    let single = matches!(ty, Ty::F32 | Ty::B32 | Ty::Tf32);
    let bits = match operand {
        Operand::Int(value) if !matches!(ty, Ty::F32 | Ty::F64) => *value as u64,
        Operand::Single(bits) if single => u64::from(*bits),
        Operand::Double(bits) if matches!(ty, Ty::F64 | Ty::B64) => *bits,
        Operand::Double(bits) if ty == Ty::F32 => u64::from((f64::from_bits(*bits) as f32).to_bits()),
        Operand::Single(bits) if ty == Ty::F64 => f64::from(f32::from_bits(*bits)).to_bits(),
        _ => return Err(Problem::Syntax(format!("an operand that is no {ty:?}"))),
    };
    Ok(if ty.bits() < 64 { bits & ((1 << ty.bits()) - 1) } else { bits })
}

fn undeclared(name: &str) -> Problem {
    Problem::Syntax(format!("`{name}` is not declared"))
}
