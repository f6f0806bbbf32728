//! The inputs of a case by what they mean: where the keys and values of a query lie.

use std::borrow::Cow;
use std::ops::Range;

use super::shape::Shape;
use crate::domain::op::{Dims, Dtype};

/// The inputs of a case.
pub struct Inputs<'a> {
    /// The dimensions, with room for keys as the number of keys.
    pub shape: Shape,
    q: &'a [f32],
    k: &'a [f32],
    v: &'a [f32],
    lengths: Option<&'a [f32]>,
    pages: Option<Pages<'a>>,
    sinks: Option<&'a [f32]>,
}

/// Where the keys of a cache in pages lie.
struct Pages<'a> {
    /// Keys of a page.
    size: usize,
    /// Heads of keys and values.
    heads: usize,
    table: &'a [f32],
}

impl<'a> Inputs<'a> {
    /// Names inputs in the order of [`Attention::tensors`](super::Attention).
    pub fn of(dims: &Dims, inputs: &'a [Vec<f32>]) -> Self {
        let shape = Shape::of(dims);
        let mut inputs = inputs.iter().map(Vec::as_slice);
        let mut next = || inputs.next().expect("as many inputs as the case has");
        let [q, k, v] = [next(), next(), next()];
        let lengths = dims.get("LENGTHS").map(|_| next());
        let pages = dims.get("PAGE").map(|size| Pages {
            size: usize::try_from(*size).expect("validated with the workload"),
            heads: shape.heads_of_entry / shape.ratio,
            table: next(),
        });
        Self { shape, q, k, v, lengths, pages, sinks: dims.get("SINK").map(|_| next()) }
    }

    /// Returns the dimensions with the number of keys of a head of queries.
    pub fn shape_of(&self, head: usize) -> Shape {
        let length = |lengths: &[f32]| whole(lengths[head / self.shape.heads_of_entry]);
        self.lengths.map_or(self.shape, |lengths| self.shape.with(length(lengths).min(self.shape.sk)))
    }

    /// Returns the rows of the output.
    pub fn rows(&self) -> usize {
        self.shape.heads * self.shape.sq
    }

    /// Returns the scores of an output row.
    pub fn scores(&self, row: usize) -> Vec<f64> {
        let Shape { sq, d, cap, .. } = self.shape;
        let head = row / sq;
        let visible = self.shape_of(head).visible(row % sq);
        numerics::attention::scores(&self.q[row * d..(row + 1) * d], &self.rows_of(self.k, head, visible), d, cap)
    }

    /// Returns the scores of an output row, and the values of the keys that it sees.
    pub fn scores_and_values(&self, row: usize) -> (Vec<f64>, Cow<'a, [f32]>) {
        let head = row / self.shape.sq;
        let visible = self.shape_of(head).visible(row % self.shape.sq);
        (self.scores(row), self.rows_of(self.v, head, visible))
    }

    /// Returns the sink of an output row's head.
    pub fn sink(&self, row: usize) -> Option<f64> {
        self.sinks.map(|sinks| f64::from(sinks[row / self.shape.sq % sinks.len()]))
    }

    /// Returns some keys, or values, of a head of queries, one after the other.
    fn rows_of(&self, tensor: &'a [f32], head: usize, wanted: Range<usize>) -> Cow<'a, [f32]> {
        let d = self.shape.d;
        match &self.pages {
            None => Cow::Borrowed(&tensor[self.shape.keys_of(head)..][wanted.start * d..wanted.end * d]),
            Some(pages) => {
                let rows = wanted.flat_map(|key| &tensor[pages.row(&self.shape, head, key) * d..][..d]);
                Cow::Owned(rows.copied().collect())
            }
        }
    }
}

impl Pages<'_> {
    /// Returns which row of the tensor has a key of a head of queries.
    fn row(&self, shape: &Shape, head: usize, key: usize) -> usize {
        let page = whole(self.table[head / shape.heads_of_entry * (shape.sk / self.size) + key / self.size]);
        let key_head = head % shape.heads_of_entry / shape.ratio;
        (page * self.size + key % self.size) * self.heads + key_head
    }
}

/// Reads a whole number. One below 0 is 0.
fn whole(kept: f32) -> usize {
    usize::try_from(Dtype::I32.kept(&[kept])).unwrap_or(0)
}

/// Keys and values as if they were not in pages, for probes that change them.
pub struct Unpaged {
    /// The rows of the tensor in the order of batch entries, heads and keys. None if it has that order.
    rows: Option<Vec<usize>>,
    d: usize,
}

impl Unpaged {
    /// Brings keys and values into the order of batch entries, heads and keys.
    pub fn of(dims: &Dims, inputs: &mut [Vec<f32>]) -> Self {
        let rows = {
            let inputs = Inputs::of(dims, inputs);
            let shape = inputs.shape;
            let row =
                |pages: &Pages<'_>, place: usize| pages.row(&shape, place / shape.sk * shape.ratio, place % shape.sk);
            inputs.pages.map(|pages| (0..shape.key_heads() * shape.sk).map(|place| row(&pages, place)).collect())
        };
        let unpaged = Self { rows, d: Shape::of(dims).d };
        unpaged.change(inputs, |to, from, place, row| to[place].copy_from_slice(from[row]));
        unpaged
    }

    /// Brings them back into pages.
    pub fn restore(&self, inputs: &mut [Vec<f32>]) {
        self.change(inputs, |to, from, place, row| to[row].copy_from_slice(from[place]));
    }

    /// Makes each row of keys and values anew, given the old and the new rows, a place in order and the row of a page.
    fn change(&self, inputs: &mut [Vec<f32>], copy: impl Fn(&mut [&mut [f32]], &[&[f32]], usize, usize)) {
        let Some(rows) = &self.rows else { return };
        for tensor in &mut inputs[1..3] {
            let old = tensor.clone();
            let (mut to, from): (Vec<&mut [f32]>, Vec<&[f32]>) =
                (tensor.chunks_exact_mut(self.d).collect(), old.chunks_exact(self.d).collect());
            rows.iter().enumerate().for_each(|(place, row)| copy(&mut to, &from, place, *row));
        }
    }
}
