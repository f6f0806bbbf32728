//! The operations. Names follow the PTX ISA (version 9.0, section 9.7).

use super::Slot;

/// Element type of an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Ty {
    Pred,
    B8,
    U8,
    S8,
    B16,
    U16,
    S16,
    B32,
    U32,
    S32,
    B64,
    U64,
    S64,
    B128,
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    Tf32,
    F32,
    F64,
    E4m3x2,
    E5m2x2,
}

impl Ty {
    /// Returns its width in bits (1 for predicates).
    pub fn bits(self) -> u32 {
        match self {
            Self::Pred => 1,
            Self::B8 | Self::U8 | Self::S8 => 8,
            Self::B16 | Self::U16 | Self::S16 | Self::F16 | Self::Bf16 | Self::E4m3x2 | Self::E5m2x2 => 16,
            Self::B32 | Self::U32 | Self::S32 | Self::F16x2 | Self::Bf16x2 | Self::Tf32 | Self::F32 => 32,
            Self::B64 | Self::U64 | Self::S64 | Self::F64 => 64,
            Self::B128 => 128,
        }
    }

    /// Returns its width in bytes (1 for predicates).
    pub fn bytes(self) -> u32 {
        self.bits().div_ceil(8)
    }

    /// Returns whether it is a signed integer.
    pub fn is_signed(self) -> bool {
        matches!(self, Self::S8 | Self::S16 | Self::S32 | Self::S64)
    }

    /// Returns whether it is a floating-point type, packed ones included.
    pub fn is_float(self) -> bool {
        matches!(
            self,
            Self::F16
                | Self::F16x2
                | Self::Bf16
                | Self::Bf16x2
                | Self::Tf32
                | Self::F32
                | Self::F64
                | Self::E4m3x2
                | Self::E5m2x2
        )
    }
}

/// Rounding of a floating-point operation or conversion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Round {
    /// `.rn`, to nearest even: the default of arithmetic.
    #[default]
    Nearest,
    /// `.rna`, to nearest, ties away from zero.
    NearestAway,
    /// `.rz`, towards zero.
    Zero,
    /// `.rm`, towards minus infinity.
    Down,
    /// `.rp`, towards plus infinity.
    Up,
    /// `.rni`, to the nearest integer, ties to even.
    IntegerNearest,
    /// `.rzi`, to an integer towards zero.
    IntegerZero,
    /// `.rmi`, to an integer towards minus infinity.
    IntegerDown,
    /// `.rpi`, to an integer towards plus infinity.
    IntegerUp,
}

/// Modifiers of arithmetic and conversions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Mods {
    /// `.ftz`: subnormal inputs and results become zero of the same sign.
    pub ftz: bool,
    /// `.sat` (floats to [0, 1]; integers to their range) or `.satfinite`.
    pub sat: bool,
    /// `.relu`: negative results and NaN become 0.
    pub relu: bool,
    /// `.NaN`: min and max give NaN if an operand is.
    pub nan: bool,
    /// `.approx` (also `.full`): the fast form with PTX's stated error.
    pub approx: bool,
    /// Rounding.
    pub round: Round,
}

/// Operations with one source. The result of `Popc`, `Clz` and `Bfind` is always 32-bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Unary {
    Neg,
    Abs,
    Not,
    Cnot,
    Popc,
    Clz,
    /// `bfind`; with `shift` it gives the shift amount (`.shiftamt`).
    Bfind {
        shift: bool,
    },
    Brev,
    Sqrt,
    Rcp,
    Rsqrt,
    Ex2,
    Lg2,
    Sin,
    Cos,
    Tanh,
}

/// Operations with two sources of the same type (`Shl`, `Shr`: the second is a 32-bit count; `MulWide`: the result is
/// twice as wide).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Binary {
    Add,
    Sub,
    /// Floating-point product, or the low half of an integer one.
    Mul,
    MulHi,
    MulWide,
    Div,
    Rem,
    Min,
    Max,
    And,
    Or,
    Xor,
    Shl,
    Shr,
    /// The value of `b` with the sign of `a`.
    Copysign,
    /// `mul24.lo`
    Mul24,
}

