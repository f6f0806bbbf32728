//! The tables of operands in cases.json; `conformance/families/common.py` has the same in Python.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Tables by name; a table is the sequence of its parts.
pub type Tables = BTreeMap<String, Vec<Part>>;

/// A part of a table.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Part {
    /// Literal bytes.
    Hex { hex: String },
    /// One column of all `arity`-tuples of the literal values, the last column changing fastest.
    Product { product: String, width: usize, arity: u32, column: u32 },
    /// Numbers from splitmix64, mapped to an element kind.
    Random { random: String, seed: u64, count: usize },
}

/// Returns the bytes of a table.
pub fn bytes(tables: &Tables, name: &str) -> Vec<u8> {
    let parts = tables.get(name).unwrap_or_else(|| panic!("cases.json has no table {name}"));
    parts.iter().flat_map(part_bytes).collect()
}

fn part_bytes(part: &Part) -> Vec<u8> {
    match part {
        Part::Hex { hex } => unhex(hex),
        Part::Product { product, width, arity, column } => {
            let values = unhex(product);
            let values: Vec<&[u8]> = values.chunks(*width).collect();
            let stride = values.len().pow(arity - 1 - column);
            (0..values.len().pow(*arity)).flat_map(|i| values[i / stride % values.len()]).copied().collect()
        }
        Part::Random { random, seed, count } => {
            let mut numbers = SplitMix64(*seed);
            (0..*count).flat_map(|_| element(random, numbers.next())).collect()
        }
    }
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |byte: u8| (byte as char).to_digit(16).expect("a hexadecimal digit") as u8;
    text.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

/// Vigna's splitmix64.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = self.0;
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Returns the bytes of one element, made from a random number.
fn element(kind: &str, x: u64) -> Vec<u8> {
    let small = ((x >> 54) as i64 - 512) as f32 / 512.0;
    let whole = (x >> 60) as i64 - 8;
    let word = |x: u64| (x as u32).to_le_bytes().to_vec();
    let short = |x: u64| (x as u16).to_le_bytes().to_vec();
    match kind {
        "u8" => vec![(x >> 56) as u8],
        "u16" => short(x >> 48),
        "u32" => word(x >> 32),
        "u64" => x.to_le_bytes().to_vec(),
        "near32" => word(((x >> 63) << 31) | ((120 + ((x >> 32) & 15)) << 23) | (x & 0x7f_ffff)),
        "near64" => {
            (((x >> 63) << 63) | ((1016 + ((x >> 52) & 15)) << 52) | (x & 0xf_ffff_ffff_ffff)).to_le_bytes().to_vec()
        }
        "near16" => short(((x >> 63) << 15) | ((11 + ((x >> 32) & 7)) << 10) | (x & 0x3ff)),
        "nearbf" => short(((x >> 63) << 15) | ((120 + ((x >> 32) & 15)) << 7) | (x & 0x7f)),
        "f16" => short(exact_half(small)),
        "bf16" => short(u64::from(small.to_bits() >> 16)),
        "f32" => word(u64::from(small.to_bits())),
        "i8" => vec![whole as u8],
        "if16" => short(exact_half(whole as f32)),
        "ibf16" => short(u64::from((whole as f32).to_bits() >> 16)),
        "if32" => word(u64::from((whole as f32).to_bits())),
        _ => panic!("cases.json has an unknown kind of random numbers: {kind}"),
    }
}

/// Returns the f16 bits of a number that f16 represents exactly, zero or normal.
fn exact_half(value: f32) -> u64 {
    if value == 0.0 {
        return 0;
    }
    let bits = value.to_bits();
    u64::from(((bits >> 31) << 15) | ((((bits >> 23) & 0xff) - 112) << 10) | ((bits >> 13) & 0x3ff))
}
