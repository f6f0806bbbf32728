//! Launches: enqueues a plan's kernels with their arguments and attributes.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::ptr;

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{self, CUfunction_attribute as FunctionAttribute};

use super::argument::{Argument, MAP_BYTES, NUMBER_BYTES};
use super::tensor_map::encode;
use super::{CudaDevice, Fault, Module, Work, describe, fault};
use crate::domain::family::plan::{Arg, Launch, ScalarValue};
use crate::error::{Result, error};

/// The largest cluster, in blocks, that runs on every GPU with clusters. A larger one needs an attribute of the
/// function (CUDA C++ Programming Guide, "Thread Block Clusters").
const PORTABLE_CLUSTER_BLOCKS: u32 = 8;

/// A loaded artifact and the kernels looked up in it so far.
pub(super) struct Loaded {
    pub(super) module: sys::CUmodule,
    pub(super) functions: HashMap<String, Function>,
}

/// A kernel and, if the driver reports them, the sizes of its parameters in bytes.
pub(super) struct Function {
    handle: sys::CUfunction,
    param_bytes: Option<Vec<usize>>,
}

impl CudaDevice {
    /// Finds a kernel that takes the launch's arguments. Allows it the dynamic shared memory and the cluster size of
    /// the launch.
    fn function(&mut self, module: Module, launch: &Launch) -> Result<sys::CUfunction, Fault> {
        let loaded = self.modules.get_mut(&module.0).ok_or_else(|| Fault::Broken("no such module".to_owned()))?;
        let function = match loaded.functions.get(&launch.kernel) {
            Some(function) => function,
            None => {
                let name = CString::new(launch.kernel.as_str())
                    .map_err(|_| Fault::Refused("a kernel's name has a NUL byte".to_owned()))?;
                // SAFETY: the module is loaded.
                let handle = unsafe { result::module::get_function(loaded.module, name) }.map_err(|error| {
                    Fault::Refused(format!("there is no kernel `{}`: {}", launch.kernel, describe(&error)))
                })?;
                let function = Function { handle, param_bytes: param_bytes(handle)? };
                loaded.functions.entry(launch.kernel.clone()).or_insert(function)
            }
        };
        if let Some(param_bytes) = &function.param_bytes {
            check_arguments(launch, param_bytes).map_err(|refusal| Fault::Refused(refusal.into()))?;
        }
        let function = function.handle;
        let wanted = i32::try_from(launch.shared_bytes)
            .map_err(|_| Fault::Refused(format!("{} bytes of shared memory", launch.shared_bytes)))?;
        let attribute = FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function belongs to the loaded module.
        unsafe { result::function::set_function_attribute(function, attribute, wanted) }.map_err(|error| {
            Fault::Refused(format!("{wanted} bytes of dynamic shared memory are refused: {}", describe(&error)))
        })?;
        let blocks: u32 = launch.cluster.unwrap_or([1; 3]).iter().product();
        if blocks > PORTABLE_CLUSTER_BLOCKS {
            let attribute = FunctionAttribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED;
            // SAFETY: the function belongs to the loaded module.
            unsafe { result::function::set_function_attribute(function, attribute, 1) }.map_err(|error| {
                Fault::Refused(format!("clusters of {blocks} blocks are refused: {}", describe(&error)))
            })?;
        }
        Ok(function)
    }

    /// Enqueues the plan's launches without waiting for them.
    pub(super) fn enqueue(&mut self, work: &Work<'_>) -> Result<(), Fault> {
        for launch in &work.plan.launches {
            let function = self.function(work.module, launch)?;
            let mut arguments = self.arguments(launch, work)?;
            let mut pointers: Vec<*mut c_void> =
                arguments.iter_mut().map(|argument| ptr::from_mut(argument).cast()).collect();
            let mut attributes = attributes(launch);
            let config = sys::CUlaunchConfig {
                gridDimX: launch.grid[0],
                gridDimY: launch.grid[1],
                gridDimZ: launch.grid[2],
                blockDimX: launch.block[0],
                blockDimY: launch.block[1],
                blockDimZ: launch.block[2],
                sharedMemBytes: launch.shared_bytes,
                hStream: self.stream,
                attrs: attributes.as_mut_ptr(),
                numAttrs: attributes.len() as u32,
            };
            // SAFETY: function and stream are alive. The driver copies the arguments before the call returns, and each
            // points to 128 readable bytes. `check_arguments` has checked that there is one for each parameter and that
            // no parameter is larger. A driver before CUDA 12.4 does not report parameters, so that check is missing
            // there. With too few arguments, such a driver reads beyond the list. The author of plan and kernel answers
            // for that, as for all that the kernel does with its arguments. Plan and kernel run in a process of their
            // own.
            let status =
                unsafe { sys::cuLaunchKernelEx(&config, function, pointers.as_mut_ptr(), ptr::null_mut()) }.result();
            status.map_err(|error| launch_fault(launch, &error))?;
        }
        Ok(())
    }

    fn arguments(&self, launch: &Launch, work: &Work<'_>) -> Result<Vec<Argument>, Fault> {
        let address = |name: &String| {
            let buffer = work.buffers.get(name).copied();
            let buffer = buffer.ok_or_else(|| Fault::Refused(format!("the plan has no buffer `{name}`")))?;
            Ok(self.place(buffer)?.address)
        };
        let value = |arg: &Arg| match arg {
            Arg::Tensor(name) | Arg::Workspace(name) => Ok(Argument::of(address(name)?)),
            // The driver reads from the front, so this needs a little-endian machine.
            Arg::Scalar(scalar) => Ok(Argument::of(match scalar.value {
                ScalarValue::I32(value) => i64::from(value).cast_unsigned(),
                ScalarValue::F32(value) => u64::from(value.to_bits()),
                ScalarValue::I64(value) => value.cast_unsigned(),
                ScalarValue::F64(value) => value.to_bits(),
            })),
            Arg::TensorMap(map) => encode(map, address(&map.tensor)?),
        };
        launch.args.iter().map(value).collect()
    }
}

