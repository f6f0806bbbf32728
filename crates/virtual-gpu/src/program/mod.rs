//! The compact, typed form of a PTX module. The loader makes it and the executor runs it.
//!
//! A kernel's virtual registers are allocated to *slots* of three files: 32-bit lanes, 64-bit lanes and predicates (one
//! bit per lane). Types of at most 32 bits are zero-extended in 32-bit lanes. Immediates, parameters, addresses of
//! variables and special registers that are uniform in a block are *constants*. They share the operand type with slots,
//! so an operand is always one index.

mod access;
mod arithmetic;
mod display;
pub(crate) mod flow;
mod matrix;
mod ops;
mod types;
pub mod visit;
mod visit_memory;

pub use access::*;
pub use arithmetic::*;
pub use matrix::*;
pub use ops::*;
pub use types::*;

use crate::lines::{SourceLine, source_line};

/// An operand. Indices below [`CONSTANT`] are slots of the register file that the type implies. Others are constants of
/// the same width.
pub type Slot = u16;

/// First index of a constant.
pub const CONSTANT: Slot = 0x8000;

/// No operand: an unused destination (`_`) or an absent optional source.
pub const NONE: Slot = 0xffff;

/// The predicate constant that is true in every lane.
pub const TRUE: Slot = CONSTANT;

/// The predicate constant that is false in every lane.
pub const FALSE: Slot = CONSTANT + 1;

/// Marks reconvergence at the exit of the kernel.
pub const AT_EXIT: u32 = u32::MAX;

/// Generic address of offset 0 of a block's own shared memory. Shared-space addresses start at 0.
pub const SHARED_WINDOW: u64 = 0x7100_0000_0000;

/// Generic address of offset 0 of a thread's local memory. Local-space addresses start at 0.
pub const LOCAL_WINDOW: u64 = 0x7200_0000_0000;

/// Generic address of offset 0 of the parameter block. Parameters have only generic addresses, so those of
/// [`Space::Param`] are generic, too.
pub const PARAM_WINDOW: u64 = 0x7300_0000_0000;

/// A loaded PTX module.
#[derive(Debug, Clone, PartialEq)]
pub struct Module {
    /// File name given to the loader, for messages.
    pub file: String,
    /// The PTX text, for messages.
    pub text: String,
    /// PTX ISA version, such as (9, 0).
    pub version: (u32, u32),
    /// The target, such as `sm_90a`.
    pub target: String,
    /// Variables in global and constant memory.
    pub globals: Vec<Global>,
    /// The entry functions, in order, with those that cannot be executed ([`Kernel::not_modelled`]).
    pub kernels: Vec<Kernel>,
}

impl Module {
    /// Returns the line of the CUDA source from which the instruction on a line of the PTX comes, if the PTX has lines.
    pub fn source_line(&self, line: u32) -> Option<SourceLine> {
        source_line(&self.text, line)
    }

    /// Returns the kernel called `name`.
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|kernel| kernel.name == name)
    }
}

/// A variable in global or constant memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Global {
    /// Its name in the PTX.
    pub name: String,
    /// Alignment in bytes.
    pub align: u32,
    /// Size in bytes.
    pub bytes: u64,
    /// Its initial contents, zero-padded to `bytes`.
    pub initial: Vec<u8>,
    /// Offsets in `initial` that hold the address of another global: (offset, index in [`Module::globals`], addend).
    pub addresses: Vec<(u64, usize, i64)>,
}

/// An entry function.
#[derive(Debug, Clone, PartialEq)]
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// Its parameters, in order.
    pub params: Vec<Param>,
    /// Bytes of all parameters, with padding for alignment.
    pub param_bytes: u32,
    /// The instructions. A branch target is an index into them.
    pub instructions: Vec<Instruction>,
    /// Constants behind 32-bit operands.
    pub constants32: Vec<Constant>,
    /// Constants behind 64-bit operands.
    pub constants64: Vec<Constant>,
    /// Slots of 32-bit lanes.
    pub slots32: u16,
    /// Slots of 64-bit lanes.
    pub slots64: u16,
    /// Slots of predicates.
    pub predicates: u16,
    /// Bytes of static shared memory, laid out from offset 0. Dynamic shared memory follows, aligned to
    /// `dynamic_align`.
    pub static_shared_bytes: u32,
    /// Alignment of the dynamic shared memory (`.extern .shared`), at least 16.
    pub dynamic_align: u32,
    /// Bytes of local memory per thread.
    pub local_bytes: u32,
    /// Maximum threads of a block (`.maxntid`), if stated.
    pub max_threads: Option<u32>,
    /// Exact block dimensions (`.reqntid`), if stated.
    pub required_block: Option<[u32; 3]>,
    /// Exact cluster dimensions (`.reqnctapercluster`), if stated.
    pub required_cluster: Option<[u32; 3]>,
    /// Where the addresses come from to which it may write in global memory; None if they may be any.
    pub writes_to: Option<Vec<Origin>>,
    /// Whether blocks may synchronise with each other through global memory.
    pub talks: bool,
    /// The first instruction that the loader does not know. Such a kernel has no instructions and cannot be launched.
    pub not_modelled: Option<NotModelled>,
}

