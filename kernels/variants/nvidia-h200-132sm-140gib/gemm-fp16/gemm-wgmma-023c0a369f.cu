// gemm-wgmma for f16, 
// WGS=2 MT=1 BN=256 TURNS=0 STAGES=4 CM=2 CN=1 GROUP=8 OUT=2
// Matrix product on Hopper's warpgroup tensor cores: c = a b, all row-major, f16 with f32 sums.
//
// wgmma multiplies 64 rows of a by up to 256 columns of b, reading both from shared memory by itself, while its threads do something
// else (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions"). All that is left is to keep it fed:
//
// - One thread loads. It asks for 64 terms of the sums at a time, a box of a and some of b, by tensor copies, which need no thread to
//   compute addresses, fill with zeros what lies outside of the matrix, and report to an mbarrier when they are done (PTX ISA,
//   "cp.async.bulk.tensor"). A ring of STAGES such boxes runs ahead of the warpgroups that multiply ("warp specialisation", as in
//   CUTLASS's sm_90 kernels). `setmaxnreg` gives the loader's registers to those.
// - Blocks stay (there are no more of them than multiprocessors) and walk over the tiles, so that the loader runs ahead into the
//   next tile while the last one is written. With TURNS two warpgroups have a tile each, and one writes while the other multiplies
//   ("ping-pong").
// - Tiles are walked in groups of GROUP rows, so that those under way at the same time share rows of a and columns of b in L2.
// - A cluster of CM x CN blocks computes as many neighbouring tiles. What several of them need, each loads a part of, and the copy
//   is delivered to all ("multicast"): L2 is read once instead of CM or CN times.
//
// b lies with its columns along its rows, so it is read "transposed", 64 columns of 128 bytes by 64 terms a box. Sums leave through
// shared memory, 16 rows of 64 elements a warp, by tensor copies that leave out what lies outside of c.
#include <cuda_fp16.h>

constexpr int WGS = 2;           // warpgroups that multiply
constexpr int MT = 1;            // groups of 64 rows of a warpgroup
constexpr int BN = 256;          // columns of a tile
constexpr bool TURNS = 0;      // warpgroups take tiles in turns instead of sharing them
constexpr int STAGES = 4;        // parts of the sums in shared memory
constexpr int CM = 2, CN = 1;    // blocks of a cluster, above and beside one another
constexpr int GROUP = 8;         // rows of tiles that are computed together
constexpr int OUT = 2;           // parts of the output of a warp on their way to memory

constexpr int BM = 128;          // rows of a tile
constexpr int BK = 64;           // terms of a stage: rows of 128 bytes, as the swizzle wants them
constexpr int CLUSTER = CM * CN;
constexpr int NC = BN / 2;       // sums of a thread in a group of 64 rows
constexpr unsigned A_BYTES = BM * BK * 2, STAGE_BYTES = (BM + BN) * BK * 2;
constexpr unsigned COLUMN_BYTES = 64 * BK * 2;  // 64 columns of b
constexpr unsigned OUT_BYTES = 16 * 64 * 2;     // 16 rows of 64 elements of c

struct alignas(128) TensorMap {
    unsigned char bytes[128];
};

