// top-k-select for f32, K=32
// SPLITS=1 CLUSTER=0 THREADS=1024 ITEMS=16 VEC=4
// The K largest elements of rows. SPLITS blocks share a row, and each holds its part in registers.
//
// A block finds a bound first: the threads form GROUPS >= K groups, and the smallest of the groups' largest elements is at most the K-th
// largest element. The elements from this bound on, the candidates, are few: K (ln K + 0.6) or so of a random row. They are counted in bins,
// which gives a bound close to the K-th largest. What is left is ranked by comparing each with all.
// The blocks' selections are merged in the same way, by the first block of a cluster or by the last block to arrive.
//
// Where more than CAPACITY elements are candidates, as in a row of equal ones, it is searched bit by bit.
#include <cuda_fp16.h>

// --- the element type of the workload; sums are in FP32 ---
using Elem = float;
__device__ inline float widen(float x) { return x; }
__device__ inline float widen(__half x) { return __half2float(x); }
__device__ inline void narrow(float x, float& to) { to = x; }
__device__ inline void narrow(float x, __half& to) { to = __float2half_rn(x); }

// --- elements as whole numbers in the same order: minus infinity is 0, and NaN of either sign is above all others ---
// Negative numbers have all bits flipped, others the first. Negative NaN would be below minus infinity: the difference wraps around.
constexpr unsigned KEY_OF_MINUS_INFINITY = 0x007fffffu;
__device__ inline unsigned ordered_key(float x) {
    const unsigned bits = __float_as_uint(x);
    return (bits ^ ((unsigned)((int)bits >> 31) | 0x80000000u)) - KEY_OF_MINUS_INFINITY;
}
__device__ inline float of_ordered_key(unsigned key) {
    key += KEY_OF_MINUS_INFINITY;
    return __uint_as_float(key & 0x80000000u ? key ^ 0x80000000u : ~key);
}

// An element with its place in the row. All entries of a row differ, and none is 0: of equal elements, the first one is the largest.
using Entry = unsigned long long;
__device__ inline Entry entry_of(unsigned key, int place) { return (Entry)key << 32 | (0x7fffffffu - place); }
__device__ inline int place_of(Entry entry) { return 0x7fffffff - (int)(unsigned)entry; }
__device__ inline void store_entry(Entry entry, Elem& value, long long& index) {
    narrow(of_ordered_key((unsigned)(entry >> 32)), value);
    index = place_of(entry);
}

// --- loads and stores of N neighbouring elements at once, aligned to their size ---
template <int N>
struct alignas(N * sizeof(Elem)) Pack {
    Elem at[N];
};
// The same as 32-bit words, which the compiler does not split into loads and stores of single elements.
template <int N>
struct alignas(N * 4) Words {
    unsigned at[N];
};
template <int N>
__device__ inline void load_vector(float (&to)[N], const Elem* from) {
    const Pack<N> pack = *reinterpret_cast<const Pack<N>*>(from);
#pragma unroll
    for (int x = 0; x < N; ++x) to[x] = widen(pack.at[x]);
}
template <int N>
__device__ inline void store_vector(Elem* to, const float (&from)[N], float factor) {
    Pack<N> pack;
#pragma unroll
    for (int x = 0; x < N; ++x) narrow(from[x] * factor, pack.at[x]);
    if constexpr (N * sizeof(Elem) >= 4) {
        Words<N * sizeof(Elem) / 4> words;
        memcpy(&words, &pack, sizeof(words));
        *reinterpret_cast<Words<N * sizeof(Elem) / 4>*>(to) = words;
    } else {
        *reinterpret_cast<Pack<N>*>(to) = pack;
    }
}
// --- shared memory as PTX addresses it (PTX ISA, "State Spaces"): 32 bits, in the window of the block ---
__device__ inline unsigned shared_address(const void* shared) { return (unsigned)__cvta_generic_to_shared(shared); }
// --- clusters (PTX ISA, "mapa"): the shared memory of other blocks ---
// Returns the same address in the shared memory of the block with this rank.
__device__ inline unsigned map_shared_rank(unsigned here, int rank) {
    unsigned there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(rank));
    return there;
}

