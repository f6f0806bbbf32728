//! Families: a CUDA template with its search space, constraints and launch plan, as `family.toml` gives them.

mod checker;
mod draft;
mod entries;
mod fields;
mod limits;
mod listed;
mod names;
pub mod plan;
mod plan_rules;
mod python;
mod rules;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use indexmap::IndexMap;
use serde::Deserialize;

use draft::Draft;
use fields::Notes;
use plan_rules::Entries;

use self::plan::LaunchPlan;
use super::claims::mechanism::Mechanism;
use super::compute::Compute;
use super::device::DeviceInfo;
use super::expr::{Bindings, Expr, ExprError};
use super::op::{self, DimDefault, Dims, Dtype, Op};
use super::text::names::did_you_mean;
use super::text::toml_text;
use super::variant::Params;
use super::workload::{Case, Workload};
use crate::error::{Error, error};

pub use checker::Checker;
pub use listed::Listed;
pub use plan_rules::PlanRules;
pub use python::{InPython, LaunchInPython, PlanInPython, WorkspaceInPython};

/// The folder of the fragments that families share, next to the families' folders.
pub const FRAGMENTS_FOLDER: &str = "common";

/// The longest file of a family, in bytes, as for every file of a project.
pub const MAX_FILE_BYTES: usize = 1 << 20;

/// A CUDA source template with all that is needed to instantiate and launch it.
#[derive(Debug, Clone)]
pub struct Family {
    /// Name; its folder is called the same.
    pub name: String,
    /// A description in one sentence.
    pub about: String,
    /// The op that it computes.
    pub op: String,
    /// The element types that it supports.
    pub dtypes: Vec<Dtype>,
    /// The precision of its products. A family in TF32 computes only workloads that allow it.
    pub compute: Compute,
    /// The lowest compute capability (times ten) that it runs on.
    pub requires_sm: u32,
    /// The dimensions rendered into the source. Cases that agree on them share one compiled variant.
    pub constants: Vec<String>,
    /// The parameters of the search space, in the manifest's order.
    pub params: IndexMap<String, Param>,
    /// The conditions that every valid configuration satisfies.
    pub constraints: Vec<Constraint>,
    /// Configurations that are tried first, by the dimensions for which they are known to be fast.
    pub openings: Vec<Opening>,
    /// The valid configurations, if they are listed. Then there are no constraints.
    pub listed: Option<Arc<Listed>>,
    /// The CUDA template (Tera), with its included fragments expanded.
    pub template: String,
    /// The text of its manifest.
    pub manifest: String,
    /// The folders of its C++ headers. The template has their text by now.
    pub headers: Vec<String>,
    /// A hash of every byte of the manifest and the template, and so of every included fragment.
    pub content_hash: String,
    derived: IndexMap<String, Expr>,
    entries: Entries,
    /// What the op's optional dimensions are in a case that leaves them out.
    implied: Vec<(&'static str, DimDefault)>,
}

/// One parameter of a search space.
#[derive(Debug, Clone)]
pub struct Param {
    /// The values to choose from, ordered so that neighbours are alike.
    pub values: Vec<i64>,
    /// The value in the default configuration.
    pub default: i64,
    /// A description of the parameter.
    pub about: String,
    /// The speed-up `[low, high]` to expect from a good change of this parameter: the prior of predictions.
    pub expect: [f64; 2],
    /// The causes of lost time against which a higher or a lower value helps, by the name of the diagnosis's rule.
    pub helps: IndexMap<String, Helps>,
    /// How a change of it acts, to group claims by.
    pub mechanism: Mechanism,
}

/// Which values of a parameter help against a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Helps {
    /// Higher values.
    More,
    /// Lower values.
    Less,
}

impl Helps {
    /// Returns whether a change from one value to another one helps.
    pub fn leads(self, from: i64, to: i64) -> bool {
        match self {
            Self::More => to > from,
            Self::Less => to < from,
        }
    }
}

/// A condition on parameters, dimensions and device limits, with the reason to show to users.
#[derive(Debug, Clone)]
pub struct Constraint {
    /// True for a valid configuration.
    pub expr: Expr,
    /// The reason for the constraint.
    pub why: String,
}

/// A configuration that is known to be fast for some dimensions, from sessions on other cases or from publications.
#[derive(Debug, Clone)]
pub struct Opening {
    /// True for these dimensions.
    pub when: Expr,
    /// The parameters that differ from the default configuration, with their values.
    pub set: IndexMap<String, i64>,
}

/// Why a configuration of a family cannot run on a case and device.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ConfigurationError {
    /// A constraint does not hold: the configuration is outside the space.
    #[error("`{expr}` does not hold: {why}")]
    Constraint {
        /// The constraint's text.
        expr: String,
        /// Its reason.
        why: String,
    },
    /// The manifest itself is wrong.
    #[error("{0}")]
    Manifest(String),
}

impl From<ExprError> for ConfigurationError {
    fn from(error: ExprError) -> Self {
        Self::Manifest(error.to_string())
    }
}

