/*
about = "Takes the sinks of a batch entry behind the last head for those of the first."
kind = "broken"
caught_by = ["crashed", "wrong/accuracy"]
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
__device__ int2 keys_of(int position, int window, int Sk) {
    const int end = CAUSAL ? position + 1 : window > 0 ? min(Sk, position + window) : Sk;
    return {window > 0 ? max(0, position - window + 1) : 0, end};
}
__device__ float capped(float score) { return CAP > 0 ? CAP * (1 - 2 / (1 + __expf(2 * score / CAP))) : score; }
__device__ void count_sink(const Element* sinks, int head, int H, float& top, float& sum) {
    const float sink = float(sinks[head]);  // <--
    top = fmaxf(sink, -1e30f);
    sum = sink > -1e30f ? 1 : 0;
}
