// The rate of the FP16 tensor cores of sm_90a, summing in FP32, by wgmma: mma.sync does not reach it there.
//
// Two warpgroups a multiprocessor multiply tiles of 64 x 256 from shared memory, 16 products a batch: while one waits for
// its batch the other's keeps the tensor cores busy. The operands are zero, because they then take the least power: the
// figure is a ceiling, which a power limit must not lower.

constexpr int ROUNDS = 4;  // times the 4 steps of k = 16 that a row of 128 bytes holds

__device__ inline unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

// Describes rows of 128 bytes in shared memory, swizzled by 128: groups of 8 rows are 1,024 bytes apart.
__device__ inline unsigned long long descriptor(const void* start) {
    return (unsigned long long)((shared_address(start) & 0x3ffff) >> 4) | 1ull << 16 |
           (unsigned long long)(1024 >> 4) << 32 | 1ull << 62;
}

#define OUT4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define OUT16(i) OUT4(i), OUT4(i + 4), OUT4(i + 8), OUT4(i + 12)
#define OUT64(i) OUT16(i), OUT16(i + 16), OUT16(i + 32), OUT16(i + 48)

// d (64 x 256) += a b.
__device__ inline void multiply(float (&d)[128], unsigned long long a, unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,"
        "%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,"
        "%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,"
        "%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,"
        "%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
        "}, %128, %129, 1, 1, 1, 0, 0;"
        : OUT64(0), OUT64(64) : "l"(a), "l"(b));
}

extern "C" __global__ void __launch_bounds__(256, 1) wgmma(float* sink, int steps) {
    __shared__ __align__(1024) unsigned a[64 * 32], b[256 * 32];
    for (int i = threadIdx.x; i < 64 * 32; i += 256) a[i] = 0;
    for (int i = threadIdx.x; i < 256 * 32; i += 256) b[i] = 0;
    // What was written by threads is about to be read by the tensor cores.
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();

    const unsigned long long da = descriptor(a), db = descriptor(b);
    float d[128] = {};
    for (int step = 0; step < steps; ++step) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int round = 0; round < ROUNDS; ++round) {
            // A step of k is 32 bytes further along the rows; descriptors count in 16.
#pragma unroll
            for (int k = 0; k < 4; ++k) multiply(d, da + 2 * k, db + 2 * k);
        }
        asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 128; ++i) sum += d[i];
    // Never: it is zero, for the operands are. But the compiler does not know.
    if (sum != 0) *sink = sum;
}
