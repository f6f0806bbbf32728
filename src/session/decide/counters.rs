//! Which variants get their hardware counters read, when, and how much of the budget that may take. It is pure.

use std::time::Duration;

use crate::domain::ids::{CaseName, IterationId};
use crate::domain::measurement::evaluation::Measurement;
use crate::domain::measurement::floor::floor_ns;
use crate::domain::statistics::timing::Timing;
use crate::session::meter::Time;
use crate::session::state::SessionState;

/// The estimated time of one profile, until profiles have shown it. That of the initial kernel of b8h16s512, 9.3 ms a
/// launch, took 3.7 s (H200, 2026-11-22, `optloop start`), of which `ncu` takes 1.7 s to start and end.
const PROFILE_TIME: Duration = Duration::from_secs(4);

/// The most profiles of a session: of the initial kernel, and of the incumbents that are furthest from their floors.
const MAX_PROFILES: usize = 4;

/// The most profiles of variants that incumbents have beaten.
const MAX_BEATEN: usize = 3;

/// The estimated time of profiling baselines, all in one process. Five calls took 10.3 s, and one 9.7 s, of which Python took
/// 5.4 s without ncu (H100, 2026-11-28, `ncu python3 torch_sdpa.py`). To print the instructions of three took 1.6 s more (H200).
const BASELINES_TIME: Duration = Duration::from_secs(12);

/// A variant to look into, on a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::session) struct OnCase {
    /// The iteration that measured it.
    pub iteration: IterationId,
    /// The case.
    pub case: CaseName,
}

impl SessionState {
    /// Returns the time that is kept for the profiles of incumbents, of what they have beaten and of baselines, and for one more:
    /// the last iteration of the search may end late.
    pub fn profiles_time(&self) -> Duration {
        let cases = self.setup().workload.cases.len();
        let open = MAX_PROFILES.saturating_sub(self.profiles()).min(cases) + MAX_BEATEN.min(cases);
        let own = self.profile_time().saturating_mul(open as u32 + 1);
        let wanted = if self.may_profile_baselines() { own + BASELINES_TIME } else { own };
        if self.may_profile() { wanted.min(self.profiles_share()) } else { Duration::ZERO }
    }

    /// Returns the time that is kept for what comes after the search: profiles, ablations and finals.
    pub fn closing_time(&self) -> Duration {
        self.finals_time() + self.profiles_time() + self.ablations_time()
    }

    /// Returns the profile of the initial kernel that is due: on the case where it is the slowest, unless others
    /// are far faster by now.
    pub fn initial_profile(&self, time: &Time) -> Option<OnCase> {
        if self.profiles() > 0 {
            return None;
        }
        let measured = self.cases().filter_map(|(name, case)| Some((name, case.initial_kernel.as_ref()?)));
        let timed = measured.filter_map(|(name, initial)| Some((name, initial, initial.screened_ns()?)));
        let timed = timed.filter(|(name, _, ns)| self.is_near_the_best(name, *ns));
        let (case, initial, _) = timed.max_by(|(_, _, a), (_, _, b)| a.total_cmp(b))?;
        let due = OnCase { iteration: initial.iteration, case: case.clone() };
        self.has_room_for_profile(time, self.finals_time()).then_some(due)
    }

    /// Returns the next profile of an incumbent that is due once all finals are held: that of the one furthest from the floor of
    /// its case.
    pub fn incumbent_profile(&self, time: &Time) -> Option<OnCase> {
        let setup = self.setup();
        let headroom = |name: &CaseName, found: &Measurement| {
            let case = setup.workload.case(name).ok()?;
            Some(found.best_timing()?.median_ns / floor_ns(&setup.workload, case, &setup.device))
        };
        let incumbents = self.cases().filter_map(|(name, _)| Some((name, self.incumbent(name)?)));
        let open = incumbents.filter(|(name, incumbent)| {
            let counted = |hash| self.history().counters_of(hash, name).is_some();
            let is_near = |timing: &Timing| self.is_near_the_best(name, timing.median_ns);
            !counted(&incumbent.hash) && incumbent.measurement.best_timing().is_some_and(is_near)
        });
        let ranked = open
            .filter_map(|(name, incumbent)| Some((name, incumbent.iteration, headroom(name, &incumbent.measurement)?)));
        let (case, iteration, _) = ranked.max_by(|(_, _, a), (_, _, b)| a.total_cmp(b))?;
        let due = OnCase { iteration, case: case.clone() };
        self.has_room_for_profile(time, Duration::ZERO).then_some(due)
    }

