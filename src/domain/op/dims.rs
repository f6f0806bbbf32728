//! The dimensions of an op, and the sizes of a case.

use indexmap::IndexMap;

/// The sizes of one case, by dimension name (`B`, `H`, `Sq`…). Flags such as `CAUSAL` are 0 or 1.
pub type Dims = IndexMap<String, i64>;

/// Adds the dimensions that a case leaves out, by their defaults.
pub fn completed<'a>(dims: &Dims, optional: impl IntoIterator<Item = (&'a str, DimDefault)>) -> Dims {
    let mut all = dims.clone();
    for (name, default) in optional {
        if let Some(value) = default.of(dims).filter(|_| !dims.contains_key(name)) {
            all.insert(name.to_owned(), value);
        }
    }
    all
}

/// Renders sizes as `B=2 Sq=64`, for display.
pub fn show_dims(dims: &Dims) -> String {
    dims.iter().map(|(name, size)| format!("{name}={size}")).collect::<Vec<_>>().join(" ")
}

/// A dimension that every case of an op must give.
#[derive(Debug, Clone, Copy)]
pub struct DimSpec {
    /// Name, as in the workload file.
    pub name: &'static str,
    /// Meaning, for error messages.
    pub about: &'static str,
    /// Smallest and largest allowed value.
    pub range: (i64, i64),
}

/// A dimension that a case may leave out. A case never gives its default: it is taken away when a workload is read, so that equal
/// cases have equal dimensions.
#[derive(Debug, Clone, Copy)]
pub struct OptionalDim {
    /// Its name, meaning and range.
    pub dim: DimSpec,
    /// What it is in a case that leaves it out.
    pub default: DimDefault,
}

/// What a dimension is that a case leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DimDefault {
    /// The same as another dimension.
    Same(&'static str),
    /// A number.
    Fixed(i64),
    /// 0. A source whose kernel lacks what it stands for does not name it.
    Off,
}

impl DimDefault {
    /// Returns its value among the dimensions of a case. None if the other dimension is missing.
    pub fn of(self, dims: &Dims) -> Option<i64> {
        match self {
            Self::Same(other) => dims.get(other).copied(),
            Self::Fixed(value) => Some(value),
            Self::Off => Some(0),
        }
    }

    /// Returns it as an expression.
    pub fn text(self) -> String {
        match self {
            Self::Same(other) => other.to_owned(),
            Self::Fixed(value) => value.to_string(),
            Self::Off => "0".to_owned(),
        }
    }
}
