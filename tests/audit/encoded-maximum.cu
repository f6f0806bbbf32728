/*
about = "Three kernels: maxima by atomicMax on floats encoded as integers, the output with them, and one that zeroes the maxima again."
kind = "honest"
workload = "attention-fp16-d64-full"
case = { B = 2, H = 3, Sq = 45, Sk = 150, D = 44, CAUSAL = 0 }
constants = ["D", "CAUSAL"]
[[workspace]]
name = "tops"
dtype = "f32"
elements = "B * H * Sq"
initial = "zero"

[[launch]]
kernel = "maxima"
grid = ["ceil_div(Sk, 128)", "Sq", "B * H"]
block = ["128"]
args = ["q", "k", "tops", "Sq", "Sk", "scale"]

[[launch]]
kernel = "attend"
grid = ["Sq", "B * H"]
block = ["32"]
args = ["q", "k", "v", "o", "tops", "Sq", "Sk", "scale"]

[[launch]]
kernel = "clear"
grid = ["ceil_div(B * H * Sq, 256)"]
block = ["256"]
args = ["tops", "B", "H", "Sq"]

[[constraint]]
expr = "CAUSAL * Sq <= Sk"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "B * H <= 65535"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "Sq <= 65535"
why = "the kernel takes no other shapes"
*/
#include <cuda_fp16.h>

constexpr int D = <$ D $>;        // head dimension
constexpr bool CAUSAL = <$ CAUSAL $>;  // key j is visible to query i iff j <= i + Sk - Sq

constexpr int PART = (D + 31) / 32;

// Integers in the order of the floats; 0 is below all of them.
__device__ unsigned encode(float x) {
    const unsigned b = __float_as_uint(x);
    return b & 0x80000000u ? ~b : b | 0x80000000u;
}
__device__ float decode(unsigned e) { return __uint_as_float(e & 0x80000000u ? e & 0x7fffffffu : ~e); }

// One thread's product, with the same bits wherever it is called.
__device__ __noinline__ float score_of(const __half* q, const __half* k, float scale) {
    float sum = 0;
    for (int d = 0; d < D; ++d) sum = __fmaf_rn(__half2float(q[d]), __half2float(k[d]), sum);
    return __fmul_rn(sum, scale);
}
extern "C" __global__ void maxima(const __half* q, const __half* k, unsigned* tops, int Sq, int Sk, float scale) {
    __shared__ unsigned highest;
    if (threadIdx.x == 0) highest = 0;
    __syncthreads();
    const int i = blockIdx.y, j = blockIdx.x * 128 + threadIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.z;
    unsigned mine = j < visible ? encode(score_of(q + (head * Sq + i) * D, k + (head * Sk + j) * D, scale)) : 0u;
    mine = __reduce_max_sync(~0u, mine);
    if (threadIdx.x % 32 == 0 && mine) atomicMax(&highest, mine);
    __syncthreads();
    if (threadIdx.x == 0 && highest) atomicMax(&tops[head * Sq + i], highest);
}
extern "C" __global__ void attend(const __half* q, const __half* k, const __half* v, __half* o, const unsigned* tops,
                                  int Sq, int Sk, float scale) {
    const int lane = threadIdx.x, i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = head * Sq + i;
    const float top = decode(tops[row]);
    float acc[PART] = {}, sum = 0;
    for (int first = 0; first < visible; first += 32) {
        const int j = first + lane, count = min(32, visible - first);
        const float weight = j < visible ? __expf(score_of(q + row * D, k + (head * Sk + j) * D, scale) - top) : 0.0f;
        for (int l = 0; l < count; ++l) {
            const float w = __shfl_sync(~0u, weight, l);
            for (int n = 0, d = lane; d < D; ++n, d += 32)
                acc[n] += w * __half2float(v[(head * Sk + first + l) * D + d]);
        }
        sum += weight;
    }
    for (int other = 16; other; other /= 2) sum += __shfl_xor_sync(~0u, sum, other);
    for (int n = 0, d = lane; d < D; ++n, d += 32) o[row * D + d] = __float2half(acc[n] / sum);
}
extern "C" __global__ void clear(unsigned* tops, int B, int H, int Sq) {
    const size_t n = (size_t)blockIdx.x * 256 + threadIdx.x;
    if (n < (size_t)B * H * Sq) tops[n] = 0;
}
