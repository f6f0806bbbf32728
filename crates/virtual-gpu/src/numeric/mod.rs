//! Arithmetic that PTX defines and Rust lacks: half precision, rounding modes, approximations, conversions, matrix
//! fragments. All are pure functions of lanes.
//!
//! Functions called per lane are `#[inline(always)]` and branch-free. A loop over 32 lanes in a function with
//! `#[target_feature]` then becomes vector code. Functions that use `mul_add` (named in their docs) need a caller
//! compiled with `fma` to be fast; without it the results are the same.

mod approx;
mod approx_trig;
mod compare;
mod convert;
mod convert_float;
mod convert_pack;
mod float;
mod float_round;
mod fp8;
mod half;
mod half_arith;
mod half_minmax;
mod integer;
mod integer_mul;
mod mma;
mod mma_block;
mod mma_dense;
mod mma_fp8;
mod mma_fp8_hopper;
mod mma_hopper;
mod mma_integer;
mod soft;
mod soft_arith;

pub use approx::{
    div_approx, div_full, ex2_approx, lg2_approx, rcp_approx, rcp_approx_ftz_f64, rsqrt_approx, rsqrt_approx_ftz_f64,
    sqrt_approx,
};
pub use approx_trig::{
    bf16_ex2_approx, bf16_tanh_approx, cos_approx, f16_ex2_approx, f16_tanh_approx, sin_approx, tanh_approx,
};
pub use compare::{
    compare_bf16, compare_f16, compare_f32, compare_f64, compare_s32, compare_s64, compare_u32, compare_u64,
};
pub use convert::convert;
pub use convert_pack::convert_pack;
pub use float::{canonical, f32_max, f32_min, f64_max, f64_min, flush, fma, saturate, saturate_f64};
pub use float_round::{
    f32_add_round, f32_div_round, f32_fma_round, f32_mul_round, f32_rcp_round, f32_sqrt_round, f32_sub_round,
    f64_to_f32_round, is_tiny_fma, is_tiny_quotient,
};
pub use fp8::{Fp8, e4m3_to_f32, e5m2_to_f32};
pub use half::{
    bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_bf16_round, f32_to_f16, f32_to_f16_round, f32_to_tf32, f64_to_f16,
};
pub use half_arith::{bf16_add, bf16_fma, bf16_mul, bf16_sub, both, both1, both3, f16_add, f16_fma, f16_mul, f16_sub};
pub use half_minmax::{bf16_abs, bf16_max, bf16_min, bf16_neg, f16_abs, f16_max, f16_min, f16_neg};
pub use integer::{
    bfe_s32, bfe_s64, bfe_u32, bfe_u64, bfi32, bfi64, bfind_s32, bfind_s64, bfind_u32, bfind_u64, dp4a, funnel_left,
    funnel_right, lop3, prmt, sad_s32, sad_u32, shl32, shl64, shr_s32, shr_s64, shr_u32, shr_u64,
};
pub use integer_mul::{
    div_s32, div_s64, div_u32, div_u64, mad_hi_s32, mad_hi_s64, mad_hi_u32, mad_hi_u64, mul_hi_s32, mul_hi_s64,
    mul_hi_u32, mul_hi_u64, mul24_s32, mul24_u32, rem_s32, rem_s64, rem_u32, rem_u64,
};
pub use mma::{
    Lanes, mma_m8n8k4_f64, mma_m16n8k4_tf32, mma_m16n8k8_f16, mma_m16n8k8_f16_f16, mma_m16n8k8_tf32, mma_m16n8k16_f16,
    mma_m16n8k16_f16_f16,
};
pub use mma_dense::multiply_tile;
pub use mma_fp8::{mma_m16n8k16_f8, mma_m16n8k16_f8_f16, mma_m16n8k32_f8, mma_m16n8k32_f8_f16};
pub use mma_fp8_hopper::mma_m16n8k32_f8_hopper;
pub use mma_hopper::mma_m16n8k16_f16_hopper;
pub use mma_integer::{Elements, mma_integers, mma_m16n8k16_i8, mma_m16n8k32_i8};
pub use soft_arith::{
    f64_add_round, f64_div_round, f64_fma_round, f64_mul_round, f64_rcp_round, f64_sqrt_round, f64_sub_round,
};
