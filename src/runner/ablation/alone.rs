//! Which instructions can be removed while others of their kind stay, and which of their lines are worth a time.

use super::lines::Group;
use super::statement::Instruction;
use crate::domain::code::ablation::{Ablation, Removed};

/// The least share of the time that a kind of instruction costs, for its lines to be timed.
const MIN_SHARE: f64 = 0.05;

/// The most kinds of instructions whose lines are timed.
const MAX_KINDS: usize = 2;

/// The most lines of a kind that are timed.
const MAX_LINES: usize = 3;

/// Returns whether an instruction can be removed while others of its kind stay.
pub(super) fn can_go(instruction: &Instruction<'_>) -> bool {
    match instruction.name() {
        // What stands in its place would use registers into which other products are still being added.
        "wgmma" => false,
        // The threads of a barrier that some warps skip may arrive at it in several places.
        "bar" | "barrier" => instruction.has("sync") && instruction.operands == ["0"],
        _ => true,
    }
}

/// Returns which groups of instructions to time alone, by the places of their kinds in a list, and by their places among the groups
/// of their kind. The kinds come in decreasing order of their cost. `divisible` tells of each kind whether a part of it can be removed.
pub(super) fn to_time(
    ablations: &[Ablation],
    groups: &[Vec<Group>],
    divisible: &[bool],
    control_ns: f64,
) -> Vec<(usize, usize)> {
    let cost = |at: &usize| {
        let ns = *ablations[*at].time_ns.as_ref().ok()?;
        Some(1.0 - ns / control_ns).filter(|share| *share >= MIN_SHARE)
    };
    let can_be =
        |at: &usize| Removed::KINDS.contains(&ablations[*at].removed) && divisible[*at] && groups[*at].len() > 1;
    let kinds = (0..ablations.len()).filter(can_be).filter_map(|at| Some((at, cost(&at)?)));
    let mut kinds: Vec<(usize, f64)> = kinds.collect();
    kinds.sort_by(|a, b| b.1.total_cmp(&a.1));
    let lines = |(at, _): (usize, f64)| (0..groups[at].len().min(MAX_LINES)).map(move |line| (at, line));
    kinds.into_iter().take(MAX_KINDS).flat_map(lines).collect()
}

#[cfg(test)]
mod tests {
    use super::super::statement::pieces;
    use super::*;
    use crate::domain::code::ablation::SourceLine;

    fn alone(text: &str) -> bool {
        pieces(text).iter().filter_map(|piece| piece.instruction()).all(can_go)
    }

    #[test]
    fn what_belongs_together_stays_together() {
        assert!(alone("ld.global.f32 %f1, [%rd1]; mma.sync.aligned.m16n8k16 {%f1}, {%r1}, {%r2}, {%f1}; bar.sync 0;"));
        assert!(!alone("wgmma.mma_async.sync.aligned.m64n8k16 {%f1}, %rd1, %rd2, p, 1, 1;"));
        assert!(!alone("bar.sync 1, 128;") && !alone("bar.arrive 1, 128;") && !alone("barrier.sync %r1;"));
    }

    #[test]
    fn the_lines_of_the_most_expensive_kinds_are_timed() {
        let groups = |lines: u32| -> Vec<Group> {
            let line = |line| SourceLine { line, text: String::new(), places: 1, time_ns: None };
            (1..=lines).map(|at| Group { line: line(at), numbers: vec![at as usize] }).collect()
        };
        let kinds = [
            (Removed::Nothing, 100.0, 0, true),
            (Removed::GlobalLoads, 60.0, 2, true),
            (Removed::SharedLoads, 50.0, 9, true),
            (Removed::Barriers, 10.0, 1, true),
            (Removed::TensorProducts, 20.0, 3, false),
            (Removed::Shuffles, 96.0, 3, true),
            (Removed::Arithmetic, 95.0, 2, true),
            (Removed::SpecialFunctions, 94.0, 2, true),
            (Removed::AllKindsAndWaits, 10.0, 3, true),
        ];
        let ablation = |(removed, ns, ..): &(Removed, f64, u32, bool)| Ablation {
            removed: *removed,
            places: 9,
            diverting: 0,
            kept: 0,
            time_ns: Ok(*ns),
            lines: Vec::new(),
        };
        let mut ablations: Vec<Ablation> = kinds.iter().map(ablation).collect();
        let all: Vec<Vec<Group>> = kinds.iter().map(|kind| groups(kind.2)).collect();
        let divisible: Vec<bool> = kinds.iter().map(|kind| kind.3).collect();
        let timed = |ablations: &[Ablation]| to_time(ablations, &all, &divisible, 100.0);
        let shared = (0..3).map(|line| (2, line));
        let loads = [(1, 0), (1, 1)];
        assert_eq!(timed(&ablations), shared.chain(loads).collect::<Vec<_>>());
        ablations[2].time_ns = Err("it crashes".to_owned());
        let functions = [(7, 0), (7, 1)];
        assert_eq!(timed(&ablations), [loads, functions].concat());
    }
}
