//! Lowers the syntax tree to the program form.

mod arithmetic;
mod asynchronous;
mod builder;
mod bulk;
mod compare;
mod control;
mod convert;
mod globals;
mod kernel;
mod memory;
mod moves;
mod opcode;
mod operand;
mod registers;
mod special;
mod symbols;
mod sync;
mod tensor;
mod warp;

use crate::program::Module;
use crate::ptx::Problem;
use crate::ptx::syntax::Source;

/// Lowers a whole text. An error includes its line.
pub(crate) fn module(file: &str, source: &Source<'_>) -> Result<Module, (u32, Problem)> {
    let variables = globals::layout(source)?;
    let kernels = source.entries.iter().map(|entry| kernel::lower(entry, &variables)).collect::<Result<_, _>>()?;
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
