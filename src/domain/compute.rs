//! The compute mode of a workload: the precision in which kernels may multiply.

use serde::{Deserialize, Serialize};

use super::op::Dtype;
use crate::error::{Error, error};

/// FP32 products on the FMA pipes over FP16 products on tensor cores.
const FMA_SHARE: f64 = 1.0 / 16.0;

/// The precision of products. Sums are in FP32 or better in each mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compute {
    /// That of the dtype.
    #[default]
    Dtype,
    /// TF32: factors in FP32 keep 10 bits after the point, and all exponents. Tensor cores multiply them at half of the
    /// FP16 rate.
    Tf32,
}

impl Compute {
    /// Returns the name that workloads, manifests and records use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dtype => "dtype",
            Self::Tf32 => "tf32",
        }
    }

    /// Returns whether it is the precision of the dtype, which records leave out.
    pub fn is_dtype(&self) -> bool {
        *self == Self::Dtype
    }

    /// Checks that tensors of a dtype can be multiplied in this mode.
    pub fn check(self, dtype: Dtype) -> Result<(), Error> {
        match (self, dtype) {
            (Self::Dtype, _) | (Self::Tf32, Dtype::F32) => Ok(()),
            (Self::Tf32, _) => Err(error!(
                "compute = \"tf32\" is a way to multiply f32, not {}: remove it, or use dtype = \"f32\"",
                dtype.name()
            )),
        }
    }

    /// Returns the products that the FMA pipes do over those that tensor cores do in the same time: 256 of 4096 FLOP per clock
    /// and SM for FP16 on sm_90 (Hopper's whitepaper), and twice that for TF32, of which tensor cores do half as many. It is an
    /// eighth or more on no supported GPU. None for precisions that tensor cores do not have.
    pub fn fma_share(self, dtype: Dtype) -> Option<f64> {
        match (dtype, self) {
            (Dtype::F32, Self::Dtype) => None,
            (_, Self::Dtype) => Some(FMA_SHARE),
            (_, Self::Tf32) => Some(2.0 * FMA_SHARE),
        }
    }

    /// Returns a dtype's name with the mode, such as `f32 (tf32)`, for readers.
    pub fn of(self, dtype: Dtype) -> String {
        match self {
            Self::Dtype => dtype.name().to_owned(),
            Self::Tf32 => format!("{} ({})", dtype.name(), self.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tf32_is_a_way_to_multiply_f32_only() {
        for dtype in Dtype::ALL {
            assert_eq!(Compute::Tf32.check(dtype).is_ok(), dtype == Dtype::F32, "{}", dtype.name());
            assert_eq!(Compute::Dtype.check(dtype), Ok(()));
        }
        insta::assert_snapshot!(Compute::Tf32.check(Dtype::F16).unwrap_err(), @r#"compute = "tf32" is a way to multiply f32, not f16: remove it, or use dtype = "f32""#);
    }

    #[test]
    fn records_have_the_names_that_readers_see() {
        for mode in [Compute::Dtype, Compute::Tf32] {
            assert_eq!(serde_json::to_value(mode).unwrap(), mode.name());
        }
        assert_eq!(Compute::Tf32.of(Dtype::F32), "f32 (tf32)");
        assert_eq!(Compute::Dtype.of(Dtype::F32), "f32");
    }
}
