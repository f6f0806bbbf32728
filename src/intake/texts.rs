//! Writes the files of a family, a workload and an op.

use std::fmt::Write as _;

use indexmap::{IndexMap, IndexSet};

use super::scan::Scan;
use super::tolerance;
use super::{CaseSizes, Draft, Kind, OracleKernel, Parameter, Place, Tunable, Wanted};
use crate::domain::expr::Expr;
use crate::domain::op::{Dtype, TensorRole};
use crate::domain::text::escape::one_line;
use crate::domain::text::names::{is_identifier, shortened};

/// Names of expressions that no family gives (docs/family.md).
const BOUND: [&str; 5] = ["elem_bytes", "smem_limit", "max_threads", "sms", "sm"];

/// The folder of a family's headers.
const HEADERS: &str = "include";

/// Values for the threads of a block with one extent, and for each of several extents.
const THREADS: [i64; 6] = [32, 64, 128, 256, 512, 1024];
const SIDES: [i64; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/// Values for an unroll factor.
const UNROLL: [i64; 4] = [1, 2, 4, 8];

/// What the names of kernels that zero an output begin with, and the threads of their blocks.
const ZERO: &str = "zero_";
const ZERO_THREADS: usize = 256;

/// The longest name of a case that has all its sizes, in bytes.
const LONG_NAME: usize = 40;

/// The largest number that is likely to be a choice. Larger ones are masks, sizes of problems and the like.
const MAX_TUNABLE: i64 = 1 << 16;

/// Why a number of the source stays that the kernel does not use.
pub const UNUSED: &str = "the kernel does not use it";

/// The texts of the new files, and what became of the source's numbers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Texts {
    /// `op.toml`.
    pub op: String,
    /// The workload.
    pub workload: String,
    /// `family.toml`.
    pub family: String,
    /// `kernel.cu.tera`.
    pub template: String,
    /// The tunables that became parameters, with their values.
    pub parameters: Vec<(Tunable, Vec<i64>)>,
    /// The numbers that did not, with the reason.
    pub left_out: Vec<(Tunable, String)>,
}

/// Writes the files. `sizes` are the dimensions of an op that exists already; the new op has those of the kernel and of its
/// shapes. The error has a sentence for each mistake.
pub fn texts(draft: &Draft, wanted: &Wanted, sizes: Option<&[&str]>) -> Result<Texts, Vec<String>> {
    let mut mistakes = Vec::new();
    let dims = match sizes {
        Some(sizes) => sizes.iter().map(|size| (*size).to_owned()).collect(),
        None => dims(draft, wanted, &mut mistakes),
    };
    let (mut parameters, mut left_out, mut constants) = (Vec::new(), Vec::new(), Vec::new());
    for tunable in &draft.tunables {
        if dims.contains(&tunable.name) {
            constants.push(tunable.clone());
        } else if tunable.place == Place::Imported && !wanted.values.contains_key(&tunable.name) {
            // What a tool defines beside its parameters.
        } else if let Some(why) = not_a_choice(tunable, wanted) {
            left_out.push((tunable.clone(), why));
        } else {
            parameters.push((tunable.clone(), values(tunable, (draft, wanted))));
        }
    }
    for tunable in launch_parameters(draft, wanted, &dims, &mut mistakes) {
        let values = values(&tunable, (draft, wanted));
        parameters.push((tunable, values));
    }
    mistakes.extend(unfit_options(draft, wanted, &parameters));
    for tag in ["<$", "<%", "<#"].into_iter().filter(|tag| draft.text.contains(tag)) {
        mistakes.push(format!("the source contains `{tag}`, which begins a tag of a template: put a blank in between"));
    }
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    let names = Names { draft, wanted, dims: &dims };
    Ok(Texts {
        op: names.op(),
        workload: names.workload(),
        family: names.family(&parameters, &constants),
        template: template(draft, wanted, parameters.iter().map(|(tunable, _)| tunable).chain(&constants)),
        parameters,
        left_out,
    })
}

