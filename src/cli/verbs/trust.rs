//! `optloop trust`: shows what a project runs of its own choice, and remembers that the user agrees.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::catalog::Project;
use crate::cli::terminal::listing::print_json;
use crate::config::Config;
use crate::error::{Error, usage, usage_sentence};
use crate::launch::consent::{self, Agrees};
use crate::notices::{say, showable};
use crate::trust::{self, ConsentState, Consents, Edited, Item};

/// Arguments of `optloop trust`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Agree without prompting (for scripts)
    #[arg(long)]
    yes: bool,

    /// List what is trusted in all projects
    #[arg(long, conflicts_with_all = ["yes", "revoke"])]
    list: bool,

    /// Your own file of a trusted program, such as an oracle: its edits need no new consent until HEAD changes (repeat for more)
    #[arg(long = "while-editing", value_name = "FILE", conflicts_with_all = ["list", "revoke"])]
    edited: Vec<PathBuf>,

    /// Withdraw all trust from this project
    #[arg(long, conflicts_with = "yes")]
    revoke: bool,

    /// Print one JSON object, and agree to nothing without --yes
    #[arg(long)]
    json: bool,
}

/// An argument of every verb that runs what a project chooses.
#[derive(Debug, Clone, clap::Args)]
pub struct TrustArgs {
    /// Trust what this project chooses to run, as `optloop trust --yes` does (for scripts)
    #[arg(long)]
    trust: bool,
}

impl TrustArgs {
    /// Returns whether the user agrees to everything.
    pub fn agrees(&self) -> Agrees {
        Agrees(self.trust)
    }
}

/// Shows what the project chooses, and asks.
pub fn run(args: &Args, project: &Project, out: &mut impl Write) -> anyhow::Result<()> {
    let root = consent::root(project)?;
    let mut known = Consents::load().map_err(usage)?;
    if args.list {
        return if args.json { print_json(&listed(&known), out) } else { list(&known, out) };
    }
    if args.revoke {
        let removed = known.revoke(&root)?;
        if args.json {
            return print_json(&json!({ "revoked": removed, "project": root }), out);
        }
        return Ok(writeln!(out, "no longer trusted: {removed} of {}", root.display())?);
    }
    let config = Config::load(project.root()).map_err(usage)?;
    let (workloads, broken) = project.workloads().map_err(usage)?;
    for (name, _) in broken {
        say(&format!("workload `{name}` is broken, so what it runs is not listed: `optloop check {name}` explains it"));
    }
    let head = consent::head(project);
    let edited =
        args.edited.iter().map(|file| edited(&root, file, head.as_deref())).collect::<anyhow::Result<Vec<_>>>()?;
    let mut items = trust::of_project(project.root(), &config, &workloads).map_err(usage)?;
    if args.json {
        edited.into_iter().try_for_each(|edited| known.edit(edited))?;
        return in_json(items, (&root, head.as_deref()), known, args.yes, out);
    }
    if items.is_empty() {
        return Ok(writeln!(out, "there is nothing to trust: this project runs only programs shipped with optloop")?);
    }
    items.retain(|item| {
        let standing = known.standing(&root, item, head.as_deref());
        // A closed output is reported when it is flushed.
        let _ = print(item, &standing, out);
        standing != ConsentState::Trusted
    });
    out.flush()?;
    let files: Vec<String> = edited.iter().map(|edited| edited.file.clone()).collect();
    let remember = |known: &mut Consents, out: &mut dyn Write| -> anyhow::Result<()> {
        edited.into_iter().try_for_each(|edited| known.edit(edited))?;
        files.iter().try_for_each(|file| writeln!(out, "trusted until HEAD changes, whatever it contains: {file}"))?;
        Ok(())
    };
    if items.is_empty() {
        writeln!(out, "all of it is trusted")?;
        return remember(&mut known, out);
    }
    if !args.yes && !agrees()? {
        return Err(usage_sentence("nothing was trusted"));
    }
    known.add(&root, &items)?;
    writeln!(out, "trusted: {} of {}", items.len(), root.display())?;
    remember(&mut known, out)
}

