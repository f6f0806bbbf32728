//! `optloop bench`: measures a kernel by hand, as a session would.

mod repeats;
mod rivals;

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::Context;
use serde::Serialize;

use self::repeats::Repeats;
use crate::bench::{Bench, KernelName, PlannedComparison, RivalName, Selection, Subject};
use crate::catalog::Project;
use crate::cli::terminal::measured::{Found, show_versions};
use crate::cli::verbs::trust::TrustArgs;
use crate::config::Config;
use crate::domain::device::DeviceInfo;
use crate::domain::device::gpu_state::Load;
use crate::domain::device::regime::Regime;
use crate::domain::ids::CaseName;
use crate::domain::measurement::comparison::{Comparison, MIN_ROUNDS, Role};
use crate::error::{Error, error, usage, usage_sentence};
use crate::evaluated::Evaluated;
use crate::launch::armed;
use crate::launch::consent;
use crate::launch::devices;
use crate::launch::project_store::locked_store;
use crate::notices::say;
use crate::report::format;
use crate::single::Claim;

/// The format of the JSON.
const SCHEMA: &str = "optloop.bench/1";

/// The name of the workload's baseline in `--against`.
const BASELINE: &str = "baseline";

/// Arguments of `optloop bench`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Kernel to measure: a .cu file next to its sidecar, a sidecar, CASE or WORKLOAD/CASE for a committed winner, the
    /// number of an iteration, or a family with its non-default parameters: attention-scalar:BR=64,BC=32
    what: String,

    /// Kernel to compare with, named in the same way, or `baseline`: the workload's baseline, or its initial kernel if
    /// no baseline runs, or a solution in PyTorch: module:FILE.py; can be repeated [default: baseline]
    #[arg(long, value_name = "OTHER")]
    against: Vec<String>,

    /// Workload of a family or file [default: for a family, session.workload in config.toml if that has its op, else the
    /// only workload of its op; for a file, the workload of its folder]
    #[arg(short = 'w', long)]
    workload: Option<String>,

    /// Measure only this case; can be repeated
    #[arg(short = 'c', long = "case", value_name = "CASE")]
    cases: Vec<CaseName>,

    /// Cache regime [default: that of the case]
    #[arg(long, value_enum)]
    regime: Option<Regimes>,

    /// Samples of each participant, at least 12 [default: benchmark.confirmation_samples, then more until the medians
    /// are precise]
    #[arg(long, value_name = "N")]
    samples: Option<usize>,

    /// Number of comparisons, each in a fresh process on fresh inputs; shows the spread of the medians
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeat: u32,

    /// Measure under sustained load: keep the GPU busy until clocks and power settle, and while sampling
    #[arg(long)]
    sustained: bool,

    /// What you expect of the kernel; it is recorded with the result
    #[arg(long, value_name = "TEXT")]
    claim: Option<String>,

    /// Speed-up that you expect over the first kernel that it is compared with, such as 1.05..1.3; it is scored
    #[arg(long, value_name = "LOW..HIGH", requires = "claim", value_parser = speedup)]
    predict: Option<(f64, f64)>,

    /// Device: auto, cuda:N, virtual or virtual:NAME [default: session.device in config.toml]
    #[arg(short = 'd', long)]
    device: Option<String>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    trust: TrustArgs,
}

impl Args {
    fn wants_baseline(&self) -> bool {
        self.against.is_empty() || self.against.iter().any(|text| text == BASELINE)
    }

    fn claim(&self) -> Option<Claim> {
        self.claim.clone().map(|text| Claim { text, speedup: self.predict })
    }
}

/// A value of `--regime`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Regimes {
    /// The same buffers for every launch
    Warm,
    /// Rotated buffers, so that L2 contains none of their data
    Cold,
    /// Both, one after the other
    Both,
}

/// The result, for programs.
#[derive(Serialize)]
struct Printed<'a> {
    schema: &'static str,
    device: &'a DeviceInfo,
    versions: BTreeMap<String, String>,
    comparisons: Vec<Found>,
    spreads: Vec<repeats::Spread>,
    /// Each kernel that was measured, as it is on record.
    evaluations: Vec<Evaluated>,
}

/// Parses a range of speed-ups.
fn speedup(text: &str) -> Result<(f64, f64), Error> {
    let range = text.split_once("..").and_then(|(lo, hi)| Some((lo.parse().ok()?, hi.parse().ok()?)));
    range
        .filter(|(lo, hi): &(f64, f64)| *lo > 0.0 && lo <= hi && hi.is_finite())
        .ok_or_else(|| error!("`{text}` is not a range of speed-ups").hint("write LOW..HIGH, such as 1.05..1.3"))
}

