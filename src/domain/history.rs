//! What a session has learnt so far, for proposers and for verdicts.

pub mod attempt;
pub mod by_call;
pub mod effects;
pub mod progress;
pub mod refuted;
pub mod tested;

use std::collections::{HashMap, HashSet};

use self::attempt::Attempt;
use self::progress::Progress;
use self::tested::Trial;
use super::claims::prediction::Direction;
use super::code::CodeFigures;
use super::code::ablation::{Ablated, Ablation};
use super::code::counters::{Counted, CountedBaseline, Counters};
use super::code::profile::Profile;
use super::family::plan::LaunchShape;
use super::ids::{CaseName, IterationId};
use super::measurement::evaluation::Outcome;
use super::measurement::incumbent::{Incumbent, Incumbents};
use super::measurement::verdict::{Verdict, is_far_behind};
use super::op::Dims;
use super::proposal::Rationale;
use super::proposal::experiment::{Experiment, PathStep};
use super::proposal::origin::{Origin, Purpose};
use super::record::journal::{Begun, Concluded};
use super::record::{CaseRecord, IterationRecord, SessionRecord};
use super::variant::{Params, VariantHash};

/// Identifies a configuration rendered for one specialization. The same parameters with two specializations are two.
///
/// A session remembers every configuration that it has proposed, so this is only a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConfigurationId([u8; 16]);

impl ConfigurationId {
    /// Makes the id of a configuration from its family, specialization and parameters.
    pub fn new(family: &str, specialization: &Dims, params: &Params) -> Self {
        let mut hasher = blake3::Hasher::new();
        // Lengths keep ("ab", "c") and ("a", "bc") apart. Counts separate one map from the next.
        let mut add = |text: &str| {
            hasher.update(&text.len().to_le_bytes()).update(text.as_bytes());
        };
        add(family);
        for map in [specialization, params] {
            let mut pairs: Vec<_> = map.iter().collect();
            pairs.sort();
            add(&pairs.len().to_string());
            for (name, value) in pairs {
                add(name);
                add(&value.to_string());
            }
        }
        let mut hash = [0; 16];
        hash.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        Self(hash)
    }

    /// Returns a byte of the id, which is uniformly distributed over configurations.
    pub fn byte(&self) -> u8 {
        self.0[0]
    }
}

/// The parts of a finished iteration that later decisions need.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// The store's number of the iteration.
    pub iteration: IterationId,
    /// The variant's family.
    pub family: String,
    /// The variant's parameters.
    pub params: Params,
    /// The variant's name.
    pub hash: VariantHash,
    /// Why it was tried.
    pub rationale: Rationale,
    /// What the compiler reported; none if nothing was compiled.
    pub code: Option<CodeFigures>,
    /// The time on each case, with the blocks launched.
    pub times: Vec<CaseTime>,
}

impl Finished {
    /// Returns the variant's time on a case, if it was timed there.
    pub fn time_ns(&self, case: &str) -> Option<f64> {
        self.times.iter().find(|time| time.case == case).map(|time| time.median_ns)
    }
}

/// The time of a variant on a case, with the data that a diagnosis needs.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseTime {
    /// The case's name.
    pub case: CaseName,
    /// Median time in nanoseconds.
    pub median_ns: f64,
    /// Blocks (CTAs) of the largest launch.
    pub ctas: u64,
    /// The launch that does most of the work. None where its plan is not on record.
    pub shape: Option<LaunchShape>,
    /// What the virtual GPU counted, where the time is modelled.
    pub profile: Option<Profile>,
    /// Whether the time comes from a screening run alone, not from a comparison or a start.
    pub screened_only: bool,
}

/// A configuration that has no result yet.
#[derive(Debug, Clone, PartialEq)]
pub struct Pending {
    /// Its family.
    pub family: String,
    /// Its parameters.
    pub params: Params,
    /// The cases to try it on.
    pub cases: Vec<CaseName>,
}

