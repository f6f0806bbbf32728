//! Compares the parameters of kernels, as the source has them, with the arguments of a launch plan.

use crate::domain::code::ptx;
use crate::domain::family::plan::{Arg, Launch, LaunchPlan, Scalar, ScalarValue};
use crate::domain::op::TensorSpec;
use crate::domain::text::counted::counted;
use crate::intake::{self, Kernel, Kind, Parameter};

/// Returns what disagrees, each with the line of the kernel in the source. Kernels that only a macro makes, and types of
/// the source's own, are not examined.
pub(super) fn mistakes(source: &str, plan: &LaunchPlan, tensors: &[TensorSpec]) -> Vec<(usize, String)> {
    if ptx::is_ptx(source) {
        return plan.launches.iter().filter_map(|launch| of_ptx(source, launch)).collect();
    }
    let kernels = intake::kernels(source);
    let mut found = Vec::new();
    for launch in &plan.launches {
        let Some(kernel) = kernels.iter().find(|kernel| kernel.name == launch.kernel && !kernel.is_template) else {
            continue;
        };
        found.extend(of_launch(kernel, launch, tensors).into_iter().map(|mistake| (kernel.line, mistake)));
    }
    found
}

/// Says what disagrees with a kernel in PTX, whose parameters have sizes and no names.
fn of_ptx(source: &str, launch: &Launch) -> Option<(usize, String)> {
    let parameters = ptx::parameters(source, &launch.kernel)?;
    if parameters.len() != launch.args.len() {
        let args: Vec<&str> = launch.args.iter().map(name_of).collect();
        let line = source.lines().position(|line| line.contains(".entry") && line.contains(&launch.kernel));
        return Some((line.map_or(1, |line| line + 1), disagreeing(&launch.kernel, &parameters, &args)));
    }
    None
}

fn disagreeing(name: &str, parameters: &[&str], args: &[&str]) -> String {
    format!(
        "`{name}` has {} ({}), but its launch passes {} ({})",
        counted(parameters.len(), "parameter"),
        parameters.join(", "),
        counted(args.len(), "argument"),
        args.join(", ")
    )
}

fn of_launch(kernel: &Kernel, launch: &Launch, tensors: &[TensorSpec]) -> Vec<String> {
    let (name, wanted, passed) = (&kernel.name, kernel.parameters.len(), launch.args.len());
    if wanted != passed {
        let parameters: Vec<&str> = kernel.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
        let args: Vec<&str> = launch.args.iter().map(name_of).collect();
        return vec![disagreeing(name, &parameters, &args)];
    }
    let pairs = (1..).zip(kernel.parameters.iter().zip(&launch.args));
    let wrong = pairs.filter_map(|(place, (parameter, arg))| {
        let what = disagreement(parameter, arg, tensors)?;
        let Parameter { type_text, name: own, .. } = parameter;
        Some(format!("argument {place} of `{name}` is {what}, but its parameter is `{type_text} {own}`"))
    });
    wrong.collect()
}

fn name_of(arg: &Arg) -> &str {
    match arg {
        Arg::Tensor(name) | Arg::Workspace(name) => name,
        Arg::Scalar(scalar) => &scalar.name,
        Arg::TensorMap(map) => &map.name,
    }
}

/// Describes an argument that its parameter cannot take. None if it can, or if the parameter's type is not known.
fn disagreement(parameter: &Parameter, arg: &Arg, tensors: &[TensorSpec]) -> Option<String> {
    let is_pointer = parameter.type_text.contains('*');
    match arg {
        Arg::Tensor(name) => {
            let tensor = tensors.iter().find(|tensor| tensor.name == *name)?;
            let described = format!("the tensor `{name}` of {}", tensor.dtype.name());
            match parameter.kind {
                Some(Kind::Size | Kind::Scalar) => Some(described),
                Some(Kind::Tensor { is_output: false, .. }) if tensor.role.is_written() => {
                    Some(format!("the {} `{name}`", if tensor.role.is_read() { "in-place tensor" } else { "output" }))
                }
                // The kernel casts the vectors before it uses elements.
                Some(Kind::Tensor { .. }) if parameter.may_hold(tensor.dtype) => None,
                // Whole numbers may stand for anything that has their size.
                Some(Kind::Tensor { dtype, .. }) if !dtype.is_integer() && dtype != tensor.dtype => Some(described),
                Some(Kind::Tensor { dtype, .. }) if dtype != tensor.dtype && tensor.dtype.is_integer() => {
                    (dtype.bytes() != tensor.dtype.bytes()).then_some(described)
                }
                _ => None,
            }
        }
        Arg::Workspace(name) => {
            let is_number = matches!(parameter.kind, Some(Kind::Size | Kind::Scalar));
            is_number.then(|| format!("the workspace `{name}`"))
        }
        Arg::Scalar(Scalar { name, value }) => {
            let (kind, described) = match value {
                ScalarValue::I32(_) => (Kind::Size, format!("the int `{name}`")),
                ScalarValue::F32(_) => (Kind::Scalar, format!("the float `{name}`")),
                ScalarValue::I64(_) => (Kind::Size, format!("the long long `{name}`")),
                ScalarValue::F64(_) => (Kind::Scalar, format!("the double `{name}`")),
            };
            let is_other = matches!(parameter.kind, Some(Kind::Size | Kind::Scalar)) && parameter.kind != Some(kind);
            (is_pointer || is_other).then_some(described)
        }
        Arg::TensorMap(map) => {
            let is_known = parameter.kind.is_some();
            is_known.then(|| format!("the tensor map `{}`", map.name))
        }
    }
}
