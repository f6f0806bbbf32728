//! A recorded space as what proposers search: a workload with one case, and a family whose configurations are listed.

use std::fmt::Write as _;

use crate::domain::device::DeviceInfo;
use crate::domain::family::{Family, Listed};
use crate::domain::variant::Params;
use crate::domain::workload::{Case, Workload};
use crate::ops;

use super::space::{Failure, Parameter, RecordedSpace, Recording};

/// The name of the family, the workload and the case.
const NAME: &str = "recorded";

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
    pub fn new(space: RecordedSpace) -> Result<Self, String> {
        let find = |_: &str| Ok(ops::RECORDED);
        let numbers: Vec<Vec<i64>> = space.parameters.iter().map(Parameter::numbers).collect();
        let list = space.configurations.iter().map(|configuration| {
            configuration.positions.iter().zip(&numbers).map(|(position, numbers)| numbers[*position]).collect()
        });
        let list: Vec<Vec<i64>> = list.collect();
        let manifest = manifest(&space, &numbers, &list[central(&space)]);
        let family = Family::parse_with_op(&manifest, String::new(), find).map_err(|mistakes| mistakes.join("; "))?;
        let text = format!(
            "name = \"{NAME}\"\nabout = \"A recorded search space.\"\nop = \"{NAME}\"\ndtype = \"f32\"\n\
             initial_kernel = \"{NAME}\"\ntolerance = {{ relative_l2 = 1e-3, worst_row = 1e-3 }}\n\
             [[case]]\nname = \"{NAME}\"\n"
        );
        let device = DeviceInfo::of_arch("sm_90a")?;
        let device = DeviceInfo { name: space.device.clone().unwrap_or_else(|| "not recorded".to_owned()), ..device };
        Ok(Self {
            workload: Workload::parse(&text, find)?,
            families: [family.with_listed(Listed::new(list))],
            device,
            space,
        })
    }

    /// Returns the family.
    pub fn family(&self) -> &Family {
        &self.families[0]
    }

    /// Returns the case.
    pub fn case(&self) -> &Case {
        &self.workload.cases[0]
    }

    /// Returns the recorded result of a configuration. None if the recording does not have it.
    pub fn result(&self, params: &Params) -> Option<Result<&Recording, Failure>> {
        let configuration = &self.space.configurations[self.family().listed_place(params)?];
        Some(configuration.result.as_ref().map_err(|failure| *failure))
    }
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
fn manifest(space: &RecordedSpace, numbers: &[Vec<i64>], defaults: &[i64]) -> String {
    let mut text = format!(
        "name = \"{NAME}\"\nabout = \"The configurations of a recorded search space.\"\nop = \"{NAME}\"\n\
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
    let _ = write!(text, "[[launch]]\nkernel = \"{NAME}\"\ngrid = [\"1\"]\nblock = [\"1\"]\nargs = {args}\n");
    text
}
