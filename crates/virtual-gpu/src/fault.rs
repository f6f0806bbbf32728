//! Faults of kernels, and where they happened.

use crate::lines::SourceLine;

/// A fault of a kernel, with the instruction, block and thread where it happened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{kind} in kernel {kernel}, {}, block ({}, {}, {}), thread ({}, {}, {}){}",
    place(source, file, *line, instruction), block[0], block[1], block[2], thread[0], thread[1], thread[2], after(other, file)
)]
pub struct Fault {
    /// The kind of fault.
    pub kind: FaultKind,
    /// The kernel, as it is written in C++, without template arguments and parameters.
    pub kernel: String,
    /// The PTX file.
    pub file: String,
    /// Line in the PTX, counted from 1.
    pub line: u32,
    /// The PTX instruction on that line.
    pub instruction: String,
    /// The line of the CUDA source, if the PTX has lines (`-lineinfo`).
    pub source: Option<SourceLine>,
    /// The other access of a race, if it is known. It may be of an earlier block.
    pub other: Option<OtherAccess>,
    /// Index of the block in the grid: x, y, z.
    pub block: [u32; 3],
    /// Index of the first affected thread in its block: x, y, z.
    pub thread: [u32; 3],
}

/// The instruction of the other access of a race.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherAccess {
    /// Line in the PTX, counted from 1.
    pub line: u32,
    /// The PTX instruction on that line.
    pub instruction: String,
    /// The line of the CUDA source, if the PTX has lines.
    pub source: Option<SourceLine>,
}

fn place(source: &Option<SourceLine>, file: &str, line: u32, instruction: &str) -> String {
    match source {
        Some(source) => format!("{source} ({file}:{line} `{instruction}`)"),
        None => format!("{file}:{line} `{instruction}`"),
    }
}

fn after(other: &Option<OtherAccess>, file: &str) -> String {
    other.as_ref().map_or_else(String::new, |other| {
        format!("; the other access is at {}", place(&other.source, file, other.line, &other.instruction))
    })
}

/// A fault as it is found: its kind, and the instruction of the other access of a race, if it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// The kind.
    pub kind: FaultKind,
    /// The other access: index of its instruction in the kernel.
    pub other: Option<u32>,
}

impl From<FaultKind> for Found {
    fn from(kind: FaultKind) -> Self {
        Self { kind, other: None }
    }
}

impl FaultKind {
    /// Adds the instruction of the other access.
    pub(crate) fn after(self, other: u32) -> Found {
        Found { kind: self, other: Some(other) }
    }
}

