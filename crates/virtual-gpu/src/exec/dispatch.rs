//! The interpreter in three vector widths, chosen at run time.
//!
//! The code is the same; only the instructions available for loops over lanes differ. The results do not differ: a
//! fused multiply-add is rounded once, with or without an instruction for it.

use super::env::Env;
use super::groups::{self, Groups};
use super::lane_fault::Step;
use super::step::{self, Pause};
use super::warp::Warp;
use crate::program::Op;

/// A vector width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// The features that every machine of the target has.
    Baseline,
    /// AVX2 and FMA: 8 lanes at once.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512: 16 lanes at once.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Level {
    /// Returns the widest level that this machine supports.
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma");
            let avx512 = std::is_x86_feature_detected!("avx512f")
                && std::is_x86_feature_detected!("avx512bw")
                && std::is_x86_feature_detected!("avx512dq")
                && std::is_x86_feature_detected!("avx512vl");
            if avx2 && avx512 {
                return Self::Avx512;
            }
            if avx2 {
                return Self::Avx2;
            }
        }
        Self::Baseline
    }
}

/// The groups compiled with only the target's features.
struct Baseline;

macro_rules! baseline {
    ($($group:ident)*) => {
        impl Groups for Baseline {$(
            #[inline(never)]
            fn $group(warp: &mut Warp, env: &mut Env<'_>, op: &Op, mask: u32) -> Step<()> {
                groups::$group(warp, env, op, mask)
            }
        )*}
    };
}

baseline!(mov unary binary ternary setp selp cvt load store shfl mma);

#[cfg(target_arch = "x86_64")]
macro_rules! level {
    ($level:ident, $features:literal, $($group:ident)*) => {
        /// The groups for one vector width.
        struct $level;

        impl Groups for $level {$(
            #[allow(unsafe_code)]
            fn $group(warp: &mut Warp, env: &mut Env<'_>, op: &Op, mask: u32) -> Step<()> {
                #[target_feature(enable = $features)]
                fn wide(warp: &mut Warp, env: &mut Env<'_>, op: &Op, mask: u32) -> Step<()> {
                    groups::$group(warp, env, op, mask)
                }
                // SAFETY: only `run` uses this type, for a level that `Level::detect` gave after asking the machine for
                // these features.
                unsafe { wide(warp, env, op, mask) }
            }
        )*}
    };
}

#[cfg(target_arch = "x86_64")]
level!(Avx2, "avx2,fma", mov unary binary ternary setp selp cvt load store shfl mma);

#[cfg(target_arch = "x86_64")]
level!(
    Avx512,
    "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma",
    mov unary binary ternary setp selp cvt load store shfl mma
);

/// Runs a warp until it pauses.
pub(crate) fn run(level: Level, warp: &mut Warp, env: &mut Env<'_>, board: usize) -> Step<Pause> {
    match level {
        Level::Baseline => step::run::<Baseline>(warp, env, board),
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => step::run::<Avx2>(warp, env, board),
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => step::run::<Avx512>(warp, env, board),
    }
}
