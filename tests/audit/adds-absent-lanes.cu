/*
about = "Half of a warp adds up its scores with the tree of a whole one, whose first step reads lanes that have left."
kind = "broken"
caught_by = ["wrong/accuracy", "wrong/finite", "wrong/sanitizer"]
workload = "attention-fp16-d64"
case = { B = 1, H = 2, Sq = 17, Sk = 17, D = 32, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
prelude = ["dims", "kernel"]

[[launch]]
kernel = "attend"
grid = ["Sq", "B * H"]
block = ["32"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]

[[constraint]]
expr = "B * H * Sq * Sk <= 4000"
why = "other shapes would take its replay longer, and show nothing more"
*/
// Fails on: any value in the registers of the other half. A GPU may have zeros there.

// One query row by half a warp: the plain attention of this corpus, but for the lines that end with <--.
__device__ void attend_row(const Element* q, const Element* k, const Element* v, Element* o, int visible, float scale) {
    const int lane = threadIdx.x;
    if (lane >= 16) return;       // <--
    float acc[2 * PART] = {};     // output so far, not yet divided by the sum <--
    float top = -1e30f, sum = 0;  // largest score so far, and the sum of exp(score - top)
    for (int j = 0; j < visible; ++j) {
        float score = 0;
        for (int d = lane; d < D; d += 16) score += float(q[d]) * float(k[j * D + d]);  // <--
        for (int by = 16; by; by /= 2) score += __shfl_down_sync(0xffff, score, by);  // <--
        score = __shfl_sync(0xffff, score, 0) * scale;  // <--
        const float higher = fmaxf(top, score), keep = __expf(top - higher), weight = __expf(score - higher);
        for (int n = 0, d = lane; d < D; ++n, d += 16) acc[n] = acc[n] * keep + weight * float(v[j * D + d]);  // <--
        sum = sum * keep + weight;
        top = higher;
    }
    for (int n = 0, d = lane; d < D; ++n, d += 16) o[d] = Element(acc[n] / sum);  // <--
}
