"""Floating-point arithmetic, comparisons and approximations of 16, 32 and 64 bits."""

from .common import Group

F32 = [0x00000000, 0x80000000, 0x00000001, 0x007FFFFF, 0x807FFFFF, 0x00800000, 0x80800000, 0x3F800000, 0xBF800000]
F32 += [0x3F800001, 0x3F7FFFFF, 0x3F000000, 0x3FC00000, 0x40200000, 0xC0200000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000]
F32 += [0xFF800000, 0x7FC00000, 0x7F800001, 0xFFC12345, 0x40400000, 0x4B000001, 0x4EFFFFFF, 0x33800000, 0x1E3CE508]
FEW32 = [0, 0x80000000, 1, 0x807FFFFF, 0x00800000, 0x3F800000, 0xBF800000, 0x3F800001, 0x7F7FFFFF, 0x7F800000]
FEW32 += [0xFF800000, 0x7FC00000, 0x5F000001]
F64 = [0, 1 << 63, 1, 0x000FFFFFFFFFFFFF, 0x0010000000000000, 0x8010000000000000, 0x3FF0000000000000]
F64 += [0xBFF0000000000000, 0x3FF0000000000001, 0x3FE0000000000000, 0x4004000000000000, 0x7FEFFFFFFFFFFFFF]
F64 += [0xFFEFFFFFFFFFFFFF, 0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000, 0x36A0000000000001]
F64 += [0xFFF8000012345678, 0x7FF0000000000001]
FEW64 = [0, 1 << 63, 1, 0x0010000000000000, 0x3FF0000000000000, 0xBFF0000000000001, 0x7FEFFFFFFFFFFFFF]
FEW64 += [0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000]
F16 = [0, 0x8000, 1, 0x3FF, 0x83FF, 0x400, 0x8400, 0x3C00, 0xBC00, 0x3C01, 0x3BFF, 0x3800, 0x4248, 0x6400, 0x1400]
F16 += [0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0x7C01, 0xFE12, 0x2E66, 0xC900]
FEW16 = [0, 0x8000, 1, 0x83FF, 0x400, 0x3C00, 0xBC01, 0x7BFF, 0x7C00, 0xFC00, 0x7E00, 0x4248]
BF16 = [0, 0x8000, 1, 0x7F, 0x807F, 0x80, 0x8080, 0x3F80, 0xBF80, 0x3F81, 0x3F7F, 0x3F00, 0x4049, 0x4B00, 0x3380]
BF16 += [0x7F7F, 0xFF7F, 0x7F80, 0xFF80, 0x7FC0, 0x7F81, 0xFFC5, 0x0100, 0xC2F7]
FEWBF = [0, 0x8000, 1, 0x807F, 0x80, 0x3F80, 0xBF81, 0x7F7F, 0x7F80, 0xFF80, 0x7FC0, 0x4049]

# Exact results just below the least normal number, which rounding can lift to it: what .ftz does there depends on
# whether it looks before or after the rounding. By operands: one, two, three.
LIFTED32 = {
    1: [(x,) for x in (0x7E800001, 0xFE800001, 0x7E7FFFFF, 0x7EFFFFFF, 0x7F000000, 0x7E800000, 0x00FFFFFF, 0x7FFFFFFF)],
    2: [(0x3F7FFFFF, 0x00800000), (0xBF7FFFFF, 0x00800000), (0x00FFFFFF, 0x3F000000), (0x00800001, 0x3F7FFFFF)]
    + [(0x00FFFFFF, 0x40000000), (0x00800000, 0x3F800001), (0x80800000, 0x3F800001), (0x20000000, 0x1FFFFFFF)],
    3: [(0x3F7FFFFF, 0x00800000, 0), (0xBF7FFFFF, 0x00800000, 0x80000000), (0x3F7FFFFF, 0x00800000, 1)]
    + [(0x1E3CE508, 0x9E3CE508, 0x00800000), (0x0A000000, 0x8A000000, 0x00800000), (0x0A000000, 0x0A000000, 0x80800000)]
    + [(0x0A000000, 0x8A000000, 0x00800001), (0x3F000000, 0x01000000, 0x8A000000)],
}
LIFTED16 = {
    1: [(x,) for x in (0x3BFF, 0xBBFF, 0x03FE, 0x0401, 0x7FFF, 0xFFFF, 0x7D00, 0x0200)],
    2: [(0x3BFF, 0x0400), (0xBBFF, 0x0400), (0x07FF, 0x3800), (0x0401, 0x3BFF)]
    + [(0x3BFE, 0x0400), (0x0400, 0x0001), (0x8400, 0x3BFF), (0x2000, 0x1FFF)],
    3: [(0x3BFF, 0x0400, 0), (0xBBFF, 0x0400, 0x8000), (0x3BFF, 0x0400, 1), (0x0C00, 0x8C00, 0x0400)]
    + [(0x0C00, 0x0C00, 0x8400), (0x3BFF, 0x0400, 0x8001), (0x0400, 0x8400, 0x0400), (0x3800, 0x0800, 0x8001)],
}

