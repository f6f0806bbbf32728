//! What a program other than optloop launches for a call.

use serde::{Deserialize, Serialize};

/// A kernel that a call of a baseline launches, as a captured CUDA graph has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchedKernel {
    /// Its name, as C++ has it.
    pub name: String,
    /// The blocks of its grid in each dimension.
    pub grid: [u32; 3],
    /// The threads of a block in each dimension.
    pub block: [u32; 3],
    /// Bytes of shared memory of a block, static and dynamic. None if not known.
    #[serde(default)]
    pub shared_bytes: Option<u64>,
    /// Registers of a thread. None if not known.
    #[serde(default)]
    pub registers: Option<u32>,
}

impl LaunchedKernel {
    /// Returns the blocks of its grid.
    pub fn blocks(&self) -> u64 {
        self.grid.iter().map(|size| u64::from(*size)).product()
    }

    /// Returns the threads of a block.
    pub fn threads(&self) -> u64 {
        self.block.iter().map(|size| u64::from(*size)).product()
    }

    /// Returns its name without namespaces, arguments and the types of templates.
    pub fn short_name(&self) -> &str {
        let end = self.name.find(['<', '(']).unwrap_or(self.name.len());
        let path = self.name[..end].trim();
        path.rsplit([':', ' ']).next().filter(|name| !name.is_empty()).unwrap_or(&self.name)
    }
}

/// Returns the kernel that does most of the work, as far as launches show it: the one with the most shared memory in all its
/// blocks, as products have, or else the one with the most threads. What sums up their parts has many threads, too.
pub fn largest(kernels: &[LaunchedKernel]) -> Option<&LaunchedKernel> {
    let shared_bytes = |kernel: &LaunchedKernel| kernel.blocks() * kernel.shared_bytes.unwrap_or(0);
    kernels.iter().max_by_key(|kernel| (shared_bytes(kernel), kernel.blocks() * kernel.threads()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_name_has_no_namespaces_types_and_arguments() {
        let short = |name: &str| {
            let [grid, block] = [[2, 3, 1], [128, 1, 1]];
            let kernel = LaunchedKernel { name: name.to_owned(), grid, block, shared_bytes: None, registers: None };
            assert_eq!((kernel.blocks(), kernel.threads()), (6, 128));
            kernel.short_name().to_owned()
        };
        assert_eq!(
            short("void pytorch_flash::flash_fwd_kernel<A<64, 128>, true>(pytorch_flash::Params)"),
            "flash_fwd_kernel"
        );
        assert_eq!(short("nvjet_hsh_64x256_64x4_2x1_v_bz_splitK_NNT"), "nvjet_hsh_64x256_64x4_2x1_v_bz_splitK_NNT");
        assert_eq!(short("(anonymous namespace)"), "(anonymous namespace)");
    }

    /// cuBLAS on an H200 for a product with a long sum (2026-11-27).
    #[test]
    fn the_largest_kernel_is_the_one_that_multiplies() {
        let kernel = |name: &str, grid, block, shared_bytes| LaunchedKernel {
            name: name.to_owned(),
            grid,
            block,
            shared_bytes: Some(shared_bytes),
            registers: None,
        };
        let products = kernel("nvjet_sm90_hsh_128x64_64x8_1x2_h_bz_splitK_NNT", [2, 64, 1], [384, 1, 1], 213_252);
        let sums = kernel("splitKreduce_kernel", [16, 32, 1], [32, 16, 1], 0);
        assert_eq!(largest(&[products.clone(), sums]), Some(&products));
    }
}
