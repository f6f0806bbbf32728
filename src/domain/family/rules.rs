//! The parts of a manifest that become a launch plan: workspaces, tensor maps and launches. Their expressions are
//! filled in here.
//!
//! Each entry may have a `when`. Where it does not hold, the plan omits the entry.

use serde::{Deserialize, Serialize};

use super::ConfigurationError;
use crate::domain::expr::{Bindings, Expr};
use crate::domain::family::plan::{
    self, Arg, Initial, Launch, MAX_BLOCK, MAX_BOX, MAX_GRID, MAX_MAP_SIZE, MAX_MAP_STRIDE_BYTES, Scalar, ScalarValue,
    TensorMap, Workspace,
};
use crate::domain::op::{Dtype, TensorSpec};
use crate::domain::text::names::did_you_mean;
use crate::error::{Error, Result, error};

/// The configurations to which an entry applies: all, or those for which an expression holds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct When(pub(super) Option<Expr>);

impl When {
    fn is_always(&self) -> bool {
        self.0.is_none()
    }

    pub(super) fn holds(&self, bindings: &Bindings) -> Result<bool, ConfigurationError> {
        self.0.as_ref().map_or(Ok(true), |expr| expr.flag(bindings)).map_err(ConfigurationError::from)
    }

    fn text(&self) -> &str {
        self.0.as_ref().map_or("true", Expr::text)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct WorkspaceRule {
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "When::is_always")]
    pub(super) when: When,
    pub(super) dtype: Dtype,
    pub(super) elements: Expr,
    pub(super) initial: Initial,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct LaunchRule {
    pub(super) kernel: String,
    #[serde(default, skip_serializing_if = "When::is_always")]
    pub(super) when: When,
    pub(super) grid: Vec<Expr>,
    pub(super) block: Vec<Expr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) shared: Option<Expr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cluster: Option<Vec<Expr>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) programmatic: bool,
    /// Whether it depends on weights alone, and is executed once for each.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) prepare: bool,
    pub(super) args: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct TensorMapRule {
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "When::is_always")]
    pub(super) when: When,
    pub(super) tensor: String,
    pub(super) sizes: Vec<Expr>,
    pub(super) strides: Vec<Expr>,
    pub(super) box_sizes: Vec<Expr>,
    pub(super) swizzle_bytes: u32,
}

impl WorkspaceRule {
    pub(super) fn fill(&self, bindings: &Bindings) -> Result<Workspace, ConfigurationError> {
        let elements = self.elements.int(bindings)?;
        let bytes = usize::try_from(elements)
            .ok()
            .and_then(|n| n.checked_mul(self.dtype.bytes()))
            .filter(|&bytes| bytes > 0)
            .ok_or_else(|| {
                ConfigurationError::Manifest(format!("workspace `{}` has {elements} elements", self.name))
            })?;
        Ok(Workspace { name: self.name.clone(), bytes, initial: self.initial })
    }
}

impl TensorMapRule {
    /// Fills in the numbers. [`LaunchPlan::check`](crate::domain::family::plan::LaunchPlan::check) decides whether they make a
    /// valid map.
    fn fill(&self, scope: &ArgScope<'_>) -> Result<TensorMap, ConfigurationError> {
        let wrong =
            |what: Error| ConfigurationError::Manifest(what.within(format_args!("tensor map `{}`", self.name)).into());
        let dtype = scope.dtype_of(&self.tensor).map_err(wrong)?;
        let element_bytes = dtype.bytes() as u64;
        let numbers = |what: &str, exprs: &[Expr], most: u64| -> Result<Vec<u64>, ConfigurationError> {
            let number = |expr: &Expr| {
                let value = expr.int(scope.bindings)?;
                let fits = u64::try_from(value).ok().filter(|n| (1..=most).contains(n));
                fits.ok_or_else(|| wrong(error!("{what} `{}` = {value}, not 1 to {most}", expr.text())))
            };
            exprs.iter().map(number).collect()
        };
        let sizes = numbers("size", &self.sizes, MAX_MAP_SIZE)?;
        let strides = numbers("stride", &self.strides, MAX_MAP_STRIDE_BYTES / element_bytes)?;
        let box_sizes = numbers("box", &self.box_sizes, MAX_BOX)?;
        Ok(TensorMap {
            name: self.name.clone(),
            tensor: self.tensor.clone(),
            dtype,
            sizes,
            stride_bytes: strides.iter().map(|stride| stride * element_bytes).collect(),
            box_sizes: box_sizes.iter().map(|&n| n as u32).collect(),
            swizzle_bytes: self.swizzle_bytes,
        })
    }
}

