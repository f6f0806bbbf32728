//! A family in Python: its constraints and its launch over its parameters, and the launch plan of a source over the dimensions that
//! are not constants in it.

use indexmap::IndexMap;
use serde::Serialize;

use super::plan_rules::{self, PlanRules};
use super::rules::{LaunchRule, TensorMapRule};
use super::{ConfigurationError, Family};
use crate::domain::device::DeviceInfo;
use crate::domain::expr::{Bindings, Expr};
use crate::domain::family::plan::{Arg, Initial, Launch, LaunchPlan, ScalarValue, TensorMap};
use crate::domain::op::{DimDefault, Dims, Dtype, Op, OptionalDim};
use crate::domain::text::names::is_identifier;
use crate::domain::variant::Params;
use crate::domain::workload::Case;
use crate::error::{Error, error};

/// What other tuners need to know of a family on a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InPython {
    /// Each constraint with the parameters in it.
    pub constraints: Vec<(String, Vec<String>)>,
    /// Blocks of the first launch along x, y and z.
    pub grid: Vec<String>,
    /// Threads of a block along x, y and z.
    pub block: Vec<String>,
}

impl Family {
    /// Writes constraints and launch for a case on a device. The error is one sentence.
    pub fn in_python(&self, case: &Case, dtype: Dtype, device: &DeviceInfo) -> Result<InPython, Error> {
        if self.listed.is_some() {
            return Err(error!("family `{}` lists its configurations, which are no conditions", self.name));
        }
        let mut numbers = self.sizes(case);
        numbers.insert("elem_bytes".to_owned(), dtype.bytes() as i64);
        device.bind(&mut numbers);
        let write = |expr: &Expr| {
            let text = expr.in_python(&|name| self.name_in_python(name, &numbers));
            text.ok_or_else(|| error!("family `{}`: `{}` cannot be written in Python", self.name, expr.text()))
        };
        let all = |exprs: &[Expr]| exprs.iter().map(write).collect::<Result<Vec<_>, _>>();
        let mut launches = self.entries.launches.iter().filter(|launch| !launch.prepare);
        let launch = launches.next().ok_or_else(|| error!("family `{}` launches nothing", self.name))?;
        let constraint = |expr: &Expr| Ok((write(expr)?, self.params_in(expr)));
        Ok(InPython {
            constraints: self.constraints.iter().map(|one| constraint(&one.expr)).collect::<Result<_, Error>>()?,
            grid: all(&launch.grid)?,
            block: all(&launch.block)?,
        })
    }

    fn name_in_python(&self, name: &str, numbers: &Bindings) -> Option<String> {
        if self.params.contains_key(name) {
            return Some(name.to_owned());
        }
        match (numbers.get(name), self.derived.get_index_of(name)) {
            (Some(number), _) => Some(number.to_string()),
            // A derived value names only those before it, so this ends.
            (None, Some(_)) => self.derived[name].in_python(&|name| self.name_in_python(name, numbers)),
            (None, None) => None,
        }
    }

    /// Returns the parameters on which an expression depends, in the manifest's order.
    fn params_in(&self, expr: &Expr) -> Vec<String> {
        let mut names = expr.names();
        let mut at = 0;
        while let Some(name) = names.get_index(at).cloned() {
            names.extend(self.derived.get(&name).into_iter().flat_map(Expr::names));
            at += 1;
        }
        self.params.keys().filter(|name| names.contains(*name)).cloned().collect()
    }
}

/// A launch plan whose numbers are expressions over dimensions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlanInPython {
    /// Derived values, each over dimensions and those before it.
    pub derived: Vec<(String, String)>,
    /// What must be true for the plan to apply.
    pub conditions: Vec<String>,
    /// The workspaces.
    pub workspaces: Vec<WorkspaceInPython>,
    /// The launches in stream order, under the names `preparation` and `launches`. Without a preparation, only the latter.
    pub parts: Vec<(&'static str, Vec<LaunchInPython>)>,
}

/// A workspace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorkspaceInPython {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub bytes: String,
    /// What it holds before the first launch.
    pub initial: Initial,
}

