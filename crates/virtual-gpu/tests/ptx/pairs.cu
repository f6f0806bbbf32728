// Thirteen honest kernels, each with a twin in which one mistake is planted. A twin is the same code with `planted` true. The
// lines of the mistake are marked with its name: where it shows, and the other access of a race. pairs.ptx is NVRTC 13.0's
// translation of this file with `--std=c++17 --use_fast_math --gpu-architecture=sm_90a -lineinfo`.

#define PAIR(name)                                                                                           \
    extern "C" __global__ void name##_clean(float* x, float* y, int n) { name<false>(x, y, n); }             \
    extern "C" __global__ void name##_planted(float* x, float* y, int n) { name<true>(x, y, n); }

// Blocks add to one sum.
template <bool planted>
__device__ void global_race(float* x, float* y, int n) {
    if (threadIdx.x != 0) return;
    float own = x[blockIdx.x * blockDim.x];
    if (planted) {
        y[0] = own + y[0];  // here: global_race, other: global_race
    } else {
        atomicAdd(y, own);
    }
}
PAIR(global_race)

// A sum over a warp through shared memory.
template <bool planted>
__device__ void warp_race(float* x, float* y, int n) {
    __shared__ float s[64];
    int lane = threadIdx.x;
    s[lane] = x[lane];
    __syncthreads();
    for (int half = 16; half > 0; half /= 2) {
        float other = lane < half ? s[lane + half] : 0;  // here: warp_race
        __syncwarp();
        if (lane < half) s[lane] += other;  // other: warp_race
        if (!planted) __syncwarp();
    }
    if (lane == 0) y[0] = s[0];
}
PAIR(warp_race)

// Block 0 sends block 1 a number, and then a flag.
template <bool planted>
__device__ void missing_fence(float* x, float* y, int n) {
    volatile int* flag = reinterpret_cast<volatile int*>(y + 64);
    if (threadIdx.x != 0 || blockIdx.x > 1) return;
    if (blockIdx.x == 0) {
        y[1] = 2 * x[0];  // other: missing_fence
        if (!planted) __threadfence();
        *flag = 1;
    } else {
        while (*flag == 0) {}
        __threadfence();
        y[2] = y[1] + 1;  // here: missing_fence
    }
}
PAIR(missing_fence)

// A sum of the first half of a warp.
template <bool planted>
__device__ void wrong_mask(float* x, float* y, int n) {
    float value = x[threadIdx.x];
    if (threadIdx.x < 16) {
        for (int half = 8; half > 0; half /= 2) {
            value += __shfl_xor_sync(planted ? 0xffffffff : 0x0000ffff, value, half);  // here: wrong_mask
        }
    }
    y[threadIdx.x] = value;
}
PAIR(wrong_mask)

// Copies four numbers at a time.
template <bool planted>
__device__ void misaligned(float* x, float* y, int n) {
    const float4* from = reinterpret_cast<const float4*>(x + (planted ? 2 : 4));
    if (threadIdx.x < 8) {
        float4 four = from[threadIdx.x];  // here: misaligned
        y[threadIdx.x] = four.x + four.y + four.z + four.w;
    }
}
PAIR(misaligned)

// n is no multiple of the threads.
template <bool planted>
__device__ void out_of_bounds(float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (planted || i < n) {
        y[i] = 2 * x[i];  // here: out_of_bounds
    }
}
PAIR(out_of_bounds)

// The output is not zero before.
template <bool planted>
__device__ void uninitialised(float* x, float* y, int n) {
    if (planted) {
        y[threadIdx.x] += x[threadIdx.x];  // here: uninitialised
    } else {
        y[threadIdx.x] = x[threadIdx.x];
    }
}
PAIR(uninitialised)

template <bool planted>
__device__ void divergent_barrier(float* x, float* y, int n) {
    __shared__ float s[32];
    if (threadIdx.x < 16) {
        s[threadIdx.x] = x[threadIdx.x];
        if (planted) __syncthreads();  // here: divergent_barrier
    }
    if (!planted) __syncthreads();
    y[threadIdx.x] = s[15 - threadIdx.x % 16];
}
PAIR(divergent_barrier)

__device__ unsigned shared_address(const void* pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// Copies two stages, and waits for the first.
template <bool planted>
__device__ void missing_wait(float* x, float* y, int n) {
    __shared__ alignas(16) float s[2][32];
    for (int stage = 0; stage < 2; stage++) {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4; cp.async.commit_group;"
                     ::"r"(shared_address(&s[stage][threadIdx.x])), "l"(x + 32 * stage + threadIdx.x));  // other: missing_wait
    }
    if (planted) {
        asm volatile("cp.async.wait_group 2;" ::: "memory");
    } else {
        asm volatile("cp.async.wait_group 1;" ::: "memory");
    }
    y[threadIdx.x] = s[0][threadIdx.x];  // here: missing_wait
    asm volatile("cp.async.wait_all;" ::: "memory");
}
PAIR(missing_wait)

// Warp 0 copies tiles to one stage, and warp 1 adds them up.
template <bool planted>
__device__ void early_release(float* x, float* y, int n) {
    __shared__ alignas(16) float s[32];
    __shared__ alignas(8) unsigned long long full, empty;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(&full)));
        asm volatile("mbarrier.init.shared.b64 [%0], 32;" ::"r"(shared_address(&empty)));
    }
    __syncthreads();
    auto wait = [](unsigned long long& barrier, int parity) {
        asm volatile("{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra AGAIN; }"
                     ::"r"(shared_address(&barrier)), "r"(parity) : "memory");
    };
    auto release = [&] { asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(shared_address(&empty)) : "memory"); };
    if (threadIdx.x == 0) {
        for (int tile = 0; tile < 3; tile++) {
            wait(empty, tile + 1 & 1);
            asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 128;" ::"r"(shared_address(&full)) : "memory");
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 128, [%2];"
                         ::"r"(shared_address(s)), "l"(x + 32 * tile), "r"(shared_address(&full)) : "memory");  // here: early_release
        }
    } else if (threadIdx.x >= 32) {
        float sum = 0;
        for (int tile = 0; tile < 3; tile++) {
            wait(full, tile & 1);
            if (planted) release();
            sum += s[threadIdx.x - 32];  // other: early_release
            if (!planted) release();
        }
        y[threadIdx.x - 32] = sum;
    }
}
PAIR(early_release)

// Every block takes the numbers of the next, if there is one.
template <bool planted>
__device__ void write_after_read(float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, all = gridDim.x * blockDim.x;
    if (i + blockDim.x >= all) return;
    float next = x[i + blockDim.x];  // other: write_after_read
    float* to = planted ? x : y;
    to[i] = next;  // here: write_after_read
}
PAIR(write_after_read)

// Rows are far apart, and an offset needs more than 32 bits.
template <bool planted>
__device__ void overflow(float* x, float* y, int n) {
    long long at = planted ? static_cast<long long>(int(threadIdx.x) * n) : static_cast<long long>(threadIdx.x) * n;
    y[threadIdx.x] = x[at];  // here: overflow
}
PAIR(overflow)

// The upper half of a warp has left.
template <bool planted>
__device__ void absent_lane(float* x, float* y, int n) {
    float value = x[threadIdx.x];
    if (threadIdx.x >= 16) return;
    float next = __shfl_down_sync(0x0000ffff, value, 1, planted ? 32 : 16);  // here: absent_lane
    y[threadIdx.x] = next;
}
PAIR(absent_lane)
