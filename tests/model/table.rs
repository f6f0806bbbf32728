//! The recorded times in docs/data/: one line per configuration, one column per case.

use std::path::Path;

use optloop::domain::variant::Params;

/// Configurations and their times on a real GPU.
pub struct Table {
    /// The workload's name.
    pub workload: String,
    /// Names of the cases, in the order of the columns.
    pub cases: Vec<String>,
    /// The configurations.
    pub rows: Vec<Row>,
}

/// One configuration.
pub struct Row {
    pub family: String,
    pub params: Params,
    /// Its median time on each case, in nanoseconds; None where it is not valid.
    pub measured_ns: Vec<Option<f64>>,
}

impl Table {
    /// Reads a table of the project.
    pub fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        let workload = text.lines().find_map(|line| line.strip_prefix("# workload: ")).unwrap().to_owned();
        let mut lines = text.lines().filter(|line| !line.starts_with('#'));
        let header: Vec<&str> = lines.next().unwrap().split(',').collect();
        let cases = header[2..].iter().map(|name| name.strip_suffix("_ns").unwrap().to_owned()).collect();
        Self { workload, cases, rows: lines.map(Row::parse).collect() }
    }
}

impl Row {
    fn parse(line: &str) -> Self {
        let fields: Vec<&str> = line.split(',').collect();
        let param = |word: &str| {
            let (name, value) = word.split_once('=').unwrap();
            (name.to_owned(), value.parse().unwrap())
        };
        Self {
            family: fields[0].to_owned(),
            params: fields[1].split(' ').map(param).collect(),
            measured_ns: fields[2..].iter().map(|field| field.parse().ok()).collect(),
        }
    }
}
