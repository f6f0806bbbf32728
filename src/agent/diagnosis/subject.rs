//! The subject of a diagnosis: a variant on a case, with all evidence about it.

use crate::domain::code::ablation::Ablation;
use crate::domain::code::artifact::KernelResources;
use crate::domain::code::counters::{Counters, LaunchCounters};
use crate::domain::code::occupancy::{self, Occupancy};
use crate::domain::code::profile::{Cause, LaunchProfile, Profile};
use crate::domain::device::DeviceInfo;
use crate::domain::family::Family;
use crate::domain::family::plan::{Launch, LaunchPlan};
use crate::domain::history::tested::Trial;
use crate::domain::ids::IterationId;
use crate::domain::measurement::floor::Floor;
use crate::domain::op::Dims;
use crate::domain::proposal::finding::EvidenceSource;
use crate::domain::variant::Params;
use crate::domain::workload::{Case, Workload};

/// A variant on a case, with the evidence.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// The iteration that measured it; none for a kernel that belongs to no session.
    pub iteration: Option<IterationId>,
    /// The name of its family.
    pub family: &'a str,
    /// The family's manifest and the configuration; none for a kernel from elsewhere. Without them, remedies name no
    /// parameters.
    pub configuration: Option<(&'a Family, &'a Params)>,
    /// The workload that it computes.
    pub workload: &'a Workload,
    /// The case.
    pub case: &'a Case,
    /// The device.
    pub device: &'a DeviceInfo,
    /// Its time on the case, in nanoseconds.
    pub time_ns: f64,
    /// How it is launched.
    pub plan: &'a LaunchPlan,
    /// The resources of each of its kernels; empty if they are not known.
    pub kernels: &'a [KernelResources],
    /// The counts of a virtual GPU on the case.
    pub profile: Option<&'a Profile>,
    /// The hardware counters on the case, if they were read.
    pub counters: Option<&'a Counters>,
    /// Its times on the case without each kind of instruction. Empty if it was not ablated.
    pub ablations: &'a [Ablation],
    /// The times of the same variant on other shapes.
    pub scaling: &'a [Point],
    /// The correct variants that the session has timed on the case, one for each configuration; empty for a kernel that belongs to no
    /// session.
    pub trials: &'a [Trial<'a>],
    /// The families that could compute the workload on the device.
    pub families: &'a [&'a Family],
    /// The names of families that are known to be fast, the most promising first.
    pub fast: &'a [String],
}

/// The time of a variant on another shape.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// The name of the case, or of the experiment.
    pub case: String,
    /// Its dimensions.
    pub dims: Dims,
    /// The time in nanoseconds.
    pub time_ns: f64,
    /// Blocks of the largest launch.
    pub ctas: u64,
    /// Whether it comes from a case of the workload or from an experiment.
    pub source: EvidenceSource,
}

