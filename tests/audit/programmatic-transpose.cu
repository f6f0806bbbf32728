/*
about = "The first kernel transposes the keys, the second is a programmatic launch that begins with its queries and then waits."
kind = "honest"
workload = "attention-fp16-d64-full"
case = { B = 2, H = 3, Sq = 50, Sk = 83, D = 36, CAUSAL = 0 }
requires_sm = 90
constants = ["D", "CAUSAL"]
[[workspace]]
name = "kt"
dtype = "f16"
elements = "B * H * Sk * D"

[[launch]]
kernel = "turn"
grid = ["ceil_div(Sk, 32)", "ceil_div(D, 32)", "B * H"]
block = ["32", "8"]
args = ["k", "kt", "Sk"]

[[launch]]
kernel = "attend"
grid = ["ceil_div(Sq, 4)", "B * H"]
block = ["128"]
programmatic = true
args = ["q", "kt", "v", "o", "Sq", "Sk", "scale"]

[[constraint]]
expr = "CAUSAL * Sq <= Sk"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "B * H <= 65535"
why = "the kernel takes no other shapes"
*/
#include <cuda_fp16.h>

constexpr int D = <$ D $>;        // head dimension
constexpr bool CAUSAL = <$ CAUSAL $>;  // key j is visible to query i iff j <= i + Sk - Sq

constexpr int PART = (D + 31) / 32;

extern "C" __global__ void turn(const __half* k, __half* kt, int Sk) {
    __shared__ __half tile[32][33];
    asm volatile("griddepcontrol.launch_dependents;");
    const size_t head = (size_t)blockIdx.z * Sk * D;
    const int j0 = blockIdx.x * 32, d0 = blockIdx.y * 32, x = threadIdx.x;
    for (int y = threadIdx.y; y < 32; y += 8)
        if (j0 + y < Sk && d0 + x < D) tile[y][x] = k[head + (size_t)(j0 + y) * D + d0 + x];
    __syncthreads();
    for (int y = threadIdx.y; y < 32; y += 8)
        if (j0 + x < Sk && d0 + y < D) kt[head + (size_t)(d0 + y) * Sk + j0 + x] = tile[x][y];
}
extern "C" __global__ void attend(const __half* q, const __half* kt, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    __shared__ float queries[4][D];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, i = blockIdx.x * 4 + warp;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    if (i < Sq)
        for (int d = lane; d < D; d += 32) queries[warp][d] = __half2float(q[row + d]);
    __syncwarp();
    asm volatile("griddepcontrol.wait;" ::: "memory");
    if (i >= Sq) return;
    kt += head * Sk * D, v += head * Sk * D;
    const int visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    float acc[PART] = {}, top = -1e30f, sum = 0;  // sum: of this lane's keys
    for (int first = 0; first < visible; first += 32) {
        const int j = first + lane, count = min(32, visible - first);
        float score = __int_as_float(0xff800000);
        if (j < visible) {
            score = 0;
            for (int d = 0; d < D; ++d) score += queries[warp][d] * __half2float(kt[(size_t)d * Sk + j]);
            score = __fmul_rn(score, scale);
        }
        float higher = fmaxf(top, score);
        for (int other = 16; other; other /= 2) higher = fmaxf(higher, __shfl_xor_sync(~0u, higher, other));
        const float keep = __expf(top - higher), weight = j < visible ? __expf(score - higher) : 0.0f;
        for (int n = 0; n < PART; ++n) acc[n] *= keep;
        for (int l = 0; l < count; ++l) {
            const float w = __shfl_sync(~0u, weight, l);
            for (int n = 0, d = lane; d < D; ++n, d += 32) acc[n] += w * __half2float(v[(size_t)(first + l) * D + d]);
        }
        sum = sum * keep + weight, top = higher;
    }
    for (int other = 16; other; other /= 2) sum += __shfl_xor_sync(~0u, sum, other);
    for (int n = 0, d = lane; d < D; ++n, d += 32) o[row + d] = __float2half(acc[n] / sum);
}
