//! Prints a kernel in its lowered form, one instruction per line.

use std::fmt;

use super::visit::{File, Role};
use super::{
    AT_EXIT, Address, BulkOp, CONSTANT, Constant, FALSE, Instruction, Kernel, MbarrierOp, Mods, NONE, NotModelled, Op,
    Round, Slot, TRUE, Ty,
};

/// Prints the kernel. `r` are slots of the 32-bit file, `w` of the 64-bit file, `p` predicates. Destinations come
/// before `<-`.
impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {} r, {} w, {} p", self.name, self.slots32, self.slots64, self.predicates)?;
        if let Some(NotModelled { line, instruction }) = &self.not_modelled {
            writeln!(f, "not modelled: {instruction} on line {line}")?;
        }
        for (index, instruction) in self.instructions.iter().enumerate() {
            writeln!(f, "{index:>4}  {}", self.disassemble(instruction))?;
        }
        Ok(())
    }
}

impl Kernel {
    /// Returns one of the kernel's instructions in a readable form.
    pub fn disassemble(&self, instruction: &Instruction) -> String {
        let mut text = String::new();
        if instruction.guard != TRUE || instruction.guard_negated {
            let sign = if instruction.guard_negated { "!" } else { "" };
            text = format!("@{sign}{} ", self.operand(instruction.guard, File::Predicate));
        }
        text += &mnemonic(&instruction.op);
        let (mut destinations, mut sources) = (String::new(), String::new());
        instruction.op.clone().visit_operands(&mut |slot, file, role| {
            if *slot != NONE {
                let list = if role == Role::Read { &mut sources } else { &mut destinations };
                *list += " ";
                *list += &self.operand(*slot, file);
            }
        });
        text += &destinations;
        if !destinations.is_empty() {
            text += " <-";
        }
        text += &sources;
        if let Some(Address { offset, .. }) = address(&instruction.op).filter(|address| address.offset != 0) {
            text += &format!(" {offset:+}");
        }
        if matches!(instruction.op, Op::Branch { .. } if instruction.guard != TRUE)
            || matches!(instruction.op, Op::BranchIndexed { .. })
        {
            text += &match instruction.reconverge {
                AT_EXIT => " meet at exit".to_owned(),
                meet => format!(" meet {meet}"),
            };
        }
        text
    }

    fn operand(&self, slot: Slot, file: File) -> String {
        let constants = match file {
            _ if slot < CONSTANT => {
                let letter = ['r', 'w', 'p'][file as usize];
                return format!("{letter}{slot}");
            }
            File::Predicate if slot == FALSE => return "false".to_owned(),
            File::Predicate => return "true".to_owned(),
            File::Narrow => &self.constants32,
            File::Wide => &self.constants64,
        };
        match constants.get(usize::from(slot - CONSTANT)) {
            Some(Constant::Bits(bits)) if *bits < 1 << 16 => format!("{bits}"),
            Some(Constant::Bits(bits)) => format!("{bits:#x}"),
            Some(Constant::Param { offset, bytes, signed }) => {
                format!("param[{offset}..{}{}]", offset + u32::from(*bytes), if *signed { " signed" } else { "" })
            }
            Some(Constant::Special(special)) => format!("{special:?}"),
            Some(constant) => format!("{constant:?}"),
            None => format!("?{slot}"),
        }
    }
}

/// Returns the address of an operation that has one.
fn address(op: &Op) -> Option<Address> {
    match op {
        Op::Ld { addr, .. }
        | Op::St { addr, .. }
        | Op::Atom { addr, .. }
        | Op::LdMatrix { addr, .. }
        | Op::StMatrix { addr, .. }
        | Op::CpAsyncMbarrierArrive { addr, .. }
        | Op::Mbarrier { addr, .. } => Some(*addr),
        _ => None,
    }
}

