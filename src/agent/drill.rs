//! The proposer of drills: what `local` proposes, with kernels mixed in that are broken on purpose.
//!
//! A session has to survive them: each gets its outcome, and those after it are measured as if nothing had been.

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::diagnosis::Diagnosis;
use super::local::Local;
use super::{Landscape, Proposer};
use crate::domain::family::Family;
use crate::domain::history::History;
use crate::domain::hypothesis::Hypothesis;
use crate::domain::origin::Origin;
use crate::domain::proposal::Idea;
use crate::domain::statistics::Interval;
use crate::domain::workload::Case;

/// The share of broken kernels: more than any proposer worth its name comes up with.
const BROKEN_SHARE: f64 = 0.3;

/// The axis that says what is wrong with a kernel, 0 for nothing.
const FAULT: &str = "FAULT";

/// See the module.
pub struct Drill {
    rng: SmallRng,
    local: Local,
}

impl Drill {
    /// Makes a proposer whose choices follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Self { rng: SmallRng::seed_from_u64(seed), local: Local::new(seed) }
    }

    /// Draws a point of a family that is broken on purpose, searched or not. `Ok(None)` where there is none left.
    fn broken(&mut self, landscape: &Landscape<'_>, history: &History) -> Result<Option<Idea>, String> {
        let fits = |family: &&Family| family.fits(landscape.workload, landscape.device);
        let families: Vec<&Family> = landscape.all.iter().filter(|family| is_broken(family)).filter(fits).collect();
        let (Some(family), Some(case)) =
            (families.choose(&mut self.rng), landscape.workload.cases.choose(&mut self.rng))
        else {
            return Ok(None);
        };
        let is_new = |params: &_| landscape.is_new(family, params, case, history);
        let point = landscape.space(family, case).random_where(&mut self.rng, is_new)?;
        let idea = |params| landscape.idea(family, params, case, claim(family, case), Origin::InjectedFault, None);
        point.map(idea).transpose()
    }
}

impl Proposer for Drill {
    fn name(&self) -> &'static str {
        super::DRILL
    }

    fn propose(
        &mut self,
        landscape: &Landscape<'_>,
        diagnosis: &Diagnosis,
        history: &History,
        under_way: usize,
    ) -> Result<Option<Idea>, String> {
        if self.rng.random_bool(BROKEN_SHARE)
            && let Some(broken) = self.broken(landscape, history)?
        {
            return Ok(Some(broken));
        }
        self.local.propose(landscape, diagnosis, history, under_way)
    }
}

/// Tells whether a family is broken at every point.
fn is_broken(family: &Family) -> bool {
    family.params.get(FAULT).is_some_and(|axis| !axis.values.contains(&0))
}

fn claim(family: &Family, case: &Case) -> Hypothesis {
    Hypothesis {
        claim: format!("{} is broken, and the session goes on", family.name),
        evidence: family.about.clone(),
        case: case.name.clone(),
        predicted: Interval { lo: 1.0, hi: 1.0 },
        relative_to: None,
    }
}
