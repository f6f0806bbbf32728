//! Which cases of a workload a family takes, and which constraints exclude the others.

use indexmap::IndexMap;

use crate::domain::device::DeviceInfo;
use crate::domain::family::Family;
use crate::domain::ids::CaseName;
use crate::domain::space::Space;
use crate::domain::variant::Params;
use crate::domain::workload::{Case, Workload};
use crate::error::Error;

/// Why a family does not take a case: the reasons of the constraints that exclude it.
pub type Reasons = Vec<String>;

/// What a family can do for a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fit<'a> {
    /// Each case, with the configuration from which a search starts, or why there is none.
    pub cases: Vec<(&'a Case, Result<Params, Reasons>)>,
}

impl<'a> Fit<'a> {
    /// Examines a family of the workload's op on every case. The error says what is wrong with the manifest.
    pub fn of(family: &Family, workload: &'a Workload, device: &DeviceInfo) -> Result<Self, Error> {
        let fit = |case: &'a Case| {
            let space = Space { family, case, dtype: workload.dtype, device };
            let start = if family.fits(workload, device) { space.start()? } else { None };
            let start = match start {
                Some(params) => Ok(params),
                None => match family.excluded_by_compute(workload) {
                    Some(reason) => Err(vec![reason]),
                    None => Err(space.excluded()?.unwrap_or_default()),
                },
            };
            Ok((case, start))
        };
        workload.cases.iter().map(fit).collect::<Result<_, _>>().map(|cases| Self { cases })
    }

    /// Takes one configuration on every case, if the family computes the workload at all. A constraint may exclude it there.
    pub fn of_configuration(
        family: &Family,
        params: &Params,
        workload: &'a Workload,
        device: &DeviceInfo,
    ) -> Result<Self, Error> {
        if !family.fits(workload, device) {
            return Self::of(family, workload, device);
        }
        Ok(Self { cases: workload.cases.iter().map(|case| (case, Ok(params.clone()))).collect() })
    }

    /// Returns the cases that the family takes, each with the configuration from which a search starts.
    pub fn taken(&self) -> impl Iterator<Item = (&'a Case, &Params)> {
        self.cases.iter().filter_map(|(case, start)| Some((*case, start.as_ref().ok()?)))
    }

    /// Returns the cases that it does not take, by reason.
    pub fn excluded(&self) -> IndexMap<&Reasons, Vec<&'a CaseName>> {
        let mut excluded: IndexMap<&Reasons, Vec<&CaseName>> = IndexMap::new();
        for (case, start) in &self.cases {
            if let Err(reasons) = start {
                excluded.entry(reasons).or_default().push(&case.name);
            }
        }
        excluded
    }

    /// Returns a sentence for each reason, without a full stop.
    pub fn sentences(&self, family: &Family) -> Vec<String> {
        let excluded = self.excluded().into_iter().map(|(reasons, cases)| {
            let all = cases.len() == self.cases.len();
            let cases: Vec<&str> = cases.into_iter().map(CaseName::as_str).collect();
            let on = if all { "any case".to_owned() } else { cases.join(", ") };
            let why = reasons.join(" ");
            format!("`{}` has no valid configuration on {on}: {}", family.name, why.trim_end_matches('.'))
        });
        excluded.collect()
    }
}
