//! The cost of one PTX operation for a warp: its latency, its pipe and its issue slots.
//!
//! The numbers describe the machine instructions that ptxas generates, not PTX. Moves and packing vanish in register
//! allocation, a 64-bit addition is a pair with carry, a division is a sequence.

use crate::gpu::{Gpu, Latencies};
use crate::program::{Binary, Op, Space, Ternary, Ty, Unary};

/// A pipe of an SM partition. One warp instruction occupies it at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Pipe {
    /// Single-precision multiply-add; also integer multiply-add.
    Fma,
    /// Integer, logic, comparison, minimum, selection.
    Alu,
    /// Packed 16-bit floating point.
    Half,
    /// Double precision.
    Double,
    /// The special functions, and the conversions that the arithmetic pipes cannot do.
    Mufu,
    /// Loads, stores, shuffles and atomics, on their way to the unit that the four partitions share.
    Lsu,
    /// Tensor core.
    Tensor,
    /// No pipe, only the issue slot: branches, barriers and free operations.
    None,
}

impl Pipe {
    /// Number of pipes.
    pub const COUNT: usize = Self::None as usize + 1;
}

/// Cost of an operation for one warp on its partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// Cycles from the issue until a dependent instruction can issue.
    pub latency: u16,
    /// The pipe that executes it.
    pub pipe: Pipe,
    /// Cycles for which the pipe is occupied.
    pub occupancy: u8,
    /// Issue slots, one per machine instruction; 0 for an operation that vanishes.
    pub issue: u8,
}

impl Cost {
    const FREE: Self = Self::new(0, Pipe::None, 0, 0);

    const fn new(latency: u16, pipe: Pipe, occupancy: u8, issue: u8) -> Self {
        Self { latency, pipe, occupancy, issue }
    }

    /// Returns the cost of a chain of `times` such operations.
    const fn chain(self, times: u8) -> Self {
        let Self { latency, pipe, occupancy, issue } = self;
        Self::new(latency * times as u16, pipe, occupancy * times, issue * times)
    }
}

/// Returns the cost of an operation on a GPU, without conflicts and with every access in L1.
pub fn cost(op: &Op, gpu: &Gpu) -> Cost {
    let at = &gpu.latencies;
    let alu = Cost::new(at.alu, Pipe::Alu, 2, 1);
    match op {
        // A predicate move is a logic operation; register renaming does the others.
        Op::Mov { ty: Ty::Pred, .. } => alu,
        Op::Mov { .. } | Op::Pack { wide: true, .. } | Op::Unpack { wide: true, .. } => Cost::FREE,
        // Instructions mostly select the halves of their 32-bit operands themselves.
        Op::Unpack { .. } => Cost::FREE,
        Op::Pack { .. } => alu,
        Op::Special { .. } => Cost::new(at.special_register, Pipe::None, 0, 1),
        Op::Unary { op, ty, mods, .. } => unary(*op, *ty, mods.approx || mods.ftz, at),
        Op::Binary { op, ty, mods, .. } => binary(*op, *ty, mods.approx, at),
        Op::Ternary { op, ty, .. } => ternary(*op, *ty, at),
        Op::Bfi { .. } => alu.chain(2),
        Op::Carry { ty, .. } | Op::MadCarry { ty, .. } => wide(alu, *ty),
        Op::Setp { ty, .. } | Op::Set { ty, .. } => compare(*ty, at),
        Op::Selp { ty, .. } | Op::Slct { ty, .. } => wide(alu, *ty),
        Op::Pred { .. } | Op::IsSpace { .. } => alu,
        Op::Cvt { from, to, .. } => convert(*from, *to, at),
        Op::Mma(_) | Op::Wgmma(_) => tensor(op, gpu),
        _ => memory_or_control(op, at),
    }
}

