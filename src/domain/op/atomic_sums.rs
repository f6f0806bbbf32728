//! Outputs whose floating-point sums may be added in any order.

use serde::Deserialize;

use crate::domain::dtype::Dtype;
use crate::error::{Error, error};

/// What bounds the difference of two executions on the same inputs, where kernels may add an output's terms in the order in
/// which blocks arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AtomicSums {
    /// Each execution is within the workload's tolerance of the exact result.
    Tolerance,
    /// In addition, each element differs by at most n eps Σ|x|. Its terms are products of inputs, so that the oracle gives
    /// Σ|x| for the absolute values of the inputs.
    Products,
}

impl AtomicSums {
    const ALL: [Self; 2] = [Self::Tolerance, Self::Products];

    /// Returns the name that manifests use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tolerance => "tolerance",
            Self::Products => "products",
        }
    }

    /// Parses `y` or `y=products` into a tensor's name and its bound.
    pub fn parse(text: &str) -> Result<(String, Self), Error> {
        let (name, bound) = text.split_once('=').unwrap_or((text, Self::Tolerance.name()));
        let found = Self::ALL.into_iter().find(|it| it.name() == bound);
        let found =
            found.ok_or_else(|| error!("`{text}`").hint("write TENSOR, TENSOR=tolerance or TENSOR=products"))?;
        Ok((name.to_owned(), found))
    }
}

/// Returns the inputs with the absolute values of those that are floating-point numbers.
pub fn magnitudes(inputs: &[Vec<f32>], dtypes: impl Iterator<Item = Dtype>) -> Vec<Vec<f32>> {
    let of_input = |(values, dtype): (&Vec<f32>, Dtype)| match dtype.is_integer() {
        true => values.clone(),
        false => values.iter().map(|value| value.abs()).collect(),
    };
    inputs.iter().zip(dtypes).map(of_input).collect()
}
