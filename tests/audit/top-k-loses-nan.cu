/*
about = "Takes NaN for the smallest number."
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
            const Entry entry = x[place] == x[place] ? entry_of(x[place], place) : entry_of(__uint_as_float(0xff800000u), place);  // <--
            if (entry < last) best = max(best, entry);
        }
        last = best = largest_of_warp(best);
        if (threadIdx.x == 0) values[rank] = value_of(best), indices[rank] = place_of(best);
    }
}
