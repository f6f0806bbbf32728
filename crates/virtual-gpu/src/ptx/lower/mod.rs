//! Lowers the syntax tree to the program form.

mod arithmetic;
mod asynchronous;
mod builder;
mod bulk;
mod call;
mod compare;
mod control;
mod convert;
mod exchanged;
mod globals;
mod inline;
mod kernel;
mod memory;
mod moves;
mod opcode;
mod operand;
mod registers;
mod special;
mod symbols;
mod sync;
mod talks;
mod tensor;
mod warp;
mod wmma;
mod written;

use crate::program::{Kernel, Module, NotModelled};
use crate::ptx::Problem;
use crate::ptx::syntax::Source;

/// Lowers a whole text. An error includes its line.
pub(crate) fn module(file: &str, source: &Source<'_>) -> Result<Module, (u32, Problem)> {
    let variables = globals::layout(source)?;
    let kernels = kernels(source, &variables)?;
    Ok(Module {
        file: file.to_owned(),
        // The loader fills this in, because it has the text.
        text: String::new(),
        version: source.version,
        target: source.target.to_owned(),
        globals: variables.globals,
        kernels,
    })
}

/// Lowers the kernels. One with an unknown instruction is refused when it is launched, so that others of the text can
/// run.
fn kernels(source: &Source<'_>, variables: &globals::Variables<'_>) -> Result<Vec<Kernel>, (u32, Problem)> {
    let lower = |entry| match kernel::lower(entry, variables) {
        Err((line, Problem::Unsupported(instruction))) => {
            kernel::refused(entry, variables, NotModelled { line, instruction })
        }
        lowered => lowered,
    };
    source.entries.iter().map(lower).collect()
}
