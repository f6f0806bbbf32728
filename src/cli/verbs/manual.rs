//! `optloop completions` and `optloop man`: what a shell and `man` need to know of the verbs.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};

use crate::cli::Arguments;

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
pub fn visible() -> Command {
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
    let Some(folder) = &args.what else { return Ok(page(&visible(), "optloop", out)?) };
    if let Some(verb) = visible().find_subcommand(folder) {
        return Ok(page(verb, &format!("optloop {}", verb.get_name()), out)?);
    }
    std::fs::create_dir_all(folder).with_context(|| format!("Failed to make {}", folder.display()))?;
    pages(&visible(), "optloop", folder).with_context(|| format!("Failed to write into {}", folder.display()))?;
    writeln!(out, "wrote the manual pages into {}", folder.display())?;
    Ok(())
}

/// Writes the page of a command, and those of the commands below it.
fn pages(command: &Command, name: &str, folder: &Path) -> std::io::Result<()> {
    let mut file = std::fs::File::create(folder.join(format!("{}.1", name.replace(' ', "-"))))?;
    page(command, name, &mut file)?;
    command.get_subcommands().try_for_each(|below| pages(below, &format!("{name} {}", below.get_name()), folder))
}

/// Writes a manual page. `name` is how a user calls the command, such as `optloop start`.
fn page(command: &Command, name: &str, out: &mut dyn Write) -> std::io::Result<()> {
    let (dashed, version) = (name.replace(' ', "-"), env!("CARGO_PKG_VERSION"));
    let named = command.clone().display_name(dashed.clone()).bin_name(name).version(version);
    let man = clap_mangen::Man::new(named).title(dashed.clone());
    man.render_title(out)?;
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut own = Roff::new();
    own.control("SH", ["NAME"]).text([roman(format!("{dashed} - {about}"))]);
    own.control("SH", ["SYNOPSIS"]).text(synopsis(command, name));
    own.to_writer(out)?;
    man.render_description_section(out)?;
    man.render_options_section(out)?;
    if command.has_subcommands() {
        man.render_subcommands_section(out)?;
    }
    if command.get_after_help().is_some() {
        man.render_extra_section(out)?;
    }
    man.render_version_section(out)
}

/// Returns how a command is called, with the values of its options.
fn synopsis(command: &Command, name: &str) -> Vec<Inline> {
    let mut line = vec![bold(name)];
    for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
        let values: Vec<&str> = arg.get_value_names().into_iter().flatten().map(|name| name.as_str()).collect();
        let values = if arg.get_action().takes_values() { values.join(" ") } else { String::new() };
        let (open, close) = if arg.is_required_set() { (" ", "") } else { (" [", "]") };
        line.push(roman(open));
        match arg.get_long() {
            Some(long) => {
                line.push(bold(format!("--{long}")));
                if !values.is_empty() {
                    line.extend([roman(" "), italic(values)]);
                }
            }
            None => line.push(italic(values)),
        }
        line.push(roman(close));
    }
    if command.has_subcommands() {
        line.extend([roman(" "), italic("VERB")]);
    }
    line
}
