//! The C++ launcher: a header, and a file with the table and the sources in it.
//!
//! It has the sources and not their machine code. So an export needs no compiler, a reader sees what is run, and NVRTC
//! compiles for the driver that is there. Sources in PTX are compiled by the driver itself.

use serde::Serialize;

use super::interface::{Interface, Tensor};
use super::table::{Device, Row, Table};
use super::{ALIGNMENT_BYTES, ExportError, File, Winner, context, module_name, rendered};
use crate::domain::code::ptx;
use crate::domain::family::plan::{self, Arg, Initial, Launch, ScalarValue, TensorMap};
use crate::domain::op::Dtype;
use crate::domain::workload::Workload;

/// The words that cannot be names in C or C++, and macros of its standard library. Members with these names get a `_`.
const KEYWORDS: &str = "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t class compl \
    const const_cast constexpr continue decltype default delete do double dynamic_cast else enum explicit export \
    extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr \
    operator or or_eq private protected public register reinterpret_cast restrict return short signed sizeof \
    static static_assert static_cast struct switch template this thread_local throw true try typedef typeid \
    typename union unsigned using virtual void volatile wchar_t while xor xor_eq \
    EOF NULL assert errno stdin stdout stderr INFINITY NAN";

/// Returns the header and the C++ file.
pub(super) fn files(
    workload: &Workload,
    interface: &Interface,
    table: &Table,
    winners: &[Winner],
) -> Result<Vec<File>, ExportError> {
    let module = module_name(&workload.name);
    let mut context = context(workload, interface);
    let dims: Vec<Member> = interface
        .dims
        .iter()
        .map(|dim| Member { name: member(dim.name), about: dim.about.to_owned(), ..Member::default() })
        .collect();
    let tensors: Vec<Member> = interface.tensors.iter().map(of_tensor).collect();
    let sources = sources(table, winners);
    let launches = table.rows.iter().flat_map(|row| row.preparation.iter().chain(&row.launches));
    context.insert("prepares", &table.prepares());
    context.insert("dims", &dims);
    context.insert("tensors", &tensors);
    context.insert("devices", &table.devices.iter().map(device).collect::<Vec<_>>());
    context.insert("rows", &table.rows.iter().map(|row| of_row(row, interface, &sources)).collect::<Vec<_>>());
    context.insert("max_arguments", &launches.map(|launch| launch.args.len()).max().unwrap_or(1).max(1));
    context.insert("uses_nvrtc", &sources.iter().any(|source| !source.is_ptx));
    context.insert("sources", &sources);
    Ok(vec![
        File { path: format!("{module}.h"), text: rendered("launcher.h", &context)? },
        File { path: format!("{module}.cpp"), text: rendered("launcher.cpp", &context)? },
    ])
}

/// A member of a struct.
#[derive(Serialize, Default)]
struct Member {
    name: String,
    about: String,
    constant: String,
    role: &'static str,
    dtype: &'static str,
    shape: String,
}

fn of_tensor(tensor: &Tensor) -> Member {
    Member {
        name: member(&tensor.name),
        about: String::new(),
        constant: constant(&tensor.name),
        role: tensor.role.name(),
        dtype: tensor.dtype.name(),
        shape: tensor.shape(),
    }
}

fn member(name: &str) -> String {
    if KEYWORDS.split(' ').any(|word| word == name) { format!("{name}_") } else { name.to_owned() }
}

/// Names a tensor in the list of tensors. Names that differ in case only stay different.
fn constant(name: &str) -> String {
    format!("TENSOR_{name}")
}

#[derive(Serialize)]
struct CppDevice<'a> {
    name: &'a str,
    sms: u32,
    major: u32,
    minor: u32,
}

fn device(device: &Device) -> CppDevice<'_> {
    let sm: u32 = device.arch.chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap_or(0);
    CppDevice { name: &device.name, sms: device.sms, major: sm / 10, minor: sm % 10 }
}

/// A source with the options that it is compiled with.
#[derive(Serialize)]
struct Source<'a> {
    name: &'a str,
    options: Vec<String>,
    text: &'a str,
    /// The driver compiles it, and not NVRTC.
    is_ptx: bool,
    /// What the raw string literal ends with, which the text must not contain.
    delimiter: String,
}

/// Returns the sources, each once for the same options.
fn sources<'a>(table: &'a Table, winners: &'a [Winner]) -> Vec<Source<'a>> {
    let mut sources: Vec<Source<'a>> = Vec::new();
    for row in &table.rows {
        let options = options(row);
        let is_there = |source: &Source<'_>| source.name == row.source && source.options == options;
        let winner = winners.iter().find(|winner| winner.source_name() == row.source);
        if let (false, Some(winner)) = (sources.iter().any(is_there), winner) {
            let text = winner.source.as_str();
            let (is_ptx, delimiter) = (ptx::is_ptx(text), delimiter(text));
            sources.push(Source { name: &row.source, options, text, is_ptx, delimiter });
        }
    }
    sources
}

fn options(row: &Row) -> Vec<String> {
    [format!("-arch={}", row.arch)].into_iter().chain(row.options.iter().cloned()).collect()
}

