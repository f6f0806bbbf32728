//! Inputs in the order of batch entries, heads and rows, for probes that change them.

use super::cache::Inputs;
use super::shape::Place;
use crate::domain::op::{Dims, Probed};

/// Inputs in this order.
pub struct Ordered {
    /// The heads of queries.
    pub places: Vec<Place>,
    /// The rows of the tensors, in this order. None if they have it.
    queries: Option<Vec<usize>>,
    keys: Option<Vec<usize>>,
    d: usize,
}

impl Ordered {
    /// Brings inputs into this order.
    pub fn of(dims: &Dims, inputs: &mut [Vec<f32>]) -> Self {
        let ordered = {
            let inputs = Inputs::of(dims, inputs);
            let shape = inputs.shape;
            let places = (0..shape.heads).map(|head| inputs.place(head)).collect();
            Self { places, queries: inputs.query_rows(), keys: inputs.key_rows(), d: shape.d }
        };
        ordered.change(inputs, |to, from, place, row| to[place].copy_from_slice(from[row]));
        ordered
    }

    /// Brings them back into the order of the tensors.
    pub fn restore(&self, inputs: &mut [Vec<f32>]) {
        self.change(inputs, |to, from, place, row| to[row].copy_from_slice(from[place]));
    }

    /// Names the rows of the output as the tensor has them. Where the heads of a sequence lie between each other, nothing is said of
    /// any of them if it is not of one.
    pub fn rename(&self, probed: &mut Probed) {
        let Some(rows) = &self.queries else { return };
        probed.rows.iter_mut().for_each(|row| *row = rows[*row]);
        for range in &mut probed.unspecified {
            let of_range = &rows[range.clone()];
            let last = of_range.iter().max().map_or(0, |row| row + 1);
            *range = of_range.iter().min().copied().unwrap_or(0)..last;
        }
    }

    /// Makes each row of queries, keys and values anew, given the old and the new rows, a place in order and the row of the tensor.
    fn change(&self, inputs: &mut [Vec<f32>], copy: impl Fn(&mut [&mut [f32]], &[&[f32]], usize, usize)) {
        for (tensor, rows) in inputs.iter_mut().zip([&self.queries, &self.keys, &self.keys]) {
            let Some(rows) = rows else { continue };
            let old = tensor.clone();
            let (mut to, from): (Vec<&mut [f32]>, Vec<&[f32]>) =
                (tensor.chunks_exact_mut(self.d).collect(), old.chunks_exact(self.d).collect());
            rows.iter().enumerate().for_each(|(place, row)| copy(&mut to, &from, place, *row));
        }
    }
}