# A NaN is as good as any other; everything else is to the bit.
NAN = {"ulp": 0}
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]
UNORDERED = [c + "u" for c in COMPARISONS] + ["num", "nan"]


def operands(suite, name, edges, few, width, random, rows=None):
    """Makes the tables of one, two and three operands; `rows` are some more, by the number of operands."""
    size = lambda n, k: 128 + -(n + (len(rows[k]) if rows else 0)) % 16
    return [
        suite.columns(f"{name}x{k}", list(e), width, k, random, size(len(e) ** k, k), rows[k] if rows else ())
        for k, e in ((1, edges), (2, edges), (3, few))
    ]


def arithmetic(suite, bits, tables):
    """add, sub, mul, fma, div, sqrt and rcp with every rounding, ftz and saturation; f64 has neither of the last."""
    ptx, w, kind = f"f{bits}.ptx", bits // 8, f"f{bits}"
    one, two, three = tables
    flush = ["", ".ftz"] if bits == 32 else [""]
    saturate = ["", ".sat"] if bits == 32 else [""]
    group = Group(suite, ptx, f"arithmetic{bits}", two, [w, w])
    for op in ["add", "sub", "mul"]:
        for round in ["rn", "rz", "rm", "rp"]:
            for ftz in flush:
                for sat in saturate if round == "rn" else [""]:
                    group.form(f"{op}.{round}{ftz}{sat}.f{bits} {{x}}, {{a}}, {{b}};", kind)
    group.end()
    group = Group(suite, ptx, f"divide{bits}", two, [w, w])
    for round in ["rn", "rz", "rm", "rp"]:
        for ftz in flush:
            group.form(f"div.{round}{ftz}.f{bits} {{x}}, {{a}}, {{b}};", kind)
    for op in ["min", "max"]:
        for ftz in flush:
            for nan in ["", ".NaN"] if bits == 32 else [""]:
                group.form(f"{op}{ftz}{nan}.f{bits} {{x}}, {{a}}, {{b}};", kind)
    group.form(f"copysign.f{bits} {{x}}, {{a}}, {{b}};", kind)
    group.end()
    group = Group(suite, ptx, f"fma{bits}", three, [w, w, w])
    for round in ["rn", "rz", "rm", "rp"]:
        for ftz in flush:
            for sat in saturate if round == "rn" else [""]:
                group.form(f"fma.{round}{ftz}{sat}.f{bits} {{x}}, {{a}}, {{b}}, {{c}};", kind)
    if bits == 32:
        group.form("slct.f32.s32 {x}, {a}, {b}, {c};", kind).form("slct.f32.f32 {x}, {a}, {b}, {c};", kind)
        group.form("slct.ftz.u32.f32 {x}, {a}, {b}, {c};", "u32")
    group.end()
    group = Group(suite, ptx, f"unary{bits}", one, [w])
    for op in ["sqrt", "rcp"]:
        for round in ["rn", "rz", "rm", "rp"]:
            for ftz in flush:
                group.form(f"{op}.{round}{ftz}.f{bits} {{x}}, {{a}};", kind)
    for op in ["neg", "abs"]:
        for ftz in flush:
            group.form(f"{op}{ftz}.f{bits} {{x}}, {{a}};", kind)
    group.end()


