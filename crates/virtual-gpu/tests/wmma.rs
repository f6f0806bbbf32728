//! Products of tiles (`wmma`) and of 4-bit integers, on PTX that NVRTC compiled. All numbers are small integers, so
//! every type holds them, and every sum is exact.

use half::{bf16, f16};
use virtual_gpu::gpu::Gpu;
use virtual_gpu::{Launch, Options, VirtualGpu, ptx};

/// The kernels of `ptx/wmma.cu`.
const WMMA: &str = include_str!("ptx/wmma.ptx");

/// A matrix of small integers.
#[derive(Clone)]
struct Matrix {
    rows: usize,
    columns: usize,
    by_rows: bool,
    values: Vec<i32>,
}

impl Matrix {
    /// Makes a matrix whose values follow from a seed.
    fn new(rows: usize, columns: usize, by_rows: bool, seed: usize) -> Self {
        let values = (0..rows * columns).map(|at| ((at * at + 7 * at + seed) % 13 % 8) as i32).collect();
        Self { rows, columns, by_rows, values }
    }

    fn at(&self, row: usize, column: usize) -> i32 {
        self.values[row * self.columns + column]
    }

    fn times(&self, other: &Self, plus: &Self) -> Vec<i32> {
        let sum = |row, column| {
            plus.at(row, column) + (0..self.columns).map(|k| self.at(row, k) * other.at(k, column)).sum::<i32>()
        };
        (0..self.rows)
            .flat_map(|row| (0..other.columns).map(move |column| (row, column)))
            .map(|(row, column)| sum(row, column))
            .collect()
    }

    /// Returns its bytes in memory, each number as `element` writes it.
    fn bytes(&self, element: fn(i32) -> Vec<u8>) -> Vec<u8> {
        let (outer, inner) = if self.by_rows { (self.rows, self.columns) } else { (self.columns, self.rows) };
        let number = |(x, y)| if self.by_rows { self.at(x, y) } else { self.at(y, x) };
        (0..outer).flat_map(|x| (0..inner).map(move |y| (x, y))).map(number).flat_map(element).collect()
    }
}

/// Launches a kernel of one warp with these inputs, and returns its output.
fn run(kernel: &str, inputs: &[Vec<u8>], output_bytes: usize) -> Vec<u8> {
    let mut gpu = VirtualGpu::new(Gpu::h200());
    let module = gpu.load(ptx::load("wmma.ptx", WMMA).unwrap()).unwrap();
    let mut args = Vec::new();
    for input in inputs {
        let address = gpu.alloc(input.len() as u64).unwrap();
        gpu.write(address, input).unwrap();
        args.push(address.to_le_bytes().to_vec());
    }
    let output = gpu.alloc(output_bytes as u64).unwrap();
    args.push(output.to_le_bytes().to_vec());
    let launch = Launch { grid: [1; 3], block: [32, 1, 1], cluster: [1; 3], dynamic_shared_bytes: 0, args: &args };
    gpu.launch(&module, kernel, &launch, &Options::default()).unwrap_or_else(|error| panic!("{kernel}: {error}"));
    gpu.read(output, output_bytes as u64).unwrap()
}

fn f16_bytes(value: i32) -> Vec<u8> {
    f16::from_f32(value as f32).to_le_bytes().to_vec()
}

fn bf16_bytes(value: i32) -> Vec<u8> {
    bf16::from_f32(value as f32).to_le_bytes().to_vec()
}

fn f32_bytes(value: i32) -> Vec<u8> {
    (value as f32).to_le_bytes().to_vec()
}

fn f64_bytes(value: i32) -> Vec<u8> {
    f64::from(value).to_le_bytes().to_vec()
}

fn i32_bytes(value: i32) -> Vec<u8> {
    value.to_le_bytes().to_vec()
}

fn byte(value: i32) -> Vec<u8> {
    vec![value as u8]
}

#[test]
fn products_of_tiles_are_those_of_the_matrices() {
    // The kernel, its sizes, whether A, B and C are by rows, and how elements and sums are written.
    type Written = fn(i32) -> Vec<u8>;
    type Product = (&'static str, [usize; 3], [bool; 3], Written, Written);
    let kernels: [Product; 8] = [
        ("half_square", [16, 16, 16], [true, true, true], f16_bytes, f32_bytes),
        ("half_tall", [32, 8, 16], [false, false, false], f16_bytes, f16_bytes),
        ("half_flat", [8, 32, 16], [true, true, true], f16_bytes, f16_bytes),
        ("bfloat_flat", [8, 32, 16], [false, true, false], bf16_bytes, f32_bytes),
        ("bytes_tall", [32, 8, 16], [false, true, true], byte, i32_bytes),
        ("bytes_flat", [8, 32, 16], [true, false, false], byte, i32_bytes),
        ("double_square", [8, 8, 4], [false, true, false], f64_bytes, f64_bytes),
        ("tf32_square", [16, 16, 8], [true, false, true], f32_bytes, f32_bytes),
    ];
    for (kernel, [m, n, k], [a_by_rows, b_by_rows, c_by_rows], element, sum) in kernels {
        let (a, b) = (Matrix::new(m, k, a_by_rows, 3), Matrix::new(k, n, b_by_rows, 5));
        let c = Matrix::new(m, n, c_by_rows, 1);
        let expected = Matrix { values: a.times(&b, &c), ..c.clone() }.bytes(sum);
        let got = run(kernel, &[a.bytes(element), b.bytes(element), c.bytes(sum)], expected.len());
        assert_eq!(got, expected, "{kernel}");
    }
}

/// Packs numbers of 4 bits, eight to a word.
fn nibbles(matrix: &Matrix) -> Vec<u8> {
    let numbers = matrix.bytes(byte);
    numbers.chunks(2).map(|two| two[0] & 15 | two[1] << 4).collect()
}

#[test]
fn products_of_four_bit_integers_are_signed_or_not() {
    let zeros = |m, n| Matrix { values: vec![0; m * n], ..Matrix::new(m, n, true, 0) };
    let signed = |mut matrix: Matrix| {
        matrix.values.iter_mut().for_each(|value| *value -= 4);
        matrix
    };
    let (a, mut b) = (signed(Matrix::new(16, 64, true, 3)), Matrix::new(64, 8, false, 5));
    b.values.iter_mut().for_each(|value| *value += 8);
    let expected: Vec<u8> = a.times(&b, &zeros(16, 8)).into_iter().flat_map(i32_bytes).collect();
    assert_eq!(run("nibbles", &[nibbles(&a), nibbles(&b)], 512), expected);
    let (a, b) = (signed(Matrix::new(8, 32, true, 3)), signed(Matrix::new(32, 8, false, 5)));
    let expected: Vec<u8> = a.times(&b, &zeros(8, 8)).into_iter().flat_map(i32_bytes).collect();
    assert_eq!(run("nibble_tile", &[nibbles(&a), nibbles(&b)], 256), expected);
}
