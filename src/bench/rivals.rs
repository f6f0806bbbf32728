//! Rivals: competing solutions in PyTorch that are timed beside a kernel. They are host code, so they can win nothing and are on
//! no record.

use std::collections::HashMap;
use std::path::PathBuf;

use super::{Bench, Subject};
use crate::domain::device::regime::Regime;
use crate::domain::ids::CaseName;
use crate::domain::measurement::comparison::Role;
use crate::domain::workload::{Case, Workload};
use crate::error::{Error, error};
use crate::runner::baseline::{BaselineProcess, BaselineProgram, Method, PendingInputs, SOLUTION, Solution};
use crate::runner::comparison::BaselineEntry;

/// What `--against` names a rival with.
const PREFIX: &str = "module:";

/// The command line's name for a rival.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RivalName {
    /// Its file.
    pub file: PathBuf,
    /// The class or function. None is the usual one.
    pub name: Option<String>,
}

/// A solution that is timed, or the challenger as PyTorch calls it.
pub(super) struct Rival {
    name: String,
    process: BaselineProcess,
    /// How it is timed, by case and regime. A case on which it fails is missing.
    methods: HashMap<(CaseName, Regime), Method>,
}

impl RivalName {
    /// Parses the user's text. Returns None if it does not name a rival.
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix(PREFIX)?;
        Some(match rest.rsplit_once(':') {
            Some((file, name)) if !name.contains(['/', '.']) => Self { file: file.into(), name: Some(name.to_owned()) },
            _ => Self { file: rest.into(), name: None },
        })
    }

    /// Returns what to show.
    pub fn shown(&self) -> String {
        let file = self.file.file_name().unwrap_or_default().to_string_lossy();
        self.name.as_ref().map_or_else(|| file.to_string(), |name| format!("{file}:{name}"))
    }
}

impl Rival {
    async fn prepare(&mut self, subject: &Subject, regime: Regime, (l2_bytes, seed): (u64, u64)) -> Result<(), Error> {
        let case = Case { regime, ..subject.case().clone() };
        let (op, dtype) = (subject.workload.op, subject.workload.dtype);
        let drawing = PendingInputs::begin(&self.process, op, dtype, &case, seed);
        let ready = self.process.prepare_one(SOLUTION, op, dtype, &case, l2_bytes, drawing).await?;
        self.process.release().await?;
        self.methods.insert((case.name, regime), ready.method);
        Ok(())
    }

    fn method(&self, case: &CaseName, regime: Regime) -> Option<Method> {
        self.methods.get(&(case.clone(), regime)).copied()
    }

    fn entry(&mut self, case: &CaseName, regime: Regime, is_own: bool) -> Option<BaselineEntry<'_>> {
        let role = match (is_own, self.method(case, regime)?) {
            (true, _) => Role::ChallengerByCall,
            (false, Method::Graph) => Role::Rival,
            (false, Method::Call) => Role::RivalByCall,
        };
        let (name, backend) = (self.name.clone(), SOLUTION.to_owned());
        Some(BaselineEntry { process: &mut self.process, backend, role, name })
    }
}

impl Bench {
    /// Starts a rival. The error says in one sentence why it cannot be timed.
    pub async fn start_rival(
        &mut self,
        name: String,
        solution: &Solution,
        workload: &Workload,
        device: u32,
    ) -> Result<(), Error> {
        let process = self.solution(solution, workload, device).await?;
        self.rivals.push(Rival { name, process, methods: HashMap::new() });
        Ok(())
    }

    /// Starts the challenger as PyTorch calls it, and prepares it on its case.
    pub async fn start_called(
        &mut self,
        solution: &Solution,
        subject: &Subject,
        regime: Regime,
        (device, seed): (u32, u64),
    ) -> Result<(), Error> {
        let process = self.solution(solution, &subject.workload, device).await?.timed_by(Method::Call);
        let mut called = Rival { name: subject.name.clone(), process, methods: HashMap::new() };
        called.prepare(subject, regime, (self.device().l2_bytes, seed)).await?;
        self.called = Some(called);
        Ok(())
    }

    async fn solution(&self, solution: &Solution, workload: &Workload, device: u32) -> Result<BaselineProcess, Error> {
        let (exe, root, settings) = (self.exe.clone(), self.project.root(), self.config.baseline_settings());
        let on = (device, self.evaluator.measuring().min_sample_ns);
        let program = BaselineProgram::of_solution(exe, root, solution, settings, on);
        let process = program.map_err(|error| error!("it cannot be copied: {error}"))?.start().await?;
        process.hello().fits(self.device())?;
        Ok(process.computing(workload.compute).judged_by(workload.tolerance))
    }

    /// Finds how each rival is timed on a case. Returns why those that fail do, by their names.
    pub async fn find_rivals(&mut self, subject: &Subject, regime: Regime, seed: u64) -> Vec<(String, String)> {
        let l2_bytes = self.device().l2_bytes;
        // That of another case may be another kernel.
        self.called = None;
        let mut failed = Vec::new();
        for rival in &mut self.rivals {
            if let Err(reason) = rival.prepare(subject, regime, (l2_bytes, seed)).await {
                failed.push((rival.name.clone(), reason.to_string()));
            }
        }
        failed
    }

    /// Tells whether a rival is timed call by call on a case, so that the challenger has to be, too.
    pub fn has_calls(&self, case: &CaseName, regime: Regime) -> bool {
        self.rivals.iter().any(|rival| rival.method(case, regime) == Some(Method::Call))
    }
}

/// Returns the rivals that take part on a case, and the challenger as PyTorch calls it.
pub(super) fn entries<'a>(
    rivals: &'a mut [Rival],
    called: Option<&'a mut Rival>,
    case: &CaseName,
    regime: Regime,
) -> Vec<BaselineEntry<'a>> {
    let rivals = rivals.iter_mut().filter_map(|rival| rival.entry(case, regime, false));
    rivals.chain(called.and_then(|called| called.entry(case, regime, true))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rival_is_a_file_and_may_name_its_class() {
        let parsed = |text: &str| RivalName::parse(text).map(|rival| (rival.file.display().to_string(), rival.shown()));
        assert_eq!(parsed("module:a/solution.py"), Some(("a/solution.py".to_owned(), "solution.py".to_owned())));
        assert_eq!(parsed("module:a/s.py:Fast"), Some(("a/s.py".to_owned(), "s.py:Fast".to_owned())));
        assert_eq!(parsed("attention-scalar:BR=64"), None);
    }
}
