//! Data kept from one evaluation to the next. Drawing the inputs of a large case and computing their expected output
//! takes longer than all the work on the device.

use std::cell::RefCell;
use std::sync::Arc;

use super::Ended;
use super::data::{Data, DataKey};
use super::drawing::Ahead;
use super::resident::Residents;
use crate::runner::device::Problem;
use crate::runner::memory;
use crate::runner::validate::Part;

/// The most bytes of inputs to keep: two sets of those of every case of the shipped workloads.
const MAX_BYTES: usize = 4 << 30;

/// The kept inputs may take the host's free memory divided by this.
const MEMORY_SHARE: usize = 4;

/// Each kind of data that is drawn ahead may take this memory divided by this.
const AHEAD_SHARE: usize = 2;

/// Held-out inputs of a problem that are drawn ahead, at most. While compilers fill all cores, an oracle may take longer than
/// an evaluation.
pub const HELD_OUT_AHEAD: usize = 2;

/// Data kept between evaluations, and data drawn ahead of them, within a memory limit.
pub struct Stock {
    /// In order of use, the latest last.
    kept: RefCell<Vec<(DataKey, Arc<Data>)>>,
    /// The data of later evaluations.
    later: Ahead,
    /// Held-out inputs. Any will do for a problem, so that their keys have no seed. They have a thread of their own, because
    /// each evaluation needs some, and the data above takes several times as long.
    held_out: Ahead,
    /// The inputs on the device.
    residents: Residents,
    most_bytes: usize,
}

impl Default for Stock {
    fn default() -> Self {
        Self::of(memory::free().map_or(MAX_BYTES, |free| MAX_BYTES.min(free / MEMORY_SHARE)))
    }
}

impl Stock {
    /// Makes a stock that holds at most `most_bytes` of inputs.
    fn of(most_bytes: usize) -> Self {
        let (kept, residents) = (RefCell::default(), Residents::default());
        Self { kept, later: Ahead::start(1), held_out: Ahead::start(HELD_OUT_AHEAD), residents, most_bytes }
    }

    /// Returns the inputs that stay on the device.
    pub fn residents(&self) -> &Residents {
        &self.residents
    }

    /// Returns the data of a source, and draws it if it is neither kept nor drawn ahead. The least recently used data
    /// makes room.
    pub fn data(&self, problem: &Problem<'_>, oracle_flop: f64, seed: u64) -> Result<Arc<Data>, Ended> {
        let source = DataKey::of(problem, oracle_flop, seed);
        let known = {
            let mut kept = self.kept.borrow_mut();
            let place = kept.iter().position(|(other, _)| *other == source);
            place.map(|place| kept.remove(place).1)
        };
        let data = match known {
            Some(data) => data,
            None => {
                // Room is made first, to reuse the freed memory.
                self.make_room(problem.bytes());
                let drawn = self
                    .later
                    .take(&source)
                    .unwrap_or_else(|| Data::compared_on(Part::Sample, problem, oracle_flop, seed));
                Arc::new(drawn.map_err(Ended::Oracle)?)
            }
        };
        if data.bytes() <= self.most_bytes {
            self.kept.borrow_mut().push((source, Arc::clone(&data)));
        }
        Ok(data)
    }

    /// Has another thread draw the data of a later evaluation.
    pub fn draw_ahead(&self, problem: &Problem<'_>, oracle_flop: f64, seed: u64) {
        let source = DataKey::of(problem, oracle_flop, seed);
        if !self.kept.borrow().iter().any(|(other, _)| *other == source) {
            let draw = move |problem: &Problem<'_>| Data::compared_on(Part::Sample, problem, oracle_flop, seed);
            self.later.begin((source, 1), problem, self.most_bytes / AHEAD_SHARE, draw);
        }
    }

