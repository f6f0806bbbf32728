//! Caches of Kernel Tuner: every configuration that a run evaluated, with times in milliseconds.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::space::{Configuration, Failure, RecordedSpace, Recording, Row, milliseconds};
use crate::error::{Error, error};

/// Nanoseconds of the unit of time.
const MS: f64 = 1e6;

/// What the evaluation of a configuration consists of, each in milliseconds. The time of the recorded search strategy is
/// not part of it: another one searches now.
const COSTS: [&str; 3] = ["compile_time", "verification_time", "benchmark_time"];

/// Old versions recorded this time, in milliseconds, for a configuration that failed.
const FAILED_MS: f64 = 1e20;

/// A cache. Other keys are ignored.
#[derive(Serialize, Deserialize)]
pub(super) struct Cache {
    device_name: Option<String>,
    kernel_name: Option<String>,
    #[serde(default)]
    problem_size: Value,
    tune_params_keys: Vec<String>,
    tune_params: IndexMap<String, Vec<Value>>,
    #[serde(default)]
    objective: Value,
    /// By the values, with commas between them: the values by name, the times, and more.
    cache: IndexMap<String, IndexMap<String, Value>>,
}

impl Cache {
    /// Makes a cache of a space.
    pub(super) fn of(space: &RecordedSpace) -> Self {
        let parameters = space.parameters.iter();
        Self {
            device_name: space.device.clone(),
            kernel_name: space.kernel.clone(),
            problem_size: json!([]),
            tune_params_keys: parameters.clone().map(|parameter| parameter.name.clone()).collect(),
            tune_params: parameters.map(|parameter| (parameter.name.clone(), parameter.values.clone())).collect(),
            objective: json!("time"),
            cache: space.configurations.iter().map(|configuration| entry(space, configuration)).collect(),
        }
    }

    /// Makes the space of a cache. The error is one sentence.
    pub(super) fn into_space(mut self, name: &str) -> Result<RecordedSpace, Error> {
        let names = self.tune_params_keys;
        let values = |name: &String| {
            self.tune_params.swap_remove(name).ok_or_else(|| error!("`tune_params` has no values of `{name}`"))
        };
        let known = names.iter().map(values).collect::<Result<Vec<_>, _>>()?;
        let mut rows = Vec::with_capacity(self.cache.len());
        for (key, entry) in self.cache {
            rows.push(row(&names, entry).map_err(|problem| problem.within(format_args!("configuration `{key}`")))?);
        }
        let space = RecordedSpace::of_rows(name.to_owned(), names, Some(known), rows)?;
        Ok(RecordedSpace { kernel: self.kernel_name, device: self.device_name, ..space })
    }
}

/// Reads the values and the result of a configuration.
fn row(names: &[String], mut entry: IndexMap<String, Value>) -> Result<Row, Error> {
    let costs_ms: Vec<f64> = COSTS.iter().filter_map(|name| entry.get(*name)?.as_f64()).collect();
    let cost_s = (!costs_ms.is_empty()).then(|| costs_ms.iter().sum::<f64>() / 1e3);
    let mut take = |name: &str| entry.swap_remove(name).ok_or_else(|| error!("`{name}` is missing"));
    let values = names.iter().map(|name| take(name)).collect::<Result<_, _>>()?;
    let time = take("time")?;
    if let Some(name) = time.as_str() {
        return Ok(Row { values, result: Err(failure(name)), cost_s });
    }
    let time_ms = time.as_f64().ok_or("`time` is neither a number nor the name of a failure")?;
    if time_ms >= FAILED_MS {
        return Ok(Row { values, result: Err(Failure::Runtime), cost_s });
    }
    let samples_ms: Vec<f64> = match take("times") {
        Ok(times) => serde_json::from_value(times).map_err(|_| "`times` is not a list of numbers")?,
        Err(_) => Vec::new(),
    };
    let samples_ns = samples_ms.into_iter().map(|ms| ms * MS).collect();
    Ok(Row { values, result: Ok(Recording { time_ns: time_ms * MS, samples_ns }), cost_s })
}

/// Writes a configuration: its key and its entry.
fn entry(space: &RecordedSpace, configuration: &Configuration) -> (String, IndexMap<String, Value>) {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let key = space.values(configuration).map(|(_, value)| text(value)).collect::<Vec<_>>().join(",");
    let mut entry: IndexMap<String, Value> =
        space.values(configuration).map(|(name, value)| (name.to_owned(), value.clone())).collect();
    match &configuration.result {
        Ok(Recording { time_ns, samples_ns }) => {
            let samples_ms: Vec<f64> = samples_ns.iter().copied().map(milliseconds).collect();
            entry.extend([("time".to_owned(), json!(milliseconds(*time_ns))), ("times".to_owned(), json!(samples_ms))]);
        }
        Err(failure) => drop(entry.insert("time".to_owned(), failure_name(*failure).into())),
    }
    (key, entry)
}

fn failure(name: &str) -> Failure {
    match name {
        "CompilationFailedConfig" => Failure::Compile,
        // Kernel Tuner has no names for these. optloop exports them.
        "TimedOutConfig" => Failure::TimedOut,
        "WrongConfig" => Failure::Wrong,
        _ => Failure::Runtime,
    }
}

fn failure_name(failure: Failure) -> &'static str {
    match failure {
        Failure::Compile => "CompilationFailedConfig",
        Failure::Runtime => "RuntimeFailedConfig",
        Failure::TimedOut => "TimedOutConfig",
        Failure::Wrong => "WrongConfig",
    }
}
