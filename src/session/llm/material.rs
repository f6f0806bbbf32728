//! Gathers what a prompt tells a model: the task, and what is known now, the most useful first. Pure.

use std::fmt::Write;
use std::time::Duration;

use super::attempts;
use super::explained::{findings_of, told};
use super::lookups::Lookup;
use super::machine_code::MachineCode;
use crate::agent::SearchContext;
use crate::agent::diagnosis::Diagnosis;
use crate::agent::llm::prompt::{self, Ask, Prompt, Section, Task, block};
use crate::domain::claims::approach::{Approach, Form};
use crate::domain::family::Family;
use crate::domain::ids::CaseName;
use crate::domain::measurement::floor::Floor;
use crate::domain::models::call_record::CallSubject;
use crate::domain::op::OpSource;
use crate::domain::proposal::finding::Finding;
use crate::domain::variant::show_params;
use crate::domain::workload::Tolerance;
use crate::error::Error;
use crate::session::state::SessionState;

/// The findings of each case that a prompt tells.
const FINDINGS_PER_CASE: usize = 3;

/// The cases whose findings a plan tells: those farthest from their floors.
const FINDINGS_OF_CASES: usize = 4;

/// What holds for an op of the project beside its manifest (docs/correctness.md).
const OWN_OP: &str = "Where some inputs are infinite and the oracle stays finite, so must the kernel. Where the oracle is not \
                      finite, nothing is specified.";

/// How a manifest is written, for models.
const MANUAL: &str = include_str!("../../../docs/family.md");

/// The marks around the part of that page that prompts contain.
const MANUAL_MARKS: [&str; 2] = ["<!-- prompt -->", "<!-- /prompt -->"];

/// Writes the prompt of a question.
pub(super) fn prompt(
    state: &SessionState,
    (context, machine_code): (&SearchContext<'_>, &MachineCode),
    diagnosis: &Diagnosis,
    subject: &CallSubject,
    left: Duration,
) -> Result<Prompt, Error> {
    let terms = &state.setup().options.llm;
    let material = Material { state, context, machine_code, diagnosis };
    let task = material.task();
    let tokens = terms.context_tokens;
    let seen = material.seen(subject.wants());
    let with = |sections: Vec<Section>| seen.iter().cloned().chain(sections).collect::<Vec<_>>();
    match subject.question() {
        CallSubject::Plan => {
            let forms: &[Form] = if terms.sends_source { &Form::ALL } else { &Form::ALL[..1] };
            let budget = material.budget(left);
            prompt::render(&task, &with(material.of_plan()), Ask::Plan { forms, budget: &budget }, tokens)
        }
        CallSubject::Code { approach } => {
            prompt::render(&task, &with(material.of_code(approach)), Ask::Code { approach }, tokens)
        }
        CallSubject::Repair { approach, answer, problem, round, .. } => {
            let answer = state.calls().answer(*answer).unwrap_or_default();
            let rounds = terms.repair_rounds;
            let ask = Ask::Repair { approach, answer, problem, round: *round, rounds };
            prompt::render(&task, &with(material.of_code(approach)), ask, tokens)
        }
        CallSubject::Informed { .. } => Err(Error::new("a question asks for itself")),
    }
}

pub(in crate::session) struct Material<'a> {
    pub state: &'a SessionState,
    pub context: &'a SearchContext<'a>,
    pub machine_code: &'a MachineCode,
    pub diagnosis: &'a Diagnosis,
}