/// Returns the sizes of a kernel's parameters in bytes; `None` if the driver cannot report them (before CUDA 12.4).
fn param_bytes(function: sys::CUfunction) -> Result<Option<Vec<usize>>, Fault> {
    // SAFETY: this only looks up the name; the function is never called.
    let is_known = unsafe { sys::culib().get::<unsafe extern "C" fn()>(b"cuFuncGetParamInfo\0").is_ok() };
    if !is_known {
        return Ok(None);
    }
    let mut all = Vec::new();
    loop {
        let (mut offset, mut bytes) = (0, 0);
        // SAFETY: the function belongs to a loaded module; the driver writes two numbers.
        let status = unsafe { sys::cuFuncGetParamInfo(function, all.len(), &raw mut offset, &raw mut bytes) };
        match status.result() {
            Ok(()) => all.push(bytes),
            // The driver reports the end of the list with this error.
            Err(DriverError(sys::cudaError_enum::CUDA_ERROR_INVALID_VALUE)) => return Ok(Some(all)),
            Err(error) => return Err(fault(&error)),
        }
    }
}

/// Checks that a launch has one argument of the right size for each parameter. Errors are worded as the virtual GPU
/// words them.
fn check_arguments(launch: &Launch, param_bytes: &[usize]) -> Result<()> {
    let (kernel, given, wanted) = (&launch.kernel, launch.args.len(), param_bytes.len());
    if given != wanted {
        return Err(error!("`{kernel}` takes {wanted} arguments, not {given}"));
    }
    for (place, (arg, size)) in launch.args.iter().zip(param_bytes).enumerate() {
        let is_map = matches!(arg, Arg::TensorMap(_));
        let bytes = if is_map { MAP_BYTES } else { NUMBER_BYTES };
        if bytes < *size || (is_map && bytes != *size) {
            // The compiler names parameters like this.
            return Err(error!("parameter `{kernel}_param_{place}` of `{kernel}` has {size} bytes, not {bytes}"));
        }
    }
    Ok(())
}

/// Returns a launch's attributes other than grid, block and shared memory.
fn attributes(launch: &Launch) -> Vec<sys::CUlaunchAttribute> {
    let mut all = Vec::new();
    if let Some([x, y, z]) = launch.cluster {
        let mut attribute = empty_attribute(sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
        attribute.value.clusterDim.x = x;
        attribute.value.clusterDim.y = y;
        attribute.value.clusterDim.z = z;
        all.push(attribute);
    }
    if launch.programmatic {
        let id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        let mut attribute = empty_attribute(id);
        attribute.value.programmaticStreamSerializationAllowed = 1;
        all.push(attribute);
    }
    all
}

fn empty_attribute(id: sys::CUlaunchAttributeID) -> sys::CUlaunchAttribute {
    // SAFETY: an all-zero attribute is valid; the caller sets the member of the union that `id` selects.
    let mut attribute: sys::CUlaunchAttribute = unsafe { std::mem::zeroed() };
    attribute.id = id;
    attribute
}

/// Classifies an error of the launch call itself. A bad configuration leaves the context alive.
fn launch_fault(launch: &Launch, error: &DriverError) -> Fault {
    use sys::cudaError_enum as Code;
    match error.0 {
        Code::CUDA_ERROR_INVALID_VALUE
        | Code::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
        | Code::CUDA_ERROR_INVALID_CLUSTER_SIZE
        | Code::CUDA_ERROR_INVALID_IMAGE
        | Code::CUDA_ERROR_NO_BINARY_FOR_GPU => {
            Fault::Refused(format!("cannot launch `{}`: {}", launch.kernel, describe(error)))
        }
        _ => fault(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::family::plan::{Scalar, TensorMap};
    use crate::domain::op::Dtype;

    #[test]
    fn undeclared_arguments_are_refused_before_the_driver_reads_them() {
        let map = TensorMap {
            name: "k_map".to_owned(),
            tensor: "k".to_owned(),
            dtype: Dtype::F16,
            sizes: vec![64],
            stride_bytes: Vec::new(),
            box_sizes: vec![64],
            swizzle_bytes: 0,
        };
        let number = Scalar { name: "n".to_owned(), value: ScalarValue::I32(1) };
        let args = vec![Arg::Tensor("k".to_owned()), Arg::Scalar(number), Arg::TensorMap(map)];
        let launch = Launch {
            kernel: "k".to_owned(),
            grid: [1; 3],
            block: [32, 1, 1],
            shared_bytes: 0,
            cluster: None,
            programmatic: false,
            args,
        };
        let checked = |param_bytes: &[usize]| check_arguments(&launch, param_bytes);
        assert_eq!(checked(&[8, 4, 128]), Ok(()));
        insta::assert_snapshot!(checked(&[8, 4, 128, 4]).unwrap_err(), @"`k` takes 4 arguments, not 3");
        insta::assert_snapshot!(checked(&[8, 128, 4]).unwrap_err(), @"parameter `k_param_1` of `k` has 128 bytes, not 8");
        insta::assert_snapshot!(checked(&[8, 4, 64]).unwrap_err(), @"parameter `k_param_2` of `k` has 64 bytes, not 128");
    }
}
