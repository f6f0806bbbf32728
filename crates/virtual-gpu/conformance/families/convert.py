"""Conversions: integer to integer, to and from floats, and between floats, with every rounding."""

import struct

from .common import Group
from .floating import BF16, F16, F32, F64
from .integer import EDGES

INTEGERS = ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"]
BITS = lambda ty: int(ty[1:]) if ty[0] in "us" else {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}[ty]
# Around the limits of integers, and halves between them.
BORDERS = [0.5, -0.5, 1.5, 2.5, -1.5, 0.49999997, 126.5, 127.5, 128.0, -128.5, -129.0, 255.5, 256.0, 32767.5, 32768.0]
BORDERS += [-32768.5, 65535.5, 65536.0, 2147483520.0, 2147483648.0, -2147483648.0, -2147483904.0, 4294967040.0]
# Just below the least normal f32 and f16, and the middle between the largest subnormal and that.
BORDERS += [1.1754943508222874e-38, -1.1754942807573643e-38, 1.1754943157898257e-38, 6.103515624e-5, 6.100535e-5]
BORDERS += [4294967296.0, 9.2233715e18, 9.223372e18, -9.223372e18, 1.8446743e19, 1.8446744e19, 1e30, 0.1, 3e-39]


def sources(suite):
    """Makes one table per source type."""
    tables = {}
    for bits in (16, 32, 64):
        tables[bits] = [f"i{bits}x1.0"]
        pad = -len(EDGES[bits]) % 16
        suite.columns(f"i{bits}x1", EDGES[bits], bits // 8, 1, f"u{bits}", 240 + pad)
    made = {"u8": tables[16], "s8": tables[16]}
    for ty in INTEGERS[2:]:
        made[ty] = tables[BITS(ty)]
    for ty, edges, near, raw, pack in [
        ("f32", F32, "near32", "u32", "<f"),
        ("f64", F64, "near64", "u64", "<d"),
        ("f16", F16, "near16", "u16", None),
        ("bf16", BF16, "nearbf", "u16", None),
    ]:
        width = BITS(ty) // 8
        data = b"".join(e.to_bytes(width, "little") for e in edges)
        if pack:
            data += b"".join(struct.pack(pack, x) for x in BORDERS)
        count = len(data) // width
        made[ty] = [
            suite.table(
                f"cvt.{ty}",
                {"hex": data.hex()},
                {"random": near, "seed": 5, "count": 240 + -count % 16},
                {"random": raw, "seed": 6, "count": 256},
            )
        ]
    return made


def contains(to, ty):
    """Returns whether every value of `ty` is one of `to`; PTX then forbids to saturate."""
    return BITS(to) >= BITS(ty) if to[0] == ty[0] else to[0] == "s" and BITS(to) > BITS(ty)


def register(ty):
    """Returns the result type of a `Group`: bytes come back, extended, in 16-bit registers."""
    return {"u8": "u16", "s8": "u16"}.get(ty, ty if ty[0] in "fb" else f"u{BITS(ty)}")


def group_for(suite, ty, made):
    width = max(2, BITS(ty) // 8)
    return Group(suite, "cvt.ptx", f"cvt_{ty}", made[ty], [width])


def narrow(to, text):
    """8-bit destinations are registers of 16 bits with the value extended; the move makes that explicit."""
    return (text, register(to))


def add(suite):
    """Adds the family."""
    made = sources(suite)
    for ty in INTEGERS:
        group = group_for(suite, ty, made)
        for to in INTEGERS:
            if to != ty:
                group.form(f"cvt.{to}.{ty} {{x}}, {{a}};", register(to))
            if not contains(to, ty):
                group.form(f"cvt.sat.{to}.{ty} {{x}}, {{a}};", register(to))
        for to in ["f16", "f32", "f64"]:
            for round in ["rn", "rz", "rm", "rp"]:
                group.form(f"cvt.{round}.{to}.{ty} {{x}}, {{a}};", to)
        group.form(f"cvt.rn.sat.f32.{ty} {{x}}, {{a}};", "f32")
        if ty not in ("u8", "s8"):
            group.form(f"cvt.rn.bf16.{ty} {{x}}, {{a}};", "bf16")
        group.end()
    for ty in ["f16", "f32", "f64", "bf16"]:
        group = group_for(suite, ty, made)
        for to in INTEGERS:
            if ty == "bf16" and to in ("u8", "s8"):
                continue
            for round in ["rni", "rzi", "rmi", "rpi"]:
                group.form(f"cvt.{round}.{to}.{ty} {{x}}, {{a}};", register(to))
            if ty == "f32":
                group.form(f"cvt.rzi.ftz.{to}.f32 {{x}}, {{a}};", register(to))
                group.form(f"cvt.rni.sat.{to}.f32 {{x}}, {{a}};", register(to))
        if ty != "bf16":
            for round in ["rni", "rzi", "rmi", "rpi"]:
                group.form(f"cvt.{round}.{ty}.{ty} {{x}}, {{a}};", ty)
            group.form(f"cvt.sat.{ty}.{ty} {{x}}, {{a}};", ty)
        if ty == "f16":
            group.form("cvt.f32.f16 {x}, {a};", "f32").form("cvt.ftz.f32.f16 {x}, {a};", "f32")
            group.form("cvt.f64.f16 {x}, {a};", "f64").form("cvt.sat.f32.f16 {x}, {a};", "f32")
        if ty == "bf16":
            group.form("cvt.f32.bf16 {x}, {a};", "f32")
        if ty == "f32":
            from_single(group)
        if ty == "f64":
            for round in ["rn", "rz", "rm", "rp"]:
                group.form(f"cvt.{round}.f32.f64 {{x}}, {{a}};", "f32")
                group.form(f"cvt.{round}.f16.f64 {{x}}, {{a}};", "f16")
            group.form("cvt.rn.ftz.f32.f64 {x}, {a};", "f32").form("cvt.rn.sat.f32.f64 {x}, {a};", "f32")
        group.end()
    packed(suite)


def from_single(group):
    """From f32 to the narrower floats."""
    group.form("cvt.f64.f32 {x}, {a};", "f64").form("cvt.ftz.f64.f32 {x}, {a};", "f64")
    group.form("cvt.ftz.sat.f32.f32 {x}, {a};", "f32").form("cvt.rni.ftz.f32.f32 {x}, {a};", "f32")
    for round in ["rn", "rz", "rm", "rp"]:
        group.form(f"cvt.{round}.f16.f32 {{x}}, {{a}};", "f16")
    group.form("cvt.rn.ftz.f16.f32 {x}, {a};", "f16").form("cvt.rn.sat.f16.f32 {x}, {a};", "f16")
    group.form("cvt.rna.tf32.f32 {x}, {a};", "u32")
    for to in ["f16", "bf16"]:
        for round in ["rn", "rz"]:
            for relu in ["", ".relu"]:
                group.form(f"cvt.{round}{relu}.{to}.f32 {{x}}, {{a}};", to)


def packed(suite):
    """Two values at once, 8-bit floats among them."""
    pairs = suite.columns("packed", F32[:24] + [0x43E00000, 0x43E80000, 0x3B000000, 0x47600000], 4, 2, "near32", 512)
    group = Group(suite, "cvt.ptx", "cvt_packed", pairs, [4, 4])
    for to in ["f16x2", "bf16x2"]:
        for round in ["rn", "rz"]:
            for relu in ["", ".relu"]:
                group.form(f"cvt.{round}{relu}.{to}.f32 {{x}}, {{a}}, {{b}};", "u32")
    for to in ["e4m3x2", "e5m2x2"]:
        for relu in ["", ".relu"]:
            group.form(f"cvt.rn.satfinite{relu}.{to}.f32 {{x}}, {{a}}, {{b}};", "u16")
    group.end()
    bytes_ = [suite.table("bytes", {"random": "u16", "seed": 9, "count": 1024})]
    group = Group(suite, "cvt.ptx", "cvt_bytes", bytes_, [2])
    for ty in ["e4m3x2", "e5m2x2"]:
        group.form(f"cvt.rn.f16x2.{ty} {{x}}, {{a}};", "f16x2").form(f"cvt.rn.relu.f16x2.{ty} {{x}}, {{a}};", "f16x2")
    group.end()
    pairs = suite.columns("packed16", F16, 2, 2, "near16", 512)
    group = Group(suite, "cvt.ptx", "cvt_halves", pairs[:1], [4])
    for to in ["e4m3x2", "e5m2x2"]:
        group.form(f"cvt.rn.satfinite.{to}.f16x2 {{x}}, {{a}};", "u16")
    group.end()
