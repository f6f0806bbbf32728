//! When an output counts as equal to the recorded one.

use half::{bf16, f16};
use serde::Deserialize;

/// The rule of a section.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Rule {
    /// "exact": the same bits, NaN included.
    Exact(String),
    /// Floats with small differences. One satisfied bound is enough. All NaN are equal, and the sign of zero counts.
    Close {
        /// Units in the last place.
        #[serde(default)]
        ulp: u64,
        /// Relative to the recorded value.
        #[serde(default)]
        rel: f64,
        /// Absolute.
        #[serde(default)]
        abs: f64,
    },
}

/// Returns the bytes of an element of a type.
pub fn width(kind: &str) -> usize {
    match kind {
        "u8" => 1,
        "u16" | "f16" | "bf16" => 2,
        "u32" | "f32" => 4,
        "u64" | "f64" => 8,
        _ => panic!("cases.json has an unknown type: {kind}"),
    }
}

/// Returns an element's bits.
pub fn bits(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |bits, &byte| (bits << 8) | u64::from(byte))
}

/// Returns an element's value, if it is of a floating-point type.
pub fn value(kind: &str, bits: u64) -> Option<f64> {
    match kind {
        "f16" => Some(f16::from_bits(bits as u16).to_f64()),
        "bf16" => Some(bf16::from_bits(bits as u16).to_f64()),
        "f32" => Some(f64::from(f32::from_bits(bits as u32))),
        "f64" => Some(f64::from_bits(bits)),
        _ => None,
    }
}

impl Rule {
    /// Returns whether `got` matches the recorded element.
    pub fn accepts(&self, kind: &str, expected: u64, got: u64) -> bool {
        if expected == got {
            return true;
        }
        let (ulp, rel, abs) = match self {
            Self::Exact(word) => {
                assert_eq!(word, "exact", "a rule of cases.json");
                return false;
            }
            Self::Close { ulp, rel, abs } => (*ulp, *rel, *abs),
        };
        let (Some(wanted), Some(found)) = (value(kind, expected), value(kind, got)) else { return false };
        if wanted.is_nan() || found.is_nan() {
            return wanted.is_nan() && found.is_nan();
        }
        // The bits differ, so these are zeros of opposite signs.
        if wanted == found {
            return false;
        }
        let distance = order(kind, expected).abs_diff(order(kind, got));
        let difference = (wanted - found).abs();
        // Only its neighbour is close to infinity.
        let finite = wanted.is_finite() && found.is_finite();
        u128::from(ulp) >= distance || finite && (difference <= abs || difference <= rel * wanted.abs())
    }
}

/// Returns a float's position in the order of all floats of its type.
fn order(kind: &str, bits: u64) -> i128 {
    let sign = 1_u64 << (8 * width(kind) - 1);
    if bits & sign == 0 { i128::from(bits) } else { -i128::from(bits ^ sign) }
}

/// Formats an element for a message.
pub fn show(kind: &str, bits: u64) -> String {
    let digits = 2 * width(kind);
    match value(kind, bits) {
        Some(value) => format!("{bits:#0w$x} ({value:e})", w = digits + 2),
        None => format!("{bits:#0w$x}", w = digits + 2),
    }
}
