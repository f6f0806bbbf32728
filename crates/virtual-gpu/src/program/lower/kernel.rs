//! Lowers one kernel: statements in order, then labels, control flow and slots.

use std::collections::HashMap;

use super::globals::Variables;
use super::opcode::Opcode;
use super::symbols::{Register, Scopes, Symbol};
use crate::program::registers::{Draft, allocate};
use crate::program::visit::{File, Role};
use crate::program::{AT_EXIT, CONSTANT, Constant, Instruction, Kernel, Op, Param, Slot, Space, TRUE, Ty, flow};
use crate::ptx::Problem;
use crate::ptx::syntax::{Entry, Operand, Statement, Variable, Written};

/// Most bytes of parameters: 32764 since PTX 8.1.
const MOST_PARAM_BYTES: u64 = 32764;

/// Most bytes of shared memory or of local memory per thread that a kernel may declare.
const MOST_BYTES: u64 = 1 << 30;

/// A kernel that is being lowered.
pub(super) struct Lowerer<'a> {
    pub(super) scopes: Scopes<'a>,
    /// Constants of the 32-bit and of the 64-bit file.
    pub(super) constants: [Constants; 2],
    draft: Draft,
    /// Registers of the instruction that is being built.
    pool: Vec<u32>,
    guard: Option<(Register, bool)>,
    line: u32,
    /// The carry flag, once it is used.
    carry: Option<Register>,
    labels: HashMap<(u32, &'a str), u32>,
    /// Instruction index of each label.
    positions: Vec<u32>,
    targets: HashMap<(u32, &'a str), Vec<&'a str>>,
    module_shared: &'a [(u64, u32)],
    placed_shared: HashMap<u32, u32>,
    shared_bytes: u64,
    local_bytes: u64,
}

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

/// Lowers a kernel; an error comes with its line.
pub(super) fn lower(entry: &Entry<'_>, variables: &Variables<'_>) -> Result<Kernel, (u32, Problem)> {
    let place = |problem| (entry.line, problem);
    let mut lowerer = Lowerer::new(variables);
    lowerer.scopes.open();
    for (&name, &symbol) in &variables.symbols {
        lowerer.scopes.declare(name, symbol).map_err(place)?;
    }
    lowerer.scopes.open();
    let (params, param_bytes) = lowerer.params(&entry.params).map_err(place)?;
    lowerer.collect_labels(&entry.body)?;
    lowerer.body(&entry.body)?;
    lowerer.finish().map_err(place)?;
    let blocks = flow::blocks(&lowerer.draft.instructions);
    flow::reconvergence(&mut lowerer.draft.instructions, &blocks);
    let counts = allocate(&mut lowerer.draft, &blocks).map_err(place)?;
    let [constants32, constants64] = lowerer.constants.map(|constants| constants.list);
    let block_threads =
        |extents: [u32; 3]| extents.iter().fold(1_u32, |product, &extent| product.saturating_mul(extent));
    Ok(Kernel {
        name: entry.name.to_owned(),
        params,
        param_bytes,
        instructions: lowerer.draft.instructions,
        constants32,
        constants64,
        slots32: counts.narrow,
        slots64: counts.wide,
        predicates: counts.predicates,
        static_shared_bytes: lowerer.shared_bytes as u32,
        dynamic_align: variables.dynamic_align,
        local_bytes: lowerer.local_bytes as u32,
        max_threads: entry.max_threads.map(block_threads),
        required_block: entry.required_block,
        required_cluster: entry.required_cluster,
    })
}

impl<'a> Lowerer<'a> {
    fn new(variables: &'a Variables<'a>) -> Self {
        Self {
            scopes: Scopes::default(),
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
            local_bytes: 0,
        }
    }

    fn params(&mut self, variables: &[Variable<'a>]) -> Result<(Vec<Param>, u32), Problem> {
        let mut end = 0_u64;
        let mut params = Vec::new();
        for variable in variables {
            let offset = end.next_multiple_of(u64::from(variable.align));
            end = offset + variable.bytes;
            if end > MOST_PARAM_BYTES {
                return Err(Problem::Syntax(format!("more than {MOST_PARAM_BYTES} bytes of parameters")));
            }
            self.scopes.declare(variable.name, Symbol::Param(offset as u32))?;
            params.push(Param {
                name: variable.name.to_owned(),
                offset: offset as u32,
                bytes: variable.bytes as u32,
                align: variable.align,
            });
        }
        Ok((params, end as u32))
    }

    /// Notes every label with the number of its scope: jumps go forward, too.
    fn collect_labels(&mut self, body: &[Statement<'a>]) -> Result<(), (u32, Problem)> {
        let (mut open, mut opened) = (vec![1], 2);
        for statement in body {
            let scope = open.last().copied().unwrap_or(1);
            let (line, name, double) = match statement {
                Statement::Open => {
                    open.push(opened);
                    opened += 1;
                    continue;
                }
                Statement::Close => {
                    open.pop();
                    continue;
                }
                Statement::Label(line, name) => {
                    self.positions.push(0);
                    let number = self.positions.len() as u32 - 1;
                    (line, name, self.labels.insert((scope, name), number).is_some())
                }
                Statement::Targets(line, name, targets) => {
                    (line, name, self.targets.insert((scope, name), targets.clone()).is_some())
                }
                _ => continue,
            };
            if double {
                return Err((*line, Problem::Syntax(format!("label `{name}` stands twice"))));
            }
        }
        Ok(())
    }

    fn body(&mut self, body: &[Statement<'a>]) -> Result<(), (u32, Problem)> {
        for statement in body {
            match statement {
                Statement::Open => self.scopes.open(),
                Statement::Close => self.scopes.close(),
                Statement::Registers { line, ty, name, count } => {
                    let declared = self.scopes.declare_registers(name, *ty, *count, &mut self.draft.files);
                    declared.map_err(|problem| (*line, problem))?;
                }
                Statement::Variable(variable) => {
                    self.variable(variable).map_err(|problem| (variable.line, problem))?;
                }
                Statement::Label(line, name) => {
                    let label = self.label(name).map_err(|problem| (*line, problem))?;
                    self.positions[label as usize] = self.draft.instructions.len() as u32;
                }
                Statement::Targets(..) => {}
                Statement::Instruction(written) => {
                    self.instruction(written).map_err(|problem| (written.line, problem))?;
                }
            }
        }
        Ok(())
    }

    fn variable(&mut self, variable: &Variable<'a>) -> Result<(), Problem> {
        let symbol = match variable.space {
            Space::Shared if variable.is_extern => Symbol::DynamicShared,
            Space::Shared => Symbol::Shared(reserve(&mut self.shared_bytes, variable.bytes, variable.align)?),
            Space::Local => Symbol::Local(reserve(&mut self.local_bytes, variable.bytes, variable.align)?),
            // Parameters of a call, which is refused where it stands.
            Space::Param => return Ok(()),
            _ => return Err("a global or constant variable inside a kernel".into()),
        };
        if !variable.initial.is_empty() {
            return Err("an initialiser of shared or local memory".into());
        }
        self.scopes.declare(variable.name, symbol)
    }

    /// Returns the offset of a shared variable of the module; only those that a kernel names are part of it.
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
        let targets = visible.ok_or_else(|| Problem::Syntax(format!("`{name}` is no `.branchtargets`")))?;
        targets.iter().map(|target| self.label(target)).collect()
    }

    fn instruction(&mut self, written: &Written<'a>) -> Result<(), Problem> {
        self.line = written.line;
        self.guard = match written.guard {
            None => None,
            Some((name, negated)) => Some((self.typed_register(name, Ty::Pred)?, negated)),
        };
        let mut opcode = Opcode::new(written.opcode);
        let operands: &[Operand<'_>] = &written.operands;
        let known = self.arithmetic(&mut opcode, operands)?
            || self.compare(&mut opcode, operands)?
            || self.moves(&mut opcode, operands)?
            || self.memory(&mut opcode, operands)?
            || self.warp(&mut opcode, operands)?
            || self.sync(&mut opcode, operands)?
            || self.control(&mut opcode, operands)?
            || self.asynchronous(&mut opcode, operands)?
            || self.tensor(&mut opcode, operands)?;
        if !known {
            return Err(opcode.unsupported());
        }
        opcode.finish()
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

    /// Ends the kernel and resolves its labels.
    fn finish(&mut self) -> Result<(), Problem> {
        let end = self.draft.instructions.len() as u32;
        let falls_off = self.draft.instructions.last().is_none_or(|last| {
            flow::is_guarded(last)
                || !matches!(last.op, Op::Exit | Op::Trap | Op::Branch { .. } | Op::BranchIndexed { .. })
        });
        if falls_off || self.positions.contains(&end) {
            self.guard = None;
            self.emit(Op::Exit);
        }
        let positions = &self.positions;
        for instruction in &mut self.draft.instructions {
            match &mut instruction.op {
                Op::Branch { target, .. } => *target = positions[*target as usize],
                Op::BranchIndexed { targets, .. } => {
                    targets.iter_mut().for_each(|target| *target = positions[*target as usize]);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Reserves room for a variable and returns its offset.
fn reserve(end: &mut u64, bytes: u64, align: u32) -> Result<u32, Problem> {
    let offset = end.next_multiple_of(u64::from(align));
    *end = offset + bytes;
    if *end > MOST_BYTES { Err("too much shared or local memory".into()) } else { Ok(offset as u32) }
}