// Barriers in shared memory: `full` when a stage has arrived, `empty` when everyone who reads it is done.
__device__ inline void barrier_init(unsigned barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ inline void barrier_expect(unsigned barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
// Arrives at the barrier of this place in a block of the cluster.
__device__ inline void barrier_arrive(unsigned barrier, int rank) {
    if (CLUSTER == 1) {
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
    } else {
        unsigned there;
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(barrier), "r"(rank));
        asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
    }
}
__device__ inline void barrier_wait(unsigned barrier, unsigned parity) {
    asm volatile(
        "{\n.reg .pred done;\nAGAIN:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra AGAIN;\n}" ::"r"(barrier), "r"(parity) : "memory");
}
__device__ inline void cluster_sync() {
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

__device__ inline void prefetch(const TensorMap& map) { asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory"); }

// Asks for a box at (x, y), for every block in `mask` if that is more than this one.
__device__ inline void load(unsigned to, const TensorMap& map, int x, int y, unsigned barrier, unsigned short mask, bool multicast) {
    if (multicast) {
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;"
            ::"r"(to), "l"(&map), "r"(x), "r"(y), "r"(barrier), "h"(mask) : "memory");
    } else {
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
            ::"r"(to), "l"(&map), "r"(x), "r"(y), "r"(barrier) : "memory");
    }
}
__device__ inline void store(const TensorMap& map, int x, int y, unsigned from) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];\ncp.async.bulk.commit_group;"
                 ::"l"(&map), "r"(x), "r"(y), "r"(from) : "memory");
}

// Describes a matrix in shared memory with 128-byte swizzle: 8 rows of 128 bytes take 1,024, and from one column of 64 elements to
// the next it is COLUMN_BYTES, which only matters where a product reads more than one.
__device__ inline unsigned long long descriptor(unsigned address) {
    return (unsigned long long)((address & 0x3ffff) >> 4) | (unsigned long long)(COLUMN_BYTES >> 4) << 16 |
           (unsigned long long)(1024 >> 4) << 32 | 1ull << 62;
}
__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N>
__device__ inline void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }
// Tells the compiler that registers change here: wgmma writes them behind its back, up to the wait before.
__device__ inline void changed(float (&x)[NC]) {
#pragma unroll
    for (int i = 0; i < NC; ++i) asm volatile("" : "+f"(x[i])::"memory");
}

// c (64 x BN) = a b over 16 terms, added to what is there if `add` is not 0.
__device__ inline void multiply_16(float (&c)[NC], unsigned long long a, unsigned long long b, int add) {
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, %130, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127}, %128, %129, add, 1, 1, 0, 1;\n}"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]), "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]), "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]), "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]), "+f"(c[40]), "+f"(c[41]), "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]), "+f"(c[48]), "+f"(c[49]), "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]), "+f"(c[55]), "+f"(c[56]), "+f"(c[57]), "+f"(c[58]), "+f"(c[59]), "+f"(c[60]), "+f"(c[61]), "+f"(c[62]), "+f"(c[63]), "+f"(c[64]), "+f"(c[65]), "+f"(c[66]), "+f"(c[67]), "+f"(c[68]), "+f"(c[69]), "+f"(c[70]), "+f"(c[71]), "+f"(c[72]), "+f"(c[73]), "+f"(c[74]), "+f"(c[75]), "+f"(c[76]), "+f"(c[77]), "+f"(c[78]), "+f"(c[79]), "+f"(c[80]), "+f"(c[81]), "+f"(c[82]), "+f"(c[83]), "+f"(c[84]), "+f"(c[85]), "+f"(c[86]), "+f"(c[87]), "+f"(c[88]), "+f"(c[89]), "+f"(c[90]), "+f"(c[91]), "+f"(c[92]), "+f"(c[93]), "+f"(c[94]), "+f"(c[95]), "+f"(c[96]), "+f"(c[97]), "+f"(c[98]), "+f"(c[99]), "+f"(c[100]), "+f"(c[101]), "+f"(c[102]), "+f"(c[103]), "+f"(c[104]), "+f"(c[105]), "+f"(c[106]), "+f"(c[107]), "+f"(c[108]), "+f"(c[109]), "+f"(c[110]), "+f"(c[111]), "+f"(c[112]), "+f"(c[113]), "+f"(c[114]), "+f"(c[115]), "+f"(c[116]), "+f"(c[117]), "+f"(c[118]), "+f"(c[119]), "+f"(c[120]), "+f"(c[121]), "+f"(c[122]), "+f"(c[123]), "+f"(c[124]), "+f"(c[125]), "+f"(c[126]), "+f"(c[127])
        : "l"(a), "l"(b), "r"(add));
}
__device__ inline unsigned pack(float low, float high) {
    const __half2 h = __floats2half2_rn(low, high);
    return *reinterpret_cast<const unsigned*>(&h);
}

