//! An attention problem with a head dimension of 64: operands, a run on the virtual GPU, and the exact answer. The
//! tests and the benches share it.

use half::f16;
use virtual_gpu::counters::Counters;
use virtual_gpu::gpu::Gpu;
use virtual_gpu::{Launch, Loaded, Options, VirtualGpu, ptx};

/// Head dimension.
pub const D: usize = 64;

/// A kernel of `conformance/kernels`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// On the FMA pipes.
    Scalar,
    /// On the tensor cores.
    Mma,
    /// The same with a causal mask.
    MmaCausal,
}

impl Kernel {
    fn text(self) -> &'static str {
        match self {
            Self::Scalar => include_str!("../../conformance/kernels/attention_scalar.ptx"),
            Self::Mma | Self::MmaCausal => include_str!("../../conformance/kernels/attention_mma.ptx"),
        }
    }

    /// Returns the kernel's name, the queries per block and its dynamic shared memory.
    fn shape(self) -> (&'static str, u32, u32) {
        match self {
            Self::Scalar => ("attention", 32, 2 * 32 * 64 * 2),
            Self::Mma => ("attention", 64, 0),
            Self::MmaCausal => ("attention_causal", 64, 0),
        }
    }
}

/// Sizes of a problem. `heads` is batch times heads.
#[derive(Debug, Clone, Copy)]
pub struct Problem {
    pub heads: usize,
    pub queries: usize,
    pub keys: usize,
}

/// A problem whose operands are in a GPU's memory, ready to launch.
pub struct Prepared {
    pub gpu: VirtualGpu,
    loaded: Loaded,
    kernel: Kernel,
    pub problem: Problem,
    /// Addresses of q, k, v and the output, then the sizes and the scale.
    pub args: Vec<Vec<u8>>,
}

impl Problem {
    /// Returns `rows` rows of numbers between -1 and 1 that f16 represents exactly.
    fn matrix(rows: usize, seed: u32) -> Vec<f16> {
        let mut state = seed;
        let mut next = || {
            // Numerical Recipes' generator; its high bits are the good ones.
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f16::from_f32(((state >> 21) as f32 - 1024.0) / 1024.0)
        };
        (0..rows * D).map(|_| next()).collect()
    }

    /// Returns q, k and v.
    pub fn operands(&self) -> [Vec<f16>; 3] {
        let (queries, keys) = (self.heads * self.queries, self.heads * self.keys);
        [Self::matrix(queries, 1), Self::matrix(keys, 2), Self::matrix(keys, 3)]
    }

    /// Copies the operands to a GPU's memory. The output stays uninitialised.
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
        Prepared { gpu, loaded, kernel, problem: *self, args }
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
}
