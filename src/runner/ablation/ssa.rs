//! PTX in static single assignment (SSA) form, for analyses.
//!
//! A compiler may keep the phase of a barrier in a register, and later data. The analyses treat a name as one value, so they
//! would find that this data decides something. In SSA form, each value of a register has a number, as in `%r1#7`. Where paths
//! meet on which a register has different values, an instruction named `phi` makes a new value of these. Another `phi` makes the
//! result of a conditional write follow from the value before it, or that of an instruction that changes a register in place.
//!
//! The analyses ignore the order of instructions, so a `phi` may stand anywhere. [`restore`] removes the numbers.

use std::collections::{BTreeMap, HashMap};

use super::flow::Flow;
use super::statement::{Instruction, NUMBERED, Piece, names, pieces, with_numbers};

/// How an instruction uses a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Read,
    Write,
    /// It changes the register in place, or writes it under a condition.
    Update,
}

/// A use of a register in a piece.
#[derive(Debug, Clone, Copy)]
struct Access {
    piece: usize,
    mode: Mode,
}

/// A register in a piece, whether its value is written there, and the number of the value.
type Numbered<'a> = (&'a str, bool, usize);

/// Returns a text in SSA form. If a branch may lead anywhere, this is the text itself.
pub(super) fn of(ptx: &str) -> String {
    let pieces = pieces(ptx);
    let Some(flow) = Flow::of(&pieces) else { return ptx.to_owned() };
    let starts = flow.starts(&pieces);
    let (mut numbers, mut phis, mut next) = (vec![Vec::new(); pieces.len()], HashMap::<usize, String>::new(), 0);
    for ((_, name), accesses) in accesses(&pieces, &flow) {
        let Values { of_accesses, sources, count } = Values::of(&flow, &accesses);
        for (access, value) in accesses.iter().zip(of_accesses) {
            numbers[access.piece].push((name, access.mode != Mode::Read, next + value));
        }
        for (value, sources) in sources {
            // It stands where the value begins, so that the analyses find what follows from it in a few passes.
            let at = value.checked_sub(flow.blocks()).map_or_else(|| starts[value], |write| accesses[write].piece);
            let all = std::iter::once(value).chain(sources).map(|value| format!("{name}{NUMBERED}{}", next + value));
            let phi = format!("phi {};", all.collect::<Vec<_>>().join(", "));
            phis.entry(at).or_default().push_str(&phi);
        }
        next += count;
    }
    let mut text = String::with_capacity(2 * ptx.len());
    for (at, piece) in pieces.iter().enumerate() {
        text += phis.get(&at).map_or("", String::as_str);
        match piece {
            Piece::Instruction(instruction) => text += &numbered(instruction, &numbers[at]),
            _ => text += piece.text(),
        }
    }
    text
}

/// Returns a text without the numbers of values.
pub(super) fn restore(text: &str) -> String {
    let mut parts = text.split(NUMBERED);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.trim_start_matches(|c: char| c.is_ascii_digit()))
}

/// Returns the uses of each declared register, by its declaration and its name, in the order of the text.
fn accesses<'a>(pieces: &[Piece<'a>], flow: &Flow<'a>) -> BTreeMap<(usize, &'a str), Vec<Access>> {
    let mut accesses: BTreeMap<_, Vec<Access>> = BTreeMap::new();
    for (piece, instruction) in pieces.iter().enumerate().filter_map(|(at, piece)| Some((at, piece.instruction()?))) {
        let mut add = |operand: &'a str, mode| {
            for name in names(operand) {
                if let Some(declaration) = flow.declaration(piece, name) {
                    accesses.entry((declaration, name)).or_default().push(Access { piece, mode });
                }
            }
        };
        add(instruction.guard, Mode::Read);
        instruction.operands.iter().skip(1).for_each(|operand| add(operand, Mode::Read));
        instruction.operands.iter().take(1).for_each(|operand| add(operand, mode(instruction)));
    }
    accesses
}

/// Returns how an instruction uses its first operand. What is not known to be written in any case counts as an update.
fn mode(instruction: &Instruction<'_>) -> Mode {
    let operand = instruction.operands.first().copied().unwrap_or_default();
    let is_whole = instruction.guard.is_empty() && instruction.name() != "wgmma" && !operand.contains(['(', '.']);
    match instruction.result() {
        _ if operand.contains('[') => Mode::Read,
        Some(_) if is_whole => Mode::Write,
        _ => Mode::Update,
    }
}

