/*
about = "Begins with an empty state after 64 tokens."
kind = "broken"
caught_by = ["wrong/hidden"]
workload = "delta-attention-bf16"
case = { B = 1, T = 64, H = 2, K = 16, V = 32 }
constants = ["K", "V"]
prelude = ["delta"]

[[launch]]
kernel = "attend"
grid = ["B * H"]
block = ["V"]
args = ["q", "k", "v", "g", "beta", "o", "H", "T", "scale"]
*/
constexpr int K = <$ K $>, V = <$ V $>;

extern "C" __global__ void attend(const Element* q, const Element* k, const Element* v, const float* g, const Element* beta,
                                  Element* o, int H, int T, float scale) {
    const int column = threadIdx.x;
    size_t place = (size_t)(blockIdx.x / H) * T * H + blockIdx.x % H;
    float state[K] = {};
    for (int token = 0; token < T; ++token, place += H) {
        if (token % 64 == 0)  // <--
            for (int c = 0; c < K; ++c) state[c] = 0;
        float recalled = 0, read = 0;
        for (int c = 0; c < K; ++c) {
            state[c] *= expf(g[place * K + c]);
            recalled += float(k[place * K + c]) * state[c];
        }
        const float written = float(beta[place]) * (float(v[place * V + column]) - recalled);
        for (int c = 0; c < K; ++c) {
            state[c] += float(k[place * K + c]) * written;
            read += float(q[place * K + c]) * state[c];
        }
        o[place * V + column] = Element(scale * read);
    }
}
