//! Reads the entries of a manifest: parameters, constraints, workspaces, tensor maps and launches.

use super::fields::{Fields, Notes};
use super::rules::{LaunchRule, TensorMapRule, When, WorkspaceRule, if_present, typed};
use super::{Constraint, Opening, Param};
use crate::domain::expr::{ExpectedType, Expr};
use crate::domain::family::plan::{Initial, SWIZZLES_BYTES};
use crate::domain::proposal::finding::RULES;
use crate::domain::text::names::did_you_mean;

/// Reads a parameter.
pub(super) fn param(name: &str, mut fields: Fields<'_, '_>) -> Option<Param> {
    let notes = fields.notes();
    let values = fields.required("values");
    let default = fields.required("default");
    let about = fields.required("about");
    let expect = fields.required("expect");
    let helps = fields.optional("helps").unwrap_or_default();
    let mechanism = fields.optional("mechanism").unwrap_or_default();
    fields.finish();
    let param = Param { values: values?, default: default?, about: about?, expect: expect?, helps, mechanism };
    param.check(name, notes);
    Some(param)
}

impl Param {
    fn check(&self, name: &str, notes: &Notes<'_>) {
        if !self.values.contains(&self.default) {
            notes.add(format!("parameter `{name}`: its default {} is not among its values", self.default));
        }
        let mut unique = self.values.clone();
        unique.sort_unstable();
        unique.dedup();
        if unique.len() != self.values.len() {
            notes.add(format!("parameter `{name}`: a value occurs twice"));
        }
        if !(self.expect[0] > 0.0 && self.expect[0] <= self.expect[1] && self.expect[1].is_finite()) {
            notes.add(format!("parameter `{name}`: `expect` must be [low, high] with 0 < low <= high"));
        }
        for rule in self.helps.keys().filter(|rule| !RULES.contains(&rule.as_str())) {
            let hint = did_you_mean(rule, RULES);
            notes
                .add(format!("parameter `{name}`: `helps` names `{rule}`, which is not a rule of the diagnosis{hint}"));
        }
        if !self.mechanism.is_of_a_parameter() {
            notes.add(format!("parameter `{name}`: `{}` is not a mechanism of a parameter", self.mechanism.name()));
        }
    }
}

/// Reads a constraint.
pub(super) fn constraint(mut fields: Fields<'_, '_>) -> Option<Constraint> {
    let expr = fields.expr("expr", ExpectedType::Bool);
    let why = fields.required("why");
    fields.finish();
    Some(Constraint { expr: expr?, why: why? })
}

/// Reads an opening.
pub(super) fn opening(mut fields: Fields<'_, '_>) -> Option<Opening> {
    let when = fields.expr("when", ExpectedType::Bool);
    let set = fields.required("set");
    fields.finish();
    Some(Opening { when: when?, set: set? })
}

/// An entry that has a name, as far as it could be read.
pub(super) struct Named<Rule> {
    pub(super) name: Option<String>,
    pub(super) rule: Option<Rule>,
}

impl<Rule> Named<Rule> {
    /// An entry that is not a table.
    pub(super) fn none() -> Self {
        Self { name: None, rule: None }
    }
}

/// Reads a workspace.
pub(super) fn workspace(mut fields: Fields<'_, '_>) -> Named<WorkspaceRule> {
    let name: Option<String> = fields.required("name");
    let dtype = fields.required("dtype");
    let elements = fields.expr("elements", ExpectedType::Int);
    let initial = fields.optional("initial").unwrap_or(Initial::Undefined);
    let when = when(&mut fields);
    fields.finish();
    let rule = || Some(WorkspaceRule { name: name.clone()?, when, dtype: dtype?, elements: elements?, initial });
    Named { rule: rule(), name }
}

/// A tensor map as far as it could be read, with the name of its tensor.
pub(super) struct MapEntry {
    pub(super) entry: Named<TensorMapRule>,
    pub(super) tensor: Option<String>,
}

