//! Scenarios through the command line, and the suite that every device passes, in one program so that it is linked
//! once.
//!
//! A scenario that needs its own process starts one. `cargo test --test integration devices::` runs the scenarios of
//! one module.

#[cfg(unix)]
mod agents;
mod audit;
mod bad_input;
#[cfg(unix)]
mod baseline;
mod bench;
mod broken;
mod calibration;
mod checking;
mod common;
mod compare;
mod compile;
#[cfg(target_os = "linux")]
mod confined;
#[cfg(target_os = "linux")]
mod counters;
mod declared;
#[cfg(unix)]
mod delta_attention;
mod devices;
mod diagnosis;
#[cfg(unix)]
mod durability;
#[cfg(unix)]
mod ends;
mod excerpt;
mod explainer;
mod export;
mod families;
mod family_page;
mod fault_injection;
#[cfg(target_os = "linux")]
mod faults;
#[cfg(all(target_os = "linux", feature = "fleet"))]
mod fleet;
mod gemm;
#[cfg(unix)]
mod git;
#[cfg(unix)]
mod graphs;
#[cfg(target_os = "linux")]
mod headers;
mod history;
mod history_page;
#[cfg(unix)]
mod hostile;
mod hostile_parsers;
mod hostile_sources;
mod install;
#[cfg(unix)]
mod limits;
mod links;
#[cfg(unix)]
mod llm;
mod model;
#[cfg(unix)]
mod models;
mod peaks;
#[cfg(unix)]
mod replay;
mod reports;
mod sanitizer;
#[cfg(target_os = "linux")]
mod secrets;
#[cfg(target_os = "linux")]
mod service;
mod session;
mod simulate;
#[cfg(unix)]
mod stranger;
mod structure;
mod tf32;
#[cfg(unix)]
mod top_k;
mod trust;
mod virtual_gpu;
mod winners;