/// Measures and prints the results.
pub async fn run(args: &Args, project: &Project, out: &mut impl Write) -> anyhow::Result<()> {
    let config = Config::load(project.root()).map_err(usage)?;
    let rivals = rivals::read(args)?;
    let what = KernelName::parse(&args.what).map_err(usage_sentence)?;
    let named = args.against.iter().filter(|text| *text != BASELINE && RivalName::parse(text).is_none());
    let against = named.map(|text| KernelName::parse(text)).collect::<Result<Vec<_>, _>>();
    let against = against.map_err(usage_sentence)?;
    if args.samples.is_some_and(|samples| samples < MIN_ROUNDS) {
        return Err(usage_sentence(format!("--samples must be {MIN_ROUNDS} or more: fewer samples have no interval")));
    }
    let choice = devices::to_execute(args.device.as_deref(), &config)?;
    consent::check_places(project, &config, args.trust.agrees())?;
    let mut locks = project.lock("bench")?;
    let mut bench = armed::bench(project, config.clone(), &choice, &mut locks).await?;
    if args.sustained && !bench.device().replays() {
        return Err(usage_sentence(format!(
            "the {} models times, and its model has no clocks or power that settle: omit --sustained",
            bench.device().name
        )));
    }
    args.samples.into_iter().for_each(|samples| bench.take_samples(samples));
    let selection = Selection { workload: args.workload.as_deref(), cases: &args.cases };
    let what = resolved(&bench, project, what, selection).map_err(usage)?;
    let challengers = bench.subjects(&what, selection).await.map_err(usage)?;
    let mut wanted = Vec::new();
    for challenger in challengers {
        let others = others(&bench, &challenger, &against).await.map_err(usage)?;
        for regime in regimes(args.regime, &challenger, bench.device()) {
            bench.check_regime(&challenger, regime).map_err(usage_sentence)?;
            wanted.push(Wanted { challenger: challenger.clone(), regime, others: others.clone() });
        }
    }
    for Wanted { challenger, .. } in &wanted {
        consent::admit_oracle(project, &config, args.trust.agrees(), &challenger.workload)?;
    }
    if let Some(Wanted { challenger, .. }) = wanted.first()
        && args.wants_baseline()
        && bench.device().replays()
    {
        let items = crate::trust::of_baseline(project.root(), &config, &challenger.workload).map_err(usage)?;
        consent::admit(project, args.trust.agrees(), items)?;
    }
    if let Some(Wanted { challenger, .. }) = wanted.first()
        && args.wants_baseline()
        && let Err(reason) = bench.start_baseline(&challenger.workload, choice.number()).await
    {
        say(&format!("no baseline: {reason}; the initial kernel is used instead"));
    }
    let Some(Wanted { challenger, .. }) = wanted.first() else { return Ok(()) };
    rivals::start(
        &rivals,
        &mut bench,
        (project, &config),
        args.trust.agrees(),
        (&challenger.workload, choice.number()),
    )
    .await?;
    let store = locked_store(project, &config, &mut locks).await?;
    let cases: Vec<CaseName> = wanted.iter().map(|one| one.challenger.case().name.clone()).collect();
    let workload = challenger.workload.clone().select(&cases).map_err(usage_sentence)?;
    locks.note_session(bench.record_in(store, &workload).await?);
    let played = all(args, project, (&mut bench, choice.number()), wanted, out).await;
    let recorded = end_record(&bench, played.as_ref().err()).await;
    let all = played?;
    recorded?;
    let versions = bench.versions();
    if args.json {
        let evaluations = bench.evaluator().evaluated().await?;
        let found = all.iter().flat_map(|repeats| repeats.comparisons.iter().zip(1..));
        let comparisons = found.map(|(comparison, repeat)| Found::of(comparison, repeat)).collect();
        let spreads = all.iter().flat_map(Repeats::spreads).collect();
        let (device, versions) = (bench.device(), versions.into_iter().collect());
        let printed = Printed { schema: SCHEMA, device, versions, comparisons, spreads, evaluations };
        writeln!(out, "{}", serde_json::to_string_pretty(&printed)?)?;
    } else {
        writeln!(out, "versions: {}", show_versions(&versions))?;
    }
    Ok(())
}

/// A comparison to hold.
struct Wanted {
    challenger: Subject,
    regime: Regime,
    others: Vec<(Role, Subject)>,
}

/// Measures each challenger in each regime.
async fn all(
    args: &Args,
    project: &Project,
    (bench, device): (&mut Bench, u32),
    wanted: Vec<Wanted>,
    out: &mut impl Write,
) -> anyhow::Result<Vec<Repeats>> {
    let mut all = Vec::with_capacity(wanted.len());
    for Wanted { challenger, regime, others } in wanted {
        rivals::find(bench, project, (&challenger, regime), device).await;
        all.push(play(args, bench, &challenger, regime, others, out).await?);
    }
    Ok(all)
}

