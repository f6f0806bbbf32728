/*
about = "Takes all tokens for one sequence."
kind = "broken"
caught_by = ["wrong/accuracy"]
workload = "attention-fp16-d64"
case = { B = 4, H = 4, Hkv = 2, Sq = 90, Sk = 90, D = 32, CAUSAL = 0, VARLEN = 1, SHORTEST = 3 }
constants = ["D", "CAUSAL", "VARLEN"]
prelude = ["dims", "packed"]

[[constraint]]
expr = "VARLEN == 1 && SHORTEST <= Sk"
why = "Its tensors have packed sequences."

[[launch]]
kernel = "attend"
grid = ["Sq", "H"]
block = ["32"]
args = ["q", "k", "v", "cu_seqlens", "o", "B", "H", "Hkv", "scale"]
*/
__device__ int2 keys_of(const int* borders, int sequence) { return {0, 90}; }  // <--
