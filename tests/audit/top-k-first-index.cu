/*
about = "Returns the place of the first element of each value, more than once for equal ones."
kind = "broken"
caught_by = ["wrong/hidden", "wrong/probe"]
workload = "top-k-f32"
case = { B = 3, N = 1001, K = 9 }
constants = ["K"]
prelude = ["top-k"]

[[launch]]
kernel = "top_k"
grid = ["B"]
block = ["32"]
args = ["x", "values", "indices", "N"]
*/
constexpr int K = <$ K $>;

extern "C" __global__ void top_k(const float* x, float* values, long long* indices, int N) {
    x += (size_t)blockIdx.x * N, values += blockIdx.x * K, indices += blockIdx.x * K;
    Entry last = ~0ull;
    for (int rank = 0; rank < K; ++rank) {
        Entry best = 0;
        for (int place = threadIdx.x; place < N; place += 32) {
            const Entry entry = entry_of(x[place], place);
            if (entry < last) best = max(best, entry);
        }
        last = best = largest_of_warp(best);
        if (threadIdx.x == 0) {
            int place = 0;
            while (key_of(x[place]) != best >> 32) ++place;  // <--
            values[rank] = value_of(best), indices[rank] = place;
        }
    }
}
