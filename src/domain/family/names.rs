//! Checks the names in a manifest: those that it gives, and those that it uses.

use std::collections::HashSet;

use super::FRAGMENTS_FOLDER;
use super::draft::Draft;
use super::fields::Notes;
use crate::domain::expr::Expr;
use crate::domain::op::{Dims, Dtype, Op};
use crate::domain::text::names::{did_you_mean, is_file_name, is_identifier};

/// The integers that are bound in every expression, in addition to dimensions, parameters and derived values.
const BOUND: [&str; 5] = ["elem_bytes", "smem_limit", "max_threads", "sms", "sm"];

/// The names that an op gives to a manifest.
struct OpNames {
    op: &'static str,
    dims: Vec<&'static str>,
    tensors: Vec<String>,
    scalars: Vec<&'static str>,
}

impl OpNames {
    fn of(op: &dyn Op) -> Self {
        // The names of tensors and scalars do not depend on the sizes, but for optional tensors.
        let dims: Dims = op.dims().iter().map(|dim| (dim.name.to_owned(), dim.range.0)).collect();
        let optional = op.optional_tensors().iter().map(|name| (*name).to_owned());
        Self {
            op: op.name(),
            dims: op.all_dims().into_iter().map(|dim| dim.name).collect(),
            tensors: op.tensors(&dims, Dtype::F16).into_iter().map(|tensor| tensor.name).chain(optional).collect(),
            scalars: op.scalars(&dims).into_iter().map(|(name, _)| name).collect(),
        }
    }

    fn has(&self, name: &str) -> bool {
        self.dims.contains(&name) || self.scalars.contains(&name) || self.tensors.iter().any(|tensor| tensor == name)
    }
}

/// Checks every name of a manifest. Without its op, names that may be the op's are not checked.
pub(super) fn check(draft: &Draft, op: Option<&dyn Op>, notes: &Notes<'_>) {
    check_given(draft, notes);
    check_order(draft, notes);
    let Some(names) = op.map(OpNames::of) else { return };
    check_against(draft, &names, notes);
    if draft.has_all_names {
        check_exprs(draft, &names, notes);
        check_args(draft, &names, notes);
    }
}

/// Checks the names that the manifest gives.
fn check_given(draft: &Draft, notes: &Notes<'_>) {
    if let Some(name) = draft.name.as_ref().filter(|name| !is_file_name(name)) {
        notes.add(format!("name `{name}`: use 1 to 64 of a-z, 0-9 and `-`, because it is a folder name"));
    }
    if draft.name.as_deref() == Some(FRAGMENTS_FOLDER) {
        notes.add(format!("name `{FRAGMENTS_FOLDER}`: shared fragments have that folder, so give the family another"));
    }
    let own = || draft.params.keys().chain(draft.derived.keys()).chain(draft.buffers());
    let kernels = draft.launches.iter().filter_map(|launch| launch.entry.name.as_ref());
    for name in own().chain(kernels).filter(|name| !is_identifier(name)) {
        notes.add(format!("`{name}`: use 1 to 64 letters, digits and `_`, because it is used in the source"));
    }
    for name in own().filter(|name| BOUND.contains(&name.as_str()) || *name == "DTYPE") {
        notes.add(format!("`{name}` is a reserved name: rename your value"));
    }
    for name in draft.derived.keys().filter(|name| draft.params.contains_key(*name)) {
        notes.add(format!("`{name}` is both a parameter and derived: rename one"));
    }
    let mut seen: HashSet<&String> = draft.params.keys().chain(draft.derived.keys()).collect();
    for name in draft.buffers().filter(|name| !seen.insert(name)) {
        notes.add(format!("`{name}` names two things: give the workspace or tensor map another name"));
    }
    for (name, value) in draft.openings.iter().flatten().flat_map(|opening| &opening.set) {
        match draft.params.get(name) {
            None => notes.add(format!("an opening sets `{name}`, which is not a parameter")),
            Some(Some(param)) if !param.values.contains(value) => {
                notes.add(format!("an opening sets `{name}` to {value}, which is not among its values"));
            }
            Some(_) => {}
        }
    }
    if draft.dtypes.as_ref().is_some_and(Vec::is_empty) {
        notes.add("`dtypes` is empty: list the element types that the kernel supports");
    }
    let dtypes = draft.dtypes.iter().flatten();
    if let Some(problem) = dtypes.filter_map(|dtype| draft.compute.check(*dtype).err()).next() {
        notes.add(problem);
    }
    match draft.launches.first() {
        None => notes.add("it has no [[launch]]: add at least one"),
        Some(first) => {
            if let Some(problem) = first.entry.rule.as_ref().and_then(super::rules::LaunchRule::check_first) {
                notes.add(problem);
            }
        }
    }
}

