//! Arithmetic that PTX defines and Rust does not have: half precision, rounding modes, approximations, conversions,
//! matrix fragments. Pure functions of lanes.
