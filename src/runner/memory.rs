//! The memory of this machine: what is free, and whether the tensors of a case fit.

use crate::domain::op::{Dims, Dtype, Op, TensorSpec};
use crate::error::{Result, error};

/// How often inputs are held at once while an oracle is called: as they are drawn, and changed or in part.
const COPIES: f64 = 2.0;

/// Refuses sizes whose inputs, and this many rows of each output, do not fit into the free memory. Nothing is allocated. The
/// error is one sentence.
pub fn check(op: &dyn Op, dims: &Dims, dtype: Dtype, rows: usize) -> Result<()> {
    // Tensors have fewer elements than an f64 counts.
    let drawn = |tensor: TensorSpec| (tensor.elements() * tensor.dtype.slots() * size_of::<f32>()) as f64;
    let computed = |tensor: TensorSpec| (tensor.rows().min(rows) * tensor.row_len() * size_of::<f64>()) as f64;
    let inputs: f64 = op.inputs(dims, dtype).into_iter().map(drawn).sum();
    let outputs: f64 = op.outputs(dims, dtype).into_iter().map(computed).sum();
    let (needed, free) = (COPIES * (inputs + outputs), free().map_or(f64::INFINITY, |free| free as f64));
    match needed <= free {
        true => Ok(()),
        false => Err(error!(
            "its inputs and outputs need {:.1} GB of memory, and this machine has {:.1} GB free",
            needed / 1e9,
            free / 1e9
        )
        .hint("reduce its dimensions, or leave it out")),
    }
}

/// Returns how many bytes this process can still have, if the system reports that: what the machine has available, and what
/// its control group may have.
pub fn free() -> Option<usize> {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let number = |path: &str| read(path)?.trim().parse::<usize>().ok();
    let said = read("/proc/meminfo")?;
    let line = said.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let machine = line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()?.checked_mul(1024)?;
    // Without a limit, the file says `max`. What files take of the cache is given up when it is needed.
    let group = number("/sys/fs/cgroup/memory.max").map(|most| {
        let used = number("/sys/fs/cgroup/memory.current").unwrap_or(0);
        let cached = read("/sys/fs/cgroup/memory.stat")
            .and_then(|stat| stat.lines().find_map(|line| line.strip_prefix("file "))?.parse::<usize>().ok());
        most.saturating_sub(used.saturating_sub(cached.unwrap_or(0)))
    });
    Some(group.map_or(machine, |group| group.min(machine)))
}
