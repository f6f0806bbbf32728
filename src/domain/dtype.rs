//! Element types of tensors, and how a number is rounded to them.

use half::{bf16, f16};
use numerics::{compare, convert};
use serde::{Deserialize, Serialize};

/// The element type of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// IEEE binary16.
    F16,
    /// The upper half of an IEEE binary32.
    Bf16,
    /// IEEE binary32.
    F32,
    /// IEEE binary64.
    F64,
    /// 8-bit floating point with 4 bits of exponent and 3 of mantissa, without infinities.
    E4m3,
    /// 8-bit floating point with 5 bits of exponent and 2 of mantissa.
    E5m2,
    /// Signed 8-bit integers.
    I8,
    /// Unsigned 8-bit integers.
    U8,
    /// Signed 32-bit integers.
    I32,
    /// Unsigned 32-bit integers.
    U32,
    /// Signed 64-bit integers.
    I64,
    /// A byte that is 0 or 1.
    Bool,
}

impl Dtype {
    /// Every element type: first those whose inputs are kept as numbers, and last the one of which F64 does not hold every number.
    pub const ALL: [Self; 12] = [
        Self::F16,
        Self::Bf16,
        Self::F32,
        Self::F64,
        Self::E4m3,
        Self::E5m2,
        Self::I8,
        Self::U8,
        Self::Bool,
        Self::I32,
        Self::U32,
        Self::I64,
    ];

    /// Returns the type of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// Returns the size of one element in bytes.
    pub fn bytes(self) -> usize {
        match self {
            Self::E4m3 | Self::E5m2 | Self::I8 | Self::U8 | Self::Bool => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F64 | Self::I64 => 8,
        }
    }

    /// Returns the largest finite value.
    pub fn largest(self) -> f64 {
        match self {
            Self::F16 => 65504.0,
            Self::Bf16 => f64::from(half::bf16::MAX),
            Self::F32 => f64::from(f32::MAX),
            Self::F64 => f64::MAX,
            Self::E4m3 => 448.0,
            Self::E5m2 => 57344.0,
            Self::I8 => 127.0,
            Self::U8 => 255.0,
            Self::I32 => f64::from(i32::MAX),
            Self::U32 => f64::from(u32::MAX),
            Self::I64 => i64::MAX as f64,
            Self::Bool => 1.0,
        }
    }

    /// Returns the smallest value.
    pub fn smallest(self) -> f64 {
        match self {
            Self::U8 | Self::U32 | Self::Bool => 0.0,
            Self::I8 => -128.0,
            Self::I32 => f64::from(i32::MIN),
            Self::I64 => i64::MIN as f64,
            _ => -self.largest(),
        }
    }

    /// Returns the difference between one and the next larger number; 0 for whole numbers, whose sums are exact.
    pub fn epsilon(self) -> f64 {
        let bits = match self {
            Self::F16 => 10,
            Self::Bf16 => 7,
            Self::F32 => 23,
            Self::F64 => 52,
            Self::E4m3 => 3,
            Self::E5m2 => 2,
            _ => return 0.0,
        };
        2.0_f64.powi(-bits)
    }

