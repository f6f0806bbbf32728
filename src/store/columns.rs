//! Converts plain data to columns and back.

use std::borrow::Cow;

use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

use super::StoreError;
use crate::domain::claims::hypothesis::Reference;
use crate::domain::ids::IterationId;
use crate::domain::instant;
use crate::domain::measurement::correctness::Correctness;
use crate::domain::measurement::evaluation::Outcome;
use crate::domain::statistics::Interval;
use crate::domain::statistics::timing::Timing;
use crate::secrets;

/// RFC 3339 with exactly three decimals, so that instants sort as text.
const INSTANT: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");

/// Returns the current instant.
pub(super) fn now() -> Result<String, StoreError> {
    instant::now().format(INSTANT).map_err(|error| unreadable("instant", error))
}

/// Encodes a JSON column. Secrets of the environment are masked in its texts. Its names and numbers stay the same.
pub(super) fn to_json<T: Serialize + ?Sized>(what: &'static str, value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value)
        .map(|json| secrets::mask_json(&json).into_owned())
        .map_err(|error| unreadable(what, error))
}

/// Masks secrets of the environment in a text from elsewhere, such as a compiler's log.
pub(super) fn text(text: &str) -> Cow<'_, str> {
    secrets::mask(text)
}

/// Encodes a count, which SQLite holds as a signed number.
pub(super) fn signed<T: TryInto<i64>>(what: &'static str, value: T) -> Result<i64, StoreError> {
    value.try_into().map_err(|_| unreadable(what, "it is out of range"))
}

/// Reads a JSON column.
pub(super) fn json<T: DeserializeOwned>(row: &SqliteRow, column: &'static str) -> Result<T, StoreError> {
    serde_json::from_str(row.try_get(column)?).map_err(|error| unreadable(column, error))
}

/// Reads a JSON column that may be NULL.
pub(super) fn optional_json<T: DeserializeOwned>(
    row: &SqliteRow,
    column: &'static str,
) -> Result<Option<T>, StoreError> {
    let text: Option<String> = row.try_get(column)?;
    text.map(|text| serde_json::from_str(&text).map_err(|error| unreadable(column, error))).transpose()
}

/// Reads a column that holds the name of an enum's value, or NULL.
pub(super) fn name<T: DeserializeOwned>(row: &SqliteRow, column: &'static str) -> Result<Option<T>, StoreError> {
    let name: Option<String> = row.try_get(column)?;
    name.map(|name| serde_json::from_value(name.into()).map_err(|error| unreadable(column, error))).transpose()
}

/// Reads a column that holds a count, or NULL.
pub(super) fn count<T: TryFrom<i64>>(row: &SqliteRow, column: &'static str) -> Result<Option<T>, StoreError> {
    let value: Option<i64> = row.try_get(column)?;
    value.map(|value| T::try_from(value).map_err(|_| unreadable(column, "it is out of range"))).transpose()
}

/// Requires a value that the schema declares NOT NULL.
pub(super) fn required<T>(value: Option<T>, column: &'static str) -> Result<T, StoreError> {
    value.ok_or_else(|| unreadable(column, "it is missing"))
}

/// Reads an outcome from its columns. None while the iteration is in flight.
pub(super) fn outcome(row: &SqliteRow) -> Result<Option<Outcome>, StoreError> {
    let Some(kind) = row.try_get::<Option<String>, _>("outcome")? else { return Ok(None) };
    let case: Option<String> = row.try_get("outcome_case")?;
    let message: Option<String> = row.try_get("outcome_message")?;
    // Older rows have no check. The oldest check caught those variants.
    let check = row.try_get::<Option<String>, _>("outcome_check")?.unwrap_or_else(|| "accuracy".to_owned());
    let tagged = serde_json::json!({ "kind": kind, "case": case, "check": check, "message": message });
    serde_json::from_value(tagged).map(Some).map_err(|error| unreadable("outcome", error))
}

/// Reads what a claim is relative to.
pub(super) fn reference(row: &SqliteRow) -> Result<Reference, StoreError> {
    let kind: Option<String> = row.try_get("reference")?;
    let iteration: Option<IterationId> = row.try_get("relative_to")?;
    let fields = serde_json::json!({ "reference": kind, "relative_to": iteration });
    serde_json::from_value(fields).map_err(|error| unreadable("reference", error))
}

/// Reads the columns of a time, whose names start with `prefix`. None if there was no such measurement.
pub(super) fn timing(row: &SqliteRow, prefix: &str) -> Result<Option<Timing>, StoreError> {
    let column = |name: &str| format!("{prefix}{name}");
    let Some(raw) = row.try_get::<Option<Vec<u8>>, _>(column("raw_ns").as_str())? else { return Ok(None) };
    Ok(Some(Timing {
        samples_ns: unpack(&raw),
        launches_per_sample: row.try_get(column("launches_per_sample").as_str())?,
        median_ns: row.try_get(column("median_ns").as_str())?,
        interval_ns: Interval {
            lo: row.try_get(column("ci_lo_ns").as_str())?,
            hi: row.try_get(column("ci_hi_ns").as_str())?,
        },
    }))
}

/// Reads the columns of an output's errors. None if it could not be compared.
pub(super) fn correctness(row: &SqliteRow) -> Result<Option<Correctness>, StoreError> {
    let Some(relative_l2) = row.try_get("relative_l2")? else { return Ok(None) };
    Ok(Some(Correctness {
        relative_l2,
        worst_row: row.try_get("worst_row")?,
        rows_checked: required(count(row, "rows_checked")?, "rows_checked")?,
        rows: required(count(row, "rows")?, "rows")?,
    }))
}

/// Packs samples as little-endian f32. Its 7 digits are more than a GPU's clock resolves.
pub(super) fn pack(samples_ns: &[f64]) -> Vec<u8> {
    samples_ns.iter().flat_map(|&ns| (ns as f32).to_le_bytes()).collect()
}

/// Unpacks samples.
pub(super) fn unpack(raw: &[u8]) -> Vec<f64> {
    raw.as_chunks::<4>().0.iter().map(|bytes| f64::from(f32::from_le_bytes(*bytes))).collect()
}

fn unreadable(what: &'static str, message: impl ToString) -> StoreError {
    StoreError::Unreadable { what, message: message.to_string() }
}