def comparisons(suite, name, kind, width, two):
    """setp, selp and set of a type, as 1 and 0; combined with another predicate in a second group."""
    group = Group(suite, "compare.ptx", f"setp_{name}", two, [width, width])
    integer = kind[0] in "us"
    for cmp in COMPARISONS + ([] if integer else UNORDERED):
        for ftz in ["", ".ftz"] if kind == "f32" else [""]:
            head = f"setp.{cmp}{ftz}.{kind}"
            group.form(f"{head} %p4, {{a}}, {{b}};\nselp.u16 {{x}}, 1, 0, %p4;", "u16", label=head)
    if kind in ("f32", "s32", "u32"):
        for cmp in ["lt", "eq", "ge"]:
            for op in ["and", "or", "xor"]:
                head = f"setp.{cmp}.{op}.{kind}"
                group.form(
                    f"setp.gt.u32 %p6, %r1, 200;\n{head} %p4|%p5, {{a}}, {{b}}, %p6;\n"
                    "selp.u16 {x}, 1, 0, %p4;\nselp.u16 {y}, 1, 0, %p5;",
                    "u16", "u16", label=head)
                group.form(
                    f"setp.gt.u32 %p6, %r1, 200;\n{head} %p4|%p5, {{a}}, {{b}}, !%p6;\n"
                    "selp.u16 {x}, 1, 0, %p4;\nselp.u16 {y}, 1, 0, %p5;",
                    "u16", "u16", label=head + " not")
            group.form(f"set.{cmp}.u32.{kind} {{x}}, {{a}}, {{b}};", "u32")
            group.form(f"set.{cmp}.f32.{kind} {{x}}, {{a}}, {{b}};", "f32")
    group.end()


def predicates(suite, two):
    """Logic on predicates, and the unsigned spellings lo, ls, hi, hs."""
    group = Group(suite, "compare.ptx", "predicates", two, [4, 4])
    head = "setp.lt.u32 %p4, {a}, {b};\nsetp.lt.s32 %p5, {a}, {b};\n"
    for op in ["and", "or", "xor"]:
        group.form(head + f"{op}.pred %p6, %p4, %p5;\nselp.b32 {{x}}, {{a}}, {{b}}, %p6;", "u32", label=f"{op}.pred")
    group.form(head + "not.pred %p6, %p5;\nselp.b32 {x}, {a}, {b}, %p6;", "u32", label="not.pred")
    group.form(head + "mov.pred %p6, %p5;\n@!%p6 mov.b32 {a}, {b};\nadd.u32 {x}, {a}, {b};", "u32", label="guard")
    for cmp in ["lo", "ls", "hi", "hs"]:
        group.form(f"setp.{cmp}.u32 %p4, {{a}}, {{b}};\nselp.u16 {{x}}, 1, 0, %p4;", "u16", label=cmp)
    group.end()


def halves(suite, kind, edges, few):
    """f16 or bf16 arithmetic, one by one and in pairs."""
    near = "near16" if kind == "f16" else "nearbf"
    one, two, three = operands(suite, kind, edges, few, 2, near, LIFTED16 if kind == "f16" else None)
    ptx = f"{kind}.ptx"
    for suffix, width, result in (("", 2, kind), ("x2", 4, f"{kind}x2")):
        ty = kind + suffix
        group = Group(suite, ptx, f"binary_{ty}", two, [width, width])
        for op in ["add", "sub", "mul"]:
            for mod in ["", ".rn", ".ftz", ".sat", ".ftz.sat"] if kind == "f16" else [".rn"]:
                group.form(f"{op}{mod}.{ty} {{x}}, {{a}}, {{b}};", result)
        for op in ["min", "max"]:
            for mod in ["", ".NaN", ".ftz"] if kind == "f16" else ["", ".NaN"]:
                group.form(f"{op}{mod}.{ty} {{x}}, {{a}}, {{b}};", result)
        group.end()
        group = Group(suite, ptx, f"fma_{ty}", three, [width] * 3)
        for mod in ["", ".ftz", ".sat", ".relu"] if kind == "f16" else ["", ".relu"]:
            group.form(f"fma.rn{mod}.{ty} {{x}}, {{a}}, {{b}}, {{c}};", result)
        group.end()
        group = Group(suite, ptx, f"unary_{ty}", one, [width])
        group.form(f"neg.{ty} {{x}}, {{a}};", result).form(f"abs.{ty} {{x}}, {{a}};", result)
        ulp = {"ulp": 2}
        if kind == "f16":
            group.form(f"ex2.approx.{ty} {{x}}, {{a}};", (result, ulp))
        else:
            group.form(f"ex2.approx.ftz.{ty} {{x}}, {{a}};", (result, {"ulp": 1}))
        group.form(f"tanh.approx.{ty} {{x}}, {{a}};", (result, {"ulp": 2, "abs": 1e-3 if kind == "f16" else 8e-3}))
        group.end()
    group = Group(suite, ptx, f"setp_{kind}", two, [2, 2])
    for cmp in COMPARISONS + UNORDERED:
        head = f"setp.{cmp}.{kind}"
        group.form(f"{head} %p4, {{a}}, {{b}};\nselp.u16 {{x}}, 1, 0, %p4;", "u16", label=head)
    group.end()
    group = Group(suite, ptx, f"setp_{kind}x2", two, [4, 4])
    for cmp in ["lt", "neu", "ge", "nan"]:
        head = f"setp.{cmp}.{kind}x2"
        group.form(
            f"{head} %p4|%p5, {{a}}, {{b}};\nselp.u16 {{x}}, 1, 0, %p4;\nselp.u16 {{y}}, 1, 0, %p5;",
            "u16", "u16", label=head)
    group.end()


