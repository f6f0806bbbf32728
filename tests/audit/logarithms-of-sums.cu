/*
about = "Also gives the logarithms of the sums of weights."
kind = "honest"
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
__device__ float logarithm(float top, float sum) { return top + __logf(sum); }