/// Kinds of faults. Addresses are as the kernel used them; spaces have their PTX names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FaultKind {
    /// An access outside every allocation, or outside the block's shared or the thread's local memory.
    #[error("{access} of {bytes} bytes out of bounds at {space} address {address:#x} ({detail})")]
    OutOfBounds {
        /// Read, write or atomic.
        access: Access,
        /// Memory space.
        space: &'static str,
        /// The address.
        address: u64,
        /// Bytes accessed.
        bytes: u32,
        /// The address relative to the nearest memory, such as `4 bytes past the end of allocation 2 of 128 bytes`.
        detail: String,
    },
    /// An access to freed memory.
    #[error("{access} of {bytes} bytes after free at global address {address:#x}")]
    UseAfterFree {
        /// Read, write or atomic.
        access: Access,
        /// The address.
        address: u64,
        /// Bytes accessed.
        bytes: u32,
    },
    /// An address that is not a multiple of the access's size.
    #[error("{access} of {bytes} bytes misaligned at {space} address {address:#x}")]
    Misaligned {
        /// Read, write or atomic.
        access: Access,
        /// Memory space.
        space: &'static str,
        /// The address.
        address: u64,
        /// Bytes accessed.
        bytes: u32,
    },
    /// A read of memory that was never written.
    #[error("read of {bytes} uninitialised bytes at {space} address {address:#x}")]
    Uninitialised {
        /// Memory space.
        space: &'static str,
        /// The address.
        address: u64,
        /// Bytes accessed.
        bytes: u32,
    },
    /// Two warps of a block accessed the same shared memory without a barrier in between, and at least one wrote.
    #[error(
        "race at shared address {address:#x}: {access} by warp {warp}, {other_access} by warp {other_warp} before, no barrier between"
    )]
    Race {
        /// The address in the block's shared memory.
        address: u64,
        /// The later access.
        access: Access,
        /// Warp of the later access.
        warp: u32,
        /// The earlier access.
        other_access: Access,
        /// Warp of the earlier access.
        other_warp: u32,
    },
    /// A write of shared memory that the product of a warpgroup (`wgmma.mma_async`) may still read.
    #[error(
        "race at shared address {address:#x}: {access} by warp {warp}, and a product of warps {} to {} may still read there: none of them has waited for it (wgmma.wait_group) before it let warp {warp} continue",
        group[0], group[1]
    )]
    ProductRace {
        /// The address in the block's shared memory.
        address: u64,
        /// The access.
        access: Access,
        /// The warp that makes the access, or has issued the copy that does.
        warp: u32,
        /// The first and the last warp of the warpgroup.
        group: [u32; 2],
    },
    /// Two lanes of a warp accessed the same memory without waiting for each other in between, and at least one wrote.
    #[error(
        "race at {space} address {address:#x}: {access} by {}, {other_access} by {} of the same warp before, no __syncwarp (bar.warp.sync) between",
        one(lane),
        one(other_lane)
    )]
    LaneRace {
        /// Memory space.
        space: &'static str,
        /// The address.
        address: u64,
        /// The later access.
        access: Access,
        /// Lane of the later access; None for all lanes together.
        lane: Option<u8>,
        /// The earlier access.
        other_access: Access,
        /// Lane of the earlier access; None for all lanes together.
        other_lane: Option<u8>,
    },
    /// A warp accessed what another warp wrote to global memory, or wrote what a warp of another block has read, and
    /// nothing orders the two.
    #[error(
        "race at global address {address:#x}: {access}, {other_access} by warp {other_warp} of {} before, {}",
        if *same_block { "the block".to_owned() } else { format!("block ({}, {}, {})", other_block[0], other_block[1], other_block[2]) },
        match (same_block, other_access) {
            (true, _) => "no barrier between",
            (false, Access::Read) => "no release and acquire between (a load, __threadfence, an atomic or volatile flag, __threadfence, a store)",
            (false, _) => "no release and acquire between (a store, __threadfence, an atomic or volatile flag, __threadfence, a load)",
        }
    )]
    GlobalRace {
        /// The address.
        address: u64,
        /// The later access.
        access: Access,
        /// The earlier access.
        other_access: Access,
        /// Whether both are of one block.
        same_block: bool,
        /// Block of the earlier access.
        other_block: [u32; 3],
        /// Warp of the earlier access in its block.
        other_warp: u32,
    },
    /// A plain load of what another block wrote, after a flag was read, but with no fence of the reader since.
    #[error(
        "race at global address {address:#x}: read, write by warp {other_warp} of block ({}, {}, {}) before, and the reader has no fence (__threadfence) between its atomic or volatile flag and the read: the block's barrier is none, so the read may find an old line in L1",
        other_block[0], other_block[1], other_block[2]
    )]
    Unacquired {
        /// The address.
        address: u64,
        /// Block of the write.
        other_block: [u32; 3],
        /// Warp of the write in its block.
        other_warp: u32,
    },
    /// A strong load of what another block stored before a flag that was read, with no fence between that store and the flag.
    #[error(
        "race at global address {address:#x}: read, write by warp {other_warp} of block ({}, {}, {}) before, and that block has no fence (__threadfence) between this write and its atomic or volatile flag: the reader may see the flag first",
        other_block[0], other_block[1], other_block[2]
    )]
    Unpublished {
        /// The address.
        address: u64,
        /// Block of the write.
        other_block: [u32; 3],
        /// Warp of the write in its block.
        other_warp: u32,
    },
    /// A load through the read-only path (`ld.global.nc`) of what the launch has written.
    #[error(
        "read at global address {address:#x} through the read-only path (const __restrict__, __ldg), which warp {other_warp} of block ({}, {}, {}) wrote in this launch: the read may find the old value",
        other_block[0], other_block[1], other_block[2]
    )]
    ReadOnly {
        /// The address.
        address: u64,
        /// Block of the write.
        other_block: [u32; 3],
        /// Warp of the write in its block.
        other_warp: u32,
    },
    /// An asynchronous read of shared memory that was written without a proxy fence.
    #[error(
        "asynchronous read by warp {warp} at shared address {address:#x}, which warp {writer} wrote, and neither has executed fence.proxy.async since"
    )]
    Unfenced {
        /// The address in the block's shared memory.
        address: u64,
        /// The warp that copies or multiplies.
        warp: u32,
        /// The warp that wrote.
        writer: u32,
    },
    /// An access to shared memory that an asynchronous copy still writes or reads.
    #[error(
        "{access} at shared address {address:#x}, which an asynchronous copy still {}: nothing has waited for it",
        if *writes { "writes" } else { "reads" }
    )]
    InFlight {
        /// The address in the block's shared memory.
        address: u64,
        /// The access.
        access: Access,
        /// Whether the copy writes there; otherwise it reads.
        writes: bool,
    },
    /// A block that ends while a bulk copy uses its shared memory.
    #[error(
        "a bulk copy {} shared memory when its block ends: nothing has waited for it{}",
        if *writes { "still writes" } else { "still reads" },
        if *writes { "" } else { " (cp.async.bulk.wait_group.read)" }
    )]
    Abandoned {
        /// Whether the copy writes to shared memory; otherwise it reads from there.
        writes: bool,
    },
    /// An access to what the previous launch wrote, in a launch that may begin before that one has ended.
    #[error(
        "{access} at global address {address:#x}, which the previous launch wrote, before griddepcontrol.wait (cudaGridDependencySynchronize)"
    )]
    Undepended {
        /// The address.
        address: u64,
        /// The access.
        access: Access,
    },
    /// A barrier that only some of a warp's threads reached.
    #[error("divergent barrier: {active} of the warp's {live} live threads reached it")]
    DivergentBarrier {
        /// Threads that reached it.
        active: u32,
        /// Threads of the warp that have not exited.
        live: u32,
    },
    /// A warp-wide instruction whose member mask differs from the threads that execute it.
    #[error("{opcode} with member mask {members:#010x} executed by threads {active:#010x} of the warp")]
    WrongMembers {
        /// The instruction.
        opcode: &'static str,
        /// Its member mask.
        members: u32,
        /// Threads that execute it.
        active: u32,
    },
    /// Every warp that has not exited waits for an event that cannot happen.
    #[error("deadlock: {waiting} of the block's {warps} warps wait ({detail})")]
    Deadlock {
        /// Waiting warps.
        waiting: u32,
        /// Warps of the block.
        warps: u32,
        /// What they wait for.
        detail: String,
    },
    /// A warp executed more instructions than the limit.
    #[error("runaway: more than {limit} instructions executed by one warp")]
    Runaway {
        /// The limit.
        limit: u64,
    },
    /// `trap`
    #[error("trap")]
    Trap,
    /// `assert` of a condition that is false.
    #[error("assertion `{message}` failed ({file}:{line}, `{function}`)")]
    Assertion {
        /// The condition.
        message: String,
        /// The file that was compiled.
        file: String,
        /// Line in it, counted from 1.
        line: u32,
        /// The function.
        function: String,
    },
    /// An action that is not modelled. [`LaunchError::NotModelled`] reports it.
    #[error("`{0}`")]
    NotModelled(String),
    /// An action that PTX leaves undefined or forbids.
    #[error("{0}")]
    Invalid(String),
}

fn one(lane: &Option<u8>) -> String {
    lane.map_or("the lanes together".to_owned(), |lane| format!("lane {lane}"))
}

/// Kind of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Access {
    Read,
    Write,
    Atomic,
}

impl std::fmt::Display for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Atomic => "atomic",
        })
    }
}

/// Why a launch was refused or failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// The GPU or the kernel does not allow the launch; nothing was executed.
    #[error("launch refused: {0}")]
    Refused(String),
    /// The kernel does something that this crate does not model, which says nothing about the kernel.
    #[error("not modelled: {0}")]
    NotModelled(String),
    /// A thread caused a fault.
    #[error(transparent)]
    Fault(Box<Fault>),
}

impl From<Box<Fault>> for LaunchError {
    fn from(fault: Box<Fault>) -> Self {
        match fault.kind {
            FaultKind::NotModelled(_) => Self::NotModelled(fault.to_string()),
            _ => Self::Fault(fault),
        }
    }
}
