//! Problems in PyTorch: an op whose oracle is the module, a workload without an initial kernel, and the frame of a family.

use std::fmt::Write as _;

use indexmap::IndexMap;
use serde::Deserialize;

use crate::domain::op::Dtype;
use crate::domain::text::names::{is_identifier, shortened};
use crate::error::{Error, error};
use crate::intake::texts::{case_name, cases, list, quoted};
use crate::intake::tolerance::{self, Rounding, most_terms};
use crate::intake::{CaseSizes, Wanted};

/// The threads of a block in the frame of a family.
const THREADS: i64 = 256;

/// What a file with `Model`, `get_inputs` and `get_init_inputs` computes, as the program that examines it tells.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Problem {
    dims: Vec<Dim>,
    cases: Vec<CaseSizes>,
    tensors: Vec<Tensor>,
    scalars: IndexMap<String, f64>,
    independent: Option<String>,
    oracle: String,
    /// The operations that PyTorch counts, as an expression of the dimensions.
    flop: Option<String>,
    /// The largest error that the problem's own checks allow.
    #[serde(default)]
    tolerance: Option<f64>,
    notes: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Dim {
    name: String,
    least: i64,
    /// The largest size. None if there is no limit.
    most: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Tensor {
    name: String,
    role: Role,
    dtype: Dtype,
    shape: Vec<String>,
    /// What it contains, if that is not the usual.
    values: Option<Contents>,
    /// The input of whose elements it has indices.
    #[serde(default)]
    selects: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    Input,
    Output,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Contents {
    Uniform(f32, f32),
    Integers(String, String),
}

/// The texts of the new files.
#[derive(Debug, Clone, PartialEq)]
pub struct ProblemTexts {
    /// `op.toml`.
    pub op: String,
    /// `oracle.py`.
    pub oracle: String,
    /// The workload.
    pub workload: String,
    /// `family.toml` of the frame of a family.
    pub family: String,
    /// `kernel.cu.tera` of the frame.
    pub template: String,
    /// What was understood differently, as sentences.
    pub notes: Vec<String>,
}

/// Reads what the program that examines a problem tells. The error is one sentence.
pub fn problem(json: &str) -> Result<Problem, Error> {
    serde_json::from_str(json).map_err(|error| error!("what it tells is not readable: {error}"))
}

impl Problem {
    /// Returns the names of the tensors with their shapes.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.tensors.iter().map(|tensor| (tensor.name.as_str(), tensor.shape.as_slice()))
    }

    /// Writes the files. `file` is the name of the problem's file, and `given` is what the user says beside it.
    pub fn texts(&self, file: &str, given: &Wanted) -> Result<ProblemTexts, Vec<String>> {
        let unknown = given.contents.keys().filter(|name| self.inputs().all(|tensor| tensor.name != **name));
        let mistakes: Vec<String> =
            unknown.map(|name| format!("--contents {name}: the problem has no input of that name")).collect();
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        let mut notes = self.notes.clone();
        if let Some(flop) = self.flop.as_ref().filter(|_| given.flop == "0") {
            notes.push(format!(
                "the floor counts bytes only: if every kernel needs the operations that PyTorch counts, give --flop '{flop}'"
            ));
        }
        let given_cases = if given.cases.is_empty() { &self.cases } else { &given.cases };
        Ok(ProblemTexts {
            op: self.op(file, given),
            oracle: self.oracle.clone(),
            workload: self.workload(file, given, given_cases),
            family: self.family(given),
            template: self.template(),
            notes,
        })
    }

    fn inputs(&self) -> impl Iterator<Item = &Tensor> {
        self.tensors.iter().filter(|tensor| tensor.role == Role::Input)
    }

    fn outputs(&self) -> impl Iterator<Item = &Tensor> {
        self.tensors.iter().filter(|tensor| tensor.role == Role::Output)
    }

    /// Returns the dtype of the workload: that of the first output that has a point, or else of the first such input.
    fn dtype(&self) -> Dtype {
        let of_points =
            self.outputs().chain(self.inputs()).map(|tensor| tensor.dtype).find(|dtype| !dtype.is_integer());
        of_points.or_else(|| self.outputs().map(|tensor| tensor.dtype).next()).unwrap_or(Dtype::F32)
    }

    fn op(&self, file: &str, given: &Wanted) -> String {
        let about = format!("What the module of {file} computes.");
        let name = &given.name;
        let mut text = format!("name = {}\nabout = {}\noracle = \"oracle.py\"\n", quoted(name), quoted(&about));
        if let Some(dim) = given.independent.as_ref().or(self.independent.as_ref()) {
            let _ = writeln!(text, "independent = {}", quoted(dim));
        }
        let _ = writeln!(text, "flop = {}", quoted(&given.flop));
        for Dim { name, least, most } in &self.dims {
            let most = most.unwrap_or(i64::from(i32::MAX));
            let about = quoted(&format!("the size `{name}`"));
            let _ = write!(text, "\n[dims.{name}]\nabout = {about}\nrange = [{least}, {most}]\n");
        }
        if !self.scalars.is_empty() {
            text += "\n[scalars]\n";
            for (name, value) in &self.scalars {
                let _ = writeln!(text, "{name} = {value:?}");
            }
        }
        for Tensor { name, role, dtype, shape, values, selects } in &self.tensors {
            let role = if *role == Role::Input { "input" } else { "output" };
            let _ = write!(text, "\n[tensors.{name}]\nrole = \"{role}\"\nshape = {}\n", list(shape));
            // The oracle gets integers only of a tensor with a type of its own.
            if *dtype != self.dtype() || dtype.is_integer() {
                let _ = writeln!(text, "dtype = \"{}\"", dtype.name());
            }
            if let Some(from) = selects {
                let _ = writeln!(text, "selects = {}", quoted(from));
            }
            let values = values.as_ref().map(|values| match values {
                Contents::Uniform(from, to) => format!("{{ uniform = [{from:?}, {to:?}] }}"),
                Contents::Integers(from, to) => format!("{{ integers = [{}, {}] }}", quoted(from), quoted(to)),
            });
            if let Some(values) = given.contents.get(name).cloned().or(values) {
                let _ = writeln!(text, "values = {values}");
            }
        }
        text
    }

    fn workload(&self, file: &str, given: &Wanted, of: &[CaseSizes]) -> String {
        let (name, about) = (quoted(&given.name), quoted(&format!("The module of {file}.")));
        let dtype = self.dtype();
        let oracle = quoted(&format!("kernels/ops/{}/oracle.py", given.name));
        let mut text = format!(
            "name = {name}\nabout = {about}\nop = {name}\ndtype = \"{}\"\nbaseline = {{ module = {oracle} }}\n",
            dtype.name()
        );
        let tensors: Vec<(&str, bool)> =
            self.tensors.iter().map(|tensor| (tensor.name.as_str(), tensor.role == Role::Output)).collect();
        let shapes = self.tensors.iter().map(|tensor| (tensor.name.clone(), tensor.shape.clone())).collect();
        let rounding = Rounding {
            dtype,
            outputs: self.outputs().map(|tensor| tensor.dtype).collect(),
            compute: given.compute,
            terms: most_terms(&tensors, &shapes, of),
        };
        let tolerance = tolerance::of(&rounding);
        text += &self.tolerance.map_or(tolerance.section(), |most| tolerance.at_most(most).section());
        text += &cases(of.iter().map(|case| (case, shortened(&case_name(case.iter())))));
        text
    }

    /// Returns what every kernel may get, in the order of its parameters.
    fn arguments(&self) -> impl Iterator<Item = &str> {
        let tensors = self.tensors.iter().map(|tensor| tensor.name.as_str());
        tensors.chain(self.dims.iter().map(|dim| dim.name.as_str())).chain(self.scalars.keys().map(String::as_str))
    }

    fn family(&self, given: &Wanted) -> String {
        let name = &given.name;
        let args = self.arguments().map(quoted).collect::<Vec<_>>().join(", ");
        format!(
            "# The frame of a family. Copy this folder, and write the kernel:\n\
             #   cp -r kernels/ops/{name}/frame templates/kernels/{name}\n\
             # `optloop docs family` explains every key.\n\
             name = \"{name}\"\nabout = \"One thread for each element of the first output.\"\nop = \"{name}\"\n\
             dtypes = [\"{}\"]\nrequires_sm = 80\n\
             # Dimensions that the source needs as numbers. Others are parameters of the kernel.\nconstants = []\n\n\
             [params.THREADS]\nvalues = [64, 128, 256, 512, 1024]\ndefault = {THREADS}\n\
             about = \"threads of a block\"\nexpect = [0.8, 1.5]\nmechanism = \"threads\"\n\n\
             [[constraint]]\nexpr = \"THREADS <= max_threads\"\nwhy = \"The device limits the threads of a block.\"\n\n\
             # If the kernel needs sizes that others have not, such as a multiple of 8, say so:\n\
             # [[constraint]]\n# expr = \"{} % 8 == 0\"\n# why = \"Loads of 16 bytes.\"\n\n\
             # All blocks of one launch are over before the next one begins.\n\
             [[launch]]\nkernel = \"{KERNEL}\"\ngrid = [{}]\nblock = [\"THREADS\"]\nargs = [{args}]\n",
            self.dtype().name(),
            self.dims.first().map_or("N", |dim| dim.name.as_str()),
            quoted(&format!("ceil_div({}, THREADS)", self.elements(" * "))),
        )
    }

    /// Returns the number of elements of the first output.
    fn elements(&self, times: &str) -> String {
        let shape = self.outputs().next().map_or(&[][..], |output| &output.shape);
        let is_plain = |extent: &str| is_identifier(extent) || extent.parse::<i64>().is_ok();
        let factor = |extent: &String| if is_plain(extent) { extent.clone() } else { format!("({extent})") };
        let shape: Vec<String> = shape.iter().map(factor).collect();
        shape.join(times)
    }

    fn template(&self) -> String {
        let mut text = String::new();
        let has = |wanted: &[Dtype]| self.tensors.iter().any(|tensor| wanted.contains(&tensor.dtype));
        for (dtypes, header) in [
            (&[Dtype::F16][..], "cuda_fp16.h"),
            (&[Dtype::Bf16], "cuda_bf16.h"),
            (&[Dtype::E4m3, Dtype::E5m2], "cuda_fp8.h"),
        ] {
            if has(dtypes) {
                let _ = writeln!(text, "#include <{header}>");
            }
        }
        let _ = write!(
            text,
            "// Tensors are dense and row-major. Write every element of the outputs, and no input.\n\
             extern \"C\" __global__ void {KERNEL}("
        );
        let tensors = self.tensors.iter().map(|Tensor { name, role, dtype, shape, .. }| {
            let constant = if *role == Role::Input { "const " } else { "" };
            (format!("{constant}{}* {name}", type_name(*dtype)), format!("[{}]", shape.join(", ")))
        });
        let sizes = self.dims.iter().map(|dim| (format!("int {}", dim.name), String::new()));
        let scalars = self.scalars.iter().map(|(name, value)| (format!("float {name}"), format!("{value:?}")));
        let parameters: Vec<(String, String)> = tensors.chain(sizes).chain(scalars).collect();
        for (place, (parameter, comment)) in parameters.iter().enumerate() {
            let end = if place + 1 < parameters.len() { "," } else { ")" };
            let comment = if comment.is_empty() { String::new() } else { format!(" // {comment}") };
            let _ = write!(text, "\n    {parameter}{end}{comment}");
        }
        let output = self.outputs().next().map_or("out", |output| output.name.as_str());
        let elements = self.elements(" * (long long)");
        let _ = write!(
            text,
            "\n{{\n    const long long at = blockIdx.x * (long long)<$ THREADS $> + threadIdx.x;\n    \
             if (at >= (long long){elements}) return;\n    // Compute {output}[at] here.\n}}\n"
        );
        text
    }
}

/// The kernel of the frame.
const KERNEL: &str = "kernel_of_module";

/// Returns what CUDA calls elements of a dtype.
fn type_name(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::F16 => "__half",
        Dtype::Bf16 => "__nv_bfloat16",
        Dtype::F32 => "float",
        Dtype::F64 => "double",
        Dtype::E4m3 => "__nv_fp8_e4m3",
        Dtype::E5m2 => "__nv_fp8_e5m2",
        Dtype::I8 => "signed char",
        Dtype::U8 => "unsigned char",
        Dtype::I32 => "int",
        Dtype::U32 => "unsigned int",
        Dtype::I64 => "long long",
        Dtype::Bool => "bool",
    }
}
