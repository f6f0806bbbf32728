#define THREADS 256
#define PER_THREAD 16
// Counts how often each byte occurs.
__global__ void histogram(const unsigned char* data, unsigned int* bins, int n) {
    __shared__ unsigned int local[256];
    for (int i = threadIdx.x; i < 256; i += THREADS) local[i] = 0;
    __syncthreads();
    const int first = blockIdx.x * THREADS * PER_THREAD + threadIdx.x;
    for (int i = 0; i < PER_THREAD; ++i) {
        const int at = first + i * THREADS;
        if (at < n) atomicAdd(&local[data[at]], 1u);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += THREADS) atomicAdd(&bins[i], local[i]);
}