/// Operations with three sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Ternary {
    /// `mad.lo`; for floats `fma` (and `mad`).
    Mad,
    MadHi,
    /// `mad.wide`: `c` and the result are twice as wide.
    MadWide,
    Sad,
    /// `prmt.b32`, default mode.
    Prmt,
    /// `bfe`: `b` is the position and `c` the length, 32-bit.
    Bfe,
    /// `shf.l`/`shf.r` of the pair (b:a) by `c`.
    Funnel {
        left: bool,
        wrap: bool,
    },
    /// `lop3.b32` with its truth table.
    Lop3(u8),
    /// `dp4a` with the signedness of `a` and `b`.
    Dp4a {
        a_signed: bool,
        b_signed: bool,
    },
    /// Three-input `min`/`max` of floats (sm_100) or `add` is not here: unsupported.
    /// `mad24.lo`
    Mad24,
}

/// Comparison of `setp` and `set`. The unordered ones (`equ` ...) are true if an operand is NaN; `Lo` to `Hs` are the
/// unsigned forms and are lowered to `Lt` to `Ge` of an unsigned type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Cmp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Equ,
    Neu,
    Ltu,
    Leu,
    Gtu,
    Geu,
    /// Both are numbers.
    Num,
    /// One is NaN.
    Nan,
}

/// Boolean operation on predicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Bool {
    And,
    Or,
    Xor,
}

/// Where an address points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Space {
    Generic,
    Global,
    Shared,
    /// `.shared::cluster`: an address that may point into another block of the cluster.
    SharedCluster,
    Local,
    Const,
    Param,
}

/// An address: a base with a constant offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Address {
    /// The base register or constant.
    pub base: Slot,
    /// Whether `base` is in the 64-bit file; shared addresses may be 32-bit.
    pub wide: bool,
    /// Bytes added to the base.
    pub offset: i32,
}

/// Special registers that differ from thread to thread, or in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum LaneSpecial {
    /// `%tid.{x,y,z}`
    ThreadIndex(u8),
    LaneId,
    WarpId,
    LaneMaskEq,
    LaneMaskLe,
    LaneMaskLt,
    LaneMaskGe,
    LaneMaskGt,
    /// `%clock`, 32-bit: warp instructions issued so far by this warp (this machine has no cycles).
    Clock,
    /// `%clock64`
    Clock64,
    /// `%globaltimer`: as `%clock64`.
    GlobalTimer,
}

/// Operation of an atomic or a reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum AtomOp {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    Exch,
    Cas,
    Inc,
    Dec,
}

/// Mode of `shfl.sync`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ShflMode {
    Up,
    Down,
    Bfly,
    Idx,
}

/// Mode of `vote.sync`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum VoteMode {
    All,
    Any,
    Uni,
    Ballot,
}

/// What a block barrier instruction does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum BarOp {
    Sync,
    Arrive,
    /// `bar.red.popc`: `d` is 32-bit.
    RedPopc,
    /// `bar.red.and`/`.or`: `d` is a predicate.
    Red(Bool),
}

/// A matrix multiply-accumulate of a warp, `mma.sync.aligned.row.col`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mma {
    /// Rows of A and D: 16 (8 for f64 `m8n8k4`).
    pub m: u8,
    /// Columns of B and D: 8.
    pub n: u8,
    /// Columns of A and rows of B.
    pub k: u8,
    /// Type of A's elements: [`Ty::F16`], [`Ty::Bf16`], [`Ty::Tf32`], [`Ty::S8`], [`Ty::U8`] or [`Ty::F64`].
    pub a_ty: Ty,
    /// Type of B's elements.
    pub b_ty: Ty,
    /// Type of C and D: [`Ty::F32`], [`Ty::F16`], [`Ty::S32`] or [`Ty::F64`].
    pub c_ty: Ty,
    /// Registers of A (at most 4), [`super::NONE`] beyond.
    pub a: [Slot; 4],
    /// Registers of B (at most 2).
    pub b: [Slot; 2],
    /// Registers of C.
    pub c: [Slot; 4],
    /// Registers of D.
    pub d: [Slot; 4],
}

