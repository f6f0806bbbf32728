//! The inputs of a case by what they mean: where the keys and values of a query lie.

use std::borrow::Cow;
use std::ops::Range;

use super::shape::{Place, Shape};
use crate::domain::op::{Dims, Dtype};

/// The inputs of a case.
pub struct Inputs<'a> {
    /// The dimensions, with room for keys as the number of keys.
    pub shape: Shape,
    q: &'a [f32],
    k: &'a [f32],
    v: &'a [f32],
    lengths: Option<&'a [f32]>,
    /// Where packed sequences begin, and where the last one ends, in tokens.
    borders: Option<Vec<usize>>,
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

/// Returns inputs with keys and values in tensors of their own.
pub fn separate<'a>(dims: &Dims, inputs: &'a [Vec<f32>]) -> Cow<'a, [Vec<f32>]> {
    let (true, [q, both, rest @ ..]) = (dims.contains_key("KV"), inputs) else { return Cow::Borrowed(inputs) };
    let d = Shape::of(dims).d;
    let [keys, values] = [0, d].map(|from| both.chunks_exact(2 * d).flat_map(move |row| &row[from..from + d]).copied());
    Cow::Owned([vec![q.clone(), keys.collect(), values.collect()], rest.to_vec()].concat())
}

/// Brings separate inputs back into the tensors that the case has.
pub fn join(dims: &Dims, separate: Vec<Vec<f32>>, inputs: &mut [Vec<f32>]) {
    let d = Shape::of(dims).d;
    let [q, keys, values, rest @ ..] = &separate[..] else { panic!("attention has three inputs at least") };
    let rows = keys.chunks_exact(d).zip(values.chunks_exact(d));
    let both = rows.flat_map(|(key, value)| key.iter().chain(value)).copied().collect();
    let joined = [vec![q.clone(), both], rest.to_vec()].concat();
    inputs.iter_mut().zip(joined).for_each(|(input, joined)| *input = joined);
}

impl<'a> Inputs<'a> {
    /// Names separate inputs ([`separate`]) in the order of [`Attention::tensors`](super::Attention).
    pub fn of(dims: &Dims, inputs: &'a [Vec<f32>]) -> Self {
        let shape = Shape::of(dims);
        let mut inputs = inputs.iter().map(Vec::as_slice);
        let mut next = || inputs.next().expect("as many inputs as the case has");
        let [q, k, v] = [next(), next(), next()];
        let lengths = dims.get("LENGTHS").map(|_| next());
        let borders = shape.is_packed.then(|| next().iter().map(|border| whole(*border)).collect());
        let pages = dims.get("PAGE").map(|size| Pages {
            size: usize::try_from(*size).expect("validated with the workload"),
            heads: shape.heads_of_entry / shape.ratio,
            table: next(),
        });
        Self { shape, q, k, v, lengths, borders, pages, sinks: dims.get("SINK").map(|_| next()) }
    }

    /// Returns whether sequences are packed.
    pub fn is_packed(&self) -> bool {
        self.borders.is_some()
    }

    /// Returns the dimensions with the number of keys of a head of queries, and of queries if sequences are packed.
    pub fn shape_of(&self, head: usize) -> Shape {
        let entry = head / self.shape.heads_of_entry;
        match (&self.borders, self.lengths) {
            (Some(borders), _) => self.shape.with(borders[entry + 1] - borders[entry]),
            (_, Some(lengths)) => self.shape.with(whole(lengths[entry]).min(self.shape.sk)),
            _ => self.shape,
        }
    }

    /// Returns where a head of queries is in the order of batch entries, heads and rows.
    pub fn place(&self, head: usize) -> Place {
        let (shape, of_entry) = (self.shape_of(head), self.shape.heads_of_entry);
        let of_keys = head / self.shape.ratio;
        match &self.borders {
            None => Place { shape, queries: head * shape.sq, keys: of_keys * shape.sk },
            Some(borders) => {
                let (first, key_heads) = (borders[head / of_entry], of_entry / shape.ratio);
                let queries = first * of_entry + head % of_entry * shape.sq;
                Place { shape, queries, keys: first * key_heads + of_keys % key_heads * shape.sk }
            }
        }
    }

