//! The state of the caches in which a time is taken.

use serde::{Deserialize, Serialize};

use crate::domain::device::DeviceInfo;
use crate::error::{Error, error};

/// Whether a plan finds its data in L2. Times of the two regimes are never compared. Eager or cold timing of a small
/// shape says more about memory, warm graph replay more about the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Regime {
    /// Every launch uses the same buffers, so L2 holds what fits.
    #[default]
    Warm,
    /// Sets of buffers rotate. Together they are over [`COLD_L2_SIZES`] times as large as L2, so L2 holds none of a
    /// set.
    Cold,
}

/// Total size of the rotated buffer sets over the size of L2. With three, no cache whose replacement policy prefers
/// recent lines keeps any of a set. That leaves room to spare for parts that are pinned or hashed unevenly.
pub const COLD_L2_SIZES: u64 = 3;

/// The most buffer sets. One replay goes over all of them. With more, a single replay would have more launches than ten
/// samples of the shortest kernel.
const MAX_SETS: u64 = 4096;

/// The share of device memory that the sets may take. The other participants of a comparison need memory, too.
const MEMORY_SHARE: f64 = 0.5;

/// Returns how many buffer sets a case needs on a device to be timed cold. The error says in one sentence why cold
/// timing is impossible.
///
/// `working_set_bytes` covers the case's tensors alone: a variant must not get fewer sets by asking for large
/// workspaces that it never uses. Between two executions on one set, the others alone are over [`COLD_L2_SIZES`] times
/// as large as L2.
pub fn sets(working_set_bytes: u64, device: &DeviceInfo) -> Result<u32, Error> {
    let bytes = working_set_bytes.max(1);
    let others = COLD_L2_SIZES * device.l2_bytes / bytes + 1;
    let sets = others + 1;
    if sets > MAX_SETS {
        return Err(error!(
            "a working set of {bytes} bytes cannot be timed cold: this needs {sets} sets of buffers for an L2 of {} \
             bytes, and the limit is {MAX_SETS}; give the case `regime = \"warm\"`",
            device.l2_bytes
        ));
    }
    if (sets * bytes) as f64 > MEMORY_SHARE * device.memory_bytes as f64 {
        return Err(error!(
            "a working set of {bytes} bytes cannot be timed cold: {sets} sets of buffers take more than half of the \
             device's {} bytes; give the case `regime = \"warm\"`",
            device.memory_bytes
        ));
    }
    Ok(sets as u32)
}

impl Regime {
    /// Returns the word that the store and the reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Warm => "warm",
            Self::Cold => "cold",
        }
    }

    /// Returns the regime in which a device times a case of this regime. Virtual GPUs model warm caches only.
    pub fn on(self, device: &DeviceInfo) -> Self {
        if device.replays() { self } else { Self::Warm }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(l2_bytes: u64) -> DeviceInfo {
        DeviceInfo { l2_bytes, memory_bytes: 1 << 30, ..DeviceInfo::of_arch("sm_90a").unwrap() }
    }

    #[test]
    fn the_other_sets_are_over_three_times_l2() {
        for bytes in [1 << 14, 99_999, 1 << 20, 3 << 20, 4 << 20, 1 << 28] {
            let sets = u64::from(sets(bytes, &device(1 << 20)).unwrap());
            assert!((sets - 1) * bytes > COLD_L2_SIZES << 20, "{sets} sets of {bytes}");
            assert!(sets == 2 || (sets - 2) * bytes <= COLD_L2_SIZES << 20, "{sets} sets of {bytes} are too many");
        }
    }

    #[test]
    fn a_case_that_is_too_small_or_too_large_says_so() {
        insta::assert_snapshot!(sets(512, &device(1 << 20)).unwrap_err(), @r#"a working set of 512 bytes cannot be timed cold: this needs 6146 sets of buffers for an L2 of 1048576 bytes, and the limit is 4096; give the case `regime = "warm"`"#);
        insta::assert_snapshot!(sets((1 << 28) + 1, &device(1 << 20)).unwrap_err(), @r#"a working set of 268435457 bytes cannot be timed cold: 2 sets of buffers take more than half of the device's 1073741824 bytes; give the case `regime = "warm"`"#);
    }
}
