// One query row by one warp, with keys in pages and lengths of batch entries. An entry defines where a key is, and how far the row reads.
constexpr int PAGE = <$ PAGE $>;
__device__ int keys_read(int length);  // the keys that are read, those behind the length with weight 0
__device__ int page_of(const int* table, int entry, int key, int pages);

extern "C" __global__ void attend(const Element* q, const Element* k, const Element* v, const int* lengths, const int* page_table,
                                  Element* o, int H, int Hkv, int Sq, int Sk, float scale) {
    const int lane = threadIdx.x, i = blockIdx.x, head = blockIdx.y, entry = head / H, key_head = head % H / (H / Hkv);
    q += (size_t)(head * Sq + i) * D;
    o += (size_t)(head * Sq + i) * D;
    const int length = lengths[entry], read = min(keys_read(length), Sk);
    float acc[PART] = {};
    float top = -1e30f, sum = 0;
    for (int j = 0; j < read; ++j) {
        if (CAUSAL && j > i + length - Sq) break;
        const size_t row = ((size_t)page_of(page_table, entry, j, Sk / PAGE) * PAGE + j % PAGE) * Hkv + key_head;
        float score = 0;
        for (int d = lane; d < D; d += 32) score += float(q[d]) * float(k[row * D + d]);
        for (int other = 16; other; other /= 2) score += __shfl_xor_sync(~0u, score, other);
        score = j < length ? score * scale : -1e30f;
        const float higher = fmaxf(top, score), keep = __expf(top - higher), weight = j < length ? __expf(score - higher) : 0;
        for (int n = 0, d = lane; d < D; ++n, d += 32) acc[n] = acc[n] * keep + weight * float(v[row * D + d]);
        sum = sum * keep + weight;
        top = higher;
    }
    for (int n = 0, d = lane; d < D; ++n, d += 32) o[d] = Element(sum == 0 ? 0 : acc[n] / sum);
}