    /// Has other threads draw held-out inputs: those of `data`, rotated by amounts drawn from each seed. Begins only
    /// as many as are missing until N are ready or being drawn.
    pub fn draw_held_out<const N: usize>(
        &self,
        problem: &Problem<'_>,
        data: &Arc<Data>,
        oracle_flop: f64,
        seeds: [u64; N],
    ) {
        for (place, seed) in seeds.into_iter().enumerate() {
            let data = Arc::clone(data);
            let draw = move |problem: &Problem<'_>| data.turned(problem, oracle_flop, seed);
            let key = DataKey::of(problem, oracle_flop, 0);
            self.held_out.begin((key, place + 1), problem, self.most_bytes / AHEAD_SHARE, draw);
        }
    }

    /// Returns held-out inputs that nothing was checked on, and draws them if no other thread has.
    pub fn held_out(&self, problem: &Problem<'_>, data: &Data, oracle_flop: f64, seed: u64) -> Result<Data, Ended> {
        let ahead = self.held_out.take(&DataKey::of(problem, oracle_flop, 0));
        ahead.unwrap_or_else(|| data.turned(problem, oracle_flop, seed)).map_err(Ended::Oracle)
    }

    fn make_room(&self, bytes: usize) {
        let mut kept = self.kept.borrow_mut();
        while !kept.is_empty() && kept.iter().map(|(_, data)| data.bytes()).sum::<usize>() + bytes > self.most_bytes {
            kept.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::compute::Compute;
    use crate::domain::op::{Dims, Dtype};
    use crate::ops;

    /// Calls a function with a small problem.
    fn on_a_problem<T>(what: impl FnOnce(&Problem<'_>) -> T) -> T {
        let dims: Dims = [("B", 1), ("H", 1), ("Sq", 16), ("Sk", 16), ("D", 16), ("CAUSAL", 0)]
            .map(|(name, size)| (name.to_owned(), size))
            .into();
        let op = ops::find("attention").unwrap();
        what(&Problem { op, dims: &dims, dtype: Dtype::F16, compute: Compute::Dtype })
    }

    #[test]
    fn data_drawn_ahead_is_the_same_data() {
        on_a_problem(|problem| {
            let stock = Stock::of(1 << 20);
            stock.draw_ahead(problem, 1e9, 1);
            stock.draw_ahead(problem, 1e9, 2);
            let [second, first] = [2, 1].map(|seed| stock.data(problem, 1e9, seed).unwrap());
            assert_eq!(first.inputs, Data::new(problem, 1e9, 1).unwrap().inputs);
            assert_eq!(second.inputs, Data::new(problem, 1e9, 2).unwrap().inputs);
        });
    }

    #[test]
    fn held_out_inputs_are_used_once() {
        on_a_problem(|problem| {
            let stock = Stock::of(1 << 20);
            let data = stock.data(problem, 1e9, 1).unwrap();
            stock.draw_held_out(problem, &data, 1e8, [2]);
            stock.draw_held_out(problem, &data, 1e8, [3]);
            stock.draw_held_out(problem, &data, 1e8, [4, 5]);
            // What is drawn ahead has the seed of then.
            let seeds = [(); 3].map(|()| stock.held_out(problem, &data, 1e8, 6).unwrap().seed);
            assert_eq!(seeds, [2, 5, 6]);
        });
    }

    #[test]
    fn repeated_data_is_cached_until_its_memory_is_needed() {
        on_a_problem(|problem| {
            let one = Data::new(problem, 1e9, 1).unwrap().bytes();
            // Room for two, and for one more output, which is not kept here.
            let stock = Stock::of(one * 2 + one / 3);
            let [first, second] = [1, 2].map(|seed| stock.data(problem, 1e9, seed).unwrap());
            assert!(Arc::ptr_eq(&first, &stock.data(problem, 1e9, 1).unwrap()));
            assert!(!Arc::ptr_eq(&first, &stock.data(problem, 1e8, 1).unwrap()), "fewer rows are another oracle");
            assert!(Arc::ptr_eq(&first, &stock.data(problem, 1e9, 1).unwrap()), "it was used after the second one");
            assert!(!Arc::ptr_eq(&second, &stock.data(problem, 1e9, 2).unwrap()));
            let none = Stock::of(one - 1);
            let [first, again] = [(); 2].map(|()| none.data(problem, 1e9, 1).unwrap());
            assert!(!Arc::ptr_eq(&first, &again), "too large to be kept");
        });
    }
}