fn memory_or_control(op: &Op, at: &Latencies) -> Cost {
    match op {
        Op::Ld { space, .. } => match space {
            // The access itself tells whether the memory is another block's.
            Space::Shared | Space::SharedCluster => Cost::new(at.shared, Pipe::Lsu, 1, 1),
            Space::Param | Space::Const => Cost::FREE,
            _ => Cost::new(at.l1, Pipe::Lsu, 1, 1),
        },
        Op::LdMatrix { .. } => Cost::new(at.shared, Pipe::Lsu, 1, 1),
        Op::St { .. } | Op::StMatrix { .. } | Op::CpAsync { .. } => Cost::new(at.l1, Pipe::Lsu, 1, 1),
        Op::Atom { space: Space::Shared | Space::SharedCluster, .. } => Cost::new(at.shared_atomic, Pipe::Lsu, 2, 1),
        Op::Atom { .. } => Cost::new(at.l2, Pipe::Lsu, 2, 1),
        Op::Bulk { .. } | Op::BulkTensor(_) => Cost::new(at.bulk_copy, Pipe::Lsu, 2, 1),
        Op::Mbarrier { .. } | Op::CpAsyncMbarrierArrive { .. } => Cost::new(at.shared, Pipe::Lsu, 1, 1),
        Op::Shfl { .. } | Op::Redux { .. } => Cost::new(at.shuffle, Pipe::Lsu, 1, 1),
        Op::Match { .. } => Cost::new(at.shuffle, Pipe::Lsu, 4, 1),
        Op::Vote { .. } | Op::Elect { .. } | Op::ActiveMask { .. } => Cost::new(at.vote, Pipe::Alu, 2, 1),
        Op::Bar { .. } | Op::ClusterArrive | Op::ClusterWait => Cost::new(0, Pipe::None, 0, 1),
        Op::Branch { .. } | Op::BranchIndexed { .. } => Cost::new(0, Pipe::None, 0, at.branch_issue),
        Op::Fence { .. } | Op::WarpSync { .. } | Op::Exit => Cost::new(0, Pipe::None, 0, 1),
        _ => Cost::FREE,
    }
}

/// Returns the cost of a 64-bit operation: two of its 32-bit ones.
fn wide(cost: Cost, ty: Ty) -> Cost {
    if ty.bits() == 64 { cost.chain(2) } else { cost }
}

fn float(ty: Ty, at: &Latencies) -> Cost {
    match ty {
        Ty::F64 => Cost::new(at.double, Pipe::Double, at.double_occupancy, 1),
        Ty::F16 | Ty::F16x2 | Ty::Bf16 | Ty::Bf16x2 => Cost::new(at.half, Pipe::Half, 1, 1),
        _ => Cost::new(at.fma, Pipe::Fma, at.fma_occupancy, 1),
    }
}

fn compare(ty: Ty, at: &Latencies) -> Cost {
    let cost = match ty {
        Ty::F64 => Cost::new(at.double, Pipe::Double, at.double_occupancy, 1),
        _ => Cost::new(at.alu, Pipe::Alu, 2, 1),
    };
    // A predicate is ready later than a register.
    Cost { latency: cost.latency + at.predicate, ..if ty.is_float() { cost } else { wide(cost, ty) } }
}

fn special(ty: Ty, fast: bool, at: &Latencies) -> Cost {
    let one = Cost::new(at.mufu, Pipe::Mufu, 8, 1);
    match ty {
        // Each half is an instruction of its own: 16.0 cycles a warp for two (H200, 2026-11-29, docs/measuring/cluster.cu).
        Ty::F16x2 | Ty::Bf16x2 => Cost { latency: at.mufu + 8, ..one.chain(2) },
        // Newton steps in double precision around a single-precision start.
        Ty::F64 => Cost { latency: at.mufu + 8 * at.double, issue: 12, ..one },
        // Without `.ftz`, subnormal inputs are scaled: a comparison and two multiplications.
        _ if fast => one,
        _ => Cost { latency: at.mufu + 2 * at.fma, issue: 3, ..one },
    }
}

