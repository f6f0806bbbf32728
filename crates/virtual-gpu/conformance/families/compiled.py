"""Cases of the kernels that are written in CUDA: control flow, memory, asynchronous copies, clusters, wgmma."""

TIGHT = {"rel": 1e-5, "abs": 4e-6}


def control(suite, words):
    ptx = "control.ptx"
    for name in ["nested", "early", "cases", "local_array"]:
        suite.case(ptx, name, [words, "out"], [(name, "u32", 256, "exact")], grid=2, block=128)
    suite.case(ptx, "breaks", [words, "out"], [("breaks", "u32", 512, "exact")], grid=2, block=128)
    suite.case(ptx, "collatz", ["out"], [("steps", "u32", 256, "exact")], grid=2, block=128)
    suite.case(ptx, "local_stack", ["out"], [("ackermann", "u32", 96, "exact")], grid=2, block=48)
    shape = {"grid": (3, 2, 2), "block": (5, 3, 4)}
    suite.case(ptx, "dimensions", ["out"], [("place", "u32", 720, "exact")], **shape)
    suite.case(ptx, "partial", [words, "out"], [("partial", "u32", 256, "exact")], block=256)


def memory(suite, words):
    ptx = "memory.ptx"
    floats = suite.table("reduce", {"random": "near32", "seed": 51, "count": 2048})
    suite.case(ptx, "reduce", [floats, "out"], [("sum", "f32", 4, "exact")], grid=4, block=256)
    suite.case(ptx, "scan", [words, "out"], [("scan", "u32", 256, "exact")], block=256)
    matrix = suite.table("transpose", {"random": "u32", "seed": 52, "count": 4096})
    suite.case(ptx, "transpose", [matrix, "out"], [("transposed", "u32", 4096, "exact")], grid=(2, 2), block=(32, 8))
    # min, max, smin, smax, and, or, xor start where every operand counts; inc and dec within their limit.
    start = [5, 0xFFFFFFFF, 0, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0, 0xAAAA, 7, 7, 9, 0x3F000000]
    start += [1, 2, 3, 4, 0, 0x40000000, 0, 12345] + [0] * 44
    head = {"hex": b"".join(x.to_bytes(4, "little") for x in start).hex()}
    init = suite.table("atomics", head, {"random": "u32", "seed": 53, "count": 1472})
    out = [("sums", "u32", 64, "exact"), ("old", "u32", 960, "exact"), ("exchanged", "u32", 512, "exact")]
    suite.case(ptx, "atomics_global", [words, "out"], out, grid=4, block=128, init=init)
    suite.case(ptx, "atomics_shared", [words, "out"], [("bins", "u32", 68, "exact")], block=256)
    vectors = suite.table("vectors", {"random": "u32", "seed": 54, "count": 256})
    suite.case(ptx, "vectors", [vectors, "out"], [("vectors", "u32", 560, "exact")], block=64)
    suite.case(ptx, "variables", [words, "out"], [("variables", "u32", 64, "exact")], block=32)
    suite.case(ptx, "spaces", [words, "out"], [("spaces", "u32", 32, "exact")], block=32)
    count = 200 * 256
    suite.case(
        ptx, "large", ["out", ("u32", count)], [("mixed", "u32", 256, "exact")], block=256, shared=count * 4
    )
    suite.case(ptx, "barriers", [words, "out"], [("barriers", "u32", 256, "exact")], block=128)


def asynchronous(suite):
    ptx = "async.ptx"
    words = suite.table("stages", {"random": "u32", "seed": 55, "count": 1024})
    suite.case(ptx, "groups", [words, "out"], [("stages", "u32", 192, "exact")], block=64)
    suite.case(ptx, "zero_fill", [words, "out"], [("filled", "u8", 1024, "exact")], block=32)
    suite.case(ptx, "async_arrive", [words, "out"], [("arrived", "u32", 64, "exact")], block=64)
    suite.case(ptx, "pipeline", [words, "out"], [("consumed", "u32", 128, "exact")], block=128)
    suite.case(ptx, "states", ["out"], [("states", "u32", 8, "exact")], block=32)
    init = suite.table("bulk", {"random": "u32", "seed": 56, "count": 512})
    suite.case(ptx, "bulk", [words, "out"], [("copied", "u32", 512, "exact")], block=256, init=init)


def clusters(suite):
    ptx = "cluster.ptx"
    words = suite.table("blocks", {"random": "u32", "seed": 57, "count": 1024})
    suite.case(ptx, "places", ["out"], [("places", "u32", 384, "exact")], grid=(6, 4), block=32, cluster=(2, 2))
    for name, blocks, each, threads in [
        ("neighbours", 8, 64, 64),
        ("gather", 8, 128, 64),
        ("remote_barrier", 8, 8, 32),
        ("multicast", 8, 64, 64),
        ("pass_on", 8, 64, 64),
    ]:
        out = [(name, "u32", blocks * each, "exact")]
        suite.case(ptx, name, [words, "out"], out, grid=blocks, block=threads, cluster=4)
    out = [("neighbours", "u32", 16 * 64, "exact")]
    suite.case(ptx, "neighbours_of_8", [words, "out"], out, kernel="neighbours", grid=16, block=64, cluster=8)


def warpgroups(suite):
    ptx = "wgmma.ptx"

    def case(name, kind, k, n, rule, suffix, out=("f32", 1)):
        a = suite.table(f"wgmma.{kind}.a{k}", {"random": kind, "seed": 61, "count": 64 * k})
        b = suite.table(f"wgmma.{kind}.b{k}x{n}", {"random": kind, "seed": 62, "count": n * k})
        section = [("wgmma", out[0], 64 * n, rule)]
        suite.case(ptx, f"wgmma_{name}_{suffix}", [a, b, "out"], section, kernel=name, block=128)

    for name, k, n in [
        ("plain", 16, 64),
        ("swizzle32", 16, 64),
        ("swizzle64", 32, 64),
        ("swizzle128", 64, 64),
        ("transposed", 64, 64),
        ("registers", 64, 64),
        ("narrow", 16, 8),
    ]:
        case(name, "if16", k, n, "exact", "exact")
        case(name, "f16", k, n, TIGHT, "random")
    case("brain", "ibf16", 16, 64, "exact", "exact")
    case("brain", "bf16", 16, 64, TIGHT, "random")
    case("half_sum", "if16", 16, 16, "exact", "exact", ("f16", 2))
    case("half_sum", "f16", 16, 16, {"rel": 2e-3, "abs": 4e-3}, "random", ("f16", 2))


def add(suite):
    """Adds the family."""
    words = suite.table("c256", {"random": "u32", "seed": 50, "count": 256})
    control(suite, words)
    memory(suite, words)
    asynchronous(suite)
    clusters(suite)
    warpgroups(suite)
