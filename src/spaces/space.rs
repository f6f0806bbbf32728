//! The recorded space as plain data.

use std::collections::HashSet;

use serde_json::Value;

use super::scalar;
use crate::error::{Error, error};

/// The most parameters of a space. Published spaces have up to 20.
const MAX_PARAMETERS: usize = 64;

/// The most configurations of a space. Published spaces that are recorded in full have up to about 100,000.
const MAX_CONFIGURATIONS: usize = 1_000_000;

/// A recorded search space: every configuration with its time or its failure.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedSpace {
    /// The name for display, such as the name of its file.
    pub name: String,
    /// The kernel, if the recording names it.
    pub kernel: Option<String>,
    /// The device on which it was recorded, if the recording names it.
    pub device: Option<String>,
    /// The parameters.
    pub parameters: Vec<Parameter>,
    /// The configurations. Those that violate a constraint are not recorded.
    pub configurations: Vec<Configuration>,
}

/// A parameter with its values.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// The name.
    pub name: String,
    /// The values: integers in increasing order, or others in the order of the recording.
    pub values: Vec<Value>,
}

/// A configuration with the result of its evaluation.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    /// The position of each parameter's value among the values of the parameter.
    pub positions: Vec<usize>,
    /// The result.
    pub result: Result<Recording, Failure>,
    /// How long the recording tool took to compile, check and time it, in seconds. None if the recording does not say.
    pub cost_s: Option<f64>,
}

/// A configuration as a file lists it.
pub(super) struct Row {
    /// The values, in the order of the parameters.
    pub values: Vec<Value>,
    /// See [`Configuration::result`].
    pub result: Result<Recording, Failure>,
    /// See [`Configuration::cost_s`].
    pub cost_s: Option<f64>,
}

/// A recorded time.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    /// The time in nanoseconds, as the recording reports it.
    pub time_ns: f64,
    /// The samples behind it in nanoseconds. There may be none.
    pub samples_ns: Vec<f64>,
}

/// Why a configuration has no time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// It does not compile.
    Compile,
    /// It failed when it was launched.
    Runtime,
    /// It did not end in time.
    TimedOut,
    /// Its output is wrong.
    Wrong,
}

impl Failure {
    /// Says what happened, as the end of a sentence that begins with the variant.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Compile => "does not compile",
            Self::Runtime => "failed when it was launched",
            Self::TimedOut => "did not end in time",
            Self::Wrong => "has a wrong output",
        }
    }
}

impl Parameter {
    /// Returns the number that stands for each value in a configuration: the value itself if all of them are integers,
    /// else its position.
    pub fn numbers(&self) -> Vec<i64> {
        let integers: Option<Vec<i64>> = self.values.iter().map(Value::as_i64).collect();
        integers.unwrap_or_else(|| (0..self.values.len() as i64).collect())
    }
}

impl RecordedSpace {
    /// Makes a space from rows: the values of each configuration in the order of `names`, and its result.
    ///
    /// `known` gives the values of each parameter in their order. Without it, the values are those of the rows. The
    /// error is one sentence.
    pub(super) fn of_rows(
        name: String,
        names: Vec<String>,
        known: Option<Vec<Vec<Value>>>,
        rows: Vec<Row>,
    ) -> Result<Self, Error> {
        check_sizes(&names, &rows)?;
        let found = |column: usize| rows.iter().map(|row| row.values[column].clone()).collect();
        let columns = known.unwrap_or_else(|| (0..names.len()).map(found).collect());
        let mut parameters = Vec::new();
        for (name, values) in names.into_iter().zip(columns) {
            let values =
                scalar::in_order(values).map_err(|problem| problem.within(format_args!("parameter `{name}`")))?;
            parameters.push(Parameter { name, values });
        }
        let places: Vec<_> = parameters.iter().map(|parameter| scalar::places(&parameter.values)).collect();
        let mut seen = HashSet::new();
        let mut configurations = Vec::with_capacity(rows.len());
        for (row, Row { values, result, cost_s }) in rows.into_iter().enumerate() {
            let mut positions = Vec::with_capacity(values.len());
            for ((value, places), Parameter { name, .. }) in values.iter().zip(&places).zip(&parameters) {
                let unknown = || format!("configuration {}: {value} is not a value of `{name}`", row + 1);
                positions.push(*places.get(&value.to_string()).ok_or_else(unknown)?);
            }
            if !seen.insert(positions.clone()) {
                return Err(error!("configuration {} occurs twice", row + 1).hint("remove one"));
            }
            if let Ok(recording) = &result {
                recording.check().map_err(|problem| error!("configuration {}: {problem}", row + 1))?;
            }
            if cost_s.is_some_and(|cost_s| !cost_s.is_finite() || cost_s < 0.0) {
                return Err(error!(
                    "configuration {}: the time that its evaluation took is not a positive number",
                    row + 1
                ));
            }
            configurations.push(Configuration { positions, result, cost_s });
        }
        if !configurations.iter().any(|configuration| configuration.result.is_ok()) {
            return Err(Error::new("no configuration has a time: record at least one that works"));
        }
        Ok(Self { name, kernel: None, device: None, parameters, configurations })
    }

    /// Returns the time of each configuration that has one, in nanoseconds, in increasing order.
    pub fn sorted_times_ns(&self) -> Vec<f64> {
        let times = self.configurations.iter().filter_map(|configuration| configuration.result.as_ref().ok());
        let mut times: Vec<f64> = times.map(|recording| recording.time_ns).collect();
        times.sort_by(f64::total_cmp);
        times
    }

    /// Returns the share of configurations that fail.
    pub fn failed_share(&self) -> f64 {
        let failed = self.configurations.iter().filter(|configuration| configuration.result.is_err()).count();
        failed as f64 / self.configurations.len() as f64
    }

    /// Returns the shortest time in nanoseconds.
    pub fn optimum_ns(&self) -> f64 {
        self.sorted_times_ns()[0]
    }

    /// Returns the values of a configuration, in the order of the parameters.
    pub fn values<'a>(&'a self, configuration: &'a Configuration) -> impl Iterator<Item = (&'a str, &'a Value)> {
        let value =
            |(parameter, position): (&'a Parameter, &usize)| (parameter.name.as_str(), &parameter.values[*position]);
        self.parameters.iter().zip(&configuration.positions).map(value)
    }
}

impl Recording {
    fn check(&self) -> Result<(), Error> {
        let is_time = |ns: &f64| ns.is_finite() && *ns > 0.0;
        if [self.time_ns].iter().chain(&self.samples_ns).all(is_time) {
            return Ok(());
        }
        Err(Error::new("a time is not a positive number"))
    }
}

fn check_sizes<T>(names: &[String], rows: &[T]) -> Result<(), Error> {
    if names.is_empty() || names.len() > MAX_PARAMETERS {
        return Err(error!("it has {} parameters: 1 to {MAX_PARAMETERS} are supported", names.len()));
    }
    if rows.is_empty() || rows.len() > MAX_CONFIGURATIONS {
        return Err(error!("it has {} configurations: 1 to {MAX_CONFIGURATIONS} are supported", rows.len()));
    }
    let mut seen = HashSet::new();
    match names.iter().find(|name| !seen.insert(name.as_str())) {
        Some(name) => Err(error!("parameter `{name}` occurs twice").hint("rename one")),
        None => Ok(()),
    }
}

/// Converts nanoseconds to milliseconds, with twelve digits. A file that is read and written again then stays the same,
/// although neither conversion is exact.
pub(super) fn milliseconds(ns: f64) -> f64 {
    let ms = ns / 1e6;
    format!("{ms:.11e}").parse().unwrap_or(ms)
}
