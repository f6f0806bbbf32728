//! The interpreter in three vector widths, chosen at run time.
//!
//! The code is the same; only what the compiler may use for its loops over lanes differs, and so do not the results: fused
//! multiply-adds are rounded once whether there is an instruction for them or not.

use super::env::{Env, Step};
use super::step::{self, Pause};
use super::warp::Warp;

/// A vector width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// What every machine of the target has.
    Baseline,
    /// AVX2 and FMA: 8 lanes at once.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512: 16 lanes at once.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Level {
    /// Returns the widest that this machine has.
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            let fma = std::is_x86_feature_detected!("fma");
            if fma
                && std::is_x86_feature_detected!("avx512f")
                && std::is_x86_feature_detected!("avx512bw")
                && std::is_x86_feature_detected!("avx512dq")
                && std::is_x86_feature_detected!("avx512vl")
            {
                return Self::Avx512;
            }
            if fma && std::is_x86_feature_detected!("avx2") {
                return Self::Avx2;
            }
        }
        Self::Baseline
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
fn run_avx512(warp: &mut Warp, env: &mut Env<'_>, board: usize) -> Step<Pause> {
    step::run(warp, env, board)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
fn run_avx2(warp: &mut Warp, env: &mut Env<'_>, board: usize) -> Step<Pause> {
    step::run(warp, env, board)
}

fn run_baseline(warp: &mut Warp, env: &mut Env<'_>, board: usize) -> Step<Pause> {
    step::run(warp, env, board)
}

/// Runs a warp until it pauses.
#[allow(unsafe_code)]
pub(crate) fn run(level: Level, warp: &mut Warp, env: &mut Env<'_>, board: usize) -> Step<Pause> {
    match level {
        Level::Baseline => run_baseline(warp, env, board),
        // SAFETY: `Level::detect` is the only source of these values and has asked the machine for every feature that the
        // function enables; bmi, lzcnt and popcnt are there wherever AVX2 is.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { run_avx2(warp, env, board) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { run_avx512(warp, env, board) },
    }
}
