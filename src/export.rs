//! Turns committed winners into code that launches them without optloop: a C++ launcher, a Python module or an op of
//! PyTorch. Pure: files are returned as texts. Their templates and the modules that they share are in `templates/export/`.
//!
//! What an op is called and which tensors it has comes from its description. Everything else comes from the sidecars.

mod cpp;
mod interface;
mod plans;
mod proven;
mod python;
mod table;
#[cfg(test)]
mod tests;

use tera::{Context, EscapeFn, Tera};

use crate::domain::code::ptx;
use crate::domain::device::DeviceKey;
use crate::domain::family::plan::LaunchPlan;
use crate::domain::op::Dims;
use crate::domain::sidecar::Sidecar;
use crate::domain::text::escape;
use crate::domain::workload::Workload;

use self::interface::Interface;
use self::table::Table;

pub use proven::proven;

/// Tensors and workspaces of a launch begin at a multiple of this many bytes, as in every check (docs/correctness.md).
const ALIGNMENT_BYTES: usize = 256;

const TEMPLATES: [(&str, &str); 7] = [
    ("launcher.h", include_str!("../templates/export/launcher.h.tera")),
    ("launcher.cpp", include_str!("../templates/export/launcher.cpp.tera")),
    ("plans.py", include_str!("../templates/export/plans.py.tera")),
    ("python.py", include_str!("../templates/export/python.py.tera")),
    ("torch.py", include_str!("../templates/export/torch.py.tera")),
    ("sdpa.py", include_str!("../templates/export/sdpa.py.tera")),
    ("README.md", include_str!("../templates/export/README.md.tera")),
];

/// The words that cannot be names in Python.
const KEYWORDS_OF_PYTHON: &str = "False None True and as assert async await break class continue def del elif else except finally for from \
    global if import in is lambda nonlocal not or pass raise return try while with yield";

/// The licence of the launchers, which asks to be kept with them.
const LICENCE: &str = include_str!("../LICENSE-MIT");

/// What the winners are exported to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A header and a C++ file that call the CUDA driver and NVRTC.
    C,
    /// A Python package that calls the same through ctypes.
    Python,
    /// The same with a custom op of PyTorch.
    Torch,
}

/// A committed winner with everything that is exported of it.
#[derive(Debug, Clone)]
pub struct Winner {
    /// The kind of device that it won on.
    pub device: DeviceKey,
    /// Its launch and its results.
    pub sidecar: Sidecar,
    /// The text of its source: CUDA, or PTX.
    pub source: String,
    /// The dimensions of its case.
    pub dims: Dims,
    /// Its launches on other shapes, on which its source passed the acceptance checks.
    pub proven: Vec<(Dims, LaunchPlan)>,
}

impl Winner {
    /// Returns the file name of its source.
    fn source_name(&self) -> String {
        self.sidecar.variant.name_of(&self.source)
    }
}

/// A file of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Its path in the folder, with `/`.
    pub path: String,
    /// Its contents.
    pub text: String,
}

/// Why winners cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The workload or its winners are at fault. One sentence.
    #[error("{0}")]
    Refused(String),
    /// A template is at fault.
    #[error("Failed to write the exported code")]
    Template(#[from] tera::Error),
    /// The table cannot be written.
    #[error("Failed to write the table of winners")]
    Table(#[from] serde_json::Error),
}

/// Returns the name of a workload as an identifier: that of the Python package, the op and the C++ files.
pub fn module_name(workload: &str) -> String {
    let name = workload.replace('-', "_");
    match &*name {
        word if is_python_keyword(word) => format!("{word}_"),
        other if other.starts_with(|c: char| c.is_ascii_digit()) => format!("_{other}"),
        _ => name,
    }
}

fn is_python_keyword(name: &str) -> bool {
    KEYWORDS_OF_PYTHON.split(' ').any(|word| word == name)
}

/// Returns the files of an export, all of them below one folder. There must be a winner.
pub fn files(workload: &Workload, winners: &[Winner], target: Target) -> Result<Vec<File>, ExportError> {
    let interface = Interface::of(workload, winners);
    let table = Table::of(workload, &interface, winners)?;
    let mut files = match target {
        Target::C => cpp::files(workload, &interface, &table, winners)?,
        Target::Python | Target::Torch => python::files(workload, &interface, &table, winners, target)?,
    };
    let mut context = context(workload, &interface);
    context.insert("target", target.name());
    context.insert("is_sdpa", &python::masks(workload, &interface).is_some());
    context.insert("rows", &table.described());
    context.insert("has_ptx", &winners.iter().any(|winner| ptx::is_ptx(&winner.source)));
    context.insert("prepares", &table.prepares());
    context.insert("devices", &table.devices);
    context.insert("nvrtc", &table.nvrtc(winners));
    files.push(File { path: "README.md".to_owned(), text: rendered("README.md", &context)? });
    files.push(File { path: "LICENSE".to_owned(), text: LICENCE.to_owned() });
    Ok(files)
}

impl Target {
    /// Returns the name that the command line uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::C => "c",
            Self::Python => "python",
            Self::Torch => "torch",
        }
    }
}

/// Returns what every template may use.
fn context(workload: &Workload, interface: &Interface) -> Context {
    let module = module_name(&workload.name);
    let mut context = Context::new();
    context.insert("version", env!("CARGO_PKG_VERSION"));
    context.insert("workload", &workload.name);
    context.insert("about", &workload.about);
    context.insert("op", workload.op.name());
    context.insert("compute", workload.compute.name());
    context.insert("macro", &module.to_uppercase());
    context.insert("prefix", &format!("optloop_{module}"));
    context.insert("module", &module);
    context.insert("alignment", &ALIGNMENT_BYTES);
    interface.describe(&mut context);
    context
}

/// Renders a template. Every value is escaped for the template's language, unless the template marks it as code with `safe`.
fn rendered(template: &str, context: &Context) -> Result<String, ExportError> {
    let escaped: EscapeFn = match template.rsplit_once('.') {
        Some((_, "py")) => |text, out| out.write_all(escape::python(text).as_bytes()),
        Some((_, "md")) => |text, out| out.write_all(escape::markdown(text).as_bytes()),
        _ => |text, out| out.write_all(escape::c(text).as_bytes()),
    };
    let mut tera = Tera::new();
    tera.set_escape_fn(escaped);
    tera.autoescape_on([""]);
    tera.add_raw_templates(TEMPLATES)?;
    Ok(tera.render(template, context)?)
}
