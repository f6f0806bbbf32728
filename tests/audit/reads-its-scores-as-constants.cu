/*
about = "Leaves its scores in a workspace and reads them back through the read-only path, which may hold old lines."
kind = "broken"
cheats = [21]
caught_by = ["wrong/sanitizer", "crashed"]
workload = "attention-fp16-d64"
case = { B = 1, H = 2, Sq = 17, Sk = 130, D = 32, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
prelude = ["dims"]

[[workspace]]
name = "scores"
dtype = "f32"
elements = "B * H * Sq * Sk"

[[launch]]
kernel = "attend"
grid = ["Sq", "B * H"]
block = ["32"]
args = ["q", "k", "v", "o", "scores", "Sq", "Sk", "scale"]

[[constraint]]
expr = "B * H * Sq * Sk <= 5000"
why = "other shapes would take its replay longer, and show nothing more"
*/

// A warp for a row.
extern "C" __global__ void attend(const Element* q, const Element* k, const Element* v, Element* o, float* scores, int Sq, int Sk,
                                  float scale) {
    const int lane = threadIdx.x, i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = head * Sq + i;
    q += row * D, o += row * D, k += head * Sk * D, v += head * Sk * D, scores += row * Sk;
    float top = -1e30f, sum = 0;
    for (int j = lane; j < visible; j += 32) {
        float score = 0;
        for (int d = 0; d < D; ++d) score += float(q[d]) * float(k[(size_t)j * D + d]);
        scores[j] = score * scale;
        top = fmaxf(top, score * scale);
    }
    for (int other = 16; other; other /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, other));
    __syncthreads();
    for (int j = 0; j < visible; ++j) sum += __expf(__ldg(&scores[j]) - top);  // <-- not what this launch has written
    for (int d = lane; d < D; d += 32) {
        float x = 0;
        for (int j = 0; j < visible; ++j) x += __expf(scores[j] - top) * float(v[(size_t)j * D + d]);
        o[d] = Element(x / sum);
    }
}
