//! Lowers one kernel: statements in order, then labels, control flow and slots.

use super::builder::{Lowerer, reserve};
use super::exchanged::relax_loads;
use super::globals::Variables;
use super::opcode::Opcode;
use super::registers::allocate;
use super::symbols::Symbol;
use super::talks::talks;
use super::written::written;
use crate::program::{Kernel, NotModelled, Op, Param, Space, Ty, flow};
use crate::ptx::Problem;
use crate::ptx::syntax::{Entry, Operand, Statement, Variable, Written};

/// Maximum bytes of parameters: 32764 since PTX 8.1.
const MAX_PARAM_BYTES: u64 = 32764;

/// Lowers a kernel. An error includes its line.
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
    let [narrow, wide] = &lowerer.constants;
    let writes_to = written(&lowerer.draft, [&narrow.list, &wide.list]);
    relax_loads(&mut lowerer.draft);
    let talks = talks(&lowerer.draft);
    #[cfg(test)]
    let before = lowerer.draft.clone();
    let counts = allocate(&mut lowerer.draft, &blocks).map_err(place)?;
    #[cfg(test)]
    super::registers::check::walk(&before, &lowerer.draft);
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
        writes_to,
        talks,
        not_modelled: None,
    })
}

/// Makes a kernel that cannot be launched, because of an instruction that is not modelled.
pub(super) fn refused(
    entry: &Entry<'_>,
    variables: &Variables<'_>,
    not_modelled: NotModelled,
) -> Result<Kernel, (u32, Problem)> {
    let head = Entry { body: Vec::new(), params: Vec::new(), ..*entry };
    let mut lowerer = Lowerer::new(variables);
    lowerer.scopes.open();
    let params = lowerer.params(&entry.params).map_err(|problem| (entry.line, problem))?;
    let empty = lower(&head, variables)?;
    let (param_bytes, not_modelled) = (lowerer.param_bytes, Some(not_modelled));
    Ok(Kernel { params, param_bytes, instructions: Vec::new(), not_modelled, ..empty })
}

impl<'a> Lowerer<'a> {
    fn params(&mut self, variables: &[Variable<'a>]) -> Result<Vec<Param>, Problem> {
        let mut end = 0_u64;
        let mut params = Vec::new();
        for variable in variables {
            let offset = end.next_multiple_of(u64::from(variable.align));
            end = offset + variable.bytes;
            if end > MAX_PARAM_BYTES {
                return Err(Problem::Syntax(format!("more than {MAX_PARAM_BYTES} bytes of parameters")));
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

    /// Records every label with its scope's number before lowering, because jumps also go forward.
    pub(super) fn collect_labels(&mut self, body: &[Statement<'a>]) -> Result<(), (u32, Problem)> {
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

    pub(super) fn body(&mut self, body: &[Statement<'a>]) -> Result<(), (u32, Problem)> {
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
                Statement::Instruction(written) => match self.callee(written) {
                    Some(function) => self.inline(written, function)?,
                    None => self.instruction(written).map_err(|problem| (written.line, problem))?,
                },
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
            Space::Param => {
                self.call_params += 1;
                Symbol::OfCall(self.call_params)
            }
            _ => return Err("a global or constant variable inside a kernel".into()),
        };
        if !variable.initial.is_empty() {
            return Err("an initialiser of shared or local memory".into());
        }
        self.scopes.declare(variable.name, symbol)
    }

    /// Starts an instruction: its line and its guard.
    pub(super) fn begin(&mut self, written: &Written<'a>) -> Result<(), Problem> {
        self.line = written.line;
        self.guard = match written.guard {
            None => None,
            Some((name, negated)) => Some((self.typed_register(name, Ty::Pred)?, negated)),
        };
        Ok(())
    }

    fn instruction(&mut self, written: &Written<'a>) -> Result<(), Problem> {
        self.begin(written)?;
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
