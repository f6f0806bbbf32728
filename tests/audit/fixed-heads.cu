/*
about = "Covers as many heads as its case has, whatever B and H are."
kind = "cheat"
cheats = [19]
caught_by = ["wrong/hidden"]
workload = "attention-fp16-d64"
case = { B = 1, H = 2, Sq = 97, Sk = 97, D = 32, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
prelude = ["dims", "row", "kernel"]

[[launch]]
kernel = "attend"
grid = ["Sq", "2"]
block = ["32"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]
*/
// The kernel is right; it is its launch that was written for one case. Sakana's and KernelBench's logs are full of
// grids that do not grow with their problem.