constexpr int K = 32;
constexpr int SPLITS = 1;    // blocks of a row
constexpr int THREADS = 1024;
constexpr int ITEMS = 16;      // elements of a thread
constexpr int VEC = 4;        // elements of a load

__device__ constexpr int power_of_two_from(int x) { return x <= 1 ? 1 : 2 * power_of_two_from((x + 1) / 2); }
constexpr int WARPS = THREADS / 32;
constexpr int GROUPS = power_of_two_from(K);
constexpr int CAPACITY = GROUPS < 8 ? 128 : 16 * GROUPS;  // candidates that a block can list
constexpr bool IS_BINNED = K > 16;                        // of fewer, there are so few candidates that all are ranked
constexpr int BINS = 64;                                  // two for each lane
constexpr int SHARE = 8;                                  // lanes that rank a candidate
constexpr int AT_ONCE = 4;                                // candidates that a lane loads at once
constexpr unsigned ALL = 0xffffffffu;

struct Scratch {
    Entry found[CAPACITY], kept[IS_BINNED ? CAPACITY : 1];
    unsigned of_warps[WARPS], largest[WARPS];
    int sums[2][WARPS];
    // Of a block's own part, and of the merged ones.
    int bins[2][BINS], found_count[2], kept_count[2];
    bool is_last;
};

__device__ inline int lane() { return threadIdx.x % 32; }
__device__ inline int warp() { return threadIdx.x / 32; }
__device__ inline unsigned key_of(Entry entry) { return (unsigned)(entry >> 32); }

// Where the key of the K-th largest entry is.
struct Range {
    unsigned low, high;
};

// The smallest of the largest numbers of COUNT groups of neighbouring lanes. SIZE lanes have a number, and others the same again.
template <int COUNT, int SIZE>
__device__ inline unsigned least_of(unsigned x) {
#pragma unroll
    for (int other = 1; other < SIZE / COUNT; other *= 2) x = max(x, __shfl_xor_sync(ALL, x, other));
    return __reduce_min_sync(ALL, x);
}

// A bound from which on there are at least K entries, and the largest key, from each thread's largest key. If there are fewer warps than
// groups, a warp has as many large keys as it would have groups.
__device__ inline Range range_of(unsigned own, Scratch& s) {
    const unsigned of_warp = __reduce_max_sync(ALL, own);
    unsigned least = of_warp;
#pragma unroll
    for (int more = WARPS; more < GROUPS; more += WARPS) {
        own = own == least ? 0 : own;
        least = __reduce_max_sync(ALL, own);
    }
    if (lane() == 0) s.of_warps[warp()] = least, s.largest[warp()] = of_warp;
    __syncthreads();
    least = s.of_warps[lane() % WARPS];
    const unsigned high = __reduce_max_sync(ALL, s.largest[lane() % WARPS]);
    return {least_of<GROUPS, WARPS>(least), high};
}

// The same of what blocks have selected, with a function that returns an entry of these. If each block has Q = K / SPLITS entries from a
// bound on, there are K of them.
template <class At>
__device__ inline Range range_of_blocks(At at) {
    constexpr int Q = (K + SPLITS - 1) / SPLITS, OF_LANES = SPLITS < 32 ? SPLITS : 32;
    unsigned least = ALL, high = 0;
#pragma unroll
    for (int block = lane() % OF_LANES; block < SPLITS; block += 32) {
        least = min(least, key_of(at(block * K + Q - 1)));
        high = max(high, key_of(at(block * K)));
    }
    return {least_of<(GROUPS < OF_LANES ? GROUPS : OF_LANES), OF_LANES>(least), __reduce_max_sync(ALL, high)};
}

// Adds an entry to a list.
__device__ inline void append(Entry entry, Entry* list, int* count) {
    const int at = atomicAdd(count, 1);
    if (at < CAPACITY) list[at] = entry;
}

