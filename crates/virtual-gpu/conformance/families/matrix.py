"""Matrix instructions of a warp: ldmatrix, stmatrix and mma.sync with each thread's fragments straight from memory."""

WARPS = 4
THREADS = 32 * WARPS


def name_registers(prefix, count):
    return "{" + ", ".join(f"%{prefix}{i}" for i in range(count)) + "}"


def multiply(suite, name, shape, types, registers, tables, rule):
    """Adds an mma kernel: `types` are those of D, A, B and C; `registers` how many of each a thread holds."""
    wide = types[0] == "f64"
    width, ty = (8, "b64") if wide else (4, "b32")
    body = []
    for letter, pointer in (("a", "pa"), ("b", "pb"), ("c", "pc")):
        count = registers["abc".index(letter) + 1]
        body += [f"ld.param.u64 %l0, [{pointer}];", f"mad.wide.u32 %l0, %i1, {width * count}, %l0;"]
        body += [f"ld.global.{ty} %{letter}{i}, [%l0+{width * i}];" for i in range(count)]
    fragments = [name_registers(letter, count) for letter, count in zip("dabc", registers)]
    body.append(f"mma.sync.aligned.{shape}.row.col.{'.'.join(types)} {', '.join(fragments)};")
    body += ["ld.param.u64 %l0, [out];", f"mad.wide.u32 %l0, %i1, {width * registers[0]}, %l0;"]
    body += [f"st.global.{ty} [%l0+{width * i}], %d{i};" for i in range(registers[0])]
    declared = "".join(f"\t.reg .{ty} %{letter}<8>;\n" for letter in "abcd")
    text = (
        f".visible .entry {name}(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 out)\n{{\n"
        f"{declared}\t.reg .b32 %i<4>;\n\t.reg .b64 %l<2>;\n\tmov.u32 %i1, %tid.x;\n"
        + "".join(f"\t{line}\n" for line in body)
        + "\tret;\n}\n"
    )
    suite.kernel("mma.ptx", text)
    kind = {"f16": "f16", "s32": "u32"}.get(types[0], types[0])
    count = THREADS * registers[0] * (2 if kind == "f16" else 1)
    suite.case("mma.ptx", name, [*tables, "out"], [(f"mma {shape}", kind, count, rule)], block=THREADS)


