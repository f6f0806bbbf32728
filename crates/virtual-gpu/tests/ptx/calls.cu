// Calls that stay calls: printf, a failed assertion, the device's heap, and functions that are not inlined. calls.ptx is
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

// Reads what it has freed.
extern "C" __global__ void after(int* out) {
    int* own = static_cast<int*>(malloc(16));
    own[0] = threadIdx.x;
    free(own);
    out[threadIdx.x] = own[0];
}

__device__ __noinline__ int twice(int x) { return 2 * x; }

extern "C" __global__ void call(int* out) { out[threadIdx.x] = twice(threadIdx.x); }

struct Pair {
    double wide;
    short narrow[2];
    signed char byte;
};

// Takes and returns a structure, and returns early in some lanes.
__device__ __noinline__ Pair mixed(Pair pair, int x) {
    if (x % 3 == 0) return pair;
    pair.wide += twice(x);
    pair.narrow[1] -= 5;
    pair.byte = -pair.byte;
    return pair;
}

// Calls in some lanes only.
extern "C" __global__ void some(int* out) {
    int x = threadIdx.x;
    Pair pair = {0.5 * x, {short(x), short(-x)}, (signed char)(x)};
    if (x % 2 == 0) pair = mixed(pair, x);
    out[x] = int(4 * pair.wide) + 1000 * pair.narrow[1] + 100000 * pair.byte;
}

// Far from 0, the compiler calls a function of its own.
extern "C" __global__ void far(const float* in, int* out) {
    double sine, cosine;
    sincos(1e9 * in[threadIdx.x], &sine, &cosine);
    out[threadIdx.x] = __double2int_rn(1e6 * sine) + __double2int_rn(1e6 * cosine);
}

__device__ __noinline__ int sum_to(int x) { return x < 2 ? x : sum_to(x - 1) * x + sum_to(x - 2); }

extern "C" __global__ void itself(const int* in, int* out) { out[threadIdx.x] = sum_to(in[threadIdx.x]); }

// Calls a function through a table of pointers.
__device__ int thrice(int x) { return 3 * x; }
__device__ int (*table[2])(int) = {twice, thrice};

extern "C" __global__ void pointed(int* out) { out[threadIdx.x] = table[threadIdx.x % 2](threadIdx.x); }

// All blocks wait for each other at the address of a cooperative launch, as in CUDA's cooperative groups.
extern "C" __global__ void rounds(int* out) {
    __shared__ int mine;
    unsigned high, low;
    asm volatile("mov.u32 %0, %%envreg1; mov.u32 %1, %%envreg2;" : "=r"(high), "=r"(low));
    unsigned* arrived = reinterpret_cast<unsigned*>(static_cast<unsigned long long>(high) << 32 | low);
    if (threadIdx.x == 0) out[blockIdx.x] = blockIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        unsigned added = blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1;
        unsigned before = atomicAdd(arrived, added);
        while (((*reinterpret_cast<volatile unsigned*>(arrived) ^ before) & 0x80000000u) == 0) {}
        __threadfence();
        mine = out[(blockIdx.x + 1) % gridDim.x];
    }
    __syncthreads();
    if (threadIdx.x == 0) out[gridDim.x + blockIdx.x] = mine;
}
