//! Tensor maps, encoded by the driver.

use std::ffi::c_void;
use std::ptr;

use cudarc::driver::sys;

use super::argument::{Argument, MAP_BYTES};
use super::{Fault, describe};
use crate::domain::family::plan::TensorMap;
use crate::domain::op::Dtype;

/// Describes a tensor at `address` for the copy engine.
pub(super) fn encode(map: &TensorMap, address: sys::CUdeviceptr) -> Result<Argument, Fault> {
    use sys::{CUtensorMapDataType as Type, CUtensorMapSwizzle as Swizzle};
    let dtype = match map.dtype {
        Dtype::F16 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        Dtype::Bf16 => Type::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        Dtype::F32 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        Dtype::F64 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
        Dtype::I32 => Type::CU_TENSOR_MAP_DATA_TYPE_INT32,
        Dtype::U32 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT32,
        Dtype::I64 => Type::CU_TENSOR_MAP_DATA_TYPE_INT64,
        // Copies do not interpret bytes.
        Dtype::E4m3 | Dtype::E5m2 | Dtype::I8 | Dtype::U8 | Dtype::Bool => Type::CU_TENSOR_MAP_DATA_TYPE_UINT8,
    };
    let swizzle = match map.swizzle_bytes {
        32 => Swizzle::CU_TENSOR_MAP_SWIZZLE_32B,
        64 => Swizzle::CU_TENSOR_MAP_SWIZZLE_64B,
        128 => Swizzle::CU_TENSOR_MAP_SWIZZLE_128B,
        0 => Swizzle::CU_TENSOR_MAP_SWIZZLE_NONE,
        other => {
            return Err(Fault::Refused(format!("tensor map `{}`: swizzle {other} is not 0, 32, 64 or 128", map.name)));
        }
    };
    let rank = map.sizes.len();
    if map.stride_bytes.len() + 1 != rank || map.box_sizes.len() != rank {
        return Err(Fault::Refused(format!("tensor map `{}` has lists of different lengths", map.name)));
    }
    let dense = vec![1_u32; rank];
    let mut encoded = Argument([0; MAP_BYTES]);
    // SAFETY: the driver writes the 128 bytes of a map, aligned to 64. It reads `rank` numbers of each list, and one
    // fewer of the strides.
    let status = unsafe {
        sys::cuTensorMapEncodeTiled(
            ptr::from_mut(&mut encoded).cast(),
            dtype,
            rank as u32,
            address as *mut c_void,
            map.sizes.as_ptr().cast(),
            map.stride_bytes.as_ptr().cast(),
            map.box_sizes.as_ptr(),
            dense.as_ptr(),
            sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            swizzle,
            // Fetch 128 bytes into L2: a neighbouring box or block reads the rest.
            sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    };
    status.result().map_err(|error| {
        Fault::Refused(format!("the driver refuses the tensor map `{}`: {}", map.name, describe(&error)))
    })?;
    Ok(encoded)
}
