//! Tests of proposers on a made-up search context: a small workload, families without source, and times from a formula.

mod cause_tests;
mod conformance;
mod diagnosis;
mod local;
mod path;
mod portfolio;
mod predictions;

use std::time::Duration;

use super::{Proposer, SearchContext};
use crate::agent::diagnosis::diagnose;
use crate::domain::budget::cost::Spent;
use crate::domain::device::DeviceInfo;
use crate::domain::family::Family;
use crate::domain::history::{ConfigurationId, History};
use crate::domain::ids::IterationId;
use crate::domain::measurement::correctness::Correctness;
use crate::domain::measurement::evaluation::{Evaluation, Measurement, Outcome};
use crate::domain::measurement::verdict::{Policy, judge};
use crate::domain::proposal::origin::{Origin, Purpose};
use crate::domain::proposal::{KnownWinner, Suggestion};
use crate::domain::record::journal::{Begun, Concluded};
use crate::domain::statistics::sampling::Sampling;
use crate::domain::statistics::timing::Timing;
use crate::domain::variant::{VariantHash, show_params};
use crate::domain::workload::{Case, Workload};
use crate::ops;

const POLICY: Policy = Policy {
    min_speedup: 1.01,
    screening: Sampling { min_samples: 5, max_samples: 5, relative_error: 0.005, max_ns: 1e9 },
    comparison: Sampling { min_samples: 10, max_samples: 10, relative_error: 0.002, max_ns: 1e10 },
    group_size: 10,
};

/// The parts of a session that a proposer needs, without compiler, device and store.
struct Scene {
    workload: Workload,
    families: Vec<Family>,
    searched: Vec<String>,
    known: Vec<KnownWinner>,
    device: DeviceInfo,
    history: History,
    iterations: IterationId,
    under_way: usize,
}

impl Scene {
    /// Makes a scene of a workload with the given cases (`name, Sq, D`) and families. All families are searched.
    fn new(cases: &[(&str, i64, i64)], families: Vec<Family>) -> Self {
        let case =
            |(name, s, d): &(&str, i64, i64)| format!("[[case]]\nname = \"{name}\"\nSq = {s}\nSk = {s}\nD = {d}\n");
        let text = format!(
            "name = \"w\"\nabout = \"a\"\nop = \"attention\"\ndtype = \"f16\"\ninitial_kernel = \"{}\"\n\
             tolerance = {{ relative_l2 = 1e-3, worst_row = 4e-3 }}\ndims = {{ B = 1, H = 1, CAUSAL = 0 }}\n{}",
            families[0].name,
            cases.iter().map(case).collect::<String>()
        );
        Self {
            workload: Workload::parse(&text, ops::find).unwrap(),
            searched: families.iter().map(|family| family.name.clone()).collect(),
            families,
            known: Vec::new(),
            device: DeviceInfo::of_arch("sm_90a").unwrap(),
            history: History::default(),
            iterations: IterationId(0),
            under_way: 0,
        }
    }

    fn family(&self, name: &str) -> &Family {
        self.families.iter().find(|family| family.name == name).unwrap()
    }

    /// Asks for a suggestion and puts it under way, as a session does.
    fn propose(&mut self, proposer: &mut dyn Proposer) -> Option<Suggestion> {
        let context = SearchContext::new(&self.workload, &self.families, &self.searched, &self.known, &self.device);
        let diagnosis = diagnose(&self.history, &self.workload, &self.device);
        let suggestion = proposer.propose(&context, &diagnosis, &self.history, self.under_way).unwrap()?;
        self.under_way += 1;
        let configuration = self.configuration(&suggestion);
        // Only a committed winner comes twice: on the cases that it won, and on the others.
        let is_second = matches!(suggestion.rationale.origin, Origin::CommittedWinner { .. })
            && suggestion.rationale.purpose == Purpose::Screening;
        assert!(self.history.proposed.insert(configuration) || is_second, "proposed twice: {suggestion:?}");
        Some(suggestion)
    }

    fn configuration(&self, suggestion: &Suggestion) -> ConfigurationId {
        ConfigurationId::new(
            &suggestion.family,
            &self.family(&suggestion.family).specialization(&suggestion.cases[0]),
            &suggestion.params,
        )
    }

    /// Finishes a suggestion with times from a formula.
    fn measure(&mut self, suggestion: &Suggestion, time_ns: impl Fn(&Suggestion, &Case) -> f64) {
        self.iterations.0 += 1;
        self.under_way = self.under_way.saturating_sub(1);
        let measurement = |case: &Case| {
            let timing = Timing::of(vec![time_ns(suggestion, case)], 1);
            Measurement {
                case: case.name.clone(),
                regime: case.regime,
                correctness: Correctness { relative_l2: 1e-4, worst_row: 2e-4, rows_checked: 1, rows: 1 },
                screening: timing.clone(),
                confirmation: timing,
                ctas: 1,
                shape: None,
                preparation: None,
                comparison: None,
                profile: None,
            }
        };
        let measurements = suggestion.cases.iter().map(measurement).collect();
        self.conclude(suggestion, Evaluation { outcome: Outcome::Measured, measurements, device_s: 0.1 });
    }

    fn conclude(&mut self, suggestion: &Suggestion, evaluation: Evaluation) {
        let decisions = judge(&self.history.incumbents, &evaluation, &POLICY);
        let begun = Begun {
            iteration: self.iterations,
            family: suggestion.family.clone(),
            params: suggestion.params.clone(),
            hash: VariantHash::of(&show_params(&suggestion.params)),
            cases: suggestion.cases.clone(),
            rationale: suggestion.rationale.clone(),
            code: None,
        };
        let (spent, wall) = (Spent::default(), Duration::ZERO);
        let concluded = Concluded::of(self.iterations, &evaluation, &decisions, spent, wall);
        self.history.learn(&begun, &concluded);
    }
}

/// Makes a family that renders `D`, with parameters of the given values (the first is the default) and one constraint.
fn family(name: &str, parameters: &[(&str, &[i64])], constraint: &str) -> Family {
    let parameter = |(name, values): &(&str, &[i64])| {
        let default = values[0];
        format!("[params.{name}]\nvalues = {values:?}\ndefault = {default}\nabout = \"a\"\nexpect = [1.1, 2.0]\n")
    };
    let manifest = format!(
        "name = \"{name}\"\nabout = \"a\"\nop = \"attention\"\ndtypes = [\"f16\"]\nrequires_sm = 80\n\
         constants = [\"D\"]\n{}[[constraint]]\nexpr = \"{constraint}\"\nwhy = \"made up\"\n\
         [[launch]]\nkernel = \"k\"\ngrid = [\"ceil_div(Sq, 4)\"]\nblock = [\"32\"]\nargs = []\n",
        parameters.iter().map(parameter).collect::<String>()
    );
    Family::parse(&manifest, String::new()).unwrap()
}