// A thread's elements of a block's part of a row, which has an end. What is not there has the key 0, as minus infinity.
struct OfRow {
    static constexpr int COUNT = ITEMS;
    unsigned keys[ITEMS];
    int first, end;
    __device__ inline bool has(int i) const { return place(i) < end; }
    __device__ inline int place(int i) const { return first + i / VEC * (THREADS * VEC) + i % VEC; }
    __device__ inline unsigned key(int i) const { return keys[i]; }
    __device__ inline Entry entry(int i) const { return entry_of(keys[i], place(i)); }
    // Has places computed when they are needed: in registers, they would be as many as the keys.
    __device__ inline void forget_places() { asm volatile("" : "+r"(first)); }
};

// A thread's entries of those that blocks have selected.
struct OfBlocks {
    static constexpr int COUNT = (SPLITS * K + THREADS - 1) / THREADS;
    Entry entries[COUNT];
    __device__ inline bool has(int i) const { return entries[i] != 0; }
    __device__ inline unsigned key(int i) const { return key_of(entries[i]); }
    __device__ inline Entry entry(int i) const { return entries[i]; }
    __device__ inline void forget_places() {}
};

// A least entry from which on there are at least K entries, and no more than CAPACITY: bit by bit.
template <class Held>
__device__ inline Entry searched(Held mine, Scratch& s) {
    Entry least = 0;
    for (int bit = 63; bit >= 0; --bit) {
        const Entry next = least | 1ull << bit;
        int n = 0;
        mine.forget_places();
#pragma unroll
        for (int i = 0; i < Held::COUNT; ++i) n += mine.has(i) && mine.entry(i) >= next;
        n = __reduce_add_sync(ALL, n);
        if (lane() == 0) s.sums[bit % 2][warp()] = n;
        __syncthreads();
        n = __reduce_add_sync(ALL, lane() < WARPS ? s.sums[bit % 2][lane()] : 0);
        if (n < K) continue;
        least = next;
        if (n <= CAPACITY) break;
    }
    return least;
}

// Returns the last bin from which on there are at least K entries.
__device__ inline int bin_of_last(const int* bins) {
    const int first = bins[2 * lane()], second = bins[2 * lane() + 1];
    int from = first + second;  // entries from the first bin of this lane on
#pragma unroll
    for (int other = 1; other < 32; other *= 2) {
        const int more = __shfl_down_sync(ALL, from, other);
        if (lane() + other < 32) from += more;
    }
    const int firsts = __popc(__ballot_sync(ALL, from >= K)), seconds = __popc(__ballot_sync(ALL, from - first >= K));
    return max(firsts + seconds - 1, 0);
}

// Has the K largest entries of a list taken, each with its rank. What is missing is 0.
template <class Take>
__device__ inline void rank_all(const Entry* list, int count, Take take) {
    for (int first = warp() * (32 / SHARE); first < count; first += WARPS * (32 / SHARE)) {
        const int at = first + lane() / SHARE;
        const Entry entry = list[min(at, count - 1)];
        int rank = 0;
        for (int other = lane() % SHARE; other < count; other += SHARE * AT_ONCE) {
            Entry others[AT_ONCE];
#pragma unroll
            for (int i = 0; i < AT_ONCE; ++i) others[i] = other + i * SHARE < count ? list[other + i * SHARE] : 0;
#pragma unroll
            for (int i = 0; i < AT_ONCE; ++i) rank += others[i] > entry;
        }
#pragma unroll
        for (int other = 1; other < SHARE; other *= 2) rank += __shfl_xor_sync(ALL, rank, other);
        if (at < count && lane() % SHARE == 0 && rank < K) take(rank, entry);
    }
    for (int rank = count + threadIdx.x; rank < K; rank += THREADS) take(rank, (Entry)0);
}

template <class Held>
__device__ inline unsigned largest_key(const Held& mine) {
    unsigned own = mine.key(0);
#pragma unroll
    for (int i = 1; i < Held::COUNT; ++i) own = max(own, mine.key(i));
    return own;
}

