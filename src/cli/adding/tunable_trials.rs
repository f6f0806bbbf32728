//! Tries other values of what is tunable in a new kernel.

use rayon::prelude::*;

use crate::check::code_without;
use crate::config::Config;
use crate::domain::code::artifact::Artifact;
use crate::domain::device::DeviceInfo;
use crate::domain::family::{ConfigurationError, Family, Param};
use crate::domain::space::Space;
use crate::domain::variant::Params;
use crate::domain::workload::Workload;
use crate::error::{Error, error};
use crate::intake::{Texts, Tunable, Wanted};
use crate::launch::own_executable;
use crate::runner::compile::Compiler;
use crate::runner::renderer::Renderer;
use crate::runner::toolchain::Toolchain;

/// A tunable with another value.
struct OtherValue<'a> {
    tunable: &'a Tunable,
    value: i64,
    /// The PTX, or why it does not compile. None where a constraint excludes the value.
    result: Option<Result<String, Error>>,
}

/// What became of each value of each tunable.
pub struct TunableTrials {
    /// The tunables that change nothing in the machine code.
    pub idle: Vec<String>,
    /// The values that do not compile, or have the machine code of another one, with the reason.
    pub refused: Vec<(String, i64, String)>,
    /// Whether it adds floating-point numbers with atomics, as it is.
    pub adds_floats_with_atomics: bool,
}

impl TunableTrials {
    /// Compiles the kernel as it is, and with every other value of each tunable. The error is why it does not compile as it
    /// is.
    pub fn of(
        (workload, family): (&Workload, &Family),
        (texts, wanted): (&Texts, &Wanted),
        config: &Config,
        arch: &str,
    ) -> Result<Self, Error> {
        let text = |error: anyhow::Error| format!("{error:#}");
        let device = DeviceInfo::of_arch(arch)?;
        let renderer = Renderer::new(own_executable().map_err(text)?);
        let toolchain = Toolchain::find_or_fetch().map_err(text)?;
        let limits = config.compile_limits();
        let compiler = Compiler::new(own_executable().map_err(text)?, toolchain, arch, &config.compile.options, limits);
        let compiler = compiler.map_err(text)?;
        let Some(case) = workload.cases.first() else { return Err(Error::new("it has no case")) };
        let space = Space { family, case, dtype: workload.dtype, device: &device };
        let artifact = |params: &Params| -> Result<Artifact, Error> {
            let variant = renderer.render(family, &family.specialization(case), workload.dtype, params)?;
            compiler.compile(&variant).map_err(Error::new)
        };
        let ptx = |params: &Params| artifact(params).map(|artifact| artifact.ptx);
        let defaults = family.defaults();
        for case in &workload.cases {
            let plan = family.plan(&defaults, case, workload.op, workload.dtype, &device);
            plan.map_err(|problem| error!("case `{}`: {problem}", case.name))?;
        }
        let as_it_is = artifact(&defaults)?;
        let adds_floats_with_atomics = as_it_is.adds_floats_with_atomics();
        let as_it_is = as_it_is.ptx;
        let tries: Vec<(&Tunable, i64)> = texts
            .parameters
            .iter()
            .flat_map(|(tunable, values)| values.iter().map(move |value| (tunable, *value)))
            .filter(|(tunable, value)| *value != tunable.value)
            .collect();
        let compiled: Vec<OtherValue<'_>> = tries
            .into_par_iter()
            .map(|(tunable, value)| {
                let mut params = defaults.clone();
                params.insert(tunable.name.clone(), value);
                let is_valid = space.contains(&params).unwrap_or(false);
                let result =
                    is_valid.then(|| match never_launches(workload, family, (&tunable.name, value), &device) {
                        Some(problem) => Err(Error::new(problem)),
                        None => ptx(&params),
                    });
                OtherValue { tunable, value, result }
            })
            .collect();
        let (mut idle, mut refused) = (Vec::new(), Vec::new());
        for (tunable, _) in &texts.parameters {
            let name = &tunable.name;
            // A number in the launch matters, whatever the machine code.
            let is_launched = wanted.launch_names().contains(name);
            let mut known = vec![(tunable.value, code_without(&as_it_is, name))];
            let own = || compiled.iter().filter(|other| other.tunable.name == *name);
            let before = refused.len();
            for OtherValue { value, result, .. } in own() {
                let problem = match result {
                    Some(Err(problem)) => problem.to_string().lines().next().unwrap_or_default().to_owned(),
                    Some(Ok(ptx)) if !is_launched => {
                        let code = code_without(ptx, name);
                        match known.iter().find(|(_, other)| *other == code) {
                            Some((same, _)) => format!("its machine code is that of {same}"),
                            None => {
                                known.push((*value, code));
                                continue;
                            }
                        }
                    }
                    _ => continue,
                };
                refused.push((name.clone(), *value, problem));
            }
            if refused.len() - before == own().count() {
                idle.push(name.clone());
            }
        }
        Ok(Self { idle, refused, adds_floats_with_atomics })
    }

    /// Leaves out what was tried in vain.
    pub fn note(&self, wanted: &mut Wanted, texts: &Texts) {
        for (tunable, values) in &texts.parameters {
            let is_refused =
                |value: &i64| self.refused.iter().any(|(name, refused, _)| name == &tunable.name && refused == value);
            if self.idle.contains(&tunable.name) {
                // The launch still needs the only value.
                if wanted.names().contains(&tunable.name) {
                    wanted.values.insert(tunable.name.clone(), vec![tunable.value]);
                    continue;
                }
                wanted.values.shift_remove(&tunable.name);
                let why = "no other value compiles and changes the machine code";
                wanted.fixed.insert(tunable.name.clone(), why.to_owned());
            } else if values.iter().any(is_refused) {
                let kept = values.iter().copied().filter(|value| !is_refused(value)).collect();
                wanted.values.insert(tunable.name.clone(), kept);
            }
        }
    }
}

/// Returns why a parameter cannot have a value: the launch plan of every case fails, whether the other parameters have their
/// default, smallest or largest values. None if it may.
fn never_launches(
    workload: &Workload,
    family: &Family,
    (name, value): (&str, i64),
    device: &DeviceInfo,
) -> Option<String> {
    let others = |of: fn(&Param) -> i64| -> Params {
        family
            .params
            .iter()
            .map(|(other, param)| (other.clone(), if other == name { value } else { of(param) }))
            .collect()
    };
    let configurations = [
        others(|param| param.default),
        others(|param| param.values.iter().copied().min().unwrap_or(param.default)),
        others(|param| param.values.iter().copied().max().unwrap_or(param.default)),
    ];
    let mut problem = None;
    for (params, case) in configurations.iter().flat_map(|params| workload.cases.iter().map(move |case| (params, case)))
    {
        match family.plan(params, case, workload.op, workload.dtype, device) {
            Ok(_) => return None,
            Err(ConfigurationError::Manifest(why)) => {
                problem.get_or_insert(why);
            }
            // It excludes the combination, not the value.
            Err(ConfigurationError::Constraint { .. }) => {}
        }
    }
    problem.map(|why| format!("it launches on no case: {why}"))
}
