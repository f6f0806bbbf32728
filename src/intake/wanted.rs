//! What a source cannot say: shapes, sizes, the grid, and what the kernel is compared with.

use indexmap::IndexMap;

use super::source::split;
use super::{Draft, Kind, OracleKernel};
use crate::domain::compute::Compute;
use crate::domain::expr::Expr;
use crate::domain::op::Dtype;
use crate::domain::op::atomic_sums::AtomicSums;
use crate::domain::text::names::is_identifier;
use crate::error::{Error, error};

/// What the user gives beside the source.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Wanted {
    /// The name of the workload and the family, and of the op unless there is one.
    pub name: String,
    /// The op that the kernel computes, if it exists.
    pub op: Option<String>,
    /// The shape of each tensor, as expressions over dimensions.
    pub shapes: IndexMap<String, Vec<String>>,
    /// The cases to make fast.
    pub cases: Vec<CaseSizes>,
    /// The smallest and the largest size of a dimension, where it has limits.
    pub ranges: IndexMap<String, (i64, i64)>,
    /// The pointers that are inputs, whether they are const or not.
    pub inputs: Vec<String>,
    /// What inputs contain, where it is not the usual, as TOML.
    pub contents: IndexMap<String, String>,
    /// The pointers that the kernel reads and overwrites.
    pub in_place: Vec<String>,
    /// The outputs that are zeroed before the kernel runs.
    pub zeroed: Vec<String>,
    /// The outputs whose floating-point sums may have any order.
    pub atomic_sums: IndexMap<String, AtomicSums>,
    /// The elements of scratch memory, as expressions. It is zeroed once, before the first launch.
    pub scratch: IndexMap<String, String>,
    /// The values of scalars.
    pub scalars: IndexMap<String, f64>,
    /// The number of blocks along x, y and z, as expressions over dimensions and tunables.
    pub grid: Vec<String>,
    /// The number of threads of a block along x, y and z.
    pub block: Vec<String>,
    /// Bytes of dynamic shared memory.
    pub shared: Option<String>,
    /// Additions and multiplications, as an expression over dimensions.
    pub flop: String,
    /// The dimension whose indices are independent.
    pub independent: Option<String>,
    /// Values to search for a tunable, instead of the usual ones.
    pub values: IndexMap<String, Vec<i64>>,
    /// Tunables that stay as they are, with the reason.
    pub fixed: IndexMap<String, String>,
    /// Integer parameters of the kernel that follow from dimensions and tunables, as expressions.
    pub arguments: IndexMap<String, String>,
    /// Conditions on dimensions and tunables.
    pub constraints: Vec<String>,
    /// The precision in which the kernel multiplies.
    pub compute: Compute,
    /// An expression of PyTorch to compare with.
    pub torch: Option<String>,
    /// Further expressions to compare with, by name.
    pub baselines: IndexMap<String, String>,
    /// How an oracle in CUDA is launched. None for one in Python.
    pub oracle_kernel: Option<OracleKernel>,
}

/// The sizes of a case.
pub type CaseSizes = IndexMap<String, i64>;

impl Wanted {
    /// Returns the name of the op.
    pub fn op(&self) -> &str {
        self.op.as_deref().unwrap_or(&self.name)
    }

