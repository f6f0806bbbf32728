//! Two sessions side by side, as text: Markdown, JSON, CSV and tables.

use std::io::Write;

use super::format::{NOTHING, duration, times, us, usd};
use super::markdown;
use super::table::Table;
use crate::domain::variant::show_params;
use crate::report::ReportError;
use crate::report::contract::{Ratio, Session, Two, Variant};

/// How to read the ratios.
pub(super) const NOTE: &str = "The ratio is the first session's time over the second one's: above 1, the second is faster. Two \
                               runs took the times, so changes of the machine in between are in the ratio and not in its \
                               interval. Measured times that differ by less than 1% count as tied.";

impl Two {
    /// Writes the comparison as JSON.
    pub fn to_json(&self) -> Result<String, ReportError> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Writes the comparison as Markdown.
    pub fn to_markdown(&self) -> String {
        let setup = match self.setup.is_empty() {
            true => "The setup of the two sessions is the same.\n".to_owned(),
            false => format!("What differs in the setup:\n\n{}", markdown::of_table(&self.setup_table())),
        };
        format!(
            "# Session {} against session {}\n\n{}\n\n{setup}\n{}\n\n{}",
            self.b.id,
            self.a.id,
            self.sentence(),
            NOTE,
            markdown::of_table(&self.case_table())
        )
    }

    /// Writes a row for each case.
    pub fn write_csv(&self, out: &mut impl Write) -> Result<(), ReportError> {
        let figure = |figure: Option<f64>| figure.map(|figure| figure.to_string()).unwrap_or_default();
        let mut writer = ::csv::Writer::from_writer(out);
        writer.write_record(["case", "a_us", "b_us", "ratio", "ratio_lo", "ratio_hi", "verdict", "why_not"])?;
        for case in &self.cases {
            writer.write_record([
                case.case.to_string(),
                figure(case.a_us),
                figure(case.b_us),
                figure(case.ratio.map(|ratio| ratio.estimate)),
                figure(case.ratio.and_then(|ratio| ratio.lo)),
                figure(case.ratio.and_then(|ratio| ratio.hi)),
                case.verdict.to_owned(),
                case.why_not.clone().unwrap_or_default(),
            ])?;
        }
        Ok(writer.flush()?)
    }

    /// Says how the second session stands against the first one.
    pub(super) fn sentence(&self) -> String {
        let count = |verdict: &str| self.cases.iter().filter(|case| case.verdict == verdict).count();
        let comparable = self.cases.iter().filter(|case| case.ratio.is_some()).count();
        let mean = self.mean_ratio.map(|mean| format!(" The geometric mean of the ratios is {}.", times(mean)));
        let verdict = match comparable {
            0 => "No case may be compared.".to_owned(),
            all => format!(
                "Of {all} comparable cases, session {} is faster on {}, slower on {} and tied on {}.{}",
                self.b.id,
                count("faster"),
                count("slower"),
                count("tied"),
                mean.unwrap_or_default()
            ),
        };
        let cost = |session: &Session| {
            let took =
                session.wall_s.map_or_else(|| "has not ended".to_owned(), |wall| format!("took {}", duration(wall)));
            format!("session {} {took} and cost {}", session.id, usd(session.cost_usd))
        };
        let others = self.cases.len() - comparable;
        let others = match others {
            0 => String::new(),
            1 => " One more has no comparable times.".to_owned(),
            others => format!(" {others} more have no comparable times."),
        };
        let costs = format!("{}; {}.", cost(&self.a), cost(&self.b));
        format!("{verdict}{others} S{}", &costs[1..])
    }

    /// Returns what differs in the setup.
    pub(super) fn setup_table(&self) -> Table {
        let rows = self.setup.iter().map(|one| vec![one.what.to_owned(), one.a.clone(), one.b.clone()]);
        Table::new(&["What", &format!("Session {}", self.a.id), &format!("Session {}", self.b.id)], rows)
    }

    /// Returns the cases as a table.
    pub(super) fn case_table(&self) -> Table {
        let time = |time: Option<f64>| time.map_or_else(|| NOTHING.to_owned(), us);
        let named = |variant: &Option<Variant>| {
            let named = |one: &Variant| format!("{} {}", one.family, show_params(&one.params));
            variant.as_ref().map_or_else(|| NOTHING.to_owned(), named)
        };
        let rows = self.cases.iter().map(|case| {
            let same = case.a_variant.as_ref().zip(case.b_variant.as_ref()).is_some_and(|(a, b)| a.hash == b.hash);
            let verdict = case.verdict.replace('_', " ");
            let why = case.why_not.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            vec![
                case.case.to_string(),
                time(case.a_us),
                time(case.b_us),
                case.ratio.map_or_else(|| NOTHING.to_owned(), shown),
                format!("{verdict}{why}"),
                if same { "the same variant".to_owned() } else { named(&case.b_variant) },
            ]
        });
        let headings =
            ["Case".to_owned(), format!(">Session {} (µs)", self.a.id), format!(">Session {} (µs)", self.b.id)];
        let headings: Vec<&str> =
            headings.iter().map(String::as_str).chain([">Ratio", "Verdict", "Variant of the second"]).collect();
        Table::new(&headings, rows)
    }
}

fn shown(ratio: Ratio) -> String {
    let ends = ratio.lo.zip(ratio.hi);
    ends.map_or_else(
        || times(ratio.estimate),
        |(lo, hi)| format!("{} ({} to {})", times(ratio.estimate), times(lo), times(hi)),
    )
}
