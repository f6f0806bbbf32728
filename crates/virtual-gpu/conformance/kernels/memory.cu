// Memory: reductions and transposes through shared memory, atomics whose result does not depend on the order, vector
// loads and stores, and variables of the module.
#include <cuda_fp16.h>

#define KERNEL extern "C" __global__ void

// Tree reduction in shared memory, then in a warp by shuffles. The order of the sum is fixed.
KERNEL reduce(const float* in, float* out) {
    __shared__ float part[256];
    const unsigned t = threadIdx.x;
    part[t] = in[blockIdx.x * 512 + t] + in[blockIdx.x * 512 + 256 + t];
    __syncthreads();
    for (unsigned s = 128; s >= 32; s /= 2) {
        if (t < s) part[t] += part[t + s];
        __syncthreads();
    }
    if (t < 32) {
        float x = part[t];
        for (int s = 16; s; s /= 2) x += __shfl_down_sync(0xffffffff, x, s);
        if (t == 0) out[blockIdx.x] = x;
    }
}

// Inclusive scan of 256 numbers: warps by shuffles, then the warps' sums.
KERNEL scan(const unsigned* in, unsigned* out) {
    __shared__ unsigned sums[8];
    const unsigned t = threadIdx.x, lane = t % 32, warp = t / 32;
    unsigned x = in[t];
    for (unsigned s = 1; s < 32; s *= 2) {
        const unsigned y = __shfl_up_sync(0xffffffff, x, s);
        if (lane >= s) x += y;
    }
    if (lane == 31) sums[warp] = x;
    __syncthreads();
    if (warp == 0) {
        unsigned y = lane < 8 ? sums[lane] : 0;
        for (unsigned s = 1; s < 8; s *= 2) {
            const unsigned z = __shfl_up_sync(0xffffffff, y, s);
            if (lane >= s) y += z;
        }
        if (lane < 8) sums[lane] = y;
    }
    __syncthreads();
    out[t] = x + (warp ? sums[warp - 1] : 0);
}

// Transposes a 64 x 64 matrix by tiles of 32 x 32, padded by one column against bank conflicts.
KERNEL transpose(const unsigned* in, unsigned* out) {
    __shared__ unsigned tile[32][33];
    const unsigned x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (unsigned k = 0; k < 32; k += 8) tile[threadIdx.y + k][threadIdx.x] = in[(y + k) * 64 + x];
    __syncthreads();
    const unsigned u = blockIdx.y * 32 + threadIdx.x, v = blockIdx.x * 32 + threadIdx.y;
    for (unsigned k = 0; k < 32; k += 8) out[(v + k) * 64 + u] = tile[threadIdx.x][threadIdx.y + k];
}

// Atomics of many threads on few global words. All sums are of integers, so the order does not matter.
KERNEL atomics_global(const unsigned* in, unsigned* out) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned x = in[i % 256];
    atomicAdd(out, x);
    atomicMin(out + 1, x);
    atomicMax(out + 2, x);
    atomicMin((int*)out + 3, (int)x);
    atomicMax((int*)out + 4, (int)x);
    atomicAnd(out + 5, x | 0xf0);
    atomicOr(out + 6, x & 0xff00ff);
    atomicXor(out + 7, x);
    atomicInc(out + 8, 100);
    atomicDec(out + 9, 100);
    atomicSub(out + 10, x);
    atomicAdd((float*)out + 11, (float)(x & 0xff));
    atomicAdd((unsigned long long*)(out + 12), (unsigned long long)x << 8);
    atomicMax((unsigned long long*)(out + 14), (unsigned long long)x << 8);
    atomicAdd((double*)(out + 16), (double)(x & 0xffff));
    atomicAdd((__half2*)(out + 18), __half2(__half((int)(x & 1)), __half(2)));
    for (unsigned old = out[19], seen;; old = seen) {
        seen = atomicCAS(out + 19, old, old * 3);
        if (seen == old) break;
    }
    // Each thread its own word: the old value is known.
    out[64 + i] = atomicExch(out + 1024 + i, x) + atomicAdd(out + 1024 + i, 5) * 3;
}

