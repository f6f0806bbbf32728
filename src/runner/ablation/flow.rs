//! Which instructions run one after the other, and where the names in them were declared.

use std::collections::HashMap;

use super::registers::declared;
use super::statement::{Instruction, Piece};

/// The control flow of a PTX text.
#[derive(Debug, Default)]
pub(super) struct Flow<'a> {
    /// The basic block of each piece, and the scope in which it stands.
    places: Vec<(usize, usize)>,
    /// The basic blocks from which each of them is reached.
    predecessors: Vec<Vec<usize>>,
    /// The scope around each scope. A scope is what stands between braces.
    parents: Vec<Option<usize>>,
    /// The piece that declares a register in a scope, or as many registers with this name before their number.
    registers: HashMap<(usize, &'a str), (usize, Option<u32>)>,
}

impl<'a> Flow<'a> {
    /// Analyses a text. Returns none if a branch may lead anywhere.
    pub fn of(pieces: &[Piece<'a>]) -> Option<Self> {
        let mut flow = Self { predecessors: vec![Vec::new()], parents: vec![None], ..Self::default() };
        let mut labels: HashMap<(usize, &str), usize> = HashMap::new();
        let mut scope = 0;
        for (at, piece) in pieces.iter().enumerate() {
            if let Some(label) = piece.text().strip_suffix(':') {
                flow.begin_block(true);
                labels.insert((scope, label), flow.last_block());
            }
            match piece.text() {
                "{" => {
                    flow.parents.push(Some(scope));
                    scope = flow.parents.len() - 1;
                }
                "}" => scope = flow.parents[scope].unwrap_or_default(),
                _ => {}
            }
            let declaration = piece.declaration().and_then(declared);
            let names = declaration.into_iter().flat_map(|(_, names)| names);
            flow.registers.extend(names.map(|(name, count)| ((scope, name), (at, count))));
            flow.places.push((flow.last_block(), scope));
            let Some(instruction) = piece.instruction() else { continue };
            if matches!(instruction.name(), "bra" | "brx" | "ret" | "exit" | "trap") {
                flow.begin_block(!instruction.guard.is_empty());
            }
        }
        for (at, piece) in pieces.iter().enumerate() {
            if let Some(target) = piece.instruction().and_then(target) {
                let (block, scope) = flow.places[at];
                let target = flow.scopes(scope).find_map(|scope| labels.get(&(scope, target)))?;
                flow.predecessors[*target].push(block);
            }
        }
        Some(flow)
    }

    /// Returns the basic block of a piece.
    pub fn block(&self, piece: usize) -> usize {
        self.places[piece].0
    }

    /// Returns the piece with the first instruction of each basic block. One without instructions has that of the next block.
    pub fn starts(&self, pieces: &[Piece<'a>]) -> Vec<usize> {
        let mut starts = Vec::new();
        for (at, _) in pieces.iter().enumerate().filter(|(_, piece)| piece.instruction().is_some()) {
            starts.resize(starts.len().max(self.block(at) + 1), at);
        }
        starts.resize(self.blocks(), pieces.len());
        starts
    }

    /// Returns the basic blocks from which one is reached.
    pub fn predecessors(&self, block: usize) -> &[usize] {
        &self.predecessors[block]
    }

    /// Returns how many basic blocks there are.
    pub fn blocks(&self) -> usize {
        self.predecessors.len()
    }

    /// Returns the piece that declares what is a register by this name in another piece.
    pub fn declaration(&self, piece: usize, name: &'a str) -> Option<usize> {
        let family = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let number: Option<u32> = name[family.len()..].parse().ok();
        let is_among = |count: Option<u32>| number.zip(count).is_some_and(|(number, count)| number < count);
        let find = |scope| {
            let numbered = self.registers.get(&(scope, family)).filter(|(_, count)| is_among(*count));
            self.registers.get(&(scope, name)).filter(|(_, count)| count.is_none()).or(numbered)
        };
        self.scopes(self.places[piece].1).find_map(find).map(|(at, _)| *at)
    }

    fn last_block(&self) -> usize {
        self.predecessors.len() - 1
    }

    fn begin_block(&mut self, follows_last: bool) {
        self.predecessors.push(if follows_last { vec![self.last_block()] } else { Vec::new() });
    }

    /// Returns a scope and those around it.
    fn scopes(&self, scope: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(scope), |scope| self.parents[*scope])
    }
}

/// Returns where a branch leads. It is no label if that is known only to the running kernel.
fn target<'a>(instruction: &Instruction<'a>) -> Option<&'a str> {
    matches!(instruction.name(), "bra" | "brx").then(|| instruction.operands.first().copied().unwrap_or_default())
}
