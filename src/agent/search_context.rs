//! The search context: the cases of a workload, the families that can compute them, and the device.

use std::collections::HashSet;

use super::likely::{Likely, LikelyByFamily};
use crate::domain::claims::hypothesis::Hypothesis;
use crate::domain::device::DeviceInfo;
use crate::domain::family::Family;
use crate::domain::history::{ConfigurationId, History};
use crate::domain::ids::IterationId;
use crate::domain::proposal::origin::{Origin, Purpose};
use crate::domain::proposal::{KnownWinner, Rationale, Suggestion};
use crate::domain::space::Space;
use crate::domain::variant::Params;
use crate::domain::workload::{Case, Workload};
use crate::error::Error;

/// Everything that a proposer may choose from.
#[derive(Clone)]
pub struct SearchContext<'a> {
    /// The workload, with the selected cases.
    pub workload: &'a Workload,
    /// The families to search: those that fit the workload and the device, without those that the user excluded.
    pub families: Vec<&'a Family>,
    /// Every family. The winners of earlier sessions need them: they must be beaten in every search.
    pub all: &'a [Family],
    /// The winners of earlier sessions.
    pub known: &'a [KnownWinner],
    /// The device.
    pub device: &'a DeviceInfo,
    /// What is known about failures, by family. Empty if they do not count.
    likely: LikelyByFamily,
    /// Configurations that were proposed and that the history does not name yet.
    drawn: Option<&'a HashSet<ConfigurationId>>,
}

impl<'a> SearchContext<'a> {
    /// Makes a search context of the families that are `searched` and can compute the workload on the device.
    pub fn new(
        workload: &'a Workload,
        all: &'a [Family],
        searched: &[String],
        known: &'a [KnownWinner],
        device: &'a DeviceInfo,
    ) -> Self {
        let chosen = |family: &&Family| searched.contains(&family.name) && family.fits(workload, device);
        let families = all.iter().filter(chosen).collect();
        Self { workload, families, all, known, device, likely: LikelyByFamily::new(), drawn: None }
    }

    /// Returns the same context, but configurations that are likely to fail are not open.
    pub(super) fn avoiding(&self, likely: LikelyByFamily) -> Self {
        Self { likely, ..self.clone() }
    }

    /// Returns the same context with one family to search.
    pub(super) fn of_family(&self, family: &'a Family) -> Self {
        Self { families: vec![family], ..self.clone() }
    }

    /// Returns the same context, in which these configurations were proposed, too.
    pub fn with_drawn(self, drawn: &'a HashSet<ConfigurationId>) -> Self {
        Self { drawn: Some(drawn), ..self }
    }

    /// Returns whether some configurations are not open because they are likely to fail.
    pub(super) fn avoids_failures(&self) -> bool {
        !self.likely.is_empty()
    }

    /// Returns what is known about the failures of a family.
    pub(super) fn likely(&self, family: &Family) -> Option<&Likely> {
        self.likely.get(&family.name).map(AsRef::as_ref)
    }

    /// Returns the search space of a family on a case.
    pub fn space(&self, family: &'a Family, case: &'a Case) -> Space<'a> {
        Space { family, case, dtype: self.workload.dtype, device: self.device }
    }

    /// Finds a family by name, searched or not, that can compute the workload.
    pub fn family(&self, name: &str) -> Option<&'a Family> {
        self.all.iter().find(|family| family.name == name && family.fits(self.workload, self.device))
    }

    /// Returns the family of the initial kernel, if the workload names one that can compute it.
    pub fn initial_family(&self) -> Option<&'a Family> {
        self.family(self.workload.initial_kernel.as_deref()?)
    }

    /// Returns the cases that share one source of the family with `case` and on which the configuration is valid.
    pub fn served(&self, family: &'a Family, params: &Params, case: &Case) -> Result<Vec<Case>, Error> {
        let specialization = family.specialization(case);
        let mut served = Vec::new();
        for other in &self.workload.cases {
            if family.specialization(other) == specialization && self.space(family, other).contains(params)? {
                served.push(other.clone());
            }
        }
        Ok(served)
    }

    /// Returns whether a configuration has not been proposed before.
    pub fn is_new(&self, family: &Family, params: &Params, case: &Case, history: &History) -> bool {
        !self.is_proposed(&ConfigurationId::new(&family.name, &family.specialization(case), params), history)
    }

    /// Returns whether a configuration has been proposed before.
    pub(super) fn is_proposed(&self, configuration: &ConfigurationId, history: &History) -> bool {
        history.proposed.contains(configuration) || self.drawn.is_some_and(|drawn| drawn.contains(configuration))
    }

    /// Returns whether a configuration may be suggested: it has not been proposed before, and is not likely to fail.
    pub fn is_open(&self, family: &Family, params: &Params, case: &Case, history: &History) -> bool {
        self.is_new(family, params, case, history)
            && self.likely(family).is_none_or(|likely| likely.allows(family, params, case))
    }

    /// Makes a suggestion from a configuration.
    pub fn suggestion(
        &self,
        family: &'a Family,
        params: Params,
        case: &Case,
        hypothesis: Hypothesis,
        origin: Origin,
        parent: Option<IterationId>,
    ) -> Result<Suggestion, Error> {
        let (family, cases) = (family.name.clone(), self.served(family, &params, case)?);
        let rationale = Rationale { hypothesis, parent, purpose: Purpose::Screening, origin };
        Ok(Suggestion { family, params, cases, rationale })
    }
}
