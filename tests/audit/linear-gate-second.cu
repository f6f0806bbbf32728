/*
about = "Activates the second product instead of the first."
kind = "broken"
caught_by = ["wrong/accuracy"]
workload = "linear-bf16"
case = { M = 13, N = 40, K = 72, XSCALE = 2, WSCALE = 2, BIAS = 1, ACTIVATION = 3, GATED = 1, RESIDUAL = 1 }
constants = ["XSCALE", "WSCALE", "BIAS", "ACTIVATION", "GATED", "RESIDUAL"]
prelude = ["linear"]

[[constraint]]
expr = "XSCALE == 2 && WSCALE == 2 && BIAS == 1 && ACTIVATION == 3 && GATED == 1 && RESIDUAL == 1 && M <= 65535"
why = "It computes this layer only."

[[launch]]
kernel = "multiply"
grid = ["ceil_div(N, 32)", "M"]
block = ["32"]
args = ["x", "w", "x_scale?", "w_scale?", "bias?", "residual?", "y", "M", "N", "K"]
*/
__device__ float scaled(float sum, float of_x, float of_w) { return sum * of_x * of_w; }
__device__ float biased(float x, float bias) { return x + bias; }
__device__ float gated(float first, float second) { return first * silu(second); }  // <--
