// Asynchronous copies within a block: cp.async with groups and zero-fill, mbarriers, bulk copies.

#define KERNEL extern "C" __global__ void

__device__ inline unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

// Waits for a phase of an mbarrier, but not for ever: a mistake must not hang the machine.
__device__ inline bool wait_parity(unsigned barrier, unsigned parity) {
    for (unsigned k = 0; k < 1000000; ++k) {
        unsigned done;
        asm volatile(
            "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
            : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
        if (done) return true;
    }
    return false;
}

// Four stages in flight, of which the oldest is used; copies of 4, 8 and 16 bytes.
KERNEL groups(const unsigned* in, unsigned* out) {
    __shared__ __align__(16) unsigned tile[4][256];
    const unsigned t = threadIdx.x;
    for (unsigned s = 0; s < 4; ++s) {
        const unsigned to = shared_address(&tile[s][0]);
        if (s % 3 == 0) {
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + t * 16), "l"(in + s * 256 + t * 4));
        } else if (s % 3 == 1) {
            for (unsigned k = 0; k < 2; ++k)
                asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(to + (t + 64 * k) * 8),
                             "l"(in + s * 256 + (t + 64 * k) * 2));
        } else {
            for (unsigned k = 0; k < 4; ++k)
                asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to + (t + 64 * k) * 4),
                             "l"(in + s * 256 + t + 64 * k));
        }
        asm volatile("cp.async.commit_group;");
    }
    asm volatile("cp.async.wait_group 3;" ::: "memory");
    __syncthreads();
    out[t] = tile[0][255 - t * 4];
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    out[64 + t] = tile[1][(t * 7) % 256] ^ tile[2][(t * 13) % 256];
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    out[128 + t] = tile[3][255 - t];
}

// Fewer source bytes than are copied: the rest is zero. 0 to 16 of 16, 0 to 8 of 8, 0 to 4 of 4.
KERNEL zero_fill(const unsigned char* in, unsigned char* out) {
    __shared__ __align__(16) unsigned char tile[32 * 32];
    const unsigned t = threadIdx.x;
    for (unsigned k = 0; k < 32; ++k) tile[t * 32 + k] = 0xee;
    const unsigned to = shared_address(tile + t * 32);
    const unsigned n16 = t % 17, n8 = t % 9, n4 = t % 5;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(in + t * 32), "r"(n16) : "memory");
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to + 16), "l"(in + t * 32 + 16), "r"(n8) : "memory");
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to + 24), "l"(in + t * 32 + 24), "r"(n4) : "memory");
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.u32 p, %2, 0;\ncp.async.ca.shared.global [%0], [%1], 4, p;\n}"
        ::"r"(to + 28), "l"(in + t * 32 + 28), "r"(t & 1) : "memory");
    asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    for (unsigned k = 0; k < 32; ++k) out[k * 32 + t] = tile[k * 32 + t];
}

// cp.async that arrives on an mbarrier when its copies are there.
KERNEL async_arrive(const unsigned* in, unsigned* out) {
    __shared__ __align__(16) unsigned tile[256];
    __shared__ __align__(8) unsigned long long barrier;
    const unsigned t = threadIdx.x, b = shared_address(&barrier);
    if (t == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 64;" ::"r"(b) : "memory");
    __syncthreads();
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(tile) + t * 16), "l"(in + t * 4) : "memory");
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(b) : "memory");
    const bool ok = wait_parity(b, 0);
    out[t] = ok ? tile[255 - t * 4] + tile[t] : 0xdead;
}

// Two roles over a pair of mbarriers: one warp produces, three consume, for four rounds with both parities.
KERNEL pipeline(const unsigned* in, unsigned* out) {
    __shared__ unsigned box[32];
    __shared__ __align__(8) unsigned long long barriers[2];
    const unsigned t = threadIdx.x;
    const unsigned full = shared_address(&barriers[0]), empty = shared_address(&barriers[1]);
    if (t == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 32;" ::"r"(full) : "memory");
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 96;" ::"r"(empty) : "memory");
    }
    __syncthreads();
    unsigned sum = 0;
    for (unsigned round = 0; round < 4; ++round) {
        if (t < 32) {
            if (round && !wait_parity(empty, (round - 1) & 1)) sum |= 0x80000000;
            box[t] = in[round * 32 + t];
            asm volatile("{\n.reg .b64 s;\nmbarrier.arrive.shared::cta.b64 s, [%0];\n}" ::"r"(full) : "memory");
        } else {
            if (!wait_parity(full, round & 1)) sum |= 0x80000000;
            sum = sum * 31 + box[(t * 5 + round) % 32];
            asm volatile("{\n.reg .b64 s;\nmbarrier.arrive.shared::cta.b64 s, [%0];\n}" ::"r"(empty) : "memory");
        }
    }
    out[t] = sum;
}

// The state that an arrive returns, tests of it before and after the phase completes, drops and pending counts.
KERNEL states(unsigned* out) {
    __shared__ __align__(8) unsigned long long barrier;
    const unsigned b = shared_address(&barrier);
    if (threadIdx.x != 0) return;
    unsigned long long s0, s1, s2;
    unsigned done, pending;
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 3;" ::"r"(b) : "memory");
    asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(s0) : "r"(b) : "memory");
#define TEST(state) \
    asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}" \
                 : "=r"(done) : "r"(b), "l"(state) : "memory");
    TEST(s0) out[0] = done;
    asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(pending) : "l"(s0));
    out[1] = pending;
    asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1], 2;" : "=l"(s1) : "r"(b) : "memory");
    TEST(s0) out[2] = done;
    asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(pending) : "l"(s1));
    out[3] = pending;
    // A drop leaves two expected arrivals for the phases after this one.
    asm volatile("mbarrier.arrive_drop.shared::cta.b64 %0, [%1];" : "=l"(s2) : "r"(b) : "memory");
    TEST(s2) out[4] = done;
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], 2;" ::"r"(b) : "memory");
    TEST(s2) out[5] = done;
    asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(s0) : "r"(b) : "memory");
    TEST(s0) out[6] = done;
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(b) : "memory");
    TEST(s0) out[7] = done;
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(b) : "memory");
}

// Bulk copies: global to shared with the bytes counted by an mbarrier, shared to global in a bulk group, and an addition.
KERNEL bulk(const unsigned* in, unsigned* out) {
    __shared__ __align__(128) unsigned tile[2][256];
    __shared__ __align__(8) unsigned long long barrier;
    const unsigned t = threadIdx.x, b = shared_address(&barrier);
    if (t == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(b) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    if (t == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 2048;" ::"r"(b) : "memory");
        for (unsigned s = 0; s < 2; ++s)
            asm volatile(
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                ::"r"(shared_address(tile[s])), "l"(in + s * 256), "r"(1024), "r"(b) : "memory");
    }
    const bool ok = wait_parity(b, 0);
    const unsigned x = ok ? tile[0][t] + tile[1][255 - t] : 0xdead;
    __syncthreads();
    tile[0][t] = x;
    tile[1][t] = t;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (t == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 1024;" ::"l"(out), "r"(shared_address(tile[0])) : "memory");
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%0], [%1], 1024;"
                     ::"l"(out + 256), "r"(shared_address(tile[1])) : "memory");
        asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
    }
}
