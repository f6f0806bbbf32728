//! The limit that smaller cases set to the gain on a case. A kernel for the case also computes a case that asks for less. So
//! where the best kernel known for that one takes almost as long, no cause of lost time accounts for much.

use crate::domain::op::DimSpec;
use crate::domain::proposal::finding::{Evidence, EvidenceSource};
use crate::domain::workload::{Case, Workload};

/// The least limit: what a comparison resolves. The times of two cases differ by noise, too.
const RESOLVED: f64 = 1.005;

/// Sizes that are multiples of this need no treatment of a remainder: 16 bytes of FP16.
const ALIGNED: i64 = 8;

/// The case with the longest time among those that ask for no more.
#[derive(Debug, Clone, PartialEq)]
pub struct Bound {
    case: String,
    /// The dimensions of which it asks for less.
    less: Vec<&'static str>,
    /// The best time of the session on it, in nanoseconds.
    ns: f64,
}

impl Bound {
    /// Returns the limit of a case, from the best times of a session in nanoseconds. None if it timed no case that asks
    /// for no more.
    pub fn of<'a>(workload: &Workload, case: &Case, best: impl Iterator<Item = (&'a Case, f64)>) -> Option<Self> {
        let smaller = best.filter(|(other, _)| asks_for_no_more(workload, other, case));
        let (most, ns) = smaller.max_by(|a, b| a.1.total_cmp(&b.1))?;
        let less = workload.op.dims().iter().map(|dim| dim.name);
        let less = less.filter(|name| most.dims[*name] < case.dims[*name]).collect();
        Some(Self { case: most.name.to_string(), less, ns })
    }

    /// Returns the most that a variant with this time can gain.
    pub(super) fn most(&self, time_ns: f64) -> f64 {
        (time_ns / self.ns).max(RESOLVED)
    }

    /// Says why no more can be gained.
    pub(super) fn evidence(&self) -> Evidence {
        let text = format!(
            "{} asks for less ({}) and for no more of anything, and takes {:.3} us with its best known kernel",
            self.case,
            self.less.join(", "),
            self.ns / 1e3
        );
        Evidence { source: EvidenceSource::Times, supports: false, text }
    }
}

/// Tells whether a case asks for less than another one in some dimensions, and for no more in all others. Switches, such as
/// a causal mask, are the same. So is the state of the caches.
fn asks_for_no_more(workload: &Workload, smaller: &Case, case: &Case) -> bool {
    let fits = |dim: &DimSpec| {
        let (Some(own), Some(most)) = (smaller.dims.get(dim.name), case.dims.get(dim.name)) else { return false };
        let is_switch = dim.range.1 <= 1;
        own <= most && (!is_switch || own == most) && (is_aligned(*own) || !is_aligned(*most))
    };
    let work = |case: &Case| workload.op.flop(&case.dims);
    smaller.dims != case.dims
        && smaller.regime == case.regime
        && work(smaller) <= work(case)
        && workload.op.dims().iter().all(fits)
}

/// Tells whether a size needs no treatment of a remainder that an aligned size does without.
fn is_aligned(size: i64) -> bool {
    size % ALIGNED == 0 || (size > 0 && size & (size - 1) == 0)
}
