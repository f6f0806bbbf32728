//! Builds instructions over virtual registers.

use std::collections::HashMap;

use super::kernel::Lowerer;
use super::symbols::Register;
use crate::program::registers::Draft;
use crate::program::visit::{File, Role};
use crate::program::{AT_EXIT, CONSTANT, Constant, Instruction, Op, Slot, TRUE, Ty};
use crate::ptx::Problem;

/// Constants of one file, each once.
#[derive(Debug, Default)]
pub(super) struct Constants {
    pub(super) list: Vec<Constant>,
    slots: HashMap<Constant, Slot>,
}

impl Constants {
    /// Returns the operand of a constant.
    pub(super) fn slot(&mut self, constant: Constant) -> Result<Slot, Problem> {
        if let Some(&slot) = self.slots.get(&constant) {
            return Ok(slot);
        }
        if self.list.len() >= usize::from(CONSTANT) - 1 {
            return Err("a kernel with too many constants".into());
        }
        let slot = CONSTANT + self.list.len() as Slot;
        self.list.push(constant);
        self.slots.insert(constant, slot);
        Ok(slot)
    }
}

impl Lowerer<'_> {
    /// Returns the carry flag, which is a predicate here.
    pub(super) fn carry(&mut self) -> Slot {
        let register = match self.carry {
            Some(register) => register,
            None => {
                let register = self.new_register(Ty::Pred);
                *self.carry.insert(register)
            }
        };
        self.operand_of(register)
    }

    /// Makes up a register that is read only right behind where it is written.
    pub(super) fn temporary(&mut self, ty: Ty) -> Register {
        let register = self.new_register(ty);
        self.draft.temporaries.insert(register.id);
        register
    }

    fn new_register(&mut self, ty: Ty) -> Register {
        self.draft.files.push(File::of(ty));
        Register { id: self.draft.files.len() as u32 - 1, ty }
    }

    /// Adds a register to the instruction that is being built.
    pub(super) fn operand_of(&mut self, register: Register) -> Slot {
        self.pool.push(register.id);
        self.pool.len() as Slot - 1
    }

    /// Takes the instruction that is being built out of the way.
    pub(super) fn suspend(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.pool)
    }

    /// Goes on with an instruction that was suspended.
    pub(super) fn resume(&mut self, pool: Vec<u32>) {
        self.pool = pool;
    }

    /// Appends the instruction that was built.
    pub(super) fn emit(&mut self, mut op: Op) {
        if op.writes_early() {
            self.separate(&mut op);
        }
        let guard = self.guard;
        let (slot, negated) = guard.map_or((TRUE, false), |(register, negated)| (self.operand_of(register), negated));
        let Draft { instructions, registers, first, .. } = &mut self.draft;
        first.push(registers.len() as u32);
        registers.append(&mut self.pool);
        instructions.push(Instruction {
            op,
            guard: slot,
            guard_negated: negated,
            reconverge: AT_EXIT,
            line: self.line,
        });
    }

    /// Copies sources that are also destinations, where an operation must not have that. C and D of an `mma` may be the
    /// same: the whole of C is read first.
    fn separate(&mut self, op: &mut Op) {
        let mut accesses = Vec::new();
        op.visit_operands(&mut |slot, file, role| {
            if *slot < CONSTANT {
                accesses.push((*slot, file, role));
            }
        });
        if let Op::Mma(mma) = &op {
            accesses.retain(|(slot, ..)| !mma.c.contains(slot));
        }
        let written: Vec<u32> = (accesses.iter())
            .filter(|(_, _, role)| *role == Role::Write)
            .map(|(slot, ..)| self.pool[usize::from(*slot)])
            .collect();
        for (slot, file, role) in accesses {
            let source = self.pool[usize::from(slot)];
            if role == Role::Read && written.contains(&source) {
                let ty = match file {
                    File::Narrow => Ty::B32,
                    File::Wide => Ty::B64,
                    File::Predicate => Ty::Pred,
                };
                let copy = self.temporary(ty);
                let pool = std::mem::replace(&mut self.pool, vec![copy.id, source]);
                self.emit(Op::Mov { ty, d: 0, a: 1 });
                self.pool = pool;
                self.pool[usize::from(slot)] = copy.id;
            }
        }
    }
}
