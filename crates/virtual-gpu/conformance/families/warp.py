"""Instructions of a whole warp: shuffles, votes, matches, reductions, elections."""

from .common import Group

FULL = "0xffffffff"


def shuffles(suite, words, indices):
    group = Group(suite, "warp.ptx", "shfl", [words, indices], [4, 4])

    def form(mode, b, c, label):
        text = f"mov.b32 %r20, {{b}};\nshfl.sync.{mode}.b32 {{x}}|%p4, {{a}}, {b}, {c}, {FULL};\nselp.u16 {{y}}, 1, 0, %p4;"
        group.form(text, "u32", "u16", label=f"shfl.{mode} {label}")

    for mode in ["up", "down", "bfly", "idx"]:
        for width in [32, 16, 8, 2]:
            # c is the clamp (0 for up) with the segment mask above, as CUDA's intrinsics make it.
            c = (32 - width) << 8 | (0 if mode == "up" else 31)
            for b in [0, 1, 3, 7, 16, 31, 33]:
                form(mode, b, c, f"{b} of {width}")
            form(mode, "%r20", c, f"each its own of {width}")
        # Clamps that no intrinsic makes.
        form(mode, 5, 12, "clamp 12")
        form(mode, "%r20", 0x0C1B, "segments of 4 and 16, clamp 27")
    group.end()


def divergent(suite, words):
    """The same instructions where half of the warp, or the odd lanes, take another path with other members."""
    group = Group(suite, "warp.ptx", "divergent", [words], [4])
    bodies = {
        "shfl.bfly": "shfl.sync.bfly.b32 {{x}}, {{a}}, 2, 31, {m};",
        "vote.ballot": "and.b32 %r21, {{a}}, 1;\nsetp.eq.u32 %p5, %r21, 1;\nvote.sync.ballot.b32 {{x}}, %p5, {m};",
        "match.any": "and.b32 %r21, {{a}}, 3;\nmatch.any.sync.b32 {{x}}, %r21, {m};",
        "redux.add": "redux.sync.add.u32 {{x}}, {{a}}, {m};",
        "redux.max": "redux.sync.max.s32 {{x}}, {{a}}, {m};",
        "elect": "elect.sync {{x}}|%p5, {m};\n@%p5 add.u32 {{x}}, {{x}}, 100;",
        "activemask": "activemask.b32 {{x}};",
        "syncwarp": "bar.warp.sync {m};\nshfl.sync.idx.b32 {{x}}, {{a}}, 17, 31, {m};",
    }
    cuts = {
        "half": ("setp.lt.u32 %p4, %r20, 16;", "0x0000ffff", "0xffff0000"),
        "even": ("and.b32 %r22, %r20, 1;\nsetp.eq.u32 %p4, %r22, 0;", "0x55555555", "0xaaaaaaaa"),
    }
    count = 0
    for cut, (test, yes, no) in cuts.items():
        for name, body in bodies.items():
            if name == "syncwarp" and cut == "even":
                continue
            last = body if name != "syncwarp" else body.replace("17", "3")
            text = (
                f"mov.u32 %r20, %laneid;\n{test}\nmov.b32 {{x}}, 0;\n@%p4 bra YES{count};\n"
                + body.format(m=no)
                + f"\nbra.uni MEET{count};\nYES{count}:\n"
                + last.format(m=yes)
                + f"\nMEET{count}:\nbar.warp.sync {FULL};"
            )
            group.form(text, "u32", label=f"{name} by {cut}")
            count += 1
    group.end()


def votes(suite, words, wide):
    group = Group(suite, "warp.ptx", "votes", [words, wide], [4, 8])
    # Predicates that hold nowhere, in some lanes, in lanes of some warps only, and everywhere.
    tests = {
        "none": "setp.ne.u32 %p4, {a}, {a};",
        "some": "setp.gt.s32 %p4, {a}, 0;",
        "warps": "and.b32 %r20, %r1, 32;\nsetp.eq.u32 %p4, %r20, 0;",
        "all": "setp.eq.u32 %p4, {a}, {a};",
    }
    for name, test in tests.items():
        for mode in ["all", "any", "uni"]:
            for bang in ["", "!"]:
                text = f"{test}\nvote.sync.{mode}.pred %p5, {bang}%p4, {FULL};\nselp.u16 {{x}}, 1, 0, %p5;"
                group.form(text, "u16", label=f"vote.{mode} {bang}{name}")
        group.form(f"{test}\nvote.sync.ballot.b32 {{x}}, %p4, {FULL};", "u32", label=f"vote.ballot {name}")
    for mask in [0, 3, 0xFFFFFFFF]:
        group.form(f"and.b32 %r20, {{a}}, {mask};\nmatch.any.sync.b32 {{x}}, %r20, {FULL};", "u32", label=f"match.any {mask}")
        text = f"and.b32 %r20, {{a}}, {mask};\nmatch.all.sync.b32 {{x}}|%p4, %r20, {FULL};\nselp.u16 {{y}}, 1, 0, %p4;"
        group.form(text, "u32", "u16", label=f"match.all {mask}")
        group.form(f"and.b64 %l20, {{b}}, {mask * 0x100000001};\nmatch.any.sync.b64 {{x}}, %l20, {FULL};", "u32")
    for op in ["add", "min", "max"]:
        for sign in "us":
            group.form(f"redux.sync.{op}.{sign}32 {{x}}, {{a}}, {FULL};", "u32")
    for op in ["and", "or", "xor"]:
        group.form(f"or.b32 %r20, {{a}}, 0x00ff0000;\nredux.sync.{op}.b32 {{x}}, %r20, {FULL};", "u32")
    group.form(f"elect.sync {{x}}|%p4, {FULL};\nselp.u16 {{y}}, 1, 0, %p4;", "u32", "u16")
    group.form("activemask.b32 {x};", "u32")
    for name in ["laneid", "lanemask_eq", "lanemask_le", "lanemask_lt", "lanemask_ge", "lanemask_gt"]:
        group.form(f"mov.u32 {{x}}, %{name};", "u32", label=name)
    group.end()


def add(suite):
    """Adds the family."""
    words = suite.table("words", {"random": "u32", "seed": 21, "count": 128})
    wide = suite.table("wides", {"random": "u64", "seed": 22, "count": 128})
    indices = suite.table("lanes", {"hex": b"".join((i * 7 % 37).to_bytes(4, "little") for i in range(128)).hex()})
    shuffles(suite, words, indices)
    votes(suite, words, wide)
    divergent(suite, words)
