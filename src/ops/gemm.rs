//! Matrix product: `c = a b`.

use numerics::matmul::{self, MAX_COLUMNS};
use rayon::prelude::*;

use super::product::{self, Matrices, Product};
use crate::domain::op::{
    Axis, CheckLimits, DimSpec, Dims, Dtype, FarShape, Op, Probe, Probed, TensorRole, TensorSpec, Values,
};
use crate::error::Error;

/// The product of `a[M,K]` and `b[K,N]` into `c[M,N]`, all row-major, as `torch.matmul` computes it for two contiguous
/// matrices.
pub struct Gemm;

const DIMS: [DimSpec; 3] = [
    DimSpec { name: "M", about: "the rows of a and c", range: (1, 1 << 20) },
    DimSpec { name: "N", about: "the columns of b and c", range: (1, 1 << 20) },
    DimSpec { name: "K", about: "the columns of a and rows of b, which are summed over", range: (1, 1 << 20) },
];

/// Rows that the oracle computes together, and their sums. They stay in the L1 cache while `a` and `b` stream by.
const BLOCK_ROWS: usize = 32;
const BLOCK_SUMS: usize = 2048;

/// The fewest columns of these sums.
const MIN_COLUMNS: usize = 64;

/// The dimensions of a case as fields.
struct Shape {
    n: usize,
    k: usize,
}

impl Shape {
    fn of(dims: &Dims) -> Self {
        let at = |name: &str| usize::try_from(dims[name]).expect("validated with the workload");
        Self { n: at("N"), k: at("K") }
    }
}

impl Op for Gemm {
    fn name(&self) -> &'static str {
        "gemm"
    }

    fn dims(&self) -> &'static [DimSpec] {
        &DIMS
    }

    fn check(&self, dims: &Dims) -> Result<(), Error> {
        let most = [("M", "K"), ("K", "N"), ("M", "N")].map(|(rows, columns)| dims[rows].saturating_mul(dims[columns]));
        if most.into_iter().any(|elements| elements > i64::from(i32::MAX)) {
            return Err(Error::new("a tensor has more than 2^31 elements; reduce M, N or K"));
        }
        Ok(())
    }

    fn tensors(&self, dims: &Dims, dtype: Dtype) -> Vec<TensorSpec> {
        let at = |name: &str| usize::try_from(dims[name]).expect("validated with the workload");
        let tensor = |name: &str, rows: &str, columns: &str, role: TensorRole| TensorSpec {
            name: name.to_owned(),
            dtype,
            shape: vec![at(rows), at(columns)],
            role,
            values: Values::Normal,
        };
        vec![
            tensor("a", "M", "K", TensorRole::Input),
            tensor("b", "K", "N", TensorRole::Input),
            tensor("c", "M", "N", TensorRole::Output),
        ]
    }

    fn torch(&self, _optional: &[&str]) -> Option<String> {
        Some("torch.matmul(a, b)".to_owned())
    }

    fn scalars(&self, _dims: &Dims) -> Vec<(&'static str, f64)> {
        Vec::new()
    }

    fn flop(&self, dims: &Dims) -> f64 {
        ["M", "N", "K"].iter().map(|name| dims[*name] as f64).product::<f64>() * 2.0
    }

    fn scaled(&self, dims: &Dims) -> Vec<Dims> {
        product::scaled(dims)
    }

    fn resized(&self, dims: &Dims, axis: Axis, factor: f64) -> Option<Dims> {
        product::resized(dims, axis, factor)
    }

    fn probes(&self) -> &'static [Probe] {
        const { &product::probes::<Gemm>() }
    }

    fn hidden(&self, dims: &Dims, least: CheckLimits, seed: u64) -> Vec<Dims> {
        product::hidden(self, dims, least, seed)
    }

    fn far(&self, dims: &Dims, dtype: Dtype) -> Option<FarShape> {
        product::far(self, dims, dtype)
    }

    fn oracle(&self, dims: &Dims, inputs: &[Vec<f32>], rows: &[usize]) -> Result<Vec<f64>, Error> {
        let shape = Shape::of(dims);
        let [a, b] = inputs else { panic!("gemm has two inputs, not {}", inputs.len()) };
        let mut out = vec![0.0; rows.len() * shape.n];
        out.par_chunks_mut(BLOCK_ROWS * shape.n).zip(rows.par_chunks(BLOCK_ROWS)).for_each(|(out, rows)| {
            let columns = columns_of_block(rows.len());
            let firsts = (0..shape.n).into_par_iter().step_by(columns);
            let block =
                |first: usize| matmul::block(a, b, (shape.n, shape.k), rows, first..shape.n.min(first + columns));
            let blocks: Vec<Vec<f64>> = firsts.map(block).collect();
            for (i, block) in blocks.iter().enumerate() {
                let (first, width) = (i * columns, block.len() / rows.len());
                for (out, sums) in out.chunks_exact_mut(shape.n).zip(block.chunks_exact(width)) {
                    out[first..first + width].copy_from_slice(sums);
                }
            }
        });
        Ok(out)
    }
}

