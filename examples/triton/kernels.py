"""Two kernels in Triton, for export.py."""

import triton
import triton.language as tl


@triton.jit
def softmax(x, out, cols, BLOCK: tl.constexpr):
    """One program for each row, which has at most BLOCK elements."""
    at = tl.arange(0, BLOCK)
    first = tl.program_id(0) * cols
    row = tl.load(x + first + at, mask=at < cols, other=float("-inf")).to(tl.float32)
    powers = tl.exp(row - tl.max(row, axis=0))
    tl.store(out + first + at, powers / tl.sum(powers, axis=0), mask=at < cols)


@triton.jit
def matmul(a, b, c, M, N, K, ROWS: tl.constexpr, COLS: tl.constexpr, DEPTH: tl.constexpr, GROUP: tl.constexpr):
    """One program for each tile of c. Programs in a row share tiles of b in L2."""
    tiles_m, tiles_n = tl.cdiv(M, ROWS), tl.cdiv(N, COLS)
    group = tl.program_id(0) // (GROUP * tiles_n)
    height = min(tiles_m - group * GROUP, GROUP)
    inside = tl.program_id(0) % (GROUP * tiles_n)
    rows = (group * GROUP + inside % height) * ROWS + tl.arange(0, ROWS)
    columns = (inside // height) * COLS + tl.arange(0, COLS)
    depth = tl.arange(0, DEPTH)
    # Rows and columns that are not there read others, which nothing stores.
    of_a = a + (rows % M)[:, None] * K + depth[None, :]
    of_b = b + depth[:, None] * N + (columns % N)[None, :]
    sums = tl.zeros((ROWS, COLS), tl.float32)
    for k in range(0, K, DEPTH):
        left = depth < K - k
        sums = tl.dot(
            tl.load(of_a, mask=left[None, :], other=0.0), tl.load(of_b, mask=left[:, None], other=0.0), sums
        )
        of_a += DEPTH
        of_b += DEPTH * N
    inside_c = (rows < M)[:, None] & (columns < N)[None, :]
    tl.store(c + rows[:, None] * N + columns[None, :], sums.to(c.dtype.element_ty), mask=inside_c)