/// Checks that derived values use only earlier ones.
fn check_order(draft: &Draft, notes: &Notes<'_>) {
    for (at, (name, expr)) in draft.derived.iter().enumerate() {
        for used in expr.iter().flat_map(Expr::names) {
            if draft.derived.get_index_of(&used).is_some_and(|other| other >= at) {
                notes.add(format!("derived value `{name}` uses `{used}`, which is not defined before it: move it up"));
            }
        }
    }
}

/// Checks that the manifest's names are not the op's, and that the constants are.
fn check_against(draft: &Draft, names: &OpNames, notes: &Notes<'_>) {
    for name in draft.params.keys().filter(|name| names.dims.contains(&name.as_str())) {
        notes.add(format!("parameter `{name}` hides the dimension of that name: rename it"));
    }
    for name in draft.derived.keys().filter(|name| names.dims.contains(&name.as_str())) {
        notes.add(format!("derived value `{name}` hides the dimension of that name: rename it"));
    }
    for name in draft.buffers().filter(|name| names.has(name)) {
        let why = "the op or the device has something of that name: give the workspace or tensor map another";
        notes.add(format!("`{name}`: {why}"));
    }
    for name in draft.constants.iter().flatten().filter(|name| !names.dims.contains(&name.as_str())) {
        let hint = did_you_mean(name, names.dims.iter().copied());
        notes.add(format!("`constants` names `{name}`, which is not a dimension of {}{hint}", names.op));
    }
}

/// Checks the names in expressions.
fn check_exprs(draft: &Draft, names: &OpNames, notes: &Notes<'_>) {
    let bound: HashSet<&str> = ints(draft, names).collect();
    for expr in draft.derived.values().flatten().chain(&draft.exprs) {
        for name in expr.names().into_iter().filter(|name| !bound.contains(name.as_str())) {
            if notes.is_full() {
                return;
            }
            let hint = did_you_mean(&name, ints(draft, names));
            notes.add(format!("expression `{}`: there is no `{name}`{hint}", expr.text()));
        }
    }
}

/// Checks what launches and tensor maps refer to.
fn check_args(draft: &Draft, names: &OpNames, notes: &Notes<'_>) {
    for map in &draft.tensor_maps {
        let described = || names.tensors.iter().chain(draft.workspaces.iter().filter_map(|entry| entry.name.as_ref()));
        if let Some(tensor) = map.tensor.as_ref().filter(|tensor| described().all(|known| known != *tensor)) {
            let hint = did_you_mean(tensor, described().map(String::as_str));
            let shown = map.entry.name.as_deref().unwrap_or("?");
            notes.add(format!("tensor map `{shown}`: there is no tensor or workspace `{tensor}`{hint}"));
        }
    }
    let buffers = || draft.buffers().map(String::as_str).chain(names.tensors.iter().map(String::as_str));
    let known = || buffers().chain(names.scalars.iter().copied()).chain(ints(draft, names));
    let all: HashSet<&str> = known().collect();
    for arg in draft.launches.iter().flat_map(|launch| &launch.args).filter(|arg| !all.contains(arg.as_str())) {
        if notes.is_full() {
            return;
        }
        notes.add(format!("launch argument `{arg}` names nothing{}", did_you_mean(arg, known())));
    }
}

/// Returns the names of all integers.
fn ints<'a>(draft: &'a Draft, names: &'a OpNames) -> impl Iterator<Item = &'a str> {
    let own = draft.params.keys().chain(draft.derived.keys()).map(String::as_str);
    own.chain(names.dims.iter().copied()).chain(BOUND)
}
