//! T4: the results format of the autotuning community.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::space::{Configuration, Failure, RecordedSpace, Recording, Row, milliseconds};
use crate::error::{Error, error};

/// The objective that can be replayed.
const TIME: &str = "time";

/// T4 results. Other keys are ignored.
#[derive(Serialize, Deserialize)]
pub(super) struct Results {
    #[serde(default)]
    schema_version: Value,
    #[serde(default)]
    metadata: Metadata,
    results: Vec<Evaluated>,
}

#[derive(Default, Serialize, Deserialize)]
struct Metadata {
    timeunit: Option<String>,
    /// optloop's own key, as the next one.
    kernel_name: Option<String>,
    device_name: Option<String>,
}

/// An evaluated configuration.
#[derive(Serialize, Deserialize)]
struct Evaluated {
    configuration: IndexMap<String, Value>,
    #[serde(default)]
    times: Times,
    invalidity: String,
    #[serde(default)]
    correctness: Value,
    #[serde(default)]
    measurements: Vec<Measured>,
    #[serde(default)]
    objectives: Vec<String>,
}

#[derive(Default, Serialize, Deserialize)]
struct Times {
    #[serde(default)]
    runtimes: Vec<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    compilation_time: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    validation: Option<f64>,
}

impl Times {
    /// Returns the time of compiling, checking and timing, in the file's unit. None if only the runtimes are known.
    fn cost(&self) -> Option<f64> {
        let around = self.compilation_time.into_iter().chain(self.validation).reduce(|a, b| a + b)?;
        Some(around + self.runtimes.iter().sum::<f64>())
    }
}

#[derive(Serialize, Deserialize)]
struct Measured {
    name: String,
    value: Value,
    #[serde(default)]
    unit: String,
}

impl Results {
    /// Makes the results of a space.
    pub(super) fn of(space: &RecordedSpace) -> Self {
        let (kernel_name, device_name) = (space.kernel.clone(), space.device.clone());
        Self {
            schema_version: json!("1.0.0"),
            metadata: Metadata { timeunit: Some("milliseconds".to_owned()), kernel_name, device_name },
            results: space.configurations.iter().map(|configuration| Evaluated::of(space, configuration)).collect(),
        }
    }

    /// Makes the space of results. The error is one sentence.
    pub(super) fn into_space(self, name: &str) -> Result<RecordedSpace, Error> {
        let unit_ns = unit_ns(self.metadata.timeunit.as_deref())?;
        let first = self.results.first().ok_or("`results` is empty")?;
        let names: Vec<String> = first.configuration.keys().cloned().collect();
        let mut rows = Vec::with_capacity(self.results.len());
        for (place, evaluated) in self.results.into_iter().enumerate() {
            let row = evaluated.into_row(&names, unit_ns);
            rows.extend(row.map_err(|problem| error!("result {}: {problem}", place + 1))?);
        }
        let space = RecordedSpace::of_rows(name.to_owned(), names, None, rows)?;
        Ok(RecordedSpace { kernel: self.metadata.kernel_name, device: self.metadata.device_name, ..space })
    }
}

impl Evaluated {
    fn of(space: &RecordedSpace, configuration: &Configuration) -> Self {
        let (invalidity, runtimes, time) = match &configuration.result {
            Ok(found) => (
                "correct",
                found.samples_ns.iter().copied().map(milliseconds).collect(),
                json!(milliseconds(found.time_ns)),
            ),
            Err(failure) => (invalidity(*failure), Vec::new(), Value::Null),
        };
        let values = space.values(configuration).map(|(name, value)| (name.to_owned(), value.clone()));
        Self {
            configuration: values.collect(),
            times: Times { runtimes, ..Times::default() },
            invalidity: invalidity.to_owned(),
            correctness: json!(i32::from(configuration.result.is_ok())),
            measurements: vec![Measured { name: TIME.to_owned(), value: time, unit: "milliseconds".to_owned() }],
            objectives: vec![TIME.to_owned()],
        }
    }

    /// Returns the values and the result. None for a configuration that violates a constraint: it is outside the space.
    fn into_row(mut self, names: &[String], unit_ns: f64) -> Result<Option<Row>, Error> {
        let mut take =
            |name: &String| self.configuration.swap_remove(name).ok_or_else(|| error!("`{name}` is missing"));
        let values: Vec<Value> = names.iter().map(&mut take).collect::<Result<_, _>>()?;
        if let Some(other) = self.configuration.keys().next() {
            return Err(error!("the first result has no parameter `{other}`"));
        }
        let cost_s = self.times.cost().map(|cost| cost * unit_ns / 1e9);
        let failure = match self.invalidity.as_str() {
            "correct" => None,
            "constraints" => return Ok(None),
            "compile" => Some(Failure::Compile),
            "runtime" => Some(Failure::Runtime),
            "timeout" => Some(Failure::TimedOut),
            "correctness" => Some(Failure::Wrong),
            other => return Err(error!("the invalidity `{other}` is not known")),
        };
        if let Some(failure) = failure {
            return Ok(Some(Row { values, result: Err(failure), cost_s }));
        }
        let time = self.measurements.iter().find(|measured| measured.name == TIME);
        let time = time.ok_or("`measurements` has no `time`, the only objective that can be replayed")?;
        let time = time.value.as_f64().ok_or("the value of the measurement `time` is not a number")?;
        let samples_ns = self.times.runtimes.iter().map(|time| time * unit_ns).collect();
        Ok(Some(Row { values, result: Ok(Recording { time_ns: time * unit_ns, samples_ns }), cost_s }))
    }
}

/// Returns the nanoseconds of a unit of time.
fn unit_ns(unit: Option<&str>) -> Result<f64, Error> {
    match unit {
        // Published files misspell it.
        None | Some("miliseconds" | "milliseconds" | "ms") => Ok(1e6),
        Some("seconds" | "s") => Ok(1e9),
        Some("microseconds" | "us") => Ok(1e3),
        Some("nanoseconds" | "ns") => Ok(1.0),
        Some(other) => {
            Err(error!("the unit of time `{other}` is not known").hint("use seconds, milliseconds or microseconds"))
        }
    }
}

fn invalidity(failure: Failure) -> &'static str {
    match failure {
        Failure::Compile => "compile",
        Failure::Runtime => "runtime",
        Failure::TimedOut => "timeout",
        Failure::Wrong => "correctness",
    }
}