/// Everything that a session has learnt.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    /// Finished iterations that were correct and measured, in increasing order of their numbers.
    pub finished: Vec<Finished>,
    /// The best confirmed variant of each case.
    pub incumbents: Incumbents,
    /// The fastest variant of each case, confirmed or not: its iteration and its time in nanoseconds.
    pub(crate) fastest: HashMap<CaseName, (IterationId, f64)>,
    /// The shortest time of each family on each case, in nanoseconds.
    pub(crate) fastest_of_family: HashMap<String, HashMap<CaseName, f64>>,
    /// What was tried on each case, and what it gained.
    pub progress: HashMap<CaseName, Progress>,
    /// The hardware counters that were read, and why others were not, oldest first.
    pub counters: Vec<Counted>,
    /// The same of baselines.
    pub baseline_counters: Vec<CountedBaseline>,
    /// The ablations of variants, oldest first.
    pub ablations: Vec<Ablated>,
    /// What experiments have shown, oldest first. Their times are in no other list.
    pub experiments: Vec<Experiment>,
    /// The steps on paths between configurations, oldest first. Their times are in no other list.
    pub path_steps: Vec<PathStep>,
    /// Every evaluated configuration, including those that failed and those that were left out because they would be slow,
    /// oldest first. Without experiments, and without those that were given up for other reasons.
    pub attempts: Vec<Attempt>,
    /// Configurations that several devices are about to screen, or screen now.
    pub pending: Vec<Pending>,
    /// Configurations proposed so far, including those in flight. None is proposed twice.
    pub proposed: HashSet<ConfigurationId>,
}

impl History {
    /// Adds a recorded iteration. One that never ended teaches nothing.
    pub fn learn_recorded(&mut self, iteration: &IterationRecord) {
        if let Some(concluded) = Concluded::recorded(iteration, iteration.measurements.clone()) {
            self.learn(&Begun::recorded(iteration), &concluded);
        }
    }

    /// Rebuilds what a session learnt from its record, with the verdicts as they stand now.
    pub fn of(record: &SessionRecord) -> Self {
        let mut history = Self { baseline_counters: record.baseline_counters.clone(), ..Self::default() };
        for iteration in &record.iterations {
            history.learn_recorded(iteration);
            for found in &iteration.measurements {
                let counters = found.counters.clone().map(Ok);
                history.counters.extend(counters.map(|counters| Counted {
                    iteration: iteration.id,
                    case: found.case.clone(),
                    counters,
                    wall_s: 0.0,
                }));
                if !found.ablations.is_empty() {
                    let (case, ablations) = (found.case.clone(), found.ablations.clone());
                    history.ablations.push(Ablated { iteration: iteration.id, case, ablations, wall_s: 0.0 });
                }
            }
        }
        history
    }

    /// Adds a finished iteration and its verdicts.
    pub fn learn(&mut self, begun: &Begun, concluded: &Concluded) {
        // A variant that was left out because it would be slow counts as a failure, so that its like is proposed less.
        let was_slow = begun.rationale.hypothesis.direction() == Some(Direction::Slower);
        let is_known = was_slow || !matches!(concluded.outcome, Outcome::Pruned { .. });
        if begun.rationale.purpose != Purpose::Experiment && is_known {
            self.attempts.push(Attempt {
                iteration: Some(begun.iteration),
                family: begun.family.clone(),
                params: begun.params.clone(),
                cases: begun.cases.iter().map(|case| case.name.clone()).collect(),
                worked: concluded.outcome == Outcome::Measured,
                gpu_s: concluded.spent.gpu_s,
            });
        }
        self.path_steps.extend(path_step(begun, concluded));
        // A variant that is wrong on one case may be fast on another because of that bug, so its times are ignored.
        if concluded.outcome != Outcome::Measured {
            return;
        }
        if begun.rationale.purpose == Purpose::Experiment {
            self.experiments.extend(experiment(begun, concluded));
            return;
        }
        let times: Vec<CaseTime> =
            concluded.case_results.iter().filter_map(|found| self.learn_case(begun, found)).collect();
        if !times.is_empty() {
            self.note_fastest(&begun.family, &times);
            // Of several devices, one may be done with a later iteration first.
            let place = self.finished.partition_point(|finished| finished.iteration < begun.iteration);
            self.finished.insert(
                place,
                Finished {
                    iteration: begun.iteration,
                    family: begun.family.clone(),
                    params: begun.params.clone(),
                    hash: begun.hash.clone(),
                    rationale: begun.rationale.clone(),
                    code: begun.code,
                    times,
                },
            );
        }
    }

