//! Oracles outside of optloop: the languages they are written in, and what they are called with.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::domain::op::{Dims, Dtype, TensorSpec};
use crate::error::Error;

/// The language of an oracle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OracleLanguage {
    /// A Python file with a function `oracle`.
    Python,
    /// A CUDA source with a kernel in double precision.
    Cuda,
}

impl OracleLanguage {
    /// Returns the language of a file, by the end of its name. None if it is neither.
    pub fn of_file(name: &str) -> Option<Self> {
        match name.rsplit_once('.')?.1 {
            "py" => Some(Self::Python),
            "cu" => Some(Self::Cuda),
            _ => None,
        }
    }
}

/// The type of an input's elements, as an oracle gets them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OracleType {
    /// A 64-bit float.
    Float,
    /// A 64-bit integer, sent as a float that holds it.
    Int,
    /// A 64-bit integer, sent as one of 32 bits.
    Int32,
    /// The same for one without a sign.
    Uint32,
    /// A 64-bit integer, sent as it is.
    Int64,
    /// A boolean of one byte.
    Bool,
}

impl OracleType {
    /// Returns the type for the elements of a tensor.
    pub fn of(dtype: Dtype) -> Self {
        match dtype {
            Dtype::Bool => Self::Bool,
            Dtype::I32 => Self::Int32,
            Dtype::U32 => Self::Uint32,
            Dtype::I64 => Self::Int64,
            _ if dtype.is_integer() => Self::Int,
            _ => Self::Float,
        }
    }
}

/// The launch of an oracle's kernel, with every number filled in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OracleLaunch {
    /// The kernel's name in the source. None if the source has only one, or one called `oracle`.
    pub kernel: Option<String>,
    /// Blocks along x, y, z.
    pub grid: [u32; 3],
    /// Threads along x, y, z.
    pub block: [u32; 3],
    /// The arguments, in the order of the kernel's parameters.
    pub args: Vec<OracleArg>,
}

/// An argument of an oracle's kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OracleArg {
    /// The name of the tensor, the dimension or the scalar.
    pub name: String,
    /// What it is.
    pub value: OracleValue,
}

/// What an argument of an oracle's kernel is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum OracleValue {
    /// The address of a tensor.
    Tensor,
    /// The size of a dimension.
    Size(i64),
    /// A constant.
    Scalar(f64),
}

/// What an oracle outside of optloop is to compute.
#[derive(Debug)]
pub struct OracleCall<'a> {
    /// Sizes by name.
    pub dims: &'a Dims,
    /// Scalars by name.
    pub scalars: &'a [(&'static str, f64)],
    /// The input tensors with their values, in row-major order, as their element types keep them.
    pub inputs: Vec<(TensorSpec, &'a [f32])>,
    /// The output tensors, each with the rows to compute, in the order of the answer.
    pub outputs: Vec<(TensorSpec, Vec<usize>)>,
    /// The launch of an oracle in CUDA. None for one in Python.
    pub launch: Option<OracleLaunch>,
    /// Whether the numbers of free inputs are [stretched].
    pub is_stretched: bool,
}

/// How many times as many exponents F64 has as F32.
const EXPONENTS: i32 = 8;

/// Raises a number to the eighth power, with its sign. What overflows in F64 with such numbers overflows in F32 with the numbers
/// themselves: powers of them, but not what is added up or multiplied by constants.
pub fn stretched(number: f64) -> f64 {
    number.powi(EXPONENTS).copysign(number)
}

/// Returns whether a tensor's numbers are stretched. Others keep to what they mean.
pub fn is_stretchable(tensor: &TensorSpec) -> bool {
    tensor.is_free()
}

/// An oracle outside of optloop, such as a Python program.
pub trait Oracle: Send + Sync {
    /// Computes some rows of the outputs in float64, one after the other. Elements of 64-bit integers are given by their bits
    /// ([`Dtype::number`]). The error says in one sentence why there are none.
    fn compute(&self, call: &OracleCall<'_>) -> Result<Vec<f64>, Error>;

    /// Returns whether it runs on the device that executes the kernels.
    fn uses_device(&self) -> bool {
        false
    }

    /// Returns the first line that it has printed, if it can print.
    fn printed(&self) -> Option<String> {
        None
    }

    /// Returns where the last call was computed, if it was to be computed on a GPU: `cuda:0`, or the CPU and why.
    fn computed_on(&self) -> Option<String> {
        None
    }
}

impl Oracle for Arc<dyn Oracle> {
    fn compute(&self, call: &OracleCall<'_>) -> Result<Vec<f64>, Error> {
        (**self).compute(call)
    }

    fn uses_device(&self) -> bool {
        (**self).uses_device()
    }

    fn printed(&self) -> Option<String> {
        (**self).printed()
    }

    fn computed_on(&self) -> Option<String> {
        (**self).computed_on()
    }
}
