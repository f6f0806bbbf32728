/*
about = "Takes its sink, and does not count it."
kind = "broken"
caught_by = ["wrong/accuracy"]
workload = "attention-fp16-d64"
case = { B = 2, H = 4, Hkv = 2, Sq = 45, Sk = 61, D = 32, CAUSAL = 1, WINDOW = 13, SOFTCAP = 20, SINK = 1 }
constants = ["D", "CAUSAL", "WINDOW", "SOFTCAP", "SINK"]
prelude = ["dims"]

[[launch]]
kernel = "attend"
when = "SINK == 0"
grid = ["Sq", "B * H"]
block = ["32"]
args = ["q", "k", "v", "o", "H", "Hkv", "Sq", "Sk", "scale"]

[[launch]]
kernel = "attend"
when = "SINK == 1"
grid = ["Sq", "B * H"]
block = ["32"]
args = ["q", "k", "v", "sink", "o", "H", "Hkv", "Sq", "Sk", "scale"]
*/
constexpr int WINDOW = <$ WINDOW $>, SOFTCAP = <$ SOFTCAP $>;

// One query row by one warp, with a window, a cap and a sink.
extern "C" __global__ void attend(const Element* q, const Element* k, const Element* v, <% if SINK == 1 %>const Element* sink, <% endif %>Element* o,
                                  int H, int Hkv, int Sq, int Sk, float scale) {
    const int lane = threadIdx.x, i = blockIdx.x, p = i + Sk - Sq;
    const int head = blockIdx.y, of_keys = head / (H / Hkv);
    q += (size_t)(head * Sq + i) * D;
    o += (size_t)(head * Sq + i) * D;
    k += (size_t)of_keys * Sk * D;
    v += (size_t)of_keys * Sk * D;
    const int first = WINDOW > 0 ? max(0, p - WINDOW + 1) : 0;
    const int end = CAUSAL ? p + 1 : WINDOW > 0 ? min(Sk, p + WINDOW) : Sk;
    float acc[PART] = {};
    float top = -1e30f, sum = 0;

    for (int j = first; j < end; ++j) {
        float score = 0;
        for (int d = lane; d < D; d += 32) score += float(q[d]) * float(k[j * D + d]);
        for (int other = 16; other; other /= 2) score += __shfl_xor_sync(~0u, score, other);
        score *= scale;
        if (SOFTCAP > 0) score = SOFTCAP * (1 - 2 / (1 + __expf(2 * score / max(1, SOFTCAP))));
        const float higher = fmaxf(top, score), keep = __expf(top - higher), weight = __expf(score - higher);
        for (int n = 0, d = lane; d < D; ++n, d += 32) acc[n] = acc[n] * keep + weight * float(v[j * D + d]);
        sum = sum * keep + weight;
        top = higher;
    }
    for (int n = 0, d = lane; d < D; ++n, d += 32) o[d] = Element(acc[n] / sum);
}
