//! Families whose valid configurations are listed instead of described by constraints.

use std::collections::HashMap;
use std::sync::Arc;

use super::{ConfigurationError, Family};
use crate::domain::variant::Params;

/// The valid configurations of a family, as in a recorded search space.
#[derive(Debug)]
pub struct Listed {
    /// The values of each configuration, in the order of the family's parameters.
    configurations: Vec<Vec<i64>>,
    places: HashMap<Vec<i64>, usize>,
}

impl Listed {
    /// Lists configurations. The values of each are in the order of the family's parameters.
    pub fn new(configurations: Vec<Vec<i64>>) -> Self {
        let places = configurations.iter().enumerate().map(|(place, values)| (values.clone(), place)).collect();
        Self { configurations, places }
    }

    /// Returns the values of every configuration.
    pub fn configurations(&self) -> &[Vec<i64>] {
        &self.configurations
    }
}

impl Family {
    /// Restricts the family to listed configurations. They replace its constraints, which are no longer evaluated.
    pub fn with_listed(mut self, listed: Listed) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.content_hash.as_bytes());
        for value in listed.configurations.iter().flatten() {
            hasher.update(&value.to_le_bytes());
        }
        self.content_hash = hasher.finalize().to_hex().to_string();
        self.constraints.clear();
        self.listed = Some(Arc::new(listed));
        self
    }

    /// Returns the place of a configuration in the list. None without a list, or if the list lacks the configuration.
    pub fn listed_place(&self, params: &Params) -> Option<usize> {
        let values = self.params.keys().map(|name| params.get(name).copied()).collect::<Option<Vec<_>>>()?;
        self.listed.as_ref()?.places.get(&values).copied()
    }

    /// Makes a configuration from its values, in the order of the parameters.
    pub fn configuration(&self, values: &[i64]) -> Params {
        self.params.keys().cloned().zip(values.iter().copied()).collect()
    }

    /// Refuses a complete configuration that is not listed. Without a list, nothing is refused.
    pub(super) fn check_listed(&self, params: &Params) -> Result<(), ConfigurationError> {
        let is_complete = || self.params.keys().all(|name| params.contains_key(name));
        if self.listed.is_none() || self.listed_place(params).is_some() || !is_complete() {
            return Ok(());
        }
        let why = "the recorded space does not have this configuration".to_owned();
        Err(ConfigurationError::Constraint { expr: "is_recorded".to_owned(), why })
    }
}