fn delimiter(text: &str) -> String {
    let candidates = (0..).map(|number| if number == 0 { "cuda".to_owned() } else { format!("cuda{number}") });
    candidates.into_iter().find(|word| !text.contains(&format!("){word}\""))).unwrap_or_default()
}

#[derive(Serialize)]
struct CppRow {
    case: String,
    dims: Vec<i64>,
    device: usize,
    source: usize,
    workspace_bytes: usize,
    prepared_bytes: usize,
    preparation: Vec<CppLaunch>,
    launches: Vec<CppLaunch>,
}

#[derive(Serialize)]
struct CppLaunch {
    kernel: String,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    cluster: [u32; 3],
    programmatic: bool,
    arguments: Vec<String>,
}

fn of_row(row: &Row, interface: &Interface, sources: &[Source<'_>]) -> CppRow {
    let options = options(row);
    let source = sources.iter().position(|source| source.name == row.source && source.options == options);
    let places = Places::of(row);
    let launch = |launch: &Launch| CppLaunch {
        kernel: launch.kernel.clone(),
        grid: launch.grid,
        block: launch.block,
        shared_bytes: launch.shared_bytes,
        cluster: launch.cluster.unwrap_or([0; 3]),
        programmatic: launch.programmatic,
        arguments: launch.args.iter().map(|arg| argument(arg, &places)).collect(),
    };
    CppRow {
        case: row.case.clone(),
        dims: interface.dims.iter().map(|dim| row.dims[dim.name]).collect(),
        device: row.device,
        source: source.unwrap_or(0),
        workspace_bytes: places.workspace_bytes,
        prepared_bytes: places.prepared_bytes,
        preparation: row.preparation.iter().map(launch).collect(),
        launches: row.launches.iter().map(launch).collect(),
    }
}

/// Where the workspaces of a row begin: in the memory of a launch, those that are zeroed first, or in that of prepared weights.
#[derive(Default)]
struct Places<'a> {
    /// Each with the function that makes an argument of it, and where it begins.
    places: Vec<(&'a str, (&'static str, usize))>,
    workspace_bytes: usize,
    prepared_bytes: usize,
}

impl<'a> Places<'a> {
    fn of(row: &'a Row) -> Self {
        let mut all = Self::default();
        let prepared = plan::buffers(&row.preparation);
        for initial in [Initial::Zero, Initial::Undefined] {
            for (name, workspace) in row.workspaces.iter().filter(|(_, workspace)| workspace.initial == initial) {
                let (kind, size) = match prepared.contains(name.as_str()) {
                    true => ("prepared", &mut all.prepared_bytes),
                    false => ("workspace", &mut all.workspace_bytes),
                };
                all.places.push((name, (kind, *size)));
                *size += workspace.bytes.next_multiple_of(ALIGNMENT_BYTES);
            }
        }
        all
    }

    fn find(&self, name: &str) -> Option<(&'static str, usize)> {
        self.places.iter().find(|(other, _)| *other == name).map(|(_, place)| *place)
    }
}

/// Writes an argument as the table has it.
fn argument(arg: &Arg, places: &Places<'_>) -> String {
    match arg {
        Arg::Tensor(name) => format!("tensor({})", constant(name)),
        Arg::Workspace(name) => {
            let (kind, place) = places.find(name).unwrap_or(("workspace", 0));
            format!("{kind}({place})")
        }
        Arg::Scalar(scalar) => match scalar.value {
            ScalarValue::I32(value) => format!("number({value})"),
            // Nine digits tell every float from its neighbours.
            ScalarValue::F32(value) => format!("number({value:.8e}f)"),
            ScalarValue::I64(value) => format!("long_number({value})"),
            // 17 digits tell every double from its neighbours.
            ScalarValue::F64(value) => format!("double_number({value:.16e})"),
        },
        Arg::TensorMap(map) => match places.find(&map.tensor) {
            Some((kind, place)) => format!("{kind}_map({place}, {})", described(map)),
            None => format!("tensor_map({}, {})", constant(&map.tensor), described(map)),
        },
    }
}

/// Writes what the copy engine is told.
fn described(map: &TensorMap) -> String {
    let dtype = match map.dtype {
        Dtype::F16 => "FLOAT16",
        Dtype::Bf16 => "BFLOAT16",
        Dtype::F32 => "FLOAT32",
        Dtype::F64 => "FLOAT64",
        Dtype::I32 => "INT32",
        Dtype::U32 => "UINT32",
        Dtype::I64 => "INT64",
        // Copies do not interpret bytes.
        Dtype::E4m3 | Dtype::E5m2 | Dtype::I8 | Dtype::U8 | Dtype::Bool => "UINT8",
    };
    let swizzle = match map.swizzle_bytes {
        0 => "NONE".to_owned(),
        bytes => format!("{bytes}B"),
    };
    format!(
        "{{CU_TENSOR_MAP_DATA_TYPE_{dtype}, {{{}}}, {{{}}}, {{{}}}, CU_TENSOR_MAP_SWIZZLE_{swizzle}}}",
        listed(&map.sizes),
        listed(&map.stride_bytes),
        listed(&map.box_sizes)
    )
}

fn listed<T: ToString>(numbers: &[T]) -> String {
    numbers.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}