impl Family {
    /// Parses and validates a manifest. `template` is the text of its `kernel.cu.tera`, with its fragments. The error
    /// has one sentence for each mistake, all in one line.
    pub fn parse(manifest: &str, template: String) -> Result<Self, Error> {
        Self::read(manifest, template, |_| Ok(None)).map_err(|mistakes| Error::of_all(&mistakes))
    }

    /// Does the same, and also checks the names that belong to the op: dimensions, tensors and scalars. `find_op`
    /// returns an op by name. The error has all mistakes, each in one sentence.
    pub fn parse_with_op(
        manifest: &str,
        template: String,
        find_op: impl Fn(&str) -> Result<&'static dyn Op, Error>,
    ) -> Result<Self, Vec<String>> {
        Self::read(manifest, template, |name| find_op(name).map(Some))
    }

    fn read(
        manifest: &str,
        template: String,
        find_op: impl Fn(&str) -> Result<Option<&'static dyn Op>, Error>,
    ) -> Result<Self, Vec<String>> {
        let syntax = |error| vec![toml_text::one_line(toml_text::describe(manifest, &error))];
        let document = toml::de::DeTable::parse(manifest).map_err(syntax)?;
        let notes = Notes::new(manifest);
        toml_text::broken_lines(manifest, document.get_ref()).into_iter().for_each(|mistake| notes.add(mistake));
        let draft = Draft::read(document, &notes);
        let op = draft.op.as_deref().and_then(|name| {
            find_op(name).unwrap_or_else(|problem| {
                notes.add(problem);
                None
            })
        });
        limits::check(&draft, &notes);
        names::check(&draft, op, &notes);
        let optional = op.map(|op| op.optional_dims()).unwrap_or_default();
        let family = draft.into_family(manifest, template, optional);
        let mistakes = notes.into_mistakes();
        family.filter(|_| mistakes.is_empty()).ok_or(mistakes)
    }

    /// Returns the numbers of launches and of workspaces in the manifest.
    pub fn plan_entries(&self) -> (usize, usize) {
        (self.entries.launches.len(), self.entries.workspaces.len())
    }

    /// Returns the family's default configuration.
    pub fn defaults(&self) -> Params {
        self.params.iter().map(|(name, param)| (name.clone(), param.default)).collect()
    }

    /// Returns the configurations of the openings that apply to a case, whether they satisfy the constraints or not.
    pub fn openings_for(&self, case: &Case, dtype: Dtype, device: &DeviceInfo) -> Result<Vec<Params>, ExprError> {
        let mut found = Vec::new();
        for Opening { when, set } in &self.openings {
            let mut params = self.defaults();
            params.extend(set.clone());
            if when.boolean(&self.bindings(&params, case, dtype, device)?)? {
                found.push(params);
            }
        }
        Ok(found)
    }

    /// Returns the configuration that a person names by some of its parameters. The others have their defaults. The error names
    /// what is wrong, and what there is.
    pub fn configured(&self, named: &[(String, i64)]) -> Result<Params, Error> {
        let mut params = self.defaults();
        for (name, value) in named {
            let Some(param) = self.params.get(name) else {
                let hint = did_you_mean(name, self.params.keys().map(String::as_str));
                let known: Vec<&str> = self.params.keys().map(String::as_str).collect();
                return Err(error!(
                    "family `{}` has no parameter `{name}`{hint}; it has: {}",
                    self.name,
                    known.join(", ")
                ));
            };
            if !param.values.contains(value) {
                return Err(error!(
                    "{name}={value} is not one of the values of family `{}`: {:?}",
                    self.name, param.values
                ));
            }
            params.insert(name.clone(), *value);
        }
        Ok(params)
    }

    /// Tells whether the family can compute the workload on the device.
    pub fn fits(&self, workload: &Workload, device: &DeviceInfo) -> bool {
        self.op == workload.op.name()
            && self.dtypes.contains(&workload.dtype)
            && self.is_precise_enough(workload)
            && self.requires_sm <= device.sm
    }

    /// Returns why no configuration of the family can compute the workload on any device, apart from op and dtype. None
    /// if one may.
    pub fn excluded_by_compute(&self, workload: &Workload) -> Option<String> {
        let why = format!("It multiplies in {}, which the workload does not allow.", self.compute.name());
        (self.dtypes.contains(&workload.dtype) && !self.is_precise_enough(workload)).then_some(why)
    }

    fn is_precise_enough(&self, workload: &Workload) -> bool {
        self.compute.is_dtype() || self.compute == workload.compute
    }

    /// Returns the dimensions of `case` that are rendered into the source.
    pub fn specialization(&self, case: &Case) -> Dims {
        let sizes = self.sizes(case);
        self.constants.iter().filter_map(|name| Some((name.clone(), *sizes.get(name)?))).collect()
    }