impl Material<'_> {
    /// Describes the task.
    pub fn task(&self) -> Task {
        let (workload, device) = (self.context.workload, self.context.device);
        let peaks = &device.peaks;
        let [begin, end] = MANUAL_MARKS;
        let manual = MANUAL.split_once(begin).and_then(|(_, rest)| rest.split_once(end)).map_or("", |(text, _)| text);
        let sends_source = self.state.setup().options.llm.sends_source;
        Task {
            workload: workload.name.clone(),
            op: workload.op.name().to_owned(),
            dtype: workload.compute.of(workload.dtype),
            about: workload.about.clone(),
            device: format!(
                "{}, {} SMs, compute capability {}.{}, {} KiB of shared memory per block, peaks {:.0} TFLOP/s, {:.2} \
                 TB/s of memory, {:.2} us for an empty launch",
                device.name,
                device.sms,
                device.sm / 10,
                device.sm % 10,
                device.smem_limit_bytes / 1024,
                peaks.flops(workload.dtype, workload.compute) / 1e12,
                peaks.memory_bytes_per_s / 1e12,
                peaks.launch_ns / 1e3
            ),
            contract: self.contract(),
            cases: self.cases(),
            families: self.context.families.iter().map(|family| about(family)).collect(),
            manual: if sends_source { manual.trim().to_owned() } else { String::new() },
        }
    }

    fn cases(&self) -> String {
        let mut table = "| case | dimensions | floor (us) | set by |\n|---|---|--:|---|\n".to_owned();
        for case in &self.context.workload.cases {
            let floor = Floor::of(self.context.workload, case, self.context.device);
            let dims: Vec<String> = case.dims.iter().map(|(name, value)| format!("{name} = {value}")).collect();
            let _ = writeln!(
                table,
                "| {} | {} | {:.3} | {} |",
                case.name,
                dims.join(", "),
                floor.ns / 1e3,
                floor.limiter.name()
            );
        }
        table
    }

    fn of_plan(&self) -> Vec<Section> {
        let mut sections = vec![self.standing(), self.proposals(), self.refused(), self.fastest(None)];
        if let Some(diagnosis) = self.diagnosis(None) {
            sections.insert(1, diagnosis);
        }
        sections.extend(self.template(self.farthest().and_then(|case| self.fastest_family(&case))));
        sections.extend(self.farthest().and_then(|case| self.profile(&case)));
        sections.extend(self.lessons());
        sections.into_iter().filter(|section| !section.text.is_empty()).collect()
    }

    fn of_code(&self, approach: &Approach) -> Vec<Section> {
        let named = self.context.families.iter().find(|family| family.name == approach.family).copied();
        let base = named.or_else(|| self.fastest_family(&approach.case));
        let mut sections = vec![self.since_the_plan()];
        sections.extend(self.template(base));
        sections.extend(self.diagnosis(Some(&approach.case)));
        sections.push(self.standing());
        sections.push(self.proposals());
        sections.push(self.refused());
        sections.push(self.fastest(Some(&approach.case)));
        sections.extend(self.profile(&approach.case));
        sections.into_iter().filter(|section| !section.text.is_empty()).collect()
    }

    /// What the op computes and what counts as right: its tensors on the first case, and for an op of the project its own files.
    fn contract(&self) -> String {
        let workload = self.context.workload;
        let Tolerance { relative_l2, worst_row } = workload.tolerance;
        let mut text = format!(
            "The error of an output may be {relative_l2:e} of its norm, and {worst_row:e} in its worst row. Products may be \
             computed in {}.\n",
            workload.compute.of(workload.dtype)
        );
        if let Some(case) = workload.cases.first() {
            let bytes: usize =
                workload.op.tensors(&case.dims, workload.dtype).iter().map(|tensor| tensor.bytes()).sum();
            let _ = writeln!(
                text,
                "Tensors of case {}, dense and row-major, {bytes} bytes and {:.3e} FLOP in all:",
                case.name,
                workload.op.flop(&case.dims)
            );
            for tensor in workload.op.tensors(&case.dims, workload.dtype) {
                let shape: Vec<String> = tensor.shape.iter().map(ToString::to_string).collect();
                let (name, role, dtype) = (&tensor.name, tensor.role.name(), tensor.dtype.name());
                let _ = writeln!(text, "- `{name}`: {role}, {dtype}, {}", shape.join(" x "));
            }
        }
        match workload.op.source() {
            OpSource::Declared(source) if self.state.setup().options.llm.sends_source => {
                let (manifest, oracle) = (block("op.toml", &source.manifest), block("the oracle", &source.oracle));
                let _ = write!(text, "\n{OWN_OP}\n\n{manifest}\n\n{oracle}\n");
            }
            _ => {}
        }
        text
    }

    /// What has become faster since the plan.
    fn since_the_plan(&self) -> Section {
        let mut text = String::new();
        for (case, (iteration, before_ns)) in self.state.calls().at_plan() {
            let Some((fastest, ns)) = self.state.history().fastest(case) else { continue };
            if fastest.iteration != *iteration {
                let _ = writeln!(
                    text,
                    "- {case}: {:.3} us instead of {:.3}, by iteration {}: `{}` {}",
                    ns / 1e3,
                    before_ns / 1e3,
                    fastest.iteration,
                    fastest.family,
                    show_params(&fastest.params)
                );
            }
        }
        let text = if text.is_empty() { text } else { block("faster since the plan", &text) };
        Section { title: "What has become faster since the plan", text }
    }

    /// What the model has asked to see.
    fn seen(&self, wants: &[String]) -> Vec<Section> {
        let lookup = Lookup { state: self.state, context: self.context, machine_code: self.machine_code };
        let shown: Vec<String> = wants.iter().map(|want| block(want, &lookup.answer(want))).collect();
        let title = "What you asked to see";
        if shown.is_empty() { Vec::new() } else { vec![Section { title, text: shown.join("\n\n") }] }
    }

    /// Where each case stands.
    fn standing(&self) -> Section {
        let mut text =
            "| case | fastest (us) | times the floor | over the initial kernel | best baseline / fastest | by |\n\
                        |---|--:|--:|--:|--:|---|\n"
                .to_owned();
        for headroom in &self.diagnosis.headroom {
            let Some((fastest, ns)) = self.state.history().fastest(&headroom.case) else { continue };
            let state = self.state.case(&headroom.case);
            let ratio = |of: Option<f64>| of.map_or("unknown".to_owned(), |of| format!("{:.2}x", of / ns));
            let _ = writeln!(
                text,
                "| {} | {:.2} | {:.2} | {} | {} | `{}` {} |",
                headroom.case,
                ns / 1e3,
                headroom.factor(),
                ratio(state.and_then(|state| state.start_ns)),
                ratio(state.and_then(|state| state.baseline()).map(|baseline| baseline.timing.median_ns)),
                fastest.family,
                show_params(&fastest.params)
            );
        }
        Section { title: "Where it stands", text }
    }

    /// Why the fastest variants are slow, by the rules of the diagnosis.
    fn diagnosis(&self, of: Option<&CaseName>) -> Option<Section> {
        if !self.state.setup().options.llm.diagnosis {
            return None;
        }
        let cases = self.by_headroom().filter(|case| of.is_none_or(|of| of == *case));
        let mut text = String::new();
        for case in cases.take(FINDINGS_OF_CASES) {
            let known: Vec<&Finding> = self.diagnosis.findings.iter().filter(|finding| finding.case == *case).collect();
            let own = if known.is_empty() { self.findings(case) } else { Vec::new() };
            let findings = known.into_iter().chain(&own);
            findings.take(FINDINGS_PER_CASE).for_each(|finding| text.push_str(&told(finding)));
        }
        let title = "Diagnosis of the fastest variants";
        (!text.is_empty()).then(|| Section { title, text: block("findings", &text) })
    }

    /// Returns the findings about the fastest variant of a case, by what its own run has counted. On a virtual device, nothing
    /// else explains it.
    fn findings(&self, case: &str) -> Vec<Finding> {
        let fastest = self.state.history().fastest(case);
        fastest.map_or_else(Vec::new, |(fastest, _)| findings_of(self.state, self.context, fastest, case))
    }

    /// What models proposed, with the prediction and the outcome.
    fn proposals(&self) -> Section {
        let table = attempts::proposals(self.state.history());
        let text = if table.is_empty() { table } else { block("measured proposals", &table) };
        Section { title: "Your proposals, and what was measured", text }
    }

    /// The fastest configurations of each family, on one case or on those that are farthest from their floors.
    fn fastest(&self, of: Option<&CaseName>) -> Section {
        let cases: Vec<&CaseName> = self.by_headroom().filter(|case| of.is_none_or(|of| of == *case)).collect();
        let cases = &cases[..cases.len().min(FINDINGS_OF_CASES)];
        let text = attempts::fastest(self.state.history(), &self.context.families, cases);
        let text = if text.is_empty() { text } else { block("timed configurations", &text) };
        Section { title: "The fastest configurations of each family", text }
    }

    /// Returns the cases, those farthest from their floors first.
    fn by_headroom(&self) -> impl Iterator<Item = &CaseName> {
        let mut headroom: Vec<_> = self.diagnosis.headroom.iter().collect();
        headroom.sort_by(|a, b| b.factor().total_cmp(&a.factor()));
        headroom.into_iter().map(|headroom| &headroom.case)
    }

    /// What failed of what models proposed.
    fn refused(&self) -> Section {
        let failed = self.state.calls().failed();
        let lines: String = failed.map(|failed| format!("- {}: {}\n", failed.claim, failed.problem)).collect();
        let text = if lines.is_empty() { lines } else { block("failed attempts", &lines) };
        Section { title: "Attempts of language models that came to nothing", text }
    }

    /// The template and the manifest of a family, with the fragments that it includes.
    fn template(&self, family: Option<&Family>) -> Option<Section> {
        let family = family.filter(|_| self.state.setup().options.llm.sends_source)?;
        let manifest = block(&format!("family.toml of {}", family.name), &family.manifest);
        let template = block(&format!("template of {}", family.name), &family.template);
        Some(Section { title: "The family to start from", text: format!("{manifest}\n\n{template}") })
    }

    /// What was counted of the fastest variant of a case.
    fn profile(&self, case: &str) -> Option<Section> {
        if !self.state.setup().options.llm.profiling {
            return None;
        }
        let (fastest, _) = self.state.history().fastest(case)?;
        let mut text = String::new();
        if let Some(counters) = self.state.history().counters_of(&fastest.hash, case) {
            let counters = serde_json::to_string(&counters.launches).unwrap_or_default();
            text.push_str(&block("hardware counters of each launch", &counters));
        }
        let modelled = fastest.times.iter().find(|time| time.case == case)?.profile.as_ref();
        if let Some(profile) = modelled {
            let profile = serde_json::to_string(profile).unwrap_or_default();
            text.push_str(&block("counters of the virtual GPU", &profile));
        }
        (!text.is_empty()).then_some(Section { title: "Profile of the fastest variant", text })
    }

    fn lessons(&self) -> Option<Section> {
        let lessons = self.state.setup().options.llm.lessons.as_ref()?;
        let lines: String = lessons.sentences().iter().map(|lesson| format!("- {lesson}\n")).collect();
        let name = format!("lessons on the {}", lessons.device);
        (!lines.is_empty()).then(|| Section { title: "Lessons of earlier sessions", text: block(&name, &lines) })
    }

    fn budget(&self, left: Duration) -> String {
        format!("{} s of the session are left.", left.as_secs())
    }

    /// Returns the case whose fastest variant is farthest from its floor.
    fn farthest(&self) -> Option<CaseName> {
        let farthest = self.diagnosis.headroom.iter().max_by(|a, b| a.factor().total_cmp(&b.factor()));
        farthest.map(|headroom| headroom.case.clone())
    }

    fn fastest_family(&self, case: &str) -> Option<&Family> {
        let (fastest, _) = self.state.history().fastest(case)?;
        self.context.all.iter().find(|family| family.name == fastest.family)
    }
}

/// Describes a family and its search space in a few lines.
fn about(family: &Family) -> String {
    let params = family.params.iter().map(|(name, param)| format!("{name} {:?}", param.values));
    let params: Vec<String> = params.collect();
    format!("- `{}`: {} Parameters: {}.\n", family.name, family.about, params.join(", "))
}
