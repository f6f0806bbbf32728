//! The values of parameters, as JSON scalars.

use crate::error::{Error, error};
use std::collections::HashMap;

use serde_json::Value;

/// The most values of a parameter.
const MAX_VALUES: usize = 10_000;

/// Returns the distinct values of a parameter: integers in increasing order, so that neighbours are alike, and others
/// in the order given.
pub(super) fn in_order(values: Vec<Value>) -> Result<Vec<Value>, Error> {
    if values.is_empty() {
        return Err(Error::new("it has no values"));
    }
    if let Some(other) = values.iter().find(|value| value.is_array() || value.is_object() || value.is_null()) {
        return Err(error!("{} is neither a number nor a text nor a truth value", kind(other)));
    }
    let mut seen = HashMap::new();
    let mut distinct: Vec<Value> =
        values.into_iter().filter(|value| seen.insert(value.to_string(), ()).is_none()).collect();
    if distinct.len() > MAX_VALUES {
        return Err(error!("it has {} values: at most {MAX_VALUES} are supported", distinct.len()));
    }
    if distinct.iter().all(Value::is_i64) {
        distinct.sort_by_key(Value::as_i64);
    } else if distinct.iter().all(Value::is_number) {
        let number = |value: &Value| value.as_f64().unwrap_or(f64::INFINITY);
        distinct.sort_by(|a, b| number(a).total_cmp(&number(b)));
    }
    Ok(distinct)
}

/// Returns the position of each value, by its JSON text.
pub(super) fn places(values: &[Value]) -> HashMap<String, usize> {
    values.iter().enumerate().map(|(place, value)| (value.to_string(), place)).collect()
}

/// Names the kind of a value that is no scalar.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
        _ => "null",
    }
}
