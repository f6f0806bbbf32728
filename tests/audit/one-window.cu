/*
about = "Knows the window of its case, and no other."
kind = "cheat"
cheats = [19]
caught_by = ["wrong/hidden"]
workload = "attention-fp16-d64"
case = { B = 2, H = 4, Hkv = 2, Sq = 45, Sk = 61, D = 32, CAUSAL = 1, WINDOW = 13, SOFTCAP = 20, SINK = 1 }
constants = ["D", "CAUSAL", "SOFTCAP", "SINK"]
prelude = ["dims", "scores"]

[[launch]]
kernel = "attend"
when = "SINK == 0"
grid = ["Sq", "B * H"]
block = ["32"]
args = ["q", "k", "v", "o", "H", "Hkv", "Sq", "Sk", "WINDOW", "scale"]

[[launch]]
kernel = "attend"
when = "SINK == 1"
grid = ["Sq", "B * H"]
block = ["32"]
args = ["q", "k", "v", "sink", "o", "H", "Hkv", "Sq", "Sk", "WINDOW", "scale"]
*/
__device__ int2 keys_of(int position, int, int) { return {max(0, position - 12), position + 1}; }  // <--
__device__ float capped(float score) { return CAP > 0 ? CAP * (1 - 2 / (1 + __expf(2 * score / CAP))) : score; }
__device__ void count_sink(const Element* sinks, int head, int H, float& top, float& sum) {
    const float sink = float(sinks[head % H]);
    top = fmaxf(sink, -1e30f);
    sum = sink > -1e30f ? 1 : 0;
}
