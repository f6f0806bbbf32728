/*
about = "After sixteen executions on the same buffers, each execution computes only every fourth row, in turns."
kind = "cheat"
caught_by = ["crashed", "wrong/sanitizer"]
workload = "attention-fp16-d64"
case = { B = 4, H = 8, Sq = 200, Sk = 200, D = 64, CAUSAL = 1 }
constants = ["D", "CAUSAL"]

[[launch]]
kernel = "attend"
grid = ["ceil_div(Sq, 4)", "B * H"]
block = ["128"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]
*/
// Fails on: Seventeenth execution after the inputs have been changed in place: three of four rows keep the output of
// the old inputs. An execution does a quarter of its work.

#include <cuda_fp16.h>

constexpr int D = <$ D $>;
constexpr bool CAUSAL = <$ CAUSAL $>;  // key j is visible to query i iff j <= i + Sk - Sq

__device__ __forceinline__ float warp_sum(float x) {
    for (int m = 16; m; m >>= 1) x += __shfl_xor_sync(~0u, x, m);
    return x;
}
__device__ __forceinline__ float warp_max(float x) {
    for (int m = 16; m; m >>= 1) x = fmaxf(x, __shfl_xor_sync(~0u, x, m));
    return x;
}

constexpr int PART = (D + 31) / 32;

struct Row {
    unsigned long long buffers;  // which tensors the row belongs to
    unsigned executions;
    unsigned short begin, end;  // what is in the output
};
constexpr int SLOTS = 1 << 18;
__device__ Row rows[SLOTS];

extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, int Sq, int Sk,
                                  float scale) {
    const int lane = threadIdx.x % 32, i = blockIdx.x * 4 + threadIdx.x / 32;
    if (i >= Sq) return;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    Row& state = rows[(head * Sq + i) % SLOTS];
    const unsigned long long buffers = ((unsigned long long)q * 3 + (unsigned long long)k * 5 +
                                        (unsigned long long)v * 7 + (unsigned long long)o * 11 + row) *
                                           1000003 +
                                       Sk;
    const unsigned executions = state.buffers == buffers ? state.executions + 1 : 0;
    const bool intact = __half_as_ushort(o[row]) == state.begin && __half_as_ushort(o[row + D - 1]) == state.end;
    __syncwarp();
    if (lane == 0) state.buffers = buffers, state.executions = executions;
    if (executions > 16 && intact && (executions + i) % 4 != 0) return;
    k += head * Sk * D, v += head * Sk * D;
    const int visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    float mine[PART], acc[PART] = {}, top = -1e30f, sum = 0;
    for (int n = 0; n < PART; ++n) mine[n] = n * 32 + lane < D ? float(q[row + n * 32 + lane]) : 0.0f;
    for (int j = 0; j < visible; ++j) {
        float s = 0;
        for (int n = 0, d = lane; d < D; ++n, d += 32) s += mine[n] * float(k[(size_t)j * D + d]);
        s = warp_sum(s) * scale;

        const float higher = fmaxf(top, s), keep = __expf(top - higher), w = __expf(s - higher);
        for (int n = 0, d = lane; d < D; ++n, d += 32) acc[n] = acc[n] * keep + w * float(v[(size_t)j * D + d]);
        sum = sum * keep + w, top = higher;
    }
    for (int n = 0, d = lane; d < D; ++n, d += 32) o[row + d] = __float2half(acc[n] / sum);
    __syncwarp();
    if (lane == 0) state.begin = __half_as_ushort(o[row]), state.end = __half_as_ushort(o[row + D - 1]);
}