def approximations(suite):
    """The fast forms, within the errors that the PTX ISA states (9.7.3), plus half a unit for the other's rounding."""
    edges = F32 + [0x42FE0000, 0x43000000, 0xC2FC0000, 0xC3150000, 0xC3160000, 0x40490FDB, 0x3FC90FDB, 0x40C90FDB]
    one = [
        suite.table(
            "approx",
            {"hex": b"".join(e.to_bytes(4, "little") for e in edges).hex()},
            {"random": "near32", "seed": 77, "count": 1000 + -len(edges) % 16},
            {"random": "f32", "seed": 78, "count": 1000},
        )
    ]
    group = Group(suite, "approx.ptx", "approx", one, [4])
    rel = lambda bits, abs=0.0: {"rel": 2.0**-bits + 2.0**-24, "abs": abs}
    for ftz in ["", ".ftz"]:
        group.form(f"ex2.approx{ftz}.f32 {{x}}, {{a}};", ("f32", rel(22, 0.0 if ftz else 2.0**-148)))
        group.form(f"lg2.approx{ftz}.f32 {{x}}, {{a}};", ("f32", rel(22, 2.0**-22)))
        group.form(f"rcp.approx{ftz}.f32 {{x}}, {{a}};", ("f32", {"ulp": 1}))
        group.form(f"sqrt.approx{ftz}.f32 {{x}}, {{a}};", ("f32", rel(23, 0.0 if ftz else 2.0**-148)))
        group.form(f"rsqrt.approx{ftz}.f32 {{x}}, {{a}};", ("f32", rel(22.9)))
    group.form("tanh.approx.f32 {x}, {a};", ("f32", rel(11)))
    group.end()
    # Sine and cosine have an absolute error within 2 pi; the table stays within 8.
    angles = [suite.table("angles", {"random": "f32", "seed": 79, "count": 1024})]
    group = Group(suite, "approx.ptx", "angles", angles, [4])
    for op in ["sin", "cos"]:
        for ftz in ["", ".ftz"]:
            text = f"mul.rn.f32 %r20, {{a}}, 0f40C00000;\n{op}.approx{ftz}.f32 {{x}}, %r20;"
            group.form(text, ("f32", {"abs": 2.0**-20}))
    group.end()
    two = suite.columns("quotients", [0x3F800000, 0xC0400000, 0x3F000000, 0x7F800000, 0x7FC00000, 0, 0x80000000], 4, 2,
                        "near32", 1000 + -49 % 16)
    group = Group(suite, "approx.ptx", "quotients", two, [4, 4])
    for op in ["div.approx", "div.approx.ftz", "div.full", "div.full.ftz"]:
        group.form(f"{op}.f32 {{x}}, {{a}}, {{b}};", ("f32", {"ulp": 2}))
    group.end()


def add(suite):
    """Adds the family."""
    f32 = operands(suite, "f32", F32, FEW32, 4, "near32", LIFTED32)
    f64 = operands(suite, "f64", F64, FEW64, 8, "near64")
    arithmetic(suite, 32, f32)
    arithmetic(suite, 64, f64)
    for name, kind, width, two in [
        ("f32", "f32", 4, f32[1]),
        ("f64", "f64", 8, f64[1]),
        *((f"{s}{b}", f"{s}{b}", b // 8, [f"i{b}x2.0", f"i{b}x2.1"]) for b in (16, 32, 64) for s in "us"),
    ]:
        comparisons(suite, name, kind, width, two)
    predicates(suite, ["i32x2.0", "i32x2.1"])
    halves(suite, "f16", F16, FEW16)
    halves(suite, "bf16", BF16, FEWBF)
    approximations(suite)