    /// Returns the rows of queries in that order. None if they have it.
    pub fn query_rows(&self) -> Option<Vec<usize>> {
        self.borders.as_ref().map(|borders| rows_of_packed(borders, self.shape.heads_of_entry))
    }

    /// Returns the rows of keys in that order. None if they have it.
    pub fn key_rows(&self) -> Option<Vec<usize>> {
        let shape = self.shape;
        let key_heads = shape.heads_of_entry / shape.ratio;
        let row = |pages: &Pages<'_>, place: usize| pages.row(&shape, place / shape.sk * shape.ratio, place % shape.sk);
        let of_pages =
            |pages: &Pages<'_>| (0..shape.key_heads() * shape.sk).map(|place| row(pages, place)).collect::<Vec<_>>();
        let of_packed = self.borders.as_ref().map(|borders| rows_of_packed(borders, key_heads));
        of_packed.or_else(|| self.pages.as_ref().map(of_pages))
    }

    /// Returns the head of an output row, and which of its queries it is.
    fn query(&self, row: usize) -> (usize, usize) {
        let Some(borders) = &self.borders else { return (row / self.shape.sq, row % self.shape.sq) };
        let (token, head) = (row / self.shape.heads_of_entry, row % self.shape.heads_of_entry);
        let entry = borders.partition_point(|border| *border <= token) - 1;
        (entry * self.shape.heads_of_entry + head, token - borders[entry])
    }

    /// Returns the rows of the output.
    pub fn rows(&self) -> usize {
        if self.is_packed() { self.shape.sq * self.shape.heads_of_entry } else { self.shape.heads * self.shape.sq }
    }

    /// Returns the scores of an output row.
    pub fn scores(&self, row: usize) -> Vec<f64> {
        let Shape { d, cap, .. } = self.shape;
        let (head, i) = self.query(row);
        let visible = self.shape_of(head).visible(i);
        numerics::attention::scores(&self.q[row * d..(row + 1) * d], &self.rows_of(self.k, head, visible), d, cap)
    }

    /// Returns the scores of an output row, and the values of the keys that it sees.
    pub fn scores_and_values(&self, row: usize) -> (Vec<f64>, Cow<'a, [f32]>) {
        let (head, i) = self.query(row);
        let visible = self.shape_of(head).visible(i);
        (self.scores(row), self.rows_of(self.v, head, visible))
    }

    /// Returns the sink of an output row's head.
    pub fn sink(&self, row: usize) -> Option<f64> {
        self.sinks.map(|sinks| f64::from(sinks[self.query(row).0 % sinks.len()]))
    }

    /// Returns some keys, or values, of a head of queries, one after the other.
    fn rows_of(&self, tensor: &'a [f32], head: usize, wanted: Range<usize>) -> Cow<'a, [f32]> {
        let d = self.shape.d;
        let gathered = |row: &dyn Fn(usize) -> usize| {
            Cow::Owned(wanted.clone().flat_map(|key| &tensor[row(key) * d..][..d]).copied().collect())
        };
        if let Some(pages) = &self.pages {
            return gathered(&|key| pages.row(&self.shape, head, key));
        }
        let Place { keys, .. } = self.place(head);
        match &self.borders {
            None => Cow::Borrowed(&tensor[keys * d..][wanted.start * d..wanted.end * d]),
            Some(borders) => {
                let (entry, of_entry) = (head / self.shape.heads_of_entry, head % self.shape.heads_of_entry);
                let key_heads = self.shape.heads_of_entry / self.shape.ratio;
                gathered(&|key| (borders[entry] + key) * key_heads + of_entry / self.shape.ratio)
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

/// Returns the rows of packed sequences in the order of sequences, heads and tokens. A token has the rows of all heads.
fn rows_of_packed(borders: &[usize], heads: usize) -> Vec<usize> {
    let of_sequence =
        |tokens: Range<usize>| (0..heads).flat_map(move |head| tokens.clone().map(move |token| token * heads + head));
    borders.windows(2).flat_map(|ends| of_sequence(ends[0]..ends[1])).collect()
}

/// Reads a whole number. One below 0 is 0.
fn whole(kept: f32) -> usize {
    usize::try_from(Dtype::I32.kept(&[kept])).unwrap_or(0)
}
