"""Tables of operands, PTX text and cases: what the families of kernels are written with.

A *form* is one spelling of an instruction, such as `add.rz.ftz.f32`. A kernel made by `Group` applies all forms of one
group to the same operands, thread by thread, and writes the result of form k as the k-th section of its output, so that
a few kernels cover hundreds of forms and a difference can be named by form and element.
"""

import struct

HEADER = ".version 9.0\n.target {target}\n.address_size 64\n"
EXACT = "exact"
WIDTH = {"u8": 1, "u16": 2, "u32": 4, "u64": 8, "f16": 2, "bf16": 2, "f32": 4, "f64": 8}
# Threads of a block of the generated kernels.
BLOCK = 128


def splitmix64(seed):
    """Yields the numbers of Vigna's splitmix64; `tests/conformance/tables.rs` has the same."""
    state = seed
    while True:
        state = (state + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
        yield z ^ (z >> 31)


def small_float(x, width):
    """Returns k/512 for a k in [-512, 511] as bits of f32, f16 or bf16: exact in all but bf16, which cuts."""
    bits = struct.unpack("<I", struct.pack("<f", ((x >> 54) - 512) / 512.0))[0]
    if width == "f32":
        return bits
    if width == "bf16":
        return bits >> 16
    if bits == 0:
        return 0
    exponent = ((bits >> 23) & 0xFF) - 112
    return (bits >> 31) << 15 | exponent << 10 | (bits >> 13) & 0x3FF


def small_integer(x, width):
    """Returns an integer in [-8, 7] as bits of f32, f16, bf16 or s8: sums of products of these are exact."""
    value = (x >> 60) - 8
    if width == "s8":
        return value & 0xFF
    bits = struct.unpack("<I", struct.pack("<f", float(value)))[0]
    if width == "f32":
        return bits
    if width == "bf16":
        return bits >> 16
    if value == 0:
        return 0
    return (bits >> 31) << 15 | (((bits >> 23) & 0xFF) - 112) << 10 | (bits >> 13) & 0x3FF


# kind -> (bytes of an element, bits from a random number)
KINDS = {
    "u8": (1, lambda x: x >> 56),
    "u16": (2, lambda x: x >> 48),
    "u32": (4, lambda x: x >> 32),
    "u64": (8, lambda x: x),
    # floats of magnitude 2^-7 to 2^8, where sums and products neither overflow nor vanish
    "near32": (4, lambda x: (x >> 63) << 31 | (120 + ((x >> 32) & 15)) << 23 | x & 0x7FFFFF),
    "near64": (8, lambda x: (x >> 63) << 63 | (1016 + ((x >> 52) & 15)) << 52 | x & 0xFFFFFFFFFFFFF),
    "near16": (2, lambda x: (x >> 63) << 15 | (11 + ((x >> 32) & 7)) << 10 | x & 0x3FF),
    "nearbf": (2, lambda x: (x >> 63) << 15 | (120 + ((x >> 32) & 15)) << 7 | x & 0x7F),
    "f16": (2, lambda x: small_float(x, "f16")),
    "bf16": (2, lambda x: small_float(x, "bf16")),
    "f32": (4, lambda x: small_float(x, "f32")),
    "i8": (1, lambda x: small_integer(x, "s8")),
    "if16": (2, lambda x: small_integer(x, "f16")),
    "ibf16": (2, lambda x: small_integer(x, "bf16")),
    "if32": (4, lambda x: small_integer(x, "f32")),
}


def table_bytes(tables, name):
    """Returns the bytes of a table. `tests/conformance/tables.rs` does the same."""
    return b"".join(part_bytes(part) for part in tables[name])


def part_bytes(part):
    """Returns the bytes of one part of a table: literal bytes, a column of a product of literals, or random numbers."""
    if "hex" in part:
        return bytes.fromhex(part["hex"])
    if "product" in part:
        width, arity, column = part["width"], part["arity"], part["column"]
        values = bytes.fromhex(part["product"])
        values = [values[i : i + width] for i in range(0, len(values), width)]
        count, stride = len(values), len(values) ** (arity - 1 - column)
        return b"".join(values[i // stride % count] for i in range(count**arity))
    width, bits = KINDS[part["random"]]
    numbers = splitmix64(part["seed"])
    return b"".join(bits(next(numbers)).to_bytes(width, "little") for _ in range(part["count"]))


class Suite:
    """The tables and the PTX files with their cases, in order."""

    def __init__(self):
        self.tables = {}
        self.files = {}
        self.sources = {}

    def table(self, name, *parts):
        """Names a table; the same name again must mean the same."""
        assert self.tables.setdefault(name, list(parts)) == list(parts), name
        return name

    def size(self, name):
        return len(table_bytes(self.tables, name))

    def columns(self, name, edges, width, arity, random, count, rows=()):
        """Makes `arity` tables: all tuples of `edges`, then `count` random ones, then the given rows."""
        literal = b"".join(value.to_bytes(width, "little") for value in edges).hex()
        tables = []
        for column in range(arity):
            parts = [
                {"product": literal, "width": width, "arity": arity, "column": column},
                {"random": random, "seed": arity * 16 + column + sum(name.encode()), "count": count},
            ]
            if rows:
                parts.append({"hex": b"".join(row[column].to_bytes(width, "little") for row in rows).hex()})
            tables.append(self.table(f"{name}.{column}", *parts))
        return tables

    def kernel(self, ptx, text, target="sm_90a"):
        """Adds a kernel's text to a generated PTX file."""
        self.sources.setdefault(ptx, HEADER.format(target=target))
        self.sources[ptx] += "\n" + text

    def case(self, ptx, name, args, out, *, kernel=None, grid=1, block=BLOCK, cluster=1, shared=0, init=None):
        """Adds a case. `args` are table names, ("u32", n) and "out"; `out` is a list of (label, type, count, rule)."""
        shape = lambda x: list(x) + [1] * (3 - len(x)) if isinstance(x, (tuple, list)) else [x, 1, 1]
        sections = []
        for label, kind, count, rule in out:
            sections.append({"label": label, "type": kind, "count": count, "rule": rule})
        value = {
            "name": name,
            "kernel": kernel or name,
            "grid": shape(grid),
            "block": shape(block),
            "cluster": shape(cluster),
            "shared": shared,
            "args": [{"out": True} if a == "out" else {"table": a} if isinstance(a, str) else {a[0]: a[1]} for a in args],
            "out": sections,
        }
        if init:
            value["init"] = init
        cases = self.files.setdefault(ptx, [])
        assert name not in (case["name"] for case in cases), name
        cases.append(value)


class Group:
    """A kernel that applies several forms to the same operands."""

    LOADS = {1: ("u8", "%h"), 2: ("b16", "%h"), 4: ("b32", "%r"), 8: ("b64", "%l")}

    def __init__(self, suite, ptx, name, inputs, widths, block=BLOCK):
        self.suite, self.ptx, self.name, self.block = suite, ptx, name, block
        self.inputs, self.widths = inputs, widths
        self.count = suite.size(inputs[0]) // widths[0]
        for table, width in zip(inputs, widths):
            assert suite.size(table) // width == self.count, (name, table)
        self.body, self.out, self.offset = [], [], 0

    def form(self, text, *results, label=None):
        """Adds a form. `text` may use {a} {b} {c} {d...} for operands, {x} {y} {z} for results (of `results`, each a
        type or (type, rule)), and %p4.., %h20.., %r20.., %l20.. as scratch registers."""
        names, stores = {}, []
        for i, table in enumerate(self.inputs):
            names["abcdefgh"[i]] = f"{self.LOADS[self.widths[i]][1]}{10 + i}"
        for i, result in enumerate(results):
            kind, rule = result if isinstance(result, tuple) else (result, EXACT)
            elements = 1
            if "x" in kind:
                kind, elements = kind.split("x")[0], int(kind.split("x")[1])
            width = WIDTH[kind] * elements
            load, prefix = self.LOADS[width]
            names["xyz"[i]] = f"{prefix}{16 + i}"
            stores.append(f"mad.wide.u32 %l3, %r1, {width}, %l2;")
            stores.append(f"st.global.{load} [%l3+{self.offset}], {prefix}{16 + i};")
            form = label or text.strip().split("\n")[-1].split()[0]
            suffix = "" if len(results) == 1 else f" {'xyz'[i]}"
            self.out.append((form + suffix, kind, self.count * elements, rule))
            self.offset += self.count * width
            assert self.offset % 8 == 0, (self.name, self.count)
        lines = [line.strip().format(**names) for line in text.strip().split("\n")]
        self.body += lines + stores
        return self

    def end(self):
        """Writes the kernel and its case."""
        params = [f".param .u64 p{i}" for i in range(len(self.inputs))] + [".param .u64 out", ".param .u32 n"]
        lines = [
            ".reg .pred %p<10>;",
            ".reg .b16 %h<32>;",
            ".reg .b32 %r<40>;",
            ".reg .b64 %l<40>;",
            "ld.param.u64 %l2, [out];",
            "ld.param.u32 %r0, [n];",
            "mov.u32 %r1, %ctaid.x;",
            "mov.u32 %r2, %ntid.x;",
            "mov.u32 %r3, %tid.x;",
            "mad.lo.u32 %r1, %r1, %r2, %r3;",
            "setp.ge.u32 %p0, %r1, %r0;",
            "@%p0 bra DONE;",
        ]
        for i, width in enumerate(self.widths):
            load, prefix = self.LOADS[width]
            lines += [
                f"ld.param.u64 %l0, [p{i}];",
                f"mad.wide.u32 %l1, %r1, {width}, %l0;",
                f"ld.global.{load} {prefix}{10 + i}, [%l1];",
            ]
        text = f".visible .entry {self.name}({', '.join(params)})\n{{\n"
        text += "".join(f"\t{line}\n" for line in lines + self.body) + "DONE:\n\tret;\n}\n"
        self.suite.kernel(self.ptx, text)
        grid = -(-self.count // self.block)
        self.suite.case(
            self.ptx, self.name, [*self.inputs, "out", ("u32", self.count)], self.out, grid=grid, block=self.block
        )
