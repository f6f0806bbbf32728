// How fast bytes come from device memory or from L2: which of the two is a matter of how many bytes are swept.
//
// The buffer is a row of chunks. A block takes every gridDim.x-th of all chunks of all passes, so blocks stay busy to the
// end whatever the numbers are, and a chunk is read by another multiprocessor in every pass.

constexpr int THREADS = 512;
// 16-byte loads that a thread has in flight: with 1,024 threads on a multiprocessor 128 KiB, several times what latency
// times bandwidth asks for (4.8 TB/s * 1 us / 132 multiprocessors = 36 KiB).
constexpr int LOADS = 8;

// Past L1, which would otherwise answer instead of L2. Volatile, so that no load is left out.
__device__ inline uint4 load(const uint4* from) {
    uint4 value;
    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w) : "l"(from));
    return value;
}

__device__ inline void load_chunk(uint4 (&values)[LOADS], const uint4* from, int chunk) {
    from += (size_t)chunk * (THREADS * LOADS) + threadIdx.x;
#pragma unroll
    for (int i = 0; i < LOADS; ++i) values[i] = load(from + i * THREADS);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2) read(const uint4* from, unsigned* sink, int chunks, int passes) {
    unsigned bits = 0;
    for (int i = blockIdx.x; i < chunks * passes; i += gridDim.x) {
        uint4 values[LOADS];
        load_chunk(values, from, i % chunks);
#pragma unroll
        for (int j = 0; j < LOADS; ++j) bits |= values[j].x | values[j].y | values[j].z | values[j].w;
    }
    // Never: the buffer is zero. But the compiler does not know.
    if (bits != 0) *sink = bits;
}

extern "C" __global__ void __launch_bounds__(THREADS, 2) copy(const uint4* from, uint4* to, int chunks) {
    for (int chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
        uint4 values[LOADS];
        load_chunk(values, from, chunk);
        uint4* there = to + (size_t)chunk * (THREADS * LOADS) + threadIdx.x;
#pragma unroll
        for (int i = 0; i < LOADS; ++i) there[i * THREADS] = values[i];
    }
}