def fragments(suite, kind, seed, count, bytes_per_register, registers):
    """A table of random elements that fills `registers` of each thread."""
    name = f"mma.{kind}.{seed}.{registers}"
    return suite.table(name, {"random": kind, "seed": seed, "count": THREADS * registers * bytes_per_register // count})


def multiplications(suite):
    # shape, D, A, C, registers of D A B C, kind of small integers, kind of random numbers, bytes of an element
    for shape, d, a, registers, whole, random, size in [
        ("m16n8k16", "f32", "f16", (4, 4, 2, 4), "if16", "f16", 2),
        ("m16n8k8", "f32", "f16", (4, 2, 1, 4), "if16", "f16", 2),
        ("m16n8k16", "f16", "f16", (2, 4, 2, 2), "if16", "f16", 2),
        ("m16n8k8", "f16", "f16", (2, 2, 1, 2), "if16", "f16", 2),
        ("m16n8k16", "f32", "bf16", (4, 4, 2, 4), "ibf16", "bf16", 2),
        ("m16n8k8", "f32", "bf16", (4, 2, 1, 4), "ibf16", "bf16", 2),
        ("m16n8k8", "f32", "tf32", (4, 4, 2, 4), "if32", "f32", 4),
        ("m16n8k4", "f32", "tf32", (4, 2, 1, 4), "if32", "f32", 4),
    ]:
        accumulator = {"f32": ("if32", "f32", 4), "f16": ("if16", "f16", 2)}[d]
        for suffix, kind, c_kind, rule in [
            ("exact", whole, accumulator[0], "exact"),
            ("random", random, accumulator[1], {"rel": 1e-5, "abs": 2e-6} if d == "f32" else {"rel": 2e-3, "abs": 4e-3}),
        ]:
            tables = [
                fragments(suite, kind, 31, size, 4, registers[1]),
                fragments(suite, kind, 32, size, 4, registers[2]),
                fragments(suite, c_kind, 33, accumulator[2], 4, registers[3]),
            ]
            multiply(suite, f"mma_{shape}_{d}_{a}_{suffix}", shape, (d, a, a, d), registers, tables, rule)
    for shape, registers in [("m16n8k16", (4, 2, 1, 4)), ("m16n8k32", (4, 4, 2, 4))]:
        for a, b in [("s8", "s8"), ("u8", "u8"), ("s8", "u8"), ("u8", "s8")]:
            tables = [
                fragments(suite, "u8", 34, 1, 4, registers[1]),
                fragments(suite, "u8", 35, 1, 4, registers[2]),
                fragments(suite, "u32", 36, 4, 4, registers[3]),
            ]
            multiply(suite, f"mma_{shape}_{a}_{b}", shape, ("s32", a, b, "s32"), registers, tables, "exact")
    tables = [fragments(suite, "near64", 37 + i, 8, 8, r) for i, r in enumerate((1, 1, 2))]
    multiply(suite, "mma_m8n8k4_f64", "m8n8k4", ("f64",) * 4, (2, 1, 1, 2), tables, {"rel": 1e-12, "abs": 1e-8})
    # Infinities, NaN, zeros and subnormals in a few places of otherwise small matrices.
    specials = [0x7C00, 0xFC00, 0x7E00, 0x8000, 1, 0x8001, 0x3FF, 0x7BFF]
    rows = b"".join((s if i % 13 == 5 else 0x3C00 + (i % 3) * 0x400).to_bytes(2, "little")
                    for i, s in enumerate((specials * 200)[: THREADS * 8])).hex()
    tables = [
        suite.table("mma.specials", {"hex": rows}),
        fragments(suite, "if16", 32, 2, 4, 2),
        fragments(suite, "if32", 33, 4, 4, 4),
    ]
    rule = {"rel": 1e-5, "abs": 2e-6}
    multiply(suite, "mma_specials", "m16n8k16", ("f32", "f16", "f16", "f32"), (4, 4, 2, 4), tables, rule)


def moves(suite):
    """ldmatrix of rows at scattered addresses, and stmatrix to them; each warp has 2 KiB of shared memory."""
    # Rows of 16 bytes at a stride of 80, so that neither order nor neighbours are given.
    prologue = (
        "\t.reg .b32 %r<16>;\n\t.reg .b64 %l<4>;\n\t.reg .pred %p<2>;\n"
        "\t.shared .align 16 .b8 tile[4096];\n"
        "\tmov.u32 %r0, %tid.x;\n\tmov.u32 %r1, tile;\n\tld.param.u64 %l0, [in];\n\tld.param.u64 %l1, [out];\n"
    )
    copy = "\tmul.lo.u32 %r2, %r0, 4;\nCOPY:\n\tcvt.u64.u32 %l2, %r2;\n\tadd.u64 %l2, %l2, %l0;\n"
    copy += "\tld.global.b32 %r3, [%l2];\n\tadd.u32 %r4, %r1, %r2;\n\tst.shared.b32 [%r4], %r3;\n"
    copy += "\tadd.u32 %r2, %r2, 128;\n\tsetp.lt.u32 %p0, %r2, 4096;\n\t@%p0 bra COPY;\n\tbar.sync 0;\n"
    # Row of lane i: (i * 5 % 32) * 80 bytes.
    row = "\tmul.lo.u32 %r5, %r0, 5;\n\tand.b32 %r5, %r5, 31;\n\tmad.lo.u32 %r5, %r5, 80, %r1;\n"
    head = ".visible .entry {name}(.param .u64 in, .param .u64 out)\n{{\n" + prologue
    tile = suite.table("tile", {"random": "u16", "seed": 41, "count": 2048})
    for count in (1, 2, 4):
        registers = "{" + ", ".join(f"%r{8 + i}" for i in range(count)) + "}"
        for trans in ("", ".trans"):
            suffix = f"x{count}{trans.replace('.', '_')}"
            text = head.format(name=f"ldmatrix_{suffix}") + copy + row
            text += f"\tldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {registers}, [%r5];\n"
            text += f"\tmad.wide.u32 %l2, %r0, {4 * count}, %l1;\n"
            text += "".join(f"\tst.global.b32 [%l2+{4 * i}], %r{8 + i};\n" for i in range(count)) + "\tret;\n}\n"
            suite.kernel("matrix.ptx", text)
            out = [(f"ldmatrix.{suffix}", "u16", 64 * count, "exact")]
            suite.case("matrix.ptx", f"ldmatrix_{suffix}", [tile, "out"], out, block=32)

            text = head.format(name=f"stmatrix_{suffix}") + copy + row
            text += f"\tmad.wide.u32 %l2, %r0, {4 * count}, %l0;\n"
            text += "".join(f"\tld.global.b32 %r{8 + i}, [%l2+{4 * i}];\n" for i in range(count))
            text += f"\tstmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%r5], {registers};\n\tbar.sync 0;\n"
            back = copy.replace("COPY", "BACK").replace("%l0", "%l1")
            back = back.replace("\tld.global.b32 %r3, [%l2];\n", "")
            back = back.replace("st.shared.b32 [%r4], %r3;", "ld.shared.b32 %r3, [%r4];\n\tst.global.b32 [%l2], %r3;")
            suite.kernel("matrix.ptx", text + back + "\tret;\n}\n")
            out = [(f"stmatrix.{suffix}", "u16", 2048, "exact")]
            suite.case("matrix.ptx", f"stmatrix_{suffix}", [tile, "out"], out, block=32)


def add(suite):
    """Adds the family."""
    moves(suite)
    multiplications(suite)
