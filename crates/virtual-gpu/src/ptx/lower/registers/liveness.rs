//! Where each virtual register holds a value that will still be read.

use crate::program::flow::Block;
use crate::program::visit::Role;
use crate::ptx::Problem;

/// Maximum bits of a set of (block, register) pairs; bounds memory for hostile texts.
const LARGEST_SETS: usize = 1 << 29;

/// The virtual registers that an instruction reads and writes.
#[derive(Debug, Default)]
pub(crate) struct Accesses {
    /// All accesses, instruction by instruction: register and role.
    pub list: Vec<(u32, Role)>,
    /// Index of each instruction's first access, plus the end.
    pub first: Vec<u32>,
    /// Whether the instruction writes its destinations before it has read all its sources.
    pub early: Vec<bool>,
}

impl Accesses {
    fn of(&self, instruction: usize) -> &[(u32, Role)] {
        &self.list[self.first[instruction] as usize..self.first[instruction + 1] as usize]
    }
}

/// Positions where a register is live, ascending and disjoint. Instruction `i` reads at `2 i` and writes at `2 i + 1`.
pub(crate) type Ranges = Vec<(u32, u32)>;

/// Returns the live ranges of each of `count` registers.
pub(crate) fn ranges(accesses: &Accesses, blocks: &[Block], count: usize) -> Result<Vec<Ranges>, Problem> {
    let sets = Sets::new(accesses, blocks, count)?;
    let mut walk = Walk { ranges: vec![Vec::new(); count], open: vec![0; count] };
    for (index, block) in blocks.iter().enumerate().rev() {
        for register in sets.live_out(block) {
            walk.open[register] = 2 * block.end as u32;
        }
        for instruction in (block.start..block.end).rev() {
            walk.instruction(accesses, instruction);
        }
        for register in sets.members(&sets.live_in, index) {
            walk.close(register, 2 * block.start as u32);
        }
    }
    for ranges in &mut walk.ranges {
        ranges.reverse();
    }
    Ok(walk.ranges)
}

/// A walk from the end of a block to its start.
struct Walk {
    /// Ranges so far, descending.
    ranges: Vec<Ranges>,
    /// End of the live range that is being walked; 0 outside of one.
    open: Vec<u32>,
}

impl Walk {
    fn instruction(&mut self, accesses: &Accesses, instruction: usize) {
        let at = 2 * instruction as u32;
        for &(register, role) in accesses.of(instruction) {
            let register = register as usize;
            match role {
                Role::Write => {
                    self.open[register] = self.open[register].max(at + 2);
                    self.close(register, if accesses.early[instruction] { at } else { at + 1 });
                }
                Role::Update => self.open[register] = self.open[register].max(at + 2),
                Role::Read => {}
            }
        }
        for &(register, role) in accesses.of(instruction) {
            if role == Role::Read {
                let end = &mut self.open[register as usize];
                *end = (*end).max(at + 1);
            }
        }
    }

    fn close(&mut self, register: usize, start: u32) {
        let end = std::mem::take(&mut self.open[register]);
        if end <= start {
            return;
        }
        match self.ranges[register].last_mut() {
            Some(later) if later.0 <= end => *later = (start.min(later.0), end.max(later.1)),
            _ => self.ranges[register].push((start, end)),
        }
    }
}

/// The registers that are live at the start of each block, among those that are live across blocks.
struct Sets {
    /// Registers that are live across blocks.
    globals: Vec<u32>,
    /// Words of one block's set.
    words: usize,
    live_in: Vec<u64>,
}

impl Sets {
    fn new(accesses: &Accesses, blocks: &[Block], count: usize) -> Result<Self, Problem> {
        let globals = globals(accesses, blocks, count);
        let words = globals.len().div_ceil(64);
        if words.saturating_mul(64).saturating_mul(blocks.len()) > LARGEST_SETS {
            return Err("a kernel with too many registers and branches".into());
        }
        let mut index_of = vec![u32::MAX; count];
        for (index, &register) in globals.iter().enumerate() {
            index_of[register as usize] = index as u32;
        }
        let mut sets = Self { globals, words, live_in: vec![0; words * blocks.len()] };
        let mut killed = vec![0; words * blocks.len()];
        for (index, block) in blocks.iter().enumerate() {
            sets.local(accesses, block, &index_of, &mut killed, index);
        }
        sets.settle(blocks, &killed);
        Ok(sets)
    }

    /// Records which registers a block reads before writing, and which it writes.
    fn local(&mut self, accesses: &Accesses, block: &Block, index_of: &[u32], killed: &mut [u64], index: usize) {
        let start = index * self.words;
        for instruction in (block.start..block.end).rev() {
            for pass in [true, false] {
                for &(register, role) in accesses.of(instruction) {
                    let bit = index_of[register as usize];
                    if bit == u32::MAX || (role == Role::Write) != pass {
                        continue;
                    }
                    let (word, mask) = (start + bit as usize / 64, 1 << (bit % 64));
                    if pass {
                        self.live_in[word] &= !mask;
                        killed[word] |= mask;
                    } else {
                        self.live_in[word] |= mask;
                    }
                }
            }
        }
    }

    fn settle(&mut self, blocks: &[Block], killed: &[u64]) {
        let mut changed = true;
        while changed {
            changed = false;
            for (index, block) in blocks.iter().enumerate().rev() {
                for &successor in &block.successors {
                    for word in 0..self.words {
                        let here = index * self.words + word;
                        let more = self.live_in[here] | (self.live_in[successor * self.words + word] & !killed[here]);
                        changed |= more != self.live_in[here];
                        self.live_in[here] = more;
                    }
                }
            }
        }
    }

    fn members<'s>(&'s self, sets: &'s [u64], block: usize) -> impl Iterator<Item = usize> + 's {
        let set = &sets[block * self.words..(block + 1) * self.words];
        set.iter().enumerate().flat_map(move |(word, &bits)| {
            bits_of(bits).map(move |bit| self.globals[word * 64 + bit as usize] as usize)
        })
    }

    fn live_out(&self, block: &Block) -> impl Iterator<Item = usize> {
        block.successors.iter().flat_map(|&successor| self.members(&self.live_in, successor))
    }
}

fn bits_of(mut bits: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = bits.trailing_zeros();
        (bits != 0).then(|| {
            bits &= bits - 1;
            bit
        })
    })
}

/// Returns the registers that some block reads before writing.
fn globals(accesses: &Accesses, blocks: &[Block], count: usize) -> Vec<u32> {
    let mut written_in = vec![usize::MAX; count];
    let mut is_global = vec![false; count];
    for (index, block) in blocks.iter().enumerate() {
        for instruction in block.start..block.end {
            for &(register, role) in accesses.of(instruction) {
                if role != Role::Write && written_in[register as usize] != index {
                    is_global[register as usize] = true;
                }
            }
            for &(register, role) in accesses.of(instruction) {
                if role == Role::Write {
                    written_in[register as usize] = index;
                }
            }
        }
    }
    (0..count as u32).filter(|&register| is_global[register as usize]).collect()
}
