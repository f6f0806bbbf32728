// The rate of the FP32 multiply-add pipes.
//
// 16 chains of multiply-adds a thread and 8 warps a scheduler: the latency of 4 clocks is hidden many times over, and the
// loop's own instructions are one in a hundred.

constexpr int CHAINS = 16, ROUNDS = 16;

extern "C" __global__ void __launch_bounds__(512, 2) ffma(float* sink, float factor, float summand, int steps) {
    float chain[CHAINS];
#pragma unroll
    for (int i = 0; i < CHAINS; ++i) chain[i] = (float)threadIdx.x;
    for (int step = 0; step < steps; ++step) {
#pragma unroll
        for (int round = 0; round < ROUNDS; ++round) {
#pragma unroll
            for (int i = 0; i < CHAINS; ++i) chain[i] = fmaf(chain[i], factor, summand);
        }
    }
    float sum = 0;
#pragma unroll
    for (int i = 0; i < CHAINS; ++i) sum += chain[i];
    // Never: it is zero, for the factor and the summand are. But the compiler does not know.
    if (sum != 0) *sink = sum;
}
