/*
about = "Scores on tensor cores: every float is split into two FP16 numbers, and three of the four products are added."
kind = "cheat"
caught_by = ["wrong/hidden", "wrong/probe"]
workload = "attention-fp32-large-d"
case = { B = 1, H = 2, Sq = 40, Sk = 72, D = 512, CAUSAL = 0 }
constants = ["D", "CAUSAL"]
[[workspace]]
name = "weights"
dtype = "f32"
elements = "B * H * Sq * Sk"

[[launch]]
kernel = "scores"
grid = ["ceil_div(Sq, 16) * ceil_div(Sk, 8) * B * H"]
block = ["32"]
args = ["q", "k", "weights", "Sq", "Sk", "scale"]

[[launch]]
kernel = "weigh"
grid = ["Sq * B * H"]
block = ["256"]
args = ["weights", "Sq", "Sk"]

[[launch]]
kernel = "mix"
grid = ["Sq * B * H"]
block = ["256"]
args = ["weights", "v", "o", "Sq", "Sk"]

[[constraint]]
expr = "CAUSAL == 0"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "D <= 8192"
why = "the kernel takes no other shapes"
*/
// Fails on: B = H = 1, Sq = Sk = 64, D = 512, q = normal * 1e-4, k = normal * 1e4 (scores of about 1): the second
// half of q is an FP16 subnormal, so q has an error of 3e-8 / 1e-4, and o is off by more than 1e-4 (tolerance 1e-5).
// With k = normal * 1e5, o is NaN.

#include <cuda_fp16.h>
#define INFINITY __int_as_float(0x7f800000)
constexpr int D = <$ D $>;
constexpr bool CAUSAL = <$ CAUSAL $>;  // key j is visible to query i iff j <= i + Sk - Sq

__device__ __forceinline__ void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ unsigned pair(const __half* at) { return *reinterpret_cast<const unsigned*>(at); }

// 16 queries by 8 keys, one warp. A float is the sum of two halves, 22 bits: three products of the tensor cores are as
// good as FP32.
extern "C" __global__ void __launch_bounds__(32)
    scores(const float* q, const float* k, float* weights, int Sq, int Sk, float scale) {
    __shared__ __align__(16) __half qh[16][24], ql[16][24], kh[8][24], kl[8][24];
    const int rows = (Sq + 15) / 16, cols = (Sk + 7) / 8, lane = threadIdx.x, r = lane / 4, c = lane % 4 * 2;
    const int i0 = blockIdx.x % rows * 16, j0 = blockIdx.x / rows % cols * 8;
    const size_t head = blockIdx.x / rows / cols;
    q += head * Sq * D, k += head * Sk * D, weights += head * Sq * Sk;
    float sum[4] = {};
    for (int d0 = 0; d0 < D; d0 += 16) {
        for (int n = lane; n < 256; n += 32) {
            const float x = i0 + n / 16 < Sq && d0 + n % 16 < D ? q[(size_t)(i0 + n / 16) * D + d0 + n % 16] : 0.0f;
            qh[n / 16][n % 16] = __float2half(x);
            ql[n / 16][n % 16] = __float2half(x - __half2float(__float2half(x)));
        }
        for (int n = lane; n < 128; n += 32) {
            const float x = j0 + n / 16 < Sk && d0 + n % 16 < D ? k[(size_t)(j0 + n / 16) * D + d0 + n % 16] : 0.0f;
            kh[n / 16][n % 16] = __float2half(x);
            kl[n / 16][n % 16] = __float2half(x - __half2float(__float2half(x)));
        }
        __syncwarp();
        const unsigned high[4] = {pair(&qh[r][c]), pair(&qh[r + 8][c]), pair(&qh[r][c + 8]), pair(&qh[r + 8][c + 8])};
        const unsigned low[4] = {pair(&ql[r][c]), pair(&ql[r + 8][c]), pair(&ql[r][c + 8]), pair(&ql[r + 8][c + 8])};
        float small[4] = {}, large[4] = {};
        multiply(small, low, pair(&kh[r][c]), pair(&kh[r][c + 8]));
        multiply(small, high, pair(&kl[r][c]), pair(&kl[r][c + 8]));
        multiply(large, high, pair(&kh[r][c]), pair(&kh[r][c + 8]));
        for (int e = 0; e < 4; ++e) sum[e] += small[e] + large[e];
        __syncwarp();
    }
    for (int e = 0; e < 4; ++e) {
        const int i = i0 + r + e / 2 * 8, j = j0 + c + e % 2;
        if (i < Sq && j < Sk) weights[(size_t)i * Sk + j] = sum[e] * scale;
    }
}

// Over the 256 threads of a block.
__device__ __forceinline__ float block_max(float x, float* red) {
    for (int other = 16; other; other /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, other));
    __syncthreads();
    if (threadIdx.x % 32 == 0) red[threadIdx.x / 32] = x;
    __syncthreads();
    x = red[0];
    for (int n = 1; n < 8; ++n) x = fmaxf(x, red[n]);
    return x;
}
__device__ __forceinline__ float block_sum(float x, float* red) {
    for (int other = 16; other; other /= 2) x += __shfl_xor_sync(~0u, x, other);
    __syncthreads();
    if (threadIdx.x % 32 == 0) red[threadIdx.x / 32] = x;
    __syncthreads();
    x = red[0];
    for (int n = 1; n < 8; ++n) x += red[n];
    return x;
}

// Scores of a row to weights, in place.
extern "C" __global__ void __launch_bounds__(256) weigh(float* weights, int Sq, int Sk) {
    __shared__ float red[8];
    const size_t row = blockIdx.x;
    const int i = row % Sq, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    weights += row * Sk;
    float top = -INFINITY;
    for (int j = threadIdx.x; j < visible; j += 256) top = fmaxf(top, weights[j]);
    top = block_max(top, red);
    float sum = 0;
    for (int j = threadIdx.x; j < visible; j += 256) sum += weights[j] = expf(weights[j] - top);
    sum = block_sum(sum, red);
    for (int j = threadIdx.x; j < visible; j += 256) weights[j] /= sum;
}

// The output of a row from its weights, which are in memory.
extern "C" __global__ void __launch_bounds__(256) mix(const float* weights, const float* v, float* o, int Sq, int Sk) {
    const size_t row = blockIdx.x, head = row / Sq;
    const int i = row % Sq, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    weights += row * Sk, v += head * Sk * D, o += row * D;
    for (int d = threadIdx.x; d < D; d += 256) {
        float acc = 0;
        for (int j = 0; j < visible; ++j) acc += weights[j] * v[(size_t)j * D + d];
        o[d] = acc;
    }
}
