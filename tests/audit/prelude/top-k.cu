// Elements as whole numbers in the same order, beside their places: of equal ones, the first is the largest. NaN is above all.
using Entry = unsigned long long;
__device__ unsigned key_of(float x) {
    const unsigned bits = __float_as_uint(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return ~0u;
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ float value_of(Entry entry) {
    const unsigned key = entry >> 32;
    return __uint_as_float(key & 0x80000000u ? key ^ 0x80000000u : ~key);
}
__device__ Entry entry_of(float x, int place) { return (Entry)key_of(x) << 32 | (0x7fffffffu - place); }
__device__ int place_of(Entry entry) { return 0x7fffffff - (int)(unsigned)entry; }
__device__ Entry largest_of_warp(Entry entry) {
    for (int lane = 16; lane; lane /= 2) entry = max(entry, __shfl_xor_sync(~0u, entry, lane));
    return entry;
}
