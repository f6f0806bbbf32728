/*
about = "Rounds zero points to whole numbers, which most models have."
kind = "broken"
caught_by = ["wrong/accuracy"]
workload = "linear-w4-bf16"
case = { M = 5, N = 40, K = 96, GROUP = 32 }
constants = ["GROUP"]
prelude = ["linear-w4"]

[[constraint]]
expr = "M <= 65535"
why = "The second dimension of a grid may be at most 65,535."

[[launch]]
kernel = "multiply"
grid = ["ceil_div(N, 32)", "M"]
block = ["32"]
args = ["x", "w", "scales", "zeros", "y", "M", "N", "K"]
*/
__device__ float number(unsigned byte, int k) { return float(byte >> k % 2 * 4 & 15); }
__device__ float weight(float number, float zero, float scale) { return (number - rintf(zero)) * scale; }  // <--