/// The values of a register.
#[derive(Debug, Default)]
struct Values {
    /// The value that each access reads or writes.
    of_accesses: Vec<usize>,
    /// The values that a `phi` makes, and of what.
    sources: Vec<(usize, Vec<usize>)>,
    /// One more than the highest number.
    count: usize,
}

impl Values {
    /// Finds the values of a register from its accesses.
    fn of(flow: &Flow<'_>, accesses: &[Access]) -> Self {
        if accesses.iter().filter(|access| access.mode != Mode::Read).count() < 2 {
            return Self { of_accesses: vec![0; accesses.len()], sources: Vec::new(), count: 1 };
        }
        // The value at the start of a basic block has the block's number. What is written has a number after these.
        let mut values = Self { count: flow.blocks() + accesses.len(), ..Self::default() };
        let mut ends: HashMap<usize, usize> = HashMap::new();
        let mut starts: Vec<usize> = Vec::new();
        for (at, access) in accesses.iter().enumerate() {
            let block = flow.block(access.piece);
            let before = ends.get(&block).copied().unwrap_or(block);
            let value = if access.mode == Mode::Read { before } else { flow.blocks() + at };
            if access.mode != Mode::Write && before == block {
                starts.push(block);
            }
            if access.mode == Mode::Update {
                values.sources.push((value, vec![before]));
            }
            if access.mode != Mode::Read {
                ends.insert(block, value);
            }
            values.of_accesses.push(value);
        }
        let mut is_known = vec![false; flow.blocks()];
        let mut joins = Vec::new();
        while let Some(block) = starts.pop() {
            if std::mem::replace(&mut is_known[block], true) {
                continue;
            }
            let before = flow.predecessors(block).iter();
            let sources: Vec<usize> = before.map(|before| ends.get(before).copied().unwrap_or(*before)).collect();
            starts.extend(sources.iter().filter(|source| **source < flow.blocks()));
            joins.push((block, sources));
        }
        values.join(joins);
        values
    }

    /// Adds a `phi` where paths meet. Where only one value arrives, it is the value there, too.
    fn join(&mut self, mut joins: Vec<(usize, Vec<usize>)>) {
        let mut same: Vec<usize> = (0..self.count).collect();
        let find = |same: &[usize], mut value: usize| {
            while same[value] != value {
                value = same[value];
            }
            value
        };
        loop {
            let before = joins.len();
            joins.retain(|(value, sources)| {
                let mut others = sources.iter().map(|source| find(&same, *source)).filter(|source| source != value);
                let first = others.next();
                let is_one = first.is_some_and(|first| others.all(|other| other == first));
                if is_one {
                    same[*value] = first.unwrap_or(*value);
                }
                !is_one
            });
            if joins.len() == before {
                break;
            }
        }
        self.sources.extend(joins);
        let sources = self.sources.iter_mut().flat_map(|(_, sources)| sources);
        for value in self.of_accesses.iter_mut().chain(sources) {
            *value = find(&same, *value);
        }
    }
}

