//! Reads what `ncu --csv --page raw` prints.
//!
//! The table has a row of names, a row of units and a row for each profiled launch. What the profiled program prints
//! comes before it, as do ncu's own messages, which begin with `==`.

use super::metrics;
use crate::domain::code::counters::LaunchCounters;
use crate::error::{Error, Result, error};
use crate::runner::child;

/// The name of the table's first column.
const FIRST_COLUMN: &str = "ID";

/// The column with a kernel's name.
const KERNEL_COLUMN: &str = "Kernel Name";

/// Errors of ncu that have a remedy, by a part of their text.
const KNOWN: [(&str, &str); 2] = [
    (
        "ERR_NVGPUCTRPERM",
        "ncu may not read the GPU's counters (ERR_NVGPUCTRPERM): the driver's administrator has to allow it, see \
         https://developer.nvidia.com/ERR_NVGPUCTRPERM",
    ),
    (
        "LibraryNotLoaded",
        "ncu cannot read the GPU's counters here (LibraryNotLoaded), as in containers that run on gVisor",
    ),
];

/// Reads the counters of every profiled launch. The error says in one sentence why there are none.
pub(super) fn parse(printed: &str) -> Result<Vec<LaunchCounters>> {
    let Some(table) = table(printed) else { return Err(why_none(printed)) };
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(table.as_bytes());
    let names = reader.headers().map_err(|error| unreadable(&error))?.clone();
    let kernel = names.iter().position(|name| name == KERNEL_COLUMN);
    let Some(kernel) = kernel else { return Err(error!("ncu printed a table without `{KERNEL_COLUMN}`")) };
    let mut launches = Vec::new();
    // The first record has the units. `--print-units base` makes them those of the fields.
    for record in reader.records().skip(1) {
        let record = record.map_err(|error| unreadable(&error))?;
        let mut counters =
            LaunchCounters { kernel: record.get(kernel).unwrap_or_default().to_owned(), ..LaunchCounters::default() };
        for (name, value) in names.iter().zip(&record) {
            if let Some(value) = number(value) {
                metrics::put(&mut counters, name, value);
            }
        }
        launches.push(counters);
    }
    if launches.is_empty() { Err(why_none(printed)) } else { Ok(launches) }
}

/// Returns the text from the table's first row on.
fn table(printed: &str) -> Option<&str> {
    let mut start = 0;
    for line in printed.split_inclusive('\n') {
        if line.starts_with(&format!("\"{FIRST_COLUMN}\",")) {
            return Some(&printed[start..]);
        }
        start += line.len();
    }
    None
}

/// Parses a number with thousands separators. None for `n/a`, an empty field or text.
pub(super) fn number(text: &str) -> Option<f64> {
    let digits: String = text.trim().chars().filter(|c| *c != ',').collect();
    digits.parse().ok().filter(|value: &f64| value.is_finite())
}

/// Says in one sentence why there is no table.
fn why_none(printed: &str) -> Error {
    if let Some((_, reason)) = KNOWN.iter().find(|(part, _)| printed.contains(part)) {
        return Error::new(reason);
    }
    let errors = printed.lines().filter_map(|line| line.strip_prefix("==ERROR=="));
    let line = errors.map(child::sentence).find(|line| !line.is_empty());
    let last = || printed.lines().map(child::sentence).rfind(|line| !line.is_empty());
    match line.or_else(last) {
        Some(line) => error!("ncu profiled no launch: {line}"),
        None => Error::new("ncu profiled no launch and gave no reason"),
    }
}

fn unreadable(error: &csv::Error) -> Error {
    error!("ncu printed a table that cannot be read: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::code::counters::Resource;

    /// What ncu 2025.3.1 printed about four small kernels on an H200 (2026-11-22, driver 580.159.04): a copy of 64 MiB
    /// by 16 bytes a thread, loads and stores 128 bytes apart, 32-way bank conflicts, and registers that spill.
    const H200: &str = include_str!("sample.csv");

    #[test]
    fn the_output_of_a_real_ncu_is_read() {
        let launches = parse(H200).unwrap();
        let names: Vec<_> = launches.iter().map(|launch| launch.kernel.split('(').next().unwrap()).collect();
        assert_eq!(names, ["copy4", "strided", "conflicts", "spill"]);
        let [copy, strided, conflicts, spill] = launches.try_into().unwrap();
        assert_eq!((copy.time_ns, copy.passes), (Some(31_808.0), Some(12.0)));
        // 64 MiB each way between the SMs and L2.
        assert_eq!(copy.l2_bytes(), Some(f64::from(2 * (64 << 20))));
        assert_eq!((copy.load_sectors, copy.store_sectors), (Some(16.0), Some(16.0)));
        assert_eq!((strided.load_sectors, strided.store_sectors), (Some(32.0), Some(32.0)));
        // 264 blocks of 4 warps, 64 times a load and a store that take 32 wavefronts instead of one.
        assert_eq!(conflicts.shared_conflicts, Some(f64::from(264 * 4 * 64 * 2 * 31)));
        assert_eq!((copy.shared_conflicts, copy.local_load_sectors), (Some(0.0), Some(0.0)));
        assert_eq!((spill.local_load_sectors, spill.local_store_sectors), (Some(9_191_424.0), Some(4_866_048.0)));
        assert_eq!(conflicts.occupancy_limit(), Some((Resource::Warps, 16.0)));
        assert!(spill.sm_active_share().unwrap() < 0.6, "one SM was active for twice as long as the mean");
    }

    #[test]
    fn unknown_columns_and_missing_values_are_left_out() {
        let text = "==PROF== Connected\nhello\n\"ID\",\"Kernel Name\",\"new__metric.sum\",\"sm__cycles_active.avg\",\
                    \"gpu__time_duration.sum\"\n\"\",\"\",\"\",\"cycle\",\"ns\"\n\"0\",\"k(int, int)\",\"7\",\"n/a\",\
                    \"1,234,567.25\"\n";
        let launches = parse(text).unwrap();
        let expected =
            LaunchCounters { kernel: "k(int, int)".to_owned(), time_ns: Some(1_234_567.25), ..Default::default() };
        assert_eq!(launches, [expected]);
    }

    #[test]
    fn without_a_table_there_is_one_sentence() {
        let why = |text: &str| parse(text).unwrap_err().to_string();
        let denied = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance \
                      Counters on the target device 0.\n";
        assert!(why(denied).starts_with("ncu may not read the GPU's counters"));
        assert!(why("==ERROR== Failed to initialize the profiler: LibraryNotLoaded\n").contains("gVisor"));
        assert_eq!(why("==ERROR== It is broken.\nmore\n"), "ncu profiled no launch: It is broken.");
        assert_eq!(why("garbage\n\u{1b}[2J\n"), "ncu profiled no launch: [2J");
        assert_eq!(why(""), "ncu profiled no launch and gave no reason");
        assert_eq!(why("\"ID\",\"a\"\n\"\",\"\"\n"), "ncu printed a table without `Kernel Name`");
        let empty = "\"ID\",\"Kernel Name\"\n\"\",\"\"\n";
        assert!(why(empty).starts_with("ncu profiled no launch"));
    }
}