/// Returns the name of an operation, including its modifiers.
fn mnemonic(op: &Op) -> String {
    match op {
        Op::Mov { ty, .. } => format!("mov.{}", name(*ty)),
        Op::Special { which, .. } => format!("special.{which:?}"),
        Op::Pack { part_bits, .. } => format!("pack.b{part_bits}"),
        Op::Unpack { part_bits, .. } => format!("unpack.b{part_bits}"),
        Op::Unary { op, ty, mods, .. } => arithmetic(&format!("{op:?}"), *ty, mods),
        Op::Binary { op, ty, mods, .. } => arithmetic(&format!("{op:?}"), *ty, mods),
        Op::Ternary { op, ty, mods, .. } => arithmetic(&format!("{op:?}"), *ty, mods),
        Op::Bfi { ty, .. } => format!("bfi.{}", name(*ty)),
        Op::Carry { subtract, ty, .. } => format!("{}.carry.{}", if *subtract { "sub" } else { "add" }, name(*ty)),
        Op::MadCarry { high, ty, .. } => format!("mad.{}.carry.{}", if *high { "hi" } else { "lo" }, name(*ty)),
        Op::Setp { cmp, ty, combine, .. } => comparison("setp", cmp, combine, &name(*ty)),
        Op::Set { cmp, ty, d_ty, combine, .. } => {
            comparison("set", cmp, combine, &format!("{}.{}", name(*d_ty), name(*ty)))
        }
        Op::Selp { ty, .. } => format!("selp.{}", name(*ty)),
        Op::Slct { ty, c_ty, .. } => format!("slct.{}.{}", name(*ty), name(*c_ty)),
        Op::Pred { op, .. } => format!("{op:?}.pred").to_lowercase(),
        Op::Cvt { from, to, mods, .. } => format!("cvt{}.{}.{}", modifiers(mods), name(*to), name(*from)),
        _ => memory(op),
    }
}

fn memory(op: &Op) -> String {
    match op {
        Op::IsSpace { space, .. } => format!("isspacep.{space:?}").to_lowercase(),
        Op::Ld { space, ty, count, .. } => access("ld", &format!("{space:?}"), *ty, *count),
        Op::St { space, ty, count, .. } => access("st", &format!("{space:?}"), *ty, *count),
        Op::Atom { space, op, ty, .. } => format!("atom.{space:?}.{op:?}.{}", name(*ty)).to_lowercase(),
        Op::LdMatrix { count, transpose, .. } => format!("ldmatrix.x{count}{}", flag(*transpose, ".trans")),
        Op::StMatrix { count, transpose, .. } => format!("stmatrix.x{count}{}", flag(*transpose, ".trans")),
        Op::CpAsync { bytes, .. } => format!("cp.async.{bytes}"),
        Op::CpAsyncCommit => "cp.async.commit".to_owned(),
        Op::CpAsyncWait { groups } => format!("cp.async.wait {groups:?}"),
        Op::CpAsyncMbarrierArrive { noinc, .. } => format!("cp.async.mbarrier.arrive{}", flag(*noinc, ".noinc")),
        Op::Mbarrier { op, .. } => mbarrier(op),
        Op::Bulk { op, .. } => match op {
            BulkOp::GlobalToShared { .. } => "bulk.shared.global".to_owned(),
            BulkOp::SharedToGlobal => "bulk.global.shared".to_owned(),
            BulkOp::SharedToShared { .. } => "bulk.shared.shared".to_owned(),
            BulkOp::ReduceToGlobal { op, ty } => format!("bulk.reduce.{op:?}.{}", name(*ty)).to_lowercase(),
            BulkOp::Prefetch => "bulk.prefetch".to_owned(),
        },
        Op::BulkTensor(copy) => {
            let way = if copy.prefetch {
                "prefetch"
            } else if copy.load {
                "load"
            } else {
                "store"
            };
            let reduce = copy.reduce.map_or(String::new(), |op| format!(".{op:?}").to_lowercase());
            format!("bulk.tensor.{}d.{way}{reduce}", copy.dims)
        }
        Op::BulkCommit => "bulk.commit".to_owned(),
        Op::BulkWait { groups, read } => format!("bulk.wait{} {groups}", flag(*read, ".read")),
        Op::Mapa { .. } => "mapa".to_owned(),
        Op::GetCtaRank { .. } => "getctarank".to_owned(),
        _ => warp(op),
    }
}