/// A launch.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LaunchInPython {
    /// The kernel's name.
    pub kernel: String,
    /// Blocks along x, y and z.
    pub grid: Vec<String>,
    /// Threads along x, y and z.
    pub block: Vec<String>,
    /// Bytes of dynamic shared memory.
    pub shared_bytes: String,
    /// Blocks of a cluster along x, y and z. None if it has none.
    pub cluster: Option<Vec<String>>,
    /// Whether it may start before the launch before it has ended.
    pub is_programmatic: bool,
    /// Its arguments, as Python dictionaries.
    pub args: Vec<String>,
}

impl PlanRules {
    /// Writes the launch plan in Python, over those of the dimensions `called` that are not constants. `dims`: those of the case whose
    /// source it is; where another `when` holds, the plan does not apply. None if Python has no such operation.
    pub fn in_python(
        &self,
        params: &Params,
        (dims, called): (&Dims, &[&'static str]),
        (op, dtype): (&dyn Op, Dtype),
        device: &DeviceInfo,
    ) -> Result<Option<PlanInPython>, ConfigurationError> {
        let plan = self.plan(params, dims, (op, dtype), device)?;
        let mut numbers = plan_rules::known(params, dims, (op, dtype), device);
        for (name, expr) in &self.derived {
            numbers.insert(name.clone(), expr.int(&numbers)?);
        }
        let is_free = |name: &&str| !self.constants.iter().any(|constant| constant == name);
        let mut open: IndexMap<String, String> =
            called.iter().filter(|name| is_free(name)).map(|name| ((*name).to_owned(), (*name).to_owned())).collect();
        // A dimension that calls leave out is the same as another one, or a number.
        for OptionalDim { dim, default } in op.optional_dims().iter().filter(|one| !called.contains(&one.dim.name)) {
            if let DimDefault::Same(other) = default
                && let Some(name) = open.get(*other).filter(|_| is_free(&dim.name)).cloned()
            {
                open.insert(dim.name.to_owned(), name);
            }
        }
        Ok(Writer { rules: self, numbers, open, plan: &plan }.plan())
    }
}

/// Writes the expressions of a plan.
struct Writer<'a> {
    rules: &'a PlanRules,
    /// Everything that expressions name, on the case.
    numbers: Bindings,
    /// The names whose values follow from a call, as Python has them. All others are numbers.
    open: IndexMap<String, String>,
    plan: &'a LaunchPlan,
}

impl Writer<'_> {
    fn plan(mut self) -> Option<PlanInPython> {
        let rules = self.rules;
        let mut derived = Vec::new();
        for (name, expr) in &rules.derived {
            if !self.is_open(expr) {
                continue;
            }
            // A sidecar is data of a project: no text of it becomes code.
            if !is_identifier(name) {
                return None;
            }
            derived.push((name.clone(), self.write(expr)?));
            self.open.insert(name.clone(), name.clone());
        }
        let entries = &rules.entries;
        let whens =
            entries.workspaces.iter().map(|rule| &rule.when).chain(entries.tensor_maps.iter().map(|rule| &rule.when));
        let whens = whens.chain(entries.launches.iter().map(|rule| &rule.when));
        let mut conditions = self.all(rules.constraints.iter().filter(|expr| self.is_open(expr)))?;
        for when in whens.filter(|when| when.0.as_ref().is_some_and(|expr| self.is_open(expr))) {
            let text = self.write(when.0.as_ref()?)?;
            conditions.push(if when.holds(&self.numbers).ok()? { text } else { format!("(not {text})") });
        }
        let workspaces = self.plan.workspaces.iter().map(|filled| {
            let rule = entries.workspaces.iter().find(|rule| rule.name == filled.name)?;
            let bytes = format!("{} * {}", rule.dtype.bytes(), self.write(&rule.elements)?);
            Some(WorkspaceInPython { name: filled.name.clone(), bytes, initial: filled.initial })
        });
        let workspaces = workspaces.collect::<Option<_>>()?;
        let part = |name: &'static str, prepares: bool, filled: &[Launch]| {
            let rules = entries.launches.iter().filter(|rule| rule.prepare == prepares);
            let rules = rules.filter(|rule| rule.when.holds(&self.numbers).unwrap_or(false));
            let launches = rules.zip(filled).map(|(rule, filled)| self.launch(rule, filled));
            launches.collect::<Option<Vec<_>>>().map(|launches| (name, launches))
        };
        let preparation = part("preparation", true, &self.plan.preparation)?;
        let launches = part("launches", false, &self.plan.launches)?;
        let parts = [preparation, launches].into_iter().filter(|(_, launches)| !launches.is_empty()).collect();
        Some(PlanInPython { derived, conditions, workspaces, parts })
    }

    fn launch(&self, rule: &LaunchRule, filled: &Launch) -> Option<LaunchInPython> {
        let sizes = |exprs: &[Expr]| {
            let mut sizes = self.all(exprs)?;
            sizes.resize(3, "1".to_owned());
            Some(sizes)
        };
        let cluster = match &rule.cluster {
            Some(exprs) => Some(sizes(exprs)?),
            None => None,
        };
        Some(LaunchInPython {
            kernel: rule.kernel.clone(),
            grid: sizes(&rule.grid)?,
            block: sizes(&rule.block)?,
            shared_bytes: rule.shared.as_ref().map_or_else(|| Some("0".to_owned()), |expr| self.write(expr))?,
            cluster,
            is_programmatic: rule.programmatic,
            args: filled.args.iter().map(|arg| self.arg(arg)).collect::<Option<_>>()?,
        })
    }

    fn arg(&self, arg: &Arg) -> Option<String> {
        Some(match arg {
            Arg::Tensor(name) => format!("{{\"tensor\": \"{name}\"}}"),
            Arg::Workspace(name) => format!("{{\"workspace\": \"{name}\"}}"),
            Arg::Scalar(scalar) if !is_identifier(&scalar.name) => return None,
            Arg::TensorMap(map) if !is_identifier(&map.name) => return None,
            Arg::Scalar(scalar) => {
                let whole = |value: String| self.open.get(&scalar.name).cloned().unwrap_or(value);
                let (of_type, value) = match scalar.value {
                    ScalarValue::I32(value) => ("i32", whole(value.to_string())),
                    ScalarValue::I64(value) => ("i64", whole(value.to_string())),
                    ScalarValue::F32(value) if value.is_finite() => ("f32", format!("{value:?}")),
                    ScalarValue::F64(value) if value.is_finite() => ("f64", format!("{value:?}")),
                    ScalarValue::F32(_) | ScalarValue::F64(_) => return None,
                };
                format!(
                    "{{\"scalar\": {{\"name\": \"{}\", \"type\": \"{of_type}\", \"value\": {value}}}}}",
                    scalar.name
                )
            }
            Arg::TensorMap(map) => {
                let rule = self.rules.entries.tensor_maps.iter().find(|rule| rule.name == map.name)?;
                format!("{{\"tensor_map\": {}}}", self.tensor_map(rule, map)?)
            }
        })
    }

    fn tensor_map(&self, rule: &TensorMapRule, filled: &TensorMap) -> Option<String> {
        let bytes = filled.dtype.bytes();
        let strides = self.all(&rule.strides)?.into_iter().map(|stride| format!("{bytes} * {stride}"));
        Some(format!(
            "{{\"name\": \"{}\", \"tensor\": \"{}\", \"dtype\": \"{}\", \"sizes\": [{}], \"stride_bytes\": [{}], \
             \"box\": [{}], \"swizzle_bytes\": {}}}",
            rule.name,
            rule.tensor,
            filled.dtype.name(),
            self.all(&rule.sizes)?.join(", "),
            strides.collect::<Vec<_>>().join(", "),
            self.all(&rule.box_sizes)?.join(", "),
            rule.swizzle_bytes
        ))
    }

    fn is_open(&self, expr: &Expr) -> bool {
        expr.names().iter().any(|name| self.open.contains_key(name))
    }

    fn all<'e>(&self, exprs: impl IntoIterator<Item = &'e Expr>) -> Option<Vec<String>> {
        exprs.into_iter().map(|expr| self.write(expr)).collect()
    }

    fn write(&self, expr: &Expr) -> Option<String> {
        match self.is_open(expr) {
            true => expr
                .in_python(&|name| self.open.get(name).cloned().or_else(|| Some(self.numbers.get(name)?.to_string()))),
            false => expr.int(&self.numbers).ok().map(|number| number.to_string()),
        }
    }
}