impl Subject<'_> {
    /// Returns the floor of the case.
    pub fn floor(&self) -> Floor {
        Floor::of(self.workload, self.case, self.device)
    }

    /// Returns the time as a multiple of the floor, at least 1. No change gains more.
    pub fn headroom(&self) -> f64 {
        (self.time_ns / self.floor().ns).max(1.0)
    }

    /// Returns the launch that takes longest: by its profile, or else the one with the most threads.
    pub fn launch(&self) -> Option<&Launch> {
        match self.longest() {
            Some(longest) => self.plan.launches.iter().find(|launch| launch.kernel == longest.kernel),
            None => self.plan.launches.iter().max_by_key(|launch| launch.ctas() * u64::from(threads(launch))),
        }
    }

    /// Returns the profile of the launch that takes longest.
    pub fn longest(&self) -> Option<&LaunchProfile> {
        self.profile?.longest()
    }

    /// Returns how many bytes a second L2 delivers to the loads of that launch, while the kernel does not only start.
    pub fn l2_bytes_per_s(&self) -> Option<f64> {
        let busy_ns = (self.time_ns - self.device.peaks.launch_ns).max(1.0);
        Some(self.longest()?.l2_load_bytes() / busy_ns * 1e9)
    }

    /// Returns the hardware counters of that launch.
    pub fn counted(&self) -> Option<&LaunchCounters> {
        let launch = self.launch()?;
        self.counters?.launches.iter().find(|counted| counted.kernel == launch.kernel)
    }

    /// Returns the resources of the kernel of that launch.
    pub fn resources(&self) -> Option<&KernelResources> {
        let launch = self.launch()?;
        self.kernels.iter().find(|kernel| kernel.name == launch.kernel)
    }

    /// Returns how many blocks of that launch fit on a multiprocessor.
    pub fn occupancy(&self) -> Option<Occupancy> {
        Some(occupancy::occupancy(self.launch()?, self.resources()?, self.device))
    }

    /// Returns how many times as fast the variant would be without a cause, by the model of the virtual GPU, at least
    /// 1.
    pub fn gain_without(&self, cause: Cause) -> Option<f64> {
        let profile = self.profile?;
        let gain = profile.modelled_ns() / profile.ns_without(cause)?.max(1.0);
        Some(gain.clamp(1.0, self.headroom()))
    }

    /// Returns how many times as fast the variant would be if a part of the longest launch had no excess: by the model,
    /// or else by the part's share of the time.
    pub fn gain_without_excess(&self, cause: Cause, part: &str, excess: f64) -> f64 {
        let by_share = || self.gain_of_share(self.part(part).unwrap_or_default() * (1.0 - 1.0 / excess.max(1.0)));
        self.gain_without(cause).unwrap_or_else(by_share)
    }

    /// Returns how many times as fast the variant would be without a share of its modelled time, at least 1.
    pub fn gain_of_share(&self, share: f64) -> f64 {
        (1.0 / (1.0 - share.clamp(0.0, 0.999))).min(self.headroom())
    }

    /// Returns the modelled time of a part of the longest launch as a share of the launch's time, at most 1.
    pub fn part(&self, name: &str) -> Option<f64> {
        let launch = self.longest()?;
        Some((launch.parts_ns.get(name)? / launch.modelled_ns).min(1.0))
    }

    /// Returns the elements of the outputs of a shape. They are independent of each other.
    pub fn outputs(&self, dims: &Dims) -> f64 {
        let tensors = self.workload.op.tensors(dims, self.workload.dtype);
        let outputs = tensors.iter().filter(|tensor| tensor.role.is_written());
        outputs.map(|tensor| tensor.elements() as f64).sum()
    }

    /// Names the shape of a time: its case, or how the experiment differs from the subject's case.
    pub fn named(&self, point: &Point) -> String {
        let own = &self.case.dims;
        let changed = point.dims.iter().filter(|(name, size)| own.get(*name) != Some(*size));
        match point.source {
            EvidenceSource::Experiment => {
                let changed: Vec<String> = changed.map(|(name, size)| format!("{name} = {size}")).collect();
                format!("{} with {}", self.case.name, changed.join(" and "))
            }
            _ => point.case.to_string(),
        }
    }

    /// Returns the work of a shape in FLOP.
    pub fn flop(&self, dims: &Dims) -> f64 {
        self.workload.op.flop(dims)
    }

    /// Tells whether any kernel uses tensor cores. None if that is not known.
    pub fn uses_tensor_cores(&self) -> Option<bool> {
        let counted = self.profile.map(|profile| profile.launches.iter().any(|launch| launch.flop_tensor > 0));
        let text = || {
            let mixes: Option<Vec<_>> = self.kernels.iter().map(|kernel| kernel.instructions).collect();
            mixes.filter(|mixes| !mixes.is_empty()).map(|mixes| mixes.iter().any(|mix| mix.tensor > 0))
        };
        text().or(counted)
    }
}

/// Returns the threads of a block.
pub(super) fn threads(launch: &Launch) -> u32 {
    launch.block.iter().product()
}
