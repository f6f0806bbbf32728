//! The rules by which a launch plan follows from dimensions, parameters and the device. A committed winner keeps them, so that its
//! source can be launched on other shapes when its family has changed.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::ConfigurationError;
use super::rules::{ArgScope, LaunchRule, TensorMapRule, When, WorkspaceRule};
use crate::domain::device::DeviceInfo;
use crate::domain::expr::{Bindings, Expr};
use crate::domain::family::plan::LaunchPlan;
use crate::domain::op::{self, Dims, Dtype, Op};
use crate::domain::variant::Params;

/// The most bytes of all workspaces of a plan. A virtual GPU has them in the host's memory.
const MAX_WORKSPACE_BYTES: usize = 8 << 30;

/// What a manifest says of the launches of its source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanRules {
    /// The dimensions that are numbers in the source: it computes no other values of them.
    pub constants: Vec<String>,
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub(super) derived: IndexMap<String, Expr>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) constraints: Vec<Expr>,
    #[serde(flatten)]
    pub(super) entries: Entries,
}

impl PlanRules {
    /// Fills in the launch plan of a configuration on some dimensions. The error says why there is none.
    pub fn plan(
        &self,
        params: &Params,
        dims: &Dims,
        (op, dtype): (&dyn Op, Dtype),
        device: &DeviceInfo,
    ) -> Result<LaunchPlan, ConfigurationError> {
        let mut bindings = known(params, dims, (op, dtype), device);
        for (name, expr) in &self.derived {
            bindings.insert(name.clone(), expr.int(&bindings)?);
        }
        for expr in &self.constraints {
            if !expr.boolean(&bindings)? {
                let why = "The source cannot compute these dimensions.".to_owned();
                return Err(ConfigurationError::Constraint { expr: expr.text().to_owned(), why });
            }
        }
        self.entries.fill(&bindings, (op, dtype), dims)
    }
}

/// Returns what expressions may name apart from derived values.
pub(super) fn known(params: &Params, dims: &Dims, (op, dtype): (&dyn Op, Dtype), device: &DeviceInfo) -> Bindings {
    let mut bindings = op::completed(dims, op.optional_dims().iter().map(|one| (one.dim.name, one.default)));
    bindings.insert("elem_bytes".to_owned(), dtype.bytes() as i64);
    device.bind(&mut bindings);
    bindings.extend(params.clone());
    bindings
}

/// Workspaces, tensor maps and launches, in the manifest's order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Entries {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) workspaces: Vec<WorkspaceRule>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) tensor_maps: Vec<TensorMapRule>,
    pub(super) launches: Vec<LaunchRule>,
}

impl Entries {
    /// Fills in a launch plan. `bindings` has all that the expressions name.
    pub(super) fn fill(
        &self,
        bindings: &Bindings,
        (op, dtype): (&dyn Op, Dtype),
        dims: &Dims,
    ) -> Result<LaunchPlan, ConfigurationError> {
        let (workspaces, no_workspaces) = applicable(&self.workspaces, |rule| &rule.when, bindings)?;
        let (tensor_maps, no_maps) = applicable(&self.tensor_maps, |rule| &rule.when, bindings)?;
        let (launches, _) = applicable(&self.launches, |rule| &rule.when, bindings)?;
        let (preparation, launches): (Vec<_>, Vec<_>) = launches.into_iter().partition(|rule| rule.prepare);
        if launches.is_empty() {
            return Err(ConfigurationError::Manifest(
                "every [[launch]] prepares weights or is omitted by its `when`: at least one must remain".to_owned(),
            ));
        }
        let no_workspaces = no_workspaces.iter().map(|rule| (rule.name.as_str(), &rule.when));
        let left_out: Vec<_> =
            no_workspaces.chain(no_maps.iter().map(|rule| (rule.name.as_str(), &rule.when))).collect();
        let tensors = op.tensors(dims, dtype);
        let scope = ArgScope {
            bindings,
            tensors: &tensors,
            optional_tensors: op.optional_tensors(),
            scalars: &op.scalars(dims),
            workspaces: &workspaces,
            tensor_maps: &tensor_maps,
            left_out: &left_out,
        };
        let own = self.workspaces.iter().map(|rule| &rule.name).chain(self.tensor_maps.iter().map(|rule| &rule.name));
        own.into_iter().try_for_each(|name| scope.check_free(name))?;
        let filled =
            |rules: Vec<&LaunchRule>| rules.iter().map(|rule| rule.fill(&scope)).collect::<Result<Vec<_>, _>>();
        let (preparation, launches) = (filled(preparation)?, filled(launches)?);
        let workspaces = workspaces.iter().map(|rule| rule.fill(bindings)).collect::<Result<_, _>>()?;
        let plan = LaunchPlan { workspaces, preparation, launches };
        plan.check(&tensors, op.weights()).map_err(|mistake| ConfigurationError::Manifest(mistake.into()))?;
        let bytes = plan.workspaces.iter().fold(0_usize, |sum, workspace| sum.saturating_add(workspace.bytes));
        if bytes > MAX_WORKSPACE_BYTES {
            return Err(ConfigurationError::Manifest(format!(
                "its workspaces have {bytes} bytes together, and at most {MAX_WORKSPACE_BYTES} are allowed"
            )));
        }
        Ok(plan)
    }
}

/// Separates the entries that apply to a configuration from those that do not.
fn applicable<'a, Rule>(
    rules: &'a [Rule],
    when: impl Fn(&Rule) -> &When,
    bindings: &Bindings,
) -> Result<(Vec<&'a Rule>, Vec<&'a Rule>), ConfigurationError> {
    let (mut applicable, mut left_out) = (Vec::new(), Vec::new());
    for rule in rules {
        if when(rule).holds(bindings)? { applicable.push(rule) } else { left_out.push(rule) }
    }
    Ok((applicable, left_out))
}