    /// Returns the name that manifests, workloads and templates use.
    pub fn name(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::E4m3 => "e4m3",
            Self::E5m2 => "e5m2",
            Self::I8 => "i8",
            Self::U8 => "u8",
            Self::I32 => "i32",
            Self::U32 => "u32",
            Self::I64 => "i64",
            Self::Bool => "bool",
        }
    }

    /// Returns whether it holds whole numbers only.
    pub fn is_integer(self) -> bool {
        matches!(self, Self::I8 | Self::U8 | Self::I32 | Self::U32 | Self::I64 | Self::Bool)
    }

    /// Returns whether it is one that fractions are rounded to on purpose: where one ends on a tie is a matter of rounding.
    pub fn is_quantised(self) -> bool {
        matches!(self, Self::I8 | Self::U8) || self.is_float8()
    }

    /// Returns whether the value of an input is kept as its bits, because an F32 does not hold every whole number of this type.
    pub fn is_kept_as_bits(self) -> bool {
        matches!(self, Self::I32 | Self::U32 | Self::I64)
    }

    /// Returns how many F32 keep one element of an input: two for the halves of 64 bits, the lower first, and otherwise one.
    pub fn slots(self) -> usize {
        if self == Self::I64 { 2 } else { 1 }
    }

    /// Returns the bytes of the element that one F32 keeps.
    pub fn slot_bytes(self) -> usize {
        self.bytes() / self.slots()
    }

    /// Returns an input's numbers. Those beyond 2^53 are rounded.
    pub fn numbers(self, kept: &[f32]) -> Vec<f64> {
        let word = |value: &f32| value.to_bits();
        match self {
            Self::I32 => kept.iter().map(|value| f64::from(word(value) as i32)).collect(),
            Self::U32 => kept.iter().map(|value| f64::from(word(value))).collect(),
            Self::I64 => {
                let whole = |halves: &[f32]| u64::from(word(&halves[0])) | u64::from(word(&halves[1])) << 32;
                kept.chunks_exact(2).map(|halves| whole(halves) as i64 as f64).collect()
            }
            _ => kept.iter().map(|value| f64::from(*value)).collect(),
        }
    }

    /// Returns a whole number that an input keeps. `kept` has the slots of one element.
    pub fn kept(self, kept: &[f32]) -> i64 {
        let word = |value: &f32| i64::from(value.to_bits());
        match (self, kept) {
            (_, [low, high]) => word(low) | word(high) << 32,
            (Self::U32, [value]) => word(value),
            (Self::I32, [value]) => i64::from(value.to_bits() as i32),
            _ => kept.first().map_or(0, |value| *value as i64),
        }
    }

    /// Keeps a whole number as an input keeps it. `kept` has the slots of one element.
    pub fn keep(self, number: i64, kept: &mut [f32]) {
        match kept {
            [low, high] => {
                *low = f32::from_bits(number as u32);
                *high = f32::from_bits((number >> 32) as u32);
            }
            [value] if self.is_kept_as_bits() => *value = f32::from_bits(number as u32),
            _ => kept.fill(number as f32),
        }
    }

    /// Returns the number of an output's element, as [`Dtype::decode_exactly`] and oracles give it. One beyond 2^53 is rounded.
    pub fn number(self, exact: f64) -> f64 {
        if self == Self::I64 { exact.to_bits() as i64 as f64 } else { exact }
    }

    /// Returns whether it is one of the 8-bit floating-point formats. Conversions to them saturate by custom.
    pub fn is_float8(self) -> bool {
        matches!(self, Self::E4m3 | Self::E5m2)
    }

    /// Returns whether two elements of outputs, as [`Dtype::decode_exactly`] and oracles give them, are the same number.
    pub fn is_same(self, a: f64, b: f64) -> bool {
        if self == Self::I64 { a.to_bits() == b.to_bits() } else { a == b }
    }

    /// Returns whether all elements are the same numbers.
    pub fn are_same(self, a: &[f64], b: &[f64]) -> bool {
        if self == Self::I64 { compare::have_equal_bits(a, b) } else { compare::are_equal(a, b) }
    }

    /// Rounds a value to the nearest one of this type. 8-bit types saturate. What is kept as bits stays as it is.
    pub fn rounded(self, value: f32) -> f32 {
        match self {
            Self::F16 => f16::from_f32(value).to_f32(),
            Self::Bf16 => bf16::from_f32(value).to_f32(),
            Self::F32 | Self::F64 | Self::I32 | Self::U32 | Self::I64 => value,
            Self::E4m3 => Float8::E4M3.rounded(value),
            Self::E5m2 => Float8::E5M2.rounded(value),
            Self::I8 | Self::U8 | Self::Bool => {
                (f64::from(value).round_ties_even().clamp(self.smallest(), self.largest())) as f32
            }
        }
    }

    /// Rounds values to the nearest ones of this type, as [`Dtype::rounded`] does.
    pub fn round(self, values: &mut [f32]) {
        match self {
            Self::F16 => convert::round_f16(values),
            Self::Bf16 => convert::round_bf16(values),
            Self::F32 | Self::F64 => {}
            _ => values.iter_mut().for_each(|value| *value = self.rounded(*value)),
        }
    }

    /// Returns whether it has an infinity, which is no number of the finite range.
    pub fn has_infinity(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16 | Self::F32 | Self::F64)
    }

    /// Writes an input's values as elements, little-endian. `bytes` must have exactly their size.
    pub fn encode(self, values: &[f32], bytes: &mut [u8]) {
        match self {
            Self::F16 => convert::encode_f16(values, bytes),
            Self::Bf16 => convert::encode_bf16(values, bytes),
            Self::F32 => convert::encode_f32(values, bytes),
            Self::F64 => convert::encode_f64(values, bytes),
            Self::E4m3 => encode(values, bytes, |value| [Float8::E4M3.encode(value)]),
            Self::E5m2 => encode(values, bytes, |value| [Float8::E5M2.encode(value)]),
            Self::I8 => encode(values, bytes, |value| (value as i8).to_le_bytes()),
            Self::U8 => encode(values, bytes, |value| [value as u8]),
            Self::I32 | Self::U32 | Self::I64 => convert::encode_bits(values, bytes),
            Self::Bool => encode(values, bytes, |value| [u8::from(value != 0.0)]),
        }
    }

    /// Reads elements as the values of an input, which are exact ([`Values`](super::op::Values)).
    pub fn decode(self, bytes: &[u8], values: &mut [f32]) {
        match self {
            Self::F16 => convert::decode_f16(bytes, values),
            Self::Bf16 => convert::decode_bf16(bytes, values),
            Self::F32 => convert::decode_f32(bytes, values),
            Self::F64 => decode(bytes, values, |bytes| f64::from_le_bytes(bytes) as f32),
            Self::E4m3 => decode(bytes, values, |[byte]| Float8::E4M3.decode(byte)),
            Self::E5m2 => decode(bytes, values, |[byte]| Float8::E5M2.decode(byte)),
            Self::I8 => decode(bytes, values, |bytes| f32::from(i8::from_le_bytes(bytes))),
            Self::U8 | Self::Bool => convert::decode_u8(bytes, values),
            Self::I32 | Self::U32 | Self::I64 => convert::decode_bits(bytes, values),
        }
    }

    /// Reads elements as F64, which holds every value of every type exactly, except I64: of these it has the bits
    /// ([`Dtype::number`]).
    pub fn decode_exactly(self, bytes: &[u8]) -> Vec<f64> {
        let mut exact = vec![0.0; bytes.len() / self.bytes()];
        match self {
            Self::F64 => convert::decode_f64(bytes, &mut exact),
            Self::I32 => convert::decode_i32(bytes, &mut exact),
            Self::U32 => convert::decode_u32(bytes, &mut exact),
            Self::I64 => decode(bytes, &mut exact, |bytes| f64::from_bits(u64::from_le_bytes(bytes))),
            _ => {
                let mut values = vec![0.0; exact.len()];
                self.decode(bytes, &mut values);
                exact = convert::widened(&values);
            }
        }
        exact
    }

    /// Returns whether all elements are finite numbers. This is much faster than asking for each: the loops have no branch,
    /// so that the compiler vectorises them.
    pub fn are_finite(self, bytes: &[u8]) -> bool {
        !match self {
            Self::F16 => convert::any_u16_has(bytes, 0x7c00),
            Self::Bf16 => convert::any_u16_has(bytes, 0x7f80),
            Self::F32 => convert::any_f32_is_not_finite(bytes),
            Self::F64 => has_any(bytes, |bytes| !f64::from_le_bytes(bytes).is_finite()),
            Self::E4m3 | Self::E5m2 => has_any(bytes, |byte: [u8; 1]| !self.is_finite(&byte)),
            Self::I8 | Self::U8 | Self::I32 | Self::U32 | Self::I64 | Self::Bool => false,
        }
    }

    /// Returns the bits that are all set in an element that is NaN or infinite, and in no other. `None` for whole numbers.
    pub fn not_finite_bits(self) -> Option<u64> {
        match self {
            Self::F16 => Some(0x7c00),
            Self::Bf16 => Some(0x7f80),
            Self::F32 => Some(0x7f80_0000),
            Self::F64 => Some(0x7ff0_0000_0000_0000),
            Self::E4m3 => Some(0x7f),
            Self::E5m2 => Some(0x7c),
            Self::I8 | Self::U8 | Self::I32 | Self::U32 | Self::I64 | Self::Bool => None,
        }
    }

    /// Returns whether the bytes of an element are those of a finite number.
    pub fn is_finite(self, element: &[u8]) -> bool {
        match (self, element) {
            (Self::F16, &[a, b]) => f16::from_le_bytes([a, b]).is_finite(),
            (Self::Bf16, &[a, b]) => bf16::from_le_bytes([a, b]).is_finite(),
            (Self::F32, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]).is_finite(),
            (Self::E4m3, &[byte]) => Float8::E4M3.decode(byte).is_finite(),
            (Self::E5m2, &[byte]) => Float8::E5M2.decode(byte).is_finite(),
            (Self::F64, _) => self.decode_exactly(element).iter().all(|value| value.is_finite()),
            _ => true,
        }
    }
}