/// Returns a sentence for each option that does not fit the kernel.
fn unfit_options(draft: &Draft, wanted: &Wanted, parameters: &[(Tunable, Vec<i64>)]) -> Vec<String> {
    let mut mistakes = Vec::new();
    for name in wanted.values.keys().filter(|name| !parameters.iter().any(|(tunable, _)| tunable.name == **name)) {
        mistakes.push(format!("--values {name}: the source has no such #define, constant or unroll factor"));
    }
    for name in wanted.arguments.keys().filter(|name| !draft.sizes().any(|size| size == **name)) {
        mistakes.push(format!("--argument {name}: the kernel has no integer parameter of that name"));
    }
    for name in wanted.zeroed.iter().filter(|name| !draft.outputs().any(|(output, _)| output == **name)) {
        mistakes.push(format!("--zero {name}: the kernel has no output of that name"));
    }
    for name in wanted.atomic_sums.keys().filter(|name| !draft.outputs().any(|(output, _)| output == **name)) {
        mistakes.push(format!("--atomic-sums {name}: the kernel has no output of that name"));
    }
    for name in &wanted.in_place {
        if !draft.outputs().any(|(output, _)| output == *name) {
            mistakes.push(format!("--in-place {name}: the kernel has no pointer of that name that it may write"));
        }
        if wanted.zeroed.contains(name) {
            mistakes.push(format!(
                "--in-place {name}: it is zeroed first, so the kernel reads no values: leave out --zero"
            ));
        }
    }
    for name in wanted.contents.keys().filter(|name| !draft.tensors().any(|tensor| tensor == **name)) {
        mistakes.push(format!("--contents {name}: the kernel has no pointer of that name"));
    }
    let dtype = draft.kernel.dtype();
    if wanted.compute.check(dtype).is_err() {
        mistakes.push(format!(
            "--compute {}: it is a way to multiply f32, and the kernel's output is {}: leave it out",
            wanted.compute.name(),
            dtype.name()
        ));
    }
    mistakes
}

/// Returns the dimensions of a new op: the sizes that the kernel gets, and the names in shapes.
fn dims(draft: &Draft, wanted: &Wanted, mistakes: &mut Vec<String>) -> IndexSet<String> {
    let mut dims: IndexSet<String> =
        draft.sizes().filter(|size| wanted.is_dimension(size)).map(str::to_owned).collect();
    let mut sources: IndexMap<String, String> = IndexMap::new();
    for (tensor, shape) in &wanted.shapes {
        if !draft.tensors().any(|known| known == tensor) {
            mistakes.push(format!("--shape {tensor}: the kernel has no pointer of that name"));
        }
        for extent in shape {
            match Expr::parse(extent) {
                Ok(expr) => {
                    for name in expr.names().into_iter().filter(|name| !dims.contains(name)) {
                        sources.insert(name, format!("--shape {tensor}={}", shape.join(",")));
                    }
                    dims.extend(expr.names());
                }
                Err(error) => mistakes.push(format!("--shape {tensor}: {error}")),
            }
        }
    }
    // A number of the source whose size a case gives is a dimension, too.
    let numbers = |name: &&String| draft.tunables.iter().any(|tunable| tunable.name == **name);
    let given = wanted.cases.iter().flat_map(CaseSizes::keys).filter(numbers);
    dims.extend(given.cloned().collect::<Vec<_>>());
    if dims.is_empty()
        && let Some((tensor, shape)) = wanted.shapes.first()
    {
        let shape = shape.join(",");
        mistakes.push(format!(
            "--shape {tensor}={shape}: no tensor has a dimension: name an extent, such as --shape {tensor}=n with --case \
             n={shape}, and add --constraint 'n == {shape}' if the kernel is for that size only"
        ));
        return dims;
    }
    for (at, case) in wanted.cases.iter().enumerate() {
        let source = |dim: &String| sources.get(dim).map_or("a parameter of the kernel", String::as_str);
        let lacking: Vec<String> = dims
            .iter()
            .filter(|dim| !case.contains_key(*dim))
            .map(|dim| format!("{dim} (from {})", source(dim)))
            .collect();
        if !lacking.is_empty() {
            mistakes.push(format!("case {}: it lacks {}", at + 1, lacking.join(", ")));
        }
    }
    dims
}