/// Returns the text of an instruction with the numbers of its values.
fn numbered<'a>(instruction: &Instruction<'a>, numbers: &[Numbered<'a>]) -> String {
    let Instruction { text, guard, opcode, ref operands } = *instruction;
    let number = |name: &str, is_write| numbers.iter().find(|known| known.0 == name && known.1 == is_write);
    let with = |part, is_write| with_numbers(part, |name| number(name, is_write).map(|known| known.2));
    let first = operands.first().copied().unwrap_or_default();
    let (_, after) = text.split_at(guard.len());
    let (between, after) = after.split_once(opcode).unwrap_or_default();
    let (blanks, rest) = after.split_once(first).unwrap_or_default();
    let first = with(first, mode(instruction) != Mode::Read);
    format!("{}{between}{opcode}{blanks}{first}{}", with(guard, false), with(rest, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a kernel in SSA form, after its declarations.
    fn form(body: &str) -> String {
        let ptx = format!(".visible .entry k()\n{{\n.reg .pred %p<9>; .reg .b32 %r<9>;\n{body}\nret;\n}}\n");
        let form = of(&ptx);
        assert_eq!(restore(&without_phis(&form)), ptx);
        form.lines().skip(3).take_while(|line| *line != "ret;").collect::<Vec<_>>().join("\n")
    }

    fn without_phis(form: &str) -> String {
        let pieces = pieces(form);
        let is_phi = |piece: &&Piece<'_>| piece.instruction().is_some_and(Instruction::is_phi);
        pieces.iter().filter(|piece| !is_phi(piece)).map(Piece::text).collect()
    }

    #[test]
    fn values_have_numbers() {
        insta::assert_snapshot!(form("mov.u32 %r1, 0;\nadd.s32 %r2, %r1, 1;\nadd.s32 %r1, %r1, %r2;\nmov.u32 %r3, %r1;"), @r"
        mov.u32 %r1#2, 0;
        add.s32 %r2#7, %r1#2, 1;
        add.s32 %r1#5, %r1#2, %r2#7;
        mov.u32 %r3#8, %r1#5;
        ");
    }

    #[test]
    fn where_paths_meet_a_value_follows_from_both() {
        insta::assert_snapshot!(form("mov.u32 %r1, 0;\n@%p1 bra $L;\nmov.u32 %r1, 1;\n$L:\nmov.u32 %r2, %r1;"), @r"
        mov.u32 %r1#5, 0;
        @%p1#0 bra $L;
        mov.u32 %r1#6, 1;
        $L:
        phi %r1#3, %r1#6, %r1#5;mov.u32 %r2#8, %r1#3;
        ");
        insta::assert_snapshot!(form("mov.u32 %r1, 0;\n$B:\nadd.s32 %r1, %r1, 1;\n@%p1 bra $B;\nmov.u32 %r2, %r1;"), @r"
        mov.u32 %r1#5, 0;
        $B:
        phi %r1#2, %r1#5, %r1#7;add.s32 %r1#7, %r1#2, 1;
        @%p1#0 bra $B;
        mov.u32 %r2#9, %r1#7;
        ");
    }

    #[test]
    fn what_may_stay_of_a_value_is_a_source() {
        insta::assert_snapshot!(form("mov.u32 %r1, 0;\n@%p1 mov.u32 %r1, 1;\nmov.u32 %r2, %r1;"), @r"
        mov.u32 %r1#3, 0;
        phi %r1#4, %r1#3;@%p1#0 mov.u32 %r1#4, 1;
        mov.u32 %r2#6, %r1#4;
        ");
        insta::assert_snapshot!(form("mov.u32 %r1, 0;\nwgmma.mma_async.sync {%r1}, %r2, %r3, %p1;\nmov.u32 %r2, %r1;"), @r"
        mov.u32 %r1#3, 0;
        phi %r1#4, %r1#3;wgmma.mma_async.sync {%r1#4}, %r2#6, %r3#7, %p1#0;
        mov.u32 %r2#6, %r1#4;
        ");
        insta::assert_snapshot!(form("mov.u32 %r1, 0;\nbar.red.popc.u32 %r1, 0, %p1;\nmov.u32 %r2, %r1;"), @r"
        mov.u32 %r1#3, 0;
        phi %r1#4, %r1#3;bar.red.popc.u32 %r1#4, 0, %p1#0;
        mov.u32 %r2#6, %r1#4;
        ");
    }

    #[test]
    fn names_in_braces_are_others() {
        insta::assert_snapshot!(form("mov.u32 %r1, 0;\n{ .reg .b32 t; A:\nmov.u32 t, %tid.x; @%p1 bra A; }\n{ .reg .b32 t; A:\nmov.u32 t, %r1; @%p2 bra A; mov.u32 %r1, t; }"), @r"
        mov.u32 %r1#8, 0;
        { .reg .b32 t; A:
        mov.u32 t#11, %tid.x; @%p1#0 bra A; }
        { .reg .b32 t; A:
        mov.u32 t#12, %r1#8; @%p2#1 bra A; mov.u32 %r1#10, t#12; }
        ");
    }

    #[test]
    fn a_declaration_in_braces_leaves_similar_names_alone() {
        insta::assert_snapshot!(form(".reg .b32 t1; mov.u32 t1, 0;\n{ .reg .pred t; mov.u32 %r1, t1; }"), @r"
        .reg .b32 t1; mov.u32 t1#1, 0;
        { .reg .pred t; mov.u32 %r1#0, t1#1; }
        ");
        insta::assert_snapshot!(form("mov.u32 %r3, 0;\n{ .reg .b32 %r<3>; mov.u32 %r1, %r3; }"), @r"
        mov.u32 %r3#0, 0;
        { .reg .b32 %r<3>; mov.u32 %r1#1, %r3#0; }
        ");
    }

    #[test]
    fn a_branch_that_may_lead_anywhere_keeps_the_text() {
        let ptx = "mov.u32 %r1, 0;\nbrx.idx %r1, table;\nmov.u32 %r1, 1;";
        assert_eq!(form(ptx), ptx);
    }
}