fn encode<const N: usize>(values: &[f32], bytes: &mut [u8], encode: impl Fn(f32) -> [u8; N]) {
    bytes.chunks_exact_mut(N).zip(values).for_each(|(bytes, value)| bytes.copy_from_slice(&encode(*value)));
}

fn decode<const N: usize, T>(bytes: &[u8], values: &mut [T], decode: impl Fn([u8; N]) -> T) {
    let elements = bytes.chunks_exact(N).map(|bytes| decode(bytes.try_into().expect("a chunk has N bytes")));
    values.iter_mut().zip(elements).for_each(|(value, decoded)| *value = decoded);
}

/// Returns whether any element has a property. Every element is read, so that the loop has no branch.
fn has_any<const N: usize>(bytes: &[u8], is: impl Fn([u8; N]) -> bool) -> bool {
    let elements = bytes.chunks_exact(N).map(|bytes| is(bytes.try_into().expect("a chunk has N bytes")));
    elements.fold(false, |any, one| any | one)
}

/// An 8-bit floating-point format (Micikevicius et al., FP8 Formats for Deep Learning, 2022).
struct Float8 {
    mantissa_bits: i32,
    /// What is subtracted from a stored exponent.
    bias: i32,
    largest: f32,
    /// The bits of the largest finite number, without a sign. Larger ones are infinity or NaN.
    largest_bits: u8,
    /// Whether the bits after the largest finite number are infinity.
    has_infinity: bool,
}

