/*
about = "Split keys, the last to arrive combines; tickets count on, although their workspace is declared zero."
kind = "broken"
cheats = [21]
caught_by = ["wrong/inputs"]
workload = "attention-fp16-d64"
case = { B = 1, H = 2, Sq = 17, Sk = 130, D = 32, CAUSAL = 1 }
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

[[constraint]]
expr = "B * H * Sq * Sk <= 5000"
why = "other shapes would take its replay longer, and show nothing more"
*/

constexpr int SPLITS = 4, SLOT = D + 2;

// A warp for a row and a quarter of its keys; leaves output, maximum and sum in a slot.
extern "C" __global__ void attend(const Element* q, const Element* k, const Element* v, Element* o, float* parts,
                                  unsigned* tickets, int Sq, int Sk, float scale) {
    const int lane = threadIdx.x, i = blockIdx.x, split = blockIdx.z, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = head * Sq + i;
    q += row * D, o += row * D, k += head * Sk * D, v += head * Sk * D;
    const int each = (visible + SPLITS - 1) / SPLITS, from = split * each, to = min(visible, from + each);
    float acc[PART] = {}, top = -1e30f, sum = 0;
    for (int j = from; j < to; ++j) {
        float score = 0;
        for (int d = lane; d < D; d += 32) score += float(q[d]) * float(k[(size_t)j * D + d]);
        for (int other = 16; other; other /= 2) score += __shfl_xor_sync(~0u, score, other);
        score *= scale;
        const float higher = fmaxf(top, score), keep = __expf(top - higher), weight = __expf(score - higher);
        for (int n = 0, d = lane; d < D; ++n, d += 32) acc[n] = acc[n] * keep + weight * float(v[(size_t)j * D + d]);
        sum = sum * keep + weight, top = higher;
    }
    float* slots = parts + row * SPLITS * SLOT;
    for (int n = 0, d = lane; d < D; ++n, d += 32) slots[split * SLOT + d] = acc[n];
    if (lane == 0) slots[split * SLOT + D] = top, slots[split * SLOT + D + 1] = sum;

    // The last one puts the parts together.
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (lane == 0) last = atomicAdd(&tickets[row], 1u) % SPLITS == SPLITS - 1;
    __syncthreads();
    if (!last) return;
    const volatile float* all = slots;  // these loads do not look into L1
    float highest = -1e30f, total = 0;
    for (int s = 0; s < SPLITS; ++s) highest = fmaxf(highest, all[s * SLOT + D]);
    for (int s = 0; s < SPLITS; ++s) total += all[s * SLOT + D + 1] * __expf(all[s * SLOT + D] - highest);
    for (int d = lane; d < D; d += 32) {
        float x = 0;
        for (int s = 0; s < SPLITS; ++s) x += all[s * SLOT + d] * __expf(all[s * SLOT + D] - highest);
        o[d] = Element(x / total);
    }
}