fn warp(op: &Op) -> String {
    match op {
        Op::Shfl { mode, .. } => format!("shfl.{mode:?}").to_lowercase(),
        Op::Vote { mode, p_negated, .. } => format!("vote.{mode:?}{}", flag(*p_negated, ".not")).to_lowercase(),
        Op::Match { all, ty, .. } => format!("match.{}.{}", if *all { "all" } else { "any" }, name(*ty)),
        Op::Redux { op, ty, .. } => format!("redux.{op:?}.{}", name(*ty)).to_lowercase(),
        Op::ActiveMask { .. } => "activemask".to_owned(),
        Op::Elect { .. } => "elect".to_owned(),
        Op::Bar { op, aligned, .. } => format!("bar.{op:?}{}", flag(*aligned, ".aligned")).to_lowercase(),
        Op::WarpSync { .. } => "warpsync".to_owned(),
        Op::ClusterArrive => "cluster.arrive".to_owned(),
        Op::ClusterWait => "cluster.wait".to_owned(),
        Op::Fence { .. } => "fence".to_owned(),
        Op::Branch { target, .. } => format!("bra {target}"),
        Op::BranchIndexed { targets, .. } => format!("brx {targets:?}"),
        Op::Exit => "exit".to_owned(),
        Op::Trap => "trap".to_owned(),
        Op::TooDeep { .. } => "too_deep".to_owned(),
        Op::Assert { .. } => "assert".to_owned(),
        Op::Print { .. } => "print".to_owned(),
        Op::Malloc { .. } => "malloc".to_owned(),
        Op::Free { .. } => "free".to_owned(),
        Op::Nop => "nop".to_owned(),
        Op::Mma(mma) => {
            let (a, b, c) = (name(mma.a_ty), name(mma.b_ty), name(mma.c_ty));
            format!("mma.m{}n{}k{}.{c}.{a}.{b}", mma.m, mma.n, mma.k)
        }
        Op::Wgmma(wgmma) => {
            let transposes = format!("{}{}", flag(wgmma.transpose_a, ".ta"), flag(wgmma.transpose_b, ".tb"));
            let signs = format!("{}{}", flag(wgmma.negate_a, ".na"), flag(wgmma.negate_b, ".nb"));
            let (d, a, b) = (name(wgmma.d_ty), name(wgmma.a_ty), name(wgmma.b_ty));
            let types = if a == b { format!("{d}.{a}") } else { format!("{d}.{a}.{b}") };
            format!("wgmma.n{}k{}.{types}{signs}{transposes}", wgmma.n, wgmma.k)
        }
        Op::GridWait => "griddepcontrol.wait".to_owned(),
        Op::WgmmaFence => "wgmma.fence".to_owned(),
        Op::WgmmaCommit => "wgmma.commit".to_owned(),
        Op::WgmmaWait { groups } => format!("wgmma.wait {groups}"),
        _ => "?".to_owned(),
    }
}

fn mbarrier(op: &MbarrierOp) -> String {
    let name = match op {
        MbarrierOp::Init { .. } => "init",
        MbarrierOp::Inval => "inval",
        MbarrierOp::Arrive { drop: true, .. } => "arrive_drop",
        MbarrierOp::Arrive { .. } => "arrive",
        MbarrierOp::ExpectTx { .. } => "expect_tx",
        MbarrierOp::CompleteTx { .. } => "complete_tx",
        MbarrierOp::WaitState { blocking: false, .. } => "test_wait",
        MbarrierOp::WaitState { .. } => "try_wait",
        MbarrierOp::WaitParity { blocking: false, .. } => "test_wait.parity",
        MbarrierOp::WaitParity { .. } => "try_wait.parity",
        MbarrierOp::PendingCount { .. } => "pending_count",
    };
    format!("mbarrier.{name}")
}

fn name(ty: Ty) -> String {
    format!("{ty:?}").to_lowercase()
}

fn flag(set: bool, text: &'static str) -> &'static str {
    if set { text } else { "" }
}

fn access(verb: &str, space: &str, ty: Ty, count: u8) -> String {
    let vector = if count > 1 { format!(".v{count}") } else { String::new() };
    format!("{verb}.{}{vector}.{}", space.to_lowercase(), name(ty))
}

fn arithmetic(op: &str, ty: Ty, mods: &Mods) -> String {
    format!("{}{}.{}", op.to_lowercase(), modifiers(mods), name(ty))
}

fn comparison(verb: &str, cmp: &super::Cmp, combine: &Option<super::Bool>, types: &str) -> String {
    let combine = combine.map_or(String::new(), |op| format!(".{op:?}"));
    format!("{verb}.{cmp:?}{combine}.{types}").to_lowercase()
}

fn modifiers(mods: &Mods) -> String {
    let round = match mods.round {
        Round::Nearest => "",
        Round::NearestAway => ".rna",
        Round::Zero => ".rz",
        Round::Down => ".rm",
        Round::Up => ".rp",
        Round::IntegerNearest => ".rni",
        Round::IntegerZero => ".rzi",
        Round::IntegerDown => ".rmi",
        Round::IntegerUp => ".rpi",
    };
    let flags = [
        (mods.full, ".full"),
        (mods.approx && !mods.full, ".approx"),
        (mods.ftz, ".ftz"),
        (mods.sat, ".sat"),
        (mods.relu, ".relu"),
        (mods.nan, ".nan"),
    ];
    let flags: String = flags.into_iter().map(|(set, text)| flag(set, text)).collect();
    format!("{round}{flags}")
}
