//! An attention problem with a head dimension of 64: operands, a run on the virtual GPU, and the exact answer. Shared by
//! the tests and the benches.

use half::f16;
use virtual_gpu::counters::Counters;
use virtual_gpu::gpu::Gpu;
use virtual_gpu::{Launch, Loaded, Options, VirtualGpu, ptx};

/// Head dimension.
const D: usize = 64;

/// A kernel of `conformance/kernels`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// On the FMA pipes.
    Scalar,
    /// On the tensor cores.
    Mma,
    /// The same with a causal mask.
    #[allow(dead_code)] // only the tests use it
    MmaCausal,
}

impl Kernel {
    /// Returns whether key j is hidden from query i when j > i + keys - queries.
    #[allow(dead_code)] // only the tests use it
    pub fn causal(self) -> bool {
        self == Self::MmaCausal
    }

    fn text(self) -> &'static str {
        match self {
            Self::Scalar => include_str!("../../conformance/kernels/attention_scalar.ptx"),
            Self::Mma | Self::MmaCausal => include_str!("../../conformance/kernels/attention_mma.ptx"),
        }
    }

    /// Returns the kernel's name, the queries of a block and its dynamic shared memory.
    fn shape(self) -> (&'static str, u32, u32) {
        match self {
            Self::Scalar => ("attention", 32, 2 * 32 * 64 * 2),
            Self::Mma => ("attention", 64, 0),
            Self::MmaCausal => ("attention_causal", 64, 0),
        }
    }
}

/// Sizes of a problem; `heads` stands for batch times heads.
#[derive(Debug, Clone, Copy)]
pub struct Problem {
    pub heads: usize,
    pub queries: usize,
    pub keys: usize,
}

/// A problem whose operands are in a GPU's memory, ready to launch.
pub struct Prepared {
    gpu: VirtualGpu,
    loaded: Loaded,
    kernel: Kernel,
    problem: Problem,
    args: Vec<Vec<u8>>,
    output: u64,
}

impl Problem {
    /// Returns `rows` rows of numbers between -1 and 1 that f16 has exactly.
    fn matrix(rows: usize, seed: u32) -> Vec<f16> {
        let mut state = seed;
        let mut next = || {
            // Numerical Recipes' generator; the high bits are the good ones.
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f16::from_f32(((state >> 21) as f32 - 1024.0) / 1024.0)
        };
        (0..rows * D).map(|_| next()).collect()
    }

    fn operands(&self) -> [Vec<f16>; 3] {
        let (queries, keys) = (self.heads * self.queries, self.heads * self.keys);
        [Self::matrix(queries, 1), Self::matrix(keys, 2), Self::matrix(keys, 3)]
    }

    /// Puts the operands in a GPU's memory; the output counts as uninitialised.
    pub fn prepare(&self, kernel: Kernel) -> Prepared {
        let mut gpu = VirtualGpu::new(Gpu::h200());
        let module = ptx::load("attention.ptx", kernel.text()).expect("the kernel loads");
        let loaded = gpu.load(module).expect("its variables fit");
        let mut args = Vec::new();
        for matrix in self.operands() {
            let bytes: Vec<u8> = matrix.iter().flat_map(|x| x.to_le_bytes()).collect();
            let address = gpu.alloc(bytes.len() as u64).expect("there is memory");
            gpu.write(address, &bytes).expect("the allocation is that large");
            args.push(address.to_le_bytes().to_vec());
        }
        let output = gpu.alloc((self.heads * self.queries * D * 2) as u64).expect("there is memory");
        args.push(output.to_le_bytes().to_vec());
        args.push((self.queries as u32).to_le_bytes().to_vec());
        args.push((self.keys as u32).to_le_bytes().to_vec());
        args.push(0.125_f32.to_le_bytes().to_vec());
        Prepared { gpu, loaded, kernel, problem: *self, args, output }
    }

    /// Runs a kernel and returns its output.
    #[allow(dead_code)] // only the tests use it
    pub fn run(&self, kernel: Kernel, options: &Options) -> (Vec<f64>, Counters) {
        let prepared = self.prepare(kernel);
        let counters = prepared.launch(options);
        (prepared.output(), counters)
    }

    /// Returns the error of an output against attention in f64, as a part of the answer's norm.
    #[allow(dead_code)] // only the tests use it
    pub fn relative_error(&self, output: &[f64], causal: bool) -> f64 {
        let [q, k, v] = self.operands();
        let row = |matrix: &[f16], i: usize| -> Vec<f64> { matrix[i * D..][..D].iter().map(|x| x.to_f64()).collect() };
        let (mut wrong, mut norm) = (0.0, 0.0);
        for head in 0..self.heads {
            for i in 0..self.queries {
                let query = row(&q, head * self.queries + i);
                let visible = if causal { (i + self.keys + 1).saturating_sub(self.queries) } else { self.keys };
                let visible = visible.min(self.keys);
                let score = |j: usize| {
                    let key = row(&k, head * self.keys + j);
                    query.iter().zip(&key).map(|(a, b)| a * b).sum::<f64>() * 0.125
                };
                let scores: Vec<f64> = (0..visible).map(score).collect();
                let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let weights: Vec<f64> = scores.iter().map(|score| (score - top).exp()).collect();
                let sum: f64 = weights.iter().sum();
                let mut answer = vec![0.0; D];
                for (j, weight) in weights.iter().enumerate() {
                    for (to, x) in answer.iter_mut().zip(row(&v, head * self.keys + j)) {
                        *to += weight / sum * x;
                    }
                }
                let got = &output[(head * self.queries + i) * D..][..D];
                wrong += answer.iter().zip(got).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
                norm += answer.iter().map(|a| a * a).sum::<f64>();
            }
        }
        (wrong / norm).sqrt()
    }
}

impl Prepared {
    /// Launches the kernel once.
    pub fn launch(&self, options: &Options) -> Counters {
        let (name, rows, shared) = self.kernel.shape();
        let launch = Launch {
            grid: [(self.problem.queries as u32).div_ceil(rows), self.problem.heads as u32, 1],
            block: [128, 1, 1],
            cluster: [1, 1, 1],
            dynamic_shared_bytes: shared,
            args: &self.args,
        };
        self.gpu.launch(&self.loaded, name, &launch, options).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Reads the output.
    #[allow(dead_code)] // only the tests use it
    pub fn output(&self) -> Vec<f64> {
        let count = self.problem.heads * self.problem.queries * D;
        let bytes = self.gpu.read(self.output, count as u64 * 2).expect("the allocation is that large");
        bytes.chunks(2).map(|pair| f16::from_le_bytes([pair[0], pair[1]]).to_f64()).collect()
    }
}