/// What an mbarrier instruction does. `addr` is in shared memory, possibly of another block of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum MbarrierOp {
    Init {
        count: Slot,
    },
    Inval,
    /// `mbarrier.arrive{.drop}{.expect_tx}`: `state` is a 64-bit destination or NONE; `count` 32-bit or NONE for 1;
    /// `tx` the expected bytes or NONE.
    Arrive {
        state: Slot,
        count: Slot,
        tx: Slot,
        drop: bool,
    },
    ExpectTx {
        tx: Slot,
    },
    CompleteTx {
        tx: Slot,
    },
    /// `mbarrier.test_wait`/`try_wait` with the 64-bit state of an arrive.
    WaitState {
        d: Slot,
        state: Slot,
        blocking: bool,
    },
    /// `mbarrier.test_wait.parity`/`try_wait.parity`.
    WaitParity {
        d: Slot,
        parity: Slot,
        blocking: bool,
    },
    /// `mbarrier.pending_count`: `state` to `d`; the address is unused.
    PendingCount {
        d: Slot,
        state: Slot,
    },
}

/// What a bulk copy (`cp.async.bulk`) moves and who is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum BulkOp {
    /// Global to shared of this or (`.multicast::cluster`) several blocks; completes on `mbarrier`.
    GlobalToShared { mbarrier: Address, multicast: Slot },
    /// Shared to global; completes by bulk groups.
    SharedToGlobal,
    /// Shared to shared of another block of the cluster; completes on the remote `mbarrier`.
    SharedToShared { mbarrier: Address },
    /// `cp.reduce.async.bulk` shared to global.
    ReduceToGlobal { op: AtomOp, ty: Ty },
    /// `cp.async.bulk.prefetch.L2`
    Prefetch,
}

/// A tensor copy (`cp.async.bulk.tensor`), tiled mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BulkTensor {
    /// Whether global memory is the source (else the destination).
    pub load: bool,
    /// Whether it only prefetches to L2.
    pub prefetch: bool,
    /// Operation of `cp.reduce.async.bulk.tensor`, if it reduces.
    pub reduce: Option<AtomOp>,
    /// Dimensions, 1 to 5.
    pub dims: u8,
    /// Generic address of the tensor map.
    pub map: Address,
    /// Coordinates, innermost first.
    pub coordinates: [Slot; 5],
    /// Shared address.
    pub shared: Address,
    /// The mbarrier, for loads.
    pub mbarrier: Address,
    /// Mask of the blocks that receive it, 16-bit, or NONE.
    pub multicast: Slot,
}

/// `wgmma.mma_async.sync.aligned`: D (m64 x n, f32 or f16) = A B + D.
#[derive(Debug, Clone, PartialEq)]
pub struct Wgmma {
    /// Columns of B and D, 8 to 256.
    pub n: u16,
    /// Columns of A and rows of B: 16 for 16-bit types, 8 for tf32, 32 for 8-bit.
    pub k: u8,
    /// Type of A's and B's elements.
    pub ab_ty: Ty,
    /// Type of D.
    pub d_ty: Ty,
    /// Registers of D, also the accumulator.
    pub d: Box<[Slot]>,
    /// A from 4 registers, or NONE in the first when from `a_desc`.
    pub a: [Slot; 4],
    /// Matrix descriptor of A, 64-bit, or NONE.
    pub a_desc: Slot,
    /// Matrix descriptor of B, 64-bit.
    pub b_desc: Slot,
    /// Predicate `scale-d`: false means D = A B.
    pub scale_d: Slot,
    /// Whether A is negated.
    pub negate_a: bool,
    /// Whether B is negated.
    pub negate_b: bool,
    /// Whether A in shared memory is column-major.
    pub transpose_a: bool,
    /// Whether B in shared memory is row-major (`N` contiguous).
    pub transpose_b: bool,
}

