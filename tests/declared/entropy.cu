#define THREADS 256
__global__ void entropy(const float* logits, const int* labels, float* loss, int N) {
    __shared__ float part[32];
    const float* row = logits + (size_t)blockIdx.x * N;
    float most = -3.4e38f, sum = 0;
    for (int i = threadIdx.x; i < N; i += THREADS) {
        const float v = row[i], m = fmaxf(most, v);
        sum = sum * __expf(most - m) + __expf(v - m);
        most = m;
    }
    for (int d = 16; d > 0; d /= 2) {
        const float om = __shfl_xor_sync(~0u, most, d), os = __shfl_xor_sync(~0u, sum, d), m = fmaxf(most, om);
        sum = sum * __expf(most - m) + os * __expf(om - m);
        most = m;
    }
    __shared__ float mosts[32];
    if (threadIdx.x % 32 == 0) { part[threadIdx.x / 32] = sum; mosts[threadIdx.x / 32] = most; }
    __syncthreads();
    if (threadIdx.x == 0) {
        float m = mosts[0], s = part[0];
        for (int i = 1; i < THREADS / 32; ++i) {
            const float n = fmaxf(m, mosts[i]);
            s = s * __expf(m - n) + part[i] * __expf(mosts[i] - n);
            m = n;
        }
        loss[blockIdx.x] = logf(s) + m - row[labels[blockIdx.x]];
    }
}
