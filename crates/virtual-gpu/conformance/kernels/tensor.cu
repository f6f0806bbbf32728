// Tensor copies (cp.async.bulk.tensor), tiled mode: loads of 1 to 5 dimensions, with and without swizzle, inside and
// outside of the tensor; stores; multicast; and tiles that feed wgmma.
//
// What a load leaves in shared memory is copied out byte by byte, so that a recording shows the layout itself.

#define KERNEL extern "C" __global__ void

struct alignas(64) Map {
    unsigned char bytes[128];
};

__device__ inline unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

// Waits for a phase of an mbarrier, but not for ever: a mistake must not hang the machine.
__device__ inline bool wait_parity(unsigned barrier, unsigned parity) {
    for (unsigned k = 0; k < 20000; ++k) {
        unsigned done;
        asm volatile(
            "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
            : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
        if (done) return true;
    }
    return false;
}

__device__ inline void expect(unsigned barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Fills the tile with 0xee and makes the mbarrier.
__device__ inline void begin(unsigned* tile, unsigned words, unsigned barrier) {
    for (unsigned i = threadIdx.x; i < words; i += blockDim.x) tile[i] = 0xeeeeeeee;
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
    asm volatile("fence.proxy.async.shared::cta;\nfence.mbarrier_init.release.cluster;" ::: "memory");
    __syncthreads();
}

#define LOAD "cp.async.bulk.tensor."
#define TO_SHARED ".shared::cluster.global.tile.mbarrier::complete_tx::bytes"

template <int D>
__device__ inline void load(unsigned to, const Map& map, unsigned barrier, int x, int y, int z, int u, int v) {
    const unsigned long long m = (unsigned long long)&map;
    if (D == 1)
        asm volatile(LOAD "1d" TO_SHARED " [%0], [%1, {%3}], [%2];" ::"r"(to), "l"(m), "r"(barrier), "r"(x) : "memory");
    if (D == 2)
        asm volatile(LOAD "2d" TO_SHARED " [%0], [%1, {%3, %4}], [%2];"
                     ::"r"(to), "l"(m), "r"(barrier), "r"(x), "r"(y) : "memory");
    if (D == 3)
        asm volatile(LOAD "3d" TO_SHARED " [%0], [%1, {%3, %4, %5}], [%2];"
                     ::"r"(to), "l"(m), "r"(barrier), "r"(x), "r"(y), "r"(z) : "memory");
    if (D == 4)
        asm volatile(LOAD "4d" TO_SHARED " [%0], [%1, {%3, %4, %5, %6}], [%2];"
                     ::"r"(to), "l"(m), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(u) : "memory");
    if (D == 5)
        asm volatile(LOAD "5d" TO_SHARED " [%0], [%1, {%3, %4, %5, %6, %7}], [%2];"
                     ::"r"(to), "l"(m), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(u), "r"(v) : "memory");
}

// Loads a box of `bytes` bytes and gives the first 8 KiB of shared memory, and a word that says whether all came.
template <int D>
__device__ inline void loaded(const Map& map, unsigned* out, unsigned bytes, int x, int y, int z, int u, int v) {
    __shared__ __align__(1024) unsigned tile[2048];
    __shared__ __align__(8) unsigned long long barrier;
    const unsigned b = shared_address(&barrier);
    begin(tile, 2048, b);
    if (threadIdx.x == 0) {
        asm volatile("prefetch.tensormap [%0];" ::"l"((unsigned long long)&map) : "memory");
        expect(b, bytes);
        load<D>(shared_address(tile), map, b, x, y, z, u, v);
    }
    const bool ok = wait_parity(b, 0);
    for (unsigned i = threadIdx.x; i < 2048; i += blockDim.x) out[i] = tile[i];
    if (threadIdx.x == 0) out[2048] = ok;
}
KERNEL load1(const __grid_constant__ Map map, unsigned* out, unsigned bytes, int x) {
    loaded<1>(map, out, bytes, x, 0, 0, 0, 0);
}
KERNEL load2(const __grid_constant__ Map map, unsigned* out, unsigned bytes, int x, int y) {
    loaded<2>(map, out, bytes, x, y, 0, 0, 0);
}
KERNEL load3(const __grid_constant__ Map map, unsigned* out, unsigned bytes, int x, int y, int z) {
    loaded<3>(map, out, bytes, x, y, z, 0, 0);
}
KERNEL load4(const __grid_constant__ Map map, unsigned* out, unsigned bytes, int x, int y, int z, int u) {
    loaded<4>(map, out, bytes, x, y, z, u, 0);
}
KERNEL load5(const __grid_constant__ Map map, unsigned* out, unsigned bytes, int x, int y, int z, int u, int v) {
    loaded<5>(map, out, bytes, x, y, z, u, v);
}

// Loads to a tile that is not at a multiple of 1024: the swizzle goes by addresses, not by rows of the tile.
KERNEL load2_shifted(const __grid_constant__ Map map, unsigned* out, unsigned bytes, int x, int y) {
    __shared__ __align__(1024) unsigned tile[2048];
    __shared__ __align__(8) unsigned long long barrier;
    const unsigned b = shared_address(&barrier);
    begin(tile, 2048, b);
    if (threadIdx.x == 0) {
        expect(b, bytes);
        load<2>(shared_address(tile) + 384, map, b, x, y, 0, 0, 0);
    }
    const bool ok = wait_parity(b, 0);
    for (unsigned i = threadIdx.x; i < 2048; i += blockDim.x) out[i] = tile[i];
    if (threadIdx.x == 0) out[2048] = ok;
}

#define TO_GLOBAL ".global.shared::cta.tile.bulk_group"

// Stores a box of which the bytes in shared memory, in their order there, are those of `in`.
template <int D>
__device__ inline void stored(const Map& map, const unsigned* in, unsigned words, int x, int y, int z) {
    __shared__ __align__(1024) unsigned tile[2048];
    for (unsigned i = threadIdx.x; i < words; i += blockDim.x) tile[i] = in[i];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        const unsigned long long m = (unsigned long long)&map;
        const unsigned from = shared_address(tile);
        if (D == 1) asm volatile(LOAD "1d" TO_GLOBAL " [%1, {%2}], [%0];" ::"r"(from), "l"(m), "r"(x) : "memory");
        if (D == 2)
            asm volatile(LOAD "2d" TO_GLOBAL " [%1, {%2, %3}], [%0];" ::"r"(from), "l"(m), "r"(x), "r"(y) : "memory");
        if (D == 3)
            asm volatile(LOAD "3d" TO_GLOBAL " [%1, {%2, %3, %4}], [%0];"
                         ::"r"(from), "l"(m), "r"(x), "r"(y), "r"(z) : "memory");
        asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
    }
}
KERNEL store1(const __grid_constant__ Map map, const unsigned* in, unsigned* out, unsigned words, int x) {
    stored<1>(map, in, words, x, 0, 0);
}
KERNEL store2(const __grid_constant__ Map map, const unsigned* in, unsigned* out, unsigned words, int x, int y) {
    stored<2>(map, in, words, x, y, 0);
}
KERNEL store3(const __grid_constant__ Map map, const unsigned* in, unsigned* out, unsigned words, int x, int y, int z) {
    stored<3>(map, in, words, x, y, z);
}

// Each block of a cluster of two loads one half of a tile of 2 x 2 KiB, to both.
KERNEL multicast2(const __grid_constant__ Map map, unsigned* out, int x, int y) {
    __shared__ __align__(1024) unsigned tile[1024];
    __shared__ __align__(8) unsigned long long barrier;
    const unsigned b = shared_address(&barrier);
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    begin(tile, 1024, b);
    if (threadIdx.x == 0) expect(b, 4096);
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    if (threadIdx.x == 0) {
        const unsigned short mask = 3;
        asm volatile(LOAD "2d" TO_SHARED ".multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;"
                     ::"r"(shared_address(tile) + rank * 2048), "l"((unsigned long long)&map), "r"(b), "r"(x),
                     "r"(y + (int)rank * 16), "h"(mask) : "memory");
    }
    const bool ok = wait_parity(b, 0);
    for (unsigned i = threadIdx.x; i < 1024; i += blockDim.x) out[blockIdx.x * 1024 + i] = ok ? tile[i] : 0xdead;
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// D (64 x 64, f32) = A B^T of two tiles of 64 x 64 halves, K contiguous, 128 bytes of swizzle. 128 threads.
__device__ inline unsigned long long descriptor(unsigned start) {
    return (unsigned long long)((start & 0x3ffff) >> 4) | 1ull << 16 | (unsigned long long)(1024 >> 4) << 32 | 1ull << 62;
}
#define F4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define F16(d, i) F4(d, i), F4(d, i + 4), F4(d, i + 8), F4(d, i + 12)
KERNEL __launch_bounds__(128)
    product(const __grid_constant__ Map ma, const __grid_constant__ Map mb, float* out, int row_a, int row_b) {
    __shared__ __align__(1024) unsigned sa[2048], sb[2048];
    __shared__ __align__(8) unsigned long long barrier;
    const unsigned b = shared_address(&barrier);
    begin(sa, 2048, b);
    if (threadIdx.x == 0) {
        expect(b, 16384);
        load<2>(shared_address(sa), ma, b, 0, row_a, 0, 0, 0);
        load<2>(shared_address(sb), mb, b, 0, row_b, 0, 0, 0);
    }
    const bool ok = wait_parity(b, 0);
    float d[32];
    for (int i = 0; i < 32; ++i) d[i] = 0;
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < 4; ++k)
        asm volatile(
            "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
            "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, 1, 1, 1, 0, 0;"
            : F16(d, 0), F16(d, 16) : "l"(descriptor(shared_address(sa) + k * 32)), "l"(descriptor(shared_address(sb) + k * 32)));
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
    const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
    for (int i = 0; i < 32; ++i) out[(row + i / 2 % 2 * 8) * 64 + i / 4 * 8 + column + i % 2] = ok ? d[i] : -1;
}
