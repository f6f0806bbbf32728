// One query row by one warp, with a window, a cap and a sink. An entry defines what becomes of each.
constexpr float CAP = <$ SOFTCAP $>;
__device__ int2 keys_of(int position, int window, int Sk);  // the first key that a query sees, and the first after those
__device__ float capped(float score);
__device__ void count_sink(const Element* sinks, int head, int H, float& top, float& sum);

extern "C" __global__ void attend(const Element* q, const Element* k, const Element* v, <% if SINK == 1 %>const Element* sink, <% endif %>Element* o,
                                  int H, int Hkv, int Sq, int Sk, int window, float scale) {
    const int lane = threadIdx.x, i = blockIdx.x, head = blockIdx.y, of_keys = head / (H / Hkv);
    q += (size_t)(head * Sq + i) * D;
    o += (size_t)(head * Sq + i) * D;
    k += (size_t)of_keys * Sk * D;
    v += (size_t)of_keys * Sk * D;
    const int2 keys = keys_of(i + Sk - Sq, window, Sk);
    float acc[PART] = {};
    float top = -1e30f, sum = 0;
<% if SINK == 1 %>    count_sink(sink, head, H, top, sum);
<% endif %>    for (int j = keys.x; j < keys.y; ++j) {
        float score = 0;
        for (int d = lane; d < D; d += 32) score += float(q[d]) * float(k[j * D + d]);
        for (int other = 16; other; other /= 2) score += __shfl_xor_sync(~0u, score, other);
        score = capped(score * scale);
        const float higher = fmaxf(top, score), keep = __expf(top - higher), weight = __expf(score - higher);
        for (int n = 0, d = lane; d < D; ++n, d += 32) acc[n] = acc[n] * keep + weight * float(v[j * D + d]);
        sum = sum * keep + weight;
        top = higher;
    }
    for (int n = 0, d = lane; d < D; ++n, d += 32) o[d] = Element(acc[n] / sum);
}
