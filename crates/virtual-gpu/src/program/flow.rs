//! Control flow: basic blocks, and where the paths of a branch reconverge.

use super::{AT_EXIT, Instruction, Op, TRUE};

/// A basic block: instructions entered only at the first and left only at the last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Block {
    /// First instruction.
    pub start: usize,
    /// One past the last instruction.
    pub end: usize,
    /// Blocks that may follow.
    pub successors: Vec<usize>,
    /// Its way out of the kernel, if any.
    leaves: Leaves,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaves {
    No,
    Traps,
    Exits,
}

/// Splits instructions, which must not fall off their end, into basic blocks.
pub(crate) fn blocks(instructions: &[Instruction]) -> Vec<Block> {
    let mut leader = vec![false; instructions.len() + 1];
    leader[0] = true;
    for (index, instruction) in instructions.iter().enumerate() {
        let targets = targets(&instruction.op);
        if !targets.is_empty() || matches!(instruction.op, Op::Exit | Op::Trap | Op::Branch { .. }) {
            leader[index + 1] = true;
        }
        for &target in targets {
            leader[target as usize] = true;
        }
    }
    let starts: Vec<usize> = (0..instructions.len()).filter(|&index| leader[index]).collect();
    let mut block_of = vec![0; instructions.len()];
    for (block, &start) in starts.iter().enumerate() {
        let end = starts.get(block + 1).copied().unwrap_or(instructions.len());
        block_of[start..end].fill(block);
    }
    (0..starts.len()).map(|block| self::block(instructions, &starts, &block_of, block)).collect()
}

fn block(instructions: &[Instruction], starts: &[usize], block_of: &[usize], block: usize) -> Block {
    let end = starts.get(block + 1).copied().unwrap_or(instructions.len());
    let last = &instructions[end - 1];
    let ends = matches!(last.op, Op::Exit | Op::Trap | Op::Branch { .. } | Op::BranchIndexed { .. });
    let falls = !ends || is_guarded(last);
    let mut successors: Vec<usize> = targets(&last.op).iter().map(|&target| block_of[target as usize]).collect();
    if falls && end < instructions.len() {
        successors.push(block + 1);
    }
    successors.sort_unstable();
    successors.dedup();
    let leaves = match last.op {
        Op::Exit => Leaves::Exits,
        Op::Trap => Leaves::Traps,
        _ => Leaves::No,
    };
    Block { start: starts[block], end, successors, leaves }
}

/// Returns the possible targets of a branch.
fn targets(op: &Op) -> &[u32] {
    match op {
        Op::Branch { target, .. } => std::slice::from_ref(target),
        Op::BranchIndexed { targets, .. } => targets,
        _ => &[],
    }
}

/// Returns whether an instruction has a guard.
pub(crate) fn is_guarded(instruction: &Instruction) -> bool {
    instruction.guard != TRUE || instruction.guard_negated
}

/// Fills in [`Instruction::reconverge`] of every branch that may diverge.
///
/// Lanes that leave the kernel never arrive anywhere, so a path into an early exit does not count. After `if (b)
/// return;` the remaining lanes reconverge at once, and the leaving lanes run to their end first.
pub(crate) fn reconvergence(instructions: &mut [Instruction], blocks: &[Block]) {
    let graph = Graph::new(instructions, blocks);
    let meets = graph.post_dominators();
    for (index, block) in blocks.iter().enumerate() {
        let last = &mut instructions[block.end - 1];
        let diverges =
            matches!(last.op, Op::Branch { .. } if is_guarded(last)) || matches!(last.op, Op::BranchIndexed { .. });
        if diverges {
            last.reconverge = meets[index].map_or(AT_EXIT, |meet| blocks[meet].start as u32);
        }
    }
}

/// The flow graph with only the exits that count.
struct Graph {
    /// Successors within the same phase.
    successors: Vec<Vec<usize>>,
    /// Whether the block's way out of the kernel counts.
    exits: Vec<bool>,
}

impl Graph {
    fn new(instructions: &[Instruction], blocks: &[Block]) -> Self {
        // A block that only exits is itself the exit.
        let is_exit = |block: &Block| {
            let first = &instructions[block.start];
            matches!(first.op, Op::Exit) && !is_guarded(first)
        };
        let mut predecessors = vec![Vec::new(); blocks.len()];
        let mut leaves = Vec::with_capacity(blocks.len());
        for (index, block) in blocks.iter().enumerate() {
            let mut way = block.leaves;
            for &successor in &block.successors {
                if is_exit(&blocks[successor]) {
                    way = Leaves::Exits;
                } else {
                    predecessors[successor].push(index);
                }
            }
            leaves.push(way);
        }
        let phases = Phases::new(&predecessors, &leaves);
        let same = |from: usize, to: usize| phases.of[from] == phases.of[to];
        let successors = blocks
            .iter()
            .enumerate()
            .map(|(index, block)| {
                let inner = block.successors.iter().copied();
                inner.filter(|&successor| !is_exit(&blocks[successor]) && same(index, successor)).collect()
            })
            .collect();
        Self { successors, exits: phases.is_root }
    }

