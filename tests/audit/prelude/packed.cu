// One query row of packed sequences by one warp. An entry defines which keys a sequence has.
__device__ int2 keys_of(const int* borders, int sequence);  // its first key, and the first after those of the sequence

extern "C" __global__ void attend(const Element* q, const Element* k, const Element* v, const int* borders, Element* o, int sequences, int H,
                                  int Hkv, float scale) {
    const int lane = threadIdx.x, token = blockIdx.x, head = blockIdx.y, heads = Hkv, of_keys = head / (H / Hkv);
    int sequence = 0;
    while (borders[sequence + 1] <= token) ++sequence;
    const int2 keys = keys_of(borders, sequence);
    const size_t row = (size_t)token * H + head;
    float acc[PART] = {}, top = -1e30f, sum = 0;
    for (int j = keys.x; j < (CAUSAL ? min(keys.y, token + 1) : keys.y); ++j) {
        const size_t key = (size_t)j * heads + of_keys;
        float score = 0;
        for (int d = lane; d < D; d += 32) score += float(q[row * D + d]) * float(k[key * D + d]);
        for (int other = 16; other; other /= 2) score += __shfl_xor_sync(~0u, score, other);
        score *= scale;
        const float higher = fmaxf(top, score), keep = __expf(top - higher), weight = __expf(score - higher);
        for (int n = 0, d = lane; d < D; ++n, d += 32) acc[n] = acc[n] * keep + weight * float(v[key * D + d]);
        sum = sum * keep + weight;
        top = higher;
    }
    for (int n = 0, d = lane; d < D; ++n, d += 32) o[row * D + d] = Element(acc[n] / sum);
}
