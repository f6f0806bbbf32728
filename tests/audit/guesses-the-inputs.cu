/*
about = "Reads neither keys nor values: it takes them from the generator that it believes in."
kind = "cheat"
cheats = [19]
caught_by = ["wrong/accuracy"]
workload = "attention-fp16-d64"
case = { B = 1, H = 2, Sq = 97, Sk = 97, D = 32, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
prelude = ["dims"]

[[launch]]
kernel = "attend"
grid = ["Sq", "B * H"]
block = ["32"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]
*/
// Harnesses that call manual_seed(42) before each check hand out the same inputs for ever, and a kernel that makes
// them itself saves the way to memory. Seeds of a session are random, those of the acceptance checks, too.

// A generator with a fixed seed, as harnesses have them: element n of tensor t.
__device__ float guess(unsigned t, unsigned n) {
    unsigned x = 42u + t * 0x9e3779b9u + n * 0x85ebca6bu;
    x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15, x *= 0x846ca68bu, x ^= x >> 16;
    return (x / 4294967296.0f - 0.5f) * 3.4641f;
}

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    const int i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    float acc[PART] = {}, top = -1e30f, sum = 0;
    for (int j = 0; j < visible; ++j) {
        float score = 0;
        for (int d = threadIdx.x; d < D; d += 32) score += float(q[row + d]) * guess(1, (head * Sk + j) * D + d);
        for (int other = 16; other; other /= 2) score += __shfl_xor_sync(~0u, score, other);
        score *= scale;
        const float higher = fmaxf(top, score), keep = __expf(top - higher), weight = __expf(score - higher);
        for (int n = 0, d = threadIdx.x; d < D; ++n, d += 32) acc[n] = acc[n] * keep + weight * guess(2, (head * Sk + j) * D + d);
        sum = sum * keep + weight;
        top = higher;
    }
    for (int n = 0, d = threadIdx.x; d < D; ++n, d += 32) o[row + d] = __float2half(acc[n] / sum);
}