impl Float8 {
    const E4M3: Self = Self { mantissa_bits: 3, bias: 7, largest: 448.0, largest_bits: 0x7e, has_infinity: false };
    const E5M2: Self = Self { mantissa_bits: 2, bias: 15, largest: 57344.0, largest_bits: 0x7b, has_infinity: true };

    /// Rounds to nearest, ties to even, and saturates.
    fn rounded(&self, value: f32) -> f32 {
        if value.is_nan() {
            return value;
        }
        let step = self.step(value);
        ((value / step).round_ties_even() * step).clamp(-self.largest, self.largest)
    }

    /// Returns the distance of neighbouring numbers around a value.
    fn step(&self, value: f32) -> f32 {
        let exponent = (value.to_bits() >> 23 & 0xff) as i32 - 127;
        ((exponent.max(1 - self.bias) - self.mantissa_bits) as f32).exp2()
    }

    fn encode(&self, value: f32) -> u8 {
        if value.is_nan() {
            return 0x7f;
        }
        let value = self.rounded(value);
        let sign = u8::from(value.is_sign_negative()) << 7;
        // The bits of a positive number count its steps from zero, through all exponents.
        let exponent = ((value.to_bits() >> 23 & 0xff) as i32 - 127).max(1 - self.bias);
        let in_exponent = (value.abs() / self.step(value)) as i32;
        let before = (exponent + self.bias - 1) << self.mantissa_bits;
        sign | (before + in_exponent) as u8
    }