/// Prints what the project chooses and how it stands, after the user has agreed with `--yes` or not.
fn in_json(
    items: Vec<Item>,
    (root, head): (&Path, Option<&str>),
    mut known: Consents,
    agrees: bool,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    if agrees {
        let is_open = |item: &&Item| known.standing(root, item, head) != ConsentState::Trusted;
        let open: Vec<Item> = items.iter().filter(is_open).cloned().collect();
        known.add(root, &open)?;
    }
    let shown = items.iter().map(|item| {
        let (state, changed) = match known.standing(root, item, head) {
            ConsentState::Trusted => ("trusted", Vec::new()),
            ConsentState::New => ("new", Vec::new()),
            ConsentState::Changed(what) => ("changed", what),
        };
        let files = item.files.iter().map(|(file, hash)| json!({ "file": file, "hash": hash }));
        json!({ "item": item.to_string(), "state": state, "changed": changed, "files": files.collect::<Vec<_>>() })
    });
    print_json(&json!({ "project": root, "items": shown.collect::<Vec<_>>() }), out)
}

/// Returns what is trusted in all projects.
fn listed(known: &Consents) -> serde_json::Value {
    let entries =
        known.entries().iter().map(|entry| json!({ "project": entry.project, "item": entry.item.to_string() }));
    let edited = known.edited().iter().map(|one| json!({ "project": one.project, "file": one.file, "head": one.head }));
    json!({ "trusted": entries.collect::<Vec<_>>(), "edited": edited.collect::<Vec<_>>() })
}

/// Names a file of the project that its user edits.
fn edited(root: &Path, file: &Path, head: Option<&str>) -> anyhow::Result<Edited> {
    let wrong = |why: &str| usage_sentence(format!("--while-editing {}: {why}", file.display()));
    let head = head.ok_or_else(|| wrong("the project has no commit yet, which it would hold until the next one"))?;
    let path = file.canonicalize().map_err(|_| wrong("there is no such file"))?;
    let path = path.strip_prefix(root).map_err(|_| wrong("it is not in the project"))?;
    let (project, file) = (root.to_owned(), path.to_string_lossy().into_owned());
    Ok(Edited { project, file, head: head.to_owned() })
}

/// Asks at the terminal.
fn agrees() -> anyhow::Result<bool> {
    let mut errors = io::stderr();
    if !(io::stdin().is_terminal() && errors.is_terminal()) {
        return Err(usage(
            Error::new("nothing was trusted, because there is no terminal to ask at").hint("give --yes to agree"),
        ));
    }
    write!(errors, "trust this? It runs with your privileges. [y/N] ")?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn print(item: &Item, standing: &ConsentState, out: &mut impl Write) -> io::Result<()> {
    let standing = match standing {
        ConsentState::Trusted => "trusted".to_owned(),
        ConsentState::New => "new".to_owned(),
        ConsentState::Changed(what) => format!("changed: {}", what.join(", ")),
    };
    writeln!(out, "{}", showable(&format!("{item}: {standing}")))?;
    item.files
        .iter()
        .try_for_each(|(file, hash)| writeln!(out, "  {hash}  {}", showable(&trust::show(std::slice::from_ref(file)))))
}

fn list(known: &Consents, out: &mut impl Write) -> anyhow::Result<()> {
    for entry in known.entries() {
        writeln!(out, "{}: {}", showable(&entry.project.display().to_string()), showable(&entry.item.to_string()))?;
    }
    for edited in known.edited() {
        let (project, file) = (edited.project.display().to_string(), &edited.file);
        writeln!(out, "{}: {} while HEAD is {:.10}", showable(&project), showable(file), edited.head)?;
    }
    Ok(())
}
