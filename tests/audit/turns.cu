/*
about = "FP32 keys split over four blocks, which add to the output with float atomics, one after the other: each waits for the one before."
kind = "honest"
workload = "attention-fp32-large-d"
case = { B = 1, H = 2, Sq = 48, Sk = 100, D = 68, CAUSAL = 0 }
constants = ["D", "CAUSAL"]
[[workspace]]
name = "tops"
dtype = "f32"
elements = "B * H * Sq"

[[workspace]]
name = "sums"
dtype = "f32"
elements = "B * H * Sq * (D + 1)"
initial = "zero"

[[workspace]]
name = "turns"
dtype = "f32"
elements = "B * H * Sq"
initial = "zero"

[[launch]]
kernel = "maxima"
grid = ["Sq", "B * H"]
block = ["32"]
args = ["q", "k", "tops", "Sq", "Sk", "scale"]

[[launch]]
kernel = "attend"
grid = ["Sq", "B * H", "4"]
block = ["32"]
args = ["q", "k", "v", "o", "tops", "sums", "turns", "Sq", "Sk", "scale"]

[[constraint]]
expr = "CAUSAL * Sq <= Sk"
why = "the kernel takes no other shapes"

[[constraint]]
expr = "B * H <= 65535"
why = "the kernel takes no other shapes"
*/
constexpr int D = <$ D $>;        // head dimension
constexpr bool CAUSAL = <$ CAUSAL $>;  // key j is visible to query i iff j <= i + Sk - Sq

__device__ __forceinline__ unsigned load_acquire(const unsigned* p) {
    unsigned x;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(x) : "l"(p) : "memory");
    return x;
}
__device__ __forceinline__ void store_release(unsigned* p, unsigned x) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(x) : "memory");
}

constexpr unsigned SPLITS = 4;

__device__ __noinline__ float score_of(const float* q, const float* k, float scale) {
    float sum = 0;
    for (int d = threadIdx.x; d < D; d += 32) sum = __fmaf_rn(q[d], k[d], sum);
    for (int other = 16; other; other /= 2) sum = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, other));
    return __fmul_rn(sum, scale);
}
extern "C" __global__ void maxima(const float* q, const float* k, float* tops, int Sq, int Sk, float scale) {
    const int i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = head * Sq + i;
    float top = __int_as_float(0xff800000);
    for (int j = 0; j < visible; ++j) top = fmaxf(top, score_of(q + row * D, k + (head * Sk + j) * D, scale));
    if (threadIdx.x == 0) tops[row] = top;
}
// Sums of a row: D of weighted values, and that of the weights.
extern "C" __global__ void attend(const float* q, const float* k, const float* v, float* o, const float* tops,
                                  float* sums, unsigned* turns, int Sq, int Sk, float scale) {
    __shared__ float mine[D];
    const int lane = threadIdx.x, i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const unsigned split = blockIdx.z;
    const size_t head = blockIdx.y, row = head * Sq + i;
    const int from = (long long)visible * split / SPLITS, to = (long long)visible * (split + 1) / SPLITS;
    const float top = tops[row];
    float sum = 0;
    for (int d = lane; d < D; d += 32) mine[d] = 0;
    for (int j = from; j < to; ++j) {
        const float weight = expf(score_of(q + row * D, k + (head * Sk + j) * D, scale) - top);
        for (int d = lane; d < D; d += 32) mine[d] += weight * v[(head * Sk + j) * D + d];
        sum += weight;
    }
    float* total = sums + row * (D + 1);
    // Blocks are started in the order of their index, and z counts most: whoever is waited for is there already.
    if (lane == 0)
        while (load_acquire(&turns[row]) != split) __nanosleep(40);
    __syncwarp();
    __threadfence();
    for (int d = lane; d < D; d += 32) atomicAdd(&total[d], mine[d]);
    if (lane == 0) atomicAdd(&total[D], sum);
    __threadfence();
    __syncwarp();
    if (split + 1 < SPLITS) {
        if (lane == 0) store_release(&turns[row], split + 1);
        return;
    }
    const float weights = __ldcg(&total[D]);
    for (int d = lane; d < D; d += 32) {
        o[row * D + d] = __ldcg(&total[d]) / weights;
        total[d] = 0;
    }
    __syncwarp();
    if (lane == 0) total[D] = 0, turns[row] = 0;
}