/// The values that the argument names of a launch may refer to.
pub(super) struct ArgScope<'a> {
    pub(super) bindings: &'a Bindings,
    pub(super) tensors: &'a [TensorSpec],
    /// The names of tensors that only some cases have.
    pub(super) optional_tensors: &'a [&'static str],
    pub(super) scalars: &'a [(&'static str, f64)],
    pub(super) workspaces: &'a [&'a WorkspaceRule],
    pub(super) tensor_maps: &'a [&'a TensorMapRule],
    /// The names of the omitted workspaces and tensor maps, each with its `when`.
    pub(super) left_out: &'a [(&'a str, &'a When)],
}

impl ArgScope<'_> {
    /// Checks that the op and the device do not use the name of a workspace or tensor map: an argument would be
    /// ambiguous.
    pub(super) fn check_free(&self, name: &str) -> Result<(), ConfigurationError> {
        let is_tensor = self.tensors.iter().any(|tensor| tensor.name == name);
        if is_tensor || self.scalars.iter().any(|(scalar, _)| *scalar == name) || self.bindings.contains_key(name) {
            let why = "the op or the device has something of that name: give the workspace or tensor map another";
            return Err(ConfigurationError::Manifest(format!("`{name}`: {why}")));
        }
        Ok(())
    }

    /// Returns the element type of the tensor or workspace that a tensor map describes.
    fn dtype_of(&self, name: &str) -> Result<Dtype> {
        let tensor = self.tensors.iter().find(|tensor| tensor.name == name).map(|tensor| tensor.dtype);
        let workspace = || self.workspaces.iter().find(|rule| rule.name == name).map(|rule| rule.dtype);
        tensor.or_else(workspace).ok_or_else(|| match self.left_out.iter().find(|(left_out, _)| *left_out == name) {
            Some((_, when)) => error!("workspace `{name}` is omitted if `{}` is false", when.text())
                .hint("give the map the same `when`"),
            None => {
                let tensors = self.tensors.iter().map(|tensor| tensor.name.as_str());
                let known = tensors.chain(self.workspaces.iter().map(|rule| rule.name.as_str()));
                error!("there is no tensor or workspace `{name}`{}", did_you_mean(name, known))
            }
        })
    }

    /// Returns what an argument names. None for a tensor with a question mark that the case does not have, and for such a workspace or
    /// tensor map that is left out.
    fn resolve(&self, arg: &str) -> Result<Option<Arg>, ConfigurationError> {
        match if_present(arg) {
            (name, true) if self.left_out.iter().any(|(left_out, _)| *left_out == name) => Ok(None),
            (name, true) if self.workspaces.iter().any(|rule| rule.name == name) => self.named(name).map(Some),
            (name, true) if self.tensor_maps.iter().any(|rule| rule.name == name) => self.named(name).map(Some),
            (name, true) if !self.optional_tensors.contains(&name) => Err(ConfigurationError::Manifest(format!(
                "launch argument `{arg}`: only a tensor, tensor map or workspace that some cases lack may have a question mark"
            ))),
            (name, true) if !self.tensors.iter().any(|tensor| tensor.name == name) => Ok(None),
            (name, _) => self.named(name).map(Some),
        }
    }

    fn named(&self, arg: &str) -> Result<Arg, ConfigurationError> {
        let (wide, name) = typed(arg);
        if self.tensors.iter().any(|tensor| tensor.name == name) {
            return Ok(Arg::Tensor(name.to_owned()));
        }
        if self.workspaces.iter().any(|workspace| workspace.name == name) {
            return Ok(Arg::Workspace(name.to_owned()));
        }
        if let Some(rule) = self.tensor_maps.iter().find(|rule| rule.name == name) {
            return rule.fill(self).map(Arg::TensorMap);
        }
        if let Some((_, when)) = self.left_out.iter().find(|(left_out, _)| *left_out == name) {
            return Err(ConfigurationError::Manifest(format!(
                "launch argument `{name}` is omitted if `{}` is false: give the launch the same `when`",
                when.text()
            )));
        }
        if self.optional_tensors.contains(&name) {
            return Err(ConfigurationError::Manifest(format!(
                "launch argument `{name}` is a tensor that this case does not have: write `{name}?` if the kernel has it where a \
                 case does"
            )));
        }
        let value = if let Some((_, value)) = self.scalars.iter().find(|(scalar, _)| *scalar == name) {
            if wide == Some(Wide::Double) { ScalarValue::F64(*value) } else { ScalarValue::F32(*value as f32) }
        } else if let Some(value) = self.bindings.get(name).filter(|_| wide == Some(Wide::LongLong)) {
            ScalarValue::I64(*value)
        } else if let Some(value) = self.bindings.get(name) {
            let value = i32::try_from(*value).map_err(|_| {
                ConfigurationError::Manifest(format!("argument `{name}` = {value} does not fit an int"))
            })?;
            ScalarValue::I32(value)
        } else {
            let own = self.tensor_maps.iter().map(|rule| rule.name.as_str());
            let known = own.chain(self.tensors.iter().map(|t| t.name.as_str())).chain(self.scalars.iter().map(|s| s.0));
            let hint = did_you_mean(name, known.chain(self.bindings.keys().map(String::as_str)));
            return Err(ConfigurationError::Manifest(format!("launch argument `{name}` names nothing{hint}")));
        };
        Ok(Arg::Scalar(Scalar { name: name.to_owned(), value }))
    }
}

