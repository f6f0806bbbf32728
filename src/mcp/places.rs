//! Finds the lines of the template to which messages of the compiler belong.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::catalog::{Place, Project};
use crate::check::{self, Finding, Pair, Tools};
use crate::domain::family::Family;
use crate::domain::variant::Variant;
use crate::domain::workload::Workload;
use crate::runner::compile::CompileError;
use crate::store::IterationDetail;

/// What is needed for it. Clones share it.
#[derive(Clone)]
pub struct Places {
    /// The project's files.
    pub project: Project,
    /// The workload of the session.
    pub workload: Arc<Workload>,
    /// What renders and compiles.
    pub tools: Tools,
}

impl Places {
    /// Returns each error of the compiler about an iteration, at the line of its family's template. Empty if it compiled. Takes as
    /// long as rendering it twice.
    pub async fn errors(&self, detail: &IterationDetail, family: Family) -> Vec<Value> {
        let (Some(log), Some(case)) = (detail.compile_log.clone(), detail.iteration.cases.first().cloned()) else {
            return Vec::new();
        };
        let record = &detail.iteration;
        let variant = Variant {
            family: record.family.clone(),
            params: record.params.clone(),
            hash: record.hash.clone(),
            source: detail.source.clone(),
        };
        let places = self.project.places(&family).unwrap_or_else(|_| own_lines(&family));
        let pair = Pair { workload: Workload::clone(&self.workload), family, places, configuration: None };
        let tools = self.tools.clone();
        let find = move || check::compiler_errors(&pair, &tools, &case, &variant, &CompileError::Rejected { log });
        let found = tokio::task::spawn_blocking(find).await.unwrap_or_default();
        found.iter().map(as_json).collect()
    }
}

/// A client has written the family, so its template is no file.
fn own_lines(family: &Family) -> Vec<Place> {
    let file = Arc::new(PathBuf::from(format!("template of {}", family.name)));
    (1..=family.template.lines().count()).map(|line| Place { file: Arc::clone(&file), line }).collect()
}

fn as_json(finding: &Finding) -> Value {
    json!({ "file": finding.file, "line": finding.line, "message": finding.message })
}