    fn learn_case(&mut self, begun: &Begun, found: &CaseRecord) -> Option<CaseTime> {
        let (timing, ctas) = (found.best_timing()?, found.ctas?);
        let is_best = matches!(found.verdict, Some(Verdict::Start | Verdict::Improved));
        self.count_progress(begun, found, timing.median_ns);
        if is_best {
            let (iteration, hash) = (begun.iteration, begun.hash.clone());
            self.incumbents.insert(found.case.clone(), Incumbent { iteration, hash, timing: timing.clone() });
        }
        if found.verdict == Some(Verdict::Rejected) {
            // The variant failed later, on held-out inputs.
            return None;
        }
        let ns = timing.median_ns;
        if self.fastest.get(&found.case).is_none_or(|(_, fastest_ns)| ns < *fastest_ns) {
            self.fastest.insert(found.case.clone(), (begun.iteration, ns));
        }
        Some(CaseTime {
            case: found.case.clone(),
            median_ns: ns,
            ctas,
            shape: found.shape,
            profile: found.profile.clone(),
            screened_only: !is_best && found.comparison.is_none(),
        })
    }

    /// Counts a try or an improvement on a case. A committed winner that is measured again is neither.
    fn count_progress(&mut self, begun: &Begun, found: &CaseRecord, ns: f64) {
        let progress = self.progress.entry(found.case.clone()).or_default();
        if begun.rationale.purpose == Purpose::Screening {
            progress.count_try();
        }
        let is_found = !matches!(begun.rationale.origin, Origin::CommittedWinner { .. });
        if let Some(before) = self.incumbents.get(&found.case)
            && found.verdict == Some(Verdict::Improved)
            && is_found
        {
            progress.count_gain(before.timing.median_ns / ns);
        }
    }

    /// Returns the hardware counters of a variant on a case, if they were read.
    pub fn counters_of(&self, hash: &VariantHash, case: &str) -> Option<&Counters> {
        let is_of = |counted: &&Counted| {
            counted.case == case && self.iteration(counted.iteration).is_some_and(|finished| finished.hash == *hash)
        };
        self.counters.iter().filter(is_of).find_map(|counted| counted.counters.as_ref().ok())
    }

    /// Returns the ablations of a variant on a case. Empty if there are none.
    pub fn ablations_of(&self, hash: &VariantHash, case: &str) -> &[Ablation] {
        let is_of = |ablated: &&Ablated| {
            ablated.case == case && self.iteration(ablated.iteration).is_some_and(|finished| finished.hash == *hash)
        };
        self.ablations.iter().find(is_of).map_or(&[], |ablated| &ablated.ablations)
    }

    /// Returns the fastest variant timed on a case, confirmed or not, with its time.
    pub fn fastest(&self, case: &str) -> Option<(&Finished, f64)> {
        let (iteration, ns) = *self.fastest.get(case)?;
        Some((self.iteration(iteration)?, ns))
    }

    /// Tells whether a variant takes many times as long as the fastest one on a case, so that nothing learnt of it makes a winner.
    pub fn is_far_behind(&self, variant: &Finished, case: &str) -> bool {
        let times = variant.time_ns(case).zip(self.fastest(case));
        times.is_some_and(|(ns, (_, fastest_ns))| is_far_behind(ns, fastest_ns))
    }

    /// Returns the shortest time of a family on a case, confirmed or not, in nanoseconds.
    pub fn fastest_of_family(&self, family: &str, case: &str) -> Option<f64> {
        self.fastest_of_family.get(family)?.get(case).copied()
    }

    fn note_fastest(&mut self, family: &str, times: &[CaseTime]) {
        let of_family = self.fastest_of_family.entry(family.to_owned()).or_default();
        for time in times {
            let fastest = of_family.entry(time.case.clone()).or_insert(time.median_ns);
            *fastest = fastest.min(time.median_ns);
        }
    }

    /// Returns at most `most` variants timed on a case, the fastest first.
    pub fn leaders(&self, case: &str, most: usize) -> Vec<(&Finished, f64)> {
        let mut leaders: Vec<(&Finished, f64)> = Vec::new();
        for (finished, ns) in self.finished.iter().filter_map(|finished| Some((finished, finished.time_ns(case)?))) {
            let place = leaders.partition_point(|(_, other)| *other <= ns);
            if place < most {
                leaders.insert(place, (finished, ns));
                leaders.truncate(most);
            }
        }
        leaders
    }

