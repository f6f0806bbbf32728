//! Kernels that another compiler has made: PTX with a launch plan, as a family without parameters.

use crate::domain::code::ptx;

/// The tables of `family.toml` that describe launches and where they are right.
const TABLES: [&str; 5] = ["launch", "workspace", "tensor_map", "constraint", "derived"];

/// What a family of machine code is called and computes.
#[derive(Debug, Clone, Copy)]
pub struct MachineCodeHead<'a> {
    /// Its name.
    pub name: &'a str,
    /// The name of the file with the PTX.
    pub file: &'a str,
    /// Its op.
    pub op: &'a str,
    /// The dtype of its workload.
    pub dtype: &'a str,
}

/// Returns the text of `family.toml`, given the PTX and the text of the launch plan. The error has a sentence for each mistake.
pub fn machine_code(head: MachineCodeHead<'_>, ptx: &str, plan: &str) -> Result<String, Vec<String>> {
    let parsed: toml::Table =
        toml::from_str(plan).map_err(|error| vec![format!("the launch plan: {}", error.message())])?;
    let strange = parsed.keys().filter(|key| !TABLES.contains(&key.as_str()));
    let mut mistakes: Vec<String> = strange
        .map(|key| format!("the launch plan has `{key}`, but only {} belong there", TABLES.join(", ")))
        .collect();
    let launches = parsed.get("launch").and_then(toml::Value::as_array).map_or(&[][..], Vec::as_slice);
    if launches.is_empty() {
        mistakes.push("the launch plan has no [[launch]]: add one with kernel, grid, block and args".to_owned());
    }
    mistakes.extend(launches.iter().filter_map(|launch| launch_mistake(ptx, launch)));
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    let MachineCodeHead { name, file, op, dtype } = head;
    let sm = ptx::target(ptx).1.unwrap_or_default();
    Ok(format!(
        "name = \"{name}\"\nabout = \"The machine code of {file}.\"\nop = \"{op}\"\ndtypes = [\"{dtype}\"]\n\
         requires_sm = {sm}\nconstants = []\nparams = {{}}\n\n{}\n",
        plan.trim()
    ))
}

/// Says what a launch has that the PTX has not.
fn launch_mistake(ptx: &str, launch: &toml::Value) -> Option<String> {
    let kernel = launch.get("kernel")?.as_str()?;
    let Some(parameters) = ptx::parameters(ptx, kernel) else {
        let known = ptx::kernels(ptx).join(", ");
        return Some(format!("the launch plan launches `{kernel}`, but the PTX has {known}"));
    };
    let args: Vec<&str> = launch.get("args")?.as_array()?.iter().filter_map(toml::Value::as_str).collect();
    // Tensors that only some cases have.
    let is_open = args.iter().any(|arg| arg.ends_with('?'));
    let is_wrong = !is_open && args.len() != parameters.len();
    is_wrong.then(|| {
        format!(
            "`{kernel}` takes {} parameters ({}), but its launch passes {} ({})",
            parameters.len(),
            parameters.join(", "),
            args.len(),
            args.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    const PTX: &str = ".version 8.3\n.target sm_90a\n.visible .entry add(\n\t.param .u64 .ptr .global .align 1 add_param_0,\n\
                       \t.param .u32 add_param_1\n)\n.reqntid 128\n{\n}\n";

    fn made(plan: &str) -> Result<String, Error> {
        let head = MachineCodeHead { name: "add", file: "add.ptx", op: "sum", dtype: "f32" };
        machine_code(head, PTX, plan).map_err(|mistakes| Error::of_all(&mistakes))
    }

    #[test]
    fn a_launch_plan_becomes_a_family_without_parameters() {
        let plan = "[[launch]]\nkernel = \"add\"\ngrid = [\"N\"]\nblock = [\"128\"]\nargs = [\"x\", \"N\"]\n";
        insta::assert_snapshot!(made(plan).unwrap(), @r#"
        name = "add"
        about = "The machine code of add.ptx."
        op = "sum"
        dtypes = ["f32"]
        requires_sm = 90
        constants = []
        params = {}

        [[launch]]
        kernel = "add"
        grid = ["N"]
        block = ["128"]
        args = ["x", "N"]
        "#);
    }

    #[test]
    fn a_launch_plan_that_does_not_fit_is_refused() {
        insta::assert_snapshot!(made("").unwrap_err(), @"the launch plan has no [[launch]]: add one with kernel, grid, block and args");
        insta::assert_snapshot!(made("op = 'x'\n[[launch]]\nkernel = 'sub'\n").unwrap_err(), @"the launch plan has `op`, but only launch, workspace, tensor_map, constraint, derived belong there; the launch plan launches `sub`, but the PTX has add");
        insta::assert_snapshot!(made("[[launch]]\nkernel = 'add'\nargs = ['x']").unwrap_err(), @"`add` takes 2 parameters (u64, u32), but its launch passes 1 (x)");
        insta::assert_snapshot!(made("[[launch").unwrap_err(), @"the launch plan: unclosed array table, expected `]]`");
    }
}
