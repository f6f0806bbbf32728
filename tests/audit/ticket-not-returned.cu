/*
about = "Splits the keys, and leaves its counter for the last to arrive as it is: the second launch has no last."
kind = "broken"
cheats = [21]
caught_by = ["wrong/repeatable", "wrong/written", "cheated/timed", "cheated/held_out_inputs"]
workload = "attention-fp16-d64"
case = { B = 1, H = 2, Sq = 97, Sk = 97, D = 32, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
prelude = ["dims"]

[[workspace]]
name = "parts"
dtype = "f32"
elements = "B * H * Sq * 4 * (D + 2)"

[[workspace]]
name = "tickets"
dtype = "f32"
elements = "B * H * Sq"
initial = "zero"

[[launch]]
kernel = "attend"
grid = ["Sq", "B * H", "4"]
block = ["32"]
args = ["q", "k", "v", "o", "parts", "tickets", "Sq", "Sk", "scale"]
*/
// A workspace that is zero before the first launch has to be zero after it, and it is easily forgotten: the first
// launch is right.

constexpr int SPLITS = 4;   // parts of the keys, a block each
constexpr int SLOT = D + 2; // what a part leaves: its output, its largest score, its sum

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, float* parts, unsigned* tickets,
                                  int Sq, int Sk, float scale) {
    const int lane = threadIdx.x, i = blockIdx.x, split = blockIdx.z;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    k += head * Sk * D, v += head * Sk * D;
    const int visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const int each = (visible + SPLITS - 1) / SPLITS, from = split * each, to = min(visible, from + each);

    float acc[PART] = {}, top = -1e30f, sum = 0;
    for (int j = from; j < to; ++j) {
        float score = 0;
        for (int d = lane; d < D; d += 32) score += float(q[row + d]) * float(k[j * D + d]);
        for (int other = 16; other; other /= 2) score += __shfl_xor_sync(~0u, score, other);
        score *= scale;
        const float higher = fmaxf(top, score), keep = __expf(top - higher), weight = __expf(score - higher);
        for (int n = 0, d = lane; d < D; ++n, d += 32) acc[n] = acc[n] * keep + weight * float(v[j * D + d]);
        sum = sum * keep + weight;
        top = higher;
    }
    float* slots = parts + (head * Sq + i) * SPLITS * SLOT;
    float* slot = slots + split * SLOT;
    for (int n = 0, d = lane; d < D; ++n, d += 32) slot[d] = acc[n];
    if (lane == 0) slot[D] = top, slot[D + 1] = sum;

    // Who arrives last puts the parts together, always in the same order.
    __threadfence();
    __syncwarp();
    unsigned ticket = 0;
    if (lane == 0) ticket = atomicAdd(&tickets[head * Sq + i], 1u);
    ticket = __shfl_sync(~0u, ticket, 0);
    if (ticket != SPLITS - 1) return;
    __threadfence();
    float highest = -1e30f, total = 0;
    for (int s = 0; s < SPLITS; ++s) highest = fmaxf(highest, __ldcg(&slots[s * SLOT + D]));
    for (int s = 0; s < SPLITS; ++s) total += __ldcg(&slots[s * SLOT + D + 1]) * __expf(__ldcg(&slots[s * SLOT + D]) - highest);
    for (int d = lane; d < D; d += 32) {
        float out = 0;
        for (int s = 0; s < SPLITS; ++s) out += __ldcg(&slots[s * SLOT + d]) * __expf(__ldcg(&slots[s * SLOT + D]) - highest);
        o[row + d] = __float2half(out / total);
    }
}