    /// Returns the name of the oracle's file in the folder of a new op.
    pub fn oracle_file(&self) -> &'static str {
        if self.oracle_kernel.is_some() { "oracle.cu" } else { "oracle.py" }
    }

    /// Returns the names in the grid, the block and the amount of shared memory.
    pub fn launch_names(&self) -> Vec<String> {
        let exprs = self.grid.iter().chain(&self.block).chain(&self.shared);
        exprs.filter_map(|text| Expr::parse(text).ok()).flat_map(|expr| expr.names()).collect()
    }

    /// Returns the names in all expressions of a family: those of the launch, of arguments, of constraints and of
    /// scratch memory.
    pub fn names(&self) -> Vec<String> {
        let others = self.constraints.iter().chain(self.scratch.values()).chain(self.arguments.values());
        let exprs = others.filter_map(|text| Expr::parse(text).ok()).flat_map(|expr| expr.names());
        self.launch_names().into_iter().chain(exprs).collect()
    }

    /// Returns the names that may be numbers of a source's headers: those of the launch and of constraints, those with values,
    /// and those of cases.
    pub fn numbers(&self) -> Vec<String> {
        let of_cases = self.cases.iter().flat_map(CaseSizes::keys);
        self.names().into_iter().chain(self.values.keys().chain(of_cases).cloned()).collect()
    }

    /// Parses `x=R,N` into a tensor's name and its shape.
    pub fn shape(text: &str) -> Result<(String, Vec<String>), Error> {
        let (name, shape) = text.split_once('=').ok_or_else(|| error!("`{text}`").hint("write NAME=EXTENT,EXTENT"))?;
        let shape = split(shape).into_iter().map(str::to_owned).collect::<Vec<_>>();
        if shape.is_empty() {
            Err(error!("`{text}`").hint("name at least one extent"))
        } else {
            Ok((name.to_owned(), shape))
        }
    }

    /// Parses `R=4096,N=8192` into the sizes of a case.
    pub fn case(text: &str) -> Result<CaseSizes, Error> {
        let size = |part: &str| -> Option<(String, i64)> {
            let (name, size) = part.split_once('=')?;
            Some((name.trim().to_owned(), size.trim().parse().ok()?))
        };
        let sizes = text.split(',').map(|part| size(part).ok_or_else(|| error!("`{part}`").hint("write NAME=SIZE")));
        sizes.collect()
    }

    /// Parses `stride=N` into an integer parameter and what it follows from.
    pub fn argument(text: &str) -> Result<(String, String), Error> {
        let (name, value) =
            text.split_once('=').ok_or_else(|| error!("`{text}`").hint("write PARAMETER=EXPRESSION"))?;
        Ok((name.trim().to_owned(), value.trim().to_owned()))
    }

    /// Tells whether an integer parameter of the kernel is a dimension: neither a tunable nor something that follows from others.
    pub fn is_dimension(&self, size: &str) -> bool {
        !self.values.contains_key(size) && !self.arguments.contains_key(size)
    }

    /// Parses `partial=BLOCKS` into the name of scratch memory and its elements.
    pub fn scratch(text: &str) -> Result<(String, String), Error> {
        let (name, elements) = text.split_once('=').ok_or_else(|| error!("`{text}`").hint("write POINTER=ELEMENTS"))?;
        Ok((name.to_owned(), elements.trim().to_owned()))
    }

    /// Parses `labels=integers:0:N-1` into a tensor's name and what it contains, as TOML.
    pub fn contents(text: &str) -> Result<(String, String), Error> {
        let wrong = || format!("`{text}`: write TENSOR=normal, uniform:0:1, integers:0:N-1, sorted:0:N or mask:0.5");
        let (name, contents) = text.split_once('=').ok_or_else(wrong)?;
        let number = |text: &str| text.parse::<f32>().ok().filter(|number| number.is_finite());
        let bound = |text: &str| text.parse::<i64>().map_or_else(|_| toml::Value::from(text), toml::Value::from);
        let contents = match contents.split(':').collect::<Vec<_>>()[..] {
            ["normal"] => "\"normal\"".to_owned(),
            ["uniform", from, to] => {
                let (from, to) = number(from).zip(number(to)).ok_or_else(wrong)?;
                format!("{{ uniform = [{from:?}, {to:?}] }}")
            }
            [kind @ ("integers" | "sorted"), from, to] => format!("{{ {kind} = [{}, {}] }}", bound(from), bound(to)),
            ["mask", share] => format!("{{ mask = {:?} }}", number(share).ok_or_else(wrong)?),
            _ => return Err(wrong().into()),
        };
        Ok((name.to_owned(), contents))
    }

    /// Parses `quack=quack.softmax(x)` into a name and an expression to compare with.
    pub fn baseline(text: &str) -> Result<(String, String), Error> {
        let parts = text.split_once('=').filter(|(name, _)| is_identifier(name));
        let wrong = || format!("`{text}`: write NAME=EXPRESSION, with letters, digits and `_` in the name");
        let (name, expression) = parts.ok_or_else(wrong)?;
        Ok((name.to_owned(), expression.trim().to_owned()))
    }

    /// Parses `TILE=8,16,32` into a tunable's name and values.
    pub fn values(text: &str) -> Result<(String, Vec<i64>), Error> {
        let wrong = || format!("`{text}`: write NAME=VALUE,VALUE with whole numbers");
        let (name, values) = text.split_once('=').ok_or_else(wrong)?;
        let values = values.split(',').map(|value| value.trim().parse().map_err(|_| wrong()));
        Ok((name.to_owned(), values.collect::<Result<_, _>>()?))
    }

    /// Splits `ceil_div(N, 256), R` into expressions.
    pub fn extents(text: &str) -> Vec<String> {
        split(text).into_iter().map(str::to_owned).collect()
    }

    /// Returns the option for everything that the source needs and the user has not given, with an example.
    pub fn missing(&self, draft: &Draft) -> Vec<String> {
        let mut missing = Vec::new();
        let sizes: Vec<&str> = draft.sizes().filter(|size| self.is_dimension(size)).collect();
        let example = sizes.first().copied().unwrap_or("N");
        let is_new = self.op.is_none();
        for tensor in draft.tensors().filter(|tensor| is_new && !self.shapes.contains_key(*tensor)) {
            missing.push(format!("--shape {tensor}={example} (the extents of `{tensor}`)"));
        }
        let is_in_place = |tensor: &str| self.in_place.iter().any(|name| name == tensor);
        let in_place = draft.outputs().filter(|(tensor, dtype)| dtype.is_kept_as_bits() && is_in_place(tensor));
        let indices = draft.indices().chain(in_place.map(|(tensor, _)| tensor));
        for tensor in indices.filter(|tensor| is_new && !self.contents.contains_key(*tensor)) {
            missing.push(format!("--contents {tensor}=integers:0:{example}-1 (the whole numbers in `{tensor}`)"));
        }
        for scalar in draft.scalars().filter(|scalar| is_new && !self.scalars.contains_key(*scalar)) {
            missing.push(format!("--scalar {scalar}=1.0 (the value of `{scalar}`)"));
        }
        let threads = match (self.block.first(), draft.asks_block_size) {
            (Some(threads), _) => threads,
            (None, true) => "THREADS",
            (None, false) => "256",
        };
        if self.grid.is_empty() {
            missing.push(format!("--grid 'ceil_div({example}, {threads})' (the number of blocks)"));
        }
        if self.block.is_empty() {
            missing.push(format!("--block {threads} (the threads of a block)"));
        }
        if let Some(OracleKernel { grid, block, .. }) = &self.oracle_kernel {
            if grid.is_empty() {
                missing.push(format!("--oracle-grid {example} (the number of blocks of the oracle)"));
            }
            if block.is_empty() {
                missing.push("--oracle-block 256 (the threads of a block of the oracle)".to_owned());
            }
        }
        if self.cases.is_empty() {
            missing.push(format!("--case {example}=4096 (sizes to make fast)"));
        }
        missing
    }
}