/// Reads a tensor map.
pub(super) fn tensor_map(mut fields: Fields<'_, '_>) -> MapEntry {
    let notes = fields.notes();
    let name: Option<String> = fields.required("name");
    let tensor: Option<String> = fields.required("tensor");
    let sizes: Option<Vec<String>> = fields.required("sizes");
    let strides: Vec<String> = fields.optional("strides").unwrap_or_default();
    let box_sizes: Option<Vec<String>> = fields.required("box");
    let swizzle_bytes = fields.optional("swizzle").unwrap_or(0);
    let when = when(&mut fields);
    let shown = name.as_deref().unwrap_or("?");
    if let (Some(sizes), Some(box_sizes)) = (&sizes, &box_sizes) {
        let rank = sizes.len();
        if !(1..=5).contains(&rank) || box_sizes.len() != rank || strides.len() + 1 != rank {
            let rule = "give one to five `sizes`, as many for `box`, and one stride fewer, innermost first";
            notes.add(format!("tensor map `{shown}`: {rule}"));
        }
    }
    if !SWIZZLES_BYTES.contains(&swizzle_bytes) {
        notes.add(format!("tensor map `{shown}`: swizzle {swizzle_bytes} is not 0, 32, 64 or 128"));
    }
    let sizes = sizes.and_then(|texts| fields.ints(&texts));
    let strides = fields.ints(&strides);
    let box_sizes = box_sizes.and_then(|texts| fields.ints(&texts));
    fields.finish();
    let rule = || {
        Some(TensorMapRule {
            name: name.clone()?,
            when,
            tensor: tensor.clone()?,
            sizes: sizes?,
            strides: strides?,
            box_sizes: box_sizes?,
            swizzle_bytes,
        })
    };
    MapEntry { entry: Named { rule: rule(), name }, tensor }
}

/// A launch as far as it could be read, with the names of its arguments.
pub(super) struct LaunchEntry {
    pub(super) entry: Named<LaunchRule>,
    pub(super) args: Vec<String>,
}

/// Reads a launch.
pub(super) fn launch(mut fields: Fields<'_, '_>) -> LaunchEntry {
    let kernel: Option<String> = fields.required("kernel");
    let shown = kernel.clone().unwrap_or_else(|| "?".to_owned());
    let grid: Option<Vec<String>> = fields.required("grid");
    let block: Option<Vec<String>> = fields.required("block");
    let shared = fields.optional_expr("shared", ExpectedType::Int);
    let cluster: Option<Vec<String>> = fields.optional("cluster");
    let programmatic = fields.optional("programmatic").unwrap_or(false);
    let prepare = fields.optional("prepare").unwrap_or(false);
    let when = when(&mut fields);
    let args: Option<Vec<String>> = fields.required("args");
    let grid = grid.and_then(|texts| extents(&fields, &shown, "grid", &texts));
    let block = block.and_then(|texts| extents(&fields, &shown, "block", &texts));
    let cluster = cluster.and_then(|texts| extents(&fields, &shown, "cluster", &texts));
    fields.finish();
    let names = args.iter().flatten().map(|arg| if_present(typed(arg).1).0.to_owned()).collect();
    let rule = || {
        Some(LaunchRule {
            kernel: kernel.clone()?,
            when,
            grid: grid?,
            block: block?,
            shared,
            cluster,
            programmatic,
            prepare,
            args: args?,
        })
    };
    LaunchEntry { entry: Named { rule: rule(), name: kernel }, args: names }
}

fn extents(fields: &Fields<'_, '_>, kernel: &str, what: &str, texts: &[String]) -> Option<Vec<Expr>> {
    if texts.is_empty() || texts.len() > 3 {
        fields.notes().add(format!("launch `{kernel}`: `{what}` needs one to three extents"));
    }
    fields.ints(texts)
}

fn when(fields: &mut Fields<'_, '_>) -> When {
    When(fields.optional_expr("when", ExpectedType::Flag))
}
