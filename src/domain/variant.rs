//! Variants: a family and its parameters, named by the hash of the rendered source.

use std::fmt;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// The parameters of a variant by name, in the manifest's order. Flags are 0 or 1.
pub type Params = IndexMap<String, i64>;

/// Renders parameters as `BR=64 BC=32`, for display.
pub fn show_params(params: &Params) -> String {
    params.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

/// The name of a rendered source: 128 bits of its BLAKE3 hash, as hex.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct VariantHash(pub String);

impl VariantHash {
    /// Hashes a rendered source.
    pub fn of(source: &str) -> Self {
        Self(blake3::hash(source.as_bytes()).to_hex()[..32].to_owned())
    }

    /// Returns the first 10 digits, for display.
    pub fn short(&self) -> &str {
        &self.0[..10.min(self.0.len())]
    }
}

impl fmt::Display for VariantHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A kernel to try: a family, its parameters and the source that they render to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    /// The variant's family.
    pub family: String,
    /// The variant's configuration.
    pub params: Params,
    /// The name of `source`.
    pub hash: VariantHash,
    /// The rendered CUDA source.
    pub source: String,
}
