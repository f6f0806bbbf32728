/*
about = "The plain attention in FP32."
kind = "honest"
workload = "attention-fp32-large-d"
case = { B = 1, H = 2, Sq = 65, Sk = 65, D = 64, CAUSAL = 0 }
constants = ["D", "CAUSAL"]
prelude = ["dims", "row", "kernel"]

[[launch]]
kernel = "attend"
grid = ["Sq", "B * H"]
block = ["32"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]
*/
