/*
about = "Two blocks for each row, the last of which merges what both selected and resets the counter."
kind = "honest"
workload = "top-k-f32"
case = { B = 3, N = 1001, K = 9 }
constants = ["K"]
prelude = ["top-k"]

[[workspace]]
name = "parts"
dtype = "f32"
elements = "B * 4 * K"

[[workspace]]
name = "arrived"
dtype = "f32"
elements = "B"
initial = "zero"

[[launch]]
kernel = "top_k"
grid = ["2 * B"]
block = ["32"]
args = ["x", "values", "indices", "parts", "arrived", "N"]
*/
// Two blocks select from halves of a row. The last of them merges both.
constexpr int K = <$ K $>;

template <class At, class Take>
__device__ void select(At at, int end, Take take) {
    Entry last = ~0ull;
    for (int rank = 0; rank < K; ++rank) {
        Entry best = 0;
        for (int i = threadIdx.x; i < end; i += 32)
            if (at(i) < last) best = max(best, at(i));
        last = best = largest_of_warp(best);
        if (threadIdx.x == 0) take(rank, best);
    }
}

extern "C" __global__ void top_k(const float* x, float* values, long long* indices, Entry* parts, unsigned* arrived, int N) {
    const int row = blockIdx.x / 2, from = blockIdx.x % 2 * (N / 2), end = blockIdx.x % 2 ? N : N / 2;
    x += (size_t)row * N, values += row * K, indices += row * K, parts += row * 2 * K;
    select([&](int i) { return entry_of(x[from + i], from + i); }, end - from,
           [&](int rank, Entry entry) { parts[blockIdx.x % 2 * K + rank] = entry; });
    unsigned before = 0;
    if (threadIdx.x == 0) {
        __threadfence();
        before = atomicAdd(arrived + row, 1u);
        __threadfence();
    }
    if (__shfl_sync(~0u, before, 0) != 1) return;
    if (threadIdx.x == 0) arrived[row] = 0;
    select([&](int i) { return __ldcg(parts + i); }, 2 * K,
           [&](int rank, Entry entry) { values[rank] = value_of(entry), indices[rank] = place_of(entry); });
}