/// Where an address in global memory comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The eight bytes at this offset of the parameter block.
    Param(u32),
    /// The tensor map at this offset of the parameter block.
    TensorMap(u32),
    /// A variable of the module: index in [`Module::globals`].
    Global(u32),
}

/// An instruction that is not modelled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotModelled {
    /// Line in the PTX text.
    pub line: u32,
    /// The opcode with its modifiers. For a call, the function follows.
    pub instruction: String,
}

impl Kernel {
    /// Returns whether blocks of the kernel may wait for each other at the address that a cooperative launch gives
    /// them.
    pub fn uses_grid_workspace(&self) -> bool {
        let is_workspace =
            |constant: &Constant| matches!(constant, Constant::Special(BlockSpecial::GridWorkspace { .. }));
        self.constants32.iter().chain(&self.constants64).any(is_workspace)
    }

    /// Returns whether the kernel allocates memory from the heap of the device.
    pub fn uses_heap(&self) -> bool {
        self.instructions.iter().any(|instruction| matches!(instruction.op, Op::Malloc { .. }))
    }

    /// Returns whether the kernel has dynamic shared memory.
    pub fn uses_dynamic_shared(&self) -> bool {
        let constants = self.constants32.iter().chain(&self.constants64);
        constants.into_iter().any(|constant| matches!(constant, Constant::DynamicShared(_)))
    }
}

/// A parameter of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Param {
    /// Its name in the PTX.
    pub name: String,
    /// Offset in the parameter block, in bytes.
    pub offset: u32,
    /// Size in bytes.
    pub bytes: u32,
    /// Alignment in bytes.
    pub align: u32,
}

/// A value that is the same in all lanes of a warp, known at launch or per block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Constant {
    /// A literal, as zero-extended bits.
    Bits(u64),
    /// Bytes of a parameter, read from the parameter block.
    Param {
        /// Offset in the parameter block.
        offset: u32,
        /// Bytes to read, at most 8. Zero-extended to the operand, or sign-extended when `signed`.
        bytes: u8,
        /// Whether to sign-extend.
        signed: bool,
    },
    /// The generic address of the parameter block ([`PARAM_WINDOW`]) plus an offset, for `cvta.param` and `mov` of a
    /// parameter's name.
    ParamAddress(u32),
    /// The address of a global plus an addend: index in [`Module::globals`].
    Global(u32, i32),
    /// An address in shared space (without [`SHARED_WINDOW`]): offset of a static shared variable plus addend.
    Shared(u32),
    /// An address in shared space (without [`SHARED_WINDOW`]): offset from the start of the dynamic shared memory.
    DynamicShared(u32),
    /// An address in local space (without [`LOCAL_WINDOW`]): offset in the thread's local memory.
    Local(u32),
    /// A special register that is uniform in a block.
    Special(BlockSpecial),
}

/// Special registers that are uniform in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BlockSpecial {
    /// `%ntid.{x,y,z}`
    BlockDim(u8),
    /// `%ctaid.{x,y,z}`
    BlockIndex(u8),
    /// `%nctaid.{x,y,z}`
    GridDim(u8),
    /// `%clusterid.{x,y,z}`
    ClusterIndex(u8),
    /// `%nclusterid.{x,y,z}`
    ClusterGridDim(u8),
    /// `%cluster_ctaid.{x,y,z}`
    ClusterBlockIndex(u8),
    /// `%cluster_nctaid.{x,y,z}`
    ClusterDim(u8),
    /// `%cluster_ctarank`
    ClusterRank,
    /// `%cluster_nctarank`
    ClusterSize,
    /// `%smid`: the block's index modulo the number of multiprocessors, an arbitrary choice
    Multiprocessor,
    /// `%nsmid`
    Multiprocessors,
    /// `%nwarpid`
    Warps,
    /// `%gridid`
    GridId,
    /// `%dynamic_smem_size`
    DynamicSharedBytes,
    /// `%total_smem_size`
    TotalSharedBytes,
    /// The low half of the address at which the blocks of a cooperative launch wait for each other (`%envreg2`), or the
    /// high half (`%envreg1`); 0 in other launches
    GridWorkspace {
        /// Whether it is the high half.
        high: bool,
    },
    /// A register that is always 0 here: the other ones of `%envreg{0..31}`, and the bounds of the shared memory that
    /// the system reserves, of which there is none.
    Zero,
}

/// One instruction with its guard and its source line.
#[derive(Debug, Clone, PartialEq)]
pub struct Instruction {
    /// The operation.
    pub op: Op,
    /// The predicate that guards it, [`TRUE`] if none.
    pub guard: Slot,
    /// Whether the guard is negated (`@!%p`).
    pub guard_negated: bool,
    /// For a branch: the index where its paths reconverge (the immediate post-dominator), or [`AT_EXIT`]. Paths into an
    /// early exit do not count: their lanes never arrive, so the other lanes do not wait for them.
    pub reconverge: u32,
    /// Line in the PTX text.
    pub line: u32,
}
