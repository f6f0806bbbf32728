/*
about = "Gives the logarithms of sums relative to the largest weight."
kind = "broken"
caught_by = ["wrong/accuracy"]
workload = "attention-fp16-d64"
case = { B = 2, H = 2, Sq = 45, Sk = 61, D = 32, CAUSAL = 1, LSE = 1 }
constants = ["D", "CAUSAL", "LSE"]
prelude = ["dims", "log_sum"]

[[launch]]
kernel = "attend"
grid = ["Sq", "B * H"]
block = ["32"]
args = ["q", "k", "v", "o", "lse?", "Sq", "Sk", "scale"]
*/
__device__ float logarithm(float top, float sum) { return __logf(sum); }  // <--
