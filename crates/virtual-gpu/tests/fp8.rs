//! Matrix products of 8-bit floats, as NVRTC compiles them (ptx/fp8.cu), against sums in f64.
//!
//! They are not in the conformance set: Hopper keeps some 14 bits of such a sum, and this crate all of f32.

use virtual_gpu::gpu::Gpu;
use virtual_gpu::numeric::{e4m3_to_f32, e5m2_to_f32, f16_to_f32, f32_to_f16};
use virtual_gpu::{Launch, Options, VirtualGpu, ptx};

/// A format by PTX's name, with its bits of fraction and its bias.
#[derive(Clone, Copy)]
struct Format {
    name: &'static str,
    fraction: i32,
    bias: i32,
}

const E4M3: Format = Format { name: "e4m3", fraction: 3, bias: 7 };
const E5M2: Format = Format { name: "e5m2", fraction: 2, bias: 15 };
const PAIRS: [[Format; 2]; 4] = [[E4M3, E4M3], [E4M3, E5M2], [E5M2, E4M3], [E5M2, E5M2]];

impl Format {
    /// The value by the formats' definition.
    fn value(self, byte: u8) -> f64 {
        let sign = if byte < 0x80 { 1.0 } else { -1.0 };
        let magnitude = i32::from(byte & 0x7f);
        let (exponent, fraction) = (magnitude >> self.fraction, magnitude & ((1 << self.fraction) - 1));
        match (self.name, exponent) {
            ("e4m3", 15) if fraction == 7 => f64::NAN,
            ("e5m2", 31) if fraction == 0 => sign * f64::INFINITY,
            ("e5m2", 31) => f64::NAN,
            (_, 0) => sign * f64::from(fraction) * 2f64.powi(1 - self.bias - self.fraction),
            _ => sign * f64::from(fraction + (1 << self.fraction)) * 2f64.powi(exponent - self.bias - self.fraction),
        }
    }

    /// Deterministic bytes with exponents from 2^-2 to 2^1, so that sums of their products are exact in f32, and zeros.
    fn bytes(self, count: usize, seed: u32) -> Vec<u8> {
        let mut state = seed;
        let mut next = move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 16
        };
        let byte = |random: u32| {
            let exponent = (self.bias - 2) as u32 + (random >> 4 & 3);
            let fraction = random & ((1 << self.fraction) - 1);
            if random.is_multiple_of(11) {
                0
            } else {
                ((random >> 8 & 1) << 7 | exponent << self.fraction | fraction) as u8
            }
        };
        (0..count).map(|_| byte(next())).collect()
    }
}

/// Runs a kernel of one block on A, B and the contents of the output.
fn run(kernel: &str, threads: u32, a: &[u8], b: &[u8], output: &[u8]) -> Vec<u8> {
    let path = format!("{}/tests/ptx/fp8.ptx", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let mut gpu = VirtualGpu::new(Gpu::h200());
    let module = gpu.load(ptx::load("fp8.ptx", &text).unwrap_or_else(|error| panic!("{error}"))).unwrap();
    let place = |gpu: &mut VirtualGpu, bytes: &[u8]| {
        let address = gpu.alloc(bytes.len() as u64).unwrap();
        gpu.write(address, bytes).unwrap();
        address
    };
    let addresses = [a, b, output].map(|bytes| place(&mut gpu, bytes));
    let args = addresses.map(|address| address.to_le_bytes().to_vec());
    let launch = Launch { grid: [1; 3], block: [threads, 1, 1], cluster: [1; 3], dynamic_shared_bytes: 0, args: &args };
    gpu.launch(&module, kernel, &launch, &Options::default()).unwrap_or_else(|error| panic!("{kernel}: {error}"));
    gpu.read(addresses[2], output.len() as u64).unwrap()
}

/// Returns A B^T, row by row.
fn product([a_format, b_format]: [Format; 2], a: &[u8], b: &[u8], k: usize) -> Vec<f64> {
    let sum = |row: &[u8], column: &[u8]| -> f64 {
        row.iter().zip(column).map(|(x, y)| a_format.value(*x) * b_format.value(*y)).sum()
    };
    a.chunks(k).flat_map(|row| b.chunks(k).map(move |column| sum(row, column))).collect()
}

fn singles(bytes: &[u8]) -> Vec<f64> {
    bytes.chunks(4).map(|four| f32::from_le_bytes(four.try_into().unwrap()).into()).collect()
}

fn halves(bytes: &[u8]) -> Vec<f64> {
    bytes.chunks(2).map(|two| f16_to_f32(u16::from_le_bytes([two[0], two[1]]).into()).into()).collect()
}

/// What an accumulator holds before: multiples of 1/4.
fn accumulator(count: usize) -> Vec<f64> {
    (0..count).map(|index| (index % 37) as f64 / 4.0 - 4.0).collect()
}

fn single_bytes(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|x| (*x as f32).to_le_bytes()).collect()
}

