//! Mechanisms: how a change is expected to act. Claims are grouped by them.

use serde::{Deserialize, Serialize};

/// How a change acts on a kernel's time. A parameter's manifest names its mechanism.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mechanism {
    /// The size of what a block processes at a time, such as the rows or keys of a tile.
    TileSize,
    /// How work is divided among blocks, warps or threads that merge their results at the end.
    WorkSplit,
    /// The number of threads, warps or warpgroups of a block.
    Threads,
    /// How many blocks fit on a multiprocessor, and how many registers each may have.
    Occupancy,
    /// Loads, products and stores of different steps overlap.
    Pipelining,
    /// The width, layout and path of memory accesses.
    MemoryAccess,
    /// How often each loaded value is used, in registers or in L2.
    DataReuse,
    /// Other instructions, or fewer of them.
    Arithmetic,
    /// The order in which blocks take their work.
    Scheduling,
    /// The change has parameters of different mechanisms.
    Several,
    /// A configuration that is fast on one case is tried on another.
    Transfer,
    /// Another family: another algorithm or other instructions.
    Algorithm,
    /// Not known.
    #[default]
    Unspecified,
}

impl Mechanism {
    /// Every mechanism.
    pub const ALL: [Self; 13] = [
        Self::TileSize,
        Self::WorkSplit,
        Self::Threads,
        Self::Occupancy,
        Self::Pipelining,
        Self::MemoryAccess,
        Self::DataReuse,
        Self::Arithmetic,
        Self::Scheduling,
        Self::Several,
        Self::Transfer,
        Self::Algorithm,
        Self::Unspecified,
    ];

    /// Returns the name that the store and the reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::TileSize => "tile_size",
            Self::WorkSplit => "work_split",
            Self::Threads => "threads",
            Self::Occupancy => "occupancy",
            Self::Pipelining => "pipelining",
            Self::MemoryAccess => "memory_access",
            Self::DataReuse => "data_reuse",
            Self::Arithmetic => "arithmetic",
            Self::Scheduling => "scheduling",
            Self::Several => "several",
            Self::Transfer => "transfer",
            Self::Algorithm => "algorithm",
            Self::Unspecified => "unspecified",
        }
    }

    /// Tells whether a parameter can act by this mechanism.
    pub fn is_of_a_parameter(self) -> bool {
        !matches!(self, Self::Several | Self::Transfer | Self::Algorithm)
    }

    /// Returns the mechanism of a change of several parameters.
    pub fn of_all(mechanisms: impl IntoIterator<Item = Self>) -> Self {
        let mut mechanisms = mechanisms.into_iter();
        let Some(first) = mechanisms.next() else { return Self::Unspecified };
        if mechanisms.all(|other| other == first) { first } else { Self::Several }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_stored_form_and_a_mixed_change_has_several() {
        for mechanism in [Mechanism::TileSize, Mechanism::MemoryAccess, Mechanism::Several, Mechanism::Unspecified] {
            assert_eq!(serde_json::to_value(mechanism).unwrap(), mechanism.name());
        }
        use Mechanism::{Several, Threads, TileSize, Unspecified};
        assert_eq!(Mechanism::of_all([TileSize, TileSize]), TileSize);
        assert_eq!(Mechanism::of_all([TileSize, Threads]), Several);
        assert_eq!(Mechanism::of_all([]), Unspecified);
    }
}