    fn decode(&self, byte: u8) -> f32 {
        let (bits, sign) = (byte & 0x7f, if byte & 0x80 == 0 { 1.0 } else { -1.0 });
        if bits > self.largest_bits {
            let is_infinite = self.has_infinity && bits == self.largest_bits + 1;
            return if is_infinite { sign * f32::INFINITY } else { f32::NAN };
        }
        let exponent = i32::from(bits >> self.mantissa_bits);
        let hidden = if exponent == 0 { 0 } else { 1 << self.mantissa_bits };
        let mantissa = hidden | i32::from(bits) & ((1 << self.mantissa_bits) - 1);
        sign * mantissa as f32 * ((exponent.max(1) - self.bias - self.mantissa_bits) as f32).exp2()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_rounded_is_encoded_exactly() {
        for dtype in Dtype::ALL.into_iter().filter(|dtype| !dtype.is_kept_as_bits()) {
            for value in [0.0_f32, 1.0, -1.5, 0.3, 7.49, 100.2, 1e-3, 2e-9, 449.0, -60000.0] {
                let rounded = dtype.rounded(value);
                let mut bytes = vec![0; dtype.bytes()];
                dtype.encode(&[rounded], &mut bytes);
                assert_eq!(dtype.decode_exactly(&bytes), [f64::from(rounded)], "{value} in {}", dtype.name());
                assert!(dtype.is_finite(&bytes) && dtype.are_finite(&bytes));
            }
            let poisoned = [vec![0; dtype.bytes()], vec![0xff; dtype.bytes()]].concat();
            assert_eq!(dtype.are_finite(&poisoned), dtype.is_integer(), "{}", dtype.name());
        }
    }

    #[test]
    fn whole_numbers_of_the_whole_range_are_kept_and_read_exactly() {
        for (dtype, ends) in [
            (Dtype::I32, [i64::from(i32::MIN), i64::from(i32::MAX)]),
            (Dtype::U32, [0, i64::from(u32::MAX)]),
            (Dtype::I64, [i64::MIN, i64::MAX]),
        ] {
            for number in [ends[0], ends[1], ends[1] - 1, 0, 7, (1 << 24) + 1, 0x7f80_0001] {
                let (mut kept, mut bytes) = (vec![0.0; dtype.slots()], vec![0; dtype.bytes()]);
                dtype.keep(number, &mut kept);
                dtype.encode(&kept, &mut bytes);
                assert_eq!(bytes, number.to_le_bytes()[..dtype.bytes()], "{number} in {}", dtype.name());
                let mut read = vec![0.0; dtype.slots()];
                dtype.decode(&bytes, &mut read);
                assert!(read.iter().zip(&kept).all(|(read, kept)| read.to_bits() == kept.to_bits()));
                assert_eq!((dtype.kept(&kept), &dtype.numbers(&kept)[..]), (number, &[number as f64][..]));
                assert_eq!(dtype.number(dtype.decode_exactly(&bytes)[0]), number as f64);
            }
        }
    }

    /// All numbers of up to 16 bits, and F32 and F64 with these bits at the front.
    #[test]
    fn the_bits_of_what_is_not_finite_are_set_nowhere_else() {
        for dtype in Dtype::ALL.into_iter().filter(|dtype| !dtype.is_integer()) {
            for front in 0..=u16::MAX {
                let bytes = dtype.bytes();
                let number = if bytes < 2 { u64::from(front) & 0xff } else { u64::from(front) << (8 * (bytes - 2)) };
                let bits = dtype.not_finite_bits().unwrap();
                let has_all = number & bits == bits;
                assert_eq!(dtype.is_finite(&number.to_le_bytes()[..bytes]), !has_all, "{front:x} in {}", dtype.name());
            }
        }
    }

    /// More than one block, and a part of one.
    #[test]
    fn many_f16_are_converted_like_one() {
        let all: Vec<u8> = (0..=u16::MAX).chain(0..100).flat_map(u16::to_le_bytes).collect();
        let mut values = vec![0.0; all.len() / 2];
        Dtype::F16.decode(&all, &mut values);
        for (bytes, value) in all.chunks_exact(2).zip(&values) {
            let expected = f16::from_le_bytes([bytes[0], bytes[1]]).to_f32();
            assert!(*value == expected || value.is_nan() && expected.is_nan(), "{value} and {expected}");
        }
        let between: Vec<f32> = values.iter().map(|value| value * 1.0003).collect();
        let mut encoded = vec![0; all.len()];
        Dtype::F16.encode(&between, &mut encoded);
        for (bytes, value) in encoded.chunks_exact(2).zip(&between) {
            let (found, expected) = (f16::from_le_bytes([bytes[0], bytes[1]]), f16::from_f32(*value));
            assert!(found == expected || found.is_nan() && expected.is_nan(), "{found} and {expected}");
        }
    }

    /// The 256 numbers of each format, against the tables of the formats' definition.
    #[test]
    fn float8_has_the_numbers_of_its_definition() {
        let decoded = |format: &Float8, byte| format.decode(byte);
        for (byte, value) in [(0x00, 0.0), (0x01, 2.0_f32.powi(-9)), (0x07, 0.875 * 2.0_f32.powi(-6)), (0x38, 1.0)] {
            assert_eq!(decoded(&Float8::E4M3, byte), value);
        }
        assert_eq!([0x08, 0x7e, 0xfe].map(|byte| decoded(&Float8::E4M3, byte)), [2.0_f32.powi(-6), 448.0, -448.0]);
        assert!(decoded(&Float8::E4M3, 0x7f).is_nan() && decoded(&Float8::E4M3, 0xff).is_nan());
        assert_eq!([0x01, 0x3c, 0x7b].map(|byte| decoded(&Float8::E5M2, byte)), [2.0_f32.powi(-16), 1.0, 57344.0]);
        assert_eq!(decoded(&Float8::E5M2, 0xfc), f32::NEG_INFINITY);
        for format in [Float8::E4M3, Float8::E5M2] {
            for byte in (0..=255_u8).filter(|byte| format.decode(*byte).is_finite()) {
                assert_eq!(format.encode(format.decode(byte)), byte);
            }
            // Halfway between two neighbours, the even one is the nearest.
            for byte in 0..format.largest_bits {
                let between = (format.decode(byte) + format.decode(byte + 1)) / 2.0;
                assert_eq!(format.encode(between), byte + byte % 2);
            }
        }
    }
}