    /// Returns at most `most` variants of a family that were timed on a case, the fastest first, each configuration once.
    pub fn leaders_of_family(&self, family: &str, case: &str, most: usize) -> Vec<(&Finished, f64)> {
        let timed = self.finished.iter().filter(|finished| finished.family == family);
        let mut timed: Vec<_> = timed.filter_map(|finished| Some((finished, finished.time_ns(case)?))).collect();
        timed.sort_by(|a, b| a.1.total_cmp(&b.1));
        let mut leaders: Vec<(&Finished, f64)> = Vec::new();
        for one in timed {
            if leaders.len() < most && leaders.iter().all(|(other, _)| other.params != one.0.params) {
                leaders.push(one);
            }
        }
        leaders
    }

    /// Returns every time of a variant with the iteration that took it. Screening run and confirmation are two
    /// iterations.
    pub fn times_of(&self, hash: &VariantHash) -> impl Iterator<Item = (IterationId, &CaseTime)> {
        let of_variant = self.finished.iter().filter(move |finished| finished.hash == *hash);
        of_variant.flat_map(|finished| finished.times.iter().map(|time| (finished.iteration, time)))
    }

    /// Returns the variants that were timed on a case, each once: the trials of the diagnosis.
    pub fn trials(&self, case: &str) -> Vec<Trial<'_>> {
        let mut seen: HashSet<&VariantHash> = HashSet::new();
        let mut trials = Vec::new();
        for one in &self.finished {
            let Some(time) = one.times.iter().find(|time| time.case == *case) else { continue };
            if !seen.insert(&one.hash) {
                continue;
            }
            trials.push(Trial {
                iteration: one.iteration,
                family: &one.family,
                params: &one.params,
                ns: time.median_ns,
                ctas: Some(time.ctas),
                profile: time.profile.as_ref(),
                remedy: match &one.rationale.origin {
                    Origin::Remedy { rule, .. } => {
                        Some(rule.as_str()).zip(one.rationale.hypothesis.reference.iteration())
                    }
                    _ => None,
                },
            });
        }
        trials
    }

    /// Removes all times of a disqualified variant on a case. If it was the incumbent there, the case has none.
    pub fn forget(&mut self, hash: &VariantHash, case: &str) {
        for finished in self.finished.iter_mut().filter(|finished| finished.hash == *hash) {
            finished.times.retain(|time| time.case != case);
        }
        self.fastest_of_family.clear();
        let finished = std::mem::take(&mut self.finished);
        // As if the disqualified times had never been learnt: a family without times has no entry.
        let timed = finished.iter().filter(|finished| !finished.times.is_empty());
        timed.for_each(|finished| self.note_fastest(&finished.family, &finished.times));
        self.finished = finished;
        if self.incumbents.get(case).is_some_and(|incumbent| incumbent.hash == *hash) {
            self.incumbents.remove(case);
        }
        let times = self.finished.iter().filter_map(|finished| Some((finished.iteration, finished.time_ns(case)?)));
        match times.min_by(|(_, a), (_, b)| a.total_cmp(b)) {
            Some(fastest) => drop(self.fastest.insert(case.into(), fastest)),
            None => drop(self.fastest.remove(case)),
        }
    }

    /// Finds a finished iteration by its number. Each proposal looks up many iterations for its prediction, so the
    /// search must be fast. It relies on increasing numbers.
    pub fn iteration(&self, iteration: IterationId) -> Option<&Finished> {
        let place = self.finished.binary_search_by_key(&iteration, |finished| finished.iteration).ok()?;
        self.finished.get(place)
    }
}

/// Returns what a step on a path has shown.
fn path_step(begun: &Begun, concluded: &Concluded) -> Option<PathStep> {
    let is_experiment = begun.rationale.purpose == Purpose::Experiment;
    let Origin::PathStep { path, .. } = Some(&begun.rationale.origin).filter(|_| is_experiment)? else { return None };
    let found = concluded.case_results.first().filter(|_| concluded.outcome == Outcome::Measured);
    let time_ns = found.and_then(CaseRecord::best_timing).map(|timing| timing.median_ns);
    Some(PathStep { path: path.clone(), params: begun.params.clone(), time_ns })
}

/// Returns what an experiment has shown.
fn experiment(begun: &Begun, concluded: &Concluded) -> Option<Experiment> {
    let Origin::ScaledCase(scaling) = &begun.rationale.origin else { return None };
    let found = concluded.case_results.first()?;
    Some(Experiment {
        iteration: begun.iteration,
        scaling: scaling.clone(),
        case: begun.cases.iter().find(|case| case.name == found.case)?.clone(),
        hash: begun.hash.clone(),
        time_ns: found.best_timing()?.median_ns,
        ctas: found.ctas?,
    })
}
