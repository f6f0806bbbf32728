//! The timing model against times that were measured on an H200 (docs/data/): does it rank configurations as they rank?
//!
//! Needs no GPU. Compiles every configuration of the table with NVRTC, executes sampled blocks on the virtual GPU, and
//! models the time. docs/model.md has the table that this prints:
//! `cargo test --test model -- --nocapture`.

mod simulate;
mod table;

use std::path::Path;

use rayon::prelude::*;

use simulate::Lab;
use table::Table;

#[test]
fn dump() {
    let table = Table::read(Path::new(&std::env::var("MODEL_TABLE").unwrap()));
    let lab = Lab::open(&table.workload);
    let rows: Vec<serde_json::Value> = table
        .rows
        .par_iter()
        .flat_map_iter(|row| {
            let lab = &lab;
            let cases = table.cases.iter().zip(&row.measured_ns);
            cases.filter_map(move |(case, measured)| {
                let measured = (*measured)?;
                let kernels = lab.simulate(row, lab.workload.case(case).unwrap());
                let kernels: Vec<_> = kernels.iter().map(simulate::Simulated::json).collect();
                Some(serde_json::json!({
                    "family": row.family, "params": row.params, "case": case, "measured_ns": measured, "kernels": kernels,
                }))
            })
        })
        .collect();
    std::fs::write(std::env::var("MODEL_OUT").unwrap(), serde_json::to_string(&rows).unwrap()).unwrap();
}
#[test]
fn compile_all() {
    let table = Table::read(Path::new(&std::env::var("MODEL_TABLE").unwrap()));
    let lab = Lab::open(&table.workload);
    let case = lab.workload.case("b1h8s512").unwrap().clone();
    let out: Vec<String> = table
        .rows
        .par_iter()
        .map(|row| {
            let a = lab.artifact(row, &case);
            format!("{} {}", a.key, optloop::domain::variant::show_params(&row.params))
        })
        .collect();
    std::fs::write("/tmp/keys.txt", out.join("\n")).unwrap();
}