/// Returns the numbers of the launch that are to be searched and that the source does not have: threads of a block, if the
/// kernel asks for their number, and others for which there are values, such as integer parameters of the kernel.
fn launch_parameters(
    draft: &Draft,
    wanted: &Wanted,
    dims: &IndexSet<String>,
    mistakes: &mut Vec<String>,
) -> Vec<Tunable> {
    let is_known = |name: &str| {
        dims.contains(name) || BOUND.contains(&name) || draft.tunables.iter().any(|tunable| tunable.name == name)
    };
    let files = std::iter::once(&draft.text).chain(draft.headers.iter().map(|(_, text)| text));
    let scans: Vec<Scan> = files.map(|text| Scan::of(text)).collect();
    let mut found: Vec<Tunable> = Vec::new();
    let sizes = draft.sizes().filter(|size| wanted.values.contains_key(*size)).map(str::to_owned);
    for name in wanted.launch_names().into_iter().chain(sizes) {
        let given = wanted.values.get(&name);
        let place = wanted.block.iter().position(|extent| names_in(extent).contains(&name));
        let is_asked = draft.asks_block_size && place.is_some();
        if is_known(&name) || !(is_asked || given.is_some()) || found.iter().any(|other| other.name == name) {
            continue;
        }
        if scans.iter().any(|scan| scan.defines(&name)) {
            mistakes.push(format!(
                "`{name}` in the launch: the source defines it, but not as one whole number that could be another: write \
                 `#define {name} 16`, or use an expression of what it depends on"
            ));
        }
        let most = draft.kernel.most_threads.unwrap_or(i64::MAX).max(1);
        let usual = match (place, wanted.block.len()) {
            (Some(0), 1) => most.min(256),
            (Some(0), _) => most.min(32),
            (Some(1), _) => (most / 32).clamp(1, 8),
            _ => 1,
        };
        let value = match given {
            Some(values) if !values.contains(&usual) => values.first().copied().unwrap_or(usual),
            _ => usual,
        };
        found.push(Tunable::of_launch(&name, value));
    }
    found
}

/// Returns a template without the gaps that code for the host has left.
pub fn without_gaps(template: &str) -> String {
    let mut made = String::with_capacity(template.len());
    let mut blank = 1;
    for line in template.split_inclusive('\n') {
        blank = if line.trim().is_empty() { blank + 1 } else { 0 };
        if blank < 2 {
            made.push_str(line);
        }
    }
    made.truncate(made.trim_end().len());
    made + "\n"
}

fn names_in(expression: &str) -> Vec<String> {
    Expr::parse(expression).map(|expr| expr.names().into_iter().collect()).unwrap_or_default()
}

fn not_a_choice(tunable: &Tunable, wanted: &Wanted) -> Option<String> {
    if let Some(why) = wanted.fixed.get(&tunable.name) {
        return Some(why.clone());
    }
    if wanted.values.contains_key(&tunable.name) {
        return None;
    }
    if !tunable.is_used && !wanted.names().contains(&tunable.name) {
        return Some(UNUSED.to_owned());
    }
    if tunable.name.to_ascii_uppercase().contains("WARP_SIZE") || tunable.name.eq_ignore_ascii_case("warpsize") {
        return Some("the hardware determines it".to_owned());
    }
    if tunable.value > MAX_TUNABLE || (tunable.value == 0 && tunable.place != Place::Define) {
        return Some(format!("{} is no size of a tile or a block; name values with --values", tunable.value));
    }
    None
}

/// Returns the values to search, in order.
fn values(tunable: &Tunable, (draft, wanted): (&Draft, &Wanted)) -> Vec<i64> {
    let value = tunable.value;
    let mut values = match wanted.values.get(&tunable.name) {
        Some(values) => values.clone(),
        None if is_extent(&tunable.name, wanted) => {
            let usual = if wanted.block.len() > 1 { &SIDES[..] } else { &THREADS[..] };
            let most = draft.kernel.most_threads.unwrap_or(i64::MAX);
            usual.iter().copied().filter(|threads| *threads <= most).collect()
        }
        None if tunable.place == Place::Unroll => UNROLL.to_vec(),
        None if value == 0 => vec![0, 1],
        // It may be a flag or a factor.
        None if value == 1 => vec![0, 1, 2, 4],
        None => {
            [4, 2].iter().filter(|by| value % **by == 0).map(|by| value / by).chain([2 * value, 4 * value]).collect()
        }
    };
    values.push(value);
    values.sort_unstable();
    values.dedup();
    values
}

/// Tells whether a number is an extent of a block, rather than a part of one.
fn is_extent(name: &str, wanted: &Wanted) -> bool {
    wanted.block.iter().any(|extent| extent.trim() == name)
}