impl Draft {
    /// Returns the names of the kernel's tensors.
    pub fn tensors(&self) -> impl Iterator<Item = &str> {
        self.of(|kind| matches!(kind, Kind::Tensor { .. }))
    }

    /// Returns the names of the outputs with their element types.
    pub fn outputs(&self) -> impl Iterator<Item = (&str, Dtype)> {
        self.kernel.parameters.iter().filter_map(|parameter| match parameter.kind? {
            Kind::Tensor { dtype, is_output: true } => Some((parameter.name.as_str(), dtype)),
            _ => None,
        })
    }

    /// Returns the names of scratch memory with its element type.
    pub fn scratch(&self) -> impl Iterator<Item = (&str, Dtype)> {
        self.kernel.parameters.iter().filter_map(|parameter| match parameter.kind? {
            Kind::Scratch { dtype } => Some((parameter.name.as_str(), dtype)),
            _ => None,
        })
    }

    /// Returns the names of the inputs of integers with 32 bits or more, whose values mean something.
    fn indices(&self) -> impl Iterator<Item = &str> {
        self.of(|kind| matches!(kind, Kind::Tensor { dtype, is_output: false } if dtype.is_kept_as_bits()))
    }

    /// Returns the names of the sizes that the kernel gets.
    pub fn sizes(&self) -> impl Iterator<Item = &str> {
        self.of(|kind| kind == Kind::Size)
    }

    /// Returns the names of the kernel's floating-point constants.
    pub fn scalars(&self) -> impl Iterator<Item = &str> {
        self.of(|kind| kind == Kind::Scalar)
    }

    fn of(&self, is_meant: impl Fn(Kind) -> bool) -> impl Iterator<Item = &str> {
        let meant = self.kernel.parameters.iter().filter(move |parameter| parameter.kind.is_some_and(&is_meant));
        meant.map(|parameter| parameter.name.as_str())
    }
}