    /// Returns the immediate post-dominator of every block, None for the exit.
    ///
    /// Cooper, Harvey, Kennedy: A Simple, Fast Dominance Algorithm, on the reversed graph.
    fn post_dominators(&self) -> Vec<Option<usize>> {
        let count = self.successors.len();
        let exit = count;
        let order = self.reverse_post_order();
        let mut rank = vec![usize::MAX; count + 1];
        for (position, &block) in order.iter().enumerate() {
            rank[block] = position;
        }
        let mut meets: Vec<Option<usize>> = vec![None; count + 1];
        meets[exit] = Some(exit);
        let mut changed = true;
        while changed {
            changed = false;
            for &block in &order[1..] {
                let ways = self.successors[block].iter().copied().chain(self.exits[block].then_some(exit));
                let known = ways.filter(|&way| meets[way].is_some());
                let meet = known.reduce(|left, right| intersect(&meets, &rank, left, right));
                if meet.is_some() && meets[block] != meet {
                    meets[block] = meet;
                    changed = true;
                }
            }
        }
        meets.truncate(count);
        meets.into_iter().map(|meet| meet.filter(|&meet| meet != exit)).collect()
    }

    /// Orders the exit and all blocks. Outside loops, a block comes after its successors.
    fn reverse_post_order(&self) -> Vec<usize> {
        let count = self.successors.len();
        let mut backwards = vec![Vec::new(); count + 1];
        for (block, successors) in self.successors.iter().enumerate() {
            for &successor in successors {
                backwards[successor].push(block);
            }
            if self.exits[block] {
                backwards[count].push(block);
            }
        }
        let mut seen = vec![false; count + 1];
        let mut order = Vec::with_capacity(count + 1);
        let mut stack = vec![(count, 0)];
        seen[count] = true;
        while let Some((block, next)) = stack.last_mut() {
            if let Some(&way) = backwards[*block].get(*next) {
                *next += 1;
                if !seen[way] {
                    seen[way] = true;
                    stack.push((way, 0));
                }
            } else {
                order.push(*block);
                stack.pop();
            }
        }
        order.reverse();
        order
    }
}

fn intersect(meets: &[Option<usize>], rank: &[usize], mut left: usize, mut right: usize) -> usize {
    while left != right {
        while rank[left] > rank[right] {
            left = meets[left].unwrap_or(left);
        }
        while rank[right] > rank[left] {
            right = meets[right].unwrap_or(right);
        }
    }
    left
}

/// Groups blocks by the exit that they reach: first the main exit, then only an earlier one, last infinite loops.
struct Phases {
    of: Vec<u32>,
    is_root: Vec<bool>,
}

impl Phases {
    fn new(predecessors: &[Vec<usize>], leaves: &[Leaves]) -> Self {
        let count = predecessors.len();
        let mut phases = Self { of: vec![u32::MAX; count], is_root: vec![false; count] };
        let exits: Vec<usize> = (0..count).rev().filter(|&block| leaves[block] == Leaves::Exits).collect();
        let main = main_exit(predecessors, &exits);
        let traps = (0..count).rev().filter(|&block| leaves[block] == Leaves::Traps);
        let roots = main.into_iter().chain(exits.iter().copied()).chain(traps).chain((0..count).rev());
        let mut phase = 0;
        for root in roots {
            if phases.of[root] == u32::MAX {
                phases.is_root[root] = true;
                mark(predecessors, &mut phases.of, root, phase);
                phase += 1;
            }
        }
        phases
    }
}

/// Chooses the exit that most blocks can reach; of several, the last.
fn main_exit(predecessors: &[Vec<usize>], exits: &[usize]) -> Option<usize> {
    // Bounds the time for texts with thousands of exits.
    let looked_at = (10_000_000 / (predecessors.len() + 1)).clamp(1, 64);
    let mut best = None;
    for &exit in exits.iter().take(looked_at) {
        let mut reached = vec![u32::MAX; predecessors.len()];
        let reach = mark(predecessors, &mut reached, exit, 0);
        if best.is_none_or(|(most, _)| reach > most) {
            best = Some((reach, exit));
        }
    }
    best.map(|(_, exit)| exit)
}

/// Marks every unmarked block that can reach `root`, and counts them.
fn mark(predecessors: &[Vec<usize>], marks: &mut [u32], root: usize, phase: u32) -> usize {
    let mut stack = vec![root];
    marks[root] = phase;
    let mut count = 0;
    while let Some(block) = stack.pop() {
        count += 1;
        for &predecessor in &predecessors[block] {
            if marks[predecessor] == u32::MAX {
                marks[predecessor] = phase;
                stack.push(predecessor);
            }
        }
    }
    count
}