fn is_in_block(name: &str, wanted: &Wanted) -> bool {
    wanted.block.iter().any(|extent| Expr::parse(extent).is_ok_and(|expr| expr.names().contains(name)))
}

/// Replaces the numbers by tags, and makes the kernel's name that of C.
fn template<'a>(draft: &'a Draft, wanted: &Wanted, tunables: impl Iterator<Item = &'a Tunable>) -> String {
    let in_source = tunables.filter(|tunable| tunable.place != Place::Launch);
    let mut edits: Vec<_> = in_source.map(|it| (it.span.clone(), format!("<$ {} $>", it.name))).collect();
    if !draft.kernel.is_extern_c {
        edits.push((draft.kernel.at..draft.kernel.at, "extern \"C\" ".to_owned()));
    }
    edits.sort_by_key(|(span, _)| span.start);
    let mut text = draft.text.clone();
    for (span, tag) in edits.into_iter().rev() {
        text.replace_range(span, &tag);
    }
    for (output, dtype) in draft.outputs().filter(|(output, _)| wanted.zeroed.iter().any(|it| it == output)) {
        text += &zeroing_kernel(output, dtype);
    }
    text
}

/// Returns a kernel that zeroes an output. Floating-point zeros have the same bytes as whole ones.
fn zeroing_kernel(output: &str, dtype: Dtype) -> String {
    let word = match dtype.bytes() {
        1 => "unsigned char",
        2 => "unsigned short",
        4 => "unsigned int",
        _ => "unsigned long long",
    };
    format!(
        "\n// Zeroes `{output}`, which the kernel above adds to.\n\
         extern \"C\" __global__ void {ZERO}{output}({word}* {output}, int elements) {{\n    \
         const int at = blockIdx.x * {ZERO_THREADS} + threadIdx.x;\n    if (at < elements) {output}[at] = 0;\n}}\n"
    )
}

/// Returns the product of expressions.
fn product(factors: &[String]) -> String {
    match factors {
        [only] if is_identifier(only) || only.parse::<i64>().is_ok() => only.clone(),
        _ => factors.iter().map(|factor| format!("({factor})")).collect::<Vec<_>>().join(" * "),
    }
}

/// Returns the cases of a workload, each with its name.
pub(super) fn cases<'a>(named: impl Iterator<Item = (&'a CaseSizes, String)>) -> String {
    let mut text = String::new();
    for (case, name) in named {
        let _ = write!(text, "\n[[case]]\nname = {}\n", quoted(&name));
        for (dim, size) in case {
            let _ = writeln!(text, "{dim} = {size}");
        }
    }
    text
}

/// Returns the name of a case that has these sizes.
pub(super) fn case_name<'a>(sizes: impl Iterator<Item = (&'a String, &'a i64)>) -> String {
    sizes.map(|(dim, size)| format!("{}{size}", dim.to_lowercase().replace('_', "-"))).collect()
}

/// Returns a text as a TOML string. Manifests have texts of one line only.
pub(super) fn quoted(text: &str) -> String {
    toml::Value::from(one_line(text)).to_string()
}

pub(super) fn list(texts: &[String]) -> String {
    format!("[{}]", texts.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", "))
}

struct Names<'a> {
    draft: &'a Draft,
    wanted: &'a Wanted,
    dims: &'a IndexSet<String>,
}

