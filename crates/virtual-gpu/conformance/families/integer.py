"""Integer arithmetic, logic and shifts of 16, 32 and 64 bits, with carries."""

from .common import Group

EDGES = {
    16: [0, 1, 2, 3, 7, 0x10, 0x7F, 0x80, 0xFF, 0x100, 0x7FFE, 0x7FFF, 0x8000, 0x8001, 0xFFFE, 0xFFFF, 0x1234, 0xBEEF],
    32: [0, 1, 2, 3, 7, 8, 31, 32, 33, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000]
    + [0x80000001, 0xFFFFFFFE, 0xFFFFFFFF, 0x12345678, 0xDEADBEEF, 0x01010101],
    64: [0, 1, 2, 3, 7, 63, 64, 0xFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x100000000, 0x7FFFFFFFFFFFFFFF]
    + [0x8000000000000000, 0x8000000000000001, 0xFFFFFFFFFFFFFFFE, 0xFFFFFFFFFFFFFFFF, 0x0123456789ABCDEF],
}
FEW = {
    16: [0, 1, 2, 0x7F, 0xFF, 0x7FFF, 0x8000, 0xFFFF],
    32: [0, 1, 2, 31, 32, 0xFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xDEADBEEF],
    64: [0, 1, 2, 63, 0xFFFFFFFF, 0x7FFFFFFFFFFFFFFF, 0x8000000000000000, 0xFFFFFFFFFFFFFFFF],
}
# Shift counts, positions and lengths around and beyond the width.
COUNTS = [0, 1, 4, 16, 31, 32, 33, 63, 64, 255, 256, 0xFFFFFFFF]
VALUES = [0, 1, 0x80000000, 0xFFFFFFFF, 0xDEADBEEF, 0x12345678]


def grid(suite, name, widths, lists):
    """Makes a table per list with all tuples of the lists, padded to a multiple of 8 elements."""
    tuples = [()]
    for values in lists:
        tuples = [head + (value,) for head in tuples for value in values]
    tuples += [tuples[-1]] * (-len(tuples) % 8)
    columns = []
    for i, width in enumerate(widths):
        data = b"".join(row[i].to_bytes(width, "little") for row in tuples).hex()
        columns.append(suite.table(f"{name}.{i}", {"hex": data}))
    return columns


def arithmetic(suite, bits):
    ptx, w, wide = f"int{bits}.ptx", bits // 8, bits * 2
    random = f"u{bits}"
    pad = -(len(EDGES[bits]) ** 2) % 8
    pairs = suite.columns(f"i{bits}x2", EDGES[bits], w, 2, random, 64 + pad)
    triples = suite.columns(f"i{bits}x3", FEW[bits], w, 3, random, 64 + -(len(FEW[bits]) ** 3) % 8)
    result = f"u{bits}"

    group = Group(suite, ptx, f"add{bits}", pairs, [w, w])
    for op in ["add", "sub", "mul.lo", "mul.hi", "min", "max"]:
        for sign in "us":
            group.form(f"{op}.{sign}{bits} {{x}}, {{a}}, {{b}};", result)
    if bits == 32:
        group.form("add.sat.s32 {x}, {a}, {b};", result).form("sub.sat.s32 {x}, {a}, {b};", result)
        group.form("mul24.lo.u32 {x}, {a}, {b};", result).form("mul24.lo.s32 {x}, {a}, {b};", result)
    for op in ["and", "or", "xor"]:
        group.form(f"{op}.b{bits} {{x}}, {{a}}, {{b}};", result)
    if bits < 64:
        for sign in "us":
            group.form(f"mul.wide.{sign}{bits} {{x}}, {{a}}, {{b}};", f"u{wide}")
    group.end()

    nonzero = grid(suite, f"i{bits}div", [w, w], [EDGES[bits], [e for e in EDGES[bits] if e]])
    group = Group(suite, ptx, f"div{bits}", nonzero, [w, w])
    by_zero = Group(suite, ptx, f"div{bits}_by_zero", grid(suite, f"i{bits}zero", [w, w], [EDGES[bits], [0]]), [w, w])
    for op in ["div", "rem"]:
        for sign in "us":
            for each in (group, by_zero):
                each.form(f"{op}.{sign}{bits} {{x}}, {{a}}, {{b}};", result)
    group.end()
    by_zero.end()

    group = Group(suite, ptx, f"unary{bits}", pairs[:1], [w])
    group.form(f"neg.s{bits} {{x}}, {{a}};", result).form(f"abs.s{bits} {{x}}, {{a}};", result)
    group.form(f"not.b{bits} {{x}}, {{a}};", result).form(f"cnot.b{bits} {{x}}, {{a}};", result)
    if bits > 16:
        group.form(f"popc.b{bits} {{x}}, {{a}};", "u32").form(f"clz.b{bits} {{x}}, {{a}};", "u32")
        group.form(f"brev.b{bits} {{x}}, {{a}};", result)
        for sign in "us":
            group.form(f"bfind.{sign}{bits} {{x}}, {{a}};", "u32")
            group.form(f"bfind.shiftamt.{sign}{bits} {{x}}, {{a}};", "u32")
    group.end()

    group = Group(suite, ptx, f"mad{bits}", triples, [w, w, w])
    for sign in "us":
        for half in ["lo", "hi"]:
            group.form(f"mad.{half}.{sign}{bits} {{x}}, {{a}}, {{b}}, {{c}};", result)
        group.form(f"sad.{sign}{bits} {{x}}, {{a}}, {{b}}, {{c}};", result)
        if bits == 32:
            group.form(f"mad24.lo.{sign}32 {{x}}, {{a}}, {{b}}, {{c}};", result)
            group.form(f"cvt.{sign}64.{sign}32 %l20, {{c}};\nmad.wide.{sign}32 {{x}}, {{a}}, {{b}}, %l20;", "u64")
            for other in "us":
                group.form(f"dp4a.{sign}32.{other}32 {{x}}, {{a}}, {{b}}, {{c}};", result)
        if bits == 16:
            group.form(f"cvt.{sign}32.{sign}16 %r20, {{c}};\nmad.wide.{sign}16 {{x}}, {{a}}, {{b}}, %r20;", "u32")
    if bits == 32:
        for table in [0x00, 0x80, 0xFE, 0x96, 0xE8, 0xCA, 0x1B, 0x6A, 0xB8, 0xFF]:
            group.form(f"lop3.b32 {{x}}, {{a}}, {{b}}, {{c}}, {table};", result, label=f"lop3 {table:#x}")
        group.form("prmt.b32 {x}, {a}, {b}, {c};", result)
        for selector in [0x3210, 0x7531, 0x0123, 0x89AB, 0xFEDC, 0x5410]:
            group.form(f"prmt.b32 {{x}}, {{a}}, {{b}}, {selector};", result, label=f"prmt {selector:#x}")
    group.end()
    return pairs, triples


