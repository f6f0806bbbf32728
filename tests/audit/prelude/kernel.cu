// The plain kernel: a block of one warp for each query row. An entry without the prelude `row` defines its own
// attend_row.
__device__ void attend_row(const Element* q, const Element* k, const Element* v, Element* o, int visible, float scale);

extern "C" __global__ void attend(const Element* q, const Element* k, const Element* v, Element* o, int Sq, int Sk,
                                  float scale) {
    const int i = blockIdx.x, visible = CAUSAL ? i + 1 + Sk - Sq : Sk;
    const size_t head = blockIdx.y, row = (head * Sq + i) * D;
    attend_row(q + row, k + head * Sk * D, v + head * Sk * D, o + row, visible, scale);
}
