//! Why an iteration is run, and where its configuration comes from. Both are recorded with the iteration.

use serde::{Deserialize, Serialize};

use super::experiment::{Path, Scaling};
use crate::domain::claims::approach::Form;
use crate::domain::ids::CaseName;
use crate::domain::models::call_record::CallId;
use crate::domain::variant::Params;

/// Why an iteration is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Times the initial kernel, to which every speed-up relates.
    Initial,
    /// Times the committed winner of an earlier session again, so that new variants must beat it.
    Remeasurement,
    /// Checks a variant and times it briefly. Most iterations do no more.
    Screening,
    /// Runs the acceptance checks and the comparison for the fastest screened variant.
    Confirmation,
    /// Times a variant on more or less work than a case has, or under another load, to learn what its time depends on. It wins
    /// nothing.
    Experiment,
}

impl Purpose {
    /// Returns the name that the store uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Initial => "initial",
            Self::Remeasurement => "remeasurement",
            Self::Screening => "screening",
            Self::Confirmation => "confirmation",
            Self::Experiment => "experiment",
        }
    }
}

/// Where the configuration of an iteration comes from. A confirmation has the origin of the variant that it confirms.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Origin {
    /// The default configuration of the initial kernel's family.
    InitialKernel,
    /// The committed winner of an earlier session.
    CommittedWinner {
        /// The device on which it won.
        device: String,
        /// The cases that it won. Empty in records from before this was kept.
        #[serde(default)]
        cases: Vec<CaseName>,
    },
    /// The default configuration of another family.
    FamilyDefault,
    /// A configuration that a family's manifest gives for some dimensions.
    Opening,
    /// A change to one of the fastest variants, which the iteration's parent measured.
    Move {
        /// The parameters that changed.
        changes: Vec<Change>,
    },
    /// A value that no variant near the fastest one has had. Other parameters changed where a constraint required it.
    Coverage {
        /// The parameters that changed.
        changes: Vec<Change>,
    },
    /// What the diagnosis proposes against a cause of lost time.
    Remedy {
        /// The rule that found the cause, or [`Origin::ALL_CAUSES`].
        rule: String,
        /// The parameters that changed. Empty if another family is proposed.
        changes: Vec<Change>,
    },
    /// The fastest configuration of another case.
    WarmStart {
        /// That case.
        case: CaseName,
    },
    /// The configuration of an earlier iteration, on more or less work than a case has.
    ScaledCase(Scaling),
    /// A step on the path between two configurations: an experiment, or the same configuration as a variant that may win.
    PathStep {
        /// The path.
        path: Path,
        /// The parameters that changed since the step before: one, or as many as a constraint requires. Of a variant that may
        /// win, those that differ from the end of the path.
        changes: Vec<Change>,
    },
    /// What a language model proposed.
    Model {
        /// The call whose answer it is.
        call: CallId,
        /// The provider's name of the model.
        model: String,
        /// The form of the answer.
        form: Form,
    },
    /// What a person or a program named, to have it measured.
    Named,
    /// A random configuration.
    Random,
    /// A kernel that is broken on purpose.
    InjectedFault,
    /// Unknown: an older optloop recorded the iteration without its origin.
    Unknown,
}

/// A parameter that differs between two configurations.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Change {
    /// The parameter's name.
    pub parameter: String,
    /// Its old value.
    pub from: i64,
    /// Its new value.
    pub to: i64,
}

impl Change {
    /// Lists the parameters of `to` whose values differ in `from`, in the order of `to`. Parameters that `from` lacks
    /// are left out.
    pub fn between(from: &Params, to: &Params) -> Vec<Self> {
        let changed = |(name, to): (&String, &i64)| {
            let from = *from.get(name)?;
            (from != *to).then(|| Self { parameter: name.clone(), from, to: *to })
        };
        to.iter().filter_map(changed).collect()
    }
}

impl Origin {
    /// Stands for the rule of a remedy that is against several causes at once.
    pub const ALL_CAUSES: &str = "all";

    /// Returns the name of the kind, as in the stored form.
    pub fn name(&self) -> &'static str {
        match self {
            Self::InitialKernel => "initial_kernel",
            Self::CommittedWinner { .. } => "committed_winner",
            Self::FamilyDefault => "family_default",
            Self::Opening => "opening",
            Self::Move { .. } => "move",
            Self::Coverage { .. } => "coverage",
            Self::WarmStart { .. } => "warm_start",
            Self::Model { .. } => "model",
            Self::Named => "named",
            Self::Random => "random",
            Self::InjectedFault => "injected_fault",
            Self::Remedy { .. } => "remedy",
            Self::ScaledCase(_) => "scaled_case",
            Self::PathStep { .. } => "path_step",
            Self::Unknown => "unknown",
        }
    }

    /// Returns the kind of an iteration's hypothesis: that of its origin, or `confirmation`.
    pub fn kind(&self, purpose: Purpose) -> &'static str {
        if purpose == Purpose::Confirmation { "confirmation" } else { self.name() }
    }

    /// Returns the parameters that a move, coverage sampling, a remedy or a step on a path changes. Empty for all other
    /// origins.
    pub fn changes(&self) -> &[Change] {
        match self {
            Self::Move { changes }
            | Self::Coverage { changes }
            | Self::Remedy { changes, .. }
            | Self::PathStep { changes, .. } => changes,
            _ => &[],
        }
    }

    /// Tells whether an earlier session has committed the configuration for a case. Then this session did not find it.
    /// Records from before the cases were kept count as committed for every case.
    pub fn is_committed_winner_of(&self, case: &str) -> bool {
        match self {
            Self::CommittedWinner { cases, .. } => cases.is_empty() || cases.iter().any(|own| own == case),
            _ => false,
        }
    }

    /// Tells whether the configuration belongs to the initial design, which every session measures before its search
    /// begins.
    pub fn is_initial_design(&self) -> bool {
        matches!(self, Self::InitialKernel | Self::CommittedWinner { .. } | Self::FamilyDefault | Self::Opening)
    }

    /// Tells whether a search hopes for nothing but a faster configuration. Others also answer a question, such as whether
    /// a cause was found.
    pub fn is_search(&self) -> bool {
        matches!(self, Self::Move { .. } | Self::Coverage { .. } | Self::Random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_kind_is_the_stored_one() {
        let change = Change { parameter: "BR".to_owned(), from: 1, to: 2 };
        let moved = Origin::Move { changes: vec![change] };
        for origin in [&moved, &Origin::Random, &Origin::WarmStart { case: "c".into() }, &Origin::InjectedFault] {
            assert_eq!(serde_json::to_value(origin).unwrap()["kind"], origin.name());
        }
        assert_eq!(moved.kind(Purpose::Confirmation), "confirmation");
        assert_eq!(moved.changes().len(), 1);
    }
}
