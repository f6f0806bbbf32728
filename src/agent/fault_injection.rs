//! The proposer of fault injection: suggestions of `local`, mixed with kernels that are broken on purpose.
//!
//! A session must survive them. Each gets an outcome, and later kernels are measured as usual.

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::diagnosis::Diagnosis;
use super::local::Local;
use super::{Proposer, SearchContext};
use crate::domain::claims::hypothesis::{Hypothesis, Reference};
use crate::domain::family::Family;
use crate::domain::history::History;
use crate::domain::proposal::Suggestion;
use crate::domain::proposal::origin::Origin;
use crate::domain::workload::Case;
use crate::error::Error;

/// The share of broken kernels. It is larger than any useful proposer's.
const BROKEN_SHARE: f64 = 0.3;

/// The parameter that selects a kernel's fault; 0 for none.
const FAULT: &str = "FAULT";

/// The proposer of fault injection; see the module.
pub struct FaultInjection {
    rng: SmallRng,
    local: Local,
}

impl FaultInjection {
    /// Makes a proposer whose random choices are determined by `seed`.
    pub fn new(seed: u64) -> Self {
        Self { rng: SmallRng::seed_from_u64(seed), local: Local::new("local", seed) }
    }

    /// Draws a configuration of a family that is broken on purpose, searched or not. Returns `Ok(None)` if none is
    /// left.
    fn broken(&mut self, context: &SearchContext<'_>, history: &History) -> Result<Option<Suggestion>, Error> {
        let fits = |family: &&Family| family.fits(context.workload, context.device);
        let families: Vec<&Family> = context.all.iter().filter(|family| is_broken(family)).filter(fits).collect();
        let (Some(family), Some(case)) = (families.choose(&mut self.rng), context.workload.cases.choose(&mut self.rng))
        else {
            return Ok(None);
        };
        let is_new = |params: &_| context.is_new(family, params, case, history);
        let configuration = context.space(family, case).random_where(&mut self.rng, is_new)?;
        let suggestion =
            |params| context.suggestion(family, params, case, claim(family, case), Origin::InjectedFault, None);
        configuration.map(suggestion).transpose()
    }
}

impl Proposer for FaultInjection {
    fn name(&self) -> &'static str {
        super::FAULT_INJECTION
    }

    fn propose(
        &mut self,
        context: &SearchContext<'_>,
        diagnosis: &Diagnosis,
        history: &History,
        under_way: usize,
    ) -> Result<Option<Suggestion>, Error> {
        if self.rng.random_bool(BROKEN_SHARE)
            && let Some(broken) = self.broken(context, history)?
        {
            return Ok(Some(broken));
        }
        self.local.propose(context, diagnosis, history, under_way)
    }
}

/// Returns whether every configuration of a family is broken.
fn is_broken(family: &Family) -> bool {
    family.params.get(FAULT).is_some_and(|parameter| !parameter.values.contains(&0))
}

fn claim(family: &Family, case: &Case) -> Hypothesis {
    let claim = format!("{} is broken, and the session continues", family.name);
    Hypothesis::without_claim(claim, family.about.clone(), case.name.clone(), Reference::Incumbent)
}
