"""Cases of whole kernels: attention with a head dimension of 64, scalar and on tensor cores.

attention_scalar{,_f32}.cu and attention_split.cu are renderings of optloop's families of these names, attention_mma.cu is
written for this crate. Sums of single precision are taken in the order that the code says, so they agree but for ex2,
whose error PTX only bounds.
"""

import struct

HEAD = 64
SCALE = ("u32", struct.unpack("<I", struct.pack("<f", 0.125))[0])
# In f16 results: the last place, where a difference in ex2 tips the rounding.
HALF = {"ulp": 1}
# In f32 results, which sum some dozens of exponentials: relative, and absolute near zero.
SINGLE = {"rel": 2e-6, "abs": 1e-7}
# Tensor cores add products in an order, and with a rounding, of their own.
TENSOR = {"rel": 2e-3, "abs": 2e-4}


def operands(suite, kind, heads, queries, keys):
    """Makes q, k and v."""
    sizes = {"q": heads * queries * HEAD, "k": heads * keys * HEAD, "v": heads * keys * HEAD}
    return [
        suite.table(f"attention.{kind}.{name}{count}", {"random": kind, "seed": 70 + seed, "count": count})
        for seed, (name, count) in enumerate(sizes.items())
    ]


def one_kernel(suite, ptx, kind, rule, *, kernel, rows, shared):
    for heads, queries, keys in [(2, 64, 64), (1, 37, 70)]:
        args = [*operands(suite, kind, heads, queries, keys), "out", ("u32", queries), ("u32", keys), SCALE]
        out = [("o", kind, heads * queries * HEAD, rule)]
        grid = (-(-queries // rows), heads)
        name = f"{kernel}_{queries}x{keys}"
        suite.case(ptx, name, args, out, kernel=kernel, grid=grid, block=128, shared=shared)


def split(suite):
    """The two kernels of attention-split-kv on 4 splits of 128 keys, as for b8h8s128 but with one head."""
    ptx, queries, splits = "attention_split.ptx", 128, 4
    rows = splits * queries
    tops = suite.table("attention.tops", {"random": "f32", "seed": 80, "count": rows})
    sums = suite.table("attention.sums", {"random": "near32", "seed": 81, "count": rows})
    parts = suite.table("attention.parts", {"random": "near32", "seed": 82, "count": rows * HEAD})
    args = [*operands(suite, "f16", 1, queries, queries), "out", tops, sums, ("u32", queries), ("u32", queries), SCALE]
    # Not normalised: the errors of up to 32 exponentials add up to an absolute one.
    out = [("part_o", "f32", rows * HEAD, {"rel": 2e-6, "abs": 2e-6})]
    suite.case(ptx, "attend", args, out, grid=(4, splits, 1), block=128, shared=8192)
    out = [("o", "f16", queries * HEAD, HALF)]
    suite.case(ptx, "combine", [parts, tops, sums, "out", ("u32", queries)], out, grid=8, block=256)


def add(suite):
    """Adds the family."""
    tile = 2 * 32 * HEAD
    one_kernel(suite, "attention_scalar.ptx", "f16", HALF, kernel="attention", rows=32, shared=tile * 2)
    one_kernel(suite, "attention_scalar_f32.ptx", "f32", SINGLE, kernel="attention", rows=32, shared=tile * 4)
    split(suite)
    for kernel in ["attention", "attention_causal"]:
        one_kernel(suite, "attention_mma.ptx", "f16", TENSOR, kernel=kernel, rows=64, shared=0)