/// One operation.
///
/// Unless said otherwise operands are slots of the file that `ty` implies: predicates for [`Ty::Pred`], the 64-bit file
/// for 64-bit types, the 32-bit file for the rest. `d` is the destination.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum Op {
    /// Copies, predicates too. `cvta`, `ld.param` of a constant offset and moves of addresses become this or an `Add`.
    Mov {
        ty: Ty,
        d: Slot,
        a: Slot,
    },
    /// Reads a special register; `wide` if `d` is 64-bit.
    Special {
        d: Slot,
        wide: bool,
        which: LaneSpecial,
    },
    /// `mov.b32 d, {lo, hi}`, `mov.b64 d, {..}`: packs `parts` of `part_bits` (8, 16 or 32) each, NONE beyond the last.
    Pack {
        wide: bool,
        part_bits: u8,
        d: Slot,
        parts: [Slot; 4],
    },
    /// The reverse; NONE for parts that nobody wants.
    Unpack {
        wide: bool,
        part_bits: u8,
        parts: [Slot; 4],
        a: Slot,
    },
    Unary {
        op: Unary,
        ty: Ty,
        mods: Mods,
        d: Slot,
        a: Slot,
    },
    Binary {
        op: Binary,
        ty: Ty,
        mods: Mods,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Ternary {
        op: Ternary,
        ty: Ty,
        mods: Mods,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    /// `bfi`: inserts the low `c_len` bits of `a` into `b` at `pos`.
    Bfi {
        ty: Ty,
        d: Slot,
        a: Slot,
        b: Slot,
        pos: Slot,
        len: Slot,
    },
    /// `add.cc`, `addc`, `sub.cc`, `subc`: carry in and out are predicates (NONE if not used). `subtract` borrows.
    Carry {
        subtract: bool,
        ty: Ty,
        d: Slot,
        a: Slot,
        b: Slot,
        carry_in: Slot,
        carry_out: Slot,
    },
    /// `mad.lo.cc`/`madc` and `.hi` forms.
    MadCarry {
        high: bool,
        ty: Ty,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
        carry_in: Slot,
        carry_out: Slot,
    },
    /// `setp`: `d = (a cmp b) bool c`, `d_not = !(a cmp b) bool c`; either destination may be NONE. Without a boolean
    /// operation `combine` is None. For the f16x2 form, `d` and `d_not` are the low and the high half's result.
    Setp {
        cmp: Cmp,
        ty: Ty,
        ftz: bool,
        d: Slot,
        d_not: Slot,
        a: Slot,
        b: Slot,
        combine: Option<Bool>,
        c: Slot,
        c_negated: bool,
    },
    /// `set`: all ones (or 1.0 when `d_ty` is a float) where the comparison holds.
    Set {
        cmp: Cmp,
        ty: Ty,
        d_ty: Ty,
        ftz: bool,
        d: Slot,
        a: Slot,
        b: Slot,
        combine: Option<Bool>,
        c: Slot,
        c_negated: bool,
    },
    /// `d = p ? a : b`
    Selp {
        ty: Ty,
        d: Slot,
        a: Slot,
        b: Slot,
        p: Slot,
    },
    /// `slct`: `d = c >= 0 ? a : b`; `c_ty` is S32 or F32.
    Slct {
        ty: Ty,
        c_ty: Ty,
        ftz: bool,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    /// Boolean operation on predicates. `not.pred` is `xor` with TRUE.
    Pred {
        op: Bool,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    /// `cvt`; `a` may hold more bits than `from`, it is truncated to it. `b` is the second source of packed conversions (`cvt.rn.f16x2.f32 d, a, b`: `a` is the high half), else NONE.
    Cvt {
        from: Ty,
        to: Ty,
        mods: Mods,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    /// `isspacep`
    IsSpace {
        space: Space,
        d: Slot,
        a: Slot,
    },
    /// Loads `count` (1, 2, 4 or 8) elements into `d`. A narrow integer is extended to its slot as `ty` says.
    Ld {
        space: Space,
        ty: Ty,
        count: u8,
        read_only: bool,
        volatile: bool,
        d: [Slot; 8],
        addr: Address,
    },
    /// Stores `count` elements.
    St {
        space: Space,
        ty: Ty,
        count: u8,
        volatile: bool,
        s: [Slot; 8],
        addr: Address,
    },
    /// `atom` (or `red`, when `d` is NONE); `c` is the new value of `cas`, else NONE.
    Atom {
        space: Space,
        op: AtomOp,
        ty: Ty,
        d: Slot,
        addr: Address,
        b: Slot,
        c: Slot,
    },
    /// `shfl.sync`; `p` is a predicate or NONE.
    Shfl {
        mode: ShflMode,
        d: Slot,
        p: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
        members: Slot,
    },
    /// `vote.sync`; `d` is 32-bit for `Ballot`, else a predicate.
    Vote {
        mode: VoteMode,
        d: Slot,
        p: Slot,
        p_negated: bool,
        members: Slot,
    },
    /// `match.any.sync` / `match.all.sync`; `d` is 32-bit, `p` a predicate or NONE.
    Match {
        all: bool,
        ty: Ty,
        d: Slot,
        p: Slot,
        a: Slot,
        members: Slot,
    },
    /// `redux.sync`
    Redux {
        op: AtomOp,
        ty: Ty,
        d: Slot,
        a: Slot,
        members: Slot,
    },
    /// `activemask.b32`
    ActiveMask {
        d: Slot,
    },
    /// `elect.sync d|p, members`
    Elect {
        d: Slot,
        p: Slot,
        members: Slot,
    },
    /// `bar`/`barrier{.cta}`: `id` and `threads` are 32-bit, `threads` NONE for the whole block. `d` and `p` only for
    /// reductions.
    Bar {
        op: BarOp,
        aligned: bool,
        id: Slot,
        threads: Slot,
        d: Slot,
        p: Slot,
        p_negated: bool,
    },
    /// `bar.warp.sync members`
    WarpSync {
        members: Slot,
    },
    /// `barrier.cluster.arrive`
    ClusterArrive,
    /// `barrier.cluster.wait`
    ClusterWait,
    /// `membar`, `fence` and their proxies.
    Fence,
    /// `bra`, to an instruction's index. Taken in the lanes where the guard holds.
    Branch {
        target: u32,
        uniform: bool,
    },
    /// `brx.idx`
    BranchIndexed {
        index: Slot,
        targets: Box<[u32]>,
    },
    /// `ret` of the kernel, or `exit`.
    Exit,
    /// `trap`
    Trap,
    /// Does nothing here: `nanosleep`, `prefetch`, `brkpt`, `pmevent`, `griddepcontrol`, `discard`, `setmaxnreg`.
    Nop,
    /// `ldmatrix.sync.aligned.m8n8.x{count}{.trans}.shared.b16`
    LdMatrix {
        count: u8,
        transpose: bool,
        d: [Slot; 4],
        addr: Address,
    },
    /// `stmatrix`
    StMatrix {
        count: u8,
        transpose: bool,
        s: [Slot; 4],
        addr: Address,
    },
    Mma(Box<Mma>),
    /// `cp.async`: copies `bytes` (4, 8 or 16); of the source only `source_bytes` (32-bit; NONE for all) are read, the rest
    /// is zero. A true `ignore` predicate (or NONE) means zero-fill all.
    CpAsync {
        bytes: u8,
        source_bytes: Slot,
        ignore: Slot,
        shared: Address,
        global: Address,
    },
    CpAsyncCommit,
    /// `cp.async.wait_group groups`, or `wait_all` with None.
    CpAsyncWait {
        groups: Option<u32>,
    },
    /// `cp.async.mbarrier.arrive{.noinc}`
    CpAsyncMbarrierArrive {
        addr: Address,
        noinc: bool,
    },
    Mbarrier {
        op: MbarrierOp,
        addr: Address,
    },
    /// `cp.async.bulk`: `bytes` is 32-bit.
    Bulk {
        op: BulkOp,
        to: Address,
        from: Address,
        bytes: Slot,
    },
    BulkTensor(Box<BulkTensor>),
    BulkCommit,
    /// `cp.async.bulk.wait_group{.read} groups`
    BulkWait {
        groups: u32,
        read: bool,
    },
    /// `mapa{.shared::cluster}`: the address of the same variable in block `rank` of the cluster. `wide`: 64-bit `d` and
    /// `a`. `generic`: `a` is a generic address.
    Mapa {
        wide: bool,
        generic: bool,
        d: Slot,
        a: Slot,
        rank: Slot,
    },
    /// `getctarank`
    GetCtaRank {
        wide: bool,
        generic: bool,
        d: Slot,
        a: Slot,
    },
    Wgmma(Box<Wgmma>),
    WgmmaFence,
    WgmmaCommit,
    WgmmaWait {
        groups: u32,
    },
}
