//! A recorded space as what proposers search: a workload with one case, and a family whose configurations are listed.

use std::fmt::Write as _;

use crate::domain::device::DeviceInfo;
use crate::domain::family::{Family, Listed};
use crate::domain::text::names::is_file_name;
use crate::domain::variant::Params;
use crate::domain::workload::{Case, Workload};
use crate::error::Error;
use crate::ops;

use super::space::{Configuration, Failure, Parameter, RecordedSpace, Recording};

/// The op, and the kernel that the family claims to launch.
const OP: &str = "recorded";

/// The longest name of a workload, a family and a case.
const MAX_NAME: usize = 64;

/// The text in place of a source. There is none.
const TEMPLATE: &str = "// A recorded configuration: its source is not known, and nothing is compiled.\n";

/// A recorded space that proposers can search.
pub struct Searchable {
    /// The recording.
    pub space: RecordedSpace,
    /// The workload, with one case.
    pub workload: Workload,
    /// The family, as the only one. Its list of configurations has the order of the recording.
    pub families: [Family; 1],
    /// A device for proposers. Nothing is executed on it.
    pub device: DeviceInfo,
}

impl Searchable {
    /// Makes a space searchable. The error is one sentence, such as for a name that no parameter may have.
    pub fn new(space: RecordedSpace) -> Result<Self, Error> {
        let find = |_: &str| Ok(ops::RECORDED);
        let name = file_name(&space.name);
        let numbers: Vec<Vec<i64>> = space.parameters.iter().map(Parameter::numbers).collect();
        let list = space.configurations.iter().map(|configuration| {
            configuration.positions.iter().zip(&numbers).map(|(position, numbers)| numbers[*position]).collect()
        });
        let list: Vec<Vec<i64>> = list.collect();
        let manifest = manifest(&name, &space, &numbers, &list[central(&space)]);
        let family =
            Family::parse_with_op(&manifest, TEMPLATE.to_owned(), find).map_err(|mistakes| mistakes.join("; "))?;
        let device = DeviceInfo::of_arch("sm_90a")?;
        let device = DeviceInfo { name: space.device.clone().unwrap_or_else(|| "not recorded".to_owned()), ..device };
        Ok(Self { workload: workload(&name)?, families: [family.with_listed(Listed::new(list))], device, space })
    }

    /// Returns the family.
    pub fn family(&self) -> &Family {
        &self.families[0]
    }

    /// Returns the case.
    pub fn case(&self) -> &Case {
        &self.workload.cases[0]
    }

    /// Returns what is recorded of a configuration. None if the recording does not have it.
    pub fn configuration(&self, params: &Params) -> Option<&Configuration> {
        self.space.configurations.get(self.family().listed_place(params)?)
    }

    /// Returns the recorded result of a configuration. None if the recording does not have it.
    pub fn result(&self, params: &Params) -> Option<Result<&Recording, Failure>> {
        Some(self.configuration(params)?.result.as_ref().map_err(|failure| *failure))
    }
}

/// Returns the workload of a recorded space. Its name is that of its one case and of the family, too. The error is one
/// sentence.
pub fn workload(name: &str) -> Result<Workload, Error> {
    let text = format!(
        "name = \"{name}\"\nabout = \"A recorded search space.\"\nop = \"{OP}\"\ndtype = \"f32\"\n\
         initial_kernel = \"{name}\"\ntolerance = {{ relative_l2 = 1e-3, worst_row = 1e-3 }}\n\
         [[case]]\nname = \"{name}\"\n"
    );
    Workload::parse(&text, |_| Ok(ops::RECORDED))
}

/// Turns the name of a space into one that a workload may have: `gemm__RTX_3090` becomes `gemm-rtx-3090`.
fn file_name(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    let words = lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let name: String = words.collect::<Vec<_>>().join("-").chars().take(MAX_NAME).collect();
    if is_file_name(&name) { name } else { OP.to_owned() }
}

/// Returns the place of the configuration that is nearest to the middle of every parameter's range. It is the default,
/// because recordings have none. Its choice does not depend on any time.
fn central(space: &RecordedSpace) -> usize {
    let distance = |place: &usize| -> f64 {
        let positions = &space.configurations[*place].positions;
        let share = |(position, parameter): (&usize, &Parameter)| {
            let last = (parameter.values.len() - 1) as f64;
            if last > 0.0 { (*position as f64 / last - 0.5).abs() } else { 0.0 }
        };
        positions.iter().zip(&space.parameters).map(share).sum()
    };
    let places = 0..space.configurations.len();
    places.min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or(0)
}

/// Writes the manifest of the family. It launches one kernel that takes every parameter as an argument.
fn manifest(name: &str, space: &RecordedSpace, numbers: &[Vec<i64>], defaults: &[i64]) -> String {
    let mut text = format!(
        "name = \"{name}\"\nabout = \"The configurations of a recorded search space.\"\nop = \"{OP}\"\n\
         dtypes = [\"f32\"]\nrequires_sm = 0\nconstants = []\n"
    );
    let mut args = vec!["out".to_owned()];
    for ((parameter, numbers), default) in space.parameters.iter().zip(numbers).zip(defaults) {
        // Quoted, so that a name with a dot or a newline is reported and not read as TOML.
        let name = serde_json::Value::from(parameter.name.as_str()).to_string();
        let _ = write!(
            text,
            "[params.{name}]\nvalues = {numbers:?}\ndefault = {default}\nabout = \"as recorded\"\nexpect = [1.0, 1.5]\n"
        );
        args.push(parameter.name.clone());
    }
    let args = serde_json::Value::from(args);
    let _ = write!(text, "[[launch]]\nkernel = \"{OP}\"\ngrid = [\"1\"]\nblock = [\"1\"]\nargs = {args}\n");
    text
}