fn unary(op: Unary, ty: Ty, fast: bool, at: &Latencies) -> Cost {
    match op {
        // Signs and absolute values are modifiers of the operands of floating-point instructions.
        Unary::Neg | Unary::Abs if ty.is_float() => Cost::FREE,
        Unary::Neg | Unary::Abs | Unary::Not | Unary::Cnot => wide(Cost::new(at.alu, Pipe::Alu, 2, 1), ty),
        Unary::Popc | Unary::Clz | Unary::Bfind { .. } | Unary::Brev => Cost::new(at.mufu, Pipe::Mufu, 8, 1),
        Unary::Sqrt | Unary::Rcp | Unary::Rsqrt if !fast => {
            // The rounded forms: a start, two Newton steps, and a check for the slow path.
            Cost { latency: at.mufu + 5 * at.fma, issue: 8, ..special(ty, true, at) }
        }
        _ => special(ty, fast, at),
    }
}

fn binary(op: Binary, ty: Ty, approx: bool, at: &Latencies) -> Cost {
    let alu = Cost::new(at.alu, Pipe::Alu, 2, 1);
    let multiply = Cost::new(at.fma, Pipe::Fma, 2, 1);
    match op {
        Binary::Min | Binary::Max => wide(alu, ty),
        // A shift of an address: the following addition shifts its operand (LEA).
        Binary::Shl if ty.bits() == 64 => Cost::FREE,
        Binary::Div if ty.is_float() => {
            let start = special(ty, true, at);
            if approx {
                Cost { latency: at.mufu + at.fma, issue: 2, ..start }
            } else {
                Cost { latency: at.mufu + 6 * at.fma, issue: 10, ..start }
            }
        }
        // A single-precision reciprocal and corrections. For 64 bits it is a call and takes at least twice as long.
        Binary::Div | Binary::Rem if ty.bits() == 64 => Cost::new(6 * at.mufu, Pipe::Mufu, 16, 70),
        Binary::Div | Binary::Rem => Cost::new(2 * at.mufu + 12 * at.alu, Pipe::Mufu, 24, 18),
        _ if ty.is_float() => float(ty, at),
        Binary::Mul | Binary::MulHi if ty.bits() == 64 => multiply.chain(3),
        Binary::Mul | Binary::MulHi | Binary::MulWide | Binary::Mul24 => multiply,
        _ => wide(alu, ty),
    }
}

fn ternary(op: Ternary, ty: Ty, at: &Latencies) -> Cost {
    let multiply = Cost::new(at.fma, Pipe::Fma, 2, 1);
    match op {
        Ternary::Mad if ty.is_float() => float(ty, at),
        Ternary::Mad | Ternary::MadHi if ty.bits() == 64 => multiply.chain(3),
        Ternary::Mad | Ternary::MadHi | Ternary::MadWide | Ternary::Mad24 | Ternary::Dp4a { .. } => multiply,
        Ternary::Sad | Ternary::Bfe => wide(Cost::new(at.alu, Pipe::Alu, 2, 1).chain(2), ty),
        _ => wide(Cost::new(at.alu, Pipe::Alu, 2, 1), ty),
    }
}

fn convert(from: Ty, to: Ty, at: &Latencies) -> Cost {
    let float16 = |ty: Ty| matches!(ty, Ty::F16 | Ty::Bf16 | Ty::F16x2 | Ty::Bf16x2);
    match (from, to) {
        (Ty::F64, _) | (_, Ty::F64) => Cost::new(at.mufu, Pipe::Mufu, 8, 1),
        // Widening is an addition of zero that takes its operand in half precision.
        (a, Ty::F32) if float16(a) => Cost::new(at.half, Pipe::Half, 2, 1),
        (Ty::F32, b) if float16(b) => Cost::new(at.alu, Pipe::Alu, 2, 1),
        (Ty::F32, Ty::Tf32 | Ty::F32) => Cost::new(at.alu, Pipe::Alu, 2, 1),
        (a, b) if a.is_float() != b.is_float() || a.is_float() => Cost::new(at.mufu, Pipe::Mufu, 8, 1),
        // Between integers: a sign extension or nothing.
        (a, b) if a.bits() < b.bits() && a.is_signed() => Cost::new(at.alu, Pipe::Alu, 2, 1),
        (a, b) if a.bits() < b.bits() || b.bits() >= 32 => Cost::FREE,
        _ => Cost::new(at.alu, Pipe::Alu, 2, 1),
    }
}

