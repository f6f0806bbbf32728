/*
about = "A head dimension of 37: rows that start anywhere, lanes with nothing to do."
kind = "honest"
workload = "attention-fp16-d64"
case = { B = 1, H = 2, Sq = 61, Sk = 83, D = 37, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
prelude = ["dims", "row", "kernel"]

[[launch]]
kernel = "attend"
grid = ["Sq", "B * H"]
block = ["32"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]
*/
// Nothing about it is special to 37; checks that assume even rows or aligned chunks would stumble over it.
