// Calls that stay calls: printf, a failed assertion, the device's heap, and a function that is not inlined. calls.ptx is
// NVRTC 13.0's translation of this file with `--std=c++17 --use_fast_math --gpu-architecture=sm_90a`.

// Gives what printf returns: the number of arguments.
extern "C" __global__ void tell(int* out) {
    int first = printf("no arguments, 100%%\n");
    int second = printf("thread %d of %u: %5.2f, %s\n", threadIdx.x, blockDim.x, 0.5f * threadIdx.x, "text");
    out[threadIdx.x] = first * 100 + second;
}

// Fails in the first thread whose value is not below 5.
extern "C" __global__ void claim(const int* in, int* out) {
    int value = in[threadIdx.x];
    assert(value < 5);
    out[threadIdx.x] = value;
}

extern "C" __global__ void keep(int* out) {
    int* own = static_cast<int*>(malloc(16));
    own[0] = threadIdx.x;
    out[threadIdx.x] = own[0] + 1;
    free(own);
}

__device__ __noinline__ int twice(int x) { return 2 * x; }

extern "C" __global__ void call(int* out) { out[threadIdx.x] = twice(threadIdx.x); }
