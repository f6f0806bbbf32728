// One query row by one warp, with the logarithm of the sum of its weights. An entry defines the logarithm.
__device__ float logarithm(float top, float sum);  // of a sum of exponentials of scores less the largest, top

extern "C" __global__ void attend(const Element* q, const Element* k, const Element* v, Element* o, <% if LSE == 1 %>float* lse, <% endif %>int Sq,
                                  int Sk, float scale) {
    const int lane = threadIdx.x, i = blockIdx.x, head = blockIdx.y;
    const size_t row = (size_t)head * Sq + i;
    q += row * D;
    k += (size_t)head * Sk * D;
    v += (size_t)head * Sk * D;
    float acc[PART] = {}, top = -1e30f, sum = 0;
    for (int j = 0; j < (CAUSAL ? i + Sk - Sq + 1 : Sk); ++j) {
        float score = 0;
        for (int d = lane; d < D; d += 32) score += float(q[d]) * float(k[j * D + d]);
        for (int other = 16; other; other /= 2) score += __shfl_xor_sync(~0u, score, other);
        score *= scale;
        const float higher = fmaxf(top, score), keep = __expf(top - higher), weight = __expf(score - higher);
        for (int n = 0, d = lane; d < D; ++n, d += 32) acc[n] = acc[n] * keep + weight * float(v[j * D + d]);
        sum = sum * keep + weight;
        top = higher;
    }
    for (int n = 0, d = lane; d < D; ++n, d += 32) o[row * D + d] = Element(acc[n] / sum);
<% if LSE == 1 %>    if (lane == 0) lse[row] = logarithm(top, sum);
<% endif %>}
