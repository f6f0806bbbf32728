//! A comparison as text and as JSON, for `bench` and `reproduce`.

use std::io::{self, Write};

use serde::Serialize;

use crate::cli::terminal::comparisons::{self, challenger_is, over_challenger};
use crate::domain::budget::cost::Spent;
use crate::domain::compute::Compute;
use crate::domain::device::TimeSource;
use crate::domain::device::gpu_state::{Graphs, Load};
use crate::domain::device::machine::MachineSummary;
use crate::domain::device::regime::Regime;
use crate::domain::ids::{CaseName, IterationId};
use crate::domain::measurement::comparison::{Comparison, Participant, Role};
use crate::domain::measurement::conditions::Conditions;
use crate::domain::op::Dims;
use crate::report::format;

/// The result of a comparison, for programs. docs/bench.md describes it.
#[derive(Debug, Serialize)]
pub struct Found {
    workload: String,
    case: CaseName,
    dims: Dims,
    dtype: &'static str,
    compute: Compute,
    device: String,
    regime: Regime,
    time_source: TimeSource,
    /// State of the graphs of the processes.
    graphs: Graphs,
    load: Load,
    /// The number of the repeat, from 1.
    repeat: usize,
    floor_us: Option<f64>,
    /// The distance from 1 below which a ratio shows no difference. Null without an A/A control.
    noise: Option<f64>,
    group_size: usize,
    discarded_rounds: usize,
    /// Other processes on the GPU.
    others: Vec<String>,
    participants: Vec<FoundParticipant>,
}

/// One side of a comparison, for programs.
#[derive(Debug, Serialize)]
struct FoundParticipant {
    role: Role,
    name: String,
    iteration: Option<IterationId>,
    median_us: f64,
    ci_us: Option<[f64; 2]>,
    samples: usize,
    launches_per_sample: u32,
    /// Its time over the challenger's. Above 1, the challenger is faster. Null for the challenger.
    ratio: Option<f64>,
    ratio_ci: Option<[f64; 2]>,
    /// How the challenger compares with it, beyond the noise.
    challenger_is: Option<&'static str>,
    /// Floor over time.
    share_of_floor: Option<f64>,
    machine: Option<MachineSummary>,
    energy_j: Option<f64>,
    /// The control of its process: an empty kernel as a node of a graph.
    graph_node_us: Option<f64>,
    relative_l2: Option<f64>,
    worst_row: Option<f64>,
    /// Why a rival's output is wrong. Null if it is right.
    wrong: Option<String>,
}

impl Found {
    /// Makes the result of a comparison.
    pub fn of(comparison: &Comparison, repeat: usize) -> Self {
        let conditions = comparison.conditions.clone();
        Self {
            workload: conditions.workload,
            case: conditions.case,
            dims: conditions.dims,
            dtype: conditions.dtype.name(),
            compute: conditions.compute,
            device: conditions.device,
            regime: conditions.regime,
            time_source: conditions.time_source,
            graphs: conditions.graphs,
            load: conditions.load,
            repeat,
            floor_us: comparison.floor_ns.map(|ns| ns / 1e3),
            noise: comparison.against(Role::Control).map(|_| comparison.noise()),
            group_size: comparison.group_size,
            discarded_rounds: comparison.discarded_rounds,
            others: comparison.others.clone(),
            participants: comparison
                .participants
                .iter()
                .map(|participant| FoundParticipant::of(comparison, participant))
                .collect(),
        }
    }
}

impl FoundParticipant {
    fn of(comparison: &Comparison, participant: &Participant) -> Self {
        let ratio = over_challenger(comparison, participant);
        let Participant { role, name, iteration, timing, correctness, machine, energy_j, .. } = participant;
        Self {
            role: *role,
            name: name.clone(),
            iteration: *iteration,
            median_us: timing.median_ns / 1e3,
            ci_us: timing.shown_ci_us(),
            samples: timing.samples_ns.len(),
            launches_per_sample: timing.launches_per_sample,
            ratio: ratio.map(|ratio| ratio.estimate),
            ratio_ci: ratio.map(|ratio| [ratio.interval.lo, ratio.interval.hi]),
            challenger_is: challenger_is(comparison, participant),
            share_of_floor: comparison.floor_ns.map(|floor_ns| floor_ns / timing.median_ns),
            machine: machine.clone(),
            energy_j: *energy_j,
            graph_node_us: participant.graph_node_ns.map(|ns| ns / 1e3),
            relative_l2: correctness.map(|correctness| correctness.relative_l2),
            worst_row: correctness.map(|correctness| correctness.worst_row),
            wrong: participant.wrong.clone(),
        }
    }
}

/// Prints a comparison, with its conditions.
pub fn print(comparison: &Comparison, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}", title(comparison))?;
    comparisons::print(comparison, out)
}

/// Returns a title with what was measured and the conditions.
pub fn title(comparison: &Comparison) -> String {
    let Conditions { workload, case, device, regime, time_source, .. } = &comparison.conditions;
    let state = state(&comparison.conditions);
    format!("{workload}/{case} on {device}, {} L2, times are {}{state}", regime.name(), time_source.name())
}

/// Returns the state of the graphs and the load, where they are not those of times from before they were recorded.
pub fn state(conditions: &Conditions) -> String {
    let graphs = if conditions.graphs.is_alone() { "" } else { ", other graphs loaded" };
    let load = if conditions.load.is_bursts() { "" } else { ", sustained load" };
    format!("{graphs}{load}")
}

/// Returns what language models cost, to follow other costs. Empty if none did: most sessions use none.
pub fn of_models(spent: &Spent) -> String {
    if spent.llm_usd > 0.0 { format!(", language models {}", format::usd(spent.llm_usd)) } else { String::new() }
}

/// Returns the versions as text.
pub fn show_versions(versions: &[(String, String)]) -> String {
    versions.iter().map(|(name, version)| format!("{name} {version}")).collect::<Vec<_>>().join(", ")
}
