//! `optloop completions` and `optloop man`: what a shell and `man` need to know of the verbs.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Command, CommandFactory};
use clap_complete::Shell;

use super::Arguments;

/// Arguments of `optloop completions`.
#[derive(Debug, clap::Args)]
pub struct CompletionsArgs {
    /// Shell to write the script for
    #[arg(value_enum)]
    shell: Shell,
}

/// Arguments of `optloop man`.
#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// Verb whose page to print, or a folder in which to write a page for each verb [default: print the page for optloop
    /// itself]
    #[arg(value_name = "VERB/FOLDER")]
    what: Option<PathBuf>,
}

/// Returns the command line as users see it: without the verbs that only sessions start.
pub(super) fn visible() -> Command {
    let all = Arguments::command();
    let about = all.get_about().cloned().unwrap_or_default();
    let verbs = all.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned().collect::<Vec<_>>();
    let examples = all.get_after_help().cloned().unwrap_or_default();
    Command::new("optloop")
        .version(env!("CARGO_PKG_VERSION"))
        .about(about)
        .after_help(examples)
        .args(all.get_arguments().cloned().collect::<Vec<_>>())
        .subcommand_required(true)
        .subcommands(verbs)
}

/// Prints a script that completes verbs and arguments.
pub fn completions(args: &CompletionsArgs, out: &mut impl Write) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut visible(), "optloop", &mut script);
    out.write_all(&script)?;
    Ok(())
}

/// Prints the manual page, or writes all pages into a folder.
pub fn man(args: &ManArgs, out: &mut impl Write) -> anyhow::Result<()> {
    let Some(folder) = &args.what else {
        clap_mangen::Man::new(visible()).render(out)?;
        return Ok(());
    };
    if let Some(verb) = visible().find_subcommand(folder) {
        let name = format!("optloop-{}", verb.get_name());
        clap_mangen::Man::new(verb.clone()).title(name).render(out)?;
        return Ok(());
    }
    std::fs::create_dir_all(folder).with_context(|| format!("Failed to make {}", folder.display()))?;
    clap_mangen::generate_to(visible(), folder)
        .with_context(|| format!("Failed to write into {}", folder.display()))?;
    writeln!(out, "wrote the manual pages into {}", folder.display())?;
    Ok(())
}