// The tiles of a cluster, one after the other: all that loads and multiplies walks over the same.
struct Walk {
    int across, down, count;  // tiles of a cluster's size along a row and a column of c, and all of them
    __device__ Walk(int M, int N) : across((N + BN * CN - 1) / (BN * CN)), down((M + BM * CM - 1) / (BM * CM)), count(across * down) {}
    // First row and column of a block's tile.
    __device__ void find(int tile, int rank, int& row, int& column) const {
        const int group = tile / (GROUP * across), in = tile % (GROUP * across);
        const int height = min(GROUP, down - group * GROUP);
        row = ((group * GROUP + in % height) * CM + rank % CM) * BM;
        column = (in / height * CN + rank / CM) * BN;
    }
};

extern "C" __global__ void __launch_bounds__(384, 1)
multiply(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map, const __grid_constant__ TensorMap c_map,
         int M, int N, int K) {
    extern __shared__ __align__(1024) unsigned char dynamic[];
    __shared__ unsigned long long full_barriers[STAGES], empty_barriers[STAGES];
    // The swizzle goes by the address: tiles start at multiples of 1,024.
    const unsigned ring = ((unsigned)__cvta_generic_to_shared(dynamic) + 1023) & ~1023u;
    const unsigned full = (unsigned)__cvta_generic_to_shared(full_barriers), empty = (unsigned)__cvta_generic_to_shared(empty_barriers);

    // Asked from lane 0, so that the compiler knows it to be one number a warp.
    const int warp = __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0), lane = threadIdx.x % 32;
    const int rank = CLUSTER == 1 ? 0 : blockIdx.x % CLUSTER;
    const Walk walk(M, N);
    const int steps = (K + BK - 1) / BK;

    if (threadIdx.x == 0) {
        // On their way while the barriers are made.
        prefetch(a_map);
        prefetch(b_map);
        prefetch(c_map);
        for (int stage = 0; stage < STAGES; ++stage) {
            barrier_init(full + stage * 8, 1);
            // Every warp that reads what this block loads, in all blocks that get it.
            barrier_init(empty + stage * 8, (TURNS ? 1 : WGS) * 4 * (CM + CN - 1));
        }
        asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
    }
    if (CLUSTER == 1) __syncthreads();
    else cluster_sync();

    if (warp < 4) {
        // The loader.
        if (WGS == 2) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0) {
            const int rank_m = rank % CM, rank_n = rank / CM;
            // Blocks that need the same rows of a, and those that need the same columns of b.
            unsigned short beside = 0, above = 0;
            for (int n = 0; n < CN; ++n) beside |= 1 << (n * CM + rank_m);
            for (int m = 0; m < CM; ++m) above |= 1 << (rank_n * CM + m);
            int stage = 0;
            unsigned parity = 1;  // what was never full is empty
            for (int tile = blockIdx.x / CLUSTER; tile < walk.count; tile += gridDim.x / CLUSTER) {
                int row, column;
                walk.find(tile, rank, row, column);
                for (int step = 0; step < steps; ++step) {
                    const unsigned a = ring + stage * STAGE_BYTES, b = a + A_BYTES, barrier = full + stage * 8;
                    barrier_wait(empty + stage * 8, parity);
                    barrier_expect(barrier, STAGE_BYTES);
                    constexpr int ROWS = BM / CN, COLUMNS = BN / 64 / CM;
                    load(a + rank_n * ROWS * 128, a_map, step * BK, row + rank_n * ROWS, barrier, beside, CN > 1);
#pragma unroll
                    for (int n = 0; n < COLUMNS; ++n) {
                        const int x = rank_m * COLUMNS + n;
                        load(b + x * COLUMN_BYTES, b_map, column + x * 64, step * BK, barrier, above, CM > 1);
                    }
                    if (++stage == STAGES) stage = 0, parity ^= 1;
                }
            }
        }
    } else {
        if (WGS == 2) asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        const int wg = warp / 4 - 1;
        const int first_row = (TURNS ? 0 : wg * MT * 64) + warp % 4 * 16;  // of the warp in its tile
        const unsigned rows_at = TURNS ? 0 : wg * MT * (64 * 128);
        const unsigned out = ring + STAGES * STAGE_BYTES + (warp - 4) * OUT * OUT_BYTES;
        // A lane tells one block that this warp is done with a stage: those that have loaded a part of it.
        const bool tells = lane < CLUSTER && (lane % CM == rank % CM || lane / CM == rank / CM);

        float c[MT][NC];
        int stage = 0, turn = 0, written = 0;
        unsigned parity = 0;
        for (int tile = blockIdx.x / CLUSTER; tile < walk.count; tile += gridDim.x / CLUSTER, ++turn) {
            if (TURNS && turn % 2 != wg) {
                // The stages of the other's tile.
                const int next = stage + steps;
                stage = next % STAGES;
                parity ^= next / STAGES & 1;
                continue;
            }
            // A barrier tells odd from even rounds only, so nobody looks further ahead than the one whose turn it is.
            if (TURNS && turn > 0) asm volatile("bar.sync %0, 256;" ::"r"(wg + 1) : "memory");
            int before = 0;  // the stage that was multiplied last
            for (int step = 0; step < steps; ++step) {
                barrier_wait(full + stage * 8, parity);
                const unsigned at = ring + stage * STAGE_BYTES;
                const unsigned long long a = descriptor(at + rows_at), b = descriptor(at + A_BYTES);
                wgmma_fence();
                // 16 terms are 32 bytes along the rows of a, and 16 rows of b. Descriptors count in 16 bytes.
#pragma unroll
                for (int k = 0; k < BK / 16; ++k)
#pragma unroll
                    for (int m = 0; m < MT; ++m) multiply_16(c[m], a + m * (64 * 128 / 16) + k * 2, b + k * 128, step | k);
                wgmma_commit();
                // The products of the stage before are done, while these run.
                wgmma_wait<1>();
                if (step > 0 && tells) barrier_arrive(empty + before * 8, lane);
                before = stage;
                if (++stage == STAGES) stage = 0, parity ^= 1;
            }
            if (TURNS && tile + gridDim.x / CLUSTER < walk.count) asm volatile("bar.arrive %0, 256;" ::"r"(2 - wg) : "memory");
            wgmma_wait<0>();
            if (tells) barrier_arrive(empty + before * 8, lane);

            int row, column;
            walk.find(tile, rank, row, column);
            row += first_row;
#pragma unroll
            for (int m = 0; m < MT; ++m) {
                changed(c[m]);
#pragma unroll
                for (int n = 0; n < BN / 64; ++n) {
                    const unsigned to = out + written++ % OUT * OUT_BYTES;
                    // What was here before has left.
                    if (lane == 0) asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(OUT - 1) : "memory");
                    __syncwarp();
#pragma unroll
                    for (int x = 0; x < 8; ++x)
#pragma unroll
                        for (int r = 0; r < 2; ++r) {
                            const int own = lane / 4 + r * 8;
                            const float* const pair = &c[m][n * 32 + x * 4 + r * 2];
                            asm volatile("st.shared.u32 [%0], %1;" ::"r"(to + own * 128 + ((x ^ own % 8) << 4) + lane % 4 * 4),
                                         "r"(pack(pair[0], pair[1])) : "memory");
                        }
                    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
                    __syncwarp();
                    if (lane == 0) store(c_map, column + n * 64, row + m * 64, to);
                }
            }
        }
        if (lane == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
    // Nobody leaves while another may still tell it something.
    __syncwarp();
    if (CLUSTER > 1) cluster_sync();
}
