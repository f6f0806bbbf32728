//! What the dimensions of a case mean: which keys a query sees.

use std::ops::Range;

use crate::domain::op::{Dims, runs, spread};

/// The dimensions of a case as fields.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Whether batch entries are sequences of tokens that follow each other in the tensors.
    pub is_packed: bool,
    /// Heads of queries of all batch entries.
    pub heads: usize,
    /// Heads of queries of a batch entry.
    pub heads_of_entry: usize,
    /// Heads of queries that share a head of keys and values.
    pub ratio: usize,
    pub sq: usize,
    /// Keys that a batch entry has room for.
    pub sk: usize,
    /// Keys that it has.
    pub length: usize,
    pub d: usize,
    pub causal: bool,
    /// Keys that a query sees on each side, with its own. None: all.
    pub window: Option<usize>,
    /// The limit that scores approach. 0: none.
    pub cap: f64,
}

impl Shape {
    pub fn of(dims: &Dims) -> Self {
        let at = |name: &str| usize::try_from(dims[name]).expect("validated with the workload");
        Self {
            is_packed: dims.contains_key("VARLEN"),
            heads: at("B") * at("H"),
            heads_of_entry: at("H"),
            ratio: usize::try_from(ratio(dims)).unwrap_or(1),
            sq: at("Sq"),
            sk: at("Sk"),
            length: at("Sk"),
            d: at("D"),
            causal: at("CAUSAL") == 1,
            window: dims.get("WINDOW").map(|window| usize::try_from(*window).unwrap_or(usize::MAX)),
            cap: dims.get("SOFTCAP").map_or(0.0, |cap| *cap as f64),
        }
    }

    /// Returns the heads of keys and values of all batch entries.
    pub fn key_heads(&self) -> usize {
        self.heads / self.ratio
    }

    /// Returns the same with so many keys, and as many queries if sequences are packed.
    pub fn with(self, length: usize) -> Self {
        if self.is_packed { Self { length, sq: length, sk: length, ..self } } else { Self { length, ..self } }
    }

    /// Returns the keys that query `i` sees.
    pub fn visible(&self, i: usize) -> Range<usize> {
        // Below 0 if there are more queries than keys: the first of them see none.
        let position = (i + self.length) as i64 - self.sq as i64;
        let end = match self.window {
            _ if self.causal => position + 1,
            Some(window) => position.saturating_add(window as i64),
            None => self.length as i64,
        };
        let end = end.clamp(0, self.length as i64);
        let begin = self.window.map_or(0, |window| (position + 1).saturating_sub(window as i64).clamp(0, end));
        begin as usize..end as usize
    }

    /// Returns the keys that some query sees.
    pub fn seen(&self) -> Range<usize> {
        if self.sq == 0 { 0..0 } else { self.visible(0).start..self.visible(self.sq - 1).end }
    }

    /// Returns the queries that see a key, which some query sees.
    pub fn queries_of(&self, j: usize) -> Range<usize> {
        let query = |position: usize| position.saturating_add(self.sq).saturating_sub(self.length).min(self.sq);
        let first = match self.window {
            _ if self.causal => query(j),
            Some(window) => query((j + 1).saturating_sub(window)),
            None => 0,
        };
        first..self.window.map_or(self.sq, |window| query(j.saturating_add(window)))
    }

    /// Returns the pairs of queries and keys of a head that see each other.
    pub fn pairs(&self) -> usize {
        (0..self.sq).map(|i| self.visible(i).len()).sum()
    }
}

/// A head of queries where inputs are in the order of batch entries, heads and rows.
#[derive(Clone, Copy)]
pub struct Place {
    /// Its dimensions.
    pub shape: Shape,
    /// The row of its first query.
    pub queries: usize,
    /// The row of the first key that it uses.
    pub keys: usize,
}

/// Returns how many pages batch entries have room for. 0 if keys are not in pages.
pub fn places(dims: &Dims) -> i64 {
    dims.get("PAGE").map_or(0, |page| dims["B"] * (dims["Sk"] / page.max(&1)))
}

/// Returns the fewest keys of a batch entry. Packed sequences are as long as each other if nothing says how short one is.
pub fn shortest(dims: &Dims) -> i64 {
    let most = if dims.contains_key("VARLEN") { dims["Sk"] / dims["B"] } else { dims["Sk"] };
    dims.get("SHORTEST").copied().unwrap_or(most)
}

/// Returns how many keys each batch entry has, in any order.
pub fn lengths(dims: &Dims) -> Vec<usize> {
    let (entries, sk) = (usize::try_from(dims["B"]).unwrap_or(0), dims["Sk"]);
    if dims.contains_key("VARLEN") {
        return runs(shortest(dims), sk, entries).into_iter().map(|run| usize::try_from(run).unwrap_or(0)).collect();
    }
    spread(shortest(dims), sk, entries).map(|length| usize::try_from(length).unwrap_or(0)).collect()
}

/// Returns how many heads of queries share a head of keys and values.
pub fn ratio(dims: &Dims) -> i64 {
    dims.get("Hkv").map_or(1, |key_heads| dims["H"] / key_heads)
}
