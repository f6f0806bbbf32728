//! Tensors whose shapes and values depend on the sizes of a case.

use serde::Deserialize;

use super::array_file::Array;
use crate::domain::expr::Expr;
use crate::domain::op::{AtomicSums, Dims, Dtype, TensorRole, TensorSpec, Values};
use crate::error::{Error, error};

/// The most elements of a tensor, because kernels index with 32-bit integers.
const MAX_ELEMENTS: i64 = 1 << 31;

/// A tensor of an op.
pub(super) struct TensorRule {
    pub name: &'static str,
    pub shape: Vec<Expr>,
    pub role: TensorRole,
    /// Its element type, if it is not the workload's.
    pub dtype: Option<Dtype>,
    pub values: ValuesRule,
    /// How far two executions may differ, if its sums may have any order.
    pub atomic_sums: Option<AtomicSums>,
    /// The input whose elements it has indices of.
    pub selects: Option<String>,
}

/// How `op.toml` says what an input contains.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub(super) enum ValuesText {
    Normal,
    Uniform(f32, f32),
    Integers(Bound, Bound),
    Sorted(Bound, Bound),
    Mask(f32),
    /// A file in the op's folder.
    File(String),
    /// A tensor of a file in the op's folder, with the name of the file first.
    Tensor(String, String),
}

impl ValuesText {
    /// Returns the file that the values come from, and the name of the tensor in it.
    pub fn file(&self) -> Option<(&str, Option<&str>)> {
        match self {
            Self::File(file) => Some((file, None)),
            Self::Tensor(file, tensor) => Some((file, Some(tensor))),
            _ => None,
        }
    }
}

/// A number, or an expression over dimensions.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub(super) enum Bound {
    Number(i64),
    Text(String),
}

impl Bound {
    /// Returns the text of the expression.
    pub fn text(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text.clone(),
        }
    }
}

/// What an input contains.
pub(super) enum ValuesRule {
    /// Whatever suits its element type.
    Usual,
    /// The same for all sizes.
    Fixed(Values),
    /// Whole numbers from the first to the last, in order if the flag is set.
    Integers(Expr, Expr, bool),
    /// The numbers of a file. They have one shape.
    Given(&'static Array),
}

impl ValuesRule {
    fn of(&self, dims: &Dims, dtype: Dtype) -> Values {
        match self {
            Self::Usual => usual(dtype),
            Self::Fixed(values) => *values,
            Self::Given(array) => Values::Given(&array.values),
            Self::Integers(from, to, is_sorted) => {
                // Sizes are checked with the workload. Only names are asked for with others.
                let bound = |expr: &Expr| expr.int(dims).unwrap_or(0);
                let (from, to) = (bound(from), bound(to));
                let to = to.max(from);
                if *is_sorted { Values::Sorted(from, to) } else { Values::Integers(from, to) }
            }
        }
    }

    /// Refuses bounds that an element type does not hold.
    fn check(&self, dims: &Dims, dtype: Dtype) -> Result<(), Error> {
        let Self::Integers(from, to, _) = self else { return Ok(()) };
        let bound = |expr: &Expr| expr.int(dims).map_err(Error::new);
        let (first, last) = (bound(from)?, bound(to)?);
        // Beyond this, floating-point types do not hold every whole number.
        let most = match dtype {
            Dtype::F16 => 2048,
            Dtype::Bf16 => 256,
            Dtype::E4m3 => 16,
            Dtype::E5m2 => 8,
            // The inputs of an F64 are those of an F32.
            Dtype::F32 | Dtype::F64 => 1 << 24,
            _ => dtype.largest() as i64,
        };
        let least = if dtype.is_integer() { dtype.smallest() as i64 } else { -most };
        if first > last {
            return Err(error!("its values are from {first} (`{}`) to {last} (`{}`)", from.text(), to.text()));
        }
        if first < least || last > most {
            return Err(error!(
                "its values are from {first} to {last}, but {} holds whole numbers from {least} to {most}",
                dtype.name()
            ));
        }
        Ok(())
    }
}

/// Returns the values of an input that says nothing of them.
fn usual(dtype: Dtype) -> Values {
    match dtype {
        Dtype::Bool => Values::Mask(0.5),
        _ if dtype.is_integer() => Values::Integers(dtype.smallest() as i64, dtype.largest() as i64),
        _ => Values::Normal,
    }
}

impl TensorRule {
    /// Returns the extents. The error says which one is not a positive integer.
    fn extents(&self, dims: &Dims) -> Result<Vec<i64>, Error> {
        let extent = |expr: &Expr| match expr.int(dims) {
            Ok(extent @ 1..) => Ok(extent),
            Ok(extent) => Err(error!("tensor `{}`: `{}` = {extent}, but must be at least 1", self.name, expr.text())),
            Err(error) => Err(error!("tensor `{}`: {error}", self.name)),
        };
        self.shape.iter().map(extent).collect()
    }

    /// Refuses sizes for which there is no such tensor.
    pub fn check(&self, dims: &Dims) -> Result<(), Error> {
        let elements = self.extents(dims)?.into_iter().try_fold(1_i64, i64::checked_mul);
        if elements.is_none_or(|elements| elements > MAX_ELEMENTS) {
            return Err(error!("tensor `{}` has more than 2^31 elements: reduce its dimensions", self.name));
        }
        if let ValuesRule::Given(array) = self.values {
            let extents: Vec<usize> = self.extents(dims)?.into_iter().map(|extent| extent as usize).collect();
            if extents != array.shape {
                return Err(error!(
                    "tensor `{}` has the shape {extents:?}, but its file has {:?}",
                    self.name, array.shape
                ));
            }
        }
        let checked = self.dtype.map_or(Ok(()), |dtype| self.values.check(dims, dtype));
        checked.map_err(|problem| problem.within(format_args!("tensor `{}`", self.name)))
    }

    /// Tells whether the first extent is this dimension.
    pub fn begins_with(&self, dim: &str) -> bool {
        self.shape.first().is_some_and(|expr| expr.text() == dim)
    }

    /// Returns the tensor of a case in a workload's element type.
    pub fn spec(&self, dims: &Dims, dtype: Dtype) -> TensorSpec {
        let dtype = self.dtype.unwrap_or(dtype);
        // Sizes are checked with the workload. Only names are asked for with others.
        let extent = |expr: &Expr| expr.int(dims).ok().and_then(|extent| usize::try_from(extent).ok()).unwrap_or(1);
        let shape = self.shape.iter().map(extent).collect();
        let values = self.values.of(dims, dtype);
        TensorSpec { name: self.name.to_owned(), dtype, shape, role: self.role, values }
    }
}
