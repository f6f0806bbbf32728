//! `optloop list`: what a project has, and which family takes which case.

use std::io::Write;

use serde::Serialize;

use crate::catalog::{Families, Project};
use crate::cli::terminal::listing::Format;
use crate::cli::terminal::paragraph::paragraph;
use crate::cli::terminal::screen::Screen;
use crate::cli::terminal::table::Table;
use crate::domain::compute::Compute;
use crate::domain::device::DeviceInfo;
use crate::domain::family::Family;
use crate::domain::ids::CaseName;
use crate::domain::op::OpSource;
use crate::domain::space::fit::Fit;
use crate::domain::text::counted::counted;
use crate::domain::text::names::did_you_mean;
use crate::domain::workload::Workload;
use crate::error::{usage, usage_sentence};

/// Arguments of `optloop list`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Workload or family: show which families take which case, and why the others do not [default: list everything]
    #[arg(value_name = "WORKLOAD|FAMILY")]
    name: Option<String>,

    /// Architecture to decide for: sm_80, sm_86, sm_89, sm_90 or sm_90a
    #[arg(long, default_value = "sm_90a")]
    arch: String,

    #[command(flatten)]
    format: Format,
}

/// What an entry of the list is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Workload,
    Family,
    Op,
}

/// An entry of the list.
#[derive(Debug, Serialize)]
struct Entry {
    kind: Kind,
    name: String,
    /// None for an op of optloop itself, and for what is broken.
    about: Option<String>,
    op: Option<String>,
    dtypes: Vec<&'static str>,
    /// The compute mode of a workload or a family: `dtype`, or `tf32` where products may be in TF32.
    compute: Option<&'static str>,
    cases: Vec<CaseName>,
    parameters: Vec<String>,
    /// Number of combinations of the values of a family's parameters, valid or not.
    combinations: Option<f64>,
    /// Whether an op is the project's own.
    declared: Option<bool>,
    /// What is wrong with it, a sentence each.
    mistakes: Vec<String>,
}

/// A family on a case.
#[derive(Debug, Serialize)]
struct Pair {
    workload: String,
    family: String,
    case: CaseName,
    takes: bool,
    /// The reasons of the constraints that exclude the case.
    why_not: Vec<String>,
}

/// Lists everything, or the cases of a workload or family.
pub fn run(args: &Args, project: &Project, screen: Screen, out: &mut impl Write) -> anyhow::Result<()> {
    let (workloads, broken) = project.workloads().map_err(usage)?;
    let families = project.families().map_err(usage)?;
    if let Some(name) = &args.name {
        let device = DeviceInfo::of_arch(&args.arch).map_err(usage_sentence)?;
        let known = broken.iter().map(|(name, _)| name.as_str());
        check_name(name, &workloads, &families, known)?;
        if let Some((_, error)) = broken.into_iter().find(|(broken, _)| broken == name) {
            return Err(usage(error));
        }
        return pairs(args, name, (&workloads, &families), &device, screen, out);
    }
    let mistakes = |error: &anyhow::Error| vec![relative(project, &format!("{error:#}"))];
    let mut entries: Vec<Entry> = workloads.iter().map(of_workload).collect();
    entries.extend(broken.iter().map(|(name, error)| Entry::broken(Kind::Workload, name, mistakes(error))));
    entries.extend(families.sound.iter().map(of_family));
    entries.extend(families.broken.iter().map(|family| {
        let mistakes = family.mistakes.iter().map(|mistake| relative(project, mistake)).collect();
        Entry { op: family.op.clone(), ..Entry::broken(Kind::Family, &family.name, mistakes) }
    }));
    entries.extend(project.ops().into_iter().map(|(name, op)| match op {
        Ok(op) => Entry {
            dtypes: op.dtypes().iter().map(|dtype| dtype.name()).collect(),
            declared: Some(matches!(op.source(), OpSource::Declared(_))),
            ..Entry::new(Kind::Op, &name)
        },
        Err(problem) => Entry::broken(Kind::Op, &name, vec![relative(project, &problem.to_string())]),
    }));
    if args.format.write(&entries, out)? {
        return Ok(());
    }
    let mut text = Vec::new();
    show(&entries, screen, &mut text)?;
    Ok(screen.show(&text, out)?)
}

