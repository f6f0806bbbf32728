//! What every verb that lists something offers: JSON, CSV, and parts of a long list.

use std::io::Write;

use indexmap::IndexMap;
use serde::Serialize;
use serde_json::Value;
use time::macros::format_description;

use crate::domain::instant;
use crate::error::Error;

/// The format of a list.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct Format {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Print CSV, with the names of the columns in the first line
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
}

/// A part of a list.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct Part {
    /// Maximum number of rows [default: 1000 in a table, all in JSON and CSV]
    #[arg(long, value_name = "N")]
    pub limit: Option<u32>,
    /// Number of rows to skip first
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub offset: u32,
}

impl Format {
    /// Writes rows for a program. Returns whether it did: people get a table.
    pub fn write<T: Serialize>(self, rows: &[T], out: &mut impl Write) -> anyhow::Result<bool> {
        if self.json {
            writeln!(out, "{}", serde_json::to_string_pretty(rows)?)?;
        } else if self.csv {
            write_csv(rows, out)?;
        }
        Ok(self.json || self.csv)
    }
}

/// Writes one value for a program.
pub fn print_json(value: &impl Serialize, out: &mut impl Write) -> anyhow::Result<()> {
    Ok(writeln!(out, "{}", serde_json::to_string_pretty(value)?)?)
}

/// Writes rows as CSV. Values that are lists or objects are written as JSON.
fn write_csv<T: Serialize>(rows: &[T], out: &mut impl Write) -> anyhow::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    for (place, row) in rows.iter().enumerate() {
        let row: IndexMap<String, Value> = serde_json::from_str(&serde_json::to_string(row)?)?;
        if place == 0 {
            writer.write_record(row.keys())?;
        }
        writer.write_record(row.values().map(cell))?;
    }
    writer.flush()?;
    Ok(())
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Reads an instant: a date, the beginning of an RFC 3339 text in UTC, or a duration before now, such as `2d`. Returns a
/// text that sorts among instants.
pub fn instant(text: &str) -> Result<String, Error> {
    let ago = humantime::parse_duration(text).ok().and_then(|ago| time::Duration::try_from(ago).ok());
    if let Some(instant) = ago.and_then(|ago| instant::now().checked_sub(ago)) {
        return instant
            .format(format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z"))
            .map_err(Error::new);
    }
    let is_date = |text: &str| time::Date::parse(text, format_description!("[year]-[month]-[day]")).is_ok();
    match text.split_at_checked(10) {
        Some((date, rest)) if is_date(date) && (rest.is_empty() || rest.starts_with('T')) => Ok(text.to_owned()),
        _ => Err(Error::new(
            "write a date such as 2026-11-20, an instant such as 2026-11-20T10:00, or a duration such as 2d",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_lines_with_quotes_where_they_need_them() {
        #[derive(Serialize)]
        struct Row {
            name: &'static str,
            note: Option<&'static str>,
            ends: [f64; 2],
        }
        let rows = [
            Row { name: "a", note: None, ends: [1.0, 2.5] },
            Row { name: "b", note: Some("x, \"y\""), ends: [0.5, 1.0] },
        ];
        let mut out = Vec::new();
        assert!(Format { csv: true, json: false }.write(&rows, &mut out).unwrap());
        insta::assert_snapshot!(String::from_utf8(out).unwrap(), @r#"
        name,note,ends
        a,,"[1.0,2.5]"
        b,"x, ""y""","[0.5,1.0]"
        "#);
    }

    #[test]
    fn instants_are_dates_or_times_ago() {
        assert_eq!(instant("2026-11-20").unwrap(), "2026-11-20");
        assert_eq!(instant("2026-11-20T10:00").unwrap(), "2026-11-20T10:00");
        let (day, hour) = (instant("1d").unwrap(), instant("1h").unwrap());
        assert!(day < hour && hour.starts_with("2"), "{day} {hour}");
        assert!(["yesterday", "2026-13-01", "2026-11-20x", "20"].iter().all(|text| instant(text).is_err()));
    }
}
