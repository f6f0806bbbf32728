//! Lowers one kernel: statements in order, then labels, control flow and slots.

use std::collections::HashMap;

use super::builder::Constants;
use super::globals::Variables;
use super::opcode::Opcode;
use super::symbols::{Register, Scopes, Symbol};
use crate::program::registers::{Draft, allocate};
use crate::program::{Kernel, Op, Param, Space, Ty, flow};
use crate::ptx::Problem;
use crate::ptx::syntax::{Entry, Operand, Statement, Variable, Written};

/// Most bytes of parameters: 32764 since PTX 8.1.
const MOST_PARAM_BYTES: u64 = 32764;

/// Most bytes of shared memory or of local memory per thread that a kernel may declare: what CUDA gives a thread (CUDA C++
/// programming guide, technical specifications), and more shared memory than any GPU has.
const MOST_BYTES: u64 = 512 << 10;

/// A kernel that is being lowered.
pub(super) struct Lowerer<'a> {
    pub(super) scopes: Scopes<'a>,
    /// Constants of the 32-bit and of the 64-bit file.
    pub(super) constants: [Constants; 2],
    pub(super) draft: Draft,
    /// Registers of the instruction that is being built.
    pub(super) pool: Vec<u32>,
    pub(super) guard: Option<(Register, bool)>,
    pub(super) line: u32,
    /// The carry flag, once it is used.
    pub(super) carry: Option<Register>,
    labels: HashMap<(u32, &'a str), u32>,
    /// Instruction index of each label.
    positions: Vec<u32>,
    targets: HashMap<(u32, &'a str), Vec<&'a str>>,
    module_shared: &'a [(u64, u32)],
    placed_shared: HashMap<u32, u32>,
    shared_bytes: u64,
    dynamic_align: u32,
    local_bytes: u64,
    /// Bytes of all parameters.
    pub(super) param_bytes: u32,
}

/// Lowers a kernel; an error comes with its line.
pub(super) fn lower(entry: &Entry<'_>, variables: &Variables<'_>) -> Result<Kernel, (u32, Problem)> {
    let place = |problem| (entry.line, problem);
    let mut lowerer = Lowerer::new(variables);
    lowerer.scopes.open();
    let params = lowerer.params(&entry.params).map_err(place)?;
    let param_bytes = lowerer.param_bytes;
    lowerer.collect_labels(&entry.body)?;
    lowerer.body(&entry.body)?;
    lowerer.finish().map_err(place)?;
    let blocks = flow::blocks(&lowerer.draft.instructions);
    flow::reconvergence(&mut lowerer.draft.instructions, &blocks);
    #[cfg(test)]
    let before = lowerer.draft.clone();
    let counts = allocate(&mut lowerer.draft, &blocks).map_err(place)?;
    #[cfg(test)]
    crate::program::registers::check::walk(&before, &lowerer.draft);
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
        dynamic_align: lowerer.dynamic_align,
        local_bytes: lowerer.local_bytes as u32,
        max_threads: entry.max_threads.map(block_threads),
        required_block: entry.required_block,
        required_cluster: entry.required_cluster,
    })
}

impl<'a> Lowerer<'a> {
    fn new(variables: &'a Variables<'a>) -> Self {
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
        }
    }

    fn params(&mut self, variables: &[Variable<'a>]) -> Result<Vec<Param>, Problem> {
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
        self.param_bytes = end as u32;
        Ok(params)
    }

    /// Notes every label with the number of its scope: jumps go forward, too.
    fn collect_labels(&mut self, body: &[Statement<'a>]) -> Result<(), (u32, Problem)> {
        let (mut open, mut opened) = (vec![0], 1);
        for statement in body {
            let scope = open.last().copied().unwrap_or(0);
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
            Space::Shared if variable.is_extern => {
                self.dynamic_align = self.dynamic_align.max(variable.align);
                Symbol::DynamicShared
            }
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
    if *end > MOST_BYTES {
        return Err(format!("more than {MOST_BYTES} bytes of shared memory, or of local memory per thread").into());
    }
    Ok(offset as u32)
}