/// Refuses a name that neither a workload nor a family has.
fn check_name<'a>(
    name: &str,
    workloads: &'a [Workload],
    families: &'a Families,
    broken: impl Iterator<Item = &'a str>,
) -> anyhow::Result<()> {
    let families = families.sound.iter().map(|one| &one.name).chain(families.broken.iter().map(|one| &one.name));
    let known = workloads.iter().map(|one| &one.name).chain(families).map(String::as_str);
    let known: Vec<&str> = known.chain(broken).collect();
    if known.contains(&name) {
        return Ok(());
    }
    let hint = did_you_mean(name, known);
    Err(usage_sentence(format!("there is no workload or family `{name}`{hint}: `optloop list` shows them")))
}

/// Returns a message with paths below the project.
fn relative(project: &Project, message: &str) -> String {
    message.replace(&format!("{}/", project.root().display()), "")
}

impl Entry {
    fn new(kind: Kind, name: &str) -> Self {
        Self {
            kind,
            name: name.to_owned(),
            about: None,
            op: None,
            dtypes: Vec::new(),
            compute: None,
            cases: Vec::new(),
            parameters: Vec::new(),
            combinations: None,
            declared: None,
            mistakes: Vec::new(),
        }
    }

    /// Returns the dtypes, with the compute mode unless it is their own precision.
    fn precision(&self) -> String {
        let mode = self.compute.filter(|mode| *mode != Compute::Dtype.name());
        let mode = mode.map(|mode| format!(" ({mode})")).unwrap_or_default();
        format!("{}{mode}", self.dtypes.join(" "))
    }

    fn broken(kind: Kind, name: &str, mistakes: Vec<String>) -> Self {
        Self { mistakes, ..Self::new(kind, name) }
    }
}

fn of_workload(workload: &Workload) -> Entry {
    Entry {
        about: Some(workload.about.clone()),
        op: Some(workload.op.name().to_owned()),
        dtypes: vec![workload.dtype.name()],
        compute: Some(workload.compute.name()),
        cases: workload.cases.iter().map(|case| case.name.clone()).collect(),
        ..Entry::new(Kind::Workload, &workload.name)
    }
}

fn of_family(family: &Family) -> Entry {
    Entry {
        about: Some(family.about.clone()),
        op: Some(family.op.clone()),
        dtypes: family.dtypes.iter().map(|dtype| dtype.name()).collect(),
        compute: Some(family.compute.name()),
        parameters: family.params.keys().cloned().collect(),
        combinations: Some(family.params.values().map(|param| param.values.len() as f64).product()),
        ..Entry::new(Kind::Family, &family.name)
    }
}

fn show(entries: &[Entry], screen: Screen, out: &mut impl Write) -> anyhow::Result<()> {
    let sound = |kind| entries.iter().filter(move |entry| entry.kind == kind && entry.mistakes.is_empty());
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let mut table = Table::new(&["workload", "op", "dtype", ">cases", "about"]);
    for entry in sound(Kind::Workload) {
        let cases = entry.cases.len().to_string();
        table.row([entry.name.clone(), text(&entry.op), entry.precision(), cases, text(&entry.about)]);
    }
    table.print_on(screen, out)?;
    let mut table = Table::new(&["family", "op", "?dtypes", ">parameters", ">combinations", "about"]);
    for entry in sound(Kind::Family) {
        let combinations = entry.combinations.unwrap_or(1.0);
        let combinations = if combinations < 1e9 { format!("{combinations}") } else { format!("{combinations:.0e}") };
        let parameters = entry.parameters.len().to_string();
        let cells = [entry.name.clone(), text(&entry.op), entry.precision(), parameters, combinations];
        table.row(cells.into_iter().chain([text(&entry.about)]));
    }
    writeln!(out)?;
    table.print_on(screen, out)?;
    let mut table = Table::new(&["op", "oracle", "dtypes"]);
    for entry in sound(Kind::Op) {
        let oracle = if entry.declared == Some(true) { "the project's own" } else { "built in" };
        table.row([entry.name.clone(), oracle.to_owned(), entry.dtypes.join(" ")]);
    }
    writeln!(out)?;
    table.print_on(screen, out)?;
    let broken: Vec<&Entry> = entries.iter().filter(|entry| !entry.mistakes.is_empty()).collect();
    for entry in &broken {
        let kind = match entry.kind {
            Kind::Workload => "workload",
            Kind::Family => "family",
            Kind::Op => "op",
        };
        let more = match entry.mistakes.len() {
            1 => String::new(),
            all => format!(" (and {})", counted(all - 1, "more mistake")),
        };
        let first = &entry.mistakes[0];
        write!(out, "\n{}", paragraph("", 0, &format!("broken {kind} {}: {first}{more}", entry.name)))?;
    }
    if !broken.is_empty() {
        writeln!(out, "\n`optloop check` shows all mistakes.")?;
    }
    Ok(())
}

