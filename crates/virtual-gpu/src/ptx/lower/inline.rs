//! Calls of functions that the compiler has not inlined: they are inlined here.
//!
//! Each call gets its own copy of the function's instructions and registers. So lanes that call on different paths
//! reconverge as after any branch, and what the function may write is known. A function that calls itself is inlined so
//! deep; a thread that calls deeper, and a call through a pointer, are not modelled.

use super::builder::Lowerer;
use crate::program::Op;
use crate::ptx::Problem;
use crate::ptx::syntax::{Function, Operand, Statement, Variable, Written};

/// The most instructions of a kernel with those of the functions that it calls.
const MAX_INSTRUCTIONS: usize = 1 << 18;

/// How deep a function may call itself in one place, and in several. The number of copies doubles with each call in the
/// latter.
const DEEPEST: [usize; 2] = [64, 8];

/// An error with its line.
type Placed = (u32, Problem);

impl<'a> Lowerer<'a> {
    /// Returns the function that an instruction calls, if its body is in the text.
    pub(super) fn callee(&self, written: &Written<'a>) -> Option<&'a Function<'a>> {
        match written.operands.first() {
            Some(Operand::Name(name, 0)) if written.opcode.split('.').next() == Some("call") => {
                self.functions.get(name).copied()
            }
            _ => None,
        }
    }

    /// Puts a function in the place of its call.
    pub(super) fn inline(&mut self, written: &Written<'a>, function: &'a Function<'a>) -> Result<(), Placed> {
        let here = |problem| (written.line, problem);
        let refused =
            |reason: &str| here(Problem::Unsupported(format!("{} {}{reason}", written.opcode, function.name)));
        if self.draft.instructions.len() > MAX_INSTRUCTIONS {
            return Err(refused(", with too many instructions in all functions"));
        }
        let [_, Operand::Vector(results), Operand::Vector(arguments)] = &written.operands[..] else {
            return Err(refused(""));
        };
        let passed = [(&function.results, results), (&function.params, arguments)];
        let passed = passed.map(|(variables, operands)| self.numbers(variables, operands));
        let [Some(results), Some(arguments)] = passed else { return Err(refused("")) };
        let end = self.new_label();
        self.begin(written).map_err(here)?;
        let deepest = DEEPEST[usize::from(calls_of(function, function.name) > 1)];
        if self.calls.iter().filter(|(name, _)| *name == function.name).count() >= deepest {
            self.unreturned.extend(results.into_iter().map(|(_, number)| number));
            self.emit(Op::TooDeep { deepest: deepest as u32 });
            return Ok(());
        }
        if let Some((register, negated)) = self.guard {
            self.guard = Some((register, !negated));
            self.emit(Op::Branch { target: end, uniform: false });
        }
        let scopes = self.scopes.of_function();
        let outer = (
            std::mem::replace(&mut self.scopes, scopes),
            std::mem::take(&mut self.labels),
            std::mem::take(&mut self.targets),
        );
        self.calls.push((function.name, end));
        self.scopes.open();
        for (variable, number) in results.into_iter().chain(arguments) {
            self.scopes.declare(variable.name, super::symbols::Symbol::OfCall(number)).map_err(here)?;
        }
        self.collect_labels(&function.body)?;
        self.body(&function.body)?;
        self.calls.pop();
        (self.scopes, self.labels, self.targets) = outer;
        self.positions[end as usize] = self.draft.instructions.len() as u32;
        Ok(())
    }

    /// Returns the numbers of the parameters of a call. None if they do not fit to the function.
    fn numbers(&self, variables: &'a [Variable<'a>], operands: &[Operand<'_>]) -> Option<Vec<(&'a Variable<'a>, u32)>> {
        if variables.len() != operands.len() {
            return None;
        }
        let number = |operand: &Operand<'_>| match operand {
            Operand::Name(name, 0) => self.number_in_call(name),
            _ => None,
        };
        variables.iter().zip(operands).map(|(variable, operand)| Some((variable, number(operand)?))).collect()
    }

    fn new_label(&mut self) -> u32 {
        self.positions.push(0);
        self.positions.len() as u32 - 1
    }
}

/// Returns in how many places a function calls the one with a name.
fn calls_of(function: &Function<'_>, name: &str) -> usize {
    let calls = |statement: &&Statement<'_>| match statement {
        Statement::Instruction(written) => written.operands.first() == Some(&Operand::Name(name, 0)),
        _ => false,
    };
    function.body.iter().filter(calls).count()
}