fn tensor(op: &Op, gpu: &Gpu) -> Cost {
    let (multiplications, ty, rate) = match op {
        Op::Mma(mma) => {
            let products = u32::from(mma.m) * u32::from(mma.n) * u32::from(mma.k);
            (products, mma.a_ty, gpu.rates.warp_tensor_fraction)
        }
        // Four warps share a wgmma; each does a quarter on its own partition.
        Op::Wgmma(wgmma) => (16 * u32::from(wgmma.n) * u32::from(wgmma.k), wgmma.a_ty, 1.0),
        _ => return Cost::FREE,
    };
    let per_cycle = gpu.rates.tensor_flop(ty) / 2.0 / 4.0 * rate;
    let cycles = (f64::from(multiplications) / per_cycle).ceil().clamp(1.0, 255.0) as u8;
    let start = if ty == Ty::F64 { gpu.latencies.tensor_double } else { gpu.latencies.tensor };
    Cost::new(start + u16::from(cycles), Pipe::Tensor, cycles, 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Mma, Mods, NONE};

    fn mma(gpu: &Gpu, ty: Ty, k: u8) -> Cost {
        let (a, b, c) = ([0; 4], [0, 0], [0; 4]);
        let shape = Mma { m: 16, n: 8, k, a_ty: ty, b_ty: ty, c_ty: Ty::F32, a, b, c, d: c };
        cost(&Op::Mma(Box::new(shape)), gpu)
    }

    #[test]
    fn a_matrix_product_reads_published_data() {
        assert_eq!(mma(&Gpu::a100(), Ty::F16, 16), Cost::new(25, Pipe::Tensor, 8, 1));
        assert_eq!(mma(&Gpu::h200(), Ty::F16, 16), Cost::new(33, Pipe::Tensor, 7, 1));
        // Eight bits take half as long as sixteen.
        assert_eq!(mma(&Gpu::h200(), Ty::E4m3, 32), Cost::new(33, Pipe::Tensor, 7, 1));
    }

    #[test]
    fn wide_integers_are_pairs_and_shifts_of_addresses_are_free() {
        let binary = |op, ty| cost(&Op::Binary { op, ty, mods: Mods::default(), d: 0, a: 1, b: 2 }, &Gpu::h200());
        assert_eq!(binary(Binary::Add, Ty::U32), Cost::new(4, Pipe::Alu, 2, 1));
        assert_eq!(binary(Binary::Add, Ty::U64), Cost::new(8, Pipe::Alu, 4, 2));
        assert_eq!(binary(Binary::Shl, Ty::B64), Cost::FREE);
        assert!(binary(Binary::Div, Ty::U64).issue > binary(Binary::Div, Ty::U32).issue);
    }

    #[test]
    fn fast_functions_are_one_instruction_and_exact_ones_several() {
        let ex2 = |ty, ftz| {
            let mods = Mods { ftz, ..Mods::default() };
            cost(&Op::Unary { op: Unary::Ex2, ty, mods, d: 0, a: 1 }, &Gpu::h200())
        };
        assert_eq!((ex2(Ty::F32, true).issue, ex2(Ty::F32, false).issue), (1, 3));
        let of_two = ex2(Ty::F16x2, false);
        assert_eq!((of_two.issue, of_two.occupancy), (2, 2 * ex2(Ty::F32, true).occupancy), "halves save nothing");
    }

    #[test]
    fn half_of_the_multiply_add_lanes_take_twice_as_long() {
        let fma = Op::Ternary { op: Ternary::Mad, ty: Ty::F32, mods: Mods::default(), d: 0, a: 1, b: 2, c: NONE };
        assert_eq!((cost(&fma, &Gpu::h200()).occupancy, cost(&fma, &Gpu::a100()).occupancy), (1, 2));
    }
}
