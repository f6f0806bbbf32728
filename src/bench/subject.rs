//! A kernel to measure, and its name on the command line.

use std::path::PathBuf;

use crate::domain::code::artifact::Artifact;
use crate::domain::ids::{CaseName, IterationId};
use crate::domain::sidecar::Sidecar;
use crate::domain::variant::Variant;
use crate::domain::workload::{Case, Workload};
use crate::error::{Error, error};
use crate::evaluate::{Kernel, Rejection};
use crate::runner::messages::CaseRequest;

/// The command line's name for a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelName {
    /// A `.cu` or `.ptx` file, for every sidecar in its folder that names it; or one such sidecar.
    File(PathBuf),
    /// The committed winner of a case.
    Winner {
        /// Name of the workload.
        workload: String,
        /// Name of the case.
        case: CaseName,
    },
    /// The variant of an iteration.
    Iteration(IterationId),
    /// A configuration of a family. Parameters that are not named have their defaults.
    Configuration {
        /// Name of the family.
        family: String,
        /// The named parameters.
        params: Vec<(String, i64)>,
    },
}

/// A kernel on a case, with everything needed to compile and run it.
#[derive(Clone)]
pub struct Subject {
    /// The family and the hash of the source.
    pub name: String,
    /// The iteration that measured it, if the command line names one.
    pub iteration: Option<IterationId>,
    /// The workload of the case.
    pub workload: Workload,
    /// The source.
    pub variant: Variant,
    /// The file with the source, if the command line names one.
    pub file: Option<PathBuf>,
    /// The options for NVRTC.
    pub options: Vec<String>,
    /// The case with the launch plan.
    pub request: CaseRequest,
}

/// A winner in files.
#[derive(Debug, Clone, PartialEq)]
pub struct Committed {
    /// Name of its workload.
    pub workload: String,
    /// The text of its source.
    pub source: String,
    /// Its launch and its results.
    pub sidecar: Sidecar,
}

impl KernelName {
    /// Parses the user's text.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if [".cu", ".ptx", ".json"].iter().any(|ending| text.ends_with(ending)) {
            return Ok(Self::File(PathBuf::from(text)));
        }
        if text.chars().all(|c| c.is_ascii_digit()) {
            let number = text.parse().map_err(|_| error!("`{text}` is not the number of an iteration"))?;
            return Ok(Self::Iteration(number));
        }
        if let Some((workload, case)) = text.rsplit_once('/') {
            if workload.contains('/') {
                return Err(error!(
                    "`{text}` is neither a .cu or .json file nor `<workload>/<case>`: name a committed winner by one \
                     of these"
                ));
            }
            return Ok(Self::Winner { workload: workload.to_owned(), case: case.into() });
        }
        let Some((family, params)) = text.split_once(':') else {
            return Ok(Self::Configuration { family: text.to_owned(), params: Vec::new() });
        };
        if family.is_empty() || params.split(',').any(str::is_empty) {
            return Err(error!(
                "`{text}` lacks a name before the colon or a parameter between its commas: write FAMILY, or \
                 FAMILY:NAME=NUMBER,NAME=NUMBER"
            ));
        }
        let params = params.split(',').map(param).collect::<Result<Vec<_>, _>>()?;
        Ok(Self::Configuration { family: family.to_owned(), params })
    }
}

fn param(text: &str) -> Result<(String, i64), Error> {
    let parsed = text.split_once('=').and_then(|(name, value)| Some((name.to_owned(), value.parse().ok()?)));
    parsed.ok_or_else(|| {
        error!("`{text}` is not a parameter").hint("write NAME=NUMBER, and separate several with commas")
    })
}

impl Subject {
    /// Returns the case.
    pub fn case(&self) -> &Case {
        &self.request.case
    }

    /// Returns the kernel, compiled.
    pub(super) fn kernel<'a>(&'a self, compiled: Result<&'a Artifact, &'a Rejection>) -> Kernel<'a> {
        let Self { workload, variant, request, .. } = self;
        Kernel { workload, variant, case: &request.case, planned: Ok(request), compiled }
    }

    /// Returns the name of a variant to show.
    pub fn name(variant: &Variant) -> String {
        format!("{} {}", variant.family, variant.hash.short())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_named_by_a_file_a_winner_an_iteration_or_a_configuration() {
        let winner = KernelName::Winner { workload: "attention-fp16-d64".to_owned(), case: "b1h1s128".into() };
        assert_eq!(KernelName::parse("attention-fp16-d64/b1h1s128"), Ok(winner));
        for file in ["kernels/variants/gpu-8sm-8gib/w/toy-0123456789.cu", "kernels/variants/gpu-8sm-8gib/w/c.json"] {
            assert_eq!(KernelName::parse(file), Ok(KernelName::File(PathBuf::from(file))));
        }
        assert_eq!(KernelName::parse("17"), Ok(KernelName::Iteration(IterationId(17))));
        let configuration = |params: &[(&str, i64)]| KernelName::Configuration {
            family: "attention-scalar".to_owned(),
            params: params.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
        };
        assert_eq!(KernelName::parse("attention-scalar"), Ok(configuration(&[])));
        assert_eq!(KernelName::parse("attention-scalar:BR=64,BC=32"), Ok(configuration(&[("BR", 64), ("BC", 32)])));
        for incomplete in ["attention-scalar:", "attention-scalar:,", "attention-scalar:BR=64,", ":BR=64"] {
            let said = KernelName::parse(incomplete).unwrap_err();
            assert!(said.to_string().contains("write FAMILY, or FAMILY:NAME=NUMBER"), "{said}");
        }
    }

    #[test]
    fn an_argument_that_names_no_kernel_gets_the_valid_forms() {
        insta::assert_snapshot!(KernelName::parse("attention-scalar:BR").unwrap_err(), @"`BR` is not a parameter: write NAME=NUMBER, and separate several with commas");
        insta::assert_snapshot!(KernelName::parse("kernels/variants/w/c").unwrap_err(), @"`kernels/variants/w/c` is neither a .cu or .json file nor `<workload>/<case>`: name a committed winner by one of these");
    }
}
