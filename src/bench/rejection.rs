//! Why a kernel does not compile, at the user's file and line.

use super::{Bench, Subject};
use crate::check::{self, Finding, Pair, Tools};
use crate::evaluate::Rejection;
use crate::runner::compile::CompileError;

/// Returns a sentence that names the kernel.
pub(super) fn sentence(rejection: &Rejection, subject: &Subject) -> String {
    format!("{} does not compile: {}", subject.name, rejection.message)
}

impl Bench {
    /// Finds the place of a compiler's first error: in the file that the command line names, or in the template of the family from
    /// which the source is rendered.
    pub(super) fn rejection(&self, subject: &Subject, error: &CompileError) -> anyhow::Result<Rejection> {
        let log = if let CompileError::Rejected { log } = error { log.clone() } else { error.to_string() };
        let message = match &subject.file {
            Some(file) => error.to_string().replacen("variant.cu(", &format!("{}(", file.display()), 1),
            None => self.in_template(subject, error)?.unwrap_or_else(|| error.to_string()),
        };
        Ok(Rejection { message, log })
    }

    fn in_template(&self, subject: &Subject, error: &CompileError) -> anyhow::Result<Option<String>> {
        let (variant, workload, case) = (&subject.variant, &subject.workload, subject.case());
        let Ok(family) = self.families.family(&variant.family) else { return Ok(None) };
        let specialization = family.specialization(case);
        let rendered = self.renderer.render(family, &specialization, workload.dtype, &variant.params);
        // The source of an older iteration may come from another template.
        let is_same = rendered.is_ok_and(|rendered| rendered.hash == variant.hash);
        let Some((_, compiler)) = self.compilers.first().filter(|_| is_same) else { return Ok(None) };
        let tools = Tools {
            renderer: self.renderer.clone(),
            compiler: compiler.clone(),
            device: self.device().clone(),
            measuring: self.evaluator.measuring(),
        };
        let places = self.project.places(family)?;
        let pair = Pair { workload: workload.clone(), family: family.clone(), places, configuration: None };
        let errors = check::compiler_errors(&pair, &tools, case, variant, error);
        Ok(errors.first().map(Finding::sentence))
    }
}
