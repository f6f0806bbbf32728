//! Builds the instructions of a kernel over virtual registers.

use std::collections::{HashMap, HashSet};

use super::globals::Variables;
use super::registers::Draft;
use super::symbols::{Register, Scopes};
use crate::program::visit::{File, Role};
use crate::program::{AT_EXIT, CONSTANT, Constant, Instruction, Op, Slot, TRUE, Ty};
use crate::ptx::Problem;
use crate::ptx::syntax::Function;

/// Maximum bytes of shared memory, or of local memory per thread, that a kernel may declare. CUDA allows a thread this
/// much local memory (CUDA C++ programming guide, technical specifications), and no GPU has as much shared memory.
const MAX_BYTES: u64 = 512 << 10;

/// Deduplicated constants of one file.
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

/// A kernel that is being lowered.
pub(super) struct Lowerer<'a> {
    pub(super) scopes: Scopes<'a>,
    /// Constants of the 32-bit and the 64-bit file.
    pub(super) constants: [Constants; 2],
    pub(super) draft: Draft,
    /// Registers of the current instruction.
    pub(super) pool: Vec<u32>,
    pub(super) guard: Option<(Register, bool)>,
    pub(super) line: u32,
    /// The carry flag, once used.
    pub(super) carry: Option<Register>,
    pub(super) labels: HashMap<(u32, &'a str), u32>,
    /// Instruction index of each label.
    pub(super) positions: Vec<u32>,
    pub(super) targets: HashMap<(u32, &'a str), Vec<&'a str>>,
    pub(super) module_shared: &'a [(u64, u32)],
    pub(super) placed_shared: HashMap<u32, u32>,
    pub(super) shared_bytes: u64,
    pub(super) dynamic_align: u32,
    pub(super) local_bytes: u64,
    /// Bytes of all parameters.
    pub(super) param_bytes: u32,
    /// The values that are passed to and from calls, by the number of the parameter and the offset in it.
    pub(super) passed: HashMap<(u32, i64), Register>,
    /// The number of parameters and results of calls.
    pub(super) call_params: u32,
    /// The results of calls that do not return.
    pub(super) unreturned: HashSet<u32>,
    /// The functions that can be called.
    pub(super) functions: &'a HashMap<&'a str, &'a Function<'a>>,
    /// The functions that are being called, outermost first, each with the label at which it returns.
    pub(super) calls: Vec<(&'a str, u32)>,
}

impl<'a> Lowerer<'a> {
    /// Starts a kernel; `variables` are those of its text.
    pub(super) fn new(variables: &'a Variables<'a>) -> Self {
        Self {
            scopes: Scopes::new(&variables.symbols),
            constants: [Constants::default(), Constants::default()],
            draft: Draft::default(),
            pool: Vec::new(),
            guard: None,
            line: 0,
            carry: None,
            labels: HashMap::new(),
            positions: Vec::new(),
            targets: HashMap::new(),
            module_shared: &variables.shared,
            placed_shared: HashMap::new(),
            shared_bytes: 0,
            dynamic_align: variables.dynamic_align,
            local_bytes: 0,
            param_bytes: 0,
            passed: HashMap::new(),
            call_params: 0,
            unreturned: HashSet::new(),
            functions: &variables.functions,
            calls: Vec::new(),
        }
    }

    /// Returns the offset of a shared variable of the module. A kernel holds only the variables that it names.
    pub(super) fn module_shared(&mut self, index: u32) -> Result<u32, Problem> {
        if let Some(&offset) = self.placed_shared.get(&index) {
            return Ok(offset);
        }
        let (bytes, align) = self.module_shared[index as usize];
        let offset = reserve(&mut self.shared_bytes, bytes, align)?;
        self.placed_shared.insert(index, offset);
        Ok(offset)
    }

    /// Returns the number of a label that is visible here.
    pub(super) fn label(&self, name: &str) -> Result<u32, Problem> {
        let visible = self.scopes.numbers().find_map(|scope| self.labels.get(&(scope, name)));
        visible.copied().ok_or_else(|| Problem::Syntax(format!("label `{name}` is not declared")))
    }

    /// Returns the labels of a `.branchtargets` that is visible here.
    pub(super) fn targets(&self, name: &str) -> Result<Vec<u32>, Problem> {
        let visible = self.scopes.numbers().find_map(|scope| self.targets.get(&(scope, name)));
        let targets = visible.ok_or_else(|| Problem::Syntax(format!("`{name}` is not a `.branchtargets`")))?;
        targets.iter().map(|target| self.label(target)).collect()
    }

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

    /// Makes a temporary register that is read only right after it is written.
    pub(super) fn temporary(&mut self, ty: Ty) -> Register {
        let register = self.new_register(ty);
        self.draft.temporaries.insert(register.id);
        register
    }

    /// Makes a register.
    pub(super) fn new_register(&mut self, ty: Ty) -> Register {
        self.draft.files.push(File::of(ty));
        Register { id: self.draft.files.len() as u32 - 1, ty }
    }

    /// Adds a register to the current instruction.
    pub(super) fn operand_of(&mut self, register: Register) -> Slot {
        self.pool.push(register.id);
        self.pool.len() as Slot - 1
    }

    /// Suspends the current instruction.
    pub(super) fn suspend(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.pool)
    }

    /// Resumes a suspended instruction.
    pub(super) fn resume(&mut self, pool: Vec<u32>) {
        self.pool = pool;
    }

    /// Appends the current instruction.
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

    /// Copies sources that are also destinations, for operations that forbid it. C and D of an `mma` may be the same,
    /// because C is read completely first.
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

/// Reserves room for a variable and returns its offset.
pub(super) fn reserve(end: &mut u64, bytes: u64, align: u32) -> Result<u32, Problem> {
    let offset = end.next_multiple_of(u64::from(align));
    *end = offset + bytes;
    if *end > MAX_BYTES {
        return Err(format!("more than {MAX_BYTES} bytes of shared memory, or of local memory per thread").into());
    }
    Ok(offset as u32)
}
