"""Cases of tensor copies, kernels/tensor.cu: maps of every element size, rank and swizzle, inside and outside."""

TIGHT = {"rel": 1e-5, "abs": 4e-6}
# Shared memory that the loads give back.
TILE = 8192


def product(numbers):
    """Returns the product of some numbers."""
    result = 1
    for number in numbers:
        result *= number
    return result


def tensor_map(table, element, dims, strides, box, swizzle=0):
    """Returns an argument: a map of a table, or of the output if `table` is None."""
    value = {"table": table, "element": element, "dims": dims, "strides": strides, "box": box, "swizzle": swizzle}
    return ("tensor_map", value)


def number(value):
    """Returns an argument: a number that may be negative."""
    return ("u32", value & 0xFFFFFFFF)


def load(suite, name, shape, at, kernel=None):
    """Adds a load of a box; `shape` is (table, element, dims, strides, box, swizzle)."""
    _, element, dims, _, box, _ = shape
    args = [tensor_map(*shape), "out", ("u32", element * product(box)), *map(number, at)]
    out = [("tile", "u8", TILE, "exact"), ("arrived", "u32", 1, "exact")]
    suite.case("tensor.ptx", name, args, out, kernel=kernel or f"load{len(dims)}", block=64)


def loads(suite):
    """Loads: swizzles, corners, ranks and element sizes."""
    halves = suite.table("tensor.halves", {"random": "u16", "seed": 71, "count": 104 * 40})
    plane = (halves, 2, [100, 40], [208])
    for swizzle, columns in [(0, 64), (32, 16), (64, 32), (128, 64)]:
        load(suite, f"swizzle{swizzle}", (*plane, [columns, 24], swizzle), (8, 3))
        load(suite, f"shifted{swizzle}", (*plane, [columns, 24], swizzle), (16, 5), "load2_shifted")
    load(suite, "wide_box", (*plane, [96, 20], 0), (0, 7))
    # The first coordinate is a multiple of 16 bytes everywhere: with others an H200 reports an illegal instruction.
    for name, at in [
        ("before", (-8, -3)),
        ("after", (64, 30)),
        ("left_below", (-16, 33)),
        ("outside", (104, 0)),
        ("far_outside", (-64, -2147483648)),
    ]:
        load(suite, f"corner_{name}", (*plane, [64, 16], 128), at)
        load(suite, f"plain_corner_{name}", (*plane, [32, 16], 0), at)
    load(suite, "line", (halves, 2, [1001], [], [256], 0), (768,))
    load(suite, "space", (halves, 2, [20, 9, 7], [48, 480], [16, 4, 3], 32), (8, 6, 5))
    load(suite, "space_outside", (halves, 2, [20, 9, 7], [48, 480], [32, 4, 3], 64), (-8, -1, 5))
    load(suite, "four", (halves, 2, [16, 5, 4, 3], [32, 160, 640], [8, 3, 2, 2], 0), (8, 1, 3, -1))
    load(suite, "five", (halves, 2, [16, 5, 4, 3, 2], [32, 160, 640, 1920], [8, 2, 3, 2, 2], 0), (0, 2, 1, 1, 0))
    load(suite, "five_outside", (halves, 2, [16, 5, 4, 3, 2], [32, 160, 640, 1920], [16, 2, 2, 2, 3], 32), (8, 4, -1, 2, -1))
    # Rows that overlap, as of a convolution.
    load(suite, "overlapping", (halves, 2, [64, 50], [16], [64, 10], 128), (0, 2))
    bytes_of = {1: "u8", 4: "u32", 8: "u64"}
    for element, kind in bytes_of.items():
        table = suite.table(f"tensor.{kind}", {"random": kind, "seed": 72, "count": 5632 // element})
        columns = 160 // element
        shape = (table, element, [columns - 1, 35], [160], [64 // element, 16], 64)
        load(suite, f"elements_{kind}", shape, (16 // element, 4))
        load(suite, f"elements_{kind}_outside", shape, (columns - 48 // element, -3))


def stores(suite):
    """Stores into an output that holds numbers already. With a negative coordinate an H200 reports an illegal instruction."""

    def store(name, shape, at, size):
        element, dims, _, box, _ = shape
        count = product(box) * element // 4
        words = suite.table(f"tensor.tile{count}", {"random": "u32", "seed": 73, "count": count})
        init = suite.table(f"tensor.before{size}", {"random": "u8", "seed": 74, "count": size})
        args = [tensor_map(None, *shape), words, "out", ("u32", count), *map(number, at)]
        out = [("tensor", "u8", size, "exact")]
        suite.case("tensor.ptx", name, args, out, kernel=f"store{len(dims)}", block=64, init=init)

    plane = (2, [60, 20], [128])
    for swizzle, columns in [(0, 32), (32, 16), (64, 32), (128, 64)]:
        store(f"store{swizzle}", (*plane, [columns, 8], swizzle), (0, 4), 2560)
    for name, at in [("after", (40, 15)), ("outside", (64, 0))]:
        store(f"store_{name}", (*plane, [32, 8], 64), at, 2560)
        store(f"store_plain_{name}", (*plane, [32, 8], 0), at, 2560)
    store("store_line", (4, [101], [], [64], 0), (48,), 416)
    store("store_space", (1, [30, 6, 5], [32, 192], [16, 4, 3], 0), (16, 1, 3), 960)
    store("store_bytes", (1, [75, 20], [128], [64, 8], 64), (16, 15), 2560)
    store("store_longs", (8, [13, 20], [128], [8, 8], 64), (6, 15), 2560)


def add(suite):
    """Adds the family."""
    loads(suite)
    stores(suite)
    halves = suite.table("tensor.rows", {"random": "u16", "seed": 75, "count": 64 * 48})
    args = [tensor_map(halves, 2, [64, 48], [128], [64, 16], 128), "out", number(0), number(3)]
    suite.case("tensor.ptx", "multicast", args, [("tiles", "u32", 2048, "exact")], kernel="multicast2", grid=2, block=64, cluster=2)
    for kind, rule, suffix in [("if16", "exact", "exact"), ("f16", TIGHT, "random")]:
        a = suite.table(f"tensor.{kind}.a", {"random": kind, "seed": 76, "count": 64 * 130})
        b = suite.table(f"tensor.{kind}.b", {"random": kind, "seed": 77, "count": 64 * 100})
        maps = [tensor_map(a, 2, [64, 130], [128], [64, 64], 128), tensor_map(b, 2, [64, 100], [128], [64, 64], 128)]
        # The last rows of B are outside: zeros.
        args = [*maps, "out", number(5), number(50)]
        suite.case("tensor.ptx", f"product_{suffix}", args, [("product", "f32", 4096, rule)], kernel="product", block=128)
