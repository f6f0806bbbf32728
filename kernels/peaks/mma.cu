// The rate of the FP16 tensor cores, summing in FP32, by mma.sync: the fastest way before sm_90.
//
// 8 independent tiles of 16 x 8 a warp and 4 warps a scheduler hide the latency of the tensor core. The operands are zero,
// because they then take the least power: the figure is a ceiling, which a power limit must not lower.

constexpr int TILES = 8, ROUNDS = 8;

__device__ inline void multiply(float (&d)[4], unsigned a, unsigned b) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %4, %4, %4}, {%5, %5}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a), "r"(b));
}

extern "C" __global__ void __launch_bounds__(256, 2) mma(float* sink, int operand, int steps) {
    float d[TILES][4] = {};
    for (int step = 0; step < steps; ++step) {
#pragma unroll
        for (int round = 0; round < ROUNDS; ++round) {
#pragma unroll
            for (int i = 0; i < TILES; ++i) multiply(d[i], operand, operand);
        }
    }
    float sum = 0;
#pragma unroll
    for (int i = 0; i < TILES; ++i) sum += d[i][0] + d[i][1] + d[i][2] + d[i][3];
    // Never: it is zero, for the operands are. But the compiler does not know.
    if (sum != 0) *sink = sum;
}