// Has the K largest of all threads' entries taken. `own` is the largest key of the thread.
template <class Held, class Take>
__device__ inline void select(Held mine, unsigned own, Range range, Scratch& s, int stage, Take take) {
    int* const found = &s.found_count[stage];
    const int bits = max(0, 26 - __clz(range.high - range.low));  // of the numbers in a bin
    if (own >= range.low) {
#pragma unroll
        for (int i = 0; i < Held::COUNT; ++i) {
            if (mine.key(i) < range.low) continue;
            mine.forget_places();
            if (!mine.has(i)) continue;
            append(mine.entry(i), s.found, found);
            if constexpr (IS_BINNED) atomicAdd(&s.bins[stage][(mine.key(i) - range.low) >> bits], 1);
        }
    }
    __syncthreads();
    int count = *found;
    if (count > CAPACITY) {
        const Entry least = searched(mine, s);
        // All threads have passed barriers since they read it.
        if (threadIdx.x == 0) *found = 0;
        __syncthreads();
        mine.forget_places();
#pragma unroll
        for (int i = 0; i < Held::COUNT; ++i)
            if (mine.has(i) && mine.entry(i) >= least) append(mine.entry(i), s.found, found);
        __syncthreads();
        count = *found;
    }
    if constexpr (IS_BINNED) {
        if (warp() * 32 < count) {
            const unsigned low = range.low + ((unsigned)bin_of_last(s.bins[stage]) << bits);
            for (int i = threadIdx.x; i < count; i += THREADS)
                if (key_of(s.found[i]) >= low) append(s.found[i], s.kept, &s.kept_count[stage]);
        }
        __syncthreads();
        rank_all(s.kept, s.kept_count[stage], take);
    } else {
        rank_all(s.found, count, take);
    }
}

// Loads a block's part of a row.
__device__ inline OfRow load(const Elem* __restrict__ x, int begin, int end) {
    OfRow mine;
    const unsigned loads = (unsigned)max(0, end - begin) / VEC;
    unsigned own = threadIdx.x;
    if (loads < THREADS) {
        // They are spread, so that no group of threads is without one.
        const unsigned at = threadIdx.x * loads;
        own = at % THREADS < loads ? at / THREADS : loads;
    }
    mine.first = begin + own * VEC;
    mine.end = end;
    Pack<VEC> packs[ITEMS / VEC];
#pragma unroll
    for (int i = 0; i < ITEMS; i += VEC)
        if (mine.place(i) < end) packs[i / VEC] = *reinterpret_cast<const Pack<VEC>*>(x + mine.place(i));
#pragma unroll
    for (int i = 0; i < ITEMS; ++i)
        mine.keys[i] = mine.place(i) < end ? ordered_key(widen(packs[i / VEC].at[i % VEC])) : 0;
    return mine;
}

extern "C" __global__ void __launch_bounds__(THREADS)
top_k(const Elem* __restrict__ x, Elem* __restrict__ values, long long* __restrict__ indices, Entry* parts, unsigned* arrived, int N) {
    __shared__ Scratch s;
    const unsigned row = blockIdx.x / SPLITS, split = blockIdx.x % SPLITS;
if (threadIdx.x < 2) s.found_count[threadIdx.x] = s.kept_count[threadIdx.x] = 0;
    for (int i = threadIdx.x; IS_BINNED && i < 2 * BINS; i += THREADS) s.bins[i / BINS][i % BINS] = 0;
    const int slice = ((unsigned)N + SPLITS * VEC - 1) / (SPLITS * VEC) * VEC;
    const OfRow mine = load(x + (size_t)row * N, split * slice, min(N, (split + 1) * slice));
    const unsigned own = largest_key(mine);
    const Range range = range_of(own, s);
    const auto store = [&](int rank, Entry entry) {
        const size_t to = (size_t)row * K + rank;
        store_entry(entry, values[to], indices[to]);
    };
select(mine, own, range, s, 0, store);
}