/// Shows which families take which case, for a workload, a family, or both of one name.
fn pairs(
    args: &Args,
    name: &str,
    (workloads, families): (&[Workload], &Families),
    device: &DeviceInfo,
    screen: Screen,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let is_named = |workload: &Workload, family: &str| workload.name == name || family == name;
    let (mut pairs, mut text) = (Vec::new(), String::new());
    for workload in workloads {
        let op = workload.op.name();
        let broken = families.broken.iter().filter(|one| one.may_compute(op) && is_named(workload, &one.name));
        let fitting = families.sound.iter().filter(|one| one.op == op && is_named(workload, &one.name));
        let fitting: Vec<&Family> = fitting.collect();
        let broken: Vec<_> = broken.collect();
        if workload.name == name || !fitting.is_empty() || !broken.is_empty() {
            let head = format!("{}: {op}, {}, {}", workload.name, workload.compute.of(workload.dtype), args.arch);
            text.push_str(&format!("{}{head}\n", if text.is_empty() { "" } else { "\n" }));
        }
        for family in fitting {
            match Fit::of(family, workload, device) {
                Ok(fit) => {
                    text.push_str(&told(family, &fit));
                    pairs.extend(fit.cases.into_iter().map(|(case, start)| Pair {
                        workload: workload.name.clone(),
                        family: family.name.clone(),
                        case: case.name.clone(),
                        takes: start.is_ok(),
                        why_not: start.err().unwrap_or_default(),
                    }));
                }
                Err(problem) => {
                    text.push_str(&paragraph(&format!("  {}: ", family.name), 4, &format!("broken: {problem}")))
                }
            }
        }
        for family in broken {
            let first = family.mistakes.first().map(String::as_str).unwrap_or_default();
            text.push_str(&paragraph(&format!("  {}: ", family.name), 4, &format!("broken: {first}")));
        }
    }
    if args.format.write(&pairs, out)? {
        return Ok(());
    }
    if text.is_empty() {
        text = format!("no workload uses the op of `{name}`\n");
    }
    Ok(screen.show(text.as_bytes(), out)?)
}

/// Describes which cases a family takes, and why it does not take the others.
fn told(family: &Family, fit: &Fit<'_>) -> String {
    let taken: Vec<&str> = fit.taken().map(|(case, _)| case.name.as_str()).collect();
    let all = fit.cases.len();
    let takes = match taken.len() {
        some if some == all => format!("takes {}", if all == 1 { "the case".to_owned() } else { format!("all {all}") }),
        0 => "takes no case".to_owned(),
        some => format!("takes {some} of {all}: {}", taken.join(", ")),
    };
    let mut text = paragraph(&format!("  {}: ", family.name), 4, &takes);
    for (reasons, cases) in fit.excluded() {
        let cases: Vec<&str> = cases.into_iter().map(CaseName::as_str).collect();
        let on = if cases.len() == all { String::new() } else { format!("not {}: ", cases.join(", ")) };
        text.push_str(&paragraph("", 4, &format!("{on}{}", reasons.join(" "))));
    }
    text
}