/// A type of 64 bits in front of an argument's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wide {
    Double,
    LongLong,
}

/// Splits an argument into its type, if it is one of 64 bits, and its name: `double eps`, `long long N`.
pub(super) fn typed(arg: &str) -> (Option<Wide>, &str) {
    let types = [("double ", Wide::Double), ("long long ", Wide::LongLong)];
    let found = types.into_iter().find_map(|(prefix, wide)| Some((Some(wide), arg.strip_prefix(prefix)?.trim())));
    found.unwrap_or((None, arg))
}

/// Splits an argument into its name and whether it is passed only where the case has a tensor of that name: `sink?`.
pub(super) fn if_present(arg: &str) -> (&str, bool) {
    arg.strip_suffix('?').map_or((arg, false), |name| (name, true))
}

impl LaunchRule {
    /// Returns what is wrong with a launch that is the first of its manifest.
    pub(super) fn check_first(&self) -> Option<Error> {
        self.programmatic.then(|| plan::no_launch_precedes(&self.kernel))
    }

    pub(super) fn fill(&self, scope: &ArgScope<'_>) -> Result<Launch, ConfigurationError> {
        let extents = |what: &str, exprs: &[Expr], most: [u32; 3]| -> Result<[u32; 3], ConfigurationError> {
            let mut filled = [1_u32; 3];
            for ((slot, expr), most) in filled.iter_mut().zip(exprs).zip(most) {
                let value = expr.int(scope.bindings)?;
                *slot = u32::try_from(value).ok().filter(|n| (1..=most).contains(n)).ok_or_else(|| {
                    ConfigurationError::Manifest(format!(
                        "launch `{}`: {what} `{}` = {value}, not 1 to {most}",
                        self.kernel,
                        expr.text()
                    ))
                })?;
            }
            Ok(filled)
        };
        let shared_bytes = self.shared.as_ref().map_or(Ok(0), |expr| expr.int(scope.bindings))?;
        Ok(Launch {
            kernel: self.kernel.clone(),
            grid: extents("grid", &self.grid, MAX_GRID)?,
            block: extents("block", &self.block, MAX_BLOCK)?,
            shared_bytes: u32::try_from(shared_bytes).map_err(|_| {
                ConfigurationError::Manifest(format!("launch `{}`: shared = {shared_bytes} bytes", self.kernel))
            })?,
            cluster: self.cluster.as_deref().map(|exprs| extents("cluster", exprs, MAX_BLOCK)).transpose()?,
            programmatic: self.programmatic,
            args: self.args.iter().filter_map(|name| scope.resolve(name).transpose()).collect::<Result<_, _>>()?,
        })
    }
}