    /// Returns those of the dimensions rendered into a source that it names in its first line.
    pub fn named_constants<'a>(&self, specialization: &'a Dims) -> impl Iterator<Item = (&'a String, &'a i64)> {
        let is_off = |name: &str| self.implied.iter().any(|(one, default)| *one == name && *default == DimDefault::Off);
        specialization.iter().filter(move |(name, value)| **value != 0 || !is_off(name))
    }

    /// Returns the integers that the template may use: specialization, parameters, and values derived from these alone.
    pub fn template_values(&self, specialization: &Dims, dtype: Dtype, params: &Params) -> Result<Bindings, ExprError> {
        let mut bindings = specialization.clone();
        bindings.insert("elem_bytes".to_owned(), dtype.bytes() as i64);
        bindings.extend(params.clone());
        for (name, expr) in &self.derived {
            match expr.int(&bindings) {
                Ok(value) => {
                    bindings.insert(name.clone(), value);
                }
                // The value depends on a dimension that is not constant. It is for the launch plan, not for the source.
                Err(error) if error.is_undefined_name() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(bindings)
    }

    /// Fills in the launch plan of a configuration, or says which constraint it violates.
    pub fn plan(
        &self,
        params: &Params,
        case: &Case,
        op: &dyn Op,
        dtype: Dtype,
        device: &DeviceInfo,
    ) -> Result<LaunchPlan, ConfigurationError> {
        let bindings = self.valid_bindings(params, case, dtype, device)?;
        self.entries.fill(&bindings, (op, dtype), &case.dims)
    }

    /// Returns the rules for the launches of any configuration, without the search space.
    pub fn plan_rules(&self) -> PlanRules {
        PlanRules {
            constants: self.constants.clone(),
            derived: self.derived.clone(),
            constraints: self.constraints.iter().map(|constraint| constraint.expr.clone()).collect(),
            entries: self.entries.clone(),
        }
    }

    /// Tells whether a configuration satisfies every constraint on a case and device. If it lacks some parameters, only
    /// constraints that can be evaluated without them count.
    pub fn check(
        &self,
        params: &Params,
        case: &Case,
        dtype: Dtype,
        device: &DeviceInfo,
    ) -> Result<(), ConfigurationError> {
        if self.listed.is_some() {
            return self.check_listed(params);
        }
        self.valid_bindings(params, case, dtype, device).map(|_| ())
    }

    /// Returns the constraints that a configuration violates on a case and device. If it lacks some parameters, only
    /// constraints that can be evaluated without them count. The error says what is wrong with the manifest.
    pub fn violated(
        &self,
        params: &Params,
        case: &Case,
        dtype: Dtype,
        device: &DeviceInfo,
    ) -> Result<Vec<&Constraint>, ExprError> {
        let bindings = self.bindings(params, case, dtype, device)?;
        let mut violated = Vec::new();
        for constraint in &self.constraints {
            match constraint.expr.boolean(&bindings) {
                Ok(true) => {}
                Ok(false) => violated.push(constraint),
                Err(error) if self.is_undecided(params, &error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(violated)
    }

    fn valid_bindings(
        &self,
        params: &Params,
        case: &Case,
        dtype: Dtype,
        device: &DeviceInfo,
    ) -> Result<Bindings, ConfigurationError> {
        self.check_listed(params)?;
        let bindings = self.bindings(params, case, dtype, device)?;
        for Constraint { expr, why } in &self.constraints {
            match expr.boolean(&bindings) {
                Ok(true) => {}
                Ok(false) => {
                    return Err(ConfigurationError::Constraint { expr: expr.text().to_owned(), why: why.clone() });
                }
                Err(error) if self.is_undecided(params, &error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(bindings)
    }

    /// Tells whether an expression could not be evaluated only because the configuration lacks some parameters.
    fn is_undecided(&self, params: &Params, error: &ExprError) -> bool {
        error.is_undefined_name() && !self.params.keys().all(|name| params.contains_key(name))
    }

    /// Returns the dimensions of a case, with those that it leaves out.
    fn sizes(&self, case: &Case) -> Dims {
        op::completed(&case.dims, self.implied.iter().copied())
    }

    /// Returns everything that constraints may name: dimensions, limits of the device, parameters and derived values.
    fn bindings(&self, params: &Params, case: &Case, dtype: Dtype, device: &DeviceInfo) -> Result<Bindings, ExprError> {
        let mut bindings = self.sizes(case);
        bindings.insert("elem_bytes".to_owned(), dtype.bytes() as i64);
        device.bind(&mut bindings);
        bindings.extend(params.clone());
        for (name, expr) in &self.derived {
            match expr.int(&bindings) {
                Ok(value) => drop(bindings.insert(name.clone(), value)),
                Err(error) if self.is_undecided(params, &error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(bindings)
    }
}

/// Hashes every byte of a manifest and a template.
fn content_hash_of(manifest: &str, template: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    // The length separates the manifest from the template.
    hasher.update(&manifest.len().to_le_bytes()).update(manifest.as_bytes()).update(template.as_bytes());
    hasher.finalize().to_hex().to_string()
}
