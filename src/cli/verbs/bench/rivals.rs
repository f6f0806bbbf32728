//! Rivals on the command line: reads and starts them, and says how they are timed.

use super::Args;
use crate::bench::{Bench, RivalName, Subject};
use crate::catalog::Project;
use crate::cli::verbs::export as exports;
use crate::config::Config;
use crate::domain::device::regime::Regime;
use crate::domain::workload::{BaselineKey, Workload};
use crate::error::{Error, error, usage, usage_sentence};
use crate::export;
use crate::files;
use crate::launch::consent::{Agrees, admit};
use crate::notices::say;
use crate::runner::baseline::Solution;
use crate::trust::{self, Kind};

/// A rival with the text of its file.
pub(super) type Read = (RivalName, String);

/// Reads the rivals of the command line.
pub(super) fn read(args: &Args) -> anyhow::Result<Vec<Read>> {
    if RivalName::parse(&args.what).is_some() {
        return Err(usage_sentence(format!(
            "`{}` is a solution in PyTorch, which is timed beside a kernel: name the kernel, and the solution with --against",
            args.what
        )));
    }
    let named = args.against.iter().filter_map(|text| RivalName::parse(text));
    let read = named.map(|rival| {
        let text = files::read(&rival.file).map_err(usage)?;
        if !args.trust.agrees().0 {
            return Err(usage_sentence(format!(
                "{} is a program: read it, then agree with --trust to run it, confined, beside the kernel",
                rival.file.display()
            )));
        }
        Ok((rival, text))
    });
    read.collect()
}

/// Starts the rivals.
pub(super) async fn start(
    rivals: &[Read],
    bench: &mut Bench,
    (project, config): (&Project, &Config),
    agrees: Agrees,
    (workload, device): (&Workload, u32),
) -> anyhow::Result<()> {
    if rivals.is_empty() {
        return Ok(());
    }
    if !bench.device().replays() {
        let name = &bench.device().name;
        return Err(usage_sentence(format!("rivals can only be measured, and the {name} models times: omit them")));
    }
    let mut items = trust::of_python(project.root(), config).map_err(usage)?;
    if matches!(workload.baseline, Some(BaselineKey::Torch { .. })) {
        // The exported op falls back to the workload's expression.
        let baseline = trust::of_baseline(project.root(), config, workload).map_err(usage)?;
        items.extend(baseline.into_iter().filter(|item| item.kind == Kind::Baseline));
    }
    admit(project, agrees, items)?;
    let problem = match &workload.baseline {
        Some(BaselineKey::Module(file)) => Some(files::read_inside(project.root(), &project.root().join(file))?),
        _ => None,
    };
    for (rival, text) in rivals {
        let solution = Solution::of_file(text.clone(), rival.name.clone(), problem.clone());
        if let Err(reason) = bench.start_rival(rival.shown(), &solution, workload, device).await {
            say(&format!("{} is not timed: {reason}", rival.shown()));
        }
    }
    Ok(())
}

/// Finds how the rivals are timed on a case. Where one is timed by call, so is the kernel, if PyTorch can call it.
pub(super) async fn find(bench: &mut Bench, project: &Project, (subject, regime): (&Subject, Regime), device: u32) {
    let case = &subject.case().name;
    for (name, reason) in bench.find_rivals(subject, regime, rand::random()).await {
        say(&format!("{name} is not timed on {case}: {reason}"));
    }
    if !bench.has_calls(case, regime) {
        return;
    }
    let called = match exported(bench, project, subject) {
        Ok(Some(solution)) => bench.start_called(&solution, subject, regime, (device, rand::random())).await,
        Ok(None) => Err(Error::new("PyTorch can only call a winner that is committed for this kind of device")),
        Err(error) => Err(error!("{error:#}")),
    };
    if let Err(reason) = called {
        say(&format!("{} is not timed by call on {case}: {reason}", subject.name));
    }
}

/// Returns the kernel as PyTorch calls it.
fn exported(bench: &Bench, project: &Project, subject: &Subject) -> anyhow::Result<Option<Solution>> {
    let of_winner = (&bench.device().key(), &subject.variant.hash);
    // The subject's own workload has the selected cases only.
    let workload = project.workload(&subject.workload.name)?;
    let package = exports::package(project, &workload, subject.case(), of_winner)?;
    let name = export::module_name(&workload.name);
    Ok(package.map(|files| Solution::of_package(files.into_iter().map(|file| (file.path, file.text)), &name)))
}
