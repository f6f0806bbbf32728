//! Values of the 32 lanes of a warp.

/// Lanes of a warp.
pub(crate) const LANES: usize = 32;

/// All lanes.
pub(crate) const ALL: u32 = u32::MAX;

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

    /// Computes a value per lane.
    #[inline(always)]
    pub fn from_fn(mut f: impl FnMut(usize) -> u32) -> Self {
        let mut lanes = [0; LANES];
        for (lane, value) in lanes.iter_mut().enumerate() {
            *value = f(lane);
        }
        Self(lanes)
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

    /// Computes a value per lane.
    #[inline(always)]
    pub fn from_fn(mut f: impl FnMut(usize) -> u64) -> Self {
        let mut lanes = [0; LANES];
        for (lane, value) in lanes.iter_mut().enumerate() {
            *value = f(lane);
        }
        Self(lanes)
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

/// Collects one bit per lane.
#[inline(always)]
pub(crate) fn mask_of(mut f: impl FnMut(usize) -> bool) -> u32 {
    let mut mask = 0;
    for lane in 0..LANES {
        mask |= u32::from(f(lane)) << lane;
    }
    mask
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
