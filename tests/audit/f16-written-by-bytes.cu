/*
about = "Stores each FP16 number as two bytes, which NVRTC 13.0 compiles to wrong machine code."
kind = "broken"
caught_by = ["wrong/machine_code"]
not_modelled = "its PTX is right, and only its machine code is wrong"
workload = "attention-fp16-d64"
case = { B = 1, H = 2, Sq = 97, Sk = 97, D = 32, CAUSAL = 1 }
constants = ["D", "CAUSAL"]
prelude = ["dims", "kernel"]

[[launch]]
kernel = "attend"
grid = ["Sq", "B * H"]
block = ["32"]
args = ["q", "k", "v", "o", "Sq", "Sk", "scale"]
*/
// `cvt.rn.f16.f32 %rs, %f; st.global.u8 [p], %rs` becomes F2I.U8.F16, which converts the number to an integer instead of
// taking its low byte (NVRTC 13.0, every optimization level, sm_80 and sm_90a, seen on an H200 on 2026-11-22).

// One query row by one warp: the plain attention of this corpus, but for the lines that end with <--.
__device__ void attend_row(const Element* q, const Element* k, const Element* v, Element* o, int visible, float scale) {
    const int lane = threadIdx.x % 32;
    float acc[PART] = {};         // output so far, not yet divided by the sum
    float top = -1e30f, sum = 0;  // largest score so far, and the sum of exp(score - top)
    for (int j = 0; j < visible; ++j) {
        float score = 0;
        for (int d = lane; d < D; d += 32) score += float(q[d]) * float(k[j * D + d]);
        for (int other = 16; other; other /= 2) score += __shfl_xor_sync(~0u, score, other);
        score *= scale;
        const float higher = fmaxf(top, score), keep = __expf(top - higher), weight = __expf(score - higher);
        for (int n = 0, d = lane; d < D; ++n, d += 32) acc[n] = acc[n] * keep + weight * float(v[j * D + d]);
        sum = sum * keep + weight;
        top = higher;
    }
    for (int n = 0, d = lane; d < D; ++n, d += 32) {
        const unsigned short bits = __half_as_ushort(__float2half(acc[n] / sum));   // <--
        unsigned char* bytes = reinterpret_cast<unsigned char*>(o + d);             // <--
        bytes[0] = static_cast<unsigned char>(bits), bytes[1] = static_cast<unsigned char>(bits >> 8);  // <--
    }
}
