//! What a launch plan tells of the parameters of its kernels.

use std::collections::HashMap;

use crate::domain::family::plan::{Arg, LaunchPlan};

/// The parameters of all kernels of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parameters {
    /// Whether each stands for one buffer in all launches, and no other one for the same.
    pub are_apart: bool,
    /// The bytes that a copy by each tensor map has, by the name of the parameter in PTX. None if launches differ.
    box_bytes: HashMap<String, Option<u32>>,
}

impl Parameters {
    /// Reads the arguments of all launches.
    pub fn of(plan: &LaunchPlan) -> Self {
        let mut box_bytes: HashMap<String, Option<u32>> = HashMap::new();
        let args = plan.launches.iter().flat_map(|launch| launch.args.iter().enumerate().map(move |arg| (launch, arg)));
        for (launch, (place, arg)) in args {
            let Arg::TensorMap(map) = arg else { continue };
            let element_bytes = map.dtype.bytes() as u32;
            let bytes = map.box_sizes.iter().try_fold(element_bytes, |bytes, size| bytes.checked_mul(*size));
            // NVRTC numbers the parameters of a kernel.
            let known = box_bytes.entry(format!("{}_param_{place}", launch.kernel)).or_insert(bytes);
            *known = known.filter(|known| Some(*known) == bytes);
        }
        Self { are_apart: plan.tells_buffers_apart(), box_bytes }
    }

    /// Makes those of kernels without tensor maps, whose buffers are apart.
    #[cfg(test)]
    pub(super) fn apart() -> Self {
        Self { are_apart: true, ..Self::default() }
    }

    /// Returns the bytes that a copy by a tensor map has. None if it is not known.
    pub(super) fn box_bytes(&self, parameter: &str) -> Option<u32> {
        self.box_bytes.get(parameter).copied().flatten()
    }
}
