//! The definition of attention in double precision, and a run to compare with it.

use half::f16;
use virtual_gpu::Options;
use virtual_gpu::counters::Counters;

use super::problem::{D, Kernel, Prepared, Problem};

impl Kernel {
    /// Returns whether key j is hidden from query i when j > i + keys - queries.
    pub fn causal(self) -> bool {
        self == Self::MmaCausal
    }
}

impl Problem {
    /// Runs a kernel and returns its output.
    pub fn run(&self, kernel: Kernel, options: &Options) -> (Vec<f64>, Counters) {
        let prepared = self.prepare(kernel);
        let counters = prepared.launch(options);
        (prepared.output(), counters)
    }

    /// Returns the error of an output against attention in f64, relative to the answer's norm.
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
    /// Reads the output.
    pub fn output(&self) -> Vec<f64> {
        let count = self.problem.heads * self.problem.queries * D;
        let address = u64::from_le_bytes(self.args[3][..].try_into().expect("an address has 8 bytes"));
        let bytes = self.gpu.read(address, count as u64 * 2).expect("the allocation is that large");
        bytes.chunks(2).map(|pair| f16::from_le_bytes([pair[0], pair[1]]).to_f64()).collect()
    }
}