def shifts(suite, bits):
    ptx, w = f"int{bits}.ptx", bits // 8
    values = [v * (0x100000001 if bits == 64 else 1) & (1 << bits) - 1 for v in VALUES]
    inputs = grid(suite, f"shift{bits}", [w, 4], [values, COUNTS])
    group = Group(suite, ptx, f"shift{bits}", inputs, [w, 4])
    for op in [f"shl.b{bits}", f"shr.b{bits}", f"shr.u{bits}", f"shr.s{bits}"]:
        group.form(f"{op} {{x}}, {{a}}, {{b}};", f"u{bits}")
    group.end()
    if bits == 16:
        return
    fields = grid(suite, f"field{bits}", [w, 4, 4], [values, COUNTS, COUNTS])
    group = Group(suite, ptx, f"field{bits}", fields, [w, 4, 4])
    for sign in "us":
        group.form(f"bfe.{sign}{bits} {{x}}, {{a}}, {{b}}, {{c}};", f"u{bits}")
    group.form(f"not.b{bits} %{'r' if bits == 32 else 'l'}20, {{a}};\n"
               f"bfi.b{bits} {{x}}, {{a}}, %{'r' if bits == 32 else 'l'}20, {{b}}, {{c}};", f"u{bits}")
    if bits == 32:
        for direction in "lr":
            for mode in ["clamp", "wrap"]:
                group.form(f"shf.{direction}.{mode}.b32 {{x}}, {{a}}, {{b}}, {{c}};", "u32")
    group.end()


def carries(suite, pairs32, triples32, triples64):
    """Chains through the carry flag: each form adds, subtracts or multiplies two words or more."""
    ptx = "carry.ptx"
    group = Group(suite, ptx, "carry32", triples32, [4, 4, 4])
    group.form("add.cc.u32 {x}, {a}, {b};\naddc.cc.u32 {y}, {b}, {c};\naddc.u32 {z}, {c}, {a};", "u32", "u32", "u32")
    group.form("sub.cc.u32 {x}, {a}, {b};\nsubc.cc.u32 {y}, {b}, {c};\nsubc.u32 {z}, {c}, {a};", "u32", "u32", "u32")
    group.form("mad.lo.cc.u32 {x}, {a}, {b}, {c};\nmadc.hi.cc.u32 {y}, {a}, {b}, {c};\naddc.u32 {z}, 0, 0;", "u32", "u32", "u32")
    group.form("mad.lo.cc.s32 {x}, {a}, {b}, {c};\nmadc.hi.s32 {y}, {a}, {b}, {c};", "u32", "u32")
    group.form("mad.hi.cc.u32 {x}, {a}, {b}, {c};\nmadc.lo.cc.u32 {y}, {b}, {c}, {a};\naddc.u32 {z}, {a}, {b};", "u32", "u32", "u32")
    group.end()
    group = Group(suite, ptx, "carry64", triples64, [8, 8, 8])
    group.form("add.cc.u64 {x}, {a}, {b};\naddc.cc.u64 {y}, {b}, {c};\naddc.u64 {z}, {c}, {a};", "u64", "u64", "u64")
    group.form("sub.cc.s64 {x}, {a}, {b};\nsubc.cc.s64 {y}, {b}, {c};\nsubc.s64 {z}, {c}, {a};", "u64", "u64", "u64")
    group.form("mad.lo.cc.u64 {x}, {a}, {b}, {c};\nmadc.hi.cc.u64 {y}, {a}, {b}, {c};\naddc.u64 {z}, 0, 0;", "u64", "u64", "u64")
    group.end()


def add(suite):
    """Adds the family."""
    made = {bits: arithmetic(suite, bits) for bits in (16, 32, 64)}
    for bits in (16, 32, 64):
        shifts(suite, bits)
    carries(suite, made[32][0], made[32][1], made[64][1])