// The same in shared memory: a histogram and extremes.
KERNEL atomics_shared(const unsigned* in, unsigned* out) {
    __shared__ unsigned bins[64];
    __shared__ unsigned long long wide;
    __shared__ float sum;
    const unsigned t = threadIdx.x;
    if (t < 64) bins[t] = t < 32 ? 0 : 1000;
    if (t == 64) wide = 5;
    if (t == 65) sum = 0.5f;
    __syncthreads();
    const unsigned x = in[t];
    atomicAdd(bins + x % 29, 1);
    atomicMin(bins + 32 + x % 3, x % 977);
    atomicMax((int*)bins + 40, (int)x);
    atomicOr(bins + 41, 1u << (x % 32));
    atomicXor(bins + 42, x);
    atomicInc(bins + 43, 70);
    atomicAdd(&wide, x);
    atomicAdd(&sum, (float)(x % 64));
    const unsigned old = atomicExch(bins + 48 + t % 16, t % 16);
    __syncthreads();
    if (t < 64) out[t] = bins[t];
    if (t == 64) out[64] = (unsigned)wide, out[65] = (unsigned)(wide >> 32);
    if (t == 66) out[66] = __float_as_uint(sum);
    if (t == 67) out[67] = old < 2000;
}

// Vector accesses of 4, 8 and 16 bytes, narrow and signed ones, and unaligned tails byte by byte.
KERNEL vectors(const uint4* in, uint4* out) {
    const unsigned t = threadIdx.x;
    __shared__ uint4 tile[64];
    const uint4 a = in[t];
    tile[63 - t] = make_uint4(a.w, a.z, a.y, a.x);
    __syncthreads();
    const uint2 b = ((const uint2*)tile)[t * 2 + 1];
    const short4 c = ((const short4*)in)[t];
    const uchar4 d = ((const uchar4*)in)[t + 7];
    const signed char e = ((const signed char*)in)[t * 3 + 1];
    const unsigned short f = ((const unsigned short*)tile)[t * 5 + 1];
    const ushort2 g = ((const ushort2*)in)[t];
    const longlong2 h = ((const longlong2*)in)[63 - t];
    out[t * 2] = make_uint4(b.x + c.x, b.y ^ c.w, d.x + 256 * d.w, e);
    out[t * 2 + 1] = make_uint4(f, g.x * g.y, (unsigned)(h.x >> 13), (unsigned)(h.y >> 40));
    ((unsigned char*)out)[2048 + t] = d.y - e;
    ((unsigned short*)out)[1056 + t] = f + c.y;
}

__constant__ unsigned table[16] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};
__device__ float weights[8] = {0.5f, -1.25f, 3.0f, 1e-3f, 8.0f, -0.0f, 1e30f, 2.0f};
__device__ unsigned counter = 42;

// Variables of the module: initial contents, dynamic index, generic addresses of several spaces through one pointer.
KERNEL variables(const unsigned* in, unsigned* out) {
    __shared__ unsigned local[32];
    const unsigned t = threadIdx.x;
    unsigned own[4] = {t, t * t, ~t, t << 3};
    local[t % 32] = t % 32 * 11;
    __syncthreads();
    const unsigned x = in[t];
    const unsigned* from = x % 3 == 0 ? local : x % 3 == 1 ? in : own;
    out[t * 2] = from[x % 4] + table[x % 16];
    out[t * 2 + 1] = __float_as_uint(weights[x % 8]) + counter;
}

// In which space a generic pointer points.
KERNEL spaces(const unsigned* in, unsigned* out) {
    __shared__ unsigned box[1];
    unsigned own[2] = {in[0], in[1]};
    const unsigned t = threadIdx.x;
    const unsigned* const pointers[4] = {box, in + t, own + in[t] % 2, table + t % 16};
    unsigned bits = 0;
    for (unsigned k = 0; k < 4; ++k) {
        const void* p = pointers[k];
        bits = bits << 4 | __isGlobal(p) << 3 | __isShared(p) << 2 | __isLocal(p) << 1 | (unsigned)__isConstant(p);
    }
    out[t] = bits;
}

// Dynamic shared memory above 48 KiB, which needs opting in.
KERNEL large(unsigned* out, unsigned words) {
    extern __shared__ unsigned dynamic[];
    for (unsigned k = threadIdx.x; k < words; k += blockDim.x) dynamic[k] = k * 2654435761u;
    __syncthreads();
    unsigned x = 0;
    for (unsigned k = 0; k < 64; ++k) x ^= dynamic[(threadIdx.x * 997 + k * 131) % words];
    out[threadIdx.x] = x;
}

// Named barriers: producers arrive, consumers wait; and reductions over a barrier.
KERNEL barriers(const unsigned* in, unsigned* out) {
    __shared__ unsigned box[64];
    const unsigned t = threadIdx.x;
    const unsigned x = in[t];
    if (t < 64) {
        box[t] = x;
        asm volatile("bar.arrive 1, 128;" ::: "memory");
        out[t] = x + 1;
    } else {
        asm volatile("bar.sync 1, 128;" ::: "memory");
        out[t] = box[127 - t] ^ x;
    }
    out[128 + t] = __syncthreads_count(x % 3 == 0) + 1000 * __syncthreads_and(x % 3 < 3) + 2000 * __syncthreads_or(x == 1);
}
