//! The cases and their results recorded on a real GPU.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use super::compare::{Rule, width};
use super::tables::{self, Tables};

/// The contents of an output before a kernel writes it, unless the case says otherwise; as in record.py.
const UNWRITTEN: u8 = 0xa5;

/// cases.json.
#[derive(Debug, Deserialize)]
pub struct Manifest {
    pub tables: Tables,
    pub files: Vec<File>,
}

/// A file of kernels with its cases.
#[derive(Debug, Deserialize)]
pub struct File {
    pub ptx: String,
    pub cases: Vec<Case>,
}

/// One launch.
#[derive(Debug, Deserialize)]
pub struct Case {
    pub name: String,
    pub kernel: String,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub cluster: [u32; 3],
    pub shared: u32,
    pub args: Vec<Arg>,
    pub out: Vec<Section>,
    pub init: Option<String>,
}

/// An argument of a launch.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arg {
    /// The address of a copy of a table.
    Table(String),
    /// The address of the output.
    Out(bool),
    /// A number.
    U32(u32),
    /// A tensor map.
    TensorMap(Map),
}

/// A tensor map of a copy of a table or of the output. Elements outside are zero.
#[derive(Debug, Deserialize)]
pub struct Map {
    /// The table; None for the output.
    pub table: Option<String>,
    /// Bytes of an element.
    pub element: u32,
    pub dims: Vec<u32>,
    pub strides: Vec<u32>,
    #[serde(rename = "box")]
    pub box_dims: Vec<u32>,
    /// Bytes of the swizzle, 0 for none.
    pub swizzle: u32,
}

impl Map {
    /// Continues a fingerprint as record.py does.
    fn fingerprint(&self, tables: &Tables, state: u64) -> u64 {
        let lists = [&[self.element][..], &self.dims, &self.strides, &self.box_dims, &[self.swizzle]];
        let state = lists.into_iter().flatten().fold(state, |state, number| fnv(&number.to_le_bytes(), state));
        self.table.iter().fold(state, |state, name| fnv(&tables::bytes(tables, name), state))
    }
}

/// A part of the output: elements of one type under one rule.
#[derive(Debug, Deserialize)]
pub struct Section {
    pub label: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub count: usize,
    pub rule: Rule,
}

impl Case {
    /// Returns the output's bytes before the launch.
    pub fn before(&self, tables: &Tables) -> Vec<u8> {
        let size = self.out.iter().map(|section| section.count * width(&section.kind)).sum();
        match &self.init {
            Some(name) => tables::bytes(tables, name),
            None => vec![UNWRITTEN; size],
        }
    }

    /// Returns a number for the operands, generated as in record.py.
    pub fn fingerprint(&self, tables: &Tables) -> String {
        let mut state = fnv(&self.before(tables), FNV);
        for arg in &self.args {
            match arg {
                Arg::Table(name) => state = fnv(&tables::bytes(tables, name), state),
                Arg::U32(number) => state = fnv(&number.to_le_bytes(), state),
                Arg::TensorMap(map) => state = map.fingerprint(tables, state),
                Arg::Out(is_out) => assert!(is_out),
            }
        }
        format!("{state:016x}")
    }
}

/// expected.json, with expected.bin.
#[derive(Debug, Deserialize)]
pub struct Recorded {
    cases: BTreeMap<String, Entry>,
    #[serde(skip)]
    data: Vec<u8>,
}

#[derive(Debug, Deserialize)]
struct Entry {
    offset: usize,
    bytes: usize,
    ptx: String,
    operands: String,
}

impl Recorded {
    /// Returns the recorded output of a case, or the reason why none is usable.
    pub fn output(&self, manifest: &Manifest, file: &File, text: &str, case: &Case) -> Result<&[u8], String> {
        let entry = self.cases.get(&format!("{}/{}", file.ptx, case.name)).ok_or("no recorded data")?;
        if entry.ptx != format!("{:016x}", fnv(text.as_bytes(), FNV)) {
            return Err("recorded from another PTX text; record again".to_owned());
        }
        if entry.operands != case.fingerprint(&manifest.tables) {
            return Err("recorded from other operands; record again".to_owned());
        }
        self.data.get(entry.offset..entry.offset + entry.bytes).ok_or_else(|| "expected.bin is too short".to_owned())
    }
}

/// Returns the folder of the conformance set.
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("conformance")
}

/// Returns the cases and the recorded data.
pub fn load() -> (Manifest, Recorded) {
    let read = |name: &str| std::fs::read_to_string(folder().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    let manifest = serde_json::from_str(&read("cases.json")).expect("cases.json is as suite.rs has it");
    let mut recorded: Recorded =
        serde_json::from_str(&read("expected/expected.json")).expect("expected.json is as suite.rs has it");
    recorded.data =
        std::fs::read(folder().join("expected/expected.bin")).expect("expected.bin is beside expected.json");
    (manifest, recorded)
}

/// Start of [`fnv`].
const FNV: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a of 64 bits.
fn fnv(data: &[u8], state: u64) -> u64 {
    data.iter().fold(state, |state, &byte| (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