fn half_bytes(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|x| (f32_to_f16(*x as f32) as u16).to_le_bytes()).collect()
}

#[test]
fn every_byte_has_the_value_of_its_format() {
    for byte in 0..=255_u8 {
        // The other bytes of the word do not count.
        let word = 0xdead_be00 | u32::from(byte);
        for (format, widened) in [(E4M3, e4m3_to_f32(word)), (E5M2, e5m2_to_f32(word))] {
            let (found, value) = (f64::from(widened), format.value(byte));
            let same = found.to_bits() == value.to_bits() || found.is_nan() && value.is_nan();
            assert!(same, "{} {byte:#x}: {found} is not {value}", format.name);
        }
    }
    assert_eq!([0x7e, 0x01, 0x08].map(|byte| E4M3.value(byte)), [448.0, 1.0 / 512.0, 1.0 / 64.0]);
    assert_eq!([0x7b, 0x01, 0x04].map(|byte| E5M2.value(byte)), [57344.0, 1.0 / 65536.0, 1.0 / 16384.0]);
}

#[test]
fn products_of_a_warp_are_those_of_the_values() {
    for formats in PAIRS {
        for k in [16, 32] {
            let (a, b) = (formats[0].bytes(16 * k, 1), formats[1].bytes(8 * k, 2));
            let (old, sums) = (accumulator(16 * 8), product(formats, &a, &b, k));
            let expected: Vec<f64> = old.iter().zip(sums).map(|(c, sum)| c + sum).collect();
            let kernel = |d: &str| format!("mma_k{k}_{d}_{}_{}", formats[0].name, formats[1].name);
            assert_eq!(singles(&run(&kernel("f32"), 32, &a, &b, &single_bytes(&old))), expected, "{}", kernel("f32"));
            // Rounded once.
            let rounded = halves(&half_bytes(&expected));
            assert_eq!(halves(&run(&kernel("f16"), 32, &a, &b, &half_bytes(&old))), rounded, "{}", kernel("f16"));
        }
    }
}

#[test]
fn products_of_a_warpgroup_are_those_of_the_values() {
    for formats in PAIRS {
        let (a, b) = (formats[0].bytes(64 * 32, 3), formats[1].bytes(16 * 32, 4));
        let (old, sums) = (accumulator(64 * 16), product(formats, &a, &b, 32));
        let kernel = |kind: &str| format!("wgmma_{kind}_{}_{}", formats[0].name, formats[1].name);
        // One negates B, the other A.
        let expected: Vec<f64> = old.iter().zip(&sums).map(|(c, sum)| c - sum).collect();
        for kind in ["shared", "registers"] {
            assert_eq!(singles(&run(&kernel(kind), 128, &a, &b, &single_bytes(&old))), expected, "{}", kernel(kind));
        }
        let replaced = halves(&half_bytes(&sums));
        assert_eq!(halves(&run(&kernel("f16"), 128, &a, &b, &half_bytes(&old))), replaced, "{}", kernel("f16"));
    }
}

/// Every byte meets a 1 of the other matrix, alone in its row: the product is the byte's value.
#[test]
fn special_values_and_subnormals_pass_through_a_product() {
    for [format, other] in PAIRS {
        let one = (other.bias << other.fraction) as u8;
        for first in (0..=255_u8).step_by(16) {
            let mut a = vec![0; 16 * 32];
            (0..16).for_each(|row| a[row * 32 + 2 * row] = first + row as u8);
            let b = vec![one; 8 * 32];
            let kernel = format!("mma_k32_f32_{}_{}", format.name, other.name);
            let found = singles(&run(&kernel, 32, &a, &b, &single_bytes(&[0.0; 128])));
            for (index, x) in found.iter().enumerate() {
                let value = format.value(first + (index / 8) as u8);
                assert!(*x == value || x.is_nan() && value.is_nan(), "{kernel}: {x} is not {value}");
            }
        }
    }
}
