//! What a kernel did wrong, and where.

/// A fault of a kernel: what, and the kernel, instruction, block and thread where it happened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} in kernel {kernel}, {file}:{line} `{instruction}`, block ({}, {}, {}), thread ({}, {}, {})", block[0], block[1], block[2], thread[0], thread[1], thread[2])]
pub struct Fault {
    /// What happened.
    pub kind: FaultKind,
    /// The kernel.
    pub kernel: String,
    /// The PTX file.
    pub file: String,
    /// Line in the PTX, counted from 1.
    pub line: u32,
    /// The PTX instruction on that line.
    pub instruction: String,
    /// Index of the block in the grid: x, y, z.
    pub block: [u32; 3],
    /// Index of the first thread concerned in its block: x, y, z.
    pub thread: [u32; 3],
}

/// Kinds of faults. Addresses are as the kernel used them; spaces are named as in PTX.
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
        /// How it relates to what is there, such as `4 bytes past the end of allocation 2 of 128 bytes`.
        detail: String,
    },
    /// An access to memory that was freed.
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
    /// A read of memory that nobody has written.
    #[error("read of {bytes} uninitialised bytes at {space} address {address:#x}")]
    Uninitialised {
        /// Memory space.
        space: &'static str,
        /// The address.
        address: u64,
        /// Bytes accessed.
        bytes: u32,
    },
    /// Two warps of a block touched the same shared memory, one of them writing, with no barrier in between.
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
    /// An asynchronous read of shared memory that the asynchronous proxy was not told of.
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
    /// A barrier that only a part of a warp's threads reached.
    #[error("divergent barrier: {active} of the warp's {live} live threads reached it")]
    DivergentBarrier {
        /// Threads that reached it.
        active: u32,
        /// Threads of the warp that have not exited.
        live: u32,
    },
    /// A warp-wide instruction whose member mask does not name the threads that execute it.
    #[error("{opcode} with member mask {members:#010x} executed by threads {active:#010x} of the warp")]
    WrongMembers {
        /// The instruction.
        opcode: &'static str,
        /// Its member mask.
        members: u32,
        /// Threads that execute it.
        active: u32,
    },
    /// Every warp that has not exited waits for something that cannot happen.
    #[error("deadlock: {waiting} of the block's {warps} warps wait ({detail})")]
    Deadlock {
        /// Waiting warps.
        waiting: u32,
        /// Warps of the block.
        warps: u32,
        /// For what they wait.
        detail: String,
    },
    /// A warp executed more instructions than the limit.
    #[error("runaway: more than {limit} instructions executed by one warp")]
    Runaway {
        /// The limit.
        limit: u64,
    },
    /// `trap`, a failed assertion, or a call of the abort kind.
    #[error("trap")]
    Trap,
    /// An instruction whose form is known to the loader and not to the executor.
    #[error("unsupported instruction `{0}`")]
    Unsupported(String),
    /// Something that PTX leaves undefined or forbids.
    #[error("{0}")]
    Invalid(String),
}

/// What an access did.
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

/// Why a launch did not happen or did not end well.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// The launch asks for what the GPU or the kernel does not allow; nothing was executed.
    #[error("launch refused: {0}")]
    Refused(String),
    /// A thread did something wrong.
    #[error(transparent)]
    Fault(Box<Fault>),
}
