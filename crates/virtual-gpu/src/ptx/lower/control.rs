//! Branches and the ends of threads.

use super::builder::Lowerer;
use super::opcode::Opcode;
use super::operand::exactly;
use crate::program::{Op, Ty};
use crate::ptx::Problem;
use crate::ptx::syntax::Operand;

impl Lowerer<'_> {
    /// Lowers control flow. Returns whether the opcode is of this group.
    pub(super) fn control(&mut self, opcode: &mut Opcode<'_>, operands: &[Operand<'_>]) -> Result<bool, Problem> {
        let name = opcode.name;
        match name {
            "bra" => {
                let uniform = opcode.take("uni");
                let [Operand::Name(label, 0)] = operands else { return Err("a label expected".into()) };
                let target = self.label(label)?;
                self.emit(Op::Branch { target, uniform });
            }
            "brx" if opcode.take("idx") => {
                opcode.take("uni");
                let [index, Operand::Name(list, 0)] = operands else {
                    return Err("an index and a list expected".into());
                };
                let index = self.read(index, Ty::U32)?;
                let targets = self.targets(list)?.into_boxed_slice();
                self.emit(Op::BranchIndexed { index, targets });
            }
            "ret" | "exit" => {
                let uniform = opcode.take("uni");
                let [] = exactly(operands)?;
                self.emit(match self.calls.last() {
                    Some(&(_, target)) if name == "ret" => Op::Branch { target, uniform },
                    _ => Op::Exit,
                });
            }
            "trap" => self.emit(Op::Trap),
            "call" => self.call(opcode, operands)?,
            "brkpt" | "nanosleep" | "pmevent" => {
                opcode.take_all(&["u32", "mask"]);
                self.emit(Op::Nop);
            }
            "griddepcontrol" => {
                let waits = opcode.take("wait");
                opcode.take("launch_dependents");
                self.emit(if waits { Op::GridWait } else { Op::Nop });
            }
            "setmaxnreg" => {
                opcode.take_all(&["inc", "dec", "sync", "aligned", "u32"]);
                self.emit(Op::Nop);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}