impl Names<'_> {
    fn op(&self) -> String {
        let Self { draft, wanted, dims } = self;
        let about = format!("What the kernel `{}` computes.", draft.kernel.name);
        let oracle = wanted.oracle_file();
        let mut text = format!("name = {}\nabout = {}\noracle = \"{oracle}\"\n", quoted(&wanted.name), quoted(&about));
        if let Some(dim) = &wanted.independent {
            let _ = writeln!(text, "independent = {}", quoted(dim));
        }
        let _ = writeln!(text, "flop = {}", quoted(&wanted.flop));
        if let Some(OracleKernel { grid, block, args }) = &wanted.oracle_kernel {
            let (grid, block, args) = (list(grid), list(block), list(args));
            let _ = write!(text, "\n[oracle_launch]\ngrid = {grid}\nblock = {block}\nargs = {args}\n");
        }
        for dim in *dims {
            let _ = write!(text, "\n[dims.{dim}]\nabout = {}\n", quoted(&format!("the size `{dim}`")));
            let parameter = draft.kernel.parameters.iter().find(|parameter| parameter.name == **dim);
            let range = wanted.ranges.get(dim).copied().or_else(|| parameter?.range()).or_else(|| self.zero_range(dim));
            if let Some((least, most)) = range {
                let _ = writeln!(text, "range = [{least}, {most}]");
            }
        }
        let scalars: Vec<&str> = draft.scalars().collect();
        if !scalars.is_empty() {
            text += "\n[scalars]\n";
            for name in scalars {
                let _ = writeln!(text, "{name} = {:?}", wanted.scalars.get(name).copied().unwrap_or_default());
            }
        }
        for parameter in &draft.kernel.parameters {
            if let Some(Kind::Tensor { dtype, is_output }) = parameter.kind {
                let name = &parameter.name;
                let role = match is_output {
                    true if wanted.in_place.contains(name) => TensorRole::InPlace,
                    true => TensorRole::Output,
                    false => TensorRole::Input,
                };
                let role = role.name();
                let shape = wanted.shapes.get(name).map_or(&[][..], Vec::as_slice);
                let _ = write!(text, "\n[tensors.{name}]\nrole = \"{role}\"\nshape = {}\n", list(shape));
                // The oracle gets integers only of a tensor with a type of its own.
                if dtype != draft.kernel.dtype() || dtype.is_integer() {
                    let _ = writeln!(text, "dtype = \"{}\"", dtype.name());
                }
                if let Some(bound) = wanted.atomic_sums.get(name) {
                    let _ = writeln!(text, "atomic_sums = \"{}\"", bound.name());
                }
                if let Some(contents) = wanted.contents.get(name) {
                    let _ = writeln!(text, "values = {contents}");
                }
            }
        }
        text
    }

    /// Returns the range of a size that is no extent and 0 in a case, such as an offset.
    fn zero_range(&self, dim: &str) -> Option<(i64, i64)> {
        let is_zero = self.wanted.cases.iter().any(|case| case.get(dim) == Some(&0));
        (is_zero && !self.extents().contains(dim)).then_some((0, i64::from(i32::MAX)))
    }

    /// Returns the names in shapes.
    fn extents(&self) -> IndexSet<String> {
        self.wanted.shapes.values().flatten().flat_map(|extent| names_in(extent)).collect()
    }

    /// Returns the name of each case: its sizes. A long one has those of the shapes only, where they tell the cases apart.
    fn case_names(&self) -> Vec<String> {
        let extents = self.extents();
        let all: Vec<String> = self.wanted.cases.iter().map(|case| case_name(case.iter())).collect();
        let of_shapes = |case: &CaseSizes| case_name(case.iter().filter(|(dim, _)| extents.contains(*dim)));
        let short = self.wanted.cases.iter().map(of_shapes);
        let short: IndexSet<String> = short.filter(|name| !name.is_empty()).collect();
        let is_long = all.iter().any(|name| name.len() > LONG_NAME);
        let names = if is_long && short.len() == all.len() { short.into_iter().collect() } else { all };
        names.iter().map(|name| shortened(name)).collect()
    }

    /// Returns the line on the compute mode, if it is not the usual one.
    fn compute(&self) -> String {
        let mode = self.wanted.compute;
        if mode.is_dtype() { String::new() } else { format!("compute = \"{}\"\n", mode.name()) }
    }

    fn workload(&self) -> String {
        let Self { draft, wanted, .. } = self;
        let (name, op) = (quoted(&wanted.name), quoted(wanted.op()));
        let about = quoted(&format!("The kernel `{}`.", draft.kernel.name));
        let dtype = draft.kernel.dtype();
        let mut text = format!(
            "name = {name}\nabout = {about}\nop = {op}\ndtype = \"{}\"\n{}initial_kernel = {name}\n",
            dtype.name(),
            self.compute()
        );
        if let Some(torch) = &wanted.torch {
            let other = |(name, expression): (&String, &String)| format!(", {name} = {}", quoted(expression));
            let others: String = wanted.baselines.iter().map(other).collect();
            let _ = writeln!(text, "baseline = {{ torch = {}{others} }}", quoted(torch));
        }
        text += &tolerance::of_kernel(draft, wanted).section();
        text += &cases(wanted.cases.iter().zip(self.case_names()));
        text
    }

    fn family(&self, parameters: &[(Tunable, Vec<i64>)], constants: &[Tunable]) -> String {
        let Self { draft, wanted, .. } = self;
        let (name, op) = (quoted(&wanted.name), quoted(wanted.op()));
        let constants: Vec<String> = constants.iter().map(|constant| constant.name.clone()).collect();
        let mut text = format!(
            "name = {name}\nabout = {}\nop = {op}\ndtypes = [\"{}\"]\n{}requires_sm = 80\nconstants = {}\n",
            quoted(&format!("The kernel `{}`, as it was added.", draft.kernel.name)),
            draft.kernel.dtype().name(),
            self.compute(),
            list(&constants)
        );
        if !draft.headers.is_empty() {
            let _ = writeln!(text, "headers = [\"{HEADERS}\"]");
        }
        if parameters.is_empty() {
            text += "\n[params]\n";
        }
        for (tunable, values) in parameters {
            let about = tunable.comment.clone();
            let about = about.unwrap_or_else(|| tunable.origin());
            let _ = write!(
                text,
                "\n[params.{}]\nvalues = {values:?}\ndefault = {}\nabout = {}\nexpect = [0.8, 1.5]\n",
                tunable.name,
                tunable.value,
                quoted(&about)
            );
            if is_in_block(&tunable.name, wanted) {
                text += "mechanism = \"threads\"\n";
            } else if tunable.place == Place::Unroll {
                text += "mechanism = \"scheduling\"\n";
            }
        }
        if !(wanted.zeroed.is_empty() && wanted.arguments.is_empty()) {
            text += "\n[derived]\n";
        }
        for (name, value) in &wanted.arguments {
            let _ = writeln!(text, "{name} = {}", quoted(value));
        }
        for output in &wanted.zeroed {
            let shape = wanted.shapes.get(output).map_or(&[][..], Vec::as_slice);
            let _ = writeln!(text, "{ZERO}{output} = {}", quoted(&product(shape)));
        }
        let _ = write!(
            text,
            "\n[[constraint]]\nexpr = {}\nwhy = \"The device limits the threads of a block.\"\n",
            quoted(&format!("{} <= max_threads", product(&wanted.block)))
        );
        if let Some(most) = draft.kernel.most_threads {
            let expr = quoted(&format!("{} <= {most}", product(&wanted.block)));
            let _ =
                write!(text, "\n[[constraint]]\nexpr = {expr}\nwhy = \"Its launch bounds allow no more threads.\"\n");
        }
        for constraint in &wanted.constraints {
            let why = "The kernel needs it, as its user said.";
            let _ = write!(text, "\n[[constraint]]\nexpr = {}\nwhy = {}\n", quoted(constraint), quoted(why));
        }
        for (name, dtype) in draft.scratch() {
            let elements = quoted(wanted.scratch.get(name).map_or("1", String::as_str));
            let dtype = dtype.name();
            let _ = write!(
                text,
                "\n[[workspace]]\nname = \"{name}\"\ndtype = \"{dtype}\"\nelements = {elements}\ninitial = \"zero\"\n"
            );
        }
        for output in &wanted.zeroed {
            let grid = format!("ceil_div({ZERO}{output}, {ZERO_THREADS})");
            let _ = write!(
                text,
                "\n[[launch]]\nkernel = \"{ZERO}{output}\"\ngrid = [\"{grid}\"]\nblock = [\"{ZERO_THREADS}\"]\n\
                 args = [\"{output}\", \"{ZERO}{output}\"]\n"
            );
        }
        let arg = |parameter: &Parameter| match parameter.wide_type() {
            Some(wide) => format!("{wide} {}", parameter.name),
            None => parameter.name.clone(),
        };
        let args: Vec<String> = draft.kernel.parameters.iter().map(arg).collect();
        let _ = write!(
            text,
            "\n[[launch]]\nkernel = {}\ngrid = {}\nblock = {}\nargs = {}\n",
            quoted(&draft.kernel.name),
            list(&wanted.grid),
            list(&wanted.block),
            list(&args)
        );
        if let Some(shared) = &wanted.shared {
            let _ = writeln!(text, "shared = {}", quoted(shared));
        }
        text
    }
}
