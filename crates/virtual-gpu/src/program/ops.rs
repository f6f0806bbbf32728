//! The operations. Names follow the PTX ISA (version 9.0, section 9.7).

use super::Slot;
use super::access::{Address, AtomOp, BarOp, LaneSpecial, Semantics, ShflMode, Space, VoteMode};
use super::arithmetic::{Binary, Bool, Cmp, Ternary, Unary};
use super::matrix::{BulkOp, BulkTensor, MbarrierOp, Mma, Wgmma};
use super::types::{Mods, Ty};

/// One operation.
///
/// Unless stated otherwise, operands are slots of the file that `ty` implies: predicates for [`Ty::Pred`], the 64-bit
/// file for 64-bit types, the 32-bit file for the rest. `d` is the destination.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum Op {
    /// Copies a value or predicate. `cvta`, `ld.param` of a constant offset and moves of addresses become this or an
    /// `Add`.
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
    /// `mov.b32 d, {lo, hi}`, `mov.b64 d, {..}`: packs `parts` of `part_bits` (8, 16 or 32) each. Unused entries are
    /// NONE.
    Pack {
        wide: bool,
        part_bits: u8,
        d: Slot,
        parts: [Slot; 4],
    },
    /// The reverse; NONE for unused parts.
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
    /// `add.cc`, `addc`, `sub.cc`, `subc`: carry in and out are predicates (NONE if unused). `subtract` borrows.
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
    /// operation `combine` is None. For the f16x2 form, `d` and `d_not` are the results of the low and the high half.
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
    /// `set`: all ones (or 1.0 when `d_ty` is a float) where the comparison is true.
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
    /// `cvt`. If `a` holds more bits than `from`, it is truncated. `b` is the second source of packed conversions
    /// (`cvt.rn.f16x2.f32 d, a, b`: `a` is the high half), else NONE.
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
    /// Loads `count` (1, 2, 4 or 8) elements into `d`. Narrow integers are extended to their slots according to `ty`.
    Ld {
        space: Space,
        ty: Ty,
        count: u8,
        read_only: bool,
        semantics: Semantics,
        d: [Slot; 8],
        addr: Address,
    },
    /// Stores `count` elements.
    St {
        space: Space,
        ty: Ty,
        count: u8,
        semantics: Semantics,
        s: [Slot; 8],
        addr: Address,
    },
    /// `atom` (or `red`, when `d` is NONE); `c` is the new value of `cas`, else NONE.
    Atom {
        space: Space,
        semantics: Semantics,
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
    /// `bar`/`barrier{.cta}`: `id` and `threads` are 32-bit; `threads` is NONE for the whole block. Only reductions use
    /// `d` and `p`.
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
    Fence {
        /// Whether it makes writes to shared memory visible to the asynchronous proxy.
        asynchronous: bool,
        /// Whether its scope is the GPU or the system.
        wide: bool,
    },
    /// `bra`, to the index of an instruction. Lanes whose guard is true take it.
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
    /// A call of `__assertfail`: an assertion has failed. All but `line` are generic addresses of texts.
    Assert {
        message: Slot,
        file: Slot,
        line: Slot,
        function: Slot,
    },
    /// A call of `vprintf`: `d` gets the number of arguments that the format names; it may be NONE. `arguments` is the
    /// generic address of the arguments.
    Print {
        d: Slot,
        format: Slot,
        arguments: Slot,
    },
    /// A call of `malloc`: `d` gets the address of `bytes` (64-bit) bytes, or null.
    Malloc {
        d: Slot,
        bytes: Slot,
    },
    /// A call of `free`.
    Free {
        address: Slot,
    },
    /// A call of a function that is already called so often, which is not modelled.
    TooDeep {
        deepest: u32,
    },
    /// A no-op here: `nanosleep`, `prefetch`, `brkpt`, `pmevent`, `griddepcontrol.launch_dependents`, `discard`,
    /// `setmaxnreg`.
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
    /// `cp.async`: writes `bytes` (4, 8 or 16). Only `source_bytes` (32-bit; NONE for all) of the source are read; the
    /// rest is zero. A true `ignore` predicate zero-fills everything; it may be NONE.
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
    /// `mapa{.shared::cluster}`: the address of the same variable in block `rank` of the cluster. `wide`: 64-bit `d`
    /// and `a`. `generic`: `a` is a generic address.
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
    /// `griddepcontrol.wait`
    GridWait,
    WgmmaCommit,
    WgmmaWait {
        groups: u32,
    },
}
