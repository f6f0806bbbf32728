//! The way from an idea to a compiled variant: rendered at once, compiled in the background.

use anyhow::Context;

use super::{Parts, Session};
use crate::agent::{Landscape, diagnosis};
use crate::domain::artifact::Artifact;
use crate::domain::history::Point;
use crate::domain::proposal::{Idea, Proposal};
use crate::domain::variant::{Variant, VariantHash};
use crate::runner::compile::CompileError;
use crate::runner::messages::CaseRequest;
use crate::runner::planning;
use crate::runner::render::render;

/// A proposal on its way to the device.
pub(super) struct Compiled {
    pub proposal: Proposal,
    /// See [`Idea::look`].
    pub look: bool,
    /// See [`Idea::opening`].
    pub opening: bool,
    pub cases: Result<Vec<CaseRequest>, String>,
    pub artifact: Result<Artifact, CompileError>,
}

impl Compiled {
    /// Tells whether it was looked at before.
    pub fn is_confirmation(&self) -> bool {
        !self.look && !self.opening
    }
}

impl Session<'_> {
    /// Keeps the compilers busy with so many proposals.
    pub(super) fn propose_ahead(&mut self, most: usize) -> anyhow::Result<()> {
        let left = self.order.budget.max_iterations.map_or(u64::MAX, |most| most - self.finished);
        let depth = most.min(usize::try_from(left).unwrap_or(usize::MAX));
        while self.pipeline.len() < depth {
            let Parts { workload, families, searched, known, worker, proposer, .. } = &mut self.parts;
            let landscape = Landscape::new(workload, families, searched, known, worker.info());
            let diagnosis = diagnosis::diagnose(&self.history, workload, worker.info());
            let idea = proposer.propose(&landscape, &diagnosis, &self.history, self.pipeline.len());
            let Some(idea) = idea.map_err(|problem| anyhow::anyhow!("Failed to propose a variant: {problem}"))? else {
                return Ok(());
            };
            self.submit(idea)?;
        }
        Ok(())
    }

    /// Renders an idea and sends it to the compilers.
    fn submit(&mut self, idea: Idea) -> anyhow::Result<()> {
        let (workload, device) = (&self.parts.workload, self.parts.worker.info());
        let family = self.parts.family(&idea.family)?;
        let first = idea.cases.first().context("Failed to find a case for a proposal")?;
        let specialization = family.specialization(first);
        self.history.proposed.insert(Point::new(&family.name, &specialization, &idea.params));
        let rendered = render(family, &specialization, workload.dtype, &idea.params);
        let cases = planning::of_idea(family, &idea, workload, device, self.order.measuring.model_flop);
        let (variant, unrenderable) = match rendered {
            Ok(variant) => (variant, None),
            // A template may fail at some points only: there it has no source, and its name is that of the error.
            Err(message) => (without_source(&idea, &message), Some(CompileError::Rejected { log: message })),
        };
        let (look, opening) = (idea.look, idea.opening);
        self.opening += usize::from(opening);
        let proposal = Proposal {
            proposer: self.parts.proposer.name().to_owned(),
            variant,
            cases: idea.cases,
            hypothesis: idea.hypothesis,
            parent: idea.parent,
        };
        let compiler = self.parts.compiler.clone();
        self.pipeline.push_back(tokio::task::spawn_blocking(move || {
            let artifact = unrenderable.map_or_else(|| compiler.compile(&proposal.variant), Err);
            Compiled { proposal, look, opening, cases, artifact }
        }));
        Ok(())
    }
}

fn without_source(idea: &Idea, problem: &str) -> Variant {
    let (family, params) = (idea.family.clone(), idea.params.clone());
    Variant { family, params, hash: VariantHash::of(problem), source: String::new() }
}