/// Ends the record, and says where it is.
async fn end_record(bench: &Bench, error: Option<&anyhow::Error>) -> anyhow::Result<()> {
    match bench.evaluator().end_record(error).await? {
        [] => {}
        [only] => say(&format!("on record as iteration {only}: `optloop show {only}`")),
        [first, .., last] => say(&format!("on record as iterations {first} to {last}: `optloop show {last}`")),
    }
    Ok(())
}

/// Names the winner of a case that is named alone, and that of another device if a case has none of this device. README's first
/// call works on any machine so.
pub fn resolved(
    bench: &Bench,
    project: &Project,
    what: KernelName,
    selection: Selection<'_>,
) -> anyhow::Result<KernelName> {
    let what = bench.of_case(what, selection.workload)?;
    let KernelName::Winner { workload, case } = &what else { return Ok(what) };
    let Some(sidecar) = bench.winner_of_another_device(workload, case) else { return Ok(what) };
    say(&format!(
        "{workload}/{case} has no winner of the {}: taking {}, the winner of another device",
        bench.device().name,
        sidecar.strip_prefix(project.root()).unwrap_or(&sidecar).display()
    ));
    Ok(KernelName::File(sidecar))
}

/// Returns the kernels to compare a challenger with, on the challenger's case.
async fn others(bench: &Bench, challenger: &Subject, against: &[KernelName]) -> anyhow::Result<Vec<(Role, Subject)>> {
    let cases = [challenger.case().name.clone()];
    let selection = Selection { workload: Some(&challenger.workload.name), cases: &cases };
    let mut others = Vec::new();
    for what in against {
        let what = bench.of_case(what.clone(), selection.workload).context("--against")?;
        let found = bench.subjects(&what, selection).await.context("--against")?;
        others.extend(found.into_iter().map(|other| (Role::Incumbent, other)));
    }
    Ok(others)
}

/// Returns the regimes to measure. A virtual GPU models warm caches only, so its default is warm.
fn regimes(requested: Option<Regimes>, challenger: &Subject, device: &DeviceInfo) -> Vec<Regime> {
    match requested {
        None => vec![challenger.case().regime.on(device)],
        Some(Regimes::Warm) => vec![Regime::Warm],
        Some(Regimes::Cold) => vec![Regime::Cold],
        Some(Regimes::Both) => vec![Regime::Warm, Regime::Cold],
    }
}

/// Measures one case in one regime, as often as requested.
async fn play(
    args: &Args,
    bench: &mut Bench,
    challenger: &Subject,
    regime: Regime,
    mut others: Vec<(Role, Subject)>,
    out: &mut impl Write,
) -> anyhow::Result<Repeats> {
    let case = challenger.case();
    if let Err(reason) = bench.find_backend(challenger, regime, rand::random()).await {
        say(&format!("no baseline on {}: {reason}", case.name));
    }
    if args.wants_baseline() && !bench.has_backend(&case.name, regime) {
        match bench.initial_kernel(&challenger.workload, case) {
            Ok(initial) if initial.variant.hash == challenger.variant.hash => {}
            Ok(initial) => others.push((Role::Baseline, initial)),
            Err(reason) => say(&format!("there is no kernel to compare it with on {}: {reason:#}", case.name)),
        }
    }
    let claim = args.claim();
    let mut comparisons: Vec<Comparison> = Vec::new();
    for repeat in 1..=args.repeat {
        let input_seed = rand::random();
        let planned = PlannedComparison {
            challenger,
            others: &others,
            regime,
            input_seed,
            with_baseline: args.wants_baseline(),
            energy: args.repeat == 1,
            load: if args.sustained { Load::Sustained } else { Load::Bursts },
            claim: claim.as_ref(),
        };
        let comparison = bench.measure(&planned).await?;
        if args.repeat > 1 {
            let us = comparison.challenger().map_or(f64::NAN, |challenger| challenger.timing.median_ns / 1e3);
            say(&format!("{} {}, {repeat} of {}: {us:.3} us", case.name, regime.name(), args.repeat));
        }
        comparisons.push(comparison);
    }
    let repeats = Repeats { comparisons };
    if !args.json {
        repeats.print(out)?;
        if let Some(preparation) = challenger.request.plan.preparation(None) {
            writeln!(out, "The challenger's {}", format::prepared(&preparation))?;
        }
        writeln!(out)?;
    }
    Ok(repeats)
}