    /// Returns the next profile of what an incumbent with counters has beaten: the committed winner of its case or the best
    /// variant of another family, the largest lead first.
    pub fn beaten_profile(&self, time: &Time) -> Option<OnCase> {
        let profiles = self.profiles();
        let is_possible = self.may_count() && profiles > 0 && profiles < MAX_PROFILES + MAX_BEATEN;
        if !is_possible || !self.has_room(self.profile_time(), time, Duration::ZERO) {
            return None;
        }
        let counted = |iteration: IterationId, case: &CaseName| {
            let hash = self.history().iteration(iteration).map(|finished| &finished.hash);
            hash.is_some_and(|hash| self.history().counters_of(hash, case).is_some())
        };
        let winner_is_counted =
            |case: &CaseName| self.incumbent(case).is_some_and(|incumbent| counted(incumbent.iteration, case));
        let mut beaten = self.slower_by_lead();
        beaten.find(|one| winner_is_counted(&one.case) && !counted(one.iteration, &one.case))
    }

    /// Returns the cases on which the fastest baseline is due to be profiled: those with counters of their incumbents, and
    /// with caches in the same state as the first of them. They are profiled at once.
    pub fn baselines_profile(&self, time: &Time) -> Vec<CaseName> {
        if !self.may_profile_baselines() || !self.has_room(BASELINES_TIME, time, Duration::ZERO) {
            return Vec::new();
        }
        let setup = self.setup();
        let regime = |name: &CaseName| Some(setup.workload.case(name).ok()?.regime.on(&setup.device));
        let is_due = |name: &CaseName| {
            let incumbent = self.incumbent(name);
            incumbent.is_some_and(|incumbent| self.history().counters_of(&incumbent.hash, name).is_some())
        };
        let has_program = self.cases().filter(|(_, case)| case.backend().is_some());
        let mut due: Vec<CaseName> = has_program.map(|(name, _)| name.clone()).filter(is_due).collect();
        let first = due.first().and_then(regime);
        due.retain(|name| regime(name) == first);
        due
    }

    /// Returns whether baselines may be profiled: once in a session.
    fn may_profile_baselines(&self) -> bool {
        self.may_count() && self.setup().counts_baselines && self.history().baseline_counters.is_empty()
    }

    /// Returns whether a profile fits into its share of the budget, and into what is left beside a time that is kept.
    fn has_room_for_profile(&self, time: &Time, kept: Duration) -> bool {
        self.may_profile() && self.has_room(self.profile_time(), time, kept)
    }

    fn has_room(&self, takes: Duration, time: &Time, kept: Duration) -> bool {
        let budget = &self.setup().options.budget;
        let left = self.meter().left(budget, time, kept);
        let affords = self.meter().affords(budget, time, takes + self.finals_device_time());
        affords && takes <= left && takes <= self.profiles_share()
    }

    /// Returns whether more profiles may be asked for.
    fn may_profile(&self) -> bool {
        self.may_count() && self.profiles() < MAX_PROFILES
    }

    /// Returns whether the session reads counters. One failure is enough: it is the tool's, since the variant has passed its
    /// checks.
    fn may_count(&self) -> bool {
        let has_failed = self.history().counters.iter().any(|counted| counted.counters.is_err());
        self.setup().options.counters_share > 0.0 && self.setup().samples_times() && !has_failed
    }

    /// Returns the number of profiles so far.
    fn profiles(&self) -> usize {
        self.history().counters.len()
    }

    /// Returns what is left of the profiles' share of the budget.
    fn profiles_share(&self) -> Duration {
        let share = self.setup().options.budget.wall.mul_f64(self.setup().options.counters_share);
        share.saturating_sub(self.profiled() + self.baselines_profiled())
    }

    /// Returns the time of all profiles of variants so far.
    fn profiled(&self) -> Duration {
        let walls = self.history().counters.iter().map(|counted| counted.wall_s);
        Duration::try_from_secs_f64(walls.sum()).unwrap_or_default()
    }

    /// Returns the time of the profiles of baselines.
    fn baselines_profiled(&self) -> Duration {
        let walls = self.history().baseline_counters.iter().map(|counted| counted.wall_s);
        Duration::try_from_secs_f64(walls.sum()).unwrap_or_default()
    }

    /// Returns the estimated time of a profile.
    fn profile_time(&self) -> Duration {
        match u32::try_from(self.profiles()) {
            Ok(profiles @ 1..) => self.profiled() / profiles,
            _ => PROFILE_TIME,
        }
    }
}
