//! Repeats of one comparison: the spread of the medians, and how often it had a winner.

use std::io::{self, Write};

use serde::Serialize;

use crate::cli::terminal::comparisons::challenger_is;
use crate::cli::terminal::measured;
use crate::cli::terminal::table::{Table, figure};
use crate::domain::device::regime::Regime;
use crate::domain::ids::CaseName;
use crate::domain::measurement::comparison::{Comparison, Role};
use crate::domain::statistics::median;
use crate::report::format;

/// Comparisons of the same participants under the same conditions.
pub struct Repeats {
    pub comparisons: Vec<Comparison>,
}

/// A participant's results over all repeats.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Spread {
    case: CaseName,
    regime: Regime,
    role: Role,
    name: String,
    repeats: usize,
    /// Median of the medians.
    median_us: f64,
    lowest_median_us: f64,
    highest_median_us: f64,
    /// Highest over lowest median.
    max_over_min: f64,
    /// In how many repeats the challenger was faster, tied or slower beyond the noise.
    challenger_faster: usize,
    challenger_tied: usize,
    challenger_slower: usize,
}

impl Repeats {
    /// Returns the results of every participant that was in all comparisons. Empty for a single comparison.
    pub fn spreads(&self) -> Vec<Spread> {
        let fewest = self.comparisons.iter().map(|comparison| comparison.participants.len()).min().unwrap_or(0);
        if self.comparisons.len() < 2 {
            return Vec::new();
        }
        (0..fewest).filter_map(|place| self.spread(place)).collect()
    }

    fn spread(&self, place: usize) -> Option<Spread> {
        let first = self.comparisons.first()?;
        let participant = &first.participants[place];
        let medians: Vec<f64> = self.comparisons.iter().map(|c| c.participants[place].timing.median_ns / 1e3).collect();
        let lowest = medians.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = medians.iter().copied().fold(0.0, f64::max);
        let was = |word: &str| {
            self.comparisons
                .iter()
                .filter(|comparison| challenger_is(comparison, &comparison.participants[place]) == Some(word))
                .count()
        };
        Some(Spread {
            case: first.conditions.case.clone(),
            regime: first.conditions.regime,
            role: participant.role,
            name: participant.name.clone(),
            repeats: self.comparisons.len(),
            median_us: median(&medians)?,
            lowest_median_us: lowest,
            highest_median_us: highest,
            max_over_min: highest / lowest,
            challenger_faster: was("faster"),
            challenger_tied: was("tied"),
            challenger_slower: was("slower"),
        })
    }

    /// Prints a comparison, or the summary of several.
    pub fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let [comparison] = &self.comparisons[..] else { return self.print_spreads(out) };
        measured::print(comparison, out)
    }

    fn print_spreads(&self, out: &mut impl Write) -> io::Result<()> {
        let Some(first) = self.comparisons.first() else { return Ok(()) };
        writeln!(out, "{}; {} comparisons, each in a fresh process", measured::title(first), self.comparisons.len())?;
        let time = format!(">µs, {}", first.conditions.time_source.name());
        let headings = ["role", "kernel", &time, "medians", ">max/min", ">challenger faster", ">tied", ">slower"];
        let mut table = Table::new(&headings);
        for spread in self.spreads() {
            let called = spread.challenger_faster + spread.challenger_tied + spread.challenger_slower > 0;
            let count = |count: usize| figure(called.then_some(count), |count| count.to_string());
            table.row([
                spread.role.name().to_owned(),
                spread.name.clone(),
                format::us(spread.median_us),
                format!("{} to {}", format::us(spread.lowest_median_us), format::us(spread.highest_median_us)),
                format!("{:.4}", spread.max_over_min),
                count(spread.challenger_faster),
                count(spread.challenger_tied),
                count(spread.challenger_slower),
            ]);
        }
        table.print(out)
    }
}
