//! `optloop show --sass`: the machine code of an iteration, below the lines of the source that it comes from.

use std::io::Write;

use anyhow::Context;

use crate::catalog::Project;
use crate::cli::error::{usage, usage_sentence};
use crate::cli::{own_executable, toolchain};
use crate::config::Config;
use crate::domain::variant::Variant;
use crate::runner::compile::Compiler;
use crate::runner::sass::{self, Instruction};
use crate::store::IterationDetail;

/// Lines of a source, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lines {
    first: u32,
    last: u32,
}

/// Parses the user's text: one line, a range, or `..` for all.
pub(super) fn lines(text: &str) -> Result<Lines, String> {
    let number = |text: &str, open: u32| if text.is_empty() { Some(open) } else { text.parse().ok() };
    let range = match text.split_once("..") {
        Some((first, last)) => number(first, 1).zip(number(last, u32::MAX)),
        None => text.parse().ok().map(|line| (line, line)),
    };
    let lines = range.map(|(first, last)| Lines { first, last }).filter(|lines| lines.first <= lines.last);
    lines.ok_or_else(|| format!("`{text}` names no lines: write a line of the source or a range, such as 40 or 40..52"))
}

impl Lines {
    fn hold(self, instruction: &Instruction) -> bool {
        let all = Self { first: 1, last: u32::MAX };
        self == all || instruction.lines.iter().any(|line| (self.first..=self.last).contains(line))
    }
}

/// Compiles an iteration again with the lines of its source, and prints its machine code.
pub(super) async fn print(
    project: &Project,
    detail: &IterationDetail,
    lines: Lines,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let id = detail.iteration.id;
    let Some(artifact) = &detail.artifact else {
        return Err(usage_sentence(format!("iteration {id} did not compile, so it has no machine code")));
    };
    let config = Config::load(project.root()).map_err(usage)?;
    let (exe, toolchain) = (own_executable()?, toolchain().await?);
    let compiler = Compiler::new(exe.clone(), toolchain, &artifact.arch, &artifact.options, config.compile_limits())?;
    let (family, params) = (detail.iteration.family.clone(), detail.iteration.params.clone());
    let variant = Variant { family, params, hash: detail.iteration.hash.clone(), source: detail.source.clone() };
    let compiled = tokio::task::spawn_blocking(move || compiler.compile_with_lines(&variant)).await;
    let compiled = compiled.context("Failed to compile in the background")?.context("Failed to compile it again")?;
    let instructions = sass::disassembled(exe, &compiled).await.map_err(usage_sentence)?;
    let chosen: Vec<&Instruction> = instructions.iter().filter(|one| lines.hold(one)).collect();
    if chosen.is_empty() {
        return Err(usage_sentence(format!("no instruction of iteration {id} comes from these lines")));
    }
    listing(&chosen, &detail.source.lines().collect::<Vec<_>>(), out)
}

/// Prints instructions in their order. A line of the source stands above the first instruction that comes from it.
fn listing(instructions: &[&Instruction], source: &[&str], out: &mut impl Write) -> anyhow::Result<()> {
    let (mut kernel, mut line) = ("", None);
    for one in instructions {
        if one.kernel != kernel {
            writeln!(out, "{}:", one.kernel)?;
            (kernel, line) = (&one.kernel, None);
        }
        let own = one.lines.first().copied();
        if own != line {
            let text = own.and_then(|line| source.get(line as usize - 1)).map_or("", |text| text.trim());
            match own {
                Some(number) => writeln!(out, "{number:>5}  {text}")?,
                None => writeln!(out, "    -")?,
            }
            line = own;
        }
        writeln!(out, "         {}", one.text)?;
    }
    Ok(())
}
