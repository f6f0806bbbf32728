//! Data kept from one evaluation to the next. Drawing the inputs of a large case and computing their expected output
//! takes longer than all the work on the device.

use std::cell::RefCell;
use std::rc::Rc;

use super::Ended;
use super::data::Data;
use crate::domain::op::{Dims, Dtype};
use crate::runner::device::Problem;

/// The most bytes of inputs to keep: two sets of those of every case of the shipped workloads.
const MAX_BYTES: usize = 4 << 30;

/// The kept inputs may take the host's free memory divided by this.
const MEMORY_SHARE: usize = 4;

/// Everything that determines the data: equal keys give equal data.
#[derive(Debug, Clone, PartialEq)]
pub struct DataKey {
    op: String,
    dims: Dims,
    dtype: Dtype,
    oracle_flop: f64,
    seed: u64,
}

impl DataKey {
    /// Returns the key of a problem's data.
    pub fn of(problem: &Problem<'_>, oracle_flop: f64, seed: u64) -> Self {
        let Problem { op, dims, dtype, .. } = *problem;
        Self { op: op.identity(), dims: dims.clone(), dtype, oracle_flop, seed }
    }
}

/// Data kept between evaluations, within a memory limit.
pub struct Stock {
    /// In order of use, the latest last.
    kept: RefCell<Vec<(DataKey, Rc<Data>)>>,
    most_bytes: usize,
}

impl Default for Stock {
    fn default() -> Self {
        Self::of(free_memory().map_or(MAX_BYTES, |free| MAX_BYTES.min(free / MEMORY_SHARE)))
    }
}

impl Stock {
    /// Makes a stock that holds at most `most_bytes` of inputs.
    fn of(most_bytes: usize) -> Self {
        Self { kept: RefCell::default(), most_bytes }
    }

    /// Returns the data of a source, and draws it if it is not kept. The least recently used data makes room.
    pub fn data(&self, problem: &Problem<'_>, oracle_flop: f64, seed: u64) -> Result<Rc<Data>, Ended> {
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
                self.make_room(problem.tensors().iter().map(|tensor| tensor.bytes()).sum());
                Rc::new(Data::new(problem, oracle_flop, seed).map_err(Ended::Oracle)?)
            }
        };
        if data.bytes() <= self.most_bytes {
            self.kept.borrow_mut().push((source, Rc::clone(&data)));
        }
        Ok(data)
    }

    fn make_room(&self, bytes: usize) {
        let mut kept = self.kept.borrow_mut();
        while !kept.is_empty() && kept.iter().map(|(_, data)| data.bytes()).sum::<usize>() + bytes > self.most_bytes {
            kept.remove(0);
        }
    }
}

/// Returns how many bytes of memory the host has available, if it reports that.
fn free_memory() -> Option<usize> {
    let said = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = said.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::compute::Compute;
    use crate::ops;

    #[test]
    fn repeated_data_is_cached_until_its_memory_is_needed() {
        let op = ops::find("attention").unwrap();
        let dims: Dims = [("B", 1), ("H", 1), ("Sq", 16), ("Sk", 16), ("D", 16), ("CAUSAL", 0)]
            .map(|(name, size)| (name.to_owned(), size))
            .into();
        let problem = Problem { op, dims: &dims, dtype: Dtype::F16, compute: Compute::Dtype };
        let one = Data::new(&problem, 1e9, 1).unwrap().bytes();
        // Room for two, and for one more output, which is not kept here.
        let stock = Stock::of(one * 2 + one / 3);
        let [first, second] = [1, 2].map(|seed| stock.data(&problem, 1e9, seed).unwrap());
        assert!(Rc::ptr_eq(&first, &stock.data(&problem, 1e9, 1).unwrap()));
        assert!(!Rc::ptr_eq(&first, &stock.data(&problem, 1e8, 1).unwrap()), "fewer rows are another oracle");
        assert!(Rc::ptr_eq(&first, &stock.data(&problem, 1e9, 1).unwrap()), "it was used after the second one");
        assert!(!Rc::ptr_eq(&second, &stock.data(&problem, 1e9, 2).unwrap()));
        let none = Stock::of(one - 1);
        let [first, again] = [(); 2].map(|()| none.data(&problem, 1e9, 1).unwrap());
        assert!(!Rc::ptr_eq(&first, &again), "too large to be kept");
    }
}
