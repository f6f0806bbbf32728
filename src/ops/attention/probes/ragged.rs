//! A probe of batch entries with few keys or none, and of what lies behind them.

use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use crate::domain::op::{Dtype, TensorSpec};

/// Returns whether batch entries have numbers of keys of their own.
pub fn has_lengths(inputs: &[TensorSpec]) -> bool {
    place(inputs, "lengths").is_some()
}

/// Draws lengths: none, one, all, and any number between, often beside the end of a page or of a tile. What lies behind them is NaN or
/// infinite, as memory may be that was used for something else. Nothing is in the table for pages that nothing needs.
pub fn fill(tensors: &[TensorSpec], values: &mut [Vec<f32>], seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let caches: Vec<usize> = ["k", "v", "kv"].iter().filter_map(|name| place(tensors, name)).collect();
    let (Some(first), Some(lengths)) = (caches.first(), place(tensors, "lengths")) else { return };
    let (shape, entries) = (&tensors[*first].shape, tensors[lengths].elements());
    let table = place(tensors, "page_table");
    // Keys in pages are [pages, keys, heads, D], and others [B, heads, keys, D].
    let (page, room, heads) = match table {
        Some(table) => (shape[1], shape[1] * tensors[table].row_len(), shape[2]),
        None => (64, shape[2], shape[1]),
    };
    let mut drawn: Vec<usize> = (0..entries).map(|_| length(room, page, &mut rng)).collect();
    if let Some(empty) = drawn.first_mut().filter(|_| entries > 1) {
        *empty = 0;
    }
    drawn.shuffle(&mut rng);
    let row_len = tensors[*first].row_len();
    for (entry, length) in drawn.iter().enumerate() {
        keep(*length as i64, &mut values[lengths][entry]);
        for key in *length..room {
            for head in 0..heads {
                let row = match table {
                    Some(table) => {
                        let of_table = entry * (room / page) + key / page;
                        let number = Dtype::I32.kept(&values[table][of_table..=of_table]);
                        (usize::try_from(number).unwrap_or(0) * page + key % page) * heads + head
                    }
                    None => (entry * heads + head) * room + key,
                };
                let value = if rng.random() { f32::NAN } else { f32::INFINITY };
                caches.iter().for_each(|cache| values[*cache][row * row_len..][..row_len].fill(value));
            }
        }
    }
    if let Some(table) = table {
        let pages = room / page;
        for (entry, length) in drawn.iter().enumerate() {
            let unused = entry * pages + length.div_ceil(page)..(entry + 1) * pages;
            let absent = if rng.random() { -1 } else { i64::from(i32::MAX) };
            values[table][unused].iter_mut().for_each(|number| keep(absent, number));
        }
    }
}

/// Draws how many keys a batch entry has.
fn length(room: usize, page: usize, rng: &mut SmallRng) -> usize {
    let length = match rng.random_range(0..6) {
        0 => 0,
        1 => 1,
        2 => room,
        // One more or less than whole pages or tiles.
        3 => rng.random_range(0..=room / page) * page + 1,
        4 => (rng.random_range(0..=room / page) * page).saturating_sub(1),
        _ => rng.random_range(0..=room),
    };
    length.min(room)
}

fn keep(number: i64, kept: &mut f32) {
    Dtype::I32.keep(number, std::slice::from_mut(kept));
}

fn place(tensors: &[TensorSpec], name: &str) -> Option<usize> {
    tensors.iter().position(|tensor| tensor.name == name)
}
