//! What follows the sums of a linear layer, in float64.

use crate::domain::op::Dims;

/// The inputs beside the two matrices, where a case has them.
pub struct Epilogue<'a> {
    n: usize,
    x_scale: Option<&'a [f32]>,
    w_scale: Option<&'a [f32]>,
    bias: Option<&'a [f32]>,
    activation: i64,
    residual: Option<&'a [f32]>,
}

impl<'a> Epilogue<'a> {
    /// Finds them among the inputs of a case, which are in the order of its tensors.
    pub fn of(dims: &Dims, inputs: &'a [Vec<f32>]) -> Self {
        let mut others = inputs.iter().skip(2).map(Vec::as_slice);
        let mut next = |name: &str| dims.get(name).and_then(|_| others.next());
        Self {
            n: usize::try_from(dims["N"]).expect("validated with the workload"),
            x_scale: next("XSCALE"),
            w_scale: next("WSCALE"),
            bias: next("BIAS"),
            activation: dims.get("ACTIVATION").copied().unwrap_or(0),
            residual: next("RESIDUAL"),
        }
    }

    /// Returns an element of the output, from the sum of its products, and the second one of a gated layer.
    pub fn value(&self, (row, column): (usize, usize), sum: f64, second: Option<f64>) -> f64 {
        let first = activated(self.activation, self.affine((row, column), sum));
        let gated = second.map_or(first, |second| first * self.affine((row, self.n + column), second));
        self.residual.map_or(gated, |residual| gated + f64::from(residual[row * self.n + column]))
    }

    /// Returns the magnitude of the activation's input, times the second product.
    pub fn input_magnitude(&self, (row, column): (usize, usize), sum: f64, second: Option<f64>) -> f64 {
        let second = second.map_or(1.0, |second| self.affine((row, self.n + column), second));
        (self.affine((row, column), sum) * second).abs()
    }

    /// Scales a sum and adds the bias of a row of w.
    fn affine(&self, (row, of_w): (usize, usize), sum: f64) -> f64 {
        let scale = |scales: Option<&[f32]>, at: usize| {
            scales.map_or(1.0, |scales| f64::from(if scales.len() == 1 { scales[0] } else { scales[at] }))
        };
        let scaled = sum * (scale(self.x_scale, row) * scale(self.w_scale, of_w));
        self.bias.map_or(scaled, |bias| scaled + f64::from(bias[of_w]))
    }
}

/// Applies an activation: GELU, GELU by tanh or SiLU (Hendrycks and Gimpel, Gaussian Error Linear Units, 2016).
pub fn activated(activation: i64, x: f64) -> f64 {
    match activation {
        1 => 0.5 * x * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2),
        2 => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3));
            // It is 0.5 x (1 + tanh(inner)), without a difference of nearly equal numbers.
            x / (1.0 + (-2.0 * inner).exp())
        }
        3 => x / (1.0 + (-x).exp()),
        _ => x,
    }
}
