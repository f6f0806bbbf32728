//! Finds the branches that only select values: whichever way they go, no memory is accessed and nothing is synchronised until
//! their paths meet again.
//!
//! The condition of such a branch keeps no access within bounds. It decides an address only where a value that one of its
//! paths computes does.

use std::collections::HashMap;
use std::ops::Range;

use super::statement::Instruction;

/// Instructions that do nothing but compute their results.
const COMPUTING: [&str; 48] = [
    "phi", "mov", "cvt", "cvta", "selp", "slct", "set", "setp", "add", "sub", "mul", "mad", "fma", "div", "rem", "abs",
    "neg", "min", "max", "and", "or", "xor", "not", "cnot", "lop3", "shl", "shr", "shf", "prmt", "bfe", "bfi", "bfind",
    "brev", "clz", "popc", "dp2a", "dp4a", "copysign", "testp", "ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos",
    "tanh", "fns",
];

/// A branch that only selects values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Selection {
    /// The place of the branch among the instructions.
    pub branch: usize,
    /// The places of the instructions up to where all paths have met. Some of them may run whichever way the branch goes.
    pub between: Range<usize>,
}

/// Returns whether an instruction does nothing but compute its result.
pub(super) fn computes(instruction: &Instruction<'_>) -> bool {
    COMPUTING.contains(&instruction.name())
}

/// Finds these branches. `labels`: the places of the instructions that follow each label, in order.
pub(super) fn selections(instructions: &[&Instruction<'_>], labels: &HashMap<&str, Vec<usize>>) -> Vec<Selection> {
    let is_conditional = |place: &usize| instructions[*place].name() == "bra" && !instructions[*place].guard.is_empty();
    let branches = (0..instructions.len()).filter(is_conditional);
    branches.filter_map(|branch| Some(Selection { branch, between: between(instructions, labels, branch)? })).collect()
}

/// Returns the places from a branch to where its paths have met. None if it leads back, or if there is something else than
/// computing on the way.
fn between(
    instructions: &[&Instruction<'_>],
    labels: &HashMap<&str, Vec<usize>>,
    branch: usize,
) -> Option<Range<usize>> {
    let target = |place: usize| {
        let label = instructions[place].operands.last()?;
        // A label of a scope may stand again in another one. One before the branch may lead back, and the last one encloses the
        // others.
        let places = labels.get(label)?;
        places.iter().all(|to| *to > place).then(|| places.last().copied()).flatten()
    };
    let (mut end, mut place) = (target(branch)?, branch + 1);
    while place < end {
        match instructions[place] {
            other if other.name() == "bra" => end = end.max(target(place)?),
            other if computes(other) => {}
            _ => return None,
        }
        place += 1;
    }
    Some(branch + 1..end)
}

#[cfg(test)]
mod tests {
    use super::super::statement::pieces;
    use super::*;

    fn found(ptx: &str) -> Vec<(usize, Range<usize>)> {
        let pieces = pieces(ptx);
        let (mut instructions, mut labels) = (Vec::new(), HashMap::<&str, Vec<usize>>::new());
        for piece in &pieces {
            if let Some(label) = piece.text().strip_suffix(':') {
                labels.entry(label).or_default().push(instructions.len());
            }
            instructions.extend(piece.instruction());
        }
        let found = selections(&instructions, &labels);
        found.into_iter().map(|Selection { branch, between }| (branch, between)).collect()
    }

    #[test]
    fn a_branch_around_computations_only_selects_a_value() {
        assert_eq!(found("@%p1 bra $L; mov.f32 %f1, %f2; $L: ret;"), [(0, 1..2)]);
        assert_eq!(
            found("@%p1 bra $A; bra.uni $B; $A: mov.f32 %f1, %f2; bra.uni $C; $B: neg.f32 %f1, %f2; $C: ret;"),
            [(0, 1..5)]
        );
    }

    #[test]
    fn a_branch_around_anything_else_does_more() {
        let around = |what: &str| found(&format!("@%p1 bra $L; {what} $L: ret;"));
        let others =
            ["st.global.f32 [%rd1], %f1;", "ld.shared.f32 %f1, [%r1];", "bar.sync 0;", "ret;", "bra.uni $END;"];
        assert!(others.iter().all(|what| around(what).is_empty()));
        assert!(found("$L: add.f32 %f1, %f1, %f2; @%p1 bra $L; ret;").is_empty(), "a loop");
        assert!(around("$M: add.f32 %f1, %f1, %f2; @%p2 bra $M;").is_empty(), "a loop on one of its paths");
    }
}