impl Product for Gemm {
    fn change(dims: &Dims, inputs: &mut [Vec<f32>], change: impl FnOnce(&mut Matrices<'_>) -> Probed) -> Probed {
        let Shape { n, k } = Shape::of(dims);
        let [a, b] = inputs else { return Probed::default() };
        let m = a.len() / k;
        change(&mut Matrices { a, b, k, n, m })
    }
}

/// Returns the columns of a block with so many rows: as many as its sums fit in the cache. Each row of b lies in another page of
/// memory, so wide blocks need fewer of its pages at once.
fn columns_of_block(rows: usize) -> usize {
    (BLOCK_SUMS / rows.max(1)).clamp(MIN_COLUMNS, MAX_COLUMNS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dims(m: i64, n: i64, k: i64) -> Dims {
        [("M", m), ("N", n), ("K", k)].map(|(name, size)| (name.to_owned(), size)).into()
    }

    fn sizes(dims: &Dims) -> (i64, i64, i64) {
        (dims["M"], dims["N"], dims["K"])
    }

    /// Returns inputs of whole numbers, so that every sum is exact in any order.
    fn inputs(dims: &Dims) -> Vec<Vec<f32>> {
        let tensors = Gemm.tensors(dims, Dtype::F32);
        let numbers = |t: usize| (0..tensors[t].elements()).map(|i| ((i * 7 + t * 3) % 23) as f32 - 11.0).collect();
        vec![numbers(0), numbers(1)]
    }

    #[test]
    fn the_oracle_is_the_sum_of_products() {
        // One block, several blocks, and sizes that no block divides.
        for case in [dims(1, 1, 1), dims(3, 5, 7), dims(70, 130, 33)] {
            let (m, n, k) = (case["M"] as usize, case["N"] as usize, case["K"] as usize);
            let inputs = inputs(&case);
            let oracle = Gemm.oracle(&case, &inputs, &(0..m).collect::<Vec<_>>()).unwrap();
            for (at, value) in oracle.iter().enumerate() {
                let (i, j) = (at / n, at % n);
                let sum: f32 = (0..k).map(|x| inputs[0][i * k + x] * inputs[1][x * n + j]).sum();
                assert_eq!(*value, f64::from(sum), "row {i}, column {j} of {case:?}");
            }
        }
    }

    #[test]
    fn chosen_rows_are_the_rows_of_the_whole() {
        let case = dims(50, 70, 9);
        let inputs = inputs(&case);
        let whole = Gemm.oracle(&case, &inputs, &(0..50).collect::<Vec<_>>()).unwrap();
        let some = Gemm.oracle(&case, &inputs, &[49, 0, 7]).unwrap();
        assert_eq!(some, [&whole[49 * 70..], &whole[..70], &whole[490..560]].concat());
    }

    #[test]
    fn scaled_cases_are_smaller_and_leave_the_last_tile_as_full() {
        let scaled = Gemm.scaled(&dims(4097, 8192, 16384));
        assert_eq!(sizes(&scaled[0]), (257, 256, 512));
        assert_eq!(sizes(&scaled[4]), (4097, 4096, 8192));
        assert_eq!(sizes(&Gemm.scaled(&dims(16, 8192, 8192))[0]), (16, 256, 512));
        assert!(Gemm.scaled(&dims(16, 256, 512)).is_empty(), "it is small already");
    }

    #[test]
    fn hidden_shapes_vary_parity_divisibility_and_size() {
        let little = CheckLimits { flop: 4e7, bytes: 4e6 };
        for case in [dims(4096, 4096, 4096), dims(16, 8192, 8192), dims(256, 256, 512), dims(1, 8, 8)] {
            let all: Vec<Dims> = (0..6).flat_map(|seed| Gemm.hidden(&case, little, seed)).collect();
            for other in &all {
                Gemm.check(other).unwrap();
                assert!(*other != case && other.values().all(|&size| size > 0), "{other:?}");
                assert!(Gemm.flop(other) <= little.flop.max(2.0 * Gemm.flop(&case)), "{other:?}");
            }
            let some = |what: &str, is: &dyn Fn((i64, i64, i64)) -> bool| {
                assert!(all.iter().any(|other| is(sizes(other))), "{what} for {case:?}");
            };
            some("odd sizes", &|(m, n, k)| m % 2 == 1 && n % 2 == 1 && k % 2 == 1);
            some("a single row", &|(m, _, _)| m == 1);
            for factor in [2, 8, 16] {
                some("a multiple and no larger one", &|(_, n, k)| {
                    n % factor == 0 && k % factor == 0 && (n / factor % 2 == 1 || k / factor % 2 == 1)
                });
            }
        }
    }

    /// A fast path for whole tiles lost the last 8 terms of sums, and was called right three times of three.
    #[test]
    fn hidden_shapes_have_whole_tiles_with_a_part_of_a_tile_of_terms() {
        let of_a_virtual_gpu = CheckLimits { flop: 1e7, bytes: 2e6 };
        for seed in 0..20 {
            let all = Gemm.hidden(&dims(256, 256, 256), of_a_virtual_gpu, seed);
            for factor in [8, 16] {
                let is_meant = |(m, n, k): (i64, i64, i64)| m % 128 == 0 && n % 128 == 0 && k % (2 * factor) == factor;
                assert!(all[..5].iter().any(|other| is_meant(sizes(other))), "{factor}: {all:?}");
            }
        }
    }

    #[test]
    fn a_matrix_that_no_int_can_index_is_refused() {
        assert_eq!(Gemm.check(&dims(1 << 15, 1 << 15, 1 << 15)), Ok(()));
        let refusal = Gemm.check(&dims(1 << 16, 1 << 16, 8)).unwrap_err();
        insta::assert_snapshot!(refusal, @"a tensor has more than 2^31 elements; reduce M, N or K");
    }

    #[test]
    fn a_multiplication_and_an_addition_are_two() {
        assert_eq!(Gemm.flop(&dims(2, 3, 5)), 60.0);
        assert_eq!(Gemm.bytes(&dims(2, 3, 5), Dtype::F16), (10.0 + 15.0 + 6.0) * 2.0);
    }
}
