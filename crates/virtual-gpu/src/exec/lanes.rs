//! Values of the 32 lanes of a warp.

/// Lanes of a warp.
pub(crate) const LANES: usize = 32;

/// All lanes.
pub(crate) const ALL: u32 = u32::MAX;

/// Computes a 32-bit value per lane. This is a loop because closures do not inherit the caller's vector features.
macro_rules! w32 {
    ($lane:ident => $value:expr) => {{
        let mut lanes = [0u32; crate::exec::lanes::LANES];
        for $lane in 0..crate::exec::lanes::LANES {
            lanes[$lane] = $value;
        }
        crate::exec::lanes::W32(lanes)
    }};
}

/// Computes a 64-bit value per lane.
macro_rules! w64 {
    ($lane:ident => $value:expr) => {{
        let mut lanes = [0u64; crate::exec::lanes::LANES];
        for $lane in 0..crate::exec::lanes::LANES {
            lanes[$lane] = $value;
        }
        crate::exec::lanes::W64(lanes)
    }};
}

/// Collects one bit per lane.
macro_rules! mask_where {
    ($lane:ident => $holds:expr) => {{
        let mut mask = 0u32;
        for $lane in 0..crate::exec::lanes::LANES {
            mask |= u32::from($holds) << $lane;
        }
        mask
    }};
}

pub(crate) use {mask_where, w32, w64};

/// A 32-bit value per lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(align(64))]
pub(crate) struct W32(pub [u32; LANES]);

/// A 64-bit value per lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(align(64))]
pub(crate) struct W64(pub [u64; LANES]);

impl W32 {
    /// The same value in every lane.
    pub const fn splat(value: u32) -> Self {
        Self([value; LANES])
    }

    /// Overwrites the lanes of `mask`.
    #[inline(always)]
    pub fn set(&mut self, value: &Self, mask: u32) {
        if mask == ALL {
            *self = *value;
        } else {
            for lane in 0..LANES {
                let keep = (mask >> lane & 1).wrapping_sub(1);
                self.0[lane] = self.0[lane] & keep | value.0[lane] & !keep;
            }
        }
    }
}

impl W64 {
    /// The same value in every lane.
    pub const fn splat(value: u64) -> Self {
        Self([value; LANES])
    }

    /// Overwrites the lanes of `mask`.
    #[inline(always)]
    pub fn set(&mut self, value: &Self, mask: u32) {
        if mask == ALL {
            *self = *value;
        } else {
            for lane in 0..LANES {
                let keep = u64::from(mask >> lane & 1).wrapping_sub(1);
                self.0[lane] = self.0[lane] & keep | value.0[lane] & !keep;
            }
        }
    }
}

/// Iterates over the lanes of a mask, lowest first.
pub(crate) fn lanes_of(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = mask.trailing_zeros();
        (mask != 0).then(|| {
            mask &= mask - 1;
            lane as usize
        })
    })
}
