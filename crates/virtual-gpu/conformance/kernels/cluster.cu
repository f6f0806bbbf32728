// Clusters: distributed shared memory by loads, stores, atomics and generic pointers, remote mbarriers, multicast.

#define KERNEL extern "C" __global__ void

__device__ inline unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ inline void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__device__ inline unsigned rank() {
    unsigned r;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}
__device__ inline unsigned size() {
    unsigned r;
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(r));
    return r;
}
__device__ inline unsigned mapa(unsigned address, unsigned block) {
    unsigned r;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(address), "r"(block));
    return r;
}
__device__ inline bool wait_parity(unsigned barrier, unsigned parity) {
    for (unsigned k = 0; k < 1000000; ++k) {
        unsigned done;
        asm volatile(
            "{\n.reg .pred p;\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
            "selp.u32 %0, 1, 0, p;\n}"
            : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
        if (done) return true;
    }
    return false;
}

// Where the blocks of a cluster are: one number per special register.
KERNEL places(unsigned* out) {
    unsigned* to = out + (blockIdx.x + gridDim.x * blockIdx.y) * 16;
    unsigned v[12];
    asm volatile("mov.u32 %0, %%clusterid.x;" : "=r"(v[0]));
    asm volatile("mov.u32 %0, %%clusterid.y;" : "=r"(v[1]));
    asm volatile("mov.u32 %0, %%nclusterid.x;" : "=r"(v[2]));
    asm volatile("mov.u32 %0, %%nclusterid.y;" : "=r"(v[3]));
    asm volatile("mov.u32 %0, %%cluster_ctaid.x;" : "=r"(v[4]));
    asm volatile("mov.u32 %0, %%cluster_ctaid.y;" : "=r"(v[5]));
    asm volatile("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(v[6]));
    asm volatile("mov.u32 %0, %%cluster_nctaid.y;" : "=r"(v[7]));
    asm volatile("mov.u32 %0, %%cluster_ctaid.z;" : "=r"(v[8]));
    asm volatile("mov.u32 %0, %%cluster_nctaid.z;" : "=r"(v[9]));
    v[10] = rank();
    v[11] = size();
    if (threadIdx.x == 0)
        for (unsigned k = 0; k < 12; ++k) to[k] = v[k];
}

// Every block reads its neighbours' shared memory, in the shared window and by a generic pointer.
KERNEL neighbours(const unsigned* in, unsigned* out) {
    __shared__ unsigned tile[64];
    const unsigned t = threadIdx.x, i = blockIdx.x * 64 + t;
    tile[t] = in[i];
    cluster_sync();
    const unsigned next = (rank() + 1) % size(), last = (rank() + size() - 1) % size();
    unsigned a;
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(a) : "r"(mapa(shared_address(tile + 63 - t), next)) : "memory");
    unsigned long long far;
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(far) : "l"((unsigned long long)(tile + t)), "r"(last));
    const unsigned b = *(volatile unsigned*)far;
    unsigned home;
    asm volatile("getctarank.u64 %0, %1;" : "=r"(home) : "l"(far));
    out[i] = a * 3 + b + home * 1000;
    cluster_sync();
}

// Every block writes to and adds to the first block's shared memory.
KERNEL gather(const unsigned* in, unsigned* out) {
    __shared__ unsigned tile[256];
    __shared__ unsigned sum;
    const unsigned t = threadIdx.x, i = blockIdx.x * 64 + t;
    if (t == 0) sum = 0;
    cluster_sync();
    asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(mapa(shared_address(tile + rank() * 64 + t), 0)), "r"(in[i]) : "memory");
    asm volatile("red.relaxed.cluster.shared::cluster.add.u32 [%0], %1;" ::"r"(mapa(shared_address(&sum), 0)), "r"(in[i] >> 8) : "memory");
    cluster_sync();
    if (rank() == 0) {
        unsigned* to = out + blockIdx.x / size() * 512;
        for (unsigned k = 0; k < size(); ++k) to[k * 64 + t] = tile[k * 64 + (t * 5 + k) % 64];
        if (t == 0) to[256] = sum;
    }
}

// Blocks arrive on an mbarrier of the first block, which waits for all of them.
KERNEL remote_barrier(const unsigned* in, unsigned* out) {
    __shared__ unsigned tile[4];
    __shared__ __align__(8) unsigned long long barrier;
    const unsigned t = threadIdx.x, b = shared_address(&barrier);
    if (t == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(b), "r"(size()) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    cluster_sync();
    if (t == 0) {
        asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(mapa(shared_address(tile + rank()), 0)), "r"(in[blockIdx.x]) : "memory");
        asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(mapa(b, 0)) : "memory");
    }
    if (rank() == 0) {
        const bool ok = wait_parity(b, 0);
        unsigned sum = ok ? t : 0xdead0000;
        for (unsigned k = 0; k < size(); ++k) sum = sum * 7 + tile[k];
        out[blockIdx.x / size() * 32 + t] = sum;
    }
    cluster_sync();
}

// Each block fetches its part and sends it to all blocks of the cluster.
KERNEL multicast(const unsigned* in, unsigned* out) {
    __shared__ __align__(128) unsigned tile[4 * 64];
    __shared__ __align__(8) unsigned long long barrier;
    const unsigned t = threadIdx.x, b = shared_address(&barrier);
    const unsigned bytes = 256 * size();
    if (t == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(b) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(b), "r"(bytes) : "memory");
    }
    cluster_sync();
    if (t == 0) {
        const unsigned short mask = (1u << size()) - 1;
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;"
            ::"r"(shared_address(tile + rank() * 64)), "l"(in + blockIdx.x * 64), "r"(256), "r"(b), "h"(mask) : "memory");
    }
    const bool ok = wait_parity(b, 0);
    unsigned sum = ok ? 0 : 0xdead;
    for (unsigned k = 0; k < size(); ++k) sum = sum * 5 + tile[k * 64 + (t + k) % 64];
    out[blockIdx.x * 64 + t] = sum;
    cluster_sync();
}

// A block's shared memory copied in bulk to the next block's, which is told by its own mbarrier.
KERNEL pass_on(const unsigned* in, unsigned* out) {
    __shared__ __align__(128) unsigned mine[64], theirs[64];
    __shared__ __align__(8) unsigned long long barrier;
    const unsigned t = threadIdx.x, b = shared_address(&barrier);
    if (t == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(b) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 256;" ::"r"(b) : "memory");
    }
    mine[t] = in[blockIdx.x * 64 + t];
    asm volatile("fence.proxy.async;" ::: "memory");
    cluster_sync();
    if (t == 0) {
        const unsigned next = (rank() + 1) % size();
        asm volatile(
            "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];"
            ::"r"(mapa(shared_address(theirs), next)), "r"(shared_address(mine)), "r"(mapa(b, next)) : "memory");
    }
    const bool ok = wait_parity(b, 0);
    out[blockIdx.x * 64 + t] = ok ? theirs[t] ^ mine[63 - t] : 0xdead;
    cluster_sync();
}
