//! The tensors of a case, and how their values are drawn.

use serde::{Deserialize, Serialize};

use crate::domain::dtype::Dtype;

/// What a kernel does with a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TensorRole {
    /// Read only.
    Input,
    /// Read and then overwritten: it begins with an input's values and ends with an output's.
    InPlace,
    /// Written in full by every launch of the plan.
    Output,
}

impl TensorRole {
    /// Returns whether the tensor has values before a launch. The oracle gets them.
    pub fn is_read(self) -> bool {
        self != Self::Output
    }

    /// Returns whether the tensor holds a result after a launch. The oracle returns it.
    pub fn is_written(self) -> bool {
        self != Self::Input
    }

    /// Returns the word that `op.toml` and tables use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::InPlace => "in-place",
            Self::Output => "output",
        }
    }
}

/// How the values of an input are drawn. An F32 holds each of them exactly, or its bits ([`Dtype::is_kept_as_bits`]).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Values {
    /// From the standard normal distribution.
    #[default]
    Normal,
    /// From the normal distribution around zero with this standard deviation.
    Scaled(f32),
    /// Evenly between two numbers.
    Uniform(f32, f32),
    /// Whole numbers from the first to the last, each as likely.
    Integers(i64, i64),
    /// Whole numbers from the first to the last, in rising order along the last dimension.
    Sorted(i64, i64),
    /// Whole numbers at equal distances from the first to the last, in random order ([`spread`]).
    Spread(i64, i64),
    /// The borders of runs that divide so many things (the second number) into runs of lengths at equal distances from the first
    /// number on ([`runs`]), in random order: 0, where the second run begins, and so on to the end of the last one.
    Borders(i64, i64),
    /// One with this probability, otherwise zero.
    Mask(f32),
    /// The numbers of a file as the element type keeps them, in row-major order.
    Given(&'static [f32]),
}

impl Values {
    /// Returns whether a part of the values, or all of them in another order, may not be what they mean.
    pub fn are_one_whole(self) -> bool {
        matches!(self, Self::Sorted(..) | Self::Spread(..) | Self::Borders(..) | Self::Given(_))
    }
}

/// Returns so many whole numbers at equal distances from the first to the last, rounded down. One alone is the last.
pub fn spread(from: i64, to: i64, count: usize) -> impl Iterator<Item = i64> {
    let last = count.saturating_sub(1) as i64;
    (0..=last).map(move |i| if last == 0 { to } else { from + (to - from) * i / last })
}

/// Divides so many things into runs of lengths at equal distances from the shortest on. What is left over is in the last one.
pub fn runs(shortest: i64, total: i64, count: usize) -> Vec<i64> {
    let last = count.saturating_sub(1) as i64;
    let (more, parts) = (total - shortest * count as i64, (last * (last + 1) / 2).max(1));
    let mut runs: Vec<i64> = (0..=last).map(|i| shortest + more * i / parts).collect();
    let rest = total - runs.iter().sum::<i64>();
    runs.iter_mut().last().into_iter().for_each(|run| *run += rest);
    runs
}

/// One tensor of a case, dense and row-major.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TensorSpec {
    /// The name that launch plans use.
    pub name: String,
    /// Element type.
    pub dtype: Dtype,
    /// Extent of each dimension, outermost first; the last dimension is contiguous.
    pub shape: Vec<usize>,
    /// Input, output, or both.
    pub role: TensorRole,
    /// How an input is drawn.
    #[serde(skip)]
    pub values: Values,
}

impl TensorSpec {
    /// Returns the number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns the size in bytes.
    pub fn bytes(&self) -> usize {
        self.elements() * self.dtype.bytes()
    }

    /// Returns the extent of the last dimension. A *row* is one slice along it.
    pub fn row_len(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.elements() / self.row_len().max(1)
    }

    /// Returns whether any number may be in its place. The others, such as indices, keep to what they mean.
    pub fn is_free(&self) -> bool {
        matches!(self.values, Values::Normal | Values::Scaled(_)) && !self.dtype.is_integer()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_of_uneven_lengths_that_add_up() {
        assert_eq!(runs(2, 20, 4), [2, 4, 6, 8]);
        assert_eq!(runs(1, 10, 1), [10]);
        assert_eq!(runs(0, 3, 5), [0, 0, 0, 0, 3]);
        assert_eq!(runs(5, 21, 4), [5, 5, 5, 6]);
    }
}
