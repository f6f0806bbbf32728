// Control flow: what a warp does when its threads go different ways. Each thread writes what it computed.

#define KERNEL extern "C" __global__ void

__device__ inline unsigned id() { return blockIdx.x * blockDim.x + threadIdx.x; }

// Nested conditions, each side of which does something that the compiler cannot turn into selects.
KERNEL nested(const unsigned* in, unsigned* out) {
    const unsigned i = id();
    unsigned x = in[i], y = 1;
    if (x & 1) {
        for (unsigned k = 0; k < (x & 7); ++k) y = y * 3 + k;
        if (x & 2) {
            for (unsigned k = 0; k < (x >> 4 & 7); ++k) y ^= y << 3 | k;
        } else if (x & 8) {
            y += in[x % 256];
        }
    } else {
        if (x & 4) {
            while (y < (x & 0xff)) y += y / 2 + 1;
        }
        y += 1000;
    }
    out[i] = y;
}

// A loop that lanes leave by break at different times, with continue in between.
KERNEL breaks(const unsigned* in, unsigned* out) {
    const unsigned i = id();
    const unsigned x = in[i];
    unsigned y = x, steps = 0;
    for (;;) {
        ++steps;
        if ((y & 3) == 1) {
            y = y * 5 + 7;
            if (steps > 40) break;
            continue;
        }
        if ((y & 0xff) < 8) break;
        y = y >> 1 ^ (x + steps);
        if (steps == 97) break;
    }
    out[2 * i] = y;
    out[2 * i + 1] = steps;
}

// Lanes that return early from the middle of nested loops; the rest go on and meet at shuffles of those left.
KERNEL early(const unsigned* in, unsigned* out) {
    const unsigned i = id();
    const unsigned x = in[i];
    out[i] = 7;
    if (x % 5 == 0) return;
    for (unsigned a = 0; a < 4; ++a) {
        for (unsigned b = 0; b < 4; ++b) {
            if ((x >> (4 * a + b)) % 11 == 3) {
                out[i] = a * 4 + b + 100;
                return;
            }
        }
    }
    out[i] = __popc(__activemask()) > 0 ? 55 : 0;
}

// Collatz steps: trip counts from 0 to above a hundred in one warp.
KERNEL collatz(unsigned* out) {
    unsigned long long n = id() + 1;
    unsigned steps = 0;
    while (n != 1) {
        n = n & 1 ? 3 * n + 1 : n / 2;
        ++steps;
    }
    out[id()] = steps;
}

// A switch, which becomes a jump table.
KERNEL cases(const unsigned* in, unsigned* out) {
    const unsigned i = id();
    unsigned x = in[i];
    switch (x % 12) {
        case 0: for (unsigned k = 0; k < (x >> 8 & 3); ++k) x = x * 3 + k; break;
        case 1: x = in[x % 255]; break;
        case 2: x ^= 0x55; [[fallthrough]];
        case 3: x = x / 3 + in[x % 17]; break;
        case 4: x = __brev(x); break;
        case 5: while (x > 1000) x = x / 7; break;
        case 6: x = x % 1001; break;
        case 7: x = __clz(x) + in[x % 99]; break;
        case 8: x = x * x; break;
        case 9: for (unsigned k = 0; k < (x >> 8 & 7); ++k) x += x << 2; break;
        default: x = ~x;
    }
    out[i] = x;
}

__device__ inline unsigned ackermann(unsigned m, unsigned n) {
    unsigned stack[64];
    unsigned top = 0;
    stack[top++] = m;
    while (top) {
        m = stack[--top];
        if (m == 0) {
            ++n;
        } else if (n == 0) {
            n = 1;
            stack[top++] = m - 1;
        } else {
            --n;
            stack[top++] = m - 1;
            stack[top++] = m;
        }
    }
    return n;
}

// A local array with dynamic index in a data-dependent loop.
KERNEL local_stack(unsigned* out) { out[id()] = ackermann(id() % 3, id() / 3 % 8); }

// A local array filled and permuted with dynamic indices.
KERNEL local_array(const unsigned* in, unsigned* out) {
    const unsigned i = id();
    unsigned a[16];
    for (unsigned k = 0; k < 16; ++k) a[k] = in[(i + k * 3) % 256];
    // insertion sort
#pragma unroll 1
    for (unsigned k = 1; k < 16; ++k) {
        const unsigned x = a[k];
        int j = k - 1;
        while (j >= 0 && a[j] > x) {
            a[j + 1] = a[j];
            --j;
        }
        a[j + 1] = x;
    }
    out[i] = a[in[i] % 16] ^ a[0] << 1;
}

// Blocks and grids of three dimensions; each thread reports where it is.
KERNEL dimensions(unsigned* out) {
    const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
    unsigned lane;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    out[block * threads + thread] = threadIdx.x | threadIdx.y << 4 | threadIdx.z << 8 | blockIdx.x << 12 |
                                    blockIdx.y << 16 | blockIdx.z << 20 | lane << 24;
}

// A division of work in which whole warps and parts of warps do nothing, and the block meets at a barrier after.
KERNEL partial(const unsigned* in, unsigned* out) {
    __shared__ unsigned sums[256];
    const unsigned t = threadIdx.x;
    unsigned y = 0;
    if (t % 96 < 70) {
        for (unsigned k = t; k < 256; k += 37) y += in[k];
    }
    sums[t] = y;
    __syncthreads();
    if (t >= 50 && t < 150) y += sums[t - 50] ^ sums[255 - t];
    out[t] = y;
}
